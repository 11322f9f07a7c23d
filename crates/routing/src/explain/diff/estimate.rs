//! What a tally says: figures before and after, their difference, and its interval.

use super::{
    bootstrap::{REPLICATES, interval},
    tally::Tally,
    units::{count, from_pico},
};

/// One of the integers that replicates sum.
const UNIT: f64 = 1e-11;

/// Fewer clusters give no interval.
pub const LEAST_CLUSTERS: usize = 30;

pointsman_domain::named! {
    /// A figure that is compared.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Metric {
        /// Dollars per thousand requests.
        Spend = "spend",
        /// Median of the seconds to the first token.
        FirstTokenP50 = "first_token_p50",
        /// 95th percentile of the same.
        FirstTokenP95 = "first_token_p95",
        /// Median of the seconds to the last byte.
        TotalP50 = "total_p50",
        /// Share of requests that fail for the client.
        Failures = "failures",
    }
}

impl Metric {
    /// Whether the difference is one of shares, not a share of the figure before.
    #[must_use]
    pub const fn is_absolute(self) -> bool {
        matches!(self, Metric::Failures)
    }
}

/// A figure before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Which.
    pub metric: Metric,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// The difference as a share of the figure before; of failures the difference itself. 0 if both are the same.
    pub delta: f64,
    /// Its 95 % interval; `None` with too few clusters.
    pub interval: Option<[f64; 2]>,
}

impl Tally {
    /// The figures that there are.
    pub fn estimates(&self) -> Vec<Estimate> {
        Metric::ALL.into_iter().filter_map(|metric| self.estimate(metric)).collect()
    }

    fn estimate(&self, metric: Metric) -> Option<Estimate> {
        let [before, after] = self.figures(metric)?;
        let has_interval = metric != Metric::TotalP50 && self.clusters().is_none_or(|count| count >= LEAST_CLUSTERS);
        let replicates = |replicate| {
            let [before, after] = self.replicate(metric, replicate)?;
            Some(difference(metric, before, after))
        };
        let interval = if has_interval { interval((0..REPLICATES).filter_map(replicates).collect()) } else { None };
        Some(Estimate { metric, before, after, delta: difference(metric, before, after), interval })
    }

    /// How far spending would be off if every uncertain choice before were the dearest one possible and every one after the
    /// cheapest, and the other way round: least and highest difference, as a share of the figure before. `None` if every choice
    /// is certain.
    pub fn spend_bounds(&self) -> Option<[f64; 2]> {
        let ([before, after], [[less, more], [least, most]]) = (self.cost, self.cost_bounds);
        let change = |to_before: i128, to_after: i128| {
            difference(Metric::Spend, from_pico(before + to_before), from_pico(after + to_after))
        };
        (self.cost_bounds != [[0; 2]; 2]).then(|| [change(more, least), change(less, most)])
    }

    fn figures(&self, metric: Metric) -> Option<[f64; 2]> {
        if self.summed == 0 {
            return None;
        }
        let requests = count(self.summed);
        let [before, after] = &self.first_token;
        let [total_before, total_after] = &self.total;
        match metric {
            Metric::Spend => Some(self.cost.map(|cost| from_pico(cost) / requests * 1_000.0)),
            Metric::Failures => Some(self.failure.map(|failure| from_pico(failure) / requests)),
            Metric::FirstTokenP50 => Some([before.quantile(0.5)?, after.quantile(0.5)?]),
            Metric::FirstTokenP95 => Some([before.quantile(0.95)?, after.quantile(0.95)?]),
            Metric::TotalP50 => Some([total_before.quantile(0.5)?, total_after.quantile(0.5)?]),
        }
    }

    fn replicate(&self, metric: Metric, replicate: usize) -> Option<[f64; 2]> {
        let [cost, new_cost, failure, new_failure, requests] = self.replicates.get(replicate)?.map(|sum| sum as f64);
        let [before, after] = &self.first_token_replicates;
        let at = |share| Some([before.quantile(replicate, share)?, after.quantile(replicate, share)?]);
        match metric {
            Metric::Spend => Some([cost, new_cost]),
            Metric::Failures => Some([failure, new_failure].map(|sum| sum * UNIT / requests)),
            Metric::FirstTokenP50 => at(0.5),
            Metric::FirstTokenP95 => at(0.95),
            Metric::TotalP50 => None,
        }
    }
}

fn difference(metric: Metric, before: f64, after: f64) -> f64 {
    if before.to_bits() == after.to_bits() {
        return 0.0;
    }
    if metric.is_absolute() { after - before } else { after / before - 1.0 }
}
