//! Query parameters. An empty value counts as absent, as forms of browsers send it; only a call that deletes refuses it. If a
//! parameter is given twice, its last value applies. An unknown parameter is refused, and the error names the most similar known
//! one: if a misspelt filter were ignored, the list would hold more than was asked for. Only the lists of models ignore unknown parameters,
//! because clients add parameters of their own.

use std::ops::RangeInclusive;

use actix_web::web;
use pointsman_domain::{Invalid, InvalidReason, Usd, closest_name, listed_names};

use crate::base::error::ApiError;

/// The parameters of a query string that have a value.
pub(crate) struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    /// Reads the query string of a path that knows these parameters.
    ///
    /// # Errors
    /// As [`pairs`].
    pub(crate) fn read(query: &str, known: &[&'static str]) -> Result<QueryParameters, ApiError> {
        pairs(query, known).map(QueryParameters)
    }

    /// Reads the query string of a path that ignores parameters it does not know.
    ///
    /// # Errors
    /// 400 for a malformed query string.
    pub(crate) fn lenient(query: &str) -> Result<QueryParameters, ApiError> {
        written_pairs(query).map(with_values).map(QueryParameters)
    }

    /// The value of the last parameter of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The value of a parameter, without white space around it; `None` if nothing is left.
pub(crate) fn given(value: &str) -> Option<&str> {
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// The pairs of a query string that have a value.
///
/// # Errors
/// 400 for another parameter than `known`, with or without a value, and for a malformed query string.
pub(crate) fn pairs(query: &str, known: &[&'static str]) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = written_pairs(query)?;
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(unknown(name, known));
    }
    Ok(with_values(pairs))
}

fn with_values(pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    pairs.into_iter().filter_map(|(name, value)| Some((name, given(&value)?.to_owned()))).collect()
}

/// Refuses a query string in which a parameter has no value. For calls that delete: a filter that is missing by mistake would
/// widen them.
///
/// # Errors
/// 400 that names the parameter.
pub(crate) fn refuse_empty(query: &str) -> Result<(), ApiError> {
    match written_pairs(query)?.iter().find(|(_, value)| given(value).is_none()) {
        Some((name, _)) => {
            let message = format!("'{name}' is empty. Leave it out, or give it a value: this call deletes.");
            Err(ApiError::bad_query(name, message))
        }
        None => Ok(()),
    }
}

/// All pairs of a query string, decoded.
///
/// # Errors
/// 400 for a malformed query string.
pub(crate) fn written_pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = web::Query::<Vec<(String, String)>>::from_query(query);
    pairs.map(web::Query::into_inner).map_err(|_| ApiError::bad_query("query", "The query string is malformed."))
}

/// 400: no such parameter.
fn unknown(name: &str, known: &[&'static str]) -> ApiError {
    let meant =
        closest_name(name, known.iter().copied()).map_or_else(String::new, |meant| format!(" Did you mean '{meant}'?"));
    let listed = listed_names(name, known.iter().copied());
    let message = format!("Unknown parameter '{name}'.{meant} Allowed: {listed}.");
    ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, name, message).allowing(known.iter().copied()))
}

/// The largest whole number that every reader of JSON holds exactly.
pub(in crate::api) const LARGEST: i64 = 9_007_199_254_740_991;
/// Most dollars of a parameter.
pub(in crate::api) const MOST_DOLLARS: Usd = Usd::from_femto(1_000_000_000_000 * 1_000_000_000_000_000);

/// A whole number within a range.
///
/// # Errors
/// 400 that names the parameter and the range.
pub(in crate::api) fn integer(param: &str, value: &str, range: RangeInclusive<i64>) -> Result<i64, ApiError> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (min, max) = range.into_inner();
        let bounds = if max == LARGEST { format!("at least {min}") } else { format!("{min} to {max}") };
        ApiError::bad_query(param, format!("'{param}' must be an integer, {bounds}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parameter_is_refused_with_the_most_similar_known_one() {
        let known = ["generation_id", "id", "why_not"];
        let refusal = |query: &str| pairs(query, &known).err().map(|error| error.message().to_owned());
        assert_eq!(refusal(""), None);
        assert_eq!(refusal("id=gen-1&why_not=acme%2Fsmall&&generation_id="), None);
        let message = "Unknown parameter 'whynot'. Did you mean 'why_not'? Allowed: why_not, generation_id, id.";
        assert_eq!(refusal("id=gen-1&whynot=acme").as_deref(), Some(message));
        assert_eq!(refusal("id=gen-1&whynot=").as_deref(), Some(message));
        let message = "Unknown parameter 'colour'. Allowed: generation_id, id, why_not.";
        assert_eq!(refusal("colour=red").as_deref(), Some(message));
    }

    #[test]
    fn an_empty_value_counts_as_absent_and_the_last_of_several_applies() {
        let read = |query: &str| QueryParameters::read(query, &["id", "api"]).ok().unwrap();
        assert_eq!(read("id=a&id=b&api=+").get("id"), Some("b"));
        assert_eq!(read("id=a&id=").get("id"), Some("a"));
        assert_eq!(read("id=&api=%20").get("api"), None);
    }

    #[test]
    fn a_call_that_deletes_refuses_an_empty_value() {
        assert!(refuse_empty("owner=a&key=b").is_ok());
        let message = "'key' is empty. Leave it out, or give it a value: this call deletes.";
        assert_eq!(
            refuse_empty("owner=a&key=+").err().map(|error| error.message().to_owned()).as_deref(),
            Some(message)
        );
    }
}
