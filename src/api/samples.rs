//! A small catalog for tests: two providers that are on, one that is off, six models, two aliases.

use std::sync::Arc;

use pointsman_domain::{
    Alias, Catalog, DefaultParameters, Endpoint, EndpointId, FailureKind, Modalities, Modality, Model, ParameterNames,
    ParameterSet, Pricing, Provider, ProviderSlug, ProviderState, Tick, Usd,
};
use pointsman_routing::stats::{EndpointFigures, ErrorCounts, Figures, LastError, LiveView, Quantiles, Summary};

use crate::api::models::measurements::{Clocks, Measurements};

/// Measurements of the first endpoints: each number is used both as seconds and as tokens per second. Nine of ten requests
/// succeeded.
pub(crate) fn measurements(catalog: &Catalog, measured: &[Option<f64>]) -> Measurements {
    let summary = |p50: f64| Summary {
        window_seconds: 300,
        requests: 10,
        successes: 9,
        errors: ErrorCounts { server: 1, ..ErrorCounts::default() },
        success_rate: Some(0.912_345),
        latency: quantiles(p50 * 10.0),
        first_token: quantiles(p50),
        throughput: quantiles(p50),
        first_token_half_hour: quantiles(p50),
        throughput_half_hour: quantiles(p50),
        success_rate_half_hour: Some(0.95),
        success_rate_day: None,
        last_error: Some(LastError { at: Tick(1_000_000), kind: FailureKind::Server, status: Some(500) }),
        consecutive_failures: 1,
    };
    let endpoints = catalog.endpoints.iter().zip(measured).map(|(endpoint, measured)| EndpointFigures {
        endpoint: endpoint.id,
        summary: measured.map(summary).unwrap_or_default(),
    });
    Measurements {
        figures: Arc::new(Figures {
            catalog_version: 1,
            endpoints: endpoints.collect(),
            providers: vec![summary(0.2)],
        }),
        live: LiveView::default(),
        clocks: Clocks { now: Tick(31_000_000), unix_millis: 1_763_629_530_000 },
    }
}

fn quantiles(p50: f64) -> Quantiles {
    let times = |factor| Some(p50 * factor);
    Quantiles {
        p50: Some(p50),
        p75: times(1.2),
        p90: times(1.5),
        p95: times(2.0),
        p99: times(3.0),
        ewma: times(1.1),
        count: 9,
    }
}

/// 1 December 2026.
pub(crate) fn today() -> chrono::NaiveDate {
    day("2026-12-01")
}

pub(crate) fn day(text: &str) -> chrono::NaiveDate {
    text.parse().unwrap()
}

pub(crate) fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// | id | serves | outputs | lists | created |
/// |---|---|---|---|---|
/// | acme/small | acme, beta | text | max_tokens temperature tools tool_choice (acme), stop top_k (beta) | 1763629500 |
/// | acme/paint | acme | image | seed | 1763629600 |
/// | beta/medium | beta | text, image | max_tokens tools | 1763629700 |
/// | beta/free | beta | text | max_tokens | 1763629700 |
/// | beta/old | beta | text | tools; retired today | 1700000000 |
/// | gone/big | gone (off) | text | tools | 1763629900 |
/// | beta/vectors | beta | embeddings | nothing | 1763629400 |
pub(crate) fn catalog() -> Catalog {
    let mut parts = Parts { parameters: ParameterNames::published(), ..Parts::default() };
    parts.small();
    parts.others();
    let aliases = vec![alias("service/auto", false), alias("service/free", true)];
    Catalog::new(7, providers(), parts.models, parts.endpoints, aliases, &[], parts.parameters).unwrap()
}

fn providers() -> Vec<Provider> {
    let mut acme = provider("acme", "Acme", ProviderState::On);
    acme.privacy_policy_url = Some("https://acme.example/privacy".to_owned());
    acme.headquarters = Some("DE".to_owned());
    acme.datacenters = vec!["DE".to_owned(), "FR".to_owned()];
    let off = ProviderState::Off("ACME_KEY is not set".to_owned());
    vec![acme, provider("beta", "Beta Cloud", ProviderState::On), provider("gone", "Gone", off)]
}

fn provider(slug: &str, name: &str, state: ProviderState) -> Provider {
    Provider { name: name.into(), state, ..Provider::with_defaults(ProviderSlug::new(slug).unwrap()) }
}

