//! What a store that replicas share cannot answer.

use std::time::Duration;

use actix_web::http::StatusCode;

use super::{ApiError, BudgetHolder, Kind};

impl ApiError {
    /// 503: the part of a spending limit that this replica leased is used up, and it gets no further one at the moment.
    #[must_use]
    pub fn lease_used_up(holder: BudgetHolder) -> ApiError {
        let message = format!(
            "Replicas share the spending limit of {}, and this one has no part of it left. It gets a further part when Redis \
             answers and the other replicas leave one.",
            holder.of_whom()
        );
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Server, "server", message)
            .because("budget_lease_used_up")
            .retry_after(Duration::from_secs(1))
    }

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
