//! What the gateway knows of itself and its providers, as JSON and as metrics.

pub mod calibration;
pub(crate) mod calibration_metrics;
pub(crate) mod calibration_view;
pub mod gateway_health;
pub(crate) mod health_view;
pub(crate) mod ledger_health;
pub(crate) mod ledger_verification;
#[expect(clippy::disallowed_methods, reason = "a gauge of Prometheus is a float")]
pub mod metrics;
pub mod providers;
pub(crate) mod providers_view;
pub mod quality;
pub(crate) mod readiness;
pub mod routing_memory;
pub mod shadows;
pub mod slo;
pub(crate) mod slo_metrics;
pub(crate) mod spend_pace;
pub mod splits;
pub mod stats;
pub(crate) mod stores_health;
