//! A recorded decision, made again by the code that serves, under its own setup or another.

use std::cmp::Ordering;

use pointsman_domain::{Candidate, Decision, EndpointId, Objective, Quality};

use super::{
    pool::{RecordedPool, UnknownEndpoint},
    possible_costs::PossibleCosts,
    setup::Setup,
};
use crate::{
    decide::{
        admission, attempts, best_by,
        context::DecisionContext,
        conversation_model::keep_model,
        exploration,
        forecast::{Forecast, PointForecast},
        objective_profile::{Baseline, Baselines, ObjectiveProfile, quality_figure},
        ordered,
        pending_tool_calls::prefer_keepers,
        plan::{best_ones, is_tie},
        pooled_endpoint::{PooledEndpoint, Role},
        preferences::preferred,
        rank,
        score::Scoring,
    },
    explain::selection_probability::{Competitor, first_places},
    stats::{Gate, LiveView},
};

/// Highest sum of the probabilities to fail and to be slow.
const MOST_RISK: f64 = 2.0;
/// Relative difference up to which scores may be out of order: ties, and rounding.
const ROUNDING: f64 = 1e-8;

/// Names and values of the client's tags.
type Tags = [(String, String)];

/// How far a record answers what would have been chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// The choice follows from the record.
    Exact,
    /// An endpoint that is not recorded could be the choice, or change a median.
    Partial,
    /// The choice follows from statistics that were estimated again.
    OpenLoop,
    /// An endpoint could be the choice that was never measured.
    None,
}

/// Predicted figures of one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::explain) struct Planned {
    pub endpoint: EndpointId,
    /// Dollars.
    pub cost: f64,
    /// Median seconds to the first token.
    pub first_token: f64,
    /// Seconds to the last byte.
    pub total: f64,
    /// Probability of failure.
    pub failure: f64,
    /// The score of the attempt.
    pub score: f64,
    /// Requests in flight, and from how many on it slows down.
    pub load: [f64; 2],
}

impl Planned {
    /// Of a candidate as it was decided.
    pub(super) fn of_candidate(candidate: &Candidate) -> Planned {
        let predicted = &candidate.predicted;
        Planned {
            endpoint: candidate.endpoint,
            cost: candidate.inputs.cost,
            first_token: predicted.first_token_p50,
            total: predicted.total_p50,
            failure: predicted.failure,
            score: candidate.score,
            load: [f64::from(candidate.inputs.in_flight), candidate.inputs.knee],
        }
    }
}

/// Every choice that a decision could have come to.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::explain) struct Possible {
    pub grade: Grade,
    /// The whole order of this decision, with the probability of each to be the first.
    pub order: Vec<(Planned, f64)>,
    /// Most attempts.
    pub attempts: usize,
    /// The choice without noise and draws, if these counted.
    pub calm: Option<EndpointId>,
}

/// A decision, made again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remade {
    /// The attempts in order; the first is the choice. Empty if no endpoint could serve.
    pub plan: Vec<Planned>,
    pub grade: Grade,
    /// What the plan could cost, if an unrecorded endpoint could be the choice.
    pub possible_costs: Option<PossibleCosts>,
    /// Endpoints that could be the choice and of which nothing is known, where that leaves no answer.
    pub unmeasured: Vec<EndpointId>,
    /// What the baselines follow from.
    pub basis: Basis,
}

/// What the baselines of a decision follow from, as far as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::explain) struct Basis {
    /// Of each recorded endpoint that passed the hard filters: cost, time and quality bit for bit, and whether it had a role.
    known: Vec<(EndpointId, [u64; 5], bool)>,
    unknown: Vec<EndpointId>,
    /// Whether half-open endpoints were paced as well.
    paced_probes: bool,
    /// Whether the recorded baselines follow from what the record tells.
    is_whole: bool,
}

