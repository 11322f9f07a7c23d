//! Makes the router's query from a parsed request: resolves names and fills in defaults.

mod second_answer;

use std::{fmt, sync::Arc};

use pointsman_base::clock;
use pointsman_config::Config;
use pointsman_dialect::{ChatRequest, EmbeddingRequest, ImageRequest, lost_parameters};
use pointsman_domain::{
    Alias, ApiType, Catalog, Dialect, Endpoint, Exploration, Invalid, InvalidReason, Modalities, Needs, Objective,
    Provider, ProviderPolicy, Query, ReasoningFormat, RoutingParameters, Source, Sourced, Target, Task, TaskClass,
    TaskClassSource, TaskFeatures, Weights, listed_names,
};
use pointsman_routing::{
    decide::counts_quality,
    split::{Divided, divide},
};

use crate::{
    access::keys::Caller,
    base::error::ApiError,
    proxy::{names::NameScope, splitting::Asker},
};

pub use second_answer::of_second_answer;

/// The query of a chat request.
///
/// # Errors
/// 404 for an unknown name, 400 when the request names no model and `default_model` is `None`.
pub fn of_chat(
    request: &ChatRequest,
    catalog: &Catalog,
    config: &Config,
    (caller, asker): (&Caller, Asker<'_>),
    default_model: Option<&str>,
) -> Result<Box<Query>, ApiError> {
    let names = Names::of(request.model.as_deref().or(default_model), &request.models)?;
    let mut needs = request.needs(&catalog.parameters);
    if needs.output.is_empty() {
        needs.output = Modalities::TEXT;
    }
    let input = QueryInput {
        api: ApiType::Completions,
        names,
        needs,
        routing: request.routing.clone(),
        prompt_tokens: request.prompt_tokens,
        images: request.images,
        answers: request.n,
        max_tokens: request.max_tokens,
        streamed: request.stream,
        pending_reasoning: request.open_state,
        task: Some(GivenTask {
            word: request.tags.iter().find(|(name, _)| name == "task").map(|(_, task)| task.as_str()),
            features: request.task_features,
        }),
        is_messages: request.client.as_ref().is_some_and(|client| client.dialect() == Dialect::Anthropic),
    };
    let mut query = input.query(catalog, config, (caller, asker))?;
    query.needs.lost = lost_parameters(request, catalog, &query.targets);
    Ok(query)
}

/// The query of an image request.
///
/// # Errors
/// As [`of_chat`].
pub fn of_image(
    request: &ImageRequest,
    catalog: &Catalog,
    config: &Config,
    (caller, asker): (&Caller, Asker<'_>),
) -> Result<Box<Query>, ApiError> {
    let input = QueryInput {
        api: ApiType::Image,
        names: Names::of(request.model.as_deref(), &request.models)?,
        needs: request.needs(&catalog.parameters),
        routing: request.routing.clone(),
        prompt_tokens: request.prompt_tokens,
        images: request.n,
        answers: 1,
        max_tokens: None,
        streamed: false,
        pending_reasoning: ReasoningFormat::Unknown,
        task: None,
        is_messages: false,
    };
    input.query(catalog, config, (caller, asker))
}

/// The query of an embedding request.
///
/// # Errors
/// As [`of_chat`], and 400 for an alias: vectors of different models cannot be compared.
pub fn of_embedding(
    request: &EmbeddingRequest,
    catalog: &Catalog,
    config: &Config,
    (caller, asker): (&Caller, Asker<'_>),
) -> Result<Box<Query>, ApiError> {
    let input = QueryInput {
        api: ApiType::Embeddings,
        names: Names::of(Some(&request.model), &[])?,
        needs: request.needs(),
        routing: request.routing.clone(),
        prompt_tokens: request.prompt_tokens,
        images: 0,
        answers: 1,
        max_tokens: None,
        streamed: false,
        pending_reasoning: ReasoningFormat::Unknown,
        task: None,
        is_messages: false,
    };
    let query = input.query(catalog, config, (caller, asker))?;
    if query.router.is_some() {
        let message = "Vectors of different models cannot be compared: 'model' must name a model, not an alias.";
        return Err(Invalid::field(InvalidReason::InvalidValue, "model", message).into());
    }
    Ok(query)
}

/// The first requested name: the model, or else the first of the list. Empty if there is none.
pub fn first_name<'r>(model: &'r Option<String>, models: &'r [String]) -> &'r str {
    model.as_ref().or_else(|| models.first()).map(String::as_str).unwrap_or_default()
}

/// Requested names, each with its field.
struct Names<'a>(Vec<(Field, &'a str)>);

/// Field of a requested name; shown as an error's `param`.
#[derive(Clone, Copy)]
enum Field {
    Model,
    Models(usize),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Model => f.write_str("model"),
            Field::Models(index) => write!(f, "models[{index}]"),
        }
    }
}

