//! Recorded decisions, made again under another configuration: what would have been chosen, and what the change costs.
//!
//! [`Comparison`] holds two configurations for the decisions of one catalog and one policy. It makes each decision again from
//! its record with the code that serves (`remake`), first under its own configuration (the self test), then under the other,
//! and says how far the record answers it ([`Grade`]). [`Calibration`] corrects predictions by what was measured, [`Tally`] sums
//! up, [`Estimate`] is what it says. `changes` names what differs, `mixture` makes configurations in between to find out which
//! of it moved a decision.
//!
//! A [`Shadow`] is the other configuration while the first one serves: it decides the same request at the same moment, and
//! [`ShadowTally`] sums up.
//!
//! Keys that work over time change what is known, not how it is decided: [`OpenLoop`] runs the recorded attempts through statistics
//! and breakers with other constants. [`LoadSample`] models what moved requests do to the endpoints that get them.
//!
//! What would have happened is not known here: another choice leads to other observations, which no record holds.

mod bootstrap;
mod calibration;
mod changes;
mod comparison;
mod estimate;
mod histogram;
mod load;
mod mixture;
mod open_loop;
mod pool;
mod possible_costs;
mod remake;
mod restriction;
mod setup;
mod shadow;
mod shadow_tally;
mod side;
mod tally;
#[expect(clippy::disallowed_methods, reason = "predictions are floats, and what is compared with them")]
pub(crate) mod units;

pub(crate) use bootstrap::weighted_quantiles;
pub use calibration::Calibration;
pub use changes::{Answerable, Change};
pub(crate) use comparison::{Choice, Choices};
pub use comparison::{Comparison, Figures, MOST_CHANGES, Redecided, SelfTest};
pub use estimate::{Estimate, LEAST_CLUSTERS, Metric};
pub use load::{Load, LoadAdjusted, LoadSample};
pub use open_loop::{Admitted, Nearness, OpenLoop};
pub use remake::Grade;
pub(in crate::explain) use remake::{Planned, Possible};
pub use restriction::Restriction;
pub(in crate::explain) use setup::Setup;
pub use shadow::{Asked, Shadow, Watched};
pub use shadow_tally::{Predicted, ShadowMove, ShadowTally};
pub use side::Side;
pub use tally::{Example, Moved, Tally};
