//! Who could take part: the endpoints behind a request's targets, screened and forecast.

use super::{
    case::Case,
    filter::{Refusal, Screen, Subject, purpose},
    gates,
    predict::{Forecast, is_silent, lateness},
    score::Scoring,
    wishes::{GRADE_BITS, tier},
};
use crate::{
    domain::{Cause, EndpointId, Excluded, Inputs, Target, Tick},
    stats::{EndpointStats, Facts, Gate, LiveEndpoint},
};

/// Lower bound on the failure probability behind a gate that is not open, and of an endpoint gone silent.
const UNSURE: f64 = 0.5;

/// When a gate opens whose probe is out: nobody knows, so after every date; and no float rounds it.
const PROBE_OUT: Tick = Tick(1 << 52);

/// How a row takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Not at all.
    Out,
    /// As a candidate.
    Candidate,
    /// As the probe of a half-open breaker.
    Probe,
    /// Past a shut gate, because nothing else is left.
    Panic,
}

/// An endpoint that passed the hard filters. Kept small, because a decision walks over all of them several times: what
/// only those need who are written out is read anew ([`Row::moment`]).
#[derive(Debug, Clone)]
pub(super) struct Row<'a> {
    pub stats: &'a EndpointStats,
    /// What ranks before any score: group, then tier.
    pub class: u64,
    /// Which of the query's targets it belongs to.
    pub target: u32,
    pub forecast: Forecast,
    /// Its own gate, or its provider's where that is stricter.
    pub gate: Gate,
    /// When a paced endpoint, or one whose quota this request exceeds, takes it.
    pub due: Option<Tick>,
    pub in_flight: u32,
    /// Dollars.
    pub cost: f64,
    pub index: u32,
    /// Position of its provider.
    pub provider: u32,
    pub role: Role,
    /// What it is ordered by within its class: its score, once it takes part. Never negative.
    pub rank: f64,
    /// The score it would have without noise.
    pub calm: f64,
}

/// What a forecast takes from the moment and the request, beside the slow statistics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub gate: Gate,
    pub in_flight: u32,
    pub late: f64,
    /// Whether it has gone silent.
    pub silent: bool,
    /// Requests as good as failed.
    pub stuck: u32,
    /// When a paced endpoint, or one whose quota this request exceeds, takes it.
    pub due: Option<Tick>,
    /// Seconds since its last observation.
    pub age: f64,
    pub output_tokens: f64,
    pub output_variance: f64,
    /// Prompt tokens in its cache.
    pub cached_tokens: u32,
    /// Dollars these save ...
    pub saving: f64,
    /// ... and what the request costs after that.
    pub cost: f64,
}

impl Row<'_> {
    /// Its stable id.
    pub(super) fn endpoint(&self) -> EndpointId {
        self.stats.facts.id
    }

    /// Whom it ranks with before anything else: those of its target, or everybody where models compete.
    pub(super) fn group(&self) -> u32 {
        (self.class >> 32) as u32
    }

    /// Place in `provider.order`, then how well preferences are kept.
    pub(super) fn tier(&self) -> u32 {
        self.class as u32
    }

    /// Group and place in `provider.order` alone.
    pub(super) fn wish(&self) -> u64 {
        self.class >> GRADE_BITS
    }

    /// When its gate, pace or quota lets it pass, if that is a matter of time.
    pub(super) fn until(&self) -> Tick {
        match self.gate {
            Gate::Probing { .. } => PROBE_OUT,
            gate => gate.until().or(self.due).unwrap_or_default(),
        }
    }

    /// Whether neither a gate nor a pace holds requests back.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.gate.is_passing() && self.due.is_none()
    }

    /// What its forecast took from the moment and the request.
    pub(super) fn moment(&self, case: &Case<'_>) -> Moment {
        Moment::of(case, self.stats, case.live.endpoint(self.index))
    }

    /// Its score, were nothing in its cache.
    pub(super) fn uncached_score(&self, case: &Case<'_>, scoring: &Scoring) -> f64 {
        let moment = self.moment(case);
        let moment = Moment { cached_tokens: 0, saving: 0.0, cost: moment.cost + moment.saving, ..moment };
        let inputs = inputs(case, self.stats, &moment);
        let forecast = Forecast::of(&inputs, &self.stats.curve, &case.rules, case.noise.at(self.endpoint()));
        scoring.score(&forecast, moment.cost)
    }

    /// Everything its score was made from.
    #[inline]
    pub(super) fn inputs(&self, case: &Case<'_>, moment: &Moment) -> Inputs {
        let inputs = inputs(case, self.stats, moment);
        Inputs {
            expected: self.forecast.expected(&inputs, &case.rules),
            spread: self.forecast.spread(&inputs, &self.stats.curve, &case.rules),
            tier: self.tier(),
            until: self.until(),
            ..inputs
        }
    }
}

