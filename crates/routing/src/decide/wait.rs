//! Which endpoints a request waits for when everything that could serve it rests.
//!
//! Waiting beats refusing if it is short: the client would otherwise wait as long itself, and come back behind everybody who
//! called meanwhile. A plain function of the live state; who waits, in which order and for how long altogether is known to
//! the caller.

use std::time::Duration;

use pointsman_domain::{Catalog, ExclusionReason, Tick};

use crate::stats::{Gate, LiveView};

/// Most endpoints that one request waits for, the first to reopen: it needs only one of them.
const MOST_AWAITED: usize = 16;

/// An endpoint that passed the hard filters and may be worth waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hope {
    /// Position of the endpoint in the catalog.
    pub index: u32,
    /// What else than its live state stands in the way of this request.
    pub obstacle: Obstacle,
}

/// What stands in the way of one request, beside gates and pace of the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing.
    None,
    /// It is not to be called with this request before that time: it asked for that, or its quota is too small until then.
    Until(Tick, ExclusionReason),
    /// Requests that came earlier wait for it.
    Queue,
    /// Something that does not end by waiting: it failed this request, costs too much, or has no free permit.
    Lasting,
}

/// What a request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Positions of the awaited endpoints.
    pub awaited: Vec<u32>,
    /// When the first of them reopens, as far as that is known.
    pub until: Option<Tick>,
    /// Why that endpoint takes no request now.
    pub reason: ExclusionReason,
}

/// What to wait for, at most for `limit`. `None` if nothing reopens in that time.
#[must_use]
pub fn worth_waiting(
    (catalog, live): (&Catalog, &LiveView),
    hopes: impl Iterator<Item = Hope>,
    now: Tick,
    limit: Duration,
) -> Option<Wait> {
    if limit.is_zero() {
        return None;
    }
    let resting = hopes.filter_map(|hope| Some((rest(catalog, live, hope)?, hope.index)));
    let mut resting: Vec<_> =
        resting.filter(|((until, _), _)| until.is_none_or(|until| until - now <= limit)).collect();
    // A known time first: what has none ends with a notice, whenever that comes.
    resting.sort_by_key(|((until, _), index)| (until.is_none(), *until, *index));
    let ((until, reason), _) = *resting.first()?;
    let awaited = resting.into_iter().take(MOST_AWAITED).map(|(_, index)| index).collect();
    Some(Wait { awaited, until, reason })
}

/// When the endpoint may serve the request, `None` if that is not known, and what stands in the way until then. `None` if
/// waiting is useless or needless.
fn rest(catalog: &Catalog, live: &LiveView, hope: Hope) -> Option<(Option<Tick>, ExclusionReason)> {
    let own = live.endpoint(hope.index);
    let gate = own.gate.and(live.provider(catalog.endpoint(hope.index)?.provider).gate);
    let asked = match hope.obstacle {
        Obstacle::Until(time, reason) => Some((time, reason)),
        Obstacle::None | Obstacle::Queue => None,
        Obstacle::Lasting => return None,
    };
    let known = match gate {
        Gate::ConfigFault { .. } => return None,
        Gate::Probing { .. } => return Some((None, ExclusionReason::ProbeInFlight)),
        Gate::Cooling { until } => Some((until, ExclusionReason::RateLimited)),
        Gate::Open { until } => Some((until, ExclusionReason::CircuitOpen)),
        Gate::Passing | Gate::HalfOpen { .. } => own.due.map(|due| (due, ExclusionReason::Paced)),
    };
    match known.max(asked) {
        Some((until, reason)) => Some((Some(until), reason)),
        None => (hope.obstacle == Obstacle::Queue).then_some((None, ExclusionReason::Saturated)),
    }
}