impl<'a> Names<'a> {
    fn of(model: Option<&'a str>, models: &'a [String]) -> Result<Names<'a>, ApiError> {
        let mut names: Vec<(Field, &str)> = Vec::with_capacity(1 + models.len());
        names.extend(model.map(|name| (Field::Model, name)));
        for (index, name) in models.iter().enumerate() {
            if !names.iter().any(|(_, known)| known == name) {
                names.push((Field::Models(index), name));
            }
        }
        if names.is_empty() {
            let missing = Invalid::field(InvalidReason::MissingField, "model", "Field 'model' is required.");
            return Err(missing.into());
        }
        Ok(Names(names))
    }

    /// The models and aliases that the names mean, each once.
    fn resolve(&self, scope: &NameScope<'_>) -> Result<Vec<Target>, ApiError> {
        let mut targets = Vec::with_capacity(self.0.len());
        for &(field, name) in &self.0 {
            let target = scope.target(name, field)?;
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(targets)
    }
}

struct QueryInput<'a> {
    api: ApiType,
    names: Names<'a>,
    needs: Needs,
    routing: RoutingParameters,
    prompt_tokens: u32,
    images: u32,
    answers: u32,
    max_tokens: Option<u32>,
    streamed: bool,
    pending_reasoning: ReasoningFormat,
    task: Option<GivenTask<'a>>,
    /// Whether the client speaks the Messages API.
    is_messages: bool,
}

/// What a chat says of its task.
#[derive(Clone, Copy)]
struct GivenTask<'a> {
    /// `metadata.task`: a class, or any other word as a tag of the client's own.
    word: Option<&'a str>,
    features: TaskFeatures,
}

impl GivenTask<'_> {
    /// The class that the request names, else that of the key, of the alias, or of the features.
    fn class(self, key: Option<Task>, alias: Option<Task>) -> TaskClass {
        let of = |source| move |task| TaskClass { task, source, features: self.features };
        let named =
            self.word.and_then(Task::named).map(of(TaskClassSource::Metadata)).or(key.map(of(TaskClassSource::Key)));
        named.or(alias.map(of(TaskClassSource::Alias))).unwrap_or_else(|| TaskClass::of_features(self.features))
    }
}

impl QueryInput<'_> {
    /// Boxed: it is moved through several futures and to the router.
    fn query(
        mut self,
        catalog: &Catalog,
        config: &Config,
        (caller, asker): (&Caller, Asker<'_>),
    ) -> Result<Box<Query>, ApiError> {
        let today = clock::today();
        let scope = NameScope { catalog, config, caller: Some(caller), is_messages: self.is_messages, today };
        let requested = self.names.resolve(&scope)?;
        check_provider_order(catalog, &self.routing.provider)?;
        let alias = catalog.aliases_among(&requested).next();
        let router = alias.map(|alias| alias.id.clone());
        let divided = divide(catalog, &requested, today, |alias, split| asker.drawn(caller, alias, split));
        let (targets, settings, split) = match divided {
            Some(Divided { targets, settings, taken }) => (targets, settings, Some(taken)),
            None => (requested, None, None),
        };
        let alias = settings.as_ref().or(alias);
        if let Some(alias) = alias {
            set_alias_defaults(alias, &mut self.routing);
        }
        set_key_defaults(caller, &mut self.routing);
        restrict_to_key(caller, &mut self.routing);
        let routing = Arc::new(self.routing);
        let objective = objective(&routing, alias, caller, config);
        let weights = weights(&routing, config);
        if routing.min_quality.is_some() || counts_quality(&config.routing.policy, objective.value, weights) {
            check_class(self.task)?;
        }
        Ok(Box::new(Query {
            api: self.api,
            router,
            split,
            objective,
            weights,
            targets,
            needs: self.needs,
            routing,
            key_allowed: caller.key.allowed_models.clone(),
            key_blocked: caller.key.blocked_models.clone(),
            prompt_tokens: self.prompt_tokens,
            images: self.images,
            answers: self.answers,
            max_tokens: self.max_tokens,
            streamed: self.streamed,
            sticky: None,
            pending_reasoning: self.pending_reasoning,
            task_class: self.task.map(|given| given.class(caller.key.task, alias.and_then(|alias| alias.task))),
            exploration: Exploration::NONE,
            latency_margin: 1.0,
            quality_per_dollar: 0.0,
            today,
        }))
    }
}

