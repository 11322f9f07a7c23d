//! The client's error when no endpoint may serve a request, with the smallest change of the request that would help.

use std::{borrow::Cow, collections::BTreeSet, time::Duration};

use pointsman_dialect::{Restriction, RestrictionKind, too_long_message};
use pointsman_domain::{
    Alias, ApiType, Capability, Catalog, Dialect, ExcludedEndpoint, ExclusionDetail, ExclusionReason, FailureKind,
    Invalid, InvalidReason, MAX_COST, Modality, Model, ModelPattern, Query, RouteError, Target, Tick, Usd,
};
use pointsman_routing::{
    explain::{nearest_relaxation, remedy},
    stats::Snapshot,
};

use crate::{
    base::error::{ApiError, Availability, Constraint, Exhausted, NearestRelaxation, Overload},
    proxy::unknown_fields::{self, UnknownField, off_of},
};

/// Most unknown entries in the message of an error.
const MAX_UNKNOWN_ENTRIES: usize = 3;

/// Requirements and restrictions of a parsed request.
pub trait RequestRestrictions {
    /// The requirement that `model` does not meet, if any.
    fn unmet(&self, catalog: &Catalog, model: &Model) -> Option<Invalid>;
    /// The mistake of sending it to an endpoint with another API: it has something that the gateway does not understand.
    fn not_understood(&self) -> Option<&Invalid> {
        None
    }
    /// The restrictions of the request, each with its path.
    fn restrictions(&self) -> Vec<Restriction>;
    /// The wire format of the request.
    fn dialect(&self) -> Dialect;
    /// The field that holds the prompt.
    fn prompt_field(&self) -> &'static str;
}

/// The error for a request that no endpoint may serve.
///
/// In this order: a temporary exclusion gives 429 or 503 with `retry-after`; a key that may not use the model 403; a
/// fixed model that lacks what the request needs 400, and so does what only endpoints with the client's API would take;
/// anything else 404.
pub fn explain(snapshot: &Snapshot, request: &impl RequestRestrictions, error: &RouteError, now: Tick) -> ApiError {
    let catalog = &*snapshot.catalog;
    if error.excluded.iter().any(|excluded| excluded.reason.is_passing()) {
        return temporary(catalog, error, now);
    }
    let only = |reason| !error.excluded.is_empty() && error.excluded.iter().all(|e| e.reason == reason);
    if let Some(model) = fixed_model(catalog, &error.query) {
        if only(ExclusionReason::KeyPolicy) {
            return ApiError::model_not_allowed(model.id.as_str());
        }
        if let Some(invalid) = lacking(catalog, request, error, model) {
            return invalid.into();
        }
    }
    if let (Some(invalid), Some(native)) = (request.not_understood(), &error.query.needs.native)
        && error.excluded.iter().any(|e| matches!(&e.detail, ExclusionDetail::Lacks(field) if *field == native.field))
    {
        return invalid.clone().into();
    }
    if error.excluded.iter().any(|e| e.reason == ExclusionReason::ContextLength)
        && !error.excluded.iter().any(|e| is_liftable_limit(e.reason))
    {
        return context_length(catalog, error, request).into();
    }
    no_candidates(snapshot, request, error)
}

/// The smallest change of the request after which an endpoint may serve it. `None` if no change helps.
pub fn nearest(snapshot: &Snapshot, error: &RouteError) -> Option<NearestRelaxation> {
    let catalog = &snapshot.catalog;
    let relaxation = nearest_relaxation(error, snapshot)?;
    let endpoint = catalog.endpoint(relaxation.index)?;
    let (model, provider) = (catalog.model_of(endpoint)?, catalog.provider_of(endpoint)?);
    let constraint = |excluded: &ExcludedEndpoint| Constraint {
        field: excluded.constraint().into(),
        reason: None,
        detail: detail(catalog, &error.query, excluded),
    };
    let without: Vec<Constraint> = relaxation.against.iter().map(constraint).collect();
    let changes: Vec<String> = relaxation
        .against
        .iter()
        .zip(&without)
        .map(|(excluded, constraint)| format!("{} ({}: {})", remedy(excluded), constraint.field, constraint.detail))
        .collect();
    let count = if changes.len() == 1 { "one change".to_owned() } else { format!("{} changes", changes.len()) };
    let sentence =
        format!("{} on {} can serve the request after {count}: {}.", model.id, provider.name, changes.join("; "));
    Some(NearestRelaxation { model: model.id.to_string(), provider_name: provider.name.to_string(), without, sentence })
}

