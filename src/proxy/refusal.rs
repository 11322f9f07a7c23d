//! When the routing leaves nothing: which error that is, and what would help.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_actors::{
    dialect::{Restriction, RestrictionKind},
    domain::{
        Alias, ApiType, Catalog, ExcludedEndpoint, ExclusionDetail, ExclusionReason, Invalid, InvalidReason, Model,
        ModelPattern, Query, RouteError, Target, Tick,
    },
    explain::{nearest_relaxation, remedy},
    stats::Snapshot,
};

use crate::{
    base::error::{ApiError, Availability, Constraint, Exhausted, NearestRelaxation, Overload},
    proxy::unknown_fields::{self, UnknownField, off_of},
};

/// Entries that name nobody which the message of a refusal tells.
const MOST_NAMED: usize = 3;

/// The request, as whoever read it tells of it.
pub trait RequestRestrictions {
    /// What a fixed model lacks for it.
    fn unmet(&self, catalog: &Catalog, model: &Model) -> Option<Invalid>;
    /// What restricts it, and where that stands.
    fn restrictions(&self) -> Vec<Restriction>;
}

/// The answer to a request that no endpoint may serve.
///
/// In this order: a passing obstacle gives 429 or 503 with the time it lasts; a fixed model that lacks
/// what the request needs gives 400; a key that may not use the model 403; anything else 404.
#[must_use]
pub fn explain(snapshot: &Snapshot, asker: &impl RequestRestrictions, error: &RouteError, now: Tick) -> ApiError {
    let catalog = &*snapshot.catalog;
    if error.excluded.iter().any(|excluded| excluded.reason.is_passing()) {
        return passing(catalog, error, now);
    }
    let only = |reason| !error.excluded.is_empty() && error.excluded.iter().all(|e| e.reason == reason);
    if let Some(model) = fixed_model(catalog, &error.query) {
        if only(ExclusionReason::KeyPolicy) {
            return ApiError::model_not_allowed(model.id.as_str());
        }
        if let Some(invalid) = lacking(catalog, asker, error, model) {
            return invalid.into();
        }
    }
    if error.excluded.iter().any(|e| e.reason == ExclusionReason::ContextLength)
        && !error.excluded.iter().any(|e| is_a_limit_where_it_fits(e.reason))
    {
        return context_length(catalog, error).into();
    }
    no_candidates(snapshot, asker, error)
}

/// The smallest change of the request that leaves an endpoint for it; `None` if no change of the request helps.
#[must_use]
pub fn nearest(snapshot: &Snapshot, error: &RouteError) -> Option<NearestRelaxation> {
    let catalog = &snapshot.catalog;
    let relaxation = nearest_relaxation(error, snapshot)?;
    let endpoint = catalog.endpoint(relaxation.index)?;
    let (model, provider) = (catalog.model_of(endpoint)?, catalog.provider_of(endpoint)?);
    let constraint = |excluded: &ExcludedEndpoint| Constraint {
        field: excluded.reason.as_str().into(),
        reason: None,
        detail: detail(catalog, &error.query, excluded),
    };
    let without: Vec<Constraint> = relaxation.against.iter().map(constraint).collect();
    let changes: Vec<String> = relaxation
        .against
        .iter()
        .zip(&without)
        .map(|(excluded, constraint)| {
            format!("{} ({}: {})", remedy(excluded.reason), constraint.field, constraint.detail)
        })
        .collect();
    let count = if changes.len() == 1 { "one change".to_owned() } else { format!("{} changes", changes.len()) };
    let sentence =
        format!("{} on {} can serve the request after {count}: {}.", model.id, provider.name, changes.join("; "));
    Some(NearestRelaxation { model: model.id.to_string(), provider_name: provider.name.to_string(), without, sentence })
}

/// What decided an exclusion; of a list that is not the request's own, whose it is.
fn detail(catalog: &Catalog, query: &Query, excluded: &ExcludedEndpoint) -> String {
    match alias_to_blame(catalog, query, excluded) {
        Some(alias) if excluded.reason == ExclusionReason::NotAllowedModel => {
            format!("matches no entry of 'allowed_models' of the alias {}", alias.id)
        }
        Some(alias) => format!("{} in 'blocked_models' of the alias {}", excluded.detail, alias.id),
        None => excluded.detail.to_string(),
    }
}

