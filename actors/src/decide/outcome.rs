//! Writes down what was decided.

use std::sync::Arc;

use super::{
    admission,
    candidate::{PoolCandidate, Role},
    context::DecisionContext,
    extent::{RecordScope, omitted, told},
    live_state::LiveState,
    plan::Plan,
    pool::CandidatePool,
    reserve::standby,
    score::Scoring,
};
use crate::domain::{
    CacheSaving, Candidate, Decision, DecisionCode, EndpointHealth, ExcludedEndpoint, ExclusionDetail, ExclusionReason,
    Objective, OmittedCandidates, OutputCostSpread, RouteError, Target,
};

/// Nothing may serve the request.
pub(crate) fn refused(case: &DecisionContext<'_>, field: CandidatePool<'_>) -> RouteError {
    let mut excluded = field.excluded;
    excluded.extend(field.rows.iter().map(|row| admission::excluded(case, row)));
    RouteError { query: Box::new(case.query.clone()), excluded, opens: field.opens }
}

/// Something may.
pub(crate) fn decided(
    case: &DecisionContext<'_>,
    rows: &[PoolCandidate<'_>],
    mut excluded: Vec<ExcludedEndpoint>,
    mut plan: Plan<'_, '_>,
    scoring: &Scoring,
    extent: RecordScope,
) -> Decision {
    let fallbacks = case.query.routing.provider.allow_fallbacks;
    let planned = if fallbacks { plan.order.len() } else { 1 };
    let told = told(&mut plan, extent, case.catalog.providers.len());
    let mut candidates = candidates(case, &told, scoring);
    let rivals = candidates.split_off(planned.min(candidates.len()));
    excluded.extend(plan.order.first.iter().skip(planned).map(|row| without_fallbacks(row)));
    let mut on_standby = Vec::new();
    if plan.order.len() < rows.len() {
        if fallbacks {
            on_standby = standby(case, rows, scoring, &plan);
        }
        excluded.extend(rows.iter().filter(|row| row.role == Role::Out).map(|row| admission::excluded(case, row)));
    }
    let query = case.query;
    let prompt_tokens = candidates.first().map_or(query.prompt_tokens, |first| first.inputs.prompt_tokens);
    Decision {
        router: query.router.clone(),
        objective: query.objective,
        weights: query.weights,
        parameters: Arc::clone(&query.routing),
        code: code(case, &candidates, &plan),
        completion_tokens: candidates.first().map_or(0, |first| first.inputs.output_tokens.round() as u32),
        candidates,
        rivals,
        standby: on_standby,
        omitted: if fallbacks { omitted(plan.order, &told) } else { OmittedCandidates::default() },
        excluded,
        prompt_tokens,
        streamed: query.streamed,
        snapshot_version: case.snapshot.version,
        catalog_version: case.catalog.version,
        policy_version: case.policy.version,
        tick: case.now,
        seed: case.seed,
        explored: plan.calm_best.is_some(),
        max_attempts: plan.attempts,
        baselines: scoring.yardsticks.recorded(),
        latency_margin: query.latency_margin,
    }
}

/// The candidates that are written out.
fn candidates(case: &DecisionContext<'_>, told: &[(usize, &PoolCandidate<'_>)], scoring: &Scoring) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(told.len());
    candidates.extend(told.iter().map(|(place, row)| candidate(case, row, *place, scoring)));
    candidates
}

// Inlined, a candidate is written where it stays instead of being copied there.
#[inline(always)]
pub(crate) fn candidate(
    case: &DecisionContext<'_>,
    row: &PoolCandidate<'_>,
    place: usize,
    scoring: &Scoring,
) -> Candidate {
    let inputs = row.inputs(case);
    let terms = scoring.terms(&row.forecast, inputs.cost);
    let answers = inputs.failures + inputs.successes;
    let samples = (answers + 0.5) as u64;
    Candidate {
        index: row.index,
        endpoint: row.endpoint(),
        place: place as u32,
        target: row.target,
        group: row.group(),
        provider: row.provider(),
        score: terms.sum(),
        unit: scoring.unit(),
        terms,
        selection_probability: None,
        predicted: row.forecast.published(&inputs, row.stats),
        health: EndpointHealth {
            circuit: row.moment.gate.circuit(),
            success_rate: (samples > 0).then(|| inputs.successes / answers),
            samples,
            in_flight: inputs.in_flight,
        },
        output: output_spread(case, row),
        saving: saving(row),
        inputs,
        probe: row.role == Role::Probe,
        panic: row.role == Role::Panic,
    }
}

#[inline]
fn output_spread(case: &DecisionContext<'_>, row: &PoolCandidate<'_>) -> OutputCostSpread {
    let facts = &row.stats.facts;
    let scale = case.snapshot.prompts.of(facts.model);
    OutputCostSpread {
        prompt_usd: row.stats.prices.prompt * f64::from(row.moment.prompt_tokens) - row.moment.saving,
        prompt_variance: scale.variance,
        usd_per_token: row.stats.prices.completion * f64::from(case.query.answers),
        most: case.query.max_tokens.map_or(facts.longest_answer, |most| most.min(facts.longest_answer)),
    }
}

fn saving(row: &PoolCandidate<'_>) -> Option<CacheSaving> {
    let LiveState { cached_tokens, saving: usd, .. } = row.moment;
    (cached_tokens > 0).then_some(CacheSaving { cached_tokens, usd, seconds: row.forecast.saved })
}

/// An endpoint that would be tried next, were fallbacks allowed.
fn without_fallbacks(row: &PoolCandidate<'_>) -> ExcludedEndpoint {
    let detail = ExclusionDetail::Text("fallbacks are off and another endpoint was chosen");
    ExcludedEndpoint { index: row.index, endpoint: row.endpoint(), reason: ExclusionReason::ProviderNotAllowed, detail }
}

fn code(case: &DecisionContext<'_>, candidates: &[Candidate], plan: &Plan<'_, '_>) -> DecisionCode {
    let first = candidates.first().map_or(0, |first| first.target);
    let target = case.query.targets.get(first as usize);
    let competed = case.query.routing.provider.across_models && case.query.targets.len() > 1;
    let is_free = |position: u32| case.catalog.alias(position).is_some_and(|alias| alias.free_only);
    match target {
        _ if first > 0 && !competed => DecisionCode::ModelFallback,
        _ if plan.kept => DecisionCode::SessionSticky,
        Some(Target::Alias(position)) if is_free(*position) => DecisionCode::FreePool,
        _ if plan.calm_best.is_some() => DecisionCode::Exploration,
        Some(Target::Model(_)) if !competed => DecisionCode::FixedModel,
        _ if candidates.len() == 1 => DecisionCode::OnlyCandidate,
        _ => match case.query.objective.value {
            Objective::Cheapest => DecisionCode::CheapestAvailable,
            Objective::Fastest => DecisionCode::FastestAvailable,
            Objective::Reliable => DecisionCode::MostReliable,
            Objective::Balanced => DecisionCode::BalancedBestMatch,
        },
    }
}
