//! Writes down what was decided.

use std::sync::Arc;

use super::{
    candidate::{PoolCandidate, Role},
    candidate_record::candidate,
    context::DecisionContext,
    exclusion,
    extent::{RecordScope, omitted, told},
    pool::CandidatePool,
    ranking::Plan,
    reserve::standby,
    score::Scoring,
};
use crate::domain::{
    Candidate, Decision, DecisionCode, ExcludedEndpoint, ExclusionDetail, ExclusionReason, Objective,
    OmittedCandidates, RecordedGate, RequestFacts, RouteError, Target,
};

/// Number of the way in which decisions are made, for their records. It changes whenever the same inputs may lead to
/// another choice.
pub const ALGORITHM: u16 = 1;

/// Nothing may serve the request.
pub(crate) fn refused(case: &DecisionContext<'_>, field: CandidatePool<'_>) -> RouteError {
    let mut excluded = field.excluded;
    excluded.extend(field.rows.iter().map(|row| exclusion::excluded(case, row)));
    RouteError { query: Box::new(case.query.clone()), excluded, opens: field.opens }
}

/// Something may.
pub(crate) fn decided(
    case: &DecisionContext<'_>,
    rows: &[PoolCandidate<'_>],
    mut excluded: Vec<ExcludedEndpoint>,
    gates: Vec<RecordedGate>,
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
        excluded.extend(rows.iter().filter(|row| row.role == Role::Out).map(|row| exclusion::excluded(case, row)));
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
        request: RequestFacts::of(query),
        gates,
        algorithm: ALGORITHM,
        // Only noise explores.
        exploration_share: 0.0,
        task_class: None,
    }
}

/// The candidates that are written out.
fn candidates(case: &DecisionContext<'_>, told: &[(usize, &PoolCandidate<'_>)], scoring: &Scoring) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(told.len());
    candidates.extend(told.iter().map(|(place, row)| candidate(case, row, *place, scoring)));
    candidates
}

/// An endpoint that would be tried next, were fallbacks allowed.
fn without_fallbacks(row: &PoolCandidate<'_>) -> ExcludedEndpoint {
    let detail = ExclusionDetail::Text("fallbacks are off and another endpoint was chosen".into());
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
