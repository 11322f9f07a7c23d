//! Changes of keys and accounts that were not made, and records that another replica may have.

use std::time::Duration;

use pointsman_domain::{Invalid, InvalidReason};

use super::{ApiError, class};

/// `retry-after` while the disk refuses.
const DISK_WAIT: Duration = Duration::from_secs(5);

impl ApiError {
    /// 404: keys and accounts cannot be kept, because records are in memory only.
    pub fn no_durable_keys() -> ApiError {
        ApiError::not_found(
            "no_durable_ledger",
            "This gateway keeps records in memory only, so an issued key would not survive a restart. Its operator can store \
             keys with ledger.data_dir and ledger.durability = \"group\".",
        )
    }

    /// 409: another comparison or review of recorded decisions runs.
    pub fn diff_runs() -> ApiError {
        let message = "Another comparison or review runs: wait for its end, or cancel it with DELETE /api/v1/admin/diff/{diff} or \
                       /api/v1/admin/regret/{regret}.";
        class::CONFLICT.error("diff_runs", message)
    }

    /// 404: no comparison or review has this id, or a later one has begun.
    pub fn no_diff(id: &str) -> ApiError {
        ApiError::not_found(
            "unknown_diff",
            format!("There is nothing with the id '{id}': only the last comparison or review is kept."),
        )
    }

    /// 400: the body is no JSON object.
    pub fn not_an_object() -> ApiError {
        ApiError::invalid(Invalid::body(InvalidReason::InvalidType, "The request body must be a JSON object."))
    }

    /// 503: the disk refused a change. `in_effect` if it holds all the same until the process ends.
    pub fn unstored_change(in_effect: bool) -> ApiError {
        let message = if in_effect {
            "It is refused from now on, but the disk did not store that: it would be accepted again after a restart. \
             Repeat the call when the disk has room."
        } else {
            "The disk did not store the change, so it was not made. Repeat the call when the disk has room."
        };
        class::UNAVAILABLE
            .error(if in_effect { "disabled_until_restart" } else { "not_stored" }, message)
            .retry_after(DISK_WAIT)
    }

    /// 503: another replica may have the record, and PostgreSQL is away.
    pub fn records_away() -> ApiError {
        let message = "This replica has no record with this id. Another one may have it, but PostgreSQL, where replicas share \
                       their records, does not answer at the moment.";
        class::UNAVAILABLE.error("shared_records_unavailable", message).retry_after(Duration::from_secs(2))
    }

    /// 503: the database of the ledger is closed for a moment.
    pub fn ledger_closed() -> ApiError {
        let message = "The ledger cannot be read at the moment: its file is being compacted or opened, or its disk fails. Ask again.";
        class::UNAVAILABLE.error("ledger_unavailable", message).retry_after(Duration::from_secs(2))
    }

    /// 503: a replica of a later version wrote the record.
    pub fn record_of_later_version() -> ApiError {
        let message = "A later version of Pointsman wrote this record. A replica of that version can show it; this one can once \
                       it is upgraded.";
        class::UNAVAILABLE.error("record_of_later_version", message).retry_after(Duration::from_secs(60))
    }
}
