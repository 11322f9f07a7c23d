//! The candidate pool of a recorded decision under another setup: what the record tells of each endpoint, what passes the hard
//! filters there, and what of it is not recorded.

use pointsman_domain::{
    Candidate, Decision, ExcludedEndpoint, ExclusionDetail, ExclusionReason, GateState, Quality, Query, RecordedGate,
    Reopens, ScoreInputs, Target, Tick,
};

use super::setup::{RecordedQuality, Setup};
use crate::{
    decide::{
        context::DecisionContext,
        filter::{self, CatalogEndpoint, HardFilters, purpose},
        live_state::LiveState,
        objective_profile::quality_figure,
        outcome::is_without_fallbacks,
        pooled_endpoint::{PooledEndpoint, Role, TargetRank},
        precedence::Precedence,
        preferences::order_position,
    },
    stats::{Curve, EndpointStats, Estimates, Fit, Gate},
};

/// Highest factor between estimated and counted prompt tokens.
const FURTHEST_PROMPT: f64 = 21.0;

/// What a record tells of one endpoint.
#[derive(Clone, Copy)]
struct RecordedEndpoint<'r> {
    candidate: Option<&'r Candidate>,
    state: RecordedState,
    gate: Gate,
    quality: RecordedQuality,
}

/// Role of an endpoint in the recorded decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordedState {
    /// Not among the endpoints of the request's targets.
    OutOfPool,
    /// It was a candidate.
    Candidate,
    /// It passed the hard filters and was excluded for the moment.
    HeldBack(ExclusionReason),
    /// Hard filters excluded it.
    Refused(ExclusionReason),
}

impl RecordedEndpoint<'_> {
    const UNKNOWN: RecordedEndpoint<'static> = RecordedEndpoint {
        candidate: None,
        state: RecordedState::OutOfPool,
        gate: Gate::Passing,
        quality: RecordedQuality::NotRecorded,
    };

    /// Whether it passed the hard filters.
    const fn passed(&self) -> bool {
        matches!(self.state, RecordedState::Candidate | RecordedState::HeldBack(_))
    }
}

/// An endpoint that passes the hard filters and whose figures are not in the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct UnknownEndpoint {
    /// Position in the catalog of the setup.
    pub index: u32,
    /// The best rank before any score that it can have.
    pub precedence: Precedence,
    /// Its expected cost, if the record tells the tokens of its model, and the least and the highest possible.
    pub cost: Option<f64>,
    pub cost_range: [f64; 2],
    /// Whether it could be the choice as far as its gate tells.
    pub may_compete: bool,
    /// Whether it could only be a probe.
    pub is_half_open: bool,
    /// Whether it could be called if nothing better is left.
    pub may_step_in: bool,
    /// Whether it was a candidate of the recorded decision, without figures in the record.
    pub was_candidate: bool,
}

/// Statistics of the recorded endpoints of a pool, with what the record tells of each.
pub(super) struct RecordedPool<'r> {
    known: Vec<KnownEndpoint<'r>>,
    pub unknown: Vec<UnknownEndpoint>,
    /// Whether the record tells of every endpoint whether its quality suffices.
    is_screen_recorded: bool,
}

/// An endpoint that passes the hard filters and whose figures are in the record.
struct KnownEndpoint<'r> {
    index: u32,
    rank: TargetRank,
    stats: EndpointStats,
    candidate: &'r Candidate,
    gate: Gate,
    /// Whether it was the probe of the decision. On standby it would only become one.
    was_probe: bool,
    /// Expected output tokens, unless a limit was raised beyond what the record tells.
    output: Option<f64>,
    quality: Option<Quality>,
    /// Whether it includes ratings as the recorded one does.
    is_quality_recorded: bool,
}

