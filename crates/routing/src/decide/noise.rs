//! Reproducible exploration noise.
//!
//! The noise of an endpoint depends on the decision's seed and the endpoint's id alone, so that a replay has the
//! same noise whatever the other candidates are.

use std::sync::LazyLock;

use pointsman_domain::EndpointId;

use crate::stats::splitmix64;

/// Entries of the table that noise is taken from, equally likely.
pub(crate) const ENTRIES: usize = 1024;

/// Estimates with noise of their own.
pub(crate) const ESTIMATES: usize = 4;

/// Noise of one endpoint, in standard deviations of the uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct NoiseDraw {
    /// Of the time to the first token.
    pub first_token: f64,
    /// Of the time per output token.
    pub pace: f64,
    /// Of the failure probability.
    pub failure: f64,
    /// Of the probability that an answer is not acceptable.
    pub loss: f64,
}

impl NoiseDraw {
    /// With one entry of the table for every estimate.
    pub(crate) fn of_entry(entry: usize) -> NoiseDraw {
        let z = TABLE.at(entry as u64);
        NoiseDraw { first_token: z, pace: z, failure: z, loss: z }
    }
}

/// The noise of one decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    /// Hashed already, so that each endpoint costs one hash; `None` for no noise.
    seed: Option<u64>,
    table: &'static NormalTable,
}

impl Noise {
    /// The noise of this seed; 0 means none.
    pub(crate) fn new(seed: u64) -> Noise {
        Noise { seed: (seed != 0).then(|| splitmix64(seed)), table: &TABLE }
    }

    /// The noise of an endpoint: one hash, cut into four numbers.
    pub(crate) fn at(&self, endpoint: EndpointId) -> Option<NoiseDraw> {
        let draw = splitmix64(self.seed? ^ endpoint.0);
        let z = |shift: u32| self.table.at(draw >> shift);
        Some(NoiseDraw { first_token: z(0), pace: z(20), failure: z(40), loss: z(10) })
    }
}

/// Quantiles of the standard normal distribution at the midpoints of 1024 equal shares.
#[derive(Debug)]
struct NormalTable([f64; ENTRIES]);

/// Computed at its first use.
static TABLE: LazyLock<NormalTable> = LazyLock::new(NormalTable::computed);

impl NormalTable {
    fn at(&self, draw: u64) -> f64 {
        self.0.get(draw as usize % ENTRIES).copied().unwrap_or_default()
    }

    fn computed() -> NormalTable {
        NormalTable(std::array::from_fn(|entry| quantile((entry as f64 + 0.5) / ENTRIES as f64)))
    }
}

/// Standard normal distribution function.
pub(crate) fn normal_share(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// By bisection: slow, without magic numbers, and not for the hot path.
pub(crate) fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if normal_share(middle) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_symmetric_with_mean_zero_and_variance_one() {
        let table = &TABLE.0;
        let mean = table.iter().sum::<f64>() / ENTRIES as f64;
        let variance = table.iter().map(|z| z * z).sum::<f64>() / ENTRIES as f64;
        assert!(mean.abs() < 1e-9 && (variance - 1.0).abs() < 0.01, "{mean} {variance}");
        assert!((table[0] + table[ENTRIES - 1]).abs() < 1e-9);
        assert!(table.is_sorted());
    }

    #[test]
    fn quantiles_are_the_known_ones() {
        assert!((quantile(0.95) - 1.644_853_627).abs() < 1e-8);
        assert!(quantile(0.5).abs() < 1e-12);
        assert!((normal_share(1.0) - 0.841_344_746).abs() < 1e-8);
    }

    #[test]
    fn noise_depends_on_seed_and_endpoint_and_nothing_else() {
        let at = |seed, id| Noise::new(seed).at(EndpointId(id));
        let noise = |seed, id| at(seed, id).unwrap().first_token;
        assert_eq!(noise(7, 1).to_bits(), noise(7, 1).to_bits());
        assert_eq!(at(0, 1), None, "seed 0 is no noise");
        let mean = (1..4001).map(|seed| noise(seed, 1)).sum::<f64>() / 4000.0;
        assert!(mean.abs() < 0.06, "{mean}");
        let together = |seed| at(seed, 1).unwrap();
        let product = |draw: NoiseDraw| draw.first_token * (draw.pace + draw.loss) + draw.pace * draw.failure;
        let together = (1..4001).map(|seed| product(together(seed))).sum::<f64>() / 4000.0;
        assert!(together.abs() < 0.1, "the noise of one estimate is independent of the others: {together}");
    }
}