/// The alias whose own list of models excludes this endpoint, whatever the lists of the request say.
fn alias_to_blame<'a>(catalog: &'a Catalog, query: &Query, excluded: &ExcludedEndpoint) -> Option<&'a Alias> {
    let model = catalog.model_of(catalog.endpoint(excluded.index)?)?;
    let is_in =
        |list: &[ModelPattern]| list.iter().any(|pattern| pattern.matches(model.id.as_str(), &model.canonical_slug));
    let excludes = |alias: &&Alias| match excluded.reason {
        ExclusionReason::NotAllowedModel => !alias.allowed.is_empty() && !is_in(&alias.allowed),
        ExclusionReason::BlockedModel => is_in(&alias.blocked) && !is_in(&query.routing.blocked),
        _ => false,
    };
    aliases(catalog, query).find(excludes)
}

/// The aliases that were asked for.
fn aliases<'a>(catalog: &'a Catalog, query: &Query) -> impl Iterator<Item = &'a Alias> {
    query.targets.iter().filter_map(|target| match target {
        Target::Alias(index) => catalog.alias(*index),
        Target::Model(_) => None,
    })
}

/// Whether a reason is a limit of the caller's that refuses what has room for the prompt: he may rather lift it than say
/// less. Whatever else refuses an endpoint does so before its context is looked at: it is no candidate at any length.
const fn is_a_limit_where_it_fits(reason: ExclusionReason) -> bool {
    use ExclusionReason::{DataPolicy, MaxCostPer1kTokens, MaxPrice, Quantization};
    matches!(reason, DataPolicy | MaxCostPer1kTokens | MaxPrice | Quantization)
}

fn passing(catalog: &Catalog, error: &RouteError, now: Tick) -> ApiError {
    let wait = error.opens.map_or(Duration::from_secs(1), |opens| opens - now).max(Duration::from_millis(1));
    let passing = || error.excluded.iter().map(|e| e.reason).filter(|reason| reason.is_passing());
    let limited = |reason| matches!(reason, ExclusionReason::RateLimited | ExclusionReason::Paced);
    let broken = |reason| {
        matches!(reason, ExclusionReason::CircuitOpen | ExclusionReason::ProbeInFlight | ExclusionReason::ConfigFault)
    };
    let refusal = if passing().all(limited) {
        ApiError::exhausted(Exhausted::RateLimited, wait, Vec::new())
    } else if passing().any(broken) {
        ApiError::overloaded(Overload::CircuitsOpen, wait)
    } else {
        ApiError::overloaded(Overload::EndpointsBusy, wait)
    };
    let affected = error.excluded.iter().filter(|e| e.reason.is_passing()).map(|e| e.index);
    let reasons = counted(error).into_iter().map(|(reason, _)| reason.as_str()).collect();
    let availability = Availability::capacity(requested(catalog, &error.query), providers(catalog, affected), reasons);
    refusal.with_availability(availability.retryable_after(wait))
}

/// The slugs of the providers of these endpoints, each once.
pub fn providers(catalog: &Catalog, endpoints: impl Iterator<Item = u32>) -> Vec<String> {
    let slugs = endpoints.filter_map(|index| Some(catalog.provider_of(catalog.endpoint(index)?)?.slug.to_string()));
    slugs.collect::<BTreeSet<String>>().into_iter().collect()
}

/// The one fixed model that was asked for.
fn fixed_model<'a>(catalog: &'a Catalog, query: &Query) -> Option<&'a Model> {
    match query.targets.as_slice() {
        [Target::Model(index)] => catalog.model(*index),
        _ => None,
    }
}

