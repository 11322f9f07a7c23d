//! The answer to a [`ModelQuery`]: choosing among offers, ordering them, cutting a page, wrapping it.

use std::cmp::{Ordering, Reverse};

use pointsman_actors::{
    domain::{Catalog, Provider, Usd},
    stats::Summary,
};
use serde::Serialize;

use super::{
    model_entry::ModelEntry,
    model_query::{ModelQuery, Outputs, Page, Sort},
    offer::Offer,
    readings::Readings,
};
use crate::config;

/// What stands around the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// `data` alone.
    Bare,
    /// `data`, `total_count` and `links`.
    Paged,
}

impl Envelope {
    /// What a client gets that asks `query` and calls itself `agent`: one SDK that insists on pages sends
    /// no query of its own and is known by its name alone.
    pub(crate) fn choose(setting: config::Envelope, query: &ModelQuery, agent: Option<&str>) -> Envelope {
        const PAGING_SDK: &str = "speakeasy-sdk/";
        let wants_pages = || query.page.is_some() || agent.is_some_and(|agent| agent.starts_with(PAGING_SDK));
        match setting {
            config::Envelope::Bare => Envelope::Bare,
            config::Envelope::Paged => Envelope::Paged,
            config::Envelope::Auto if wants_pages() => Envelope::Paged,
            config::Envelope::Auto => Envelope::Bare,
        }
    }
}

/// The body of a list.
#[derive(Serialize)]
pub(crate) struct ModelList<'a> {
    data: Vec<ModelEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<PageLinks>,
}

#[derive(Serialize)]
struct PageLinks {
    next: Option<String>,
}

impl<'a> ModelList<'a> {
    /// The list that `query` asked for at `path`; `offers` are what [`select`] left.
    pub(crate) fn new(
        offers: &[Offer<'a>],
        catalog: &'a Catalog,
        query: &ModelQuery,
        envelope: Envelope,
        path: &str,
    ) -> ModelList<'a> {
        let page = query.page.map_or(offers, |page| page.of(offers));
        let next = query.page.and_then(|page| page.next(offers.len()));
        let paged = envelope == Envelope::Paged;
        ModelList {
            data: page.iter().map(|offer| ModelEntry::new(offer, &catalog.parameters)).collect(),
            total_count: paged.then_some(offers.len()),
            links: paged.then(|| PageLinks { next: next.map(|page| page.link(path, &query.filters)) }),
        }
    }
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

/// The offers that satisfy every filter of `query`, in its order.
pub(crate) fn select<'a>(
    mut offers: Vec<Offer<'a>>,
    catalog: &Catalog,
    query: &ModelQuery,
    readings: &Readings,
) -> Vec<Offer<'a>> {
    offers.retain(|offer| query.wants(offer, catalog));
    offers.sort_by(|a, b| a.compare(b, query.sort, readings).then_with(|| a.newest_first(b)));
    offers
}

impl ModelQuery {
    fn wants(&self, offer: &Offer<'_>, catalog: &Catalog) -> bool {
        let lists = |wanted: &String| catalog.parameters.names(offer.parameters).any(|name| **name == **wanted);
        self.wants_output(offer)
            && offer.input.covers(self.input)
            && self.parameters.iter().all(lists)
            && (self.providers.is_empty() || offer.providers(catalog).any(|provider| self.names(provider)))
            && self.words.iter().all(|word| offer.mentions(word))
            && offer.context_length >= self.context
            && self.max_price.is_none_or(|most| offer.pricing().is_some_and(|pricing| pricing.prompt <= most))
    }

    fn wants_output(&self, offer: &Offer<'_>) -> bool {
        match self.output {
            Outputs::Any => true,
            Outputs::OneOf(outputs) => offer.output.meets(outputs),
        }
    }

    fn names(&self, provider: &Provider) -> bool {
        let name = provider.name.to_lowercase();
        self.providers.iter().any(|wanted| wanted == provider.slug.as_str() || *wanted == name)
    }
}