impl Remade {
    /// Makes a decision again in its own setup, with its own baselines. `None` if a recorded figure comes out otherwise.
    pub(super) fn recorded(decision: &Decision, setup: &Setup) -> Option<Remade> {
        let (made, paced_probes) = recorded(decision, setup, |made| made.remade())?;
        Some(Remade { basis: Basis { paced_probes, ..made.basis.clone() }, ..made })
    }

    /// Makes a decision for a request with these tags again in another setup. `own` is what its own setup gave.
    pub(super) fn under(decision: &Decision, tags: &Tags, setup: &Setup, own: &Basis) -> Remade {
        let refused = Remade {
            plan: Vec::new(),
            grade: Grade::Exact,
            possible_costs: None,
            unmeasured: Vec::new(),
            basis: own.clone(),
        };
        remake((decision, tags), setup, Some(own), own.paced_probes, |made| made.remade()).unwrap_or(refused)
    }
}

impl Possible {
    /// What a decision could have come to in its own setup.
    pub(in crate::explain) fn recorded(decision: &Decision, setup: &Setup) -> Option<(Possible, Basis)> {
        let both = |made: &Making<'_, '_>| (made.possible(), made.basis.clone());
        let ((possible, basis), paced_probes) = recorded(decision, setup, both)?;
        Some((possible, Basis { paced_probes, ..basis }))
    }

    /// The same in another setup.
    pub(in crate::explain) fn under(decision: &Decision, tags: &Tags, setup: &Setup, own: &Basis) -> Possible {
        let nothing = Possible { grade: Grade::Exact, order: Vec::new(), attempts: 0, calm: None };
        remake((decision, tags), setup, Some(own), own.paced_probes, |made| made.possible()).unwrap_or(nothing)
    }
}

/// Makes a decision again in its own setup, and says whether half-open endpoints were paced. `None` if a recorded figure comes out
/// otherwise.
fn recorded<R>(decision: &Decision, setup: &Setup, then: impl Fn(&Making<'_, '_>) -> R) -> Option<(R, bool)> {
    [false, true].into_iter().find_map(|paced_probes| {
        let made = remake((decision, &[]), setup, None, paced_probes, |made| {
            made.is_as_recorded(decision).then(|| then(made))
        });
        Some((made??, paced_probes))
    })
}

/// A decision in the making.
struct Making<'m, 'p> {
    context: &'m DecisionContext<'m>,
    setup: &'m Setup,
    candidates: &'m [PooledEndpoint<'p>],
    order: Vec<&'m PooledEndpoint<'p>>,
    attempts: u32,
    /// Positions of the recorded safe ones that a draw could choose here, too.
    safe: &'m [u32],
    exploration_share: f64,
    /// Whether the choice was drawn, whatever the scores.
    is_drawn: bool,
    scoring: Scoring,
    unknown: &'m [UnknownEndpoint],
    basis: Basis,
    /// Whether everything that decides is as recorded, what is not recorded included.
    is_unchanged: bool,
    /// Whether baselines, lengths and saturation are those of the setup.
    is_reported: bool,
    /// The recorded scoring, where only weights differ and everything that is weighed is as recorded.
    recorded_scoring: Option<Scoring>,
    /// The highest score of the candidates recorded before those that are left out.
    before_omitted: Option<f64>,
}

