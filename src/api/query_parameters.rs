//! Names of query parameters. Paths that read their parameters here refuse an unknown one with the most similar known one: a
//! misspelt parameter that has no effect gives the answer to another question. Other paths ignore what they do not know;
//! clients add parameters of their own to lists of models.

use actix_web::web;
use pointsman_actors::domain::{Invalid, InvalidReason, closest_name};

use crate::base::error::ApiError;

/// The pairs of a query string that have a value. A known parameter without one counts as absent.
///
/// # Errors
/// 400 for another parameter than `known`, with or without a value, and for a malformed query string.
pub(crate) fn pairs(query: &str, known: &[&'static str]) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = web::Query::<Vec<(String, String)>>::from_query(query)
        .map_err(|_| ApiError::bad_query("query", "The query string is malformed."))?
        .into_inner();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(unknown(name, known));
    }
    let trimmed = pairs.into_iter().map(|(name, value)| (name, value.trim().to_owned()));
    Ok(trimmed.filter(|(_, value)| !value.is_empty()).collect())
}

/// Refuses a query string with other parameters than `known`.
///
/// # Errors
/// As [`pairs`].
pub(crate) fn only(query: &str, known: &[&'static str]) -> Result<(), ApiError> {
    pairs(query, known).map(drop)
}

/// 400: no such parameter.
fn unknown(name: &str, known: &[&'static str]) -> ApiError {
    let meant =
        closest_name(name, known.iter().copied()).map_or_else(String::new, |meant| format!(" Did you mean '{meant}'?"));
    let message = format!("Unknown parameter '{name}'.{meant} Allowed: {}.", known.join(", "));
    ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, name, message).allowing(known.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parameter_is_refused_with_the_most_similar_known_one() {
        let known = ["generation_id", "id", "why_not"];
        let refusal = |query: &str| only(query, &known).map_err(|error| error.message().to_owned());
        assert_eq!(refusal(""), Ok(()));
        assert_eq!(refusal("id=gen-1&why_not=acme%2Fsmall&&generation_id="), Ok(()));
        assert_eq!(pairs("id=+&why_not=acme", &known).map(|pairs| pairs.len()).ok(), Some(1));
        let message = "Unknown parameter 'whynot'. Did you mean 'why_not'? Allowed: generation_id, id, why_not.";
        assert_eq!(refusal("id=gen-1&whynot=acme"), Err(message.to_owned()));
        assert_eq!(refusal("id=gen-1&whynot="), Err(message.to_owned()));
        let message = "Unknown parameter 'colour'. Allowed: generation_id, id, why_not.";
        assert_eq!(refusal("colour=red"), Err(message.to_owned()));
    }
}
