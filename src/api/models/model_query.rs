//! Query parameters of the model list: filters, order and page.
//!
//! A model must match all filters. Unknown parameters are ignored, because clients add their own; an invalid value of a
//! known one is a 400 that names it. [`super::model_list`] applies the query.

use std::ops::RangeInclusive;

use pointsman_dialect::shown;
use pointsman_domain::{Invalid, Modalities, Modality, Usd};

use crate::{
    api::query_parameters::{self, LARGEST, MOST_DOLLARS, integer},
    base::error::ApiError,
};

/// Largest page, in models.
const MAX_PAGE: i64 = 1000;
/// Default size of a page, in models.
const DEFAULT_PAGE: usize = 500;
/// Allowed values of `output_modalities`.
const OUTPUTS: [Modality; 4] = [Modality::Text, Modality::Image, Modality::Audio, Modality::Embeddings];

/// A validated query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelQuery {
    pub(in crate::api) output: Outputs,
    /// A model must accept all of these inputs.
    pub(in crate::api) input: Modalities,
    /// A model must support all of these parameters.
    pub(in crate::api) parameters: Vec<String>,
    /// A model must be served by one of these providers, lower case; empty means any.
    pub(in crate::api) providers: Vec<String>,
    /// Each term must occur in the id or the name, lower case.
    pub(in crate::api) search_terms: Vec<String>,
    /// Smallest context window, tokens.
    pub(in crate::api) min_context: u32,
    /// Highest price of a prompt token.
    pub(in crate::api) max_price: Option<Usd>,
    pub(in crate::api) sort: Sort,
    pub(in crate::api) page: Option<Page>,
    /// The query as written, without the page, for the links to further pages.
    pub(in crate::api) filters: String,
}

/// The outputs that a model must generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// Any output.
    Any,
    /// At least one of these.
    OneOf(Modalities),
}

/// The order of a list. Models without the sort key come last, equal ones newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sort {
    /// Newest first.
    #[default]
    Newest,
    /// Lowest sum of prompt and completion price first.
    PriceAscending,
    /// Highest sum of prompt and completion price first.
    PriceDescending,
    /// Largest context window first.
    ContextDescending,
    /// Highest throughput of the best endpoint first.
    ThroughputDescending,
    /// Shortest time to first token of the best endpoint first.
    LatencyAscending,
}

impl Sort {
    pub(crate) const ALL: [(&'static str, Sort); 6] = [
        ("newest", Sort::Newest),
        ("pricing-low-to-high", Sort::PriceAscending),
        ("pricing-high-to-low", Sort::PriceDescending),
        ("context-high-to-low", Sort::ContextDescending),
        ("throughput-high-to-low", Sort::ThroughputDescending),
        ("latency-low-to-high", Sort::LatencyAscending),
    ];
}

/// One page of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// Number of models before the page.
    pub(in crate::api) offset: usize,
    /// Most models on the page.
    pub(in crate::api) limit: usize,
}

impl ModelQuery {
    /// Parses a query string. `default` applies without `output_modalities`.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub(crate) fn parse(query: &str, default: Outputs) -> Result<ModelQuery, ApiError> {
        let mut builder = QueryBuilder::default();
        for piece in query.split('&').filter(|piece| !piece.is_empty()) {
            for (name, value) in query_parameters::written_pairs(piece)? {
                builder.add(piece, &name, query_parameters::given(&value))?;
            }
        }
        Ok(builder.build(default))
    }

    /// Whether the order depends on measurements.
    pub(crate) fn needs_measurements(&self) -> bool {
        matches!(self.sort, Sort::ThroughputDescending | Sort::LatencyAscending)
    }
}

/// Collects the parameters of a query.
#[derive(Default)]
struct QueryBuilder {
    outputs: Modalities,
    any_output: bool,
    input: Modalities,
    parameters: Vec<String>,
    providers: Vec<String>,
    search_terms: Vec<String>,
    min_context: u32,
    max_price: Option<Usd>,
    sort: Sort,
    limit: Option<usize>,
    offset: Option<usize>,
    filters: Vec<String>,
}

