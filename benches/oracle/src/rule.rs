//! What the simulator asks of a rule of routing, and what it tells it.

use std::time::Duration;

use pointsman_domain::FailureKind;

use crate::{
    request::{FIRST_BYTE, Request},
    world::Truth,
};

/// Attempts per request that everybody has.
pub const ATTEMPTS: u32 = 3;

/// A way to route.
pub trait Rule {
    /// The endpoints a request may be tried at, in this order.
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize>;

    /// An attempt is about to begin. `None` when its endpoint must not be called after all.
    fn begin(&mut self, _attempt: &Begin<'_>) -> Option<Patience> {
        Some(Patience::default())
    }

    /// Whether an attempt at this endpoint, after so many others, may race one that is so late. Once per request.
    fn may_race(&mut self, _request: usize, _endpoint: usize, _attempts: u32, _late: Late) -> bool {
        false
    }

    /// Whether one more attempt, at this endpoint, may follow so many that failed: beyond those that everybody has.
    fn may_go_on(&self, _request: usize, _endpoint: usize, _attempts: u32) -> bool {
        false
    }

    /// Something happened to an attempt.
    fn heard(&mut self, _report: &Report<'_>) {}

    /// The request has its answer, or will have none.
    fn ended(&mut self, _request: usize) {}

    /// How well its predictions held, if it makes any.
    fn calibration(&self) -> Option<&Calibration> {
        None
    }
}

/// A request and the moment.
pub struct Ask<'a> {
    /// Seconds.
    pub now: f64,
    /// What is asked.
    pub request: &'a Request,
    /// Own requests in flight at each endpoint.
    pub in_flight: &'a [u32],
    /// What is true of an endpoint if this request and so many more go there. For the clairvoyant alone.
    pub truth: &'a dyn Fn(usize, u32) -> Truth,
    /// The prices, dollars: of the request at an endpoint, with the expected answer.
    pub cost: &'a dyn Fn(usize) -> f64,
    /// Dollars of its prompt alone.
    pub prompt_cost: &'a dyn Fn(usize) -> f64,
    /// Median over the endpoints on a good day, alone: seconds and dollars of this request, as far as it is known.
    pub typical: (f64, f64),
}

/// An attempt about to begin.
pub struct Begin<'a> {
    /// Seconds.
    pub now: f64,
    /// For which request.
    pub request: &'a Request,
    /// Counted through the run.
    pub attempt: usize,
    /// How many attempts the request had before.
    pub before: u32,
    /// Where.
    pub endpoint: usize,
    /// Whether another endpoint could still take over.
    pub another: bool,
}

/// How long an attempt is waited for, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// Until a stream's first token.
    pub first_byte: f64,
    /// Until it is unusually late, and a hedge may race it.
    pub hedge_after: Option<f64>,
    /// Until it is overdue, and another attempt may race it under any objective.
    pub overdue_after: Option<f64>,
    /// Whether it is a breaker's probe.
    pub probe: bool,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { first_byte: FIRST_BYTE, hedge_after: None, overdue_after: None, probe: false }
    }
}

/// How late an attempt is when another one may race it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Late {
    /// Later than usual.
    Unusually,
    /// As late as a plain answer never is.
    Overdue,
}

/// Something that happened to an attempt.
pub struct Report<'a> {
    /// When, seconds.
    pub now: f64,
    /// Of which request.
    pub request: &'a Request,
    /// Counted through the run.
    pub attempt: usize,
    /// Where.
    pub endpoint: usize,
    /// When it was dispatched, seconds.
    pub started: f64,
    /// When its first token came, seconds.
    pub first: Option<f64>,
    /// What happened.
    pub news: News,
}

/// What can happen to an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum News {
    /// It began.
    Began,
    /// Its first token came. Only streams tell.
    FirstToken,
    /// The answer is whole.
    Completed,
    /// It failed.
    Failed {
        /// How.
        kind: FailureKind,
        /// The status, if any.
        status: Option<u16>,
        /// How long the endpoint asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// It lost a race.
    Cancelled,
}

/// How predictions compare with what came, over first attempts that were answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// Endpoint and ln(actual ÷ predicted median) of first tokens.
    pub first: Vec<(usize, f64)>,
    /// The same of total times, given the actual output tokens.
    pub total: Vec<(usize, f64)>,
    /// Whether the first token came within the predicted 95th percentile.
    pub first_within: Vec<bool>,
    /// Whether the last one did.
    pub total_within: Vec<bool>,
    /// Whether the cost lay within its predicted 80 % range.
    pub cost_within: Vec<bool>,
    /// The probability of failing that was predicted, and whether it failed; of all first attempts that came to an end, but
    /// for those that were limited.
    pub failures: Vec<(f64, bool)>,
}
