//! The result of a decision.

use std::sync::Arc;

use pointsman_domain::{
    Candidate, Decision, DecisionCode, EndpointId, ExcludedEndpoint, ExclusionDetail, ExclusionReason, RecordedGate,
    RequestFacts, RouteError, Target, Tick,
};

use super::{
    candidate_record,
    context::DecisionContext,
    exclusion,
    objective_profile::ObjectiveProfile,
    plan::Plan,
    pool::CandidatePool,
    pooled_endpoint::{PooledEndpoint, Role},
    record_scope::{RecordScope, recorded},
    score::Scoring,
    standby::standby,
};

use crate::stats::{Gate, Snapshot};

/// Version of the algorithm, for records. It rises when the same inputs may lead to another choice.
pub const ALGORITHM: u16 = 1;

/// Why an endpoint is excluded that would be the next attempt if fallbacks were allowed.
const WITHOUT_FALLBACKS: &str = "fallbacks are off and another endpoint was chosen";

/// No endpoint may serve the request.
pub(crate) fn refused(context: &DecisionContext<'_>, pool: CandidatePool<'_>) -> RouteError {
    let mut excluded = pool.excluded;
    excluded.extend(pool.candidates.iter().map(|candidate| exclusion::excluded(context, candidate)));
    let gates = gates(context, &[], &excluded);
    RouteError { query: Box::new(context.query.clone()), excluded, opens: pool.opens, gates }
}

/// The decision that no endpoint could take the request, for its record. `snapshot` is the one that was refused with, or a
/// later one of the same configuration.
pub fn without_candidates(error: &RouteError, snapshot: &Snapshot, now: Tick) -> Decision {
    let query = &*error.query;
    Decision {
        router: query.router.clone(),
        objective: query.objective,
        weights: query.weights,
        parameters: Arc::clone(&query.routing),
        code: DecisionCode::NoCandidates,
        candidates: Vec::new(),
        rivals: Vec::new(),
        standby: Vec::new(),
        omitted: Vec::new(),
        excluded: error.excluded.clone(),
        prompt_tokens: query.prompt_tokens,
        streamed: query.streamed,
        completion_tokens: 0,
        snapshot_version: snapshot.version,
        catalog_version: snapshot.catalog.version,
        policy_version: snapshot.policy.version,
        tick: now,
        // Nothing was drawn.
        seed: 0,
        explored: false,
        max_attempts: 0,
        baselines: [0.0; 4],
        quality: None,
        latency_margin: query.latency_margin,
        request: RequestFacts::new(query),
        gates: error.gates.clone(),
        algorithm: ALGORITHM,
        exploration_share: 0.0,
        safe_set: Vec::new(),
        task_class: query.task_class,
        split: query.split.clone(),
    }
}

/// The decision with its candidates.
pub(crate) fn decided(
    context: &DecisionContext<'_>,
    pool: &CandidatePool<'_>,
    mut excluded: Vec<ExcludedEndpoint>,
    plan: Plan<'_, '_>,
    scoring: &Scoring,
    scope: RecordScope,
) -> Decision {
    let gates = gates(context, &pool.candidates, &excluded);
    let fallbacks = context.query.routing.provider.allow_fallbacks;
    let planned = if fallbacks { plan.order.len() } else { 1 };
    let (mut candidates, omitted) = recorded_candidates(context, &plan, scoring, scope);
    let rivals = candidates.split_off(planned.min(candidates.len()));
    excluded.extend(plan.order.iter().skip(planned).map(|candidate| without_fallbacks(candidate)));
    let left_out = pool.candidates.iter().filter(|candidate| candidate.role == Role::Excluded);
    excluded.extend(left_out.map(|candidate| exclusion::excluded(context, candidate)));
    let standby = if fallbacks { standby(context, &pool.candidates, scoring, &plan) } else { Vec::new() };
    let query = context.query;
    let prompt_tokens = candidates.first().map_or(query.prompt_tokens, |first| first.inputs.prompt_tokens);
    Decision {
        router: query.router.clone(),
        objective: query.objective,
        weights: query.weights,
        parameters: Arc::clone(&query.routing),
        code: code(context, &candidates, &plan),
        completion_tokens: candidates.first().map_or(0, |first| first.inputs.output_tokens.round() as u32),
        candidates,
        rivals,
        standby,
        omitted: if fallbacks { omitted } else { Vec::new() },
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
        quality: scoring.baselines.quality,
        latency_margin: query.latency_margin,
        request: RequestFacts::new(query),
        gates,
        algorithm: ALGORITHM,
        exploration_share: plan.exploration_share,
        safe_set: plan.safe_set,
        task_class: query.task_class,
        split: query.split.clone(),
    }
}

