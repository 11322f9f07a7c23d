//! Hard filters: endpoints that cannot serve a request, whatever the statistics say.
//!
//! Each check looks at one reason. They run in the order of [`CATALOG_CHECKS`] and [`LEARNED_CHECKS`], and the first that
//! refuses is the reported reason: endpoints that cannot be called at all, then restrictions of the key, then those of the
//! caller, then what only one dialect has, then capabilities, then cost, then quality.

use std::sync::Arc;

use pointsman_domain::{
    Alias, ApiType, Catalog, DataCollection, Endpoint, ExclusionDetail, ExclusionReason, Modality, Model, ModelPattern,
    Objective, ParameterSet, Provider, ProviderState, Quality, QualityShortfall, Query, UnknownQuality, Usd,
};

use crate::stats::{LengthClass, Snapshot};

/// The reason, and the figure or pattern behind it.
pub(crate) type Refusal = (ExclusionReason, ExclusionDetail);

/// An endpoint with its model and provider.
#[derive(Clone, Copy)]
pub(crate) struct CatalogEndpoint<'a> {
    /// Position in the catalog.
    index: u32,
    pub endpoint: &'a Endpoint,
    pub model: &'a Model,
    pub provider: &'a Provider,
}

impl<'a> CatalogEndpoint<'a> {
    /// The endpoint at a position.
    pub(crate) fn at(catalog: &'a Catalog, index: u32) -> Option<CatalogEndpoint<'a>> {
        let endpoint = catalog.endpoint(index)?;
        let (model, provider) = (catalog.model_of(endpoint)?, catalog.provider_of(endpoint)?);
        Some(CatalogEndpoint { index, endpoint, model, provider })
    }

    /// Whether an entry of a provider list names it: slug, display name, or `slug/variant`.
    pub(crate) fn is_named(&self, entry: &str) -> bool {
        self.provider.is_named(entry, &self.endpoint.variant)
    }

    fn matches(&self, patterns: &'a [ModelPattern]) -> Option<&'a ModelPattern> {
        patterns.iter().find(|pattern| pattern.matches(self.model.id.as_str(), &self.model.canonical_slug))
    }
}

/// A check for one reason.
struct FilterRule {
    /// Whether the check applies to the request.
    applies: fn(&HardFilters<'_>) -> bool,
    refuses: fn(&HardFilters<'_>, CatalogEndpoint<'_>) -> Option<Refusal>,
    /// Whether it looks at nothing but the model of an endpoint.
    is_of_model: bool,
}

impl FilterRule {
    const fn new(
        applies: fn(&HardFilters<'_>) -> bool,
        refuses: fn(&HardFilters<'_>, CatalogEndpoint<'_>) -> Option<Refusal>,
    ) -> FilterRule {
        FilterRule { applies, refuses, is_of_model: false }
    }

    const fn of_model(
        applies: fn(&HardFilters<'_>) -> bool,
        refuses: fn(&HardFilters<'_>, CatalogEndpoint<'_>) -> Option<Refusal>,
    ) -> FilterRule {
        FilterRule { applies, refuses, is_of_model: true }
    }
}

const ALWAYS: fn(&HardFilters<'_>) -> bool = |_| true;

/// Checks of nothing but catalog and request.
static CATALOG_CHECKS: [FilterRule; 23] = [
    FilterRule::of_model(ALWAYS, expired),
    FilterRule::new(ALWAYS, disabled),
    FilterRule::new(ALWAYS, provider_off),
    FilterRule::of_model(ALWAYS, wrong_endpoint),
    FilterRule::of_model(has_key_lists, key_policy),
    FilterRule::of_model(has_blocked, blocked),
    FilterRule::of_model(has_allowed, not_allowed),
    FilterRule::new(|filters| filters.alias.is_some_and(|alias| alias.free_only), not_free),
    FilterRule::new(|filters| !filters.query.routing.provider.ignore.is_empty(), ignored),
    FilterRule::new(|filters| !filters.query.routing.provider.only.is_empty(), not_only),
    FilterRule::new(is_ordered_strictly, not_ordered),
    FilterRule::new(|filters| filters.query.needs.native.is_some(), other_dialect),
    FilterRule::of_model(|filters| !filters.query.needs.output.is_empty(), output),
    FilterRule::of_model(|filters| !filters.query.needs.input.is_empty(), input),
    FilterRule::new(needs_parameters, parameters),
    FilterRule::new(|filters| !filters.query.needs.capabilities.is_empty(), capabilities),
    FilterRule::new(|filters| !filters.query.needs.lost.is_empty(), lost_parameter),
    FilterRule::new(ALWAYS, context),
    FilterRule::new(|filters| !filters.query.routing.provider.quantizations.is_empty(), quantization),
    FilterRule::new(has_data_policy, data_policy),
    FilterRule::new(needs_price, price_unknown),
    FilterRule::new(|filters| filters.query.routing.max_cost_per_1k_tokens.is_some(), per_1k_tokens),
    FilterRule::new(has_ceilings, ceilings),
];

/// Checks of what was learned, after the others.
static LEARNED_CHECKS: [FilterRule; 2] = [
    FilterRule::new(|filters| filters.query.routing.max_cost.is_some(), max_cost),
    FilterRule::new(has_quality_floor, min_quality),
];

/// The checks of one target of a request.
pub(crate) struct HardFilters<'a> {
    catalog: &'a Catalog,
    snapshot: &'a Snapshot,
    query: &'a Query,
    /// The requested alias: its lists apply to its pool.
    alias: Option<&'a Alias>,
    /// The checks that apply, in order.
    active: Vec<&'static FilterRule>,
}

impl<'a> HardFilters<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, query: &'a Query, alias: Option<&'a Alias>) -> HardFilters<'a> {
        let mut filters = HardFilters::of_catalog(snapshot, query, alias);
        let mut active = std::mem::take(&mut filters.active);
        active.extend(LEARNED_CHECKS.iter().filter(|check| (check.applies)(&filters)));
        HardFilters { active, ..filters }
    }

    /// The same but for expected cost and quality, for a record that tells both.
    pub(crate) fn of_catalog(snapshot: &'a Snapshot, query: &'a Query, alias: Option<&'a Alias>) -> HardFilters<'a> {
        let mut filters = HardFilters { catalog: &snapshot.catalog, snapshot, query, alias, active: Vec::new() };
        let mut active = Vec::with_capacity(CATALOG_CHECKS.len() + LEARNED_CHECKS.len());
        active.extend(CATALOG_CHECKS.iter().filter(|check| (check.applies)(&filters)));
        filters.active = active;
        filters
    }

    /// Leaves out the checks that the model of this endpoint passes, for a target whose endpoints are all of this model.
    pub(crate) fn pass_model(&mut self, index: u32) {
        let Some(subject) = CatalogEndpoint::at(self.catalog, index) else { return };
        let mut active = std::mem::take(&mut self.active);
        active.retain(|check| !check.is_of_model || (check.refuses)(self, subject).is_some());
        self.active = active;
    }

    /// The first reason against the endpoint at this position.
    pub(crate) fn refusal_of(&self, index: u32) -> Option<Refusal> {
        self.refusal(CatalogEndpoint::at(self.catalog, index)?)
    }

    /// The first reason against the endpoint.
    pub(crate) fn refusal(&self, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
        self.active.iter().find_map(|check| (check.refuses)(self, subject))
    }

    /// All reasons against the endpoint.
    pub(crate) fn refusals(&self, subject: CatalogEndpoint<'_>) -> impl Iterator<Item = Refusal> {
        self.active.iter().filter_map(move |check| (check.refuses)(self, subject))
    }
}

fn expired(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let gone = subject.model.expiration_date.filter(|gone| *gone <= filters.query.today)?;
    Some((ExclusionReason::ModelExpired, ExclusionDetail::Retired(gone)))
}

fn disabled(_: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let detail = || ExclusionDetail::Text("switched off in the configuration".into());
    subject.endpoint.disabled.then(|| (ExclusionReason::Disabled, detail()))
}

fn provider_off(_: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let ProviderState::Off(why) = &subject.provider.state else { return None };
    Some((ExclusionReason::ProviderOff, ExclusionDetail::Sentence(why.as_str().into())))
}

fn wrong_endpoint(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let needed = purpose(filters.query.api);
    let gives = subject.model.architecture.output.contains(needed);
    (!gives).then_some((ExclusionReason::WrongEndpoint, ExclusionDetail::DoesNotGive(needed)))
}

/// Output modality of an API.
pub(crate) const fn purpose(api: ApiType) -> Modality {
    match api {
        ApiType::Completions => Modality::Text,
        ApiType::Image => Modality::Image,
        ApiType::Embeddings => Modality::Embeddings,
    }
}

fn has_key_lists(filters: &HardFilters<'_>) -> bool {
    !filters.query.key_allowed.is_empty() || !filters.query.key_blocked.is_empty()
}

fn key_policy(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    if let Some(pattern) = subject.matches(&filters.query.key_blocked) {
        return Some((ExclusionReason::KeyPolicy, ExclusionDetail::Matches(pattern.clone())));
    }
    let allowed = &filters.query.key_allowed;
    let outside = !allowed.is_empty() && subject.matches(allowed).is_none();
    outside.then_some((ExclusionReason::KeyPolicy, ExclusionDetail::Text("not among the models of the key".into())))
}

fn has_blocked(filters: &HardFilters<'_>) -> bool {
    !filters.query.routing.blocked.is_empty() || filters.alias.is_some_and(|alias| !alias.blocked.is_empty())
}

fn blocked(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let by_alias = || filters.alias.and_then(|alias| subject.matches(&alias.blocked));
    let pattern = subject.matches(&filters.query.routing.blocked).or_else(by_alias)?;
    Some((ExclusionReason::BlockedModel, ExclusionDetail::Matches(pattern.clone())))
}

fn has_allowed(filters: &HardFilters<'_>) -> bool {
    !filters.query.routing.allowed.is_empty() || filters.alias.is_some_and(|alias| !alias.allowed.is_empty())
}

fn not_allowed(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let outside = |list: &[ModelPattern]| !list.is_empty() && subject.matches(list).is_none();
    let by_alias = || filters.alias.is_some_and(|alias| outside(&alias.allowed));
    let refused = filters.query.routing.allowed.iter().any(|list| outside(list)) || by_alias();
    refused.then_some((
        ExclusionReason::NotAllowedModel,
        ExclusionDetail::Text("matches no entry of an allowed list".into()),
    ))
}

fn not_free(_: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let pricing = subject.endpoint.pricing.as_deref()?;
    let of_tokens = |prompt: Usd, completion: Usd| [("prompt price", prompt), ("completion price", completion)];
    let services =
        pricing.service_tiers.iter().flat_map(|tier| of_tokens(tier.pricing.prompt, tier.pricing.completion));
    let tiers = pricing.tiers.iter().flat_map(|tier| of_tokens(tier.prompt, tier.completion)).chain(services);
    let mut paid = of_tokens(pricing.prompt, pricing.completion)
        .into_iter()
        .chain([("request price", pricing.request)])
        .chain(tiers);
    let (what, price) = paid.find(|(_, price)| !price.is_zero())?;
    Some((ExclusionReason::NotFree, ExclusionDetail::Above { what: what.into(), price, limit: Usd::ZERO }))
}

fn ignored(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let entry = filters.query.routing.provider.ignore.iter().find(|entry| subject.is_named(entry))?;
    Some((ExclusionReason::ProviderIgnored, ExclusionDetail::Named(entry.as_str().into())))
}

fn not_only(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let named = |list: &Vec<String>| list.iter().any(|entry| subject.is_named(entry));
    let outside = !filters.query.routing.provider.only.iter().all(named);
    outside.then_some((
        ExclusionReason::ProviderNotAllowed,
        ExclusionDetail::Text("not among the allowed providers".into()),
    ))
}

/// Without fallbacks `provider.order` excludes all providers that are not listed.
fn is_ordered_strictly(filters: &HardFilters<'_>) -> bool {
    let policy = &filters.query.routing.provider;
    !policy.allow_fallbacks && !policy.order.is_empty()
}

fn not_ordered(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let named = filters.query.routing.provider.order.iter().any(|entry| subject.is_named(entry));
    let detail = || ExclusionDetail::Text("not in the order given, and fallbacks are off".into());
    (!named).then(|| (ExclusionReason::ProviderNotAllowed, detail()))
}

fn output(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let missing = filters.query.needs.output.without(subject.model.architecture.output).first()?;
    Some((ExclusionReason::OutputModality, ExclusionDetail::DoesNotGive(missing)))
}

fn input(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let missing = filters.query.needs.input.without(subject.model.architecture.input).first()?;
    Some((ExclusionReason::InputModality, ExclusionDetail::DoesNotTake(missing)))
}

fn needs_parameters(filters: &HardFilters<'_>) -> bool {
    !filters.query.needs.parameters.is_empty() || !filters.query.needs.any_parameter.is_empty()
}

fn parameters(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let (needs, listed) = (&filters.query.needs, subject.endpoint.parameters);
    let missing_of = |supported: ParameterSet| {
        let missing = needs.parameters.without(supported);
        let any = needs.any_parameter;
        if missing.is_empty() && any.without(supported) == any { any } else { missing }
    };
    // Most endpoints list what is needed, and that is quicker to see than what they accept besides.
    if missing_of(listed).is_empty() {
        return None;
    }
    let names = &filters.catalog.parameters;
    let name = names.names(missing_of(names.accepted(listed))).next()?;
    Some((ExclusionReason::UnsupportedParameter, ExclusionDetail::Lacks(name.clone())))
}

fn capabilities(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let missing = filters.query.needs.capabilities.common(subject.endpoint.lacks).first()?;
    Some((ExclusionReason::UnsupportedParameter, ExclusionDetail::Lacks(missing.into())))
}

fn other_dialect(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let native = filters.query.needs.native.as_ref().filter(|native| native.dialect != subject.endpoint.dialect)?;
    Some((ExclusionReason::UnsupportedParameter, ExclusionDetail::Lacks(Arc::clone(&native.field))))
}

fn lost_parameter(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let lost = filters.query.needs.lost.iter().find(|lost| lost.endpoint == subject.endpoint.id)?;
    Some((ExclusionReason::UnsupportedParameter, ExclusionDetail::Lacks(Arc::clone(&lost.name))))
}

fn context(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let (limits, prompt, output) = (subject.endpoint.limits, filters.query.prompt_tokens, output_tokens(filters.query));
    let refusal = |needed, limit| Some((ExclusionReason::ContextLength, ExclusionDetail::Tokens { needed, limit }));
    if !fits(prompt, output, limits.context_length) {
        return refusal(u64::from(prompt) + u64::from(output), limits.context_length);
    }
    let most = limits.max_prompt_tokens.filter(|most| !fits(prompt, 0, *most))?;
    refusal(u64::from(prompt), most)
}

fn fits(prompt: u32, output: u32, limit: u32) -> bool {
    quarters(prompt, output) <= 4 * u64::from(limit)
}

/// Required tokens, in quarters: the estimate of the prompt may be a quarter too high, so closer cases go upstream.
fn quarters(prompt: u32, output: u32) -> u64 {
    3 * u64::from(prompt) + 4 * u64::from(output)
}

fn output_tokens(query: &Query) -> u32 {
    query.max_tokens.unwrap_or(1).max(1)
}

fn quantization(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let format = subject.endpoint.quantization.as_deref();
    let wanted =
        filters.query.routing.provider.quantizations.iter().any(|wanted| wanted == format.unwrap_or("unknown"));
    (!wanted).then(|| (ExclusionReason::Quantization, ExclusionDetail::Quantization(format.map(Into::into))))
}

fn has_data_policy(filters: &HardFilters<'_>) -> bool {
    let policy = &filters.query.routing.provider;
    policy.data_collection == DataCollection::Deny || policy.zero_data_retention
}

fn data_policy(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let policy = &filters.query.routing.provider;
    let text = if policy.data_collection == DataCollection::Deny && subject.provider.collects_data {
        "the provider may keep prompts"
    } else if policy.zero_data_retention && !subject.provider.zero_data_retention {
        "the provider does not promise to keep nothing"
    } else {
        return None;
    };
    Some((ExclusionReason::DataPolicy, ExclusionDetail::Text(text.into())))
}

/// Whether the request limits or minimizes cost, which is impossible with an unknown price.
fn needs_price(filters: &HardFilters<'_>) -> bool {
    let routing = &filters.query.routing;
    filters.query.objective.value == Objective::Cheapest
        || filters.alias.is_some_and(|alias| alias.free_only)
        || routing.max_cost_per_1k_tokens.is_some()
        || routing.max_cost.is_some()
        || has_ceilings(filters)
}

fn price_unknown(_: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let detail = || ExclusionDetail::Text("the configuration names no price".into());
    subject.endpoint.pricing.is_none().then(|| (ExclusionReason::PriceUnknown, detail()))
}

fn per_1k_tokens(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let limit = filters.query.routing.max_cost_per_1k_tokens?.value;
    let pricing = subject.endpoint.pricing.as_deref()?;
    let service = filters.query.needs.service.sent_to(Some(pricing));
    let tiers = pricing.possible(&service, u64::from(filters.query.prompt_tokens));
    let price = tiers.map(|pricing| pricing.prompt.max(pricing.completion)).max()? * 1000;
    let detail = ExclusionDetail::Above { what: "price per 1,000 tokens".into(), price, limit };
    (price > limit).then_some((ExclusionReason::MaxCostPer1kTokens, detail))
}

fn has_ceilings(filters: &HardFilters<'_>) -> bool {
    filters.query.routing.provider.max_price != pointsman_domain::PriceCeiling::default()
}

fn ceilings(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let (ceiling, pricing) = (&filters.query.routing.provider.max_price, subject.endpoint.pricing.as_deref()?);
    let above = |(what, price, limit): (&'static str, Usd, Option<Usd>)| {
        let limit = limit.filter(|limit| price > *limit)?;
        Some((ExclusionReason::MaxPrice, ExclusionDetail::Above { what: what.into(), price, limit }))
    };
    let service = filters.query.needs.service.sent_to(Some(pricing));
    pricing.possible(&service, u64::from(filters.query.prompt_tokens)).find_map(|pricing| {
        let prices = [
            ("prompt price", pricing.prompt, ceiling.prompt),
            ("completion price", pricing.completion, ceiling.completion),
            ("request price", pricing.request, ceiling.request),
            ("image price", pricing.image, ceiling.image),
        ];
        prices.into_iter().find_map(above)
    })
}

fn max_cost(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let (model, longest) = (subject.endpoint.model, subject.endpoint.limits.longest_answer());
    let (output, _) = filters.snapshot.lengths.of(LengthClass::of(filters.query.max_tokens)).expected(model, longest);
    above_max_cost(filters.query, subject.endpoint, output)
}

/// Whether the endpoint is expected to cost more than the request allows if it gives so many tokens. In exact money, because a
/// price limit is a promise.
pub(crate) fn above_max_cost(query: &Query, endpoint: &Endpoint, output: f64) -> Option<Refusal> {
    let (limit, pricing) = (query.routing.max_cost?.value, endpoint.pricing.as_deref()?);
    let service = query.needs.service.sent_to(Some(pricing));
    let price = |pricing: &pointsman_domain::Pricing| {
        pricing.prompt * u64::from(query.prompt_tokens)
            + pricing.completion * (output.ceil() as u64).saturating_mul(u64::from(query.answers))
            + pricing.request
            + pricing.image * u64::from(query.images)
    };
    let price = pricing.possible_at(&service, u64::from(query.prompt_tokens)).map(|pricing| price(&pricing)).max()?;
    let detail = ExclusionDetail::Above { what: ExclusionDetail::EXPECTED_COST.into(), price, limit };
    (price > limit).then_some((ExclusionReason::MaxPrice, detail))
}

fn has_quality_floor(filters: &HardFilters<'_>) -> bool {
    filters.query.routing.min_quality.is_some() && filters.query.task_class.is_some()
}

fn min_quality(filters: &HardFilters<'_>, subject: CatalogEndpoint<'_>) -> Option<Refusal> {
    let task = filters.query.task_class?.task;
    below_min_quality(filters.query, subject, filters.snapshot.quality.get(subject.index, task))
}

/// Whether an endpoint of this quality is below what the request asks for.
pub(crate) fn below_min_quality(
    query: &Query,
    subject: CatalogEndpoint<'_>,
    quality: Option<Quality>,
) -> Option<Refusal> {
    let (floor, task) = (query.routing.min_quality?.value, query.task_class?.task);
    let Some(quality) = quality else {
        let is_allowed = query.routing.quality_unknown.is_some_and(|given| given.value == UnknownQuality::Allow);
        return (!is_allowed).then_some((ExclusionReason::QualityUnknown, ExclusionDetail::NoQuality(task)));
    };
    (!floor.admits(&quality)).then(|| {
        let score = subject.endpoint.quality.get(task).or_else(|| subject.model.quality.get(task)).cloned();
        let shortfall = QualityShortfall { task, quality, floor, score };
        (ExclusionReason::QualityBelow, ExclusionDetail::Quality(Box::new(shortfall)))
    })
}