/// Rejects a class that does not exist where quality decides: another class would decide otherwise.
fn check_class(task: Option<GivenTask<'_>>) -> Result<(), Invalid> {
    let Some(word) = task.and_then(|task| task.word).filter(|word| Task::named(word).is_none()) else {
        return Ok(());
    };
    let names = Task::ALL.map(Task::as_str);
    let message =
        format!("'metadata.task' names no class, and quality decides here. Allowed: {}.", listed_names(word, names));
    Err(Invalid::field(InvalidReason::InvalidValue, "metadata.task", message).allowing(names))
}

/// Rejects an order of providers of which `provider.only` allows none: without fallbacks one of them must serve, and with
/// fallbacks the order would have no effect. Unknown names do not count then; `unknown_fields` reports them.
fn check_provider_order(catalog: &Catalog, policy: &ProviderPolicy) -> Result<(), Invalid> {
    let names = |list: &[String], endpoint: &Endpoint| {
        let is_named = |provider: &Provider| list.iter().any(|entry| provider.is_named(entry, &endpoint.variant));
        catalog.provider_of(endpoint).is_some_and(is_named)
    };
    let is_ordered = |endpoint: &Endpoint| names(&policy.order, endpoint);
    let is_allowed = |endpoint: &Endpoint| policy.only.iter().all(|list| names(list, endpoint));
    let any = |test: &dyn Fn(&Endpoint) -> bool| catalog.endpoints.iter().any(test);
    let are_set = !policy.order.is_empty() && !policy.only.is_empty();
    let message = match policy.allow_fallbacks {
        _ if !are_set || any(&|endpoint| is_ordered(endpoint) && is_allowed(endpoint)) => return Ok(()),
        false => "Without fallbacks one of 'provider.order' must serve, and 'provider.only' allows none of them.",
        true if !any(&is_ordered) || !any(&is_allowed) => return Ok(()),
        true => "'provider.order' names no provider that 'provider.only' allows: it would have no effect.",
    };
    Err(Invalid::field(InvalidReason::InvalidValue, "provider.order", message))
}

/// Restricts a request to the providers that the key may use.
fn restrict_to_key(caller: &Caller, routing: &mut RoutingParameters) {
    if !caller.key.allowed_providers.is_empty() {
        routing.provider.only.push(caller.key.allowed_providers.clone());
    }
    routing.provider.ignore.extend(caller.key.blocked_providers.iter().cloned());
}

/// Sets the routing parameters of an alias where the request sets none.
fn set_alias_defaults(alias: &Alias, routing: &mut RoutingParameters) {
    routing.weights = routing.weights.or(of_alias(alias.weights));
    routing.preferred_max_latency = routing.preferred_max_latency.or(of_alias(alias.preferred_max_latency));
    routing.preferred_min_throughput = routing.preferred_min_throughput.or(of_alias(alias.preferred_min_throughput));
    routing.min_quality = routing.min_quality.or(of_alias(alias.min_quality));
    routing.quality_unknown = routing.quality_unknown.or(of_alias(alias.quality_unknown));
}

/// Sets the least quality of a key where neither the request nor the alias sets one, and that it is not explored.
fn set_key_defaults(caller: &Caller, routing: &mut RoutingParameters) {
    routing.min_quality = routing.min_quality.or(of_key(caller.key.min_quality));
    routing.quality_unknown = routing.quality_unknown.or(of_key(caller.key.quality_unknown));
    routing.unexplored |= !caller.key.explore;
}

fn of_key<T>(value: Option<T>) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, source: Source::Key })
}

fn of_alias<T>(value: Option<T>) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, source: Source::Alias })
}

fn objective(
    routing: &RoutingParameters,
    alias: Option<&Alias>,
    caller: &Caller,
    config: &Config,
) -> Sourced<Objective> {
    let default = Sourced { value: config.routing.objective, source: Source::Default };
    routing.objective.or_else(|| of_alias(alias?.objective)).or_else(|| of_key(caller.key.objective)).unwrap_or(default)
}

fn weights(routing: &RoutingParameters, config: &Config) -> Weights {
    routing.weights.map_or(config.routing.policy.balanced, |weights| weights.value)
}
