//! Worlds for routing tests, written as one line of text.
//!
//! `acme/a 90ms open | bolt/b 300ms` is two endpoints. Each begins with a model id, optionally `@` a provider
//! (the model's namespace otherwise), followed by what is special about it; the rest is ordinary:
//!
//! | word | meaning |
//! |---|---|
//! | `90ms`, `100tps` | median first token of an empty prompt, tokens per second |
//! | `slope0.001` | growth of the first token per prompt token, relative to an empty prompt |
//! | `cached$0.1` | price per million prompt tokens read from the cache |
//! | `$1/2`, `+0.01`, `img0.04` | prices per million prompt/completion tokens, per request, per image |
//! | `w30`, `unseen`, `idle60` | observations, none at all, seconds since the last |
//! | `ok30`, `bad2` | successes and failures |
//! | `k3`, `knee4`, `silent` | in flight, learned knee, and whether its unanswered requests say that it answers none |
//! | `quota900,5` | tokens left, for so many seconds |
//! | `open5`, `half7`, `probing`, `cool2`, `fault40`, `paced1` | gates, with the seconds left (or past, for `half`) |
//! | `off`, `disabled`, `expired`, `ctx8000`, `prompt100`, `most500` | switches and limits |
//! | `state:anthropic-claude-v1` | format of the reasoning that it takes back |
//! | `q0.8`, `rated0.6,12` | score for code, of 100 answers; mean and number of ratings beside it |
//! | `tools`, `json`, `in:image`, `out:image`, `fp8`, `collects`, `zdr`, `variant:x` | abilities and policies |

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of the world")]

pub mod attempts;

use std::{sync::Arc, time::Duration};

use pointsman_domain::{
    Alias, ApiType, Candidate, Catalog, Decision, Endpoint, EndpointId, EndpointLimits, Exploration, FailureCause,
    FailureKind, GeographyPrice, Modalities, Modality, Model, Needs, Objective, ParameterNames, ParameterSet, Pricing,
    Provider, ProviderSlug, ProviderState, Quality, QualityScore, Query, ReasoningFormat, RouteError, RoutingPolicy,
    ServiceName, ServiceTierPrices, Source, Sourced, Target, Task, TaskClass, TaskClassSource, TaskFeatures, Tick, Usd,
    Weights,
};
use pointsman_routing::{
    decide::decide,
    quality::{Posterior, QualityTable},
    stats::{
        EndpointStats, Estimates, Fit, Gate, LiveEndpoint, LiveView, OutputLengths, PromptScales, Snapshot, TokensLeft,
    },
};

/// The moment of every test: a quarter of an hour after the start.
pub const NOW: Tick = Tick(900_000_000);

/// A catalog with statistics and fast cells.
#[derive(Clone)]
pub struct World {
    pub snapshot: Snapshot,
    pub live: LiveView,
}

/// One endpoint as written.
#[derive(Clone)]
struct Entry {
    model: String,
    provider: String,
    variant: String,
    words: Vec<String>,
}

