//! Members that a call may set, as structs for the schemas alone: [`super::issued_key::set_members`] and the readers of accounts and
//! teams take them one by one, and say of each what is wrong. Compiled in tests only.

#![expect(dead_code, reason = "described, never made")]

use std::collections::BTreeMap;

use pointsman_config::Scope;
use schemars::JsonSchema;
use serde_json::Value;

use super::issued_key::{MAX_LIST, MAX_NAME, MAX_RATE, MAX_TEXT};
use crate::{api::models::parameters_view::QualityFloorBody, base::words};

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("examples" = [
    {"name": "team a"},
    {
        "name": "team b",
        "limit": 5,
        "limit_reset": "monthly",
        "scopes": ["inference"],
        "requests_per_minute": 60,
        "allowed_models": ["meadow/*"],
        "expires_at": null,
    },
]))]
pub(crate) struct NewKey {
    #[schemars(length(min = 1, max = MAX_NAME))]
    name: String,
    /// 1 to 128 visible characters. A key stays in its account.
    #[schemars(default, length(min = 1, max = MAX_NAME))]
    account: String,
    #[serde(flatten)]
    members: KeyMembers,
}

/// Members that are left out stay; null clears.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("examples" = [{"disabled": false}, {"limit": "0.50", "concurrency": 0}]))]
pub(crate) struct KeyChange {
    #[schemars(default, length(min = 1, max = MAX_NAME))]
    name: String,
    #[serde(flatten)]
    members: KeyMembers,
}

#[derive(JsonSchema, Default)]
#[schemars(default)]
struct KeyMembers {
    #[serde(flatten)]
    spending: SpendingMembers,
    #[serde(flatten)]
    rates: RateMembers,
    disabled: bool,
    #[schemars(with = "Vec<words::Scope>", length(min = 1))]
    scopes: Vec<Scope>,
    /// A time in the future such as `2027-12-31T12:00:00Z`, or a date.
    expires_at: Option<String>,
    /// Model ids, or patterns that end in `*`.
    #[schemars(length(max = MAX_LIST))]
    allowed_models: Option<Vec<Text>>,
    #[schemars(length(max = MAX_LIST))]
    blocked_models: Option<Vec<Text>>,
    #[schemars(length(max = MAX_LIST))]
    allowed_providers: Option<Vec<Text>>,
    #[schemars(length(max = MAX_LIST))]
    blocked_providers: Option<Vec<Text>>,
    objective: Option<words::Objective>,
    /// Class of the tasks of requests that name none: quality counts by it, where it does.
    task: Option<words::Task>,
    /// `false`: choices of the key are not drawn at random to learn from (`routing.explore`).
    explore: Option<bool>,
    /// Least quality of requests whose alias names none: of the mean, or of the lower tenth.
    min_quality: Option<QualityFloorBody>,
    /// What `min_quality` does with endpoints of unknown quality.
    quality_unknown: Option<words::UnknownQuality>,
    #[schemars(extend("maxProperties" = MAX_LIST))]
    aliases: Option<BTreeMap<String, Text>>,
    external_user: Option<Text>,
    /// Has no effect, as the next three.
    include_byok_in_limit: Value,
    workspace_id: Value,
    creator_user_id: Value,
    hash: Value,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Text(#[schemars(length(min = 1, max = MAX_TEXT))] String);

/// Members that are left out are cleared.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("examples" = [{"requests_per_minute": 60, "limit": "10"}]))]
pub(crate) struct AccountLimits {
    /// Of a team that exists.
    #[schemars(length(min = 1, max = MAX_NAME))]
    team: Option<String>,
    #[serde(flatten)]
    rates: RateMembers,
    #[serde(flatten)]
    spending: SpendingMembers,
}

/// Members that are left out are cleared.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("examples" = [{"limit": 100, "limit_reset": "weekly"}]))]
pub(crate) struct TeamLimits {
    #[serde(flatten)]
    spending: SpendingMembers,
}

#[derive(JsonSchema, Default)]
struct SpendingMembers {
    /// US dollars, as a number or a decimal string; null: no limit.
    limit: Option<Dollars>,
    /// Needs a `limit`.
    limit_reset: Option<words::ResetPeriod>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("type" = ["number", "string"]))]
struct Dollars(#[schemars(range(min = 0, max = 1_000_000_000_000_u64))] f64);

#[derive(JsonSchema, Default)]
struct RateMembers {
    requests_per_minute: Option<Rate>,
    tokens_per_minute: Option<Rate>,
    concurrency: Option<Rate>,
}

/// 0: no limit; null: the default of the configuration.
#[derive(JsonSchema)]
#[schemars(inline)]
struct Rate(#[schemars(range(max = MAX_RATE))] u64);
