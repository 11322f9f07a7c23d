use serde::{Deserialize, Serialize};

/// What each effort of reasoning becomes, in tokens, at models that take a budget instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffortBudgets {
    /// `minimal`
    pub minimal: u32,
    /// `low`
    pub low: u32,
    /// `medium`
    pub medium: u32,
    /// `high`
    pub high: u32,
    /// `xhigh`
    pub xhigh: u32,
    /// `max`
    pub max: u32,
}

impl EffortBudgets {
    /// Unless the configuration says others.
    pub const STANDARD: EffortBudgets =
        EffortBudgets { minimal: 1_024, low: 2_048, medium: 8_192, high: 16_384, xhigh: 32_768, max: 63_999 };
}

impl Default for EffortBudgets {
    fn default() -> EffortBudgets {
        EffortBudgets::STANDARD
    }
}
