//! Authentication and admission: API keys, limits per key and account, budgets, load shedding.

pub mod admission;
pub mod analysis;
pub mod body_limits;
#[deny(clippy::float_arithmetic)]
pub mod budget;
#[deny(clippy::float_arithmetic)]
pub mod cascade_budgets;
pub mod concurrency_limit;
#[deny(clippy::float_arithmetic)]
pub mod holders;
pub mod issued;
pub mod key_state;
pub mod keys;
#[deny(clippy::float_arithmetic)]
pub mod lease;
pub mod leasing;
pub mod load;
pub mod rate_limits;
pub mod registry;
