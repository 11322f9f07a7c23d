//! Test data: a decision and its generation. acme/small at two providers, of which the first failed.

use std::sync::Arc;

use pointsman_domain::{
    ApiType, AttemptReason, AttemptRecord, Candidate, Catalog, Circuit, CostBreakdown, Decision, DecisionCode,
    EndpointHealth, ExcludedEndpoint, ExclusionDetail, ExclusionReason, Exploration, FinishReason, Generation,
    GenerationId, GenerationStatus, Objective, OutputCostSpread, Prediction, ProviderPolicy, Query, ReasoningFormat,
    RequestFacts, RoutingParameters, ScoreInputs, ScoreTerms, ScoreUnit, Source, Sourced, Target, Usage, Usd, Weights,
};

use crate::api::samples::{today, usd};

/// A query for an alias with the objective `cheapest`.
pub(crate) fn query() -> Query {
    Query {
        api: ApiType::Completions,
        targets: vec![Target::Alias(0)],
        router: Some("service/auto".to_owned()),
        objective: Sourced { value: Objective::Cheapest, source: Source::Metadata },
        weights: Weights::default(),
        needs: Default::default(),
        routing: Arc::new(parameters()),
        key_allowed: Vec::new(),
        key_blocked: Vec::new(),
        prompt_tokens: 812,
        images: 0,
        answers: 1,
        max_tokens: None,
        streamed: false,
        sticky: None,
        pending_reasoning: ReasoningFormat::Unknown,
        task_class: None,
        quality_per_dollar: 0.0,
        split: None,
        exploration: Exploration::NONE,
        latency_margin: 1.0,
        today: today(),
    }
}

fn parameters() -> RoutingParameters {
    RoutingParameters {
        objective: Some(Sourced { value: Objective::Cheapest, source: Source::Metadata }),
        allowed: vec![vec!["acme/*".parse().unwrap(), "beta/medium".parse().unwrap()]],
        blocked: vec!["beta/*".parse().unwrap()],
        max_cost: Some(Sourced { value: usd("0.01"), source: Source::TopLevel }),
        provider: ProviderPolicy { order: vec!["acme".to_owned()], ..ProviderPolicy::default() },
        ..RoutingParameters::default()
    }
}

/// A decision on `catalog` with two candidates and one exclusion.
pub(crate) fn decision(catalog: &Catalog) -> Decision {
    let query = query();
    Decision {
        router: query.router,
        objective: query.objective,
        weights: query.weights,
        parameters: query.routing,
        code: DecisionCode::CheapestAvailable,
        candidates: vec![candidate(catalog, 0, 0.000_005_1), candidate(catalog, 1, 0.000_007_3)],
        rivals: Vec::new(),
        standby: Vec::new(),
        omitted: Vec::new(),
        excluded: vec![ExcludedEndpoint {
            index: 3,
            endpoint: catalog.endpoint(3).unwrap().id,
            reason: ExclusionReason::BlockedModel,
            detail: ExclusionDetail::Matches("beta/*".parse().unwrap()),
        }],
        prompt_tokens: 812,
        streamed: true,
        completion_tokens: 256,
        snapshot_version: 41,
        catalog_version: catalog.version,
        policy_version: 2,
        tick: Default::default(),
        seed: u64::MAX,
        explored: false,
        max_attempts: 3,
        baselines: [2.9, 0.000_004_8, 0.000_01, 2.9],
        quality: None,
        latency_margin: 1.0,
        request: RequestFacts::new(&self::query()),
        gates: Vec::new(),
        algorithm: 1,
        exploration_share: 0.0,
        safe_set: vec![0],
        task_class: None,
        split: None,
    }
}

fn candidate(catalog: &Catalog, index: u32, score: f64) -> Candidate {
    Candidate {
        index,
        endpoint: catalog.endpoint(index).unwrap().id,
        place: index,
        target: 0,
        group: 0,
        provider: catalog.endpoint(index).unwrap().provider,
        score,
        unit: ScoreUnit::Usd,
        terms: ScoreTerms::new(&["expected_cost", "failure"], [score - 0.000_000_3, 0.000_000_3, 0.0, 0.0, 0.0]),
        selection_probability: Some(0.94),
        predicted: Prediction {
            first_token_p50: 0.23,
            first_token_p95: 0.51,
            tokens_per_second: 95.0,
            total_p50: 2.9,
            total_p95: f64::NAN,
            cost: 0.000_004_8,
            failure: 0.004,
            measured: true,
        },
        health: EndpointHealth { circuit: Circuit::Closed, success_rate: Some(0.998), samples: 1204, in_flight: 2 },
        output: OutputCostSpread { usd_per_token: 0.000_000_6, most: 4096, prompt_usd: 0.0, prompt_variance: 0.0 },
        saving: None,
        inputs: ScoreInputs { output_variance: 0.64, ..ScoreInputs::default() },
        probe: false,
        panic: false,
    }
}

/// A generation whose first attempt failed and whose second provider served.
pub(crate) fn generation(catalog: &Catalog) -> Generation {
    let model: Arc<str> = "acme/small".into();
    let (id, decision) = (GenerationId::new(1_763_629_500, [1, 2, 3]), Arc::new(decision(catalog)));
    Generation {
        owner: 5,
        request_id: "req-1".into(),
        status: GenerationStatus::Completed,
        requested_model: "auto".into(),
        streamed: true,
        attempts: vec![attempt(1, "Acme", Some(503)), attempt(2, "Beta Cloud", Some(200))],
        model: Some(model),
        provider_name: Some("Beta Cloud".into()),
        provider_slug: Some("beta".into()),
        upstream_id: Some("chatcmpl-7".to_owned()),
        latency_ms: Some(312),
        generation_time_ms: Some(2100),
        usage: Usage { prompt_tokens: 12, completion_tokens: 5, cached_tokens: 2, ..Usage::default() },
        cost: Some(CostBreakdown {
            prompt: usd("0.0000015"),
            cache_read: usd("0.00000003"),
            completion: usd("0.000003"),
            ..CostBreakdown::default()
        }),
        finish: Some(FinishReason::Stop),
        native_finish_reason: Some("end_turn".to_owned()),
        dropped_parameters: vec!["top_k".into()],
        tags: vec![("team".to_owned(), "blue".to_owned())],
        user_agent: Some("tests/1".to_owned()),
        ..Generation::admitted(id, 1_763_629_500_250, decision, Arc::default(), Arc::new(catalog.clone()))
    }
}

fn attempt(n: u32, provider_name: &str, status: Option<u16>) -> AttemptRecord {
    let failed = status != Some(200);
    AttemptRecord {
        n,
        reason: if failed { AttemptReason::First } else { AttemptReason::Fallback },
        endpoint: n - 1,
        model: "acme/small".into(),
        provider_name: provider_name.into(),
        provider_slug: if failed { "acme" } else { "beta" }.into(),
        status,
        error_type: failed.then(|| "overloaded".into()),
        started_ms: u64::from(n) * 40,
        connect_ms: failed.then_some(12),
        tls_ms: failed.then_some(20),
        first_byte_ms: Some(29),
        first_token_ms: (!failed).then_some(30),
        stream_ms: (!failed).then_some(30),
        duration_ms: 60,
        cost: Some(if failed { Usd::ZERO } else { usd("0.00000453") }),
        served: !failed,
        ..AttemptRecord::default()
    }
}
