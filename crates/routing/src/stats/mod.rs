//! Statistics of endpoints: latency, reliability, load.
//!
//! Two halves that a decision reads together. [`Statistics`] are owned by one actor, fed with
//! [`Event`](pointsman_domain::EndpointEvent)s and published as a [`Snapshot`]. The [`LiveBoard`] is shared by all workers
//! and updated at once: requests in flight, unanswered requests, breakers, cooldowns, pacing.
//!
//! Nothing here reads a clock, draws a random number or waits; times and seeds are arguments. Transcendental
//! functions come from `libm`, so that the same inputs give the same bits on every platform. [`crate::decide`] chooses
//! the endpoint.

mod live;
mod model;
mod observe;
mod persist;
mod publish;
mod seeded_hash;
mod sessions;
mod targets;

pub use live::board::LiveBoard;
pub use live::breaker::RefusedSince;
pub use live::change::{BreakerChange, GateChange};
pub use live::claim::{Claim, FinishedClaim};
pub use live::gate::Gate;
pub use live::quota::{QuotaReport, Remaining, TokensLeft};
pub use live::view::{LiveEndpoint, LiveProvider, LiveStatus, LiveView};
pub use model::estimates::{Curve, Estimates};
pub use model::failure_effect::FailureEffect;
pub(crate) use model::failures::FailureModel;
pub use model::latency::Fit;
pub(crate) use model::latency::load_effect;
pub use model::lengths::OutputLengths;
pub(crate) use model::lengths::{ClassLengths, LengthClass};
pub use model::prompt_scale::PromptScales;
pub use observe::calibration::{
    Accuracy, Calibration, Calibrations, CostAccuracy, EndpointCalibration, FailureAccuracy,
};
pub use observe::errors::ErrorCounts;
pub use observe::figures::{EndpointFigures, Figures, LastError, Quantiles, Summary};
pub use persist::state::{RejectedEntry, Restored, SavedState, SavedStateError};
pub use publish::snapshot::{EndpointStats, Facts, Prices, Snapshot};
pub use publish::statistics::Statistics;
pub use seeded_hash::{seeded_hash, splitmix64};
pub use sessions::{SessionStart, SessionTurn, Sessions};
pub use targets::{
    DAY_SLOT, FirstTokenWait, LatencyTargets, RequestedTarget, Tally, TargetReport, WINDOWS, missed_target,
    slower_than_predicted,
};
