//! The result of a decision.

use std::sync::Arc;

use super::{
    candidate::{PoolCandidate, Role},
    candidate_record::candidate,
    context::DecisionContext,
    exclusion,
    objective_profile::ObjectiveProfile,
    plan::Plan,
    pool::CandidatePool,
    record_scope::{RecordScope, recorded},
    reserve::standby,
    score::Scoring,
};
use crate::domain::{
    Candidate, Decision, DecisionCode, ExcludedEndpoint, ExclusionDetail, ExclusionReason, RecordedGate, RequestFacts,
    RouteError, Target,
};

/// Version of the algorithm, for records. Incremented when the same inputs may lead to another choice.
pub const ALGORITHM: u16 = 2;

/// No endpoint may serve the request.
pub(crate) fn refused(context: &DecisionContext<'_>, pool: CandidatePool<'_>) -> RouteError {
    let mut excluded = pool.excluded;
    excluded.extend(pool.rows.iter().map(|row| exclusion::excluded(context, row)));
    RouteError { query: Box::new(context.query.clone()), excluded, opens: pool.opens }
}

/// The decision with its candidates.
pub(crate) fn decided(
    context: &DecisionContext<'_>,
    rows: &[PoolCandidate<'_>],
    mut excluded: Vec<ExcludedEndpoint>,
    gates: Vec<RecordedGate>,
    plan: &Plan<'_, '_>,
    scoring: &Scoring,
    scope: RecordScope,
) -> Decision {
    let fallbacks = context.query.routing.provider.allow_fallbacks;
    let planned = if fallbacks { plan.order.len() } else { 1 };
    let (mut candidates, mut omitted) = (Vec::new(), Vec::new());
    for ((place, row), is_recorded) in plan.order.iter().enumerate().zip(recorded(plan, scope)) {
        if is_recorded {
            candidates.push(candidate(context, row, place, scoring));
        } else if fallbacks {
            omitted.push(row.endpoint());
        }
    }
    let rivals = candidates.split_off(planned.min(candidates.len()));
    excluded.extend(plan.order.iter().skip(planned).map(|row| without_fallbacks(row)));
    let mut on_standby = Vec::new();
    if plan.order.len() < rows.len() {
        if fallbacks {
            on_standby = standby(context, rows, scoring, plan);
        }
        excluded.extend(rows.iter().filter(|row| row.role == Role::Out).map(|row| exclusion::excluded(context, row)));
    }
    let query = context.query;
    let prompt_tokens = candidates.first().map_or(query.prompt_tokens, |first| first.inputs.prompt_tokens);
    Decision {
        router: query.router.clone(),
        objective: query.objective,
        weights: query.weights,
        parameters: Arc::clone(&query.routing),
        code: code(context, &candidates, plan),
        completion_tokens: candidates.first().map_or(0, |first| first.inputs.output_tokens.round() as u32),
        candidates,
        rivals,
        standby: on_standby,
        omitted,
        excluded,
        prompt_tokens,
        streamed: query.streamed,
        snapshot_version: context.snapshot.version,
        catalog_version: context.catalog.version,
        policy_version: context.policy.version,
        tick: context.now,
        seed: context.seed,
        explored: plan.noiseless_best.is_some(),
        max_attempts: plan.attempts,
        baselines: scoring.baselines.recorded(),
        latency_margin: query.latency_margin,
        request: RequestFacts::of(query),
        gates,
        algorithm: ALGORITHM,
        // Only noise explores.
        exploration_share: 0.0,
        task_class: None,
    }
}

/// An endpoint that would be the next attempt if fallbacks were allowed.
fn without_fallbacks(row: &PoolCandidate<'_>) -> ExcludedEndpoint {
    let detail = ExclusionDetail::Text("fallbacks are off and another endpoint was chosen".into());
    ExcludedEndpoint { index: row.index, endpoint: row.endpoint(), reason: ExclusionReason::ProviderNotAllowed, detail }
}

fn code(context: &DecisionContext<'_>, candidates: &[Candidate], plan: &Plan<'_, '_>) -> DecisionCode {
    let first = candidates.first().map_or(0, |first| first.target);
    let target = context.query.targets.get(first as usize);
    let competed = context.query.routing.provider.across_models && context.query.targets.len() > 1;
    let is_free = |position: u32| context.catalog.alias(position).is_some_and(|alias| alias.free_only);
    match target {
        _ if first > 0 && !competed => DecisionCode::ModelFallback,
        _ if plan.kept => DecisionCode::SessionSticky,
        Some(Target::Alias(position)) if is_free(*position) => DecisionCode::FreePool,
        _ if plan.noiseless_best.is_some() => DecisionCode::Exploration,
        Some(Target::Model(_)) if !competed => DecisionCode::FixedModel,
        _ if candidates.len() == 1 => DecisionCode::OnlyCandidate,
        _ => ObjectiveProfile::of(context.query.objective.value).code,
    }
}
