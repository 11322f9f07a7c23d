//! The scores that `/models/stats` shows: every endpoint on one reference request.

use std::sync::Arc;

use pointsman_domain::{
    ApiType, Exploration, Needs, Objective, Query, ReasoningFormat, Source, Sourced, Tick, Weights,
};

use super::{
    context::DecisionContext,
    forecast::Forecast,
    live_state::{LiveState, inputs},
    objective_profile::Baselines,
    score::Scoring,
};
use crate::stats::{EndpointStats, LiveView, Snapshot};

/// The reference request.
const PROMPT_TOKENS: u32 = 1000;
const OUTPUT_TOKENS: f64 = 256.0;

/// Scores in the order of [`Objective::ALL`], by position of the endpoint: a streamed request of 1,000 prompt and
/// 256 output tokens, without noise, compared among all endpoints that are on. `None` for those that are off.
pub fn reference_scores(snapshot: &Snapshot, live: &LiveView, now: Tick) -> Vec<Option<[f64; 4]>> {
    let mut scores = vec![None; snapshot.endpoints.len()];
    for (place, objective) in Objective::ALL.into_iter().enumerate() {
        let query = query(snapshot, objective);
        let context = DecisionContext::new(snapshot, live, &query, now, None);
        for (index, score) in scores_under(&context) {
            let entry = scores.get_mut(index).map(|entry| entry.get_or_insert([0.0; 4]));
            if let Some(slot) = entry.and_then(|entry| entry.get_mut(place)) {
                *slot = score;
            }
        }
    }
    scores
}

fn scores_under(context: &DecisionContext<'_>) -> Vec<(usize, f64)> {
    let stats = context.snapshot.endpoints.iter().zip(&context.catalog.endpoints);
    let on = (0_u32..).zip(stats).filter(|(_, (stats, endpoint))| stats.facts.on && !endpoint.disabled);
    let forecasts: Vec<(usize, Forecast, f64)> =
        on.map(|(index, (stats, _))| forecast(context, index, stats)).collect();
    let times = forecasts.iter().map(|(_, forecast, _)| forecast.noiseless_time());
    let costs = forecasts.iter().map(|(_, _, cost)| *cost);
    let baselines = Baselines::new(context.query.objective.value, times, costs.clone(), costs);
    let scoring = Scoring::new(context.policy, context.query.objective.value, context.query.weights, baselines);
    forecasts.into_iter().map(|(index, forecast, cost)| (index, scoring.score(&forecast, cost))).collect()
}

fn forecast(context: &DecisionContext<'_>, index: u32, stats: &EndpointStats) -> (usize, Forecast, f64) {
    let cost = stats.prices.cost(f64::from(PROMPT_TOKENS), OUTPUT_TOKENS, 0.0);
    let live = LiveState::new(context, stats, &context.live.endpoint(index));
    let inputs = inputs(stats, &LiveState { output_tokens: OUTPUT_TOKENS, cost, ..live });
    (index as usize, Forecast::new(&inputs, &stats.curve, &context.rules, None), cost)
}

fn query(snapshot: &Snapshot, objective: Objective) -> Query {
    Query {
        api: ApiType::Completions,
        today: chrono::NaiveDate::default(),
        targets: Vec::new(),
        router: None,
        objective: Sourced { value: objective, source: Source::Default },
        // A reference request has no class of a task, so quality does not count.
        weights: Weights { quality: 0.0, ..snapshot.policy.balanced }.checked().unwrap_or_default(),
        needs: Needs::default(),
        routing: Arc::default(),
        key_allowed: Vec::new(),
        key_blocked: Vec::new(),
        prompt_tokens: PROMPT_TOKENS,
        images: 0,
        max_tokens: None,
        answers: 1,
        streamed: true,
        sticky: None,
        pending_reasoning: ReasoningFormat::Unknown,
        task_class: None,
        split: None,
        exploration: Exploration::NONE,
        latency_margin: 1.0,
        quality_per_dollar: 0.0,
    }
}