impl<'r> RecordedPool<'r> {
    pub(super) fn new(decision: &'r Decision, setup: &Setup, context: &DecisionContext<'_>) -> RecordedPool<'r> {
        let endpoints = recorded_endpoints(decision, setup);
        let mut pool = RecordedPool { known: Vec::new(), unknown: Vec::new(), is_screen_recorded: true };
        let mut seen = vec![false; setup.catalog().endpoints.len()];
        let candidates = with_models(decision, setup);
        let tokens = Tokens { decision, setup, candidates: &candidates };
        for (target, requested) in (0_u32..).zip(&context.query.targets) {
            let rank = TargetRank::new(target, context.query.routing.provider.across_models);
            let screen = Screen::new(setup, context.query, *requested, tokens);
            for index in members(setup, context.query, *requested) {
                let (Some(seen), Some(of_record)) = (seen.get_mut(index as usize), endpoints.get(index as usize))
                else {
                    continue;
                };
                if *seen || !screen.passes(index, of_record) {
                    continue;
                }
                match screen.has_quality(index, of_record) {
                    Some(false) => continue,
                    Some(true) => {}
                    None => pool.is_screen_recorded = false,
                }
                *seen = true;
                pool.enter(context, setup, tokens, (rank, index), of_record);
            }
        }
        pool
    }

    fn enter(
        &mut self,
        context: &DecisionContext<'_>,
        setup: &Setup,
        tokens: Tokens<'_>,
        (rank, index): (TargetRank, u32),
        of_record: &RecordedEndpoint<'r>,
    ) {
        let Some(template) = setup.snapshot.endpoints.get(index as usize) else { return };
        match of_record.candidate {
            Some(candidate) => {
                let stats = with_estimates(template, candidate, of_record.state);
                let output = match setup.is_recorded {
                    true => Some(candidate.inputs.output_tokens),
                    false => tokens.output(stats.facts.model, stats.facts.longest_answer),
                };
                let was_probe = candidate.probe && of_record.state == RecordedState::Candidate;
                let (quality, is_quality_recorded) =
                    setup.quality(tokens.decision, context.query, index, of_record.quality);
                let gate = of_record.gate;
                self.known.push(KnownEndpoint {
                    index,
                    rank,
                    stats,
                    candidate,
                    gate,
                    was_probe,
                    output,
                    quality,
                    is_quality_recorded,
                });
            }
            None => self.unknown.push(unknown(context, tokens, (rank, index), template, of_record)),
        }
    }

    /// The recorded endpoints as a decision has them. `paced_probes`: half-open endpoints are paced as well, which no record
    /// says.
    pub(super) fn candidates(&self, context: &DecisionContext<'_>, paced_probes: bool) -> Vec<PooledEndpoint<'_>> {
        self.known.iter().map(|known| known.pooled(context, paced_probes)).collect()
    }

    /// Whether the record tells how long answers are and which endpoints count as saturated under this setup.
    pub(super) fn tells_all(&self, candidates: &[PooledEndpoint<'_>], setup: &Setup) -> bool {
        let [now, before] = setup.saturations();
        let is_reported = |candidate: &PooledEndpoint<'_>| {
            candidate.stats.estimates.fit.knee_is_sure || candidate.forecast.load <= now.min(before)
        };
        let reports_saturation = now.to_bits() == before.to_bits() || candidates.iter().all(is_reported);
        reports_saturation && self.known.iter().all(|known| known.output.is_some())
    }

    /// Whether the record tells the quality of everything, where quality matters.
    pub(super) fn tells_quality(&self, context: &DecisionContext<'_>) -> bool {
        let (policy, query) = (context.policy, context.query);
        let counts = quality_figure(policy, query.objective.value, query.weights).is_some();
        let matters = counts || query.routing.min_quality.is_some();
        !matters || (self.is_screen_recorded && self.known.iter().all(|known| known.is_quality_recorded))
    }
}

impl KnownEndpoint<'_> {
    fn pooled(&self, context: &DecisionContext<'_>, paced_probes: bool) -> PooledEndpoint<'_> {
        let live = live(context, self, paced_probes && !self.was_probe);
        let mut pooled = PooledEndpoint::new(context, self.rank, self.index, &self.stats, live);
        let is_saturated = context.is_saturated(pooled.forecast.load, self.stats.estimates.fit.knee_is_sure);
        if pooled.accepts_requests() && !is_saturated {
            pooled.role = Role::Candidate;
        }
        pooled
    }
}