impl Entry {
    fn parse(text: &str) -> Entry {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_else(|| panic!("an endpoint needs a name: {text:?}"));
        let namespace = name.split('/').next().unwrap_or(name);
        let (model, provider) = name.split_once('@').unwrap_or((name, namespace));
        let words: Vec<String> = words.map(str::to_owned).collect();
        let variant = words.iter().find_map(|word| word.strip_prefix("variant:")).unwrap_or_default().to_owned();
        Entry { model: model.to_owned(), provider: provider.to_owned(), variant, words }
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|given| given == word)
    }

    /// The number in a word of this shape.
    fn number(&self, prefix: &str, suffix: &str) -> Option<f64> {
        self.words.iter().find_map(|word| word.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok())
    }

    fn pair(&self, prefix: &str, separator: char) -> Option<(f64, f64)> {
        let parse = |word: &String| {
            let (a, b) = word.strip_prefix(prefix)?.split_once(separator)?;
            Some((a.parse().ok()?, b.parse().ok()?))
        };
        self.words.iter().find_map(parse)
    }

    fn modalities(&self, prefix: &str) -> Modalities {
        let named = self.words.iter().filter_map(|word| Modality::parse(word.strip_prefix(prefix)?));
        named.fold(Modalities::NONE, Modalities::with)
    }

    /// `$?`: unknown.
    fn pricing(&self) -> Option<Pricing> {
        if self.has("$?") {
            return None;
        }
        let (prompt, completion) = self.pair("$", '/').unwrap_or((1.0, 2.0));
        #[expect(clippy::disallowed_methods, reason = "prices of test worlds are short decimals")]
        let usd = |dollars: f64| Usd::from_f64(dollars).expect("a price");
        let flex = self.pair("flex$", '/').map(|(prompt, completion)| ServiceTierPrices {
            name: service("flex"),
            pricing: Pricing { prompt: usd(prompt / 1e6), completion: usd(completion / 1e6), ..Pricing::default() },
        });
        let us = self
            .number("us", "")
            .map(|factor| GeographyPrice { name: service("us"), per_mille: (factor * 1000.0) as u64 });
        Some(Pricing {
            service_tiers: flex.into_iter().collect(),
            geographies: us.into_iter().collect(),
            prompt: usd(prompt / 1e6),
            completion: usd(completion / 1e6),
            request: usd(self.number("+", "").unwrap_or(0.0)),
            image: usd(self.number("img", "").unwrap_or(0.0)),
            input_cache_read: self.number("cached$", "").map(|price| usd(price / 1e6)),
            ..Pricing::default()
        })
    }

    fn reasoning_state(&self) -> ReasoningFormat {
        let name = self.words.iter().find_map(|word| word.strip_prefix("state:"));
        name.map_or(ReasoningFormat::Unknown, ReasoningFormat::named)
    }

    fn model(&self, endpoints: Vec<u32>) -> Model {
        let output = self.modalities("out:");
        let mut model = Model::with_defaults(self.model.parse().expect("a model id"), endpoints);
        model.canonical_slug = format!("{}-2026", self.model);
        model.architecture.input = self.modalities("in:").with(Modality::Text);
        model.architecture.output = if output.is_empty() { Modalities::TEXT } else { output };
        model.expiration_date = self.has("expired").then(|| "2026-01-31".parse().expect("a date"));
        model
    }

    fn provider(&self) -> Provider {
        let state =
            if self.has("off") { ProviderState::Off("its key is not set".to_owned()) } else { ProviderState::On };
        Provider {
            state,
            collects_data: self.has("collects"),
            zero_data_retention: self.has("zdr"),
            ..Provider::with_defaults(ProviderSlug::new(&self.provider).expect("a slug"))
        }
    }

    fn endpoint(&self, model: u32, provider: u32) -> Endpoint {
        let whole = |prefix| self.number(prefix, "").map(|number| number as u32);
        let id = EndpointId::new(&self.model, &self.provider, &self.variant);
        Endpoint {
            variant: self.variant.clone(),
            pricing: self.pricing().map(Arc::new),
            limits: EndpointLimits {
                context_length: whole("ctx").unwrap_or(100_000),
                max_completion_tokens: whole("most"),
                max_prompt_tokens: whole("prompt"),
            },
            parameters: parameters(self.words.iter().map(String::as_str)),
            quantization: self.has("fp8").then(|| "fp8".to_owned()),
            quality: self.score().map(|score| (Task::Code, score)).into_iter().collect(),
            disabled: self.has("disabled"),
            reasoning_state: self.reasoning_state(),
            ..Endpoint::with_defaults(id, model, provider, &self.model)
        }
    }

    fn score(&self) -> Option<QualityScore> {
        let date = "2026-11-02".parse().expect("a date");
        let score = self.number("q", "")?;
        Some(QualityScore { score, count: 100, source: "own-eval".into(), date, licence: None })
    }

    /// What score and ratings say together.
    fn quality(&self) -> Option<Quality> {
        let prior = self.score().map(|score| Posterior::of_score(&score));
        let Some((mean, ratings)) = self.pair("rated", ',') else { return prior.map(|prior| prior.quality(0.0)) };
        let prior = prior.unwrap_or_else(|| Posterior::of_class(0.0, 0.0));
        Some(prior.with(mean * ratings, (1.0 - mean) * ratings).quality(ratings))
    }

    fn stats(&self, catalog: &Catalog, endpoint: &Endpoint) -> EndpointStats {
        let unseen = self.has("unseen");
        let seen = |otherwise: f64| if unseen { 0.0 } else { otherwise };
        let fit = Fit {
            intercept: (self.number("", "ms").unwrap_or(200.0) / 1000.0).ln(),
            prompt_slope: self.number("slope", "").unwrap_or(0.0),
            load_exponent: 1.0,
            knee: self.number("knee", "").unwrap_or(16.0),
            variance: 0.09,
            knee_is_sure: !self.has("doubtful"),
        };
        let estimates = Estimates {
            fit,
            weight: seen(self.number("w", "").unwrap_or(30.0)),
            age: if unseen { f64::INFINITY } else { self.number("idle", "").unwrap_or(0.0) },
            per_token: (1.0 / self.number("", "tps").unwrap_or(100.0)).ln(),
            pace_weight: seen(30.0),
            shown: self.number("shown", "").unwrap_or(1.0),
            per_token_variance: 0.04,
            tail: 0.5,
            first_tail: self.number("tail", "").unwrap_or(0.5),
            failures: self.number("bad", "").unwrap_or(0.0),
            successes: seen(self.number("ok", "").unwrap_or(30.0)),
            usual_failure: 0.01,
        };
        EndpointStats::new(catalog, endpoint, estimates)
    }

    fn live(&self) -> LiveEndpoint {
        let soon = |seconds: f64| NOW.plus(Duration::from_secs_f64(seconds));
        let gates = [
            self.number("open", "").map(|left| Gate::Open { until: soon(left) }),
            self.number("cool", "").map(|left| Gate::Cooling { until: soon(left) }),
            self.number("fault", "").map(|left| Gate::ConfigFault { until: soon(left) }),
            self.number("half", "").map(|past| Gate::HalfOpen { since: NOW.before(Duration::from_secs_f64(past)) }),
            self.has("probing").then_some(Gate::Probing { since: NOW }),
        ];
        let gate = gates.into_iter().flatten().next().unwrap_or_default();
        let cause = match gate {
            Gate::Passing => None,
            Gate::Cooling { .. } => Some(FailureCause { kind: FailureKind::RateLimited, status: Some(429) }),
            Gate::ConfigFault { .. } => Some(FailureCause { kind: FailureKind::NotFound, status: Some(404) }),
            _ => Some(FailureCause { kind: FailureKind::Server, status: Some(503) }),
        };
        LiveEndpoint {
            in_flight: self.number("k", "").unwrap_or(0.0) as u32,
            silent: self.has("silent"),
            gate,
            due: self.number("paced", "").map(soon),
            failures: if cause.is_some() { 3 } else { 0 },
            last: cause,
            told: self.number("told", "").map(Duration::from_secs_f64),
            refused: None,
            all_mistaken: false,
            used: true,
            tokens: self
                .pair("quota", ',')
                .map(|(left, seconds)| TokensLeft { left: left as u64, until: soon(seconds) }),
        }
    }
}

