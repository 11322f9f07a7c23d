//! State that lives as long as the process: the gateway, its actors, reload, and data kept between requests.

#[deny(clippy::float_arithmetic)]
pub mod accounts;
pub mod alerts;
pub mod ask;
pub mod breaker_history;
pub mod canaries;
pub mod control;
pub mod diff_job;
pub mod drain;
pub mod feedback;
pub mod gateway;
pub mod images;
pub mod live;
pub mod quality_upkeep;
pub mod reasoning_seal_key;
pub mod refused_calls;
pub mod reload;
pub mod reload_status;
pub mod replicas;
pub mod request_history;
pub mod retry_budget;
pub mod routing_memory;
pub mod running;
pub mod series_restore;
pub mod setup;
pub mod shadows;
#[deny(clippy::float_arithmetic)]
pub mod spending_check;
pub mod traces;
pub mod waiting_requests;
pub mod watchdog;
