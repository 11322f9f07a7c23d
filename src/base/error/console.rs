//! Refusals of the console's forms.

use std::time::Duration;

use actix_web::http::StatusCode;

use super::{ApiError, Kind, Retry};

impl ApiError {
    /// 403: a form was sent by a page of another site, or by something that is not a browser.
    #[must_use]
    pub fn foreign_form() -> ApiError {
        let message = "This form was not sent by a page of this console. Open the console again and repeat the action.";
        ApiError::new(StatusCode::FORBIDDEN, Kind::Permission, "permission_denied", message).because("foreign_form")
    }

    /// 403: a form of another session.
    #[must_use]
    pub fn stale_form() -> ApiError {
        let message = "This form belongs to another session. Reload the page and repeat the action.";
        ApiError::new(StatusCode::FORBIDDEN, Kind::Permission, "permission_denied", message).because("stale_form")
    }

    /// 409: what a form changes was changed since its page was opened.
    #[must_use]
    pub fn changed_meanwhile() -> ApiError {
        let message = "It was changed after this page was opened, perhaps by sending this form twice. Nothing was done this time.";
        ApiError::new(StatusCode::CONFLICT, Kind::InvalidRequest, "invalid_request", message)
            .because("changed_meanwhile")
    }

    /// 429: too many wrong logins to the console.
    #[must_use]
    pub fn too_many_logins(wait: Duration) -> ApiError {
        let message = "Too many logins failed. No key is checked for up to a minute.";
        let kind = Kind::RateLimit;
        let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, kind, "rate_limit_exceeded", message);
        error.0.retry = Retry::After(wait);
        error.because("console_logins")
    }
}