impl Offer<'_> {
    fn providers<'c>(&self, catalog: &'c Catalog) -> impl Iterator<Item = &'c Provider> {
        let endpoints = self.endpoints.iter().filter_map(|&position| catalog.endpoint(position));
        endpoints.filter_map(|endpoint| catalog.provider_of(endpoint))
    }

    fn mentions(&self, word: &str) -> bool {
        [self.id, self.canonical_slug, self.name].iter().any(|text| text.to_lowercase().contains(word))
    }

    fn newest_first(&self, other: &Offer<'_>) -> Ordering {
        Reverse(self.created).cmp(&Reverse(other.created)).then_with(|| self.id.cmp(other.id))
    }

    fn compare(&self, other: &Offer<'_>, sort: Sort, readings: &Readings) -> Ordering {
        let throughput = |offer: &Offer<'_>| offer.best(readings, |summary| Some(-summary.throughput_half_hour.p50?));
        let latency = |offer: &Offer<'_>| offer.best(readings, |summary| summary.first_token_half_hour.p50);
        match sort {
            Sort::Newest => Ordering::Equal,
            Sort::PriceUp => missing_last(self.price(), other.price(), Usd::cmp),
            Sort::PriceDown => missing_last(self.price(), other.price(), |a, b| b.cmp(a)),
            Sort::ContextDown => other.context_length.cmp(&self.context_length),
            Sort::ThroughputDown => missing_last(throughput(self), throughput(other), f64::total_cmp),
            Sort::LatencyUp => missing_last(latency(self), latency(other), f64::total_cmp),
        }
    }

    fn price(&self) -> Option<Usd> {
        self.pricing().map(|pricing| pricing.prompt + pricing.completion)
    }

    /// The least `figure` among the endpoints that have one.
    fn best(&self, readings: &Readings, figure: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        let endpoints = self.endpoints.iter().filter_map(|&position| readings.summary(position));
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
        offer::Names,
        samples::{catalog, readings, today},
    };
    use pointsman_actors::domain::Modalities;

    const TEXT: Outputs = Outputs::OneOf(Modalities::TEXT);

    fn list(query: &str, default: Outputs, envelope: Envelope) -> serde_json::Value {
        let catalog = catalog();
        let query = ModelQuery::parse(query, default).unwrap();
        let offers = select(Offer::all(&catalog, today(), Names::Models), &catalog, &query, &Readings::default());
        serde_json::to_value(ModelList::new(&offers, &catalog, &query, envelope, "/api/v1/models")).unwrap()
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
    fn where_the_default_is_everything_the_full_list_is_given() {
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
        // The stop of one endpoint and the tools of another: the model lists both.
        check("supported_parameters=tools&supported_parameters=stop", &["acme/small"]);
        check("supported_parameters=tools&output_modalities=image", &["beta/medium"]);
        check("supported_parameters=nobody_has_this", &[]);
    }

    #[test]
    fn further_filters_narrow_too() {
        check("providers=acme", &["acme/small"]);
        check("providers=Beta%20Cloud", &["beta/free", "beta/medium", "acme/small"]);
        check("q=SMALL", &["acme/small"]);
        check("context=100000", &["acme/small"]);
        check("max_price=0.15", &["beta/free", "acme/small"]);
        check("input_modalities=image&output_modalities=all", &["acme/paint"]);
    }

    #[test]
    fn sorting_puts_the_asked_order_first_and_equals_newest_first() {
        check("sort=pricing-low-to-high", &["beta/free", "acme/small", "beta/medium"]);
        check("sort=pricing-high-to-low", &["beta/medium", "acme/small", "beta/free"]);
        check("sort=context-high-to-low", &["acme/small", "beta/medium", "beta/free"]);
        check("sort=throughput-high-to-low", &["beta/free", "beta/medium", "acme/small"]);
    }

    #[test]
    fn models_without_measurements_come_last() {
        let catalog = catalog();
        // acme/small at its two endpoints, then nothing for acme/paint, then beta/medium.
        let readings = readings(&catalog, &[Some(0.9), Some(0.2), None, Some(0.5)]);
        for (sort, expected) in [
            ("latency-low-to-high", ["acme/small", "beta/medium", "beta/free"]),
            ("throughput-high-to-low", ["acme/small", "beta/medium", "beta/free"]),
        ] {
            let query = ModelQuery::parse(&format!("sort={sort}"), TEXT).unwrap();
            assert!(query.needs_readings());
            let offers = select(Offer::all(&catalog, today(), Names::Models), &catalog, &query, &readings);
            assert_eq!(offers.iter().map(|offer| offer.id).collect::<Vec<_>>(), expected, "{sort}");
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
    fn pages_are_for_who_asks_for_one_and_for_the_sdk_that_insists() {
        let choose = |setting, query, agent| Envelope::choose(setting, &ModelQuery::parse(query, TEXT).unwrap(), agent);
        let sdk = Some("speakeasy-sdk/typescript 1.3.19 2.788.4 1.0.0 @openrouter/sdk");
        assert_eq!(choose(config::Envelope::Auto, "q=small", None), Envelope::Bare);
        assert_eq!(choose(config::Envelope::Auto, "", Some("OpenAI/Python 2.54.0 speakeasy-sdk/")), Envelope::Bare);
        assert_eq!(choose(config::Envelope::Auto, "", sdk), Envelope::Paged);
        assert_eq!(choose(config::Envelope::Auto, "limit=5", None), Envelope::Paged);
        assert_eq!(choose(config::Envelope::Auto, "offset=0", None), Envelope::Paged);
        assert_eq!(choose(config::Envelope::Bare, "limit=5", sdk), Envelope::Bare);
        assert_eq!(choose(config::Envelope::Paged, "", None), Envelope::Paged);
    }

    #[test]
    fn no_page_is_cut_without_a_limit() {
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
    fn past_the_end_there_is_an_empty_page() {
        for query in ["limit=2&offset=3", "offset=4000000000", "offset=18446744073709551615&limit=1000"] {
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
