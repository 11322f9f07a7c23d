//! The simulator: Pointsman's routing in virtual time, against a clairvoyant oracle and the common rules.
//!
//! Everything is drawn from a seed: eight synthetic endpoints ([`world`]), what happens to them ([`scenario`]), what is
//! asked ([`request`]). The [`engine`] runs a [`rule`] through it without sockets or waiting; [`rules`] holds
//! Pointsman's own core, unchanged, beside the anchors and the rules of the field. [`loss`] says what a run cost,
//! [`figures`] what else is told of it, [`table`] compares and [`one`] shows a single run over time.
//!
//! Regret is normalised: (loss − oracle) ÷ (random − oracle), so that 0 is the oracle and 1 is uniform random.
//!
//! The routing is tuned on [`TUNING_SEEDS`] alone; figures that are published come from [`HELD_OUT_SEEDS`].

#![expect(clippy::indexing_slicing, reason = "positions of eight endpoints and of requests, all counted out here")]

pub mod ablation;
pub mod bucket;
pub mod columns;
pub mod compare;
pub mod dice;
pub mod engine;
pub mod figures;
pub mod goals;
pub mod improvement;
pub mod latency;
pub mod ledger;
pub mod loss;
pub mod measured;
pub mod one;
pub mod ope;
pub mod oracle;
pub mod plot;
pub mod propensities;
#[expect(clippy::disallowed_methods, reason = "costs of the sets are floats")]
pub mod quality;
pub mod regret;
pub mod replay;
pub mod report;
pub mod request;
pub mod rule;
pub mod rules;
pub mod scenario;
pub mod sheet;
pub mod sheets;
pub mod shift;
pub mod shown;
pub mod sockets;
pub mod sticky;
pub mod table;
pub mod traffic;
pub mod world;

/// Seeds to try things on.
pub const TUNING_SEEDS: std::ops::Range<u64> = 1..1000;
/// Seeds that nothing was tuned on.
pub const HELD_OUT_SEEDS: std::ops::Range<u64> = 5000..6000;