/// Ticks of the past, for tests only.
pub trait Before {
    /// The moment `time` earlier.
    fn before(self, time: Duration) -> Tick;
}

impl Before for Tick {
    fn before(self, time: Duration) -> Tick {
        Tick(self.0.saturating_sub(time.as_micros() as u64))
    }
}

/// A service with prices of its own.
pub fn service(name: &str) -> ServiceName {
    ServiceName::parse(name).expect("a name")
}

/// The parameters among these words, in the registry of published names.
pub fn parameters<'a>(words: impl IntoIterator<Item = &'a str>) -> ParameterSet {
    let names = ParameterNames::published();
    let named = words.into_iter().filter_map(|word| match word {
        "json" => names.gate("response_format"),
        word => names.gate(word),
    });
    named.fold(ParameterSet::default(), ParameterSet::union)
}

impl World {
    /// The world of this line, under the default policy.
    pub fn of(text: &str) -> World {
        World::under(text, RoutingPolicy::default())
    }

    /// The world of this line under a policy of its own.
    pub fn under(text: &str, policy: RoutingPolicy) -> World {
        World::aliased(text, policy, vec![alias("service/auto"), Alias { free_only: true, ..alias("service/free") }])
    }

    /// The world of this line with these aliases.
    pub fn aliased(text: &str, policy: RoutingPolicy, aliases: Vec<Alias>) -> World {
        let mut entries: Vec<Entry> = text.split('|').map(|entry| Entry::parse(entry.trim())).collect();
        // A catalog lists endpoints model by model.
        let models = distinct(entries.iter().map(|entry| entry.model.clone()));
        entries.sort_by_key(|entry| models.iter().position(|model| *model == entry.model));
        let providers = distinct(entries.iter().map(|entry| entry.provider.clone()));
        let position = |names: &[String], name: &str| names.iter().position(|known| known == name).unwrap_or(0) as u32;
        let endpoints: Vec<Endpoint> = entries
            .iter()
            .map(|entry| entry.endpoint(position(&models, &entry.model), position(&providers, &entry.provider)))
            .collect();
        let first = |by: &dyn Fn(&Entry) -> bool| entries.iter().find(|entry| by(entry)).expect("an entry").clone();
        let of_model = |model: &str| (0..).zip(&entries).filter(|(_, e)| e.model == model).map(|(i, _)| i).collect();
        let catalog = Catalog::new(
            1,
            providers.iter().map(|provider| first(&|entry| entry.provider == *provider).provider()).collect(),
            models.iter().map(|model| first(&|entry| entry.model == *model).model(of_model(model))).collect(),
            endpoints,
            aliases,
            &[],
            ParameterNames::published(),
        );
        let catalog = Arc::new(catalog.expect("a catalog"));
        let stats = entries.iter().zip(&catalog.endpoints);
        let stats = stats.map(|(entry, endpoint)| entry.stats(&catalog, endpoint)).collect();
        let known = (0..).zip(&entries).filter_map(|(index, entry)| Some((index, entry.quality()?)));
        let quality = known.fold(QualityTable::default(), |table, (index, known)| table.with(index, Task::Code, known));
        let snapshot = Snapshot {
            version: 7,
            policy: Arc::new(policy),
            at: NOW,
            endpoints: stats,
            lengths: OutputLengths::new(&catalog),
            prompts: PromptScales::new(&catalog),
            quality: Arc::new(quality),
            catalog,
        };
        let live = LiveView { endpoints: entries.iter().map(Entry::live).collect(), providers: Vec::new() };
        World { snapshot, live }
    }