fn alias(id: &str, free_only: bool) -> Alias {
    Alias {
        id: id.to_owned(),
        free_only,
        objective: None,
        task: None,
        weights: None,
        preferred_max_latency: None,
        preferred_min_throughput: None,
        min_quality: None,
        quality_unknown: None,
        spend_pace: None,
        allowed: Vec::new(),
        blocked: Vec::new(),
        split: None,
        cascade: None,
        description: "Chooses for you.".to_owned(),
    }
}

/// The prices of an endpoint, to be changed.
fn prices_of(endpoint: &mut Endpoint) -> &mut Pricing {
    Arc::make_mut(endpoint.pricing.get_or_insert_default())
}

#[derive(Default)]
struct Parts {
    models: Vec<Model>,
    endpoints: Vec<Endpoint>,
    parameters: ParameterNames,
}

impl Parts {
    fn small(&mut self) {
        let model = self.model("acme/small", 1_763_629_500, Modalities::TEXT, Modalities::TEXT);
        model.canonical_slug = "acme/small-2026-01".to_owned();
        model.name = "Acme: Small".to_owned();
        model.description = "Small and quick.".to_owned();
        model.default_parameters =
            Some(DefaultParameters { temperature: Some(0.7), top_k: Some(40.0), ..DefaultParameters::default() });
        let acme = self.endpoint(0, &["max_tokens", "temperature", "tools", "tool_choice"], 128_000);
        prices_of(acme).prompt = usd("0.00000015");
        prices_of(acme).completion = usd("0.0000006");
        prices_of(acme).input_cache_read = Some(usd("0.000000015"));
        acme.limits.max_completion_tokens = Some(16_384);
        let beta = self.endpoint(1, &["max_tokens", "stop", "top_k"], 200_000);
        prices_of(beta).prompt = usd("0.0000001");
        prices_of(beta).completion = usd("0.000001");
        beta.variant = "fp8".to_owned();
        beta.quantization = Some("fp8".to_owned());
        beta.is_moderated = true;
    }

    fn others(&mut self) {
        let image = Modalities::NONE.with(Modality::Image);
        self.model("acme/paint", 1_763_629_600, Modalities::TEXT.with(Modality::Image), image);
        prices_of(self.endpoint(0, &["seed"], 4_000)).image = usd("0.04");

        self.model("beta/medium", 1_763_629_700, Modalities::TEXT, Modalities::TEXT.with(Modality::Image));
        let medium = self.endpoint(1, &["max_tokens", "tools"], 64_000);
        prices_of(medium).prompt = usd("0.000003");
        prices_of(medium).completion = usd("0.000015");

        self.model("beta/free", 1_763_629_700, Modalities::TEXT, Modalities::TEXT);
        self.endpoint(1, &["max_tokens"], 32_000);

        self.model("beta/old", 1_700_000_000, Modalities::TEXT, Modalities::TEXT).expiration_date = Some(today());
        self.endpoint(1, &["tools"], 8_000);

        self.model("gone/big", 1_763_629_900, Modalities::TEXT, Modalities::TEXT);
        self.endpoint(2, &["tools"], 900_000);

        let vectors = Modalities::NONE.with(Modality::Embeddings);
        self.model("beta/vectors", 1_763_629_400, Modalities::TEXT, vectors);
        self.endpoint(1, &[], 8_000);
    }

    fn model(&mut self, id: &str, created: i64, input: Modalities, output: Modalities) -> &mut Model {
        let mut model = Model { created, ..Model::with_defaults(id.parse().unwrap(), Vec::new()) };
        (model.architecture.input, model.architecture.output) = (input, output);
        self.models.push(model);
        self.models.last_mut().unwrap()
    }

    /// Adds an endpoint of the last model at a provider.
    fn endpoint(&mut self, provider: u32, parameters: &[&str], context_length: u32) -> &mut Endpoint {
        let position = u32::try_from(self.endpoints.len()).unwrap();
        let model = u32::try_from(self.models.len() - 1).unwrap();
        let served = self.models.last_mut().unwrap();
        served.endpoints.push(position);
        let parameters = parameters.iter().map(|name| self.parameters.intern(name).unwrap());
        let id = EndpointId::new(served.id.as_str(), &provider.to_string(), "");
        let mut endpoint = Endpoint::with_defaults(id, model, provider, "upstream-name");
        endpoint.parameters = parameters.fold(ParameterSet::default(), ParameterSet::union);
        endpoint.limits.context_length = context_length;
        self.endpoints.push(endpoint);
        self.endpoints.last_mut().unwrap()
    }
}