/// Detail of an exclusion. For a list of an alias, it names the alias.
fn detail(catalog: &Catalog, query: &Query, excluded: &ExcludedEndpoint) -> String {
    match excluding_alias(catalog, query, excluded) {
        Some(alias) if excluded.reason == ExclusionReason::NotAllowedModel => {
            format!("matches no entry of 'allowed_models' of the alias {}", alias.id)
        }
        Some(alias) => format!("{} in 'blocked_models' of the alias {}", excluded.detail, alias.id),
        None => excluded.detail.to_string(),
    }
}

/// The alias whose own list of models excludes the endpoint, if the lists of the request do not.
fn excluding_alias<'a>(catalog: &'a Catalog, query: &Query, excluded: &ExcludedEndpoint) -> Option<&'a Alias> {
    let model = catalog.model_of(catalog.endpoint(excluded.index)?)?;
    let is_in =
        |list: &[ModelPattern]| list.iter().any(|pattern| pattern.matches(model.id.as_str(), &model.canonical_slug));
    let excludes = |alias: &&Alias| match excluded.reason {
        ExclusionReason::NotAllowedModel => !alias.allowed.is_empty() && !is_in(&alias.allowed),
        ExclusionReason::BlockedModel => is_in(&alias.blocked) && !is_in(&query.routing.blocked),
        _ => false,
    };
    catalog.aliases_among(&query.targets).find(excludes)
}

/// Whether a reason is a limit of the request that is checked after the context length. An endpoint with such a reason has
/// room for the prompt: the caller can lift the limit instead of shortening the prompt.
const fn is_liftable_limit(reason: ExclusionReason) -> bool {
    use ExclusionReason::{
        DataPolicy, MaxCostPer1kTokens, MaxPrice, PriceUnknown, QualityBelow, QualityUnknown, Quantization,
    };
    matches!(
        reason,
        DataPolicy | MaxCostPer1kTokens | MaxPrice | PriceUnknown | QualityBelow | QualityUnknown | Quantization
    )
}

fn temporary(catalog: &Catalog, error: &RouteError, now: Tick) -> ApiError {
    let wait = error.opens.map_or(Duration::from_secs(1), |opens| opens - now).max(Duration::from_millis(1));
    let reasons = || error.excluded.iter().map(|e| e.reason).filter(|reason| reason.is_passing());
    let limited = |reason| matches!(reason, ExclusionReason::RateLimited | ExclusionReason::Paced);
    // A provider that asks for time because it is overloaded rests like one that limits its rate.
    let is_overloaded = |excluded: &ExcludedEndpoint| match excluded.detail {
        ExclusionDetail::Cooling { last, .. } | ExclusionDetail::Shortened { last, .. } => {
            last.is_some_and(|last| last.kind == FailureKind::Overloaded)
        }
        _ => false,
    };
    let broken = |reason| {
        matches!(reason, ExclusionReason::CircuitOpen | ExclusionReason::ProbeInFlight | ExclusionReason::ConfigFault)
    };
    let is_refused = reasons().all(|reason| reason == ExclusionReason::ConfigFault);
    let refusal = if reasons().all(limited) {
        let mut passing = error.excluded.iter().filter(|excluded| excluded.reason.is_passing());
        let how = if passing.all(is_overloaded) { Exhausted::Overloaded } else { Exhausted::RateLimited };
        ApiError::exhausted(how, wait, Vec::new())
    } else if is_refused {
        ApiError::overloaded(Overload::RefusedByProviders, wait)
    } else if reasons().any(broken) {
        ApiError::overloaded(Overload::CircuitsOpen, wait)
    } else {
        ApiError::overloaded(Overload::EndpointsBusy, wait)
    };
    let mut passing = error.excluded.iter().filter(|excluded| excluded.reason.is_passing());
    let refusal = match passing.all(|excluded| matches!(excluded.detail, ExclusionDetail::Shortened { .. })) {
        true => refusal.with_shortened_wait(),
        false => refusal,
    };
    let affected = error.excluded.iter().filter(|e| e.reason.is_passing()).map(|e| e.index);
    let counts = ExclusionReason::counts(error.excluded.iter().map(|excluded| excluded.reason));
    let reasons = counts.into_iter().map(|(reason, _)| reason.as_str()).collect();
    let availability = Availability::capacity(requested(catalog, &error.query), providers(catalog, affected), reasons);
    refusal.with_availability(if is_refused { availability } else { availability.retryable_after(wait) })
}

