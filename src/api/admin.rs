//! `/admin`: administration of a running gateway, on a separate listener, for keys with the scope `admin`.

pub(crate) mod accounts;
pub(crate) mod activity;
pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod breakers_view;
pub(crate) mod budget_notices;
pub(crate) mod config;
pub(crate) mod config_values;
pub(crate) mod diff;
pub(crate) mod diff_job;
pub(crate) mod generations;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod live;
pub(crate) mod promotion;
pub(crate) mod refused;
pub(crate) mod regret;
pub(crate) mod running;
pub(crate) mod series;
pub(crate) mod series_view;
pub(crate) mod status;
pub(crate) mod verdict;
pub(crate) mod verdict_view;
