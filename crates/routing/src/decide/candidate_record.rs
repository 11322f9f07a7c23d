//! A candidate as a decision records it.

use pointsman_domain::{CacheSaving, Candidate, EndpointHealth, OutputCostSpread};

use super::{
    context::DecisionContext,
    live_state::LiveState,
    pooled_endpoint::{PooledEndpoint, Role},
    score::Scoring,
};

pub(crate) fn candidate(
    context: &DecisionContext<'_>,
    candidate: &PooledEndpoint<'_>,
    place: usize,
    scoring: &Scoring,
) -> Candidate {
    let inputs = candidate.inputs(context);
    let terms = scoring.terms(&candidate.forecast, inputs.cost);
    let answers = inputs.failures + inputs.successes;
    let samples = (answers + 0.5) as u64;
    Candidate {
        index: candidate.index,
        endpoint: candidate.endpoint(),
        place: place as u32,
        target: candidate.target,
        group: candidate.precedence.group(),
        provider: candidate.provider(),
        score: terms.sum(),
        unit: scoring.unit(),
        terms,
        selection_probability: None,
        predicted: candidate.forecast.published(&inputs, candidate.stats),
        health: EndpointHealth {
            circuit: candidate.live.gate.circuit(),
            success_rate: (samples > 0).then(|| inputs.successes / answers),
            samples,
            in_flight: inputs.in_flight,
        },
        output: output_spread(context, candidate),
        saving: saving(candidate),
        inputs,
        probe: candidate.role == Role::Probe,
        panic: candidate.role == Role::Panic,
    }
}

fn output_spread(context: &DecisionContext<'_>, candidate: &PooledEndpoint<'_>) -> OutputCostSpread {
    let facts = &candidate.stats.facts;
    let scale = context.snapshot.prompts.of(facts.model);
    let prompt_tokens = f64::from(candidate.live.prompt_tokens);
    let rates = candidate.stats.prices.asked(context.query.needs.service, prompt_tokens);
    OutputCostSpread {
        prompt_usd: rates.prompt * prompt_tokens - candidate.live.saving,
        prompt_variance: scale.variance,
        usd_per_token: rates.completion * f64::from(context.query.answers),
        most: context.query.max_tokens.map_or(facts.longest_answer, |most| most.min(facts.longest_answer)),
    }
}

fn saving(candidate: &PooledEndpoint<'_>) -> Option<CacheSaving> {
    let LiveState { cached_tokens, saving: usd, .. } = candidate.live;
    (cached_tokens > 0).then_some(CacheSaving { cached_tokens, usd, seconds: candidate.forecast.saved })
}
