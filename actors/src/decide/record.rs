//! Writes down what was decided.

use super::{
    case::Case,
    field::{Field, Moment, Role, Row},
    gates,
    plan::Plan,
    score::Scoring,
    standby::standby,
};
use crate::{
    domain::{
        Candidate, Decision, DecisionCode, Detail, Excluded, ExclusionReason, Health, Objective, OutputSpread,
        RouteError, Saving, Target,
    },
    stats::Gate,
};

/// Nothing may serve the request.
pub(super) fn refused(case: &Case<'_>, field: Field<'_>) -> RouteError {
    let mut excluded = field.excluded;
    excluded.extend(field.rows.iter().map(|row| gates::excluded(case, row)));
    RouteError { query: Box::new(case.query.clone()), excluded, opens: field.opens }
}

/// Something may.
pub(super) fn decided(
    case: &Case<'_>,
    rows: &[Row<'_>],
    mut excluded: Vec<Excluded>,
    plan: &Plan<'_, '_>,
    scoring: &Scoring,
) -> Decision {
    let fallbacks = case.query.routing.provider.allow_fallbacks;
    let planned = if fallbacks { plan.order.len() } else { 1 };
    let mut candidates: Vec<Candidate> = plan.order.iter().map(|row| candidate(case, row, scoring)).collect();
    let rivals = candidates.split_off(planned.min(plan.order.len()));
    excluded.extend(plan.order.iter().skip(planned).map(|row| without_fallbacks(row)));
    let mut on_standby = Vec::new();
    if plan.order.len() < rows.len() {
        if fallbacks {
            on_standby = standby(case, rows, scoring, plan.attempts as usize);
        }
        excluded.extend(rows.iter().filter(|row| row.role == Role::Out).map(|row| gates::excluded(case, row)));
    }
    let query = case.query;
    Decision {
        router: query.router.clone(),
        objective: query.objective,
        weights: query.weights,
        parameters: query.routing.clone(),
        code: code(case, &candidates, plan),
        completion_tokens: candidates.first().map_or(0, |first| first.inputs.output_tokens.round() as u32),
        candidates,
        rivals,
        standby: on_standby,
        omitted: Vec::new(),
        excluded,
        prompt_tokens: query.prompt_tokens,
        streamed: query.streamed,
        snapshot_version: case.snapshot.version,
        catalog_version: case.catalog.version,
        policy_version: case.policy.version,
        tick: case.now,
        seed: case.seed,
        explored: plan.explored,
        max_attempts: plan.attempts,
        yardsticks: scoring.yardsticks.recorded(),
    }
}

// Inlined, a candidate is written where it stays instead of being copied there.
#[inline]
pub(super) fn candidate(case: &Case<'_>, row: &Row<'_>, scoring: &Scoring) -> Candidate {
    let inputs = row.inputs(case);
    let terms = scoring.terms(&row.forecast, inputs.cost);
    let answers = inputs.failures + inputs.successes;
    Candidate {
        index: row.index,
        endpoint: row.endpoint(),
        target: row.target(),
        provider: row.provider(),
        score: terms.sum(),
        unit: scoring.unit(),
        terms,
        selection_probability: None,
        predicted: row.forecast.published(&inputs, row.stats),
        health: Health {
            circuit: if row.moment.gate.is_passing() { Gate::Passing.circuit() } else { row.moment.gate.circuit() },
            success_rate: (answers > 0.0).then(|| inputs.successes / answers),
            samples: (answers + 0.5) as u64,
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
fn output_spread(case: &Case<'_>, row: &Row<'_>) -> OutputSpread {
    let facts = &row.stats.facts;
    OutputSpread {
        sigma: row.moment.output_variance.sqrt(),
        usd_per_token: row.stats.prices.completion * f64::from(case.query.answers),
        most: case.query.max_tokens.map_or(facts.longest_answer, |most| most.min(facts.longest_answer)),
    }
}

fn saving(row: &Row<'_>) -> Option<Saving> {
    let Moment { cached_tokens, saving: usd, .. } = row.moment;
    (cached_tokens > 0).then_some(Saving { cached_tokens, usd, seconds: row.forecast.saved })
}

/// An endpoint that would be tried next, were fallbacks allowed.
fn without_fallbacks(row: &Row<'_>) -> Excluded {
    let detail = Detail::Text("fallbacks are off and another endpoint was chosen");
    Excluded { index: row.index, endpoint: row.endpoint(), reason: ExclusionReason::ProviderNotAllowed, detail }
}

fn code(case: &Case<'_>, candidates: &[Candidate], plan: &Plan<'_, '_>) -> DecisionCode {
    let first = candidates.first().map_or(0, |first| first.target);
    let target = case.query.targets.get(first as usize);
    let competed = case.query.routing.provider.across_models && case.query.targets.len() > 1;
    let is_free = |position: u32| case.catalog.alias(position).is_some_and(|alias| alias.free_only);
    match target {
        _ if first > 0 && !competed => DecisionCode::ModelFallback,
        _ if plan.kept => DecisionCode::SessionSticky,
        Some(Target::Alias(position)) if is_free(*position) => DecisionCode::FreePool,
        _ if plan.explored => DecisionCode::Exploration,
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