    pub fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    /// A request for `service/auto`, or for these models in order (`a, b`).
    pub fn query(&self, objective: Objective, models: &str) -> Query {
        let targets: Vec<Target> = match models {
            "" => vec![Target::Alias(0)],
            models => models.split(',').map(|name| self.target(name.trim())).collect(),
        };
        let router = targets.iter().find_map(|target| match target {
            Target::Alias(alias) => Some(self.catalog().alias(*alias)?.id.clone()),
            Target::Model(_) => None,
        });
        Query {
            api: ApiType::Completions,
            today: "2026-11-20".parse().expect("a date"),
            targets,
            router,
            objective: Sourced { value: objective, source: Source::Metadata },
            weights: Weights::default(),
            needs: Needs::default(),
            routing: Arc::default(),
            key_allowed: Vec::new(),
            key_blocked: Vec::new(),
            prompt_tokens: 1000,
            images: 0,
            answers: 1,
            max_tokens: Some(100),
            streamed: true,
            sticky: None,
            pending_reasoning: Default::default(),
            task_class: None,
            split: None,
            exploration: Exploration::NONE,
            latency_margin: 1.0,
            quality_per_dollar: 0.0,
        }
    }

    fn target(&self, name: &str) -> Target {
        let position = |found: Option<usize>| found.map(|index| index as u32);
        let alias = position(self.catalog().aliases.iter().position(|alias| alias.id == name));
        let model = position(self.catalog().models.iter().position(|model| model.id.as_str() == name));
        alias.map(Target::Alias).or(model.map(Target::Model)).unwrap_or_else(|| panic!("nobody is called {name}"))
    }

    /// Decides without noise.
    pub fn decide(&self, query: &Query) -> Result<Decision, RouteError> {
        decide(&self.snapshot, &self.live, query, NOW, None)
    }

    /// An endpoint by position, as `model@provider`, or the model alone where the provider is its namespace.
    pub fn name(&self, index: u32) -> String {
        let endpoint = self.catalog().endpoint(index).expect("an endpoint");
        let model = self.catalog().model_of(endpoint).expect("a model").id.as_str();
        let provider = self.catalog().provider_of(endpoint).expect("a provider").slug.as_str();
        let variant = if endpoint.variant.is_empty() { String::new() } else { format!("/{}", endpoint.variant) };
        if model.starts_with(&format!("{provider}/")) && variant.is_empty() {
            return model.to_owned();
        }
        format!("{model}@{provider}{variant}")
    }

    /// The plan: `a b! c?`, with `!` for a panic attempt and `?` for a probe.
    pub fn plan(&self, decision: &Decision) -> String {
        self.marked(&decision.candidates)
    }

    /// Who is called once the plan is used up, written alike.
    pub fn standby(&self, decision: &Decision) -> String {
        self.marked(&decision.standby)
    }

    fn marked(&self, candidates: &[Candidate]) -> String {
        let mark = |c: &Candidate| match (c.probe, c.panic) {
            (true, _) => "?",
            (_, true) => "!",
            _ => "",
        };
        let names = candidates.iter().map(|c| format!("{}{}", self.name(c.index), mark(c)));
        names.collect::<Vec<_>>().join(" ")
    }
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    names.for_each(|name| {
        if !kept.contains(&name) {
            kept.push(name)
        }
    });
    kept
}

/// The class of a request that names it.
pub fn code() -> TaskClass {
    TaskClass { task: Task::Code, source: TaskClassSource::Metadata, features: TaskFeatures::default() }
}

/// An alias for everything.
pub fn alias(id: &str) -> Alias {
    Alias {
        id: id.to_owned(),
        free_only: false,
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
        description: String::new(),
    }
}
