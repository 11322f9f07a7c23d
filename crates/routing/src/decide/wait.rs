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

/// What a request that no endpoint takes can hope for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outlook {
    /// Whether an endpoint takes requests now: its time came after the decision that found it resting.
    pub is_open: bool,
    /// What to wait for. `None` if nothing reopens in time.
    pub wait: Option<Wait>,
}

/// What to hope for, and wait for at most for `limit`.
pub fn outlook(
    (catalog, live): (&Catalog, &LiveView),
    hopes: impl Iterator<Item = Hope>,
    now: Tick,
    limit: Duration,
) -> Outlook {
    let mut outlook = Outlook::default();
    let mut resting = Vec::new();
    for hope in hopes {
        match rest(catalog, live, now, hope) {
            Rest::Over => outlook.is_open = true,
            Rest::Until(time, reason) if time - now <= limit => resting.push((Some(time), reason, hope.index)),
            Rest::Noticed(reason) => resting.push((None, reason, hope.index)),
            Rest::Until(..) | Rest::Lasting => {}
        }
    }
    if limit.is_zero() {
        return outlook;
    }
    // A known time first: what has none ends with a notice, whenever that comes.
    resting.sort_by_key(|(until, _, index)| (until.is_none(), *until, *index));
    outlook.wait = resting.first().map(|&(until, reason, _)| Wait {
        awaited: resting.iter().take(MOST_AWAITED).map(|(.., index)| *index).collect(),
        until,
        reason,
    });
    outlook
}

/// For how long an endpoint does not serve a request.
enum Rest {
    /// No longer.
    Over,
    /// Until this time.
    Until(Tick, ExclusionReason),
    /// Until something happens, of which a notice tells.
    Noticed(ExclusionReason),
    /// Waiting does not end it.
    Lasting,
}

fn rest(catalog: &Catalog, live: &LiveView, now: Tick, hope: Hope) -> Rest {
    let own = live.endpoint(hope.index);
    let asked = match hope.obstacle {
        Obstacle::Until(time, reason) => Some((time, reason)),
        Obstacle::None | Obstacle::Queue => None,
        Obstacle::Lasting => return Rest::Lasting,
    };
    let Some(endpoint) = catalog.endpoint(hope.index) else { return Rest::Lasting };
    let known = match own.gate.and(live.provider(endpoint.provider).gate) {
        Gate::ConfigFault { .. } => return Rest::Lasting,
        Gate::Probing { .. } => return Rest::Noticed(ExclusionReason::ProbeInFlight),
        Gate::Cooling { until } => Some((until, ExclusionReason::RateLimited)),
        Gate::Open { until } => Some((until, ExclusionReason::CircuitOpen)),
        Gate::Passing | Gate::HalfOpen { .. } => own.due.map(|due| (due, ExclusionReason::Paced)),
    };
    match known.max(asked) {
        Some((until, reason)) if until > now => Rest::Until(until, reason),
        _ if hope.obstacle == Obstacle::Queue => Rest::Noticed(ExclusionReason::Saturated),
        _ => Rest::Over,
    }
}