/// The endpoints of a request's pool, sorted into those that may serve and those that may not.
#[derive(Debug, Default)]
pub(super) struct Field<'a> {
    pub rows: Vec<Row<'a>>,
    pub excluded: Vec<Excluded>,
    /// Expected cost of everything that passed the hard filters, rows or not.
    pub costs: Vec<f64>,
    /// When the earliest gate that lets nobody pass will open.
    pub opens: Option<Tick>,
    /// Rows that may serve already, that are only saturated, and that are half-open: saves looking for them.
    pub free: usize,
    pub saturated: usize,
    pub half_open: usize,
}

/// What was found out about an endpoint of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    Excluded,
    Passed,
}

impl<'a> Field<'a> {
    /// The pool of the case's query, target by target. An endpoint that several targets stand for belongs to the
    /// first for which it passes.
    pub(super) fn of(case: &Case<'a>) -> Field<'a> {
        let mut field = Field::default();
        let several = case.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; case.catalog.endpoints.len()] } else { Vec::new() };
        for (target, asked) in (0_u32..).zip(&case.query.targets) {
            match *asked {
                Target::Model(position) => {
                    let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, None);
                    let endpoints = case.catalog.model(position).map_or(&[][..], |model| &model.endpoints);
                    for &index in endpoints {
                        field.enter(case, &screen, target, index, &mut seen);
                    }
                }
                Target::Alias(position) => {
                    let alias = case.catalog.alias(position);
                    let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, alias);
                    field.reserve(case.snapshot.endpoints.len());
                    for (index, stats) in (0_u32..).zip(&case.snapshot.endpoints) {
                        if is_in_pool(case, &stats.facts) {
                            field.enter(case, &screen, target, index, &mut seen);
                        }
                    }
                }
            }
        }
        field
    }

    fn reserve(&mut self, endpoints: usize) {
        self.rows.reserve(endpoints);
        self.costs.reserve(endpoints);
    }

    #[inline]
    fn enter(&mut self, case: &Case<'a>, screen: &Screen<'a>, target: u32, index: u32, seen: &mut [Seen]) {
        let Some(stats) = case.snapshot.endpoints.get(index as usize) else { return };
        let mut unseen = Seen::Never;
        let seen = seen.get_mut(index as usize).unwrap_or(&mut unseen);
        if *seen == Seen::Passed {
            return;
        }
        if !screen.passes(&stats.facts)
            && let Some((reason, detail)) = refusal(case, screen, index)
        {
            if *seen == Seen::Never {
                self.excluded.push(Excluded { index, endpoint: stats.facts.id, reason, detail });
            }
            *seen = Seen::Excluded;
            return;
        }
        if *seen == Seen::Excluded {
            self.excluded.retain(|excluded| excluded.index != index);
        }
        *seen = Seen::Passed;
        self.pass(case, target, index, stats);
    }

    /// An endpoint that no hard filter refuses. Behind a gate that lets nobody pass it only counts for the costs.
    #[inline]
    fn pass(&mut self, case: &Case<'a>, target: u32, index: u32, stats: &'a EndpointStats) {
        let live = case.live.endpoint(index);
        let moment = Moment::of(case, stats, live);
        self.costs.push(moment.cost + moment.saving);
        if let Gate::Cooling { until } | Gate::ConfigFault { until } = moment.gate {
            self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
            let (failures, last) = behind(case, index, stats.facts.provider, moment.gate);
            self.excluded.push(gates::shut((index, stats.facts.id), moment.gate, case.now, failures, last));
            return;
        }
        let doubt = case.noise.at(stats.facts.id);
        let forecast = Forecast::of(&inputs(case, stats, &moment), &stats.curve, &case.rules, doubt);
        // Models that compete are of one class.
        let class = if case.query.routing.provider.across_models { 0 } else { u64::from(target) << 32 };
        let Moment { gate, due, in_flight, cost, .. } = moment;
        let provider = stats.facts.provider;
        let role = self.role(case, gate, due, &forecast);
        self.rows.push(Row {
            stats,
            class,
            target,
            forecast,
            gate,
            due,
            in_flight,
            cost,
            index,
            provider,
            role,
            rank: 0.0,
            calm: 0.0,
        });
        if let Some(row) = self.rows.last_mut().filter(|_| case.has_wishes) {
            row.class |= u64::from(tier(case, row));
        }
    }

    /// As what an endpoint takes part, unless more is let in.
    #[inline]
    fn role(&mut self, case: &Case<'_>, gate: Gate, due: Option<Tick>, forecast: &Forecast) -> Role {
        if gate.is_passing() && due.is_none() {
            let free = forecast.load <= case.saturation;
            self.free += usize::from(free);
            self.saturated += usize::from(!free);
            return if free { Role::Candidate } else { Role::Out };
        }
        self.half_open += usize::from(matches!(gate, Gate::HalfOpen { .. }));
        Role::Out
    }
}

