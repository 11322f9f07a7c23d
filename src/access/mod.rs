//! Authentication and admission: API keys, limits per key and account, budgets, load shedding.

pub mod admission;
pub mod analysis;
pub mod body_limits;
pub mod budget;
pub mod concurrency_limit;
pub mod holders;
pub mod issued;
pub mod key_state;
pub mod keys;
pub mod lease;
pub mod leasing;
pub mod load;
pub mod rate_limits;
pub mod registry;
