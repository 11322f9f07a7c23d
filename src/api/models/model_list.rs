//! The answer to a [`ModelQuery`]: filters, sorts, selects a page and adds the envelope.

use std::cmp::{Ordering, Reverse};

use pointsman_domain::{Catalog, Provider, Usd};
use pointsman_routing::stats::Summary;
use serde::Serialize;

use super::{
    listed_model::ListedModel,
    measurements::Measurements,
    model_entry::ModelEntry,
    model_query::{ModelQuery, Outputs, Page, Sort},
};

/// Members beside the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// `data` only.
    Bare,
    /// `data`, `total_count` and `links`.
    Paged,
}

impl Envelope {
    /// The envelope for a query and a `User-Agent`: one SDK requires pages without asking for them in its query.
    pub(crate) fn choose(
        setting: pointsman_config::Envelope,
        query: &ModelQuery,
        user_agent: Option<&str>,
    ) -> Envelope {
        const PAGING_SDK: &str = "speakeasy-sdk/";
        let wants_pages = || query.page.is_some() || user_agent.is_some_and(|agent| agent.starts_with(PAGING_SDK));
        match setting {
            pointsman_config::Envelope::Bare => Envelope::Bare,
            pointsman_config::Envelope::Paged => Envelope::Paged,
            pointsman_config::Envelope::Auto if wants_pages() => Envelope::Paged,
            pointsman_config::Envelope::Auto => Envelope::Bare,
        }
    }
}

view! {
    /// The body of a list.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct ModelList<'a> {
        /// The list for `query` at `path`; `models` come from [`select`].
        pub(crate) fn new(
            models: &[ListedModel<'a>],
            catalog: &'a Catalog,
            query: &ModelQuery,
            envelope: Envelope,
            path: &str,
        ) {
            let page = query.page.map_or(models, |page| page.of(models));
            let next = query.page.and_then(|page| page.next(models.len()));
            let is_paged = envelope == Envelope::Paged;
        }

        /// Only below `/v1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::ListObject>"))]
        pub(crate) object: Option<&'static str> = None,
        /// Models, then aliases if `catalog.list_aliases` is on; in the order that `sort` asks for, else newest first.
        data: Vec<ModelEntry<'a>> = page.iter().map(|model| ModelEntry::new(model, &catalog.parameters)).collect(),
        /// Number of all models that pass; with `limit` or `offset`.
        #[serde(skip_serializing_if = "Option::is_none")]
        total_count: Option<usize> = is_paged.then_some(models.len()),
        /// With `limit` or `offset`.
        #[serde(skip_serializing_if = "Option::is_none")]
        links: Option<PageLinks> =
            is_paged.then(|| PageLinks { next: next.map(|page| page.link(path, &query.filters)) }),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct PageLinks {
    /// Address of the next page; `null` at the end.
    next: Option<String>,
}

impl Page {
    fn of<T>(self, all: &[T]) -> &[T] {
        let rest = all.get(self.offset..).unwrap_or_default();
        rest.get(..self.limit).unwrap_or(rest)
    }

    fn next(self, total: usize) -> Option<Page> {
        let offset = self.offset.saturating_add(self.limit);
        (offset < total).then_some(Page { offset, ..self })
    }

    fn link(self, path: &str, filters: &str) -> String {
        let separator = if filters.is_empty() { "" } else { "&" };
        format!("{path}?{filters}{separator}limit={}&offset={}", self.limit, self.offset)
    }
}

/// The models that match every filter of `query`, in its order.
pub(crate) fn select<'a>(
    mut models: Vec<ListedModel<'a>>,
    catalog: &Catalog,
    query: &ModelQuery,
    measurements: &Measurements,
) -> Vec<ListedModel<'a>> {
    models.retain(|model| query.matches(model, catalog));
    models.sort_by(|a, b| a.compare(b, query.sort, measurements).then_with(|| a.newest_first(b)));
    models
}

impl ModelQuery {
    fn matches(&self, model: &ListedModel<'_>, catalog: &Catalog) -> bool {
        let supports = |wanted: &String| catalog.parameters.names(model.parameters).any(|name| **name == **wanted);
        self.matches_output(model)
            && model.input.covers(self.input)
            && self.parameters.iter().all(supports)
            && (self.providers.is_empty() || model.providers(catalog).any(|provider| self.matches_provider(provider)))
            && self.search_terms.iter().all(|term| model.contains(term))
            && model.context_length >= self.min_context
            && self.max_price.is_none_or(|max| model.pricing().is_some_and(|pricing| pricing.prompt <= max))
    }

    fn matches_output(&self, model: &ListedModel<'_>) -> bool {
        match self.output {
            Outputs::Any => true,
            Outputs::OneOf(outputs) => model.output.meets(outputs),
        }
    }

    fn matches_provider(&self, provider: &Provider) -> bool {
        let name = provider.name.to_lowercase();
        self.providers.iter().any(|wanted| wanted == provider.slug.as_str() || *wanted == name)
    }
}

