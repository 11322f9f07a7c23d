//! The query of the model list: which offers are wanted, in which order, which page of them.
//!
//! Filters narrow each other. Names that mean nothing here are ignored, because clients add their own;
//! a value that a known name cannot have is a 400 that names it. Choosing from a catalog is done in
//! [`super::model_list`].

use actix_web::web;
use pointsman_actors::domain::{Invalid, InvalidReason, Modalities, Modality, Usd};

use crate::base::error::ApiError;

/// Most models on one page.
const PAGE_LIMIT: usize = 1000;
/// Models on a page whose size was not said.
const PAGE_DEFAULT: usize = 500;
/// The outputs that can be filtered by.
const OUTPUTS: [Modality; 4] = [Modality::Text, Modality::Image, Modality::Audio, Modality::Embeddings];

/// A checked query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelQuery {
    pub(super) output: Outputs,
    /// A model must take all of these.
    pub(super) input: Modalities,
    /// A model must list all of these.
    pub(super) parameters: Vec<String>,
    /// A model must be served by one of these, lower case; empty means any.
    pub(super) providers: Vec<String>,
    /// Words of which each must be in the id or the name, lower case.
    pub(super) words: Vec<String>,
    /// Smallest context window, tokens.
    pub(super) context: u32,
    /// Highest price of a prompt token.
    pub(super) max_price: Option<Usd>,
    pub(super) sort: Sort,
    pub(super) page: Option<Page>,
    /// The query as it was written, without the page: links to further pages keep it.
    pub(super) filters: String,
}

/// Which outputs a model must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// Whatever it gives.
    Any,
    /// At least one of these.
    OneOf(Modalities),
}

/// The order of a list; models without the figure come last, equals newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sort {
    /// Added last, first.
    #[default]
    Newest,
    /// By the price of a prompt and a completion token together.
    PriceUp,
    /// The same, dearest first.
    PriceDown,
    /// Largest window first.
    ContextDown,
    /// Most tokens per second first, by the best endpoint.
    ThroughputDown,
    /// Shortest time to the first token first, by the best endpoint.
    LatencyUp,
}

impl Sort {
    const ALL: [(&'static str, Sort); 6] = [
        ("newest", Sort::Newest),
        ("pricing-low-to-high", Sort::PriceUp),
        ("pricing-high-to-low", Sort::PriceDown),
        ("context-high-to-low", Sort::ContextDown),
        ("throughput-high-to-low", Sort::ThroughputDown),
        ("latency-low-to-high", Sort::LatencyUp),
    ];
}

/// A cut of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// Models before it.
    pub(super) offset: usize,
    /// Most models on it.
    pub(super) limit: usize,
}

impl ModelQuery {
    /// Reads a query string. `default` applies when it names no output.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub(crate) fn parse(query: &str, default: Outputs) -> Result<ModelQuery, ApiError> {
        let mut reading = Reading::default();
        for piece in query.split('&').filter(|piece| !piece.is_empty()) {
            let pairs = web::Query::<Vec<(String, String)>>::from_query(piece)
                .map_err(|_| ApiError::bad_query("query", "The query string is malformed."))?;
            for (name, value) in pairs.into_inner() {
                reading.take(piece, &name, &value)?;
            }
        }
        Ok(reading.finish(default))
    }

    /// Whether the order depends on measurements.
    pub(crate) fn needs_readings(&self) -> bool {
        matches!(self.sort, Sort::ThroughputDown | Sort::LatencyUp)
    }
}

/// A query half read.
#[derive(Default)]
struct Reading {
    outputs: Modalities,
    any_output: bool,
    input: Modalities,
    parameters: Vec<String>,
    providers: Vec<String>,
    words: Vec<String>,
    context: u32,
    max_price: Option<Usd>,
    sort: Sort,
    limit: Option<usize>,
    offset: Option<usize>,
    filters: Vec<String>,
}

impl Reading {
    /// Takes one pair; `piece` is how it was written. Lists add up, of anything else the last counts.
    fn take(&mut self, piece: &str, name: &str, value: &str) -> Result<(), ApiError> {
        match name {
            "limit" => {
                self.limit = Some(count(name, value, 1, PAGE_LIMIT)?);
                return Ok(());
            }
            "offset" => {
                self.offset = Some(count(name, value, 0, usize::MAX)?);
                return Ok(());
            }
            "output_modalities" => self.take_outputs(value)?,
            "input_modalities" => self.take_inputs(value)?,
            "supported_parameters" => self.parameters.extend(list(value).map(str::to_owned)),
            "providers" => self.providers.extend(list(value).map(str::to_lowercase)),
            "q" => self.words.extend(value.split_whitespace().map(str::to_lowercase)),
            "context" => self.context = u32::try_from(count(name, value, 0, u32::MAX as usize)?).unwrap_or(u32::MAX),
            "max_price" => self.max_price = Some(per_million(name, value)?),
            "sort" => self.sort = sort(value)?,
            _ => {}
        }
        self.filters.push(piece.to_owned());
        Ok(())
    }

