//! Distributions of times, in buckets of 1.4 %.

use super::bootstrap::REPLICATES;

/// Buckets.
const BUCKETS: usize = 1024;
/// Lower end of the first bucket, seconds.
const LEAST: f64 = 1e-3;
/// ln of the ratio of the last bucket's end to the first one's beginning: from a millisecond to a quarter of an hour.
const SPAN: f64 = 13.8;

/// Counts of times.
#[derive(Debug, Clone)]
pub(super) struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(vec![0; BUCKETS])
    }
}

/// The same for each replicate, side by side in each bucket.
#[derive(Debug, Clone)]
pub(super) struct Replicates(Vec<u32>);

impl Default for Replicates {
    fn default() -> Replicates {
        Replicates(vec![0; BUCKETS * REPLICATES])
    }
}

impl Histogram {
    pub(super) fn add(&mut self, nanoseconds: i64) {
        if let Some(count) = self.0.get_mut(bucket(nanoseconds)) {
            *count += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }

    /// Seconds at this share of the counts.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        quantile(self.0.iter().copied(), share)
    }
}

impl Replicates {
    pub(super) fn add(&mut self, nanoseconds: i64, weights: &[u32; REPLICATES]) {
        let first = bucket(nanoseconds) * REPLICATES;
        if let Some(counts) = self.0.get_mut(first..first + REPLICATES) {
            counts.iter_mut().zip(weights).for_each(|(count, weight)| *count += weight);
        }
    }

    pub(super) fn merge(&mut self, other: &Replicates) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }

    /// Seconds at this share of the counts of a replicate.
    pub(super) fn quantile(&self, replicate: usize, share: f64) -> Option<f64> {
        quantile(self.0.iter().skip(replicate).step_by(REPLICATES).map(|count| u64::from(*count)), share)
    }
}

fn bucket(nanoseconds: i64) -> usize {
    let seconds = (nanoseconds.max(1) as f64 / 1e9).max(LEAST);
    let place = libm::log(seconds / LEAST) / SPAN * BUCKETS as f64;
    (place as usize).min(BUCKETS - 1)
}

fn quantile(counts: impl Iterator<Item = u64> + Clone, share: f64) -> Option<f64> {
    let all: u64 = counts.clone().sum();
    let wanted = share * all as f64;
    let mut below = 0.0;
    for (bucket, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
        let count = count as f64;
        if below + count >= wanted {
            let within = ((wanted - below) / count).clamp(0.0, 1.0);
            return Some(LEAST * libm::exp((bucket as f64 + within) / BUCKETS as f64 * SPAN));
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_found_within_a_bucket() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|ms| histogram.add(ms * 1_000_000));
        for (share, expected) in [(0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let found = histogram.quantile(share).unwrap();
            assert!((found / expected - 1.0).abs() < 0.014, "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