/// The slugs of the providers of these endpoints, each once.
pub fn providers(catalog: &Catalog, endpoints: impl Iterator<Item = u32>) -> Vec<String> {
    let slugs = endpoints.filter_map(|index| Some(catalog.provider_of(catalog.endpoint(index)?)?.slug.to_string()));
    slugs.collect::<BTreeSet<String>>().into_iter().collect()
}

/// The requested model, if the request names exactly one and no alias.
fn fixed_model<'a>(catalog: &'a Catalog, query: &Query) -> Option<&'a Model> {
    match query.targets.as_slice() {
        [Target::Model(index)] => catalog.model(*index),
        _ => None,
    }
}

/// The 400 for a fixed model that lacks what the request needs.
fn lacking(
    catalog: &Catalog,
    request: &impl RequestRestrictions,
    error: &RouteError,
    model: &Model,
) -> Option<Invalid> {
    let first =
        error.excluded.iter().map(|e| e.reason).find(|reason| !matches!(reason, ExclusionReason::ProviderOff))?;
    match first {
        ExclusionReason::WrongEndpoint => {
            Some(Invalid::field(InvalidReason::WrongEndpoint, "model", wrong_endpoint(catalog, &error.query, model)))
        }
        ExclusionReason::ContextLength => Some(context_length(catalog, error, request)),
        ExclusionReason::UnsupportedParameter | ExclusionReason::InputModality | ExclusionReason::OutputModality => {
            request.unmet(catalog, model)
        }
        _ => None,
    }
}

/// What each kind of call gives, and where it is.
const CALLS: [(ApiType, Modality, &str, &str); 3] = [
    (ApiType::Completions, Modality::Text, "text", "/chat/completions"),
    (ApiType::Image, Modality::Image, "images", "/images"),
    (ApiType::Embeddings, Modality::Embeddings, "embeddings", "/embeddings"),
];

/// Where the model is called, and which models this call is for.
fn wrong_endpoint(catalog: &Catalog, query: &Query, model: &Model) -> String {
    let calls = CALLS.iter().filter(|(_, modality, ..)| model.architecture.output.contains(*modality));
    let calls: Vec<String> = calls.map(|(_, _, what, path)| format!("it makes {what}: call '{path}'")).collect();
    let calls = if calls.is_empty() { String::new() } else { format!(": {}", calls.join(", or ")) };
    let wanted = CALLS.iter().find(|(api, ..)| *api == query.api);
    let others = wanted.and_then(|(_, modality, what, _)| {
        let gives =
            |other: &&Model| other.architecture.output.contains(*modality) && catalog.is_served(other, query.today);
        let others: Vec<&str> = catalog.models.iter().filter(gives).take(3).map(|other| other.id.as_str()).collect();
        (!others.is_empty()).then(|| format!(" Models that make {what}: {}.", others.join(", ")))
    });
    format!("Model '{}' cannot be used with this endpoint{calls}.{}", model.id, others.unwrap_or_default())
}

fn context_length(catalog: &Catalog, error: &RouteError, request: &impl RequestRestrictions) -> Invalid {
    let query = &error.query;
    let (limit, scope) = largest_limit(catalog, error);
    let (prompt, completion) = (query.prompt_tokens, query.max_tokens.unwrap_or_default());
    let total = u64::from(prompt) + u64::from(completion);
    let field = request.prompt_field();
    if request.dialect() == Dialect::Anthropic {
        let message = too_long_message(prompt.into(), completion.into(), limit.into());
        return Invalid::field(InvalidReason::ContextLength, field, message);
    }
    let message = format!(
        "This model's maximum context length is {limit} tokens{scope}, but about {total} tokens were requested \
         ({prompt} in the {field}, {completion} for the completion).{}",
        room_hint(catalog, error)
    );
    Invalid::field(InvalidReason::ContextLength, field, message)
}

