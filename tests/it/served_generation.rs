//! The record of a streamed answer that the first candidate of a decision gave.

use std::sync::Arc;

use pointsman_domain::{
    AttemptReason, AttemptRecord, Catalog, CostBreakdown, Decision, FinishReason, Generation, GenerationId,
    GenerationStatus, RoutingPolicy, Usage,
};
use pointsman_routing::decide::splitmix64;

/// The generation of this number; with the number vary its id, times and tokens.
pub fn served(decision: Decision, catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>, number: u64) -> Generation {
    let chance = |salt: u64, below: u64| splitmix64(number ^ salt << 40) % below;
    let endpoint = &catalog.endpoints[decision.candidates[0].index as usize];
    let (model, provider) = (catalog.model_of(endpoint).unwrap(), catalog.provider_of(endpoint).unwrap());
    let (first_token, stream) = (80 + chance(1, 900), 500 + chance(2, 4000));
    let usage = Usage {
        prompt_tokens: u64::from(decision.prompt_tokens) + chance(3, 50),
        completion_tokens: 10 + chance(4, 500),
        ..Usage::default()
    };
    let cost = endpoint.cost(&usage);
    let seconds = 1_763_629_500 + number / 10;
    let attempt = AttemptRecord {
        n: 1,
        reason: AttemptReason::First,
        endpoint: decision.candidates[0].index,
        model: model.id.shared(),
        provider_name: Arc::clone(&provider.name),
        provider_slug: provider.slug.shared(),
        status: Some(200),
        error_type: None,
        cause: None,
        started_ms: 0,
        queue_ms: 0,
        connect_ms: None,
        tls_ms: None,
        first_byte_ms: Some(first_token - 3),
        first_token_ms: Some(first_token),
        stream_ms: Some(stream),
        duration_ms: first_token + stream,
        cost: cost.as_ref().map(CostBreakdown::total),
        estimated: false,
        reported_cost: None,
        served: true,
    };
    let id = GenerationId::new(seconds, [chance(5, u64::MAX), chance(6, u64::MAX), chance(7, u64::MAX)]);
    let created_ms = seconds as i64 * 1000 + (number % 10) as i64 * 100;
    Generation {
        owner: 0x9e37_79b9_7f4a_7c15,
        request_id: format!("{:016x}{:016x}", chance(8, u64::MAX), chance(9, u64::MAX)).into(),
        status: GenerationStatus::Completed,
        requested_model: "service/auto".into(),
        model: Some(Arc::clone(&attempt.model)),
        provider_name: Some(Arc::clone(&attempt.provider_name)),
        provider_slug: Some(Arc::clone(&attempt.provider_slug)),
        attempts: vec![attempt],
        upstream_id: Some(format!("chatcmpl-{:016x}{:08x}", chance(10, u64::MAX), chance(11, 1 << 32))),
        latency_ms: Some(first_token),
        generation_time_ms: Some(first_token + stream),
        usage,
        cost,
        finish: Some(FinishReason::Stop),
        native_finish_reason: Some("stop".to_owned()),
        tags: vec![("team".to_owned(), "blue".to_owned())],
        user_agent: Some("OpenAI/Python 2.8.0".to_owned()),
        ..Generation::admitted(id, created_ms, Arc::new(decision), Arc::clone(policy), Arc::clone(catalog))
    }
}