impl QueryBuilder {
    /// Adds one pair, written as `piece`. Lists accumulate; of other parameters the last one applies.
    fn add(&mut self, piece: &str, name: &str, value: Option<&str>) -> Result<(), ApiError> {
        if !matches!(name, "limit" | "offset") {
            self.filters.push(piece.to_owned());
        }
        let Some(value) = value else { return Ok(()) };
        match name {
            "limit" => self.limit = Some(size(name, value, 1..=MAX_PAGE)?),
            "offset" => self.offset = Some(size(name, value, 0..=LARGEST)?),
            "output_modalities" => self.add_outputs(value)?,
            "input_modalities" => self.add_inputs(value)?,
            "supported_parameters" => self.parameters.extend(list(value).map(str::to_owned)),
            "providers" => self.providers.extend(list(value).map(str::to_lowercase)),
            "q" => self.search_terms.extend(value.split_whitespace().map(str::to_lowercase)),
            "context" => {
                self.min_context = u32::try_from(integer(name, value, 0..=i64::from(u32::MAX))?).unwrap_or(u32::MAX)
            }
            "max_price" => self.max_price = Some(per_million(name, value)?),
            "sort" => self.sort = sort(value)?,
            _ => {}
        }
        Ok(())
    }

    fn add_outputs(&mut self, value: &str) -> Result<(), ApiError> {
        for name in list(value) {
            match known(name, &OUTPUTS) {
                Some(modality) => self.outputs = self.outputs.with(modality),
                None if name.eq_ignore_ascii_case("all") => self.any_output = true,
                None => return Err(unknown("output_modalities", name, &modalities(&OUTPUTS))),
            }
        }
        Ok(())
    }

    fn add_inputs(&mut self, value: &str) -> Result<(), ApiError> {
        for name in list(value).filter(|name| !name.eq_ignore_ascii_case("all")) {
            let modality = known(name, &Modality::ALL)
                .ok_or_else(|| unknown("input_modalities", name, &modalities(&Modality::ALL)))?;
            self.input = self.input.with(modality);
        }
        Ok(())
    }

    fn build(self, default: Outputs) -> ModelQuery {
        let output = match (self.any_output, self.outputs.is_empty()) {
            (true, _) => Outputs::Any,
            (false, true) => default,
            (false, false) => Outputs::OneOf(self.outputs),
        };
        let is_paged = self.limit.is_some() || self.offset.is_some();
        let page = Page { offset: self.offset.unwrap_or(0), limit: self.limit.unwrap_or(DEFAULT_PAGE) };
        ModelQuery {
            output,
            input: self.input,
            parameters: self.parameters,
            providers: self.providers,
            search_terms: self.search_terms,
            min_context: self.min_context,
            max_price: self.max_price,
            sort: self.sort,
            page: is_paged.then_some(page),
            filters: self.filters.join("&"),
        }
    }
}

/// The items of a comma-separated list.
fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|member| !member.is_empty())
}

fn known(name: &str, among: &[Modality]) -> Option<Modality> {
    among.iter().copied().find(|modality| modality.as_str().eq_ignore_ascii_case(name))
}

fn modalities(among: &[Modality]) -> Vec<&'static str> {
    among.iter().map(|modality| modality.as_str()).chain(["all"]).collect()
}

fn sort(value: &str) -> Result<Sort, ApiError> {
    let found = Sort::ALL.iter().find(|(name, _)| *name == value);
    found.map(|(_, sort)| *sort).ok_or_else(|| unknown("sort", value, &Sort::ALL.map(|(name, _)| name)))
}

fn size(param: &str, value: &str, range: RangeInclusive<i64>) -> Result<usize, ApiError> {
    integer(param, value, range).map(|size| usize::try_from(size).unwrap_or(usize::MAX))
}

/// Parses dollars per million tokens; returns the price of one token.
fn per_million(param: &str, value: &str) -> Result<Usd, ApiError> {
    const MILLION: i128 = 1_000_000;
    // Accepts an exponent, as JavaScript writes numbers.
    let dollars = Usd::from_number(value).filter(|dollars| (Usd::ZERO..=MOST_DOLLARS).contains(dollars));
    dollars.map(|dollars| Usd::from_femto(dollars.femto() / MILLION)).ok_or_else(|| {
        ApiError::bad_query(param, format!("'{param}' must be US dollars per million tokens, such as 0.5."))
    })
}

