//! What is known about endpoints: how fast, how sound, how busy.
//!
//! Two halves that meet in a decision. *Slow* statistics ([`Statistics`]) are owned by one actor, fed with
//! [`Event`](crate::domain::Event)s and published as a [`Snapshot`]. *Fast* cells ([`LiveBoard`]) are shared
//! by all workers and changed at once: requests in flight, unanswered ones, breakers, cooldowns, pacing.
//!
//! Nothing here reads a clock, draws a number or waits; moments and seeds arrive as arguments. Transcendental
//! functions come from `libm`, so that the same numbers give the same bits on every platform. Which endpoint
//! is chosen from all this is decided in [`crate::decide`].

mod breaker;
mod calibration;
mod cell;
mod decay;
mod endpoint;
mod failures;
mod figures;
mod gate;
mod histogram;
mod latency;
mod lengths;
mod live;
mod mix;
mod pacing;
mod prior;
mod prompt;
mod quota;
mod ring;
mod sessions;
mod snapshot;
mod state;
mod statistics;
mod tail;
mod targets;
mod throughput;
mod uncertainty;
mod verdict;
mod view;
mod windows;

pub use breaker::{Breaker, Caller};
pub use calibration::{Accuracy, Calibration, Calibrations, CostAccuracy, EndpointCalibration, FailureAccuracy};
pub use failures::Outcomes;
pub use figures::{EndpointFigures, ErrorClass, ErrorCounts, Figures, LastError, Quantiles, Summary};
pub use gate::Gate;
pub use latency::{FirstToken, Fit};
pub use lengths::{ClassLengths, LengthClass, OutputLengths};
pub use live::{BreakerChange, Claim, LiveBoard, Move};
pub use mix::{mix, splitmix64};
pub use pacing::Pacing;
pub use prompt::PromptModel;
pub use quota::{Quota, QuotaReport, Remaining, TokensLeft};
pub use sessions::{Sessions, Speaker, Turn};
pub use snapshot::{Curve, EndpointStats, Estimates, Facts, Prices, Snapshot};
pub use state::{Absurd, Rejected, Restored, State, StateFault};
pub use statistics::Statistics;
pub use targets::{LatencyTargets, Tally, TargetReport, WINDOWS, Waited, Wish};
pub use throughput::Throughput;
pub use uncertainty::{Evidence, Uncertainty, UncertaintyModel};
pub use verdict::Verdict;
pub use view::{LiveEndpoint, LiveProvider, LiveView, Standing};
