//! How much traffic moves to each endpoint, and whether it can carry that.

use std::collections::BTreeMap;

use pointsman_domain::EndpointId;

use crate::explain::diff::Load;

/// Units of a sum: integers, so that no order of the records changes a bit.
const UNIT: f64 = 1e9;

/// Sums over requests, by endpoint.
#[derive(Debug, Clone, Default)]
pub struct TrafficShifts(BTreeMap<EndpointId, Sums>);

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Probabilities under both policies.
    shares: [i128; 2],
    /// Requests in flight, and where it slows down.
    load: [i128; 2],
    seen: u64,
    refused: u64,
    /// Requests in flight under the other policy, where that is modelled.
    modelled: Option<f64>,
}

/// An endpoint that another policy would send other traffic to.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficShift {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Its name; empty until it is known.
    pub name: String,
    /// Its share of the requests, before and after.
    pub shares: [f64; 2],
    /// How many times its traffic.
    pub factor: f64,
    /// Mean requests in flight as it was.
    pub in_flight: f64,
    /// Mean requests in flight under the other policy: as a load model has it, or else grown as its share is.
    pub would_be: f64,
    /// Requests in flight from which on it slows down.
    pub knee: f64,
    /// Whether it refused requests for a limit of its own.
    pub was_limited: bool,
}

impl TrafficShifts {
    /// Adds a request of which the endpoint gets these probabilities, before and after, with its requests in flight and where it
    /// slows down.
    pub fn add(&mut self, endpoint: EndpointId, shares: [f64; 2], load: [f64; 2]) {
        let sums = self.0.entry(endpoint).or_default();
        let unit = |value: f64| (value * UNIT).round() as i128;
        sums.shares.iter_mut().zip(shares).for_each(|(sum, share)| *sum += unit(share));
        sums.load.iter_mut().zip(load).for_each(|(sum, value)| *sum += unit(value));
        sums.seen += 1;
    }

    /// Adds a request for which the endpoint was left out because of its limits.
    pub fn add_refusal(&mut self, endpoint: EndpointId) {
        self.0.entry(endpoint).or_default().refused += 1;
    }

    /// Takes what a model says of the load under the other policy.
    pub fn adjust(&mut self, loads: &[Load]) {
        loads.iter().for_each(|load| self.carry(load.endpoint, load.in_flight[1]));
    }

    /// Takes the requests in flight at an endpoint under the other policy from somewhere else.
    pub fn carry(&mut self, endpoint: EndpointId, in_flight: f64) {
        if let Some(sums) = self.0.get_mut(&endpoint) {
            sums.modelled = Some(in_flight);
        }
    }

    /// Adds other requests.
    pub fn merge(&mut self, other: TrafficShifts) {
        for (endpoint, more) in other.0 {
            let sums = self.0.entry(endpoint).or_default();
            sums.shares.iter_mut().zip(more.shares).for_each(|(sum, more)| *sum += more);
            sums.load.iter_mut().zip(more.load).for_each(|(sum, more)| *sum += more);
            sums.seen += more.seen;
            sums.refused += more.refused;
        }
    }

    /// Endpoints that get more traffic, the one that grows most first. The caller adds their names.
    #[must_use]
    pub fn growing(&self, requests: usize) -> Vec<TrafficShift> {
        let of = |(endpoint, sums): (&EndpointId, &Sums)| {
            let [before, after] = sums.shares.map(|sum| sum as f64 / UNIT);
            let [in_flight, knee] = sums.load.map(|sum| sum as f64 / UNIT / sums.seen.max(1) as f64);
            let factor = if before > 0.0 { after / before } else { f64::INFINITY };
            TrafficShift {
                endpoint: *endpoint,
                name: String::new(),
                shares: [before, after].map(|sum| sum / requests.max(1) as f64),
                factor,
                in_flight,
                would_be: sums.modelled.unwrap_or(if before > 0.0 { in_flight * factor } else { f64::INFINITY }),
                knee,
                was_limited: sums.refused > 0,
            }
        };
        let mut shifts: Vec<TrafficShift> =
            self.0.iter().map(of).filter(|shift| shift.shares[1] > shift.shares[0]).collect();
        shifts.sort_by(|one, other| other.factor.total_cmp(&one.factor).then(one.endpoint.cmp(&other.endpoint)));
        shifts
    }
}

impl TrafficShift {
    /// Whether the moved traffic is more than it carries before it slows down, or it refused requests. A request that arrives counts
    /// beside those in flight.
    #[must_use]
    pub fn is_beyond_limits(&self) -> bool {
        self.was_limited || self.would_be + 1.0 > self.knee
    }
}
