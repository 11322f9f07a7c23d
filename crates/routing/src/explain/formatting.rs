//! Names and numbers in the texts of explanations.

use pointsman_domain::{AttemptRecord, Candidate, Catalog, Decision, EndpointId, ScoreUnit};

/// The names of the endpoints of a decision. An endpoint that is no longer in the catalog is written as `?`.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    catalog: &'a Catalog,
    /// Whether the decision is about several models, so that the name of a provider is not enough.
    several_models: bool,
}

impl<'a> Names<'a> {
    pub(crate) fn new(decision: &Decision, catalog: &'a Catalog) -> Names<'a> {
        let several_models =
            decision.router.is_some() || decision.candidates.iter().any(|candidate| candidate.target > 0);
        Names { catalog, several_models }
    }

    /// The provider where the decision is about one model, else model and provider.
    pub(crate) fn short(self, index: u32, id: EndpointId) -> String {
        if self.several_models { self.full(index, id) } else { self.provider(index, id).to_owned() }
    }

    /// Model and provider.
    pub(crate) fn full(self, index: u32, id: EndpointId) -> String {
        full_name(self.catalog, index, id)
    }

    /// The endpoint of an attempt, in the form of [`Names::short`].
    pub(crate) fn tried(self, attempt: &AttemptRecord) -> String {
        if self.several_models { full_name_of(attempt) } else { attempt.provider_name.to_string() }
    }

    fn provider(self, index: u32, id: EndpointId) -> &'a str {
        provider(self.catalog, index, id)
    }
}

/// Model and provider of an endpoint.
pub(crate) fn full_name(catalog: &Catalog, index: u32, id: EndpointId) -> String {
    let endpoint = catalog.find(index, id);
    let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint)).map_or("?", |model| model.id.as_str());
    format!("{model} on {}", provider(catalog, index, id))
}

/// Model and provider of an attempt. The record holds both names, so a reload does not change them.
pub(crate) fn full_name_of(attempt: &AttemptRecord) -> String {
    format!("{} on {}", attempt.model, attempt.provider_name)
}

fn provider(catalog: &Catalog, index: u32, id: EndpointId) -> &str {
    let endpoint = catalog.find(index, id);
    endpoint.and_then(|endpoint| catalog.provider_of(endpoint)).map_or("?", |provider| &provider.name)
}

/// A score with the sign of its unit; the ratio of `balanced` has none.
pub(crate) fn score_text(score: f64, unit: ScoreUnit) -> String {
    match unit {
        ScoreUnit::Seconds => seconds(score),
        ScoreUnit::Usd => dollars(score),
        ScoreUnit::Probability => percent(score),
        ScoreUnit::None => significant(score, 3),
    }
}

pub(crate) fn seconds(value: f64) -> String {
    format!("{} s", significant(value, 2))
}

pub(crate) fn dollars(value: f64) -> String {
    format!("${}", significant(value, 3))
}

pub(crate) fn percent(probability: f64) -> String {
    format!("{} %", significant(100.0 * probability, if probability >= 0.1 { 3 } else { 2 }))
}

/// Plain decimal notation with this number of significant digits and no trailing zeros after the point.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() || value == 0.0 {
        return if value == 0.0 { "0".to_owned() } else { "?".to_owned() };
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    let decimals = usize::try_from(digits - 1 - magnitude).unwrap_or(0).min(15);
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// Whether quality counted in the score.
pub(crate) fn counts_quality(candidate: &Candidate) -> bool {
    candidate.terms.iter().any(|term| matches!(term.name, "quality" | "asked_again"))
}

/// What a score of `balanced` is a multiple of.
pub(crate) const fn unit_of_balance(counts_quality: bool) -> &'static str {
    if counts_quality { "times the medians" } else { "times the median time and cost" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_plain() {
        let cases = [
            (0.412, 2, "0.41"),
            (0.001_12, 3, "0.00112"),
            (0.000_004_8, 3, "0.0000048"),
            (380.4, 3, "380"),
            (12_345.0, 3, "12345"),
            (2.0, 2, "2"),
            (0.0, 2, "0"),
        ];
        for (value, digits, text) in cases {
            assert_eq!(significant(value, digits), text);
        }
    }
}
