//! A candidate as a decision records it.

use super::{
    candidate::{PoolCandidate, Role},
    context::DecisionContext,
    live_state::LiveState,
    score::Scoring,
};
use crate::domain::{CacheSaving, Candidate, EndpointHealth, OutputCostSpread};

pub(crate) fn candidate(
    context: &DecisionContext<'_>,
    row: &PoolCandidate<'_>,
    place: usize,
    scoring: &Scoring,
) -> Candidate {
    let inputs = row.inputs(context);
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
            circuit: row.live.gate.circuit(),
            success_rate: (samples > 0).then(|| inputs.successes / answers),
            samples,
            in_flight: inputs.in_flight,
        },
        output: output_spread(context, row),
        saving: saving(row),
        inputs,
        probe: row.role == Role::Probe,
        panic: row.role == Role::Panic,
    }
}

fn output_spread(context: &DecisionContext<'_>, row: &PoolCandidate<'_>) -> OutputCostSpread {
    let facts = &row.stats.facts;
    let scale = context.snapshot.prompts.of(facts.model);
    OutputCostSpread {
        prompt_usd: row.stats.prices.prompt * f64::from(row.live.prompt_tokens) - row.live.saving,
        prompt_variance: scale.variance,
        usd_per_token: row.stats.prices.completion * f64::from(context.query.answers),
        most: context.query.max_tokens.map_or(facts.longest_answer, |most| most.min(facts.longest_answer)),
    }
}

fn saving(row: &PoolCandidate<'_>) -> Option<CacheSaving> {
    let LiveState { cached_tokens, saving: usd, .. } = row.live;
    (cached_tokens > 0).then_some(CacheSaving { cached_tokens, usd, seconds: row.forecast.saved })
}
