//! `/admin`: what operators do to a running gateway. Served by a listener of its own, to keys with the scope `admin`.

pub(crate) mod config;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod status;