/// Endpoints of a target: of a model its own, of an alias all that give what is asked for.
fn members<'s>(setup: &'s Setup, query: &'s Query, target: Target) -> Box<dyn Iterator<Item = u32> + 's> {
    match target {
        Target::Model(position) => {
            let of_model = setup.catalog().model(position).map_or(&[][..], |model| &model.endpoints);
            Box::new(of_model.iter().copied())
        }
        Target::Alias(_) => {
            let is_in_pool =
                move |stats: &EndpointStats| stats.facts.on && stats.facts.output.contains(purpose(query.api));
            Box::new(
                (0_u32..).zip(&setup.snapshot.endpoints).filter(move |(_, stats)| is_in_pool(stats)).map(|(at, _)| at),
            )
        }
    }
}

/// The hard filters of one target.
struct Screen<'s> {
    filters: Option<HardFilters<'s>>,
    query: &'s Query,
    tokens: Tokens<'s>,
}

impl<'s> Screen<'s> {
    fn new(setup: &'s Setup, query: &'s Query, target: Target, tokens: Tokens<'s>) -> Screen<'s> {
        let alias = match target {
            Target::Alias(position) => setup.catalog().alias(position),
            Target::Model(_) => None,
        };
        let filters = (!setup.is_recorded).then(|| HardFilters::of_catalog(&setup.snapshot, query, alias));
        Screen { filters, query, tokens }
    }

    fn passes(&self, index: u32, of_record: &RecordedEndpoint<'_>) -> bool {
        let Some(filters) = &self.filters else { return of_record.passed() };
        filters.refusal_of(index).is_none() && !self.is_above_max_cost(index, of_record)
    }

    /// Whether its quality is high enough; `None` where the record does not tell that.
    fn has_quality(&self, index: u32, of_record: &RecordedEndpoint<'_>) -> Option<bool> {
        if self.filters.is_none() || self.query.routing.min_quality.is_none() {
            return Some(true);
        }
        let Tokens { decision, setup, .. } = self.tokens;
        // Of an endpoint that was held back, and of one that is left out, nothing else is recorded.
        if of_record.passed() && setup.has_recorded_floor(decision, self.query, index) {
            return Some(true);
        }
        let (quality, is_recorded) = setup.quality(decision, self.query, index, of_record.quality);
        let subject = CatalogEndpoint::at(setup.catalog(), index)?;
        is_recorded.then(|| filter::below_min_quality(self.query, subject, quality).is_none())
    }

    /// Tokens that are not recorded count as those with which it was refused, if it was.
    fn is_above_max_cost(&self, index: u32, of_record: &RecordedEndpoint<'_>) -> bool {
        let setup = self.tokens.setup;
        let Some(endpoint) = setup.catalog().endpoint(index).filter(|_| self.query.routing.max_cost.is_some()) else {
            return false;
        };
        match self.tokens.output(endpoint.model, endpoint.limits.longest_answer()) {
            Some(output) => filter::above_max_cost(self.query, endpoint, output).is_some(),
            None => {
                of_record.state == RecordedState::Refused(ExclusionReason::MaxPrice) && setup.has_recorded_prices(index)
            }
        }
    }
}

/// Tokens that the record tells of models.
#[derive(Clone, Copy)]
struct Tokens<'r> {
    decision: &'r Decision,
    setup: &'r Setup,
    /// The recorded candidates with the positions of their models in the setup.
    candidates: &'r [(u32, &'r Candidate)],
}

fn with_models<'r>(decision: &'r Decision, setup: &Setup) -> Vec<(u32, &'r Candidate)> {
    let with_model = |candidate: &'r Candidate| {
        let index = setup.position(candidate.index)?;
        Some((setup.snapshot.endpoints.get(index as usize)?.facts.model, candidate))
    };
    let mut all = Vec::with_capacity(decision.candidates.len() + decision.rivals.len() + decision.standby.len());
    let recorded = decision.candidates.iter().chain(&decision.rivals).chain(&decision.standby);
    all.extend(recorded.filter_map(with_model));
    all
}

