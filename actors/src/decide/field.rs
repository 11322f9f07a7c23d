//! Who could take part: the endpoints behind a request's targets, screened and forecast.

use super::{
    case::Case,
    filter::{Screen, Subject, purpose},
    predict::{Forecast, lateness},
};
use crate::{
    domain::{Cause, Endpoint, EndpointId, Excluded, Inputs, Preference, Provider, Target, Tick},
    stats::{Curve, EndpointStats, Gate, LiveEndpoint},
};

/// Lower bound on the failure probability behind a gate that is not open.
const UNSURE: f64 = 0.5;

/// How a row takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Not at all.
    Out,
    /// As a candidate.
    Candidate,
    /// As the probe of a half-open breaker.
    Probe,
    /// Past a shut gate, because nothing else is left.
    Panic,
}

/// An endpoint that passed the hard filters.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub index: u32,
    pub endpoint: EndpointId,
    pub provider: u32,
    pub target: u32,
    pub gate: Gate,
    /// When a paced endpoint takes the next request.
    pub due: Option<Tick>,
    pub inputs: Inputs,
    pub forecast: Forecast,
    pub role: Role,
}

impl Row {
    /// What ranks before any score: target, place in `provider.order`, missed preferences.
    pub(super) fn class(&self) -> u64 {
        u64::from(self.target) << 32 | u64::from(self.inputs.tier)
    }

    /// Target and place in `provider.order` alone.
    pub(super) fn wish(&self) -> u64 {
        self.class() >> 1
    }
}

/// The endpoints of a request's pool, sorted into those that may serve and those that may not.
#[derive(Debug, Default)]
pub(super) struct Field {
    pub rows: Vec<Row>,
    pub excluded: Vec<Excluded>,
    /// Expected cost of everything that passed the hard filters, rows or not.
    pub costs: Vec<f64>,
    /// When the earliest gate that lets nobody pass will open.
    pub opens: Option<Tick>,
}

/// What was found out about an endpoint of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    Excluded,
    Passed,
}

