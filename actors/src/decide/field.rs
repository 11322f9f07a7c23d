//! Who could take part: the endpoints behind a request's targets, screened and forecast.

use super::{
    case::Case,
    filter::{Refusal, Screen, Subject, purpose},
    gates,
    moment::{Moment, inputs},
    predict::Forecast,
    row::{Role, Row},
    wishes::tier,
};
use crate::{
    domain::{Cause, Excluded, Target, Tick},
    stats::{EndpointStats, Facts, Gate},
};

/// The endpoints of a request's pool, sorted into those that may serve and those that may not.
#[derive(Debug, Default)]
pub(super) struct Field<'a> {
    pub rows: Vec<Row<'a>>,
    pub excluded: Vec<Excluded>,
    /// Expected cost of everything that passed the hard filters, rows or not.
    pub costs: Vec<f64>,
    /// When the earliest gate that lets nobody pass will open.
    pub opens: Option<Tick>,
    /// Rows that may serve already, that are only saturated, and that are half-open: saves looking for them.
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
    /// The pool of the case's query, forecast.
    pub(super) fn of(case: &Case<'a>) -> Field<'a> {
        let mut field = Field::screened(case);
        field.forecast(case);
        field.doubt(case);
        if case.has_wishes {
            field.rows.iter_mut().for_each(|row| row.class |= u64::from(tier(case, row)));
        }
        field
    }

    /// The pool of the case's query, target by target. An endpoint that several targets stand for belongs to the
    /// first for which it passes.
    fn screened(case: &Case<'a>) -> Field<'a> {
        let mut field = Field::default();
        let several = case.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; case.catalog.endpoints.len()] } else { Vec::new() };
        for (target, asked) in (0_u32..).zip(&case.query.targets) {
            match *asked {
                Target::Model(position) => {
                    let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, None);
                    let endpoints = case.catalog.model(position).map_or(&[][..], |model| &model.endpoints);
                    for &index in endpoints {
                        let Some(stats) = case.snapshot.endpoints.get(index as usize) else { continue };
                        let passes = screen.passes(&stats.facts);
                        field.enter(case, &screen, target, (index, stats, passes), &mut seen);
                    }
                }
                Target::Alias(position) => {
                    let alias = case.catalog.alias(position);
                    let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, alias);
                    field.reserve(case.snapshot.endpoints.len());
                    for (index, stats) in (0_u32..).zip(&case.snapshot.endpoints) {
                        let passes = screen.passes(&stats.facts);
                        if passes || is_in_pool(case, &stats.facts) {
                            field.enter(case, &screen, target, (index, stats, passes), &mut seen);
                        }
                    }
                }
            }
        }
        field
    }

    fn reserve(&mut self, endpoints: usize) {
        self.rows.reserve(endpoints);
        self.costs.reserve(endpoints);
    }

    /// An endpoint of the pool, and whether its facts alone let it pass.
    #[inline(always)]
    fn enter(
        &mut self,
        case: &Case<'a>,
        screen: &Screen<'a>,
        target: u32,
        (index, stats, passes): (u32, &'a EndpointStats, bool),
        seen: &mut [Seen],
    ) {
        let before = seen.get(index as usize).copied().unwrap_or(Seen::Never);
        if before == Seen::Passed {
            return;
        }
        let refusal = if passes { None } else { refusal(case, screen, index) };
        if let Some(seen) = seen.get_mut(index as usize) {
            *seen = if refusal.is_some() { Seen::Excluded } else { Seen::Passed };
        }
        match refusal {
            None => {
                if before == Seen::Excluded {
                    self.excluded.retain(|excluded| excluded.index != index);
                }
                self.pass(case, target, index, stats);
            }
            Some((reason, detail)) if before == Seen::Never => {
                self.excluded.push(Excluded { index, endpoint: stats.facts.id, reason, detail });
            }
            Some(_) => {}
        }
    }

    /// An endpoint that no hard filter refuses. Behind a gate that lets nobody pass it only counts for the costs.
    #[inline(always)]
    fn pass(&mut self, case: &Case<'a>, target: u32, index: u32, stats: &'a EndpointStats) {
        let moment = Moment::of(case, stats, case.live.endpoint(index));
        self.costs.push(moment.cost + moment.saving);
        if let Gate::Cooling { until } | Gate::ConfigFault { until } = moment.gate {
            self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
            let (failures, last) = behind(case, index, stats.facts.provider, moment.gate);
            self.excluded.push(gates::shut((index, stats.facts.id), moment.gate, case.now, failures, last));
            return;
        }
        // Models that compete are of one class.
        let class = if case.query.routing.provider.across_models { 0 } else { u64::from(target) << 32 };
        self.rows.push(Row {
            stats,
            index,
            provider: stats.facts.provider,
            target,
            role: Role::Out,
            class,
            moment,
            forecast: Forecast::NONE,
            rank: 0.0,
            calm: 0.0,
        });
    }

    /// What is expected of each row, and with that whether it may serve, unless more is let in.
    fn forecast(&mut self, case: &Case<'_>) {
        for row in &mut self.rows {
            row.forecast = Forecast::calm(&inputs(case, row.stats, &row.moment), &row.stats.curve, &case.rules);
            if row.is_open() {
                let free = row.forecast.load <= case.saturation;
                row.role = if free { Role::Candidate } else { Role::Out };
                *(if free { &mut self.free } else { &mut self.saturated }) += 1;
            } else {
                self.half_open += usize::from(matches!(row.moment.gate, Gate::HalfOpen { .. }));
            }
        }
    }

    /// What the noise makes of that.
    fn doubt(&mut self, case: &Case<'_>) {
        for row in &mut self.rows {
            let Some(doubt) = case.noise.at(row.stats.facts.id) else { return };
            row.forecast = row.forecast.doubted(&inputs(case, row.stats, &row.moment), &case.rules, doubt);
        }
    }
}

// A call of its own: almost nobody who passes needs it, and everybody would pay for its registers.
#[inline(never)]
fn refusal(case: &Case<'_>, screen: &Screen<'_>, index: u32) -> Option<Refusal> {
    screen.refusal(Subject::of(case.catalog, case.catalog.endpoint(index)?)?)
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
