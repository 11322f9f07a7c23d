//! Authentication and admission: API keys, limits per key, load shedding.

pub mod admission;
pub mod analysis;
pub mod body_limits;
pub mod keys;
pub mod load;
