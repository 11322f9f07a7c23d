//! Models learned from observations: latency, prompt effect, pace, failures, output lengths.

pub(crate) mod decay;
pub(crate) mod estimates;
pub(crate) mod failure_effect;
pub(crate) mod failures;
pub(crate) mod latency;
pub(crate) mod lengths;
pub(crate) mod pace;
pub(crate) mod prior;
pub(crate) mod prompt;
pub(crate) mod prompt_scale;
pub(crate) mod saved;
pub(crate) mod siblings;
pub(crate) mod tail;