/// The largest limit that the request exceeds, in tokens, and its scope if that is not the whole context.
fn largest_limit(catalog: &Catalog, error: &RouteError) -> (u32, &'static str) {
    let exceeded = error.excluded.iter().filter_map(|excluded| match excluded.detail {
        ExclusionDetail::Tokens { limit, .. } => Some((limit, catalog.endpoint(excluded.index)?.limits.context_length)),
        _ => None,
    });
    let (limit, context) = exceeded.max().unwrap_or_default();
    (limit, if limit < context { " for the prompt alone" } else { "" })
}

/// If the prompt alone fits, a sentence with the largest `max_tokens` that fits too.
fn room_hint(catalog: &Catalog, error: &RouteError) -> String {
    let (prompt, requested) = (u64::from(error.query.prompt_tokens), error.query.max_tokens.unwrap_or_default());
    let limits = error.excluded.iter().filter(|excluded| excluded.reason == ExclusionReason::ContextLength);
    let limits = limits.filter_map(|excluded| Some(catalog.endpoint(excluded.index)?.limits));
    // As in the filter: the estimate of the prompt may be a quarter too high.
    let room = |length: u32| (4 * u64::from(length)).saturating_sub(3 * prompt) / 4;
    let roomy = limits.filter(|limits| limits.max_prompt_tokens.is_none_or(|most| 3 * prompt <= 4 * u64::from(most)));
    match roomy.map(|limits| room(limits.context_length)).max() {
        Some(room) if room > 0 && u64::from(requested) > room => {
            format!(" Without the limit on the completion it would fit: 'max_tokens' may be at most {room}.")
        }
        _ => String::new(),
    }
}

fn no_candidates(snapshot: &Snapshot, request: &impl RequestRestrictions, error: &RouteError) -> ApiError {
    let catalog = &*snapshot.catalog;
    let counts = ExclusionReason::counts(error.excluded.iter().map(|excluded| excluded.reason));
    let restrictions = request.restrictions();
    let unknown =
        unknown_fields::unknown_entries(catalog, restrictions.iter().filter(|one| may_exclude_all(one.kind, &counts)));
    let message = unknown
        .iter()
        .take(MAX_UNKNOWN_ENTRIES)
        .fold(no_candidates_message(catalog, error, &counts), |message, one| format!("{message} {}", one.message));
    let nearest = nearest(snapshot, error);
    let has_said_it = !unknown.is_empty() || below_least_cost(catalog, error).is_some() || only_chat(error, &counts);
    let message = match nearest.as_ref().filter(|_| !has_said_it) {
        Some(nearest) => format!("{message} {}", nearest.sentence),
        None => message,
    };
    let availability = Availability {
        code: if error.excluded.is_empty() { "no_endpoints" } else { "constraint_filtered" },
        retryable: false,
        retry_after: None,
        requested_models: requested(catalog, &error.query),
        affected_providers: Vec::new(),
        excluded_by: counts.iter().map(|(reason, _)| reason.as_str()).collect(),
        fallback_models: Vec::new(),
        constraint: constraint(catalog, error, &restrictions, unknown.first()),
        nearest_relaxation: nearest,
    };
    ApiError::no_candidates(message, availability)
}

/// A sentence with the exclusion reasons, and one for each alias that no endpoint can ever serve.
fn no_candidates_message(catalog: &Catalog, error: &RouteError, counts: &[(ExclusionReason, usize)]) -> String {
    let listed: Vec<String> = counts.iter().map(|(reason, count)| format!("{}×{count}", reason.as_str())).collect();
    let message = match error.excluded.len() {
        _ if let Some(message) = below_least_cost(catalog, error) => message,
        _ if counts.iter().all(|(reason, _)| *reason == ExclusionReason::ProviderOff) && !counts.is_empty() => {
            all_off(catalog, error)
        }
        0 => "No model endpoint satisfies the request: the pool is empty.".to_owned(),
        total => format!("No model endpoint satisfies the request: {total} excluded ({}).", listed.join(", ")),
    };
    let message = if only_chat(error, counts) {
        format!("{message} They only chat: send the request to '/chat/completions'.")
    } else {
        message
    };
    let empty = catalog.aliases_among(&error.query.targets).filter(|alias| catalog.is_emptied_by_lists_of(alias));
    let message = empty.fold(message, |message, alias| {
        format!("{message} The lists of models of the alias {} leave no model of this catalog.", alias.id)
    });
    let off =
        catalog.aliases_among(&error.query.targets).filter_map(|alias| Some((alias, off_of(catalog, &alias.allowed)?)));
    off.fold(message, |message, (alias, off)| {
        format!("{message} Every model that the alias {} allows is at a provider that is off ({off}).", alias.id)
    })
}