/// The 400 for a fixed model that cannot do what the request needs.
fn lacking(catalog: &Catalog, asker: &impl RequestRestrictions, error: &RouteError, model: &Model) -> Option<Invalid> {
    let first =
        error.excluded.iter().map(|e| e.reason).find(|reason| !matches!(reason, ExclusionReason::ProviderOff))?;
    match first {
        ExclusionReason::WrongEndpoint => {
            let message = format!("Model '{}' cannot be used with this endpoint.", model.id);
            Some(Invalid::field(InvalidReason::WrongEndpoint, "model", message))
        }
        ExclusionReason::ContextLength => Some(context_length(catalog, error)),
        ExclusionReason::UnsupportedParameter | ExclusionReason::InputModality | ExclusionReason::OutputModality => {
            asker.unmet(catalog, model)
        }
        _ => None,
    }
}

fn context_length(catalog: &Catalog, error: &RouteError) -> Invalid {
    let query = &error.query;
    let (longest, of) = widest(catalog, error);
    let (prompt, completion) = (query.prompt_tokens, query.max_tokens.unwrap_or_default());
    let total = u64::from(prompt) + u64::from(completion);
    let field = match query.api {
        ApiType::Completions => "messages",
        ApiType::Image => "prompt",
    };
    let message = format!(
        "This model's maximum context length is {longest} tokens{of}, but about {total} tokens were requested \
         ({prompt} in the {field}, {completion} for the completion).{}",
        room_hint(catalog, error)
    );
    Invalid::field(InvalidReason::ContextLength, field, message)
}

/// The widest of the limits that the request exceeds, tokens, and what it is for where that is not the whole context.
fn widest(catalog: &Catalog, error: &RouteError) -> (u32, &'static str) {
    let exceeded = error.excluded.iter().filter_map(|excluded| match excluded.detail {
        ExclusionDetail::Tokens { limit, .. } => Some((limit, catalog.endpoint(excluded.index)?.limits.context_length)),
        _ => None,
    });
    let (limit, context) = exceeded.max().unwrap_or_default();
    (limit, if limit < context { " for the prompt alone" } else { "" })
}

/// Where the prompt alone would fit, `max_tokens` is what is too large: how large it may be.
fn room_hint(catalog: &Catalog, error: &RouteError) -> String {
    let (prompt, asked) = (u64::from(error.query.prompt_tokens), error.query.max_tokens.unwrap_or_default());
    let limits = error.excluded.iter().filter(|excluded| excluded.reason == ExclusionReason::ContextLength);
    let limits = limits.filter_map(|excluded| Some(catalog.endpoint(excluded.index)?.limits));
    // As the filter reads the estimate: it may be a quarter too high.
    let room = |length: u32| (4 * u64::from(length)).saturating_sub(3 * prompt) / 4;
    let roomy = limits.filter(|limits| limits.max_prompt_tokens.is_none_or(|most| 3 * prompt <= 4 * u64::from(most)));
    match roomy.map(|limits| room(limits.context_length)).max() {
        Some(room) if room > 0 && u64::from(asked) > room => {
            format!(" Without the limit on the completion it would fit: 'max_tokens' may be at most {room}.")
        }
        _ => String::new(),
    }
}