fn remake<R>(
    (decision, tags): (&Decision, &Tags),
    setup: &Setup,
    own: Option<&Basis>,
    paced_probes: bool,
    then: impl FnOnce(&Making<'_, '_>) -> R,
) -> Option<R> {
    let query = setup.query(decision, tags)?;
    let live = LiveView::default();
    let seed = setup.seed(decision);
    let context =
        DecisionContext::new(&setup.snapshot, &live, &query, decision.tick, Some(seed).filter(|seed| *seed != 0));
    let pool = RecordedPool::new(decision, setup, &context);
    let mut candidates = pool.candidates(&context, paced_probes);
    if context.has_preferences {
        for candidate in &mut candidates {
            candidate.precedence = preferred(&context, candidate);
        }
    }
    keep_model(&context, &mut candidates);
    prefer_keepers(&context, &mut candidates);
    let tells_all = pool.tells_all(&candidates, setup) && pool.tells_quality(&context);
    admission::admit(&context, &mut candidates);
    let Founded { baselines, basis, is_reproduced, is_unchanged } =
        baselines(decision, setup, &context, (&candidates, &pool.unknown), own);
    let weighs_otherwise = is_unchanged
        && setup.weighs_otherwise
        && query.objective.value == decision.objective.value
        && !context.has_preferences;
    let recorded_scoring = weighs_otherwise
        .then(|| Scoring::new(setup.recorded_policy(), decision.objective.value, decision.weights, baselines));
    let is_unchanged = is_unchanged
        && setup.decides_as_recorded()
        && query.weights == decision.weights
        && *query.routing == *decision.parameters;
    let scoring = Scoring::new(context.policy, query.objective.value, query.weights, baselines);
    rank(&context, &mut candidates, &scoring);
    let attempts = attempts(&context);
    let safe = still_safe(decision, setup, &candidates);
    let drawn = exploration::drawn(decision.exploration_share, decision.seed, &decision.safe_set);
    let drawn = drawn.and_then(|drawn| setup.position(drawn)).filter(|drawn| safe.contains(drawn));
    let making = Making {
        context: &context,
        setup,
        candidates: &candidates,
        order: ordered(&candidates, attempts, drawn),
        safe: &safe,
        exploration_share: decision.exploration_share,
        is_drawn: drawn.is_some(),
        attempts,
        scoring,
        unknown: &pool.unknown,
        basis,
        is_unchanged,
        is_reported: tells_all && is_reproduced,
        recorded_scoring,
        before_omitted: before_omitted(decision),
    };
    Some(then(&making))
}

