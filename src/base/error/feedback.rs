//! Ratings of answers that are not recorded.

use std::time::Duration;

use pointsman_ledger::{fault::Fault, ratings::MOST_RATINGS};

use super::{ApiError, class};

/// `retry-after` while the disk refuses.
const DISK_WAIT: Duration = Duration::from_secs(5);

impl ApiError {
    /// 404: ratings cannot be kept, because records are in memory only.
    pub fn no_durable_ratings() -> ApiError {
        ApiError::not_found(
            "no_durable_ledger",
            "This gateway keeps records in memory only, and ratings of answers with them. Its operator can store both with \
             ledger.data_dir and ledger.durability = \"group\".",
        )
    }

    /// 409: the answer that is rated has not ended.
    pub fn rated_while_running() -> ApiError {
        let message = "This generation is still running. Rate it when its answer has ended.";
        class::CONFLICT.error("generation_running", message)
    }

    /// 410: the answer is too old to be rated, or its record is gone.
    pub fn rated_too_late() -> ApiError {
        let message =
            "An answer can be rated for seven days, and for as long as the ledger has its record. This one is older.";
        class::GONE.error("feedback_too_late", message)
    }

    /// 429: the answer has as many ratings as are kept.
    pub fn too_many_ratings() -> ApiError {
        let message = format!(
            "This answer was rated {MOST_RATINGS} times, changed and withdrawn ratings included. No more are kept; the last ones hold."
        );
        class::LIMITED.error("too_many_ratings", message).never_again()
    }

    /// 503: the disk did not take a rating.
    pub fn unstored_rating(fault: Fault) -> ApiError {
        log::warn!("a rating cannot be stored: {fault}");
        let message =
            "The disk did not store the rating, so it does not count. Repeat the call when the disk has room.";
        class::UNAVAILABLE.error("not_stored", message).retry_after(DISK_WAIT)
    }
}