impl ListedModel<'_> {
    fn providers<'c>(&self, catalog: &'c Catalog) -> impl Iterator<Item = &'c Provider> {
        let endpoints = self.endpoints.iter().filter_map(|&position| catalog.endpoint(position));
        endpoints.filter_map(|endpoint| catalog.provider_of(endpoint))
    }

    fn contains(&self, term: &str) -> bool {
        [self.id, self.canonical_slug, self.name].iter().any(|text| text.to_lowercase().contains(term))
    }

    fn newest_first(&self, other: &ListedModel<'_>) -> Ordering {
        Reverse(self.created).cmp(&Reverse(other.created)).then_with(|| self.id.cmp(other.id))
    }

    fn compare(&self, other: &ListedModel<'_>, sort: Sort, measurements: &Measurements) -> Ordering {
        let throughput =
            |model: &ListedModel<'_>| model.best(measurements, |summary| Some(-summary.throughput_half_hour.p50?));
        let latency = |model: &ListedModel<'_>| model.best(measurements, |summary| summary.first_token_half_hour.p50);
        match sort {
            Sort::Newest => Ordering::Equal,
            Sort::PriceAscending => missing_last(self.price(), other.price(), Usd::cmp),
            Sort::PriceDescending => missing_last(self.price(), other.price(), |a, b| b.cmp(a)),
            Sort::ContextDescending => other.context_length.cmp(&self.context_length),
            Sort::ThroughputDescending => missing_last(throughput(self), throughput(other), f64::total_cmp),
            Sort::LatencyAscending => missing_last(latency(self), latency(other), f64::total_cmp),
        }
    }

    fn price(&self) -> Option<Usd> {
        self.pricing().map(|pricing| pricing.prompt + pricing.completion)
    }

    /// Smallest `figure` of the endpoints, if known.
    fn best(&self, measurements: &Measurements, figure: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        let endpoints = self.endpoints.iter().filter_map(|&position| measurements.summary(position));
        endpoints.filter_map(figure).min_by(f64::total_cmp)
    }
}