fn unknown(param: &str, value: &str, allowed: &[&str]) -> ApiError {
    ApiError::invalid(Invalid::none_of(param, &shown(value), allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Outputs = Outputs::OneOf(Modalities::TEXT);

    fn parse(query: &str) -> ModelQuery {
        ModelQuery::parse(query, TEXT).unwrap()
    }

    fn assert_refused(query: &str, param: &str) {
        let error = ModelQuery::parse(query, TEXT).unwrap_err();
        let body = serde_json::to_value(error.message()).unwrap();
        assert_eq!(error.status().as_u16(), 400, "{query}");
        assert!(body.as_str().unwrap().contains(&format!("'{param}'")), "{query}: {body}");
    }

    #[test]
    fn a_query_without_known_parameters_is_the_default() {
        for query in ["", "&", "output_modalities=,%20,", "whatever=1&Sort=x"] {
            let parsed = parse(query);
            assert_eq!((parsed.output, parsed.page, parsed.sort), (TEXT, None, Sort::Newest), "{query}");
        }
    }

    #[test]
    fn an_empty_value_counts_as_absent() {
        let names = ["output_modalities", "input_modalities", "supported_parameters", "providers", "q", "context"];
        for name in names.into_iter().chain(["max_price", "sort", "limit", "offset"]) {
            for value in ["", "=", "=+"] {
                let query = format!("{name}{value}");
                assert_eq!(ModelQuery { filters: String::new(), ..parse(&query) }, parse(""), "{query}");
            }
        }
    }

    #[test]
    fn lists_are_split_decoded_trimmed_and_joined() {
        let image = Modalities::TEXT.with(Modality::Image);
        for query in [
            "output_modalities=text,image",
            "output_modalities=+Image%2C%20TEXT,,",
            "output_modalities=text&output_modalities=image",
            "output%5Fmodalities=text%2cimage",
        ] {
            assert_eq!(parse(query).output, Outputs::OneOf(image), "{query}");
        }
        assert_eq!(
            parse("supported_parameters=tools, stop&supported_parameters=seed").parameters,
            ["tools", "stop", "seed"]
        );
        assert_eq!(parse("providers=Beta+Cloud,acme").providers, ["beta cloud", "acme"]);
    }

    #[test]
    fn all_in_any_position_disables_the_output_filter() {
        for query in
            ["output_modalities=all", "output_modalities=text,ALL", "output_modalities=image&output_modalities=all"]
        {
            assert_eq!(parse(query).output, Outputs::Any, "{query}");
        }
    }

    #[test]
    fn a_limit_or_an_offset_alone_selects_a_page() {
        assert_eq!(parse("limit=2").page, Some(Page { offset: 0, limit: 2 }));
        assert_eq!(parse("offset=3").page, Some(Page { offset: 3, limit: 500 }));
        assert_eq!(parse("limit=1000&offset=0").page, Some(Page { offset: 0, limit: 1000 }));
    }

    #[test]
    fn links_keep_the_filters_as_they_were_written_without_the_page() {
        let parsed = parse("q=a%20b&limit=2&output_modalities=all&offset=4&x");
        assert_eq!(parsed.filters, "q=a%20b&output_modalities=all&x");
    }

    #[test]
    fn prices_are_read_per_million_and_kept_per_token() {
        for (query, per_token) in [("0.15", "0.00000015"), ("15", "0.000015"), ("1e-3", "0.000000001"), ("0", "0")] {
            assert_eq!(parse(&format!("max_price={query}")).max_price, Some(per_token.parse().unwrap()), "{query}");
        }
    }

    #[test]
    fn an_invalid_value_is_a_400_that_names_the_parameter() {
        for (query, param) in [
            ("output_modalities=video", "output_modalities"),
            ("output_modalities=all,smell", "output_modalities"),
            ("input_modalities=smell", "input_modalities"),
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=ten", "limit"),
            ("offset=-1", "offset"),
            ("offset=1.5", "offset"),
            ("offset=9007199254740992", "offset"),
            ("max_price=1000000000001", "max_price"),
            ("sort=best", "sort"),
            ("context=-4", "context"),
            ("max_price=cheap", "max_price"),
            ("max_price=-1", "max_price"),
            ("max_price=NaN", "max_price"),
            ("max_price=inf", "max_price"),
        ] {
            assert_refused(query, param);
        }
    }
}