fn refusal(case: &Case<'_>, screen: &Screen<'_>, index: u32) -> Option<Refusal> {
    screen.refusal(Subject::of(case.catalog, case.catalog.endpoint(index)?)?)
}

impl Moment {
    #[inline(always)]
    pub(super) fn of(case: &Case<'_>, stats: &EndpointStats, live: &LiveEndpoint) -> Moment {
        let (facts, query) = (&stats.facts, case.query);
        let (output_tokens, output_variance) =
            case.snapshot.lengths.expected(facts.model, facts.longest_answer, case.length);
        let cached_tokens = case.cached_at(facts.id);
        let saving = f64::from(cached_tokens) * stats.prices.cached_saving;
        let cost = stats.prices.cost(query.prompt_tokens, output_tokens * f64::from(query.answers), query.images);
        Moment {
            gate: live.gate.and(case.live.provider(facts.provider).gate),
            in_flight: live.in_flight,
            late: lateness(live.overdue, &stats.curve),
            silent: is_silent(live.overdue, &stats.curve),
            stuck: live.stuck,
            due: due(live, query.prompt_tokens, output_tokens),
            age: stats.estimates.observed.map_or(f64::INFINITY, |observed| case.now.seconds_since(observed)),
            output_tokens,
            output_variance,
            cached_tokens,
            saving,
            cost: cost - saving,
        }
    }
}

/// When an endpoint takes such a request, if not at once: its pace, and its quota of tokens.
#[inline]
fn due(live: &LiveEndpoint, prompt_tokens: u32, output_tokens: f64) -> Option<Tick> {
    let Some(quota) = live.tokens else { return live.due };
    let tokens = u64::from(prompt_tokens) + output_tokens as u64;
    live.due.max((quota.left < tokens).then_some(quota.until))
}

/// An alias stands for every endpoint of a model that gives what the call is for, at a provider that is on.
fn is_in_pool(case: &Case<'_>, facts: &Facts) -> bool {
    facts.on && facts.output.contains(purpose(case.query.api))
}

/// The recorded inputs of a forecast; what only a candidate has (`expected`, `spread`, `tier`, `until`) is left at 0.
#[inline(always)]
pub(super) fn inputs(case: &Case<'_>, stats: &EndpointStats, moment: &Moment) -> Inputs {
    let estimates = &stats.estimates;
    let passing = moment.gate.is_passing();
    Inputs {
        intercept: estimates.fit.intercept,
        load_exponent: estimates.fit.load_exponent,
        knee: estimates.fit.knee,
        variance: estimates.fit.variance,
        prompt_slope: stats.curve.prompt_token,
        prompt_tokens: case.query.prompt_tokens,
        cached_tokens: moment.cached_tokens,
        weight: estimates.weight * case.weight_left,
        per_token: estimates.per_token,
        pace_variance: estimates.per_token_variance,
        pace_weight: estimates.pace_weight * case.weight_left,
        failures: estimates.failures * case.counts_left + f64::from(moment.stuck),
        successes: estimates.successes * case.counts_left,
        usual_failure: estimates.usual_failure,
        age: moment.age,
        in_flight: moment.in_flight,
        late: moment.late,
        output_tokens: moment.output_tokens,
        output_variance: moment.output_variance,
        cost: moment.cost,
        floor: if passing && !moment.silent { 0.0 } else { UNSURE },
        expected: 0.0,
        spread: 0.0,
        tier: 0,
        until: Tick(0),
    }
}

/// The failures behind the gate that stands in the way: the endpoint's own, or its provider's.
pub(super) fn behind(case: &Case<'_>, index: u32, provider: u32, gate: Gate) -> (u32, Option<Cause>) {
    let (live, provider) = (case.live.endpoint(index), case.live.provider(provider));
    if live.gate == gate { (live.failures, live.last) } else { (provider.failures, provider.last) }
}
