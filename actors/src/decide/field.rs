//! Who could take part: the endpoints behind a request's targets, screened and forecast.

use super::{
    case::Case,
    filter::{Screen, purpose},
    gates,
    moment::{Moment, inputs},
    predict::Forecast,
    row::{Place, Role, Row},
    wishes::tier,
};
use crate::{
    domain::{Cause, Excluded, Target, Tick},
    stats::{EndpointStats, Facts, Gate},
};

/// Endpoints that go through everything before the next are looked at: few enough that all that is read of them, again and
/// again, stays in the cache of the core meanwhile.
const AT_ONCE: usize = 32;

/// The endpoints of a request's pool, sorted into those that may serve and those that may not.
#[derive(Debug, Default)]
pub(super) struct Field<'a> {
    pub rows: Vec<Row<'a>>,
    pub excluded: Vec<Excluded>,
    /// Expected cost of everything that passed the hard filters, rows or not.
    pub costs: Vec<f64>,
    /// When the earliest gate that lets nobody pass will open.
    pub opens: Option<Tick>,
    /// Saves looking for rows that need more thought.
    pub counts: Counts,
}

/// How many rows may serve already, are only saturated, or are half-open.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub free: usize,
    pub saturated: usize,
    pub half_open: usize,
}

/// What was found out about an endpoint of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    Excluded,
    Passed,
}

impl<'a> Field<'a> {
    /// The pool of the case's query, target by target. An endpoint that several targets stand for belongs to the
    /// first for which it passes.
    pub(super) fn of(case: &Case<'a>) -> Field<'a> {
        let mut field = Field::default();
        let several = case.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; case.catalog.endpoints.len()] } else { Vec::new() };
        for (target, asked) in (0_u32..).zip(&case.query.targets) {
            let place = Place::of(target, case.query.routing.provider.across_models);
            match *asked {
                Target::Model(position) => field.enter_model(case, place, position, &mut seen),
                Target::Alias(position) => field.enter_alias(case, place, position, &mut seen),
            }
        }
        if case.has_wishes {
            field.rows.iter_mut().for_each(|row| row.class |= u64::from(tier(case, row)));
        }
        field
    }

    fn enter_model(&mut self, case: &Case<'a>, place: Place, position: u32, seen: &mut [Seen]) {
        let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, None);
        let endpoints = case.catalog.model(position).map_or(&[][..], |model| &model.endpoints);
        for block in endpoints.chunks(AT_ONCE) {
            let known = self.rows.len();
            for &index in block {
                let Some(stats) = case.snapshot.endpoints.get(index as usize) else { continue };
                if screen.passes(&stats.facts) && seen.is_empty() || self.admits(&screen, index, stats, seen) {
                    self.pass(case, place, index, stats);
                }
            }
            self.look_into(case, known);
        }
    }

    fn enter_alias(&mut self, case: &Case<'a>, place: Place, position: u32, seen: &mut [Seen]) {
        let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, case.catalog.alias(position));
        let endpoints = &case.snapshot.endpoints;
        self.rows.reserve(endpoints.len());
        self.costs.reserve(endpoints.len());
        for (first, block) in (0_u32..).step_by(AT_ONCE).zip(endpoints.chunks(AT_ONCE)) {
            let known = self.rows.len();
            for (index, stats) in (first..).zip(block) {
                if screen.passes(&stats.facts) && seen.is_empty()
                    || is_in_pool(case, &stats.facts) && self.admits(&screen, index, stats, seen)
                {
                    self.pass(case, place, index, stats);
                }
            }
            self.look_into(case, known);
        }
    }

    /// Finds out what is to be known of every row from this one on.
    fn look_into(&mut self, case: &Case<'_>, first: usize) {
        let rows = self.rows.get_mut(first..).unwrap_or_default();
        meet(case, rows);
        self.costs.extend(rows.iter().map(|row| row.moment.uncached_cost()));
        forecast(case, rows, &mut self.counts);
        doubt(case, rows);
    }

    /// Whether an endpoint of the pool passes the hard filters, and for the first time. If it is refused, it is excluded.
    #[inline(never)]
    fn admits(&mut self, screen: &Screen<'a>, index: u32, stats: &EndpointStats, seen: &mut [Seen]) -> bool {
        let before = seen.get(index as usize).copied().unwrap_or(Seen::Never);
        if before == Seen::Passed {
            return false;
        }
        let refusal = screen.refusal_of(index, &stats.facts);
        let refused = refusal.is_some();
        if let Some(seen) = seen.get_mut(index as usize) {
            *seen = if refused { Seen::Excluded } else { Seen::Passed };
        }
        match (before, refusal) {
            (Seen::Never, Some((reason, detail))) => {
                self.excluded.push(Excluded { index, endpoint: stats.facts.id, reason, detail });
            }
            (Seen::Excluded, None) => self.excluded.retain(|excluded| excluded.index != index),
            _ => {}
        }
        !refused
    }

    /// An endpoint that no hard filter refuses.
    #[inline(always)]
    fn pass(&mut self, case: &Case<'a>, place: Place, index: u32, stats: &'a EndpointStats) {
        let live = case.live.endpoint(index);
        if live.gate.is_passing() && case.live.provider(stats.facts.provider).gate.is_passing() {
            self.rows.push(Row::blank(place, index, stats, live));
        } else {
            self.pass_gate(case, place, index, stats);
        }
    }

    /// The same behind a gate. If that lets nobody pass, it only counts for the costs.
    #[cold]
    #[inline(never)]
    fn pass_gate(&mut self, case: &Case<'a>, place: Place, index: u32, stats: &'a EndpointStats) {
        let live = case.live.endpoint(index);
        let moment = Moment::of(case, stats, live);
        let (Gate::Cooling { until } | Gate::ConfigFault { until }) = moment.gate else {
            self.rows.push(Row { moment, ..Row::blank(place, index, stats, live) });
            return;
        };
        self.costs.push(moment.uncached_cost());
        self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
        let (failures, last) = behind(case, index, stats.facts.provider, moment.gate);
        self.excluded.push(gates::shut((index, stats.facts.id), moment.gate, case.now, failures, last));
    }
}