/// Whether a request to continue a text met endpoints that only chat.
fn only_chat(error: &RouteError, counts: &[(ExclusionReason, usize)]) -> bool {
    let continues = error.query.needs.capabilities.has(Capability::LegacyCompletions);
    continues && matches!(counts, [(ExclusionReason::UnsupportedParameter, _)])
}

/// If the ceiling of the request alone excludes every endpoint: the least cost that any of them is expected to have.
fn below_least_cost(catalog: &Catalog, error: &RouteError) -> Option<String> {
    let cost = |excluded: &ExcludedEndpoint| match &excluded.detail {
        ExclusionDetail::Above { price, limit, .. } if excluded.constraint() == MAX_COST => {
            Some((*price, *limit, excluded.index))
        }
        _ => None,
    };
    let costs: Option<Vec<(Usd, Usd, u32)>> = error.excluded.iter().map(cost).collect();
    let (price, limit, index) = costs?.into_iter().min()?;
    let endpoint = catalog.endpoint(index)?;
    let (model, provider) = (catalog.model_of(endpoint)?, catalog.provider_of(endpoint)?);
    Some(format!("max_cost ${limit} is below the least expected cost, ${price} ({} on {}).", model.id, provider.name))
}

/// Whether a wrong name in a list of this kind can exclude every endpoint: such a list admits only what it names.
fn may_exclude_all(kind: RestrictionKind, counts: &[(ExclusionReason, usize)]) -> bool {
    use RestrictionKind::{Allowed, Only, Order};
    matches!(kind, Allowed | Only | Order) && counts.iter().any(|(reason, _)| *reason == kind.reason())
}

/// The field that excludes every endpoint: the field of an unknown entry, or of the only exclusion reason that the request
/// caused.
fn constraint(
    catalog: &Catalog,
    error: &RouteError,
    restrictions: &[Restriction],
    unknown: Option<&UnknownField>,
) -> Option<Constraint> {
    if let Some(entry) = unknown {
        let (field, detail) = (entry.param.clone().into(), entry.message.clone());
        return Some(Constraint { field, reason: Some(entry.reason.as_str()), detail });
    }
    let counts = ExclusionReason::counts(error.excluded.iter().map(|excluded| excluded.reason));
    let mut by_request = counts.iter().map(|(reason, _)| *reason).filter(|reason| !is_independent(*reason));
    let reason = match (by_request.next(), by_request.next(), counts.as_slice()) {
        (Some(reason), None, _) => reason,
        (None, _, [(reason, _)]) => *reason,
        _ => return None,
    };
    let last = error.excluded.iter().rfind(|excluded| excluded.reason == reason)?;
    let is_from_request = excluding_alias(catalog, &error.query, last).is_none();
    let restriction = restrictions.iter().find(|one| is_from_request && one.kind.constraint() == last.constraint());
    let field = restriction.map_or(Cow::Borrowed(last.constraint()), |one| one.path.clone().into());
    Some(Constraint { field, reason: Some(reason.as_str()), detail: detail(catalog, &error.query, last) })
}

/// Whether a reason comes from the catalog, the key or the kind of call, and not from a restriction of the request.
const fn is_independent(reason: ExclusionReason) -> bool {
    use ExclusionReason::{Disabled, KeyPolicy, ModelExpired, NotFree, ProviderOff, WrongEndpoint};
    matches!(reason, Disabled | KeyPolicy | ModelExpired | NotFree | ProviderOff | WrongEndpoint)
}

/// A sentence that says of each provider why it is off; usually it names the variable to set.
fn all_off(catalog: &Catalog, error: &RouteError) -> String {
    let endpoints = error.excluded.iter().filter_map(|excluded| Some((excluded, catalog.endpoint(excluded.index)?)));
    let mut reasons: Vec<String> = endpoints
        .filter_map(|(excluded, endpoint)| {
            Some(format!("{}: {}", catalog.provider_of(endpoint)?.slug, excluded.detail))
        })
        .collect();
    reasons.dedup();
    format!("Every provider of this model is off ({}).", reasons.join("; "))
}

fn requested(catalog: &Catalog, query: &Query) -> Vec<String> {
    query.targets.iter().filter_map(|target| catalog.target_id(*target).map(str::to_owned)).collect()
}
