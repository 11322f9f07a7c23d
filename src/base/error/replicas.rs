//! What a store that replicas share cannot answer.

use std::time::Duration;

use actix_web::http::StatusCode;

use super::{ApiError, Kind};

impl ApiError {
    /// 503: another replica may have the record, and PostgreSQL is away.
    #[must_use]
    pub fn records_away() -> ApiError {
        let message = "This replica has no record with this id. Another one may have it, but PostgreSQL, where replicas share \
                       their records, does not answer at the moment.";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Server, "server", message)
            .because("shared_records_unavailable")
            .retry_after(Duration::from_secs(2))
    }
}