/// How many endpoints each reason excluded, the most frequent first.
fn counted(error: &RouteError) -> Vec<(ExclusionReason, usize)> {
    let mut counts: BTreeMap<ExclusionReason, usize> = BTreeMap::new();
    for excluded in &error.excluded {
        *counts.entry(excluded.reason).or_default() += 1;
    }
    let mut counts: Vec<(ExclusionReason, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    counts
}

fn no_candidates(snapshot: &Snapshot, asker: &impl RequestRestrictions, error: &RouteError) -> ApiError {
    let catalog = &*snapshot.catalog;
    let counts = counted(error);
    let restrictions = asker.restrictions();
    let misspelt = unknown_fields::names(catalog, restrictions.iter().filter(|one| is_to_blame(one.kind, &counts)));
    let message = misspelt
        .iter()
        .take(MOST_NAMED)
        .fold(nothing_left(catalog, error, &counts), |told, one| format!("{told} {}", one.message));
    let availability = Availability {
        code: if error.excluded.is_empty() { "no_endpoints" } else { "constraint_filtered" },
        retryable: false,
        retry_after: None,
        requested_models: requested(catalog, &error.query),
        affected_providers: Vec::new(),
        excluded_by: counts.iter().map(|(reason, _)| reason.as_str()).collect(),
        fallback_models: Vec::new(),
        constraint: constraint(catalog, error, &restrictions, misspelt.first()),
        nearest_relaxation: nearest(snapshot, error),
    };
    ApiError::no_candidates(message, availability)
}

/// That nothing is left, with the reasons, and the aliases that nothing could ever be left of.
fn nothing_left(catalog: &Catalog, error: &RouteError, counts: &[(ExclusionReason, usize)]) -> String {
    let listed: Vec<String> = counts.iter().map(|(reason, count)| format!("{}×{count}", reason.as_str())).collect();
    let message = match error.excluded.len() {
        _ if counts.iter().all(|(reason, _)| *reason == ExclusionReason::ProviderOff) && !counts.is_empty() => {
            all_off(catalog, error)
        }
        0 => "No model endpoint satisfies the request: the pool is empty.".to_owned(),
        total => format!("No model endpoint satisfies the request: {total} excluded ({}).", listed.join(", ")),
    };
    let empty = aliases(catalog, &error.query).filter(|alias| catalog.is_emptied_by_lists_of(alias));
    let message = empty.fold(message, |told, alias| {
        format!("{told} The lists of models of the alias {} leave no model of this catalog.", alias.id)
    });
    let off = aliases(catalog, &error.query).filter_map(|alias| Some((alias, off_of(catalog, &alias.allowed)?)));
    off.fold(message, |told, (alias, off)| {
        format!("{told} Every model that the alias {} allows is at a provider that is off ({off}).", alias.id)
    })
}

/// Whether a list can leave nothing because it names somebody wrongly: it lets only those serve whom it names.
fn is_to_blame(kind: RestrictionKind, counts: &[(ExclusionReason, usize)]) -> bool {
    use RestrictionKind::{Allowed, Only, Order};
    matches!(kind, Allowed | Only | Order) && counts.iter().any(|(reason, _)| *reason == kind.reason())
}

/// What stands in the way, by the field it stands in: an entry that names nobody, or the one
/// reason of the request's that there is.
fn constraint(
    catalog: &Catalog,
    error: &RouteError,
    restrictions: &[Restriction],
    misspelt: Option<&UnknownField>,
) -> Option<Constraint> {
    if let Some(entry) = misspelt {
        let (field, detail) = (entry.param.clone().into(), entry.message.clone());
        return Some(Constraint { field, reason: Some(entry.reason.as_str()), detail });
    }
    let counts = counted(error);
    let mut of_the_request = counts.iter().map(|(reason, _)| *reason).filter(|reason| !is_a_given(*reason));
    let reason = match (of_the_request.next(), of_the_request.next(), counts.as_slice()) {
        (Some(reason), None, _) => reason,
        (None, _, [(reason, _)]) => *reason,
        _ => return None,
    };
    let last = error.excluded.iter().rfind(|excluded| excluded.reason == reason)?;
    let is_its_own = alias_to_blame(catalog, &error.query, last).is_none();
    let stands = restrictions.iter().find(|one| is_its_own && one.kind.reason() == reason);
    let field = stands.map_or(Cow::Borrowed(reason.as_str()), |one| one.path.clone().into());
    Some(Constraint { field, reason: Some(reason.as_str()), detail: detail(catalog, &error.query, last) })
}

/// Whether a reason lies in the catalog, the key or the kind of call: no restriction of the request, which it stands beside.
const fn is_a_given(reason: ExclusionReason) -> bool {
    use ExclusionReason::{Disabled, KeyPolicy, ModelExpired, NotFree, ProviderOff, WrongEndpoint};
    matches!(reason, Disabled | KeyPolicy | ModelExpired | NotFree | ProviderOff | WrongEndpoint)
}

/// Says of each provider that could serve why it is off: usually which variable to set.
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
    let name = |target: &Target| match target {
        Target::Model(index) => catalog.model(*index).map(|model| model.id.to_string()),
        Target::Alias(index) => catalog.alias(*index).map(|alias| alias.id.clone()),
    };
    query.targets.iter().filter_map(name).collect()
}
