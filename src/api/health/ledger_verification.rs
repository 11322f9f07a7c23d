//! What a verification of the ledger found, as JSON: for `/admin/ledger/verification` and the command line.

use pointsman_ledger::verify::Verification;
use serde::{Deserialize, Serialize};

use crate::state::spending_check::SpendingCheck;

view! {
    /// The answer.
    #[derive(Debug, Clone, Deserialize)]
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct VerificationBody {
        pub(crate) fn new(found: &Verification) {}

        /// Records that were read.
        pub(crate) records: u64 = found.entries,
        /// Groups that they are stored in, up to 32 records each.
        pub(crate) blocks: u64 = found.blocks,
        /// Versions of catalogs and policies that were read: records refer to them.
        pub(crate) versions: u64 = found.blobs,
        /// Slots of 15 minutes whose sums, those of the activity, were compared with their records.
        pub(crate) slots_compared: u64 = found.slots,
        /// Slots with sums that were not compared, because some of their records aged out, were deleted or cannot be read.
        pub(crate) slots_left_out: u64 = found.slots_left_out,
        /// Keys, accounts and teams whose spending, as their limits count it, was compared with the sums.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) spending_compared: Option<u64> = None,
        /// Number of all faults that were found.
        pub(crate) fault_count: u64 = found.fault_count,
        /// The first 100 of them, a sentence each.
        pub(crate) faults: Vec<String> = found.faults.clone(),
    }
}

impl VerificationBody {
    /// The same of a running gateway, whose spending limits were compared too.
    pub(crate) fn with_spending(found: &Verification, spending: SpendingCheck) -> VerificationBody {
        let mut body = VerificationBody::new(found);
        body.spending_compared = Some(spending.compared);
        body.fault_count += spending.faults.len() as u64;
        body.faults.extend(spending.faults);
        body
    }
}
