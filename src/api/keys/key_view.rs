//! JSON of a key. SDKs require every member, so members without a meaning here have a fixed value: the gateway has no
//! customer-provided keys (BYOK).

use chrono::SecondsFormat;
use pointsman_config::Key;
use pointsman_domain::{ResetPeriod, SpendLimit};
use serde::Serialize;

use super::effective_limit::EffectiveLimitBody;
use crate::{
    access::budget::BudgetReading,
    api::{models::model_entry::Absent, number::Dollars},
};

view! {
    /// Permissions and spending of a key.
    pub(crate) struct KeyBody<'a> {
        /// The body of `key`; `is_admin` if the key has the scope `admin`.
        pub(crate) fn new(
            key: &'a Key,
            is_admin: bool,
            reading: &BudgetReading,
            effective_limit: Option<EffectiveLimitBody>,
        ) {}

        /// Name of the key.
        label: &'a str = &key.name,
        #[serde(flatten)]
        spending: SpendingBody = SpendingBody::new(reading.limit, reading),
        /// Always `false`.
        is_free_tier: bool = false,
        /// Whether the key has the scope `admin`.
        is_management_key: bool = is_admin,
        /// The same.
        is_provisioning_key: bool = is_admin,
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        creator_user_id: Absent = Absent,
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        organization_id: Absent = Absent,
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        workspace_id: Absent = Absent,
        /// Always `global` alone.
        allowed_data_regions: [&'static str; 1] = ["global"],
        free_model_daily_requests: FreeRequestsBody = FreeRequestsBody { limit: -1, remaining: -1, used: 0 },
        rate_limit: RateLimitBody = RateLimitBody {
            requests: key.requests_per_minute.map_or(-1, i64::from),
            interval: "1m",
            note: "Requests of this key; -1 means no limit.",
        },
        /// The limit on spending that the key meets first: its own, or that of its account or its team; `null` without any.
        effective_limit: Option<EffectiveLimitBody> = effective_limit,
        /// Always empty.
        budgets: [&'static str; 0] = [],
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        effective_budget: Absent = Absent,
        /// When the key ends; absent if it does not. RFC 3339, UTC.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<String> = key.expires_at.map(|end| end.to_rfc3339_opts(SecondsFormat::Secs, true)),
        /// What the key may do: call models, read records and figures, administer, rate answers.
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::Scope>"))]
        scopes: Vec<&'static str> = key.scopes.iter().map(|scope| scope.as_str()).collect(),
    }
}

view! {
    /// Spending of a key and its limit.
    pub(crate) struct SpendingBody {
        /// What is spent of `limit`.
        pub(crate) fn new(limit: Option<SpendLimit>, reading: &BudgetReading) {
            let BudgetReading { available, spent, .. } = *reading;
        }

        /// Spending limit in US dollars; `null` without one.
        limit: Option<Dollars> = limit.map(|limit| Dollars(limit.amount)),
        /// What is left of the limit in US dollars, never below 0: amounts reserved for running requests are not. `null`
        /// without a limit.
        limit_remaining: Option<Dollars> = available.map(Dollars),
        /// How often the limit starts again, at midnight UTC: every day, every Monday, or on the first of the month. `null`
        /// if never.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::ResetPeriod>"))]
        limit_reset: Option<&'static str> = limit.and_then(|limit| limit.reset).map(ResetPeriod::as_str),
        /// US dollars spent, ever; of attempts whose price is known.
        usage: Dollars = Dollars(spent.total),
        /// US dollars spent since midnight UTC; of attempts whose price is known.
        usage_daily: Dollars = Dollars(spent.day),
        /// US dollars spent since Monday, midnight UTC; of attempts whose price is known.
        usage_weekly: Dollars = Dollars(spent.week),
        /// US dollars spent since the first of the month, midnight UTC; of attempts whose price is known.
        usage_monthly: Dollars = Dollars(spent.month),
        /// Always 0: the gateway has no keys of customers at providers.
        byok_usage: u32 = 0,
        /// Always 0: the gateway has no keys of customers at providers.
        byok_usage_daily: u32 = 0,
        /// Always 0: the gateway has no keys of customers at providers.
        byok_usage_weekly: u32 = 0,
        /// Always 0: the gateway has no keys of customers at providers.
        byok_usage_monthly: u32 = 0,
        /// Always `false`: the gateway has no keys of customers at providers.
        include_byok_in_limit: bool = false,
    }
}

/// Free models have no daily limit: -1.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct FreeRequestsBody {
    /// Always -1: free models have no daily limit.
    limit: i32,
    /// Always -1.
    remaining: i32,
    /// Always 0.
    used: u32,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct RateLimitBody {
    /// Most requests of the key per `interval`; -1: no limit.
    requests: i64,
    /// Always `1m`, a minute.
    interval: &'static str,
    /// The same as a sentence.
    note: &'static str,
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use pointsman_domain::Spent;

    use super::*;
    use crate::{access::budget::Budget, base::error::BudgetHolder};

    #[test]
    fn a_key_has_every_member_that_sdks_require() {
        let key = Key {
            name: "team blue".into(),
            requests_per_minute: Some(60),
            expires_at: Some("2027-01-01T00:00:00Z".parse().unwrap()),
            ..Key::anonymous()
        };
        let cents = |count: u64| "0.01".parse::<pointsman_domain::Usd>().unwrap() * count;
        let spent = Spent { total: cents(4), day: cents(1), week: cents(2), month: cents(3) };
        let limit = Some(SpendLimit { amount: cents(10), reset: Some(ResetPeriod::Weekly) });
        let reading = BudgetReading { limit, available: Some(cents(8)), spent, reserved: cents(0) };
        let body = serde_json::to_string_pretty(&KeyBody::new(&key, false, &reading, None)).unwrap();
        expect![[r#"
            {
              "label": "team blue",
              "limit": 0.1,
              "limit_remaining": 0.08,
              "limit_reset": "weekly",
              "usage": 0.04,
              "usage_daily": 0.01,
              "usage_weekly": 0.02,
              "usage_monthly": 0.03,
              "byok_usage": 0,
              "byok_usage_daily": 0,
              "byok_usage_weekly": 0,
              "byok_usage_monthly": 0,
              "include_byok_in_limit": false,
              "is_free_tier": false,
              "is_management_key": false,
              "is_provisioning_key": false,
              "creator_user_id": null,
              "organization_id": null,
              "workspace_id": null,
              "allowed_data_regions": [
                "global"
              ],
              "free_model_daily_requests": {
                "limit": -1,
                "remaining": -1,
                "used": 0
              },
              "rate_limit": {
                "requests": 60,
                "interval": "1m",
                "note": "Requests of this key; -1 means no limit."
              },
              "effective_limit": null,
              "budgets": [],
              "effective_budget": null,
              "expires_at": "2027-01-01T00:00:00Z",
              "scopes": [
                "inference",
                "read"
              ]
            }"#]]
        .assert_eq(&body);
    }

    #[test]
    fn a_key_without_an_expiry_omits_expires_at() {
        let body =
            serde_json::to_value(KeyBody::new(&Key::anonymous(), true, &Budget::new(BudgetHolder::Key).read(0), None))
                .unwrap();
        assert!(body.get("expires_at").is_none());
        assert_eq!((&body["rate_limit"]["requests"], &body["is_management_key"]), (&(-1).into(), &true.into()));
    }
}
