//! Keys and what they may spend.

#[deny(clippy::float_arithmetic)]
pub(crate) mod effective_limit;
#[deny(clippy::float_arithmetic)]
pub(crate) mod issued_key;
pub(crate) mod issued_keys;
#[cfg(test)]
pub(crate) mod key_members;
pub(crate) mod key_view;
pub mod own_key;