/// Of the endpoints that a draw could choose those that it could choose under this setup. There is no draw while a probe is out.
fn still_safe(decision: &Decision, setup: &Setup, candidates: &[PooledEndpoint<'_>]) -> Vec<u32> {
    if decision.exploration_share <= 0.0 || candidates.iter().any(|candidate| candidate.role == Role::Probe) {
        return Vec::new();
    }
    let competing = || candidates.iter().filter(|candidate| candidate.role == Role::Candidate);
    let first = competing().map(|candidate| candidate.precedence).min();
    let is_safe = |position: &u32| {
        competing().any(|candidate| candidate.index == *position && Some(candidate.precedence) == first)
    };
    decision.safe_set.iter().filter_map(|index| setup.position(*index)).filter(is_safe).collect()
}

/// The highest score of the best candidates: those that the record leaves out come after all of them. `None` where anything
/// but scores orders them.
fn before_omitted(decision: &Decision) -> Option<f64> {
    let best = best_ones(decision.max_attempts as usize);
    let recorded = || decision.candidates.iter().chain(&decision.rivals).filter(|one| (one.place as usize) < best);
    let first = recorded().next().filter(|_| decision.exploration_share <= 0.0)?;
    let is_alike =
        |one: &Candidate| !one.probe && !one.panic && (one.group, one.inputs.tier) == (first.group, first.inputs.tier);
    recorded().all(is_alike).then(|| recorded().map(|one| one.score).fold(0.0, f64::max))
}

/// Baselines and what they follow from.
struct Founded {
    baselines: Baselines,
    basis: Basis,
    /// Whether they are those that serving would have.
    is_reproduced: bool,
    /// Whether they follow from the same as in the record.
    is_unchanged: bool,
}

fn baselines(
    decision: &Decision,
    setup: &Setup,
    context: &DecisionContext<'_>,
    (candidates, unknown): (&[PooledEndpoint<'_>], &[UnknownEndpoint]),
    own: Option<&Basis>,
) -> Founded {
    let has_role = |candidate: &&PooledEndpoint<'_>| candidate.role != Role::Excluded;
    let mut known: Vec<_> = candidates
        .iter()
        .map(|candidate| {
            let (cost, time) = (candidate.live.uncached_cost(), candidate.forecast.uncached_time());
            let quality = candidate
                .live
                .quality
                .map_or([0; 3], |Quality { mean, tenth, ratings }| [mean, tenth, ratings].map(f64::to_bits));
            let [mean, tenth, ratings] = quality;
            let figures = [cost.to_bits(), time.to_bits(), mean, tenth, ratings];
            (candidate.endpoint(), figures, candidate.role != Role::Excluded)
        })
        .collect();
    known.sort_unstable();
    let id = |unknown: &UnknownEndpoint| context.catalog.endpoint(unknown.index).map(|endpoint| endpoint.id);
    let mut ids: Vec<EndpointId> = unknown.iter().filter_map(id).collect();
    ids.sort_unstable();
    let objective = context.query.objective.value;
    let competing = candidates.iter().filter(has_role);
    let unknown_costs = || unknown.iter().filter_map(|unknown| unknown.cost);
    let scored = unknown.iter().filter(|unknown| unknown.was_candidate).filter_map(|unknown| unknown.cost);
    let computed = Baselines::new(
        objective,
        competing.clone().map(|candidate| candidate.forecast.uncached_time()),
        competing.clone().map(|candidate| candidate.live.uncached_cost()).chain(scored),
        candidates.iter().map(|candidate| candidate.live.uncached_cost()).chain(unknown_costs()),
    );
    let figure = quality_figure(context.policy, objective, context.query.weights);
    let computed_qualities = competing.filter_map(|candidate| candidate.live.quality);
    let computed = computed.with_quality(figure, computed_qualities, context.query.quality_per_dollar);
    let used = ObjectiveProfile::of(objective).baselines;
    let times = used.iter().any(|used| *used != Baseline::Costs);
    let has_all = unknown.iter().all(|unknown| !unknown.was_candidate && !unknown.may_compete);
    let (has_times, has_quality) = (!times || has_all, figure.is_none() || has_all);
    let has_costs = !used.contains(&Baseline::Costs) || unknown.iter().all(|unknown| unknown.cost.is_some());
    let recorded = Baselines::of_record(decision);
    let Some(own) = own else {
        let has_figures = has_times && has_costs && has_quality;
        let is_whole = has_figures && is_same(&computed, &recorded);
        // What is whole must give the recorded bits: anything else is a fault of this code or of the record.
        let is_right = is_whole || decision.candidates.is_empty() || !(has_figures && ids.is_empty());
        let basis = Basis { known, unknown: ids, paced_probes: false, is_whole };
        return Founded { baselines: recorded, basis, is_reproduced: is_right, is_unchanged: true };
    };
    let basis = Basis { known, unknown: ids, paced_probes: own.paced_probes, is_whole: false };
    let is_same = |unknown: &UnknownEndpoint| {
        let has_score = || setup.has_recorded_score(decision, context.query, unknown.index);
        setup.has_recorded_prices(unknown.index) && (figure.is_none() || has_score())
    };
    let is_unchanged = objective == decision.objective.value
        && basis.known == own.known
        && basis.unknown == own.unknown
        && unknown.iter().all(is_same);
    if is_unchanged {
        // Where quality did not count in the record, its baseline follows from the recorded candidates.
        let counted = quality_figure(setup.recorded_policy(), objective, decision.weights).is_some();
        let quality = if counted { recorded.quality } else { computed.quality };
        let is_reproduced = counted || has_quality;
        return Founded { baselines: Baselines { quality, ..recorded }, basis, is_reproduced, is_unchanged };
    }
    // Costs of the unrecorded follow from prices and tokens; that they did so in the record shows that nothing is missing.
    let is_reproduced = basis.unknown.is_empty() || (has_times && has_costs && has_quality && own.is_whole);
    Founded { baselines: computed, basis, is_reproduced, is_unchanged }
}

fn is_same(one: &Baselines, other: &Baselines) -> bool {
    let quality = |of: &Baselines| {
        of.quality.map(|quality| [quality.median_loss, quality.lowest, quality.per_dollar].map(f64::to_bits))
    };
    one.recorded().map(f64::to_bits) == other.recorded().map(f64::to_bits) && quality(one) == quality(other)
}

impl Making<'_, '_> {
    fn remade(&self) -> Remade {
        let could_win = self.unknown_winners();
        let grade = self.grade(&could_win);
        let plan = self.order.iter().take(self.attempts as usize).map(|candidate| self.planned(candidate)).collect();
        Remade {
            plan,
            grade,
            possible_costs: self.possible_costs(&could_win, grade),
            unmeasured: if grade == Grade::None { self.unmeasured(&could_win) } else { Vec::new() },
            basis: self.basis.clone(),
        }
    }

    fn possible(&self) -> Possible {
        let probabilities = self.probabilities().into_iter().chain(std::iter::repeat(0.0));
        let share = if self.safe.is_empty() { 0.0 } else { self.exploration_share };
        let probability = |(candidate, by_score): (&&PooledEndpoint<'_>, f64)| {
            let drawn = if self.safe.contains(&candidate.index) { share / self.safe.len() as f64 } else { 0.0 };
            (self.planned(candidate), (1.0 - share) * by_score + drawn)
        };
        Possible {
            grade: self.grade(&self.unknown_winners()),
            order: self.order.iter().zip(probabilities).map(probability).collect(),
            attempts: self.attempts as usize,
            calm: self.calm().map(PooledEndpoint::endpoint),
        }
    }

    /// The probability of each to be the first, over the noise.
    fn probabilities(&self) -> Vec<f64> {
        let is_rival = |candidate: &&&PooledEndpoint<'_>| {
            candidate.role == Role::Candidate
                && self.order.first().is_some_and(|first| first.precedence == candidate.precedence)
        };
        let rivals = self.order.iter().take_while(is_rival);
        if self.context.seed == 0 || rivals.clone().count() < 2 {
            return vec![1.0];
        }
        let competitors = rivals.map(|candidate| Competitor {
            ranked: *candidate,
            rules: self.context.rules,
            scoring: self.scoring,
            forecast: candidate.forecast,
            uncertainty: self.context.rules.uncertainty_of(&candidate.inputs(self.context)),
            cost: candidate.live.cost,
        });
        first_places(&competitors.collect::<Vec<_>>())
    }

    /// Endpoints that are not recorded and could be the choice.
    fn unknown_winners(&self) -> Vec<&UnknownEndpoint> {
        match self.is_unchanged || self.is_drawn {
            true => Vec::new(),
            false => self.unknown.iter().filter(|unknown| self.could_win(unknown)).collect(),
        }
    }

    fn grade(&self, could_win: &[&UnknownEndpoint]) -> Grade {
        match (could_win.is_empty() && self.is_reported, !self.unmeasured(could_win).is_empty()) {
            (_, true) => Grade::None,
            (true, false) => Grade::Exact,
            (false, false) => Grade::Partial,
        }
    }

    /// Endpoints that could be the choice and of which nothing is known: they are new, or nothing else is left.
    fn unmeasured(&self, could_win: &[&UnknownEndpoint]) -> Vec<EndpointId> {
        let is_unmeasured = |unknown: &&&UnknownEndpoint| self.order.is_empty() || !self.setup.was_there(unknown.index);
        let id = |unknown: &&UnknownEndpoint| self.context.catalog.endpoint(unknown.index).map(|endpoint| endpoint.id);
        could_win.iter().filter(is_unmeasured).filter_map(id).collect()
    }

    /// Where a median is not known, or the choice depends on what else is there, any recorded candidate could be the choice, and any
    /// half-open endpoint a probe. Unrecorded endpoints could be called after it.
    fn possible_costs(&self, could_win: &[&UnknownEndpoint], grade: Grade) -> Option<PossibleCosts> {
        if grade == Grade::Exact {
            return None;
        }
        let choice = self.choice_by_score().filter(|_| self.is_reported);
        let may_serve = |candidate: &&PooledEndpoint<'_>| {
            let may_probe = choice.is_none() && matches!(candidate.live.gate, Gate::HalfOpen { .. });
            may_probe || candidate.role != Role::Excluded
        };
        let known = self.candidates.iter().filter(may_serve).map(|candidate| {
            let is_choice = choice.is_none_or(|choice| choice.index == candidate.index);
            (candidate.endpoint(), [candidate.live.cost; 2], is_choice)
        });
        let unknown = self.unknown.iter().filter_map(|unknown| {
            let is_choice = could_win.iter().any(|one| one.index == unknown.index);
            Some((self.context.catalog.endpoint(unknown.index)?.id, unknown.cost_range, is_choice))
        });
        let endpoints: Vec<_> = known.chain(unknown).collect();
        let has_choice = endpoints.iter().any(|(_, _, is_choice)| *is_choice);
        has_choice.then_some(PossibleCosts { endpoints, attempts: self.attempts as usize })
    }

    /// Whether an unrecorded endpoint could be the choice, or change it.
    fn could_win(&self, unknown: &UnknownEndpoint) -> bool {
        let Some(choice) = self.choice_by_score() else { return unknown.may_step_in };
        let query = self.context.query;
        let may_probe = unknown.is_half_open && query.routing.provider.allow_fallbacks;
        // One that takes back the reasoning before pending calls puts all others behind.
        let may_displace = query.pending_reasoning.is_bound() && !unknown.was_candidate;
        match unknown.precedence.cmp(&choice.precedence) {
            // A saturated one serves, too, where no other one has its rank.
            Ordering::Less => unknown.may_step_in,
            Ordering::Equal => {
                unknown.may_compete && (may_probe || may_displace || self.could_score(unknown, choice.rank))
            }
            Ordering::Greater => false,
        }
    }

    fn could_score(&self, unknown: &UnknownEndpoint, rank: f64) -> bool {
        let least = self.least_score(unknown);
        least <= rank || is_tie(rank, least)
    }

    /// The choice, if it competes by its score whatever else is there. A probe, a saturated endpoint and one past a refusing gate do
    /// not: whether they serve depends on all others.
    fn choice_by_score(&self) -> Option<&PooledEndpoint<'_>> {
        // No record says whether the knee of a choice was sure.
        let is_saturated = |choice: &PooledEndpoint<'_>| self.context.is_saturated(choice.forecast.load, true);
        self.order.first().copied().filter(|choice| choice.role == Role::Candidate && !is_saturated(choice))
    }

    /// The least score that an unrecorded endpoint can have: no time, no failure, the least cost. Of a candidate that the record
    /// leaves out its recorded score tells more.
    fn least_score(&self, unknown: &UnknownEndpoint) -> f64 {
        let nothing = PointForecast { first_token: 0.0, generation: 0.0, failure: 0.0, loss: 0.0 };
        let forecast =
            Forecast { load: 0.0, first_token: 0.0, noisy: nothing, noiseless: nothing, slow: 0.0, saved: 0.0 };
        let least = self.scoring.score_at(&nothing, &forecast, unknown.cost_range[0]);
        least.max(self.least_by_record(unknown).unwrap_or_default())
    }

    /// The least score of a candidate that the record leaves out, where only weights differ. Its score is `s·x + d·y`, with what
    /// depends on times in `x` and what depends on costs or failures in `y`; with the recorded rates `s` and `d` it is at
    /// least that of the candidates recorded before it, unless quality counted in it, too. The least of a linear function under this bound lies in a corner.
    fn least_by_record(&self, unknown: &UnknownEndpoint) -> Option<f64> {
        let recorded = self.recorded_scoring.as_ref().filter(|_| unknown.was_candidate)?;
        if recorded.counts_quality() {
            return None;
        }
        let before = self.before_omitted?;
        let ([second, dollar], [new_second, new_dollar]) = (recorded.rates(), self.scoring.rates());
        let [least, most] = match self.context.query.objective.value {
            Objective::Fastest => [0.0; 2],
            Objective::Reliable => [0.0, MOST_RISK],
            Objective::Cheapest | Objective::Balanced => {
                let [least, most] = unknown.cost_range;
                [least, most.max(self.scoring.baselines.failed)]
            }
        };
        let at = |y: f64| {
            let times = before - dollar * y;
            let x = if second > 0.0 { times.max(0.0) / second } else { 0.0 };
            // Without a rate for times, what costs less than the bound allows is impossible.
            let is_possible = second > 0.0 || times <= before * ROUNDING;
            if is_possible { new_second * x + new_dollar * y } else { f64::INFINITY }
        };
        let corner = if dollar > 0.0 { (before / dollar).clamp(least, most) } else { least };
        Some(at(least).min(at(most)).min(at(corner)) * (1.0 - ROUNDING))
    }

    /// Whether every recorded figure came out bit for bit, and the choice with the attempts after it.
    fn is_as_recorded(&self, decision: &Decision) -> bool {
        let recorded = || decision.candidates.iter().chain(&decision.rivals);
        let is_scored_alike = |candidate: &Candidate| {
            let made = self.candidates.iter().find(|made| made.endpoint() == candidate.endpoint);
            made.is_some_and(|made| self.is_alike(made, candidate))
        };
        // Ties after the choice may depend on candidates that are not recorded.
        let places = if decision.omitted.is_empty() { self.attempts as usize } else { 1 };
        let order = self.order.iter().map(|made| made.endpoint());
        let is_ordered_alike = order.take(places).eq(recorded().map(|candidate| candidate.endpoint).take(places));
        let is_drawn_alike = !decision.omitted.is_empty() || self.explored() == decision.explored;
        self.is_reported && is_ordered_alike && is_drawn_alike && recorded().all(is_scored_alike)
    }

    fn is_alike(&self, made: &PooledEndpoint<'_>, candidate: &Candidate) -> bool {
        let is_same = |one: f64, other: f64| one.to_bits() == other.to_bits();
        let inputs = made.inputs(self.context);
        let terms = self.scoring.terms(&made.forecast, inputs.cost);
        is_same(terms.sum(), candidate.score)
            && terms.iter().zip(candidate.terms.iter()).all(|(one, other)| is_same(one.value, other.value))
            && is_same(inputs.cost, candidate.inputs.cost)
            && is_same(inputs.expected, candidate.inputs.expected)
            && is_same(made.forecast.noiseless.failure, candidate.predicted.failure)
            && inputs.tier == candidate.inputs.tier
            && (made.role == Role::Probe, made.role == Role::Panic) == (candidate.probe, candidate.panic)
    }

    fn explored(&self) -> bool {
        let choice = self.order.first();
        choice.zip(self.calm()).is_some_and(|(choice, best)| choice.index != best.index)
    }

    /// The choice without noise and draws; `None` for a probe, and where nothing was left to chance.
    fn calm(&self) -> Option<&PooledEndpoint<'_>> {
        self.order.first().filter(|choice| choice.role == Role::Candidate && self.context.seed != 0)?;
        best_by(self.candidates, |candidate| candidate.noiseless)
    }

    fn planned(&self, candidate: &PooledEndpoint<'_>) -> Planned {
        let (forecast, cost) = (&candidate.forecast, candidate.live.cost);
        Planned {
            endpoint: candidate.endpoint(),
            cost,
            first_token: forecast.first_token,
            total: forecast.first_token + forecast.noiseless.generation,
            failure: forecast.noiseless.failure,
            // Past a refusing gate, the rank is a time.
            score: if candidate.role == Role::Panic { self.scoring.score(forecast, cost) } else { candidate.rank },
            load: [f64::from(candidate.live.in_flight), candidate.stats.estimates.fit.knee],
        }
    }
}
