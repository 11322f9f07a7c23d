//! Refusals of the console's forms.

use std::time::Duration;

use super::{ApiError, class};

impl ApiError {
    /// 403: a form was sent by a page of another site, or by something that is not a browser.
    pub fn foreign_form() -> ApiError {
        let message = "This form was not sent by a page of this console. Open the console again and repeat the action.";
        class::FORBIDDEN.error("foreign_form", message)
    }

    /// 403: a form of another session.
    pub fn stale_form() -> ApiError {
        let message = "This form belongs to another session. Reload the page and repeat the action.";
        class::FORBIDDEN.error("stale_form", message)
    }

    /// 409: what a form changes was changed since its page was opened.
    pub fn changed_meanwhile() -> ApiError {
        let message = "It was changed after this page was opened, perhaps by sending this form twice. Nothing was done this time.";
        class::CONFLICT.error("changed_meanwhile", message)
    }

    /// 429: too many wrong logins to the console.
    pub fn too_many_logins(wait: Duration) -> ApiError {
        let message = "Too many logins failed. No key is checked for up to a minute.";
        class::LIMITED.error("console_logins", message).retry_after(wait)
    }
}