impl Tokens<'_> {
    /// The recorded candidates of a model.
    fn of_model(&self, model: u32) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(move |(of, _)| *of == model).map(|(_, candidate)| *candidate)
    }

    /// Expected prompt tokens: the same at all endpoints of a model.
    fn prompt(&self, model: u32) -> Option<u32> {
        self.of_model(model).map(|candidate| candidate.inputs.prompt_tokens).next()
    }

    /// Expected output tokens at an endpoint with this longest answer: the same at all endpoints of a model, unless an endpoint
    /// cuts them short.
    fn output(&self, model: u32, longest: u32) -> Option<f64> {
        let most = self.decision.request.max_tokens.map_or(f64::INFINITY, f64::from);
        let longest = f64::from(longest);
        self.of_model(model).find_map(|candidate| {
            let (known, cut) =
                (candidate.inputs.output_tokens, f64::from(self.setup.recorded_longest(candidate.index)));
            let is_cut = known >= cut && cut < most;
            (!is_cut || longest <= cut).then_some(known.min(longest))
        })
    }
}

fn recorded_endpoints<'r>(decision: &'r Decision, setup: &Setup) -> Vec<RecordedEndpoint<'r>> {
    let mut endpoints = vec![RecordedEndpoint::UNKNOWN; setup.catalog().endpoints.len()];
    let mut at = |index: Option<u32>, change: &mut dyn FnMut(&mut RecordedEndpoint<'r>)| {
        if let Some(place) = index.and_then(|index| endpoints.get_mut(index as usize)) {
            change(place);
        }
    };
    for excluded in &decision.excluded {
        at(setup.position(excluded.index), &mut |place| {
            (place.state, place.quality) = (state(excluded), quality(excluded));
        });
    }
    for candidate in decision.candidates.iter().chain(&decision.rivals) {
        at(setup.position(candidate.index), &mut |place| {
            (place.state, place.candidate) = (RecordedState::Candidate, Some(candidate));
            place.quality = RecordedQuality::Recorded(candidate.inputs.quality);
        });
    }
    for candidate in &decision.standby {
        at(setup.position(candidate.index), &mut |place| {
            (place.candidate, place.quality) = (Some(candidate), RecordedQuality::Recorded(candidate.inputs.quality));
        });
    }
    for omitted in &decision.omitted {
        at(setup.find(*omitted), &mut |place| place.state = RecordedState::Candidate);
    }
    for recorded in &decision.gates {
        at(setup.position(recorded.index), &mut |place| place.gate = gate(*recorded));
    }
    endpoints
}

fn quality(excluded: &ExcludedEndpoint) -> RecordedQuality {
    match &excluded.detail {
        ExclusionDetail::Quality(shortfall) => RecordedQuality::Recorded(Some(shortfall.quality)),
        ExclusionDetail::NoQuality(_) => RecordedQuality::Recorded(None),
        _ => RecordedQuality::NotRecorded,
    }
}

fn state(excluded: &ExcludedEndpoint) -> RecordedState {
    use ExclusionReason::{CircuitOpen, ConfigFault, Draining, Paced, ProbeInFlight, RateLimited, Saturated};
    match excluded.reason {
        reason @ (CircuitOpen | ConfigFault | Draining | Paced | ProbeInFlight | RateLimited | Saturated) => {
            RecordedState::HeldBack(reason)
        }
        _ if is_without_fallbacks(excluded) => RecordedState::Candidate,
        reason => RecordedState::Refused(reason),
    }
}

const fn gate(RecordedGate { state, until, .. }: RecordedGate) -> Gate {
    match state {
        GateState::Cooling => Gate::Cooling { until },
        GateState::Open => Gate::Open { until },
        GateState::ConfigFault => Gate::ConfigFault { until },
        GateState::HalfOpen => Gate::HalfOpen { since: until },
        GateState::Probing => Gate::Probing { since: until },
    }
}

/// Statistics with the recorded estimates, from which the same forecast follows.
fn with_estimates(template: &EndpointStats, candidate: &Candidate, state: RecordedState) -> EndpointStats {
    let (inputs, predicted) = (&candidate.inputs, &candidate.predicted);
    let ratio = |p95: f64, p50: f64| if p50 > 0.0 { p95 / p50 } else { 1.0 };
    let is_knee_sure = state == RecordedState::HeldBack(ExclusionReason::Saturated);
    EndpointStats {
        estimates: Estimates {
            failures: inputs.failures,
            successes: inputs.successes,
            usual_failure: inputs.usual_failure,
            ..with_recorded_times(&template.estimates, inputs, is_knee_sure)
        },
        curve: Curve::new(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope),
        total_p95: ratio(predicted.total_p95, predicted.total_p50),
        first_token_p95: ratio(predicted.first_token_p95, predicted.first_token_p50),
        ..template.clone()
    }
}

