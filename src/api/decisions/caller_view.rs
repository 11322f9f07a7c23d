//! JSON of who asked, and of what the client can name a generation by.

use pointsman_domain::Generation;
use serde::Serialize;

use crate::{access::keys::HolderNames, api::generations::generation_row::total_ms};

view! {
    /// The caller of a generation, and its duration.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct CallerBody<'a> {
        /// The caller of a generation, whose key and account have these `names`.
        pub(crate) fn new(generation: &'a Generation, names: &'a HolderNames) {}

        /// Name of the key that called; `null` if neither it nor another key of its account exists any more.
        pub(crate) key: Option<&'a str> = names.key.as_deref(),
        /// Name of the account that the call was charged to; `null` if it has no key any more.
        pub(crate) account: Option<&'a str> = names.account.as_deref(),
        /// Name of the team whose budget paid too; `null` without one.
        pub(crate) team: Option<&'a str> = generation.team.as_deref(),
        /// Id of the request, as in the header `x-request-id`.
        pub(crate) request_id: &'a str = &generation.request_id,
        /// The conversation that the client named as `session_id`; `null` without one.
        pub(crate) session_id: Option<&'a str> = generation.session_id.as_deref(),
        /// Milliseconds from the acceptance of the request to the end of its last attempt; `null` if there was none.
        pub(crate) total_ms: Option<u64> = total_ms(generation),
    }
}