/// The candidates that are recorded with their figures, in plan order, and the ids of the others.
fn recorded_candidates(
    context: &DecisionContext<'_>,
    plan: &Plan<'_, '_>,
    scoring: &Scoring,
    scope: RecordScope,
) -> (Vec<Candidate>, Vec<EndpointId>) {
    let recorded = recorded(plan, scope);
    let count = recorded.iter().filter(|is_recorded| **is_recorded).count();
    let (mut candidates, mut omitted) = (Vec::with_capacity(count), Vec::with_capacity(recorded.len() - count));
    for ((place, candidate), is_recorded) in plan.order.iter().enumerate().zip(recorded) {
        if is_recorded {
            candidates.push(candidate_record::candidate(context, candidate, place, scoring));
        } else {
            omitted.push(candidate.endpoint());
        }
    }
    (candidates, omitted)
}

/// Every endpoint of the pool with a refusing or half-open gate, whether or not it was excluded for that.
fn gates(
    context: &DecisionContext<'_>,
    candidates: &[PooledEndpoint<'_>],
    excluded: &[ExcludedEndpoint],
) -> Vec<RecordedGate> {
    let passed = candidates.iter().map(|candidate| (candidate.index, candidate.live.gate));
    let excluded = excluded.iter().map(|excluded| (excluded.index, context.gate(excluded.index)));
    let refusing = |(index, gate): (u32, Gate)| gate.state().map(|(state, until)| RecordedGate { index, state, until });
    passed.chain(excluded).filter_map(refusing).collect()
}

/// An endpoint that would be the next attempt if fallbacks were allowed.
fn without_fallbacks(candidate: &PooledEndpoint<'_>) -> ExcludedEndpoint {
    let detail = ExclusionDetail::Text(WITHOUT_FALLBACKS.into());
    ExcludedEndpoint {
        index: candidate.index,
        endpoint: candidate.endpoint(),
        reason: ExclusionReason::ProviderNotAllowed,
        detail,
    }
}

/// Whether an endpoint is excluded only because another one was chosen and fallbacks are off.
pub(crate) fn is_without_fallbacks(excluded: &ExcludedEndpoint) -> bool {
    matches!(&excluded.detail, ExclusionDetail::Text(text) if &**text == WITHOUT_FALLBACKS)
}

fn code(context: &DecisionContext<'_>, candidates: &[Candidate], plan: &Plan<'_, '_>) -> DecisionCode {
    let first = candidates.first().map_or(0, |first| first.target);
    let target = context.query.targets.get(first as usize);
    let competed = context.query.routing.provider.across_models && context.query.targets.len() > 1;
    let is_free = |position: u32| context.catalog.alias(position).is_some_and(|alias| alias.free_only);
    match target {
        _ if first > 0 && !competed => DecisionCode::ModelFallback,
        _ if plan.cache_decided => DecisionCode::SessionSticky,
        Some(Target::Alias(position)) if is_free(*position) => DecisionCode::FreePool,
        _ if plan.noiseless_best.is_some() => DecisionCode::Exploration,
        Some(Target::Model(_)) if !competed => DecisionCode::FixedModel,
        _ if candidates.len() == 1 => DecisionCode::OnlyCandidate,
        _ => ObjectiveProfile::of(context.query.objective.value).code,
    }
}