/// These estimates with the recorded ones of times and pace.
pub(super) fn with_recorded_times(rest: &Estimates, inputs: &ScoreInputs, is_knee_sure: bool) -> Estimates {
    Estimates {
        fit: Fit {
            intercept: inputs.intercept,
            prompt_slope: 0.0,
            load_exponent: inputs.load_exponent,
            knee: inputs.knee,
            variance: inputs.variance,
            knee_is_sure: is_knee_sure,
        },
        weight: inputs.weight,
        age: inputs.age,
        per_token: inputs.per_token,
        pace_weight: inputs.pace_weight,
        shown: inputs.shown,
        per_token_variance: inputs.pace_variance,
        ..*rest
    }
}

/// Live figures as recorded, with the prices of the setup.
fn live(context: &DecisionContext<'_>, known: &KnownEndpoint<'_>, is_paced: bool) -> LiveState {
    let KnownEndpoint { ref stats, candidate, gate, output, quality, .. } = *known;
    let inputs = &candidate.inputs;
    let due = match (gate, inputs.reopens) {
        (Gate::Passing, Reopens::At(due)) => Some(due),
        (Gate::HalfOpen { .. }, _) if is_paced => Some(Tick(u64::MAX)),
        _ => None,
    };
    let output_tokens = output.unwrap_or(inputs.output_tokens);
    let (prompt, cached) = (f64::from(inputs.prompt_tokens), inputs.cached_tokens);
    let rates = stats.prices.at(prompt);
    let saving = f64::from(cached) * rates.cached_saving;
    LiveState {
        gate,
        in_flight: inputs.in_flight,
        floor: inputs.floor,
        due,
        output_tokens,
        output_variance: inputs.output_variance,
        prompt_tokens: inputs.prompt_tokens,
        cached_tokens: cached,
        saving,
        cost: rates.cost(prompt, output_tokens * context.answers, context.images) - saving,
        quality,
    }
}

fn unknown(
    context: &DecisionContext<'_>,
    tokens: Tokens<'_>,
    (rank, index): (TargetRank, u32),
    stats: &EndpointStats,
    of_record: &RecordedEndpoint<'_>,
) -> UnknownEndpoint {
    let facts = &stats.facts;
    let (prompt, output) = (tokens.prompt(facts.model), tokens.output(facts.model, facts.longest_answer));
    let cost = |prompt: f64, output: f64| stats.prices.cost(prompt, output * context.answers, context.images);
    let known = prompt.zip(output).map(|(prompt, output)| cost(f64::from(prompt), output));
    // A prompt may be in its cache, which the record does not tell of unrecorded endpoints.
    let known = known.filter(|_| context.cached_at(facts.id) == 0);
    let limits = context.catalog.endpoint(index).map(|endpoint| endpoint.limits);
    let longest = context.query.max_tokens.or(limits.map(|limits| limits.context_length)).unwrap_or(u32::MAX);
    let most = cost(context.prompt_tokens * FURTHEST_PROMPT, f64::from(longest.min(facts.longest_answer)));
    let is_half_open = matches!(of_record.gate, Gate::HalfOpen { .. });
    let may_compete = match of_record.state {
        RecordedState::Candidate => true,
        RecordedState::HeldBack(_) => is_half_open,
        RecordedState::Refused(_) | RecordedState::OutOfPool => is_half_open || of_record.gate.is_passing(),
    };
    let precedence = match context.has_preferences {
        true => rank.precedence.with_preferences(order_position(context, index), 0),
        false => rank.precedence,
    };
    UnknownEndpoint {
        index,
        precedence,
        cost: known,
        cost_range: known.map_or([0.0, most], |cost| [cost, cost]),
        may_compete,
        is_half_open,
        may_step_in: !matches!(of_record.gate, Gate::Cooling { .. } | Gate::ConfigFault { .. }),
        was_candidate: of_record.state == RecordedState::Candidate,
    }
}