impl Field {
    /// The pool of the case's query, target by target. An endpoint that several targets stand for belongs to the
    /// first for which it passes.
    pub(super) fn of(case: &Case<'_>) -> Field {
        let mut field = Field::default();
        let several = case.query.targets.len() > 1;
        let mut seen = if several { vec![Seen::Never; case.catalog.endpoints.len()] } else { Vec::new() };
        for (target, asked) in (0_u32..).zip(&case.query.targets) {
            match *asked {
                Target::Model(position) => {
                    let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, None);
                    let Some(model) = case.catalog.model(position) else { continue };
                    for (index, endpoint) in case.catalog.endpoints_of(model) {
                        field.enter(case, &screen, target, index, endpoint, &mut seen);
                    }
                }
                Target::Alias(position) => {
                    let alias = case.catalog.alias(position);
                    let screen = Screen::new(case.catalog, &case.snapshot.lengths, case.query, alias);
                    field.reserve(case.catalog.endpoints.len());
                    for (index, endpoint) in (0_u32..).zip(&case.catalog.endpoints) {
                        if is_in_pool(case, endpoint) {
                            field.enter(case, &screen, target, index, endpoint, &mut seen);
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

    fn enter(
        &mut self,
        case: &Case<'_>,
        screen: &Screen<'_>,
        target: u32,
        index: u32,
        endpoint: &Endpoint,
        seen: &mut [Seen],
    ) {
        let mut unseen = Seen::Never;
        let seen = seen.get_mut(index as usize).unwrap_or(&mut unseen);
        let Some(subject) = Subject::of(case.catalog, endpoint).filter(|_| *seen != Seen::Passed) else { return };
        if let Some((reason, detail)) = screen.refusal(subject) {
            if *seen == Seen::Never {
                self.excluded.push(Excluded { index, reason, detail });
            }
            *seen = Seen::Excluded;
            return;
        }
        if *seen == Seen::Excluded {
            self.excluded.retain(|excluded| excluded.index != index);
        }
        *seen = Seen::Passed;
        self.pass(case, target, index, subject);
    }

    /// An endpoint that no hard filter refuses. Behind a gate that lets nobody pass it only counts for the costs.
    fn pass(&mut self, case: &Case<'_>, target: u32, index: u32, subject: Subject<'_>) {
        let Some(stats) = case.snapshot.endpoints.get(index as usize) else { return };
        let (live, provider) = (case.live.endpoint(index), case.live.provider(subject.endpoint.provider));
        let gate = live.gate.and(provider.gate);
        let output_tokens = expected_output(case, subject.endpoint);
        let cost = stats.prices.cost(case.query.prompt_tokens, output_tokens, case.query.images);
        self.costs.push(cost);
        if let Gate::Cooling { until } | Gate::ConfigFault { until } = gate {
            self.opens = Some(self.opens.map_or(until, |opens| opens.min(until)));
            let (failures, last) =
                if gate == live.gate { (live.failures, live.last) } else { (provider.failures, provider.last) };
            self.excluded.push(super::gates::shut(index, gate, case.now, failures, last));
            return;
        }
        let mut inputs = inputs(case, stats, &live, gate, output_tokens, cost);
        let forecast = Forecast::of(&inputs, &stats.curve, &case.rules, case.noise(subject.endpoint.id));
        inputs.expected = forecast.first_token + if case.query.streamed { 0.0 } else { forecast.generation };
        inputs.tier = tier(case, subject, &forecast, stats);
        self.rows.push(Row {
            index,
            endpoint: subject.endpoint.id,
            provider: subject.endpoint.provider,
            target,
            gate,
            due: live.due,
            inputs,
            forecast,
            role: Role::Out,
        });
    }
}

/// An alias stands for every endpoint of a model that gives what the call is for, at a provider that is on.
fn is_in_pool(case: &Case<'_>, endpoint: &Endpoint) -> bool {
    let gives = |model: &crate::domain::Model| model.architecture.output.contains(purpose(case.query.api));
    case.catalog.provider_of(endpoint).is_some_and(Provider::is_on)
        && case.catalog.model_of(endpoint).is_some_and(gives)
}

pub(super) fn expected_output(case: &Case<'_>, endpoint: &Endpoint) -> f64 {
    let most = endpoint.limits.max_completion_tokens.map_or(f64::INFINITY, f64::from);
    case.snapshot.lengths.expected(endpoint.model, case.query.max_tokens).min(most)
}

pub(super) fn inputs(
    case: &Case<'_>,
    stats: &EndpointStats,
    live: &LiveEndpoint,
    gate: Gate,
    output_tokens: f64,
    cost: f64,
) -> Inputs {
    let estimates = &stats.estimates;
    Inputs {
        intercept: estimates.fit.intercept,
        load_exponent: estimates.fit.load_exponent,
        knee: estimates.fit.knee,
        variance: estimates.fit.variance,
        weight: estimates.weight * case.weight_left,
        per_token: estimates.per_token,
        failures: estimates.failures * case.counts_left,
        successes: estimates.successes * case.counts_left,
        age: estimates.observed.map_or(f64::INFINITY, |observed| case.now.seconds_since(observed)),
        in_flight: live.in_flight,
        late: lateness(live.overdue, &stats.curve),
        output_tokens,
        cost,
        floor: if gate == Gate::Passing { 0.0 } else { UNSURE },
        expected: 0.0,
        tier: 0,
        until: gate.until().unwrap_or_default(),
    }
}

/// The place in `provider.order`, then whether a preference is missed.
fn tier(case: &Case<'_>, subject: Subject<'_>, forecast: &Forecast, stats: &EndpointStats) -> u32 {
    let routing = &case.query.routing;
    let order = &routing.provider.order;
    let place = order.iter().position(|entry| subject.is_named(entry)).unwrap_or(order.len());
    let slow = routing.preferred_max_latency.is_some_and(|latency| is_slow(&latency.value, forecast, &stats.curve));
    let lame = routing.preferred_min_throughput.is_some_and(|rate| {
        let per_token =
            if forecast.load > 0.0 { stats.curve.per_token * libm::exp(forecast.load) } else { stats.curve.per_token };
        is_lame(&rate.value, per_token, stats.estimates.per_token_variance.sqrt())
    });
    u32::try_from(place).unwrap_or(u32::MAX >> 1) << 1 | u32::from(slow || lame)
}

/// The bounds of a preference, each with the standard deviations at which its percentile lies.
fn bounds(preference: &Preference) -> impl Iterator<Item = (f64, f64)> {
    let at = [(preference.p50, 0.0), (preference.p75, 0.6745), (preference.p90, 1.2816), (preference.p95, Curve::Z95)];
    at.into_iter().chain([(preference.p99, 2.3263)]).filter_map(|(bound, z)| Some((bound?, z)))
}

fn is_slow(latency: &Preference, forecast: &Forecast, curve: &Curve) -> bool {
    bounds(latency).any(|(bound, z)| forecast.first_token * libm::exp(z * curve.sigma) > bound)
}

/// A percentile of a rate is what so many answers reach at least.
fn is_lame(rate: &Preference, per_token: f64, sigma: f64) -> bool {
    bounds(rate).any(|(bound, z)| 1.0 / (per_token * libm::exp(z * sigma)) < bound)
}

/// The failures behind an endpoint's gate, or its provider's where that one is the stricter.
pub(super) fn behind(case: &Case<'_>, row: &Row) -> (u32, Option<Cause>) {
    let (live, provider) = (case.live.endpoint(row.index), case.live.provider(row.provider));
    if live.gate == row.gate { (live.failures, live.last) } else { (provider.failures, provider.last) }
}