    fn take_outputs(&mut self, value: &str) -> Result<(), ApiError> {
        for name in list(value) {
            match known(name, &OUTPUTS) {
                Some(modality) => self.outputs = self.outputs.with(modality),
                None if name.eq_ignore_ascii_case("all") => self.any_output = true,
                None => return Err(unknown("output_modalities", name, modalities(&OUTPUTS))),
            }
        }
        Ok(())
    }

    fn take_inputs(&mut self, value: &str) -> Result<(), ApiError> {
        for name in list(value).filter(|name| !name.eq_ignore_ascii_case("all")) {
            let modality = known(name, &Modality::ALL)
                .ok_or_else(|| unknown("input_modalities", name, modalities(&Modality::ALL)))?;
            self.input = self.input.with(modality);
        }
        Ok(())
    }

    fn finish(self, default: Outputs) -> ModelQuery {
        let output = match (self.any_output, self.outputs.is_empty()) {
            (true, _) => Outputs::Any,
            (false, true) => default,
            (false, false) => Outputs::OneOf(self.outputs),
        };
        let paged = self.limit.is_some() || self.offset.is_some();
        let page = Page { offset: self.offset.unwrap_or(0), limit: self.limit.unwrap_or(PAGE_DEFAULT) };
        ModelQuery {
            output,
            input: self.input,
            parameters: self.parameters,
            providers: self.providers,
            words: self.words,
            context: self.context,
            max_price: self.max_price,
            sort: self.sort,
            page: paged.then_some(page),
            filters: self.filters.join("&"),
        }
    }
}

/// The members of a comma list.
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
    found.map(|(_, sort)| *sort).ok_or_else(|| unknown("sort", value, Sort::ALL.map(|(name, _)| name).to_vec()))
}

fn count(param: &str, value: &str, least: usize, most: usize) -> Result<usize, ApiError> {
    let number = value.trim().parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let bounds = if most == usize::MAX { format!("at least {least}") } else { format!("{least} to {most}") };
        ApiError::bad_query(param, format!("'{param}' must be an integer, {bounds}."))
    })
}

/// A price written in dollars per million tokens, as the price of one.
fn per_million(param: &str, value: &str) -> Result<Usd, ApiError> {
    const MILLION: i128 = 1_000_000;
    // As JavaScript writes numbers, an exponent included.
    let dollars = value.trim().parse().ok().and_then(Usd::from_f64).filter(|dollars| *dollars >= Usd::ZERO);
    dollars.map(|dollars| Usd::from_femto(dollars.femto() / MILLION)).ok_or_else(|| {
        ApiError::bad_query(param, format!("'{param}' must be US dollars per million tokens, such as 0.5."))
    })
}

fn unknown(param: &str, value: &str, allowed: Vec<&'static str>) -> ApiError {
    let message = format!("Unknown value '{value}' in '{param}'. Allowed: {}.", allowed.join(", "));
    ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, param, message).allowing(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Outputs = Outputs::OneOf(Modalities::TEXT);

    fn parse(query: &str) -> ModelQuery {
        ModelQuery::parse(query, TEXT).unwrap()
    }

    fn refused(query: &str, param: &str) {
        let error = ModelQuery::parse(query, TEXT).unwrap_err();
        let body = serde_json::to_value(error.message()).unwrap();
        assert_eq!(error.status().as_u16(), 400, "{query}");
        assert!(body.as_str().unwrap().contains(&format!("'{param}'")), "{query}: {body}");
    }

    #[test]
    fn nothing_asked_is_the_default() {
        for query in ["", "&", "output_modalities=", "output_modalities=,%20,", "whatever=1&Sort=x"] {
            let parsed = parse(query);
            assert_eq!((parsed.output, parsed.page, parsed.sort), (TEXT, None, Sort::Newest), "{query}");
        }
    }

    #[test]
    fn lists_are_split_decoded_trimmed_and_added_up() {
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
    fn all_anywhere_lifts_the_output_filter() {
        for query in
            ["output_modalities=all", "output_modalities=text,ALL", "output_modalities=image&output_modalities=all"]
        {
            assert_eq!(parse(query).output, Outputs::Any, "{query}");
        }
    }

    #[test]
    fn a_page_has_a_size_as_soon_as_either_bound_is_given() {
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
    fn a_value_that_a_name_cannot_have_is_a_400_that_names_it() {
        for (query, param) in [
            ("output_modalities=video", "output_modalities"),
            ("output_modalities=all,smell", "output_modalities"),
            ("input_modalities=smell", "input_modalities"),
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=", "limit"),
            ("limit=ten", "limit"),
            ("offset=-1", "offset"),
            ("offset=1.5", "offset"),
            ("sort=best", "sort"),
            ("context=-4", "context"),
            ("max_price=cheap", "max_price"),
            ("max_price=-1", "max_price"),
            ("max_price=NaN", "max_price"),
            ("max_price=inf", "max_price"),
        ] {
            refused(query, param);
        }
    }
}