fn missing_last<T>(a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(&a, &b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::{
        models::listed_model::ListedKinds,
        samples::{catalog, measurements, today},
    };
    use pointsman_domain::Modalities;

    const TEXT: Outputs = Outputs::OneOf(Modalities::TEXT);

    fn list(query: &str, default: Outputs, envelope: Envelope) -> serde_json::Value {
        let catalog = catalog();
        let query = ModelQuery::parse(query, default).unwrap();
        let models = select(
            ListedModel::all(&catalog, today(), ListedKinds::Models),
            &catalog,
            &query,
            &Measurements::default(),
        );
        serde_json::to_value(ModelList::new(&models, &catalog, &query, envelope, "/api/v1/models")).unwrap()
    }

    fn ids(list: &serde_json::Value) -> Vec<String> {
        list["data"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    fn check(query: &str, expected: &[&str]) {
        assert_eq!(ids(&list(query, TEXT, Envelope::Bare)), expected, "{query}");
    }

    #[test]
    fn without_parameters_only_models_that_output_text_are_listed_newest_first() {
        check("", &["beta/free", "beta/medium", "acme/small"]);
    }

    #[test]
    fn with_any_output_as_the_default_all_models_are_listed() {
        let full = ids(&list("", Outputs::Any, Envelope::Bare));
        assert_eq!(full, ["beta/free", "beta/medium", "acme/paint", "acme/small", "beta/vectors"]);
        check("output_modalities=all", &["beta/free", "beta/medium", "acme/paint", "acme/small", "beta/vectors"]);
    }

    #[test]
    fn several_outputs_are_a_union() {
        check("output_modalities=text,image", &["beta/free", "beta/medium", "acme/paint", "acme/small"]);
        check("output_modalities=image", &["beta/medium", "acme/paint"]);
        check("output_modalities=audio", &[]);
    }

    #[test]
    fn parameters_must_all_be_listed_and_filters_intersect() {
        check("supported_parameters=tools", &["beta/medium", "acme/small"]);
        check("supported_parameters=tools,temperature", &["acme/small"]);
        // `stop` is supported by one endpoint, `tools` by the other; the model has both.
        check("supported_parameters=tools&supported_parameters=stop", &["acme/small"]);
        check("supported_parameters=tools&output_modalities=image", &["beta/medium"]);
        check("supported_parameters=nobody_has_this", &[]);
    }

    #[test]
    fn all_filters_restrict_the_list() {
        check("providers=acme", &["acme/small"]);
        check("providers=Beta%20Cloud", &["beta/free", "beta/medium", "acme/small"]);
        check("q=SMALL", &["acme/small"]);
        check("context=100000", &["acme/small"]);
        check("max_price=0.15", &["beta/free", "acme/small"]);
        check("input_modalities=image&output_modalities=all", &["acme/paint"]);
    }

    #[test]
    fn a_list_is_sorted_as_requested_and_equal_models_newest_first() {
        check("sort=pricing-low-to-high", &["beta/free", "acme/small", "beta/medium"]);
        check("sort=pricing-high-to-low", &["beta/medium", "acme/small", "beta/free"]);
        check("sort=context-high-to-low", &["acme/small", "beta/medium", "beta/free"]);
        check("sort=throughput-high-to-low", &["beta/free", "beta/medium", "acme/small"]);
    }

    #[test]
    fn models_without_measurements_come_last() {
        let catalog = catalog();
        // Both endpoints of acme/small, no measurement of acme/paint, then beta/medium.
        let measurements = measurements(&catalog, &[Some(0.9), Some(0.2), None, Some(0.5)]);
        for (sort, expected) in [
            ("latency-low-to-high", ["acme/small", "beta/medium", "beta/free"]),
            ("throughput-high-to-low", ["acme/small", "beta/medium", "beta/free"]),
        ] {
            let query = ModelQuery::parse(&format!("sort={sort}"), TEXT).unwrap();
            assert!(query.needs_measurements());
            let models =
                select(ListedModel::all(&catalog, today(), ListedKinds::Models), &catalog, &query, &measurements);
            assert_eq!(models.iter().map(|model| model.id).collect::<Vec<_>>(), expected, "{sort}");
        }
    }

    #[test]
    fn the_bare_envelope_has_one_field_and_the_paged_one_three() {
        let keys =
            |envelope| -> Vec<String> { list("", TEXT, envelope).as_object().unwrap().keys().cloned().collect() };
        assert_eq!(keys(Envelope::Bare), ["data"]);
        assert_eq!(keys(Envelope::Paged), ["data", "links", "total_count"]);
    }

    #[test]
    fn the_paged_envelope_is_for_paged_queries_and_the_sdk_that_requires_it() {
        let choose = |setting, query, agent| Envelope::choose(setting, &ModelQuery::parse(query, TEXT).unwrap(), agent);
        let sdk = Some("speakeasy-sdk/typescript 1.3.19 2.788.4 1.0.0 @openrouter/sdk");
        assert_eq!(choose(pointsman_config::Envelope::Auto, "q=small", None), Envelope::Bare);
        assert_eq!(
            choose(pointsman_config::Envelope::Auto, "", Some("OpenAI/Python 2.54.0 speakeasy-sdk/")),
            Envelope::Bare
        );
        assert_eq!(choose(pointsman_config::Envelope::Auto, "", sdk), Envelope::Paged);
        assert_eq!(choose(pointsman_config::Envelope::Auto, "limit=5", None), Envelope::Paged);
        assert_eq!(choose(pointsman_config::Envelope::Auto, "offset=0", None), Envelope::Paged);
        assert_eq!(choose(pointsman_config::Envelope::Bare, "limit=5", sdk), Envelope::Bare);
        assert_eq!(choose(pointsman_config::Envelope::Paged, "", None), Envelope::Paged);
    }

    #[test]
    fn without_a_limit_all_models_are_listed() {
        let list = list("", TEXT, Envelope::Paged);
        assert_eq!(list["data"].as_array().unwrap().len(), 3);
        assert_eq!(list["total_count"], 3);
        assert_eq!(list["links"], serde_json::json!({"next": null}));
    }

    #[test]
    fn a_page_links_to_the_next_and_the_last_does_not() {
        let first = list("output_modalities=all&limit=3", TEXT, Envelope::Paged);
        assert_eq!(first["links"]["next"], "/api/v1/models?output_modalities=all&limit=3&offset=3");
        assert_eq!(first["total_count"], 5);
        let second = list("output_modalities=all&limit=3&offset=3", TEXT, Envelope::Paged);
        assert_eq!(ids(&second), ["acme/small", "beta/vectors"]);
        assert!(second["links"]["next"].is_null());
    }

    #[test]
    fn a_page_past_the_end_is_empty() {
        for query in ["limit=2&offset=3", "offset=4000000000", "offset=9007199254740991&limit=1000"] {
            let list = list(query, TEXT, Envelope::Paged);
            assert_eq!(ids(&list), [""; 0], "{query}");
            assert!(list["links"]["next"].is_null());
            assert_eq!(list["total_count"], 3);
        }
    }

    proptest! {
        #[test]
        fn following_the_links_gives_every_model_once(
            limit in 1_usize..7,
            outputs in proptest::sample::subsequence(vec!["text", "image", "audio", "embeddings"], 0..4),
        ) {
            let filter = format!("output_modalities={}", outputs.join(","));
            let whole = ids(&list(&filter, TEXT, Envelope::Paged));
            let mut next = Some(format!("{filter}&limit={limit}"));
            let mut seen = Vec::new();
            while let Some(query) = next {
                let page = list(&query, TEXT, Envelope::Paged);
                prop_assert!(ids(&page).len() <= limit);
                seen.extend(ids(&page));
                prop_assert!(seen.len() <= whole.len());
                let link = page["links"]["next"].as_str().map(str::to_owned);
                next = link.map(|link| link.split_once('?').unwrap().1.to_owned());
            }
            prop_assert_eq!(seen, whole);
        }
    }
}
