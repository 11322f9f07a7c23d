//! 404: no model, or no endpoint of it, can serve the request.

use super::{ApiError, Availability};

impl ApiError {
    /// 404: the model is unknown. `meant` lists similar names.
    pub fn unknown_model(param: &str, asked: &str, meant: &[String], fallbacks: Vec<String>) -> ApiError {
        let meant = match meant {
            [] => String::new(),
            _ => format!(" Did you mean '{}'?", meant.join("' or '")),
        };
        ApiError::missing_model(param, asked, &meant, fallbacks)
    }

    /// 404: no model has this name, but one of the catalogue that is off has nearly the same. `why` says what is missing.
    pub fn model_is_off(param: &str, asked: &str, known: &str, why: &str, fallbacks: Vec<String>) -> ApiError {
        let hint = format!(" '{known}' is known, but off ({why}). GET /api/v1/models lists what can be called.");
        ApiError::missing_model(param, asked, &hint, fallbacks)
    }

    fn missing_model(param: &str, asked: &str, hint: &str, fallbacks: Vec<String>) -> ApiError {
        ApiError::not_found("model_not_found", format!("Model '{asked}' does not exist.{hint}"))
            .with_param(param)
            .with_availability(Availability::model("model_not_found", asked, fallbacks))
    }

    /// 404: the model was retired on `date`.
    pub fn retired_model(param: &str, asked: &str, date: chrono::NaiveDate, fallbacks: Vec<String>) -> ApiError {
        ApiError::not_found("model_deprecated", format!("Model '{asked}' was retired on {date}."))
            .with_param(param)
            .with_availability(Availability::model("model_deprecated", asked, fallbacks))
    }

    /// 404: the filters excluded every candidate.
    pub fn no_candidates(message: String, availability: Availability) -> ApiError {
        ApiError::not_found("no_candidates", message).with_availability(availability)
    }
}