/// How each row stands, and what the request costs there.
fn meet(case: &Case<'_>, rows: &mut [Row<'_>]) {
    for row in rows {
        match Moment::at_ease(case, row.stats, row.live, row.moment.gate) {
            Some(moment) => row.moment = moment,
            None => meet_in_full(case, row),
        }
    }
}

/// What is expected of each row, and with that whether it may serve, unless more is let in.
fn forecast(case: &Case<'_>, rows: &mut [Row<'_>], counts: &mut Counts) {
    for row in rows {
        match Forecast::at_ease(&inputs(case, row.stats, &row.moment), &row.stats.curve, &case.rules) {
            Some(forecast) => row.forecast = forecast,
            None => forecast_in_full(case, row),
        }
        if row.is_open() {
            let free = row.forecast.load <= case.saturation;
            row.role = if free { Role::Candidate } else { Role::Out };
            *(if free { &mut counts.free } else { &mut counts.saturated }) += 1;
        } else {
            counts.half_open += usize::from(matches!(row.moment.gate, Gate::HalfOpen { .. }));
        }
    }
}

/// What the noise makes of that.
fn doubt(case: &Case<'_>, rows: &mut [Row<'_>]) {
    for row in rows {
        let Some(doubt) = case.noise.at(row.stats.facts.id) else { return };
        row.forecast = row.forecast.doubted(&inputs(case, row.stats, &row.moment), &case.rules, doubt);
    }
}

// The rare cases are calls of their own and fill in the row themselves: were anything that is at hand given to them, or
// anything given back, it would pass through memory in the common case, too.

#[cold]
#[inline(never)]
fn meet_in_full(case: &Case<'_>, row: &mut Row<'_>) {
    row.moment = Moment::of(case, row.stats, row.live);
}

#[cold]
#[inline(never)]
fn forecast_in_full(case: &Case<'_>, row: &mut Row<'_>) {
    row.forecast = Forecast::calm(&inputs(case, row.stats, &row.moment), &row.stats.curve, &case.rules);
}

/// An alias stands for every endpoint of a model that gives what the call is for, at a provider that is on.
fn is_in_pool(case: &Case<'_>, facts: &Facts) -> bool {
    facts.on && facts.output.contains(purpose(case.query.api))
}

/// The failures behind the gate that stands in the way: the endpoint's own, or its provider's.
pub(super) fn behind(case: &Case<'_>, index: u32, provider: u32, gate: Gate) -> (u32, Option<Cause>) {
    let (live, provider) = (case.live.endpoint(index), case.live.provider(provider));
    if live.gate == gate { (live.failures, live.last) } else { (provider.failures, provider.last) }
}
