//! Who may call and how much: keys, limits per key, load shedding.

pub mod admission;
pub mod analysis;
pub mod body_limits;
pub mod keys;
pub mod load;
