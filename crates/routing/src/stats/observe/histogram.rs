//! Histogram of positive values and ratios, for reported figures. Decisions do not use it.
//!
//! Fixed logarithmic buckets 10 % apart: quantiles are within 5 %, and nearer where a bucket holds many values.
//! Histograms merge by addition, and one takes 800 bytes once used. Published sketches grow with their data or are more
//! precise than a health page needs.

/// Ratio of neighbouring bucket bounds.
const STEP: f64 = 1.1;
/// Its natural logarithm.
const LN_STEP: f64 = 0.095_310_179_804_324_93;
const BUCKETS: usize = 200;
/// Buckets below 1. The first one begins at 0.3 ms, the last one ends near 57 000, seconds or tokens per second.
const BELOW_ONE: i32 = 85;

/// Counts per bucket. Nothing is allocated before the first value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Histogram {
    buckets: Vec<u32>,
    count: u64,
}

impl Histogram {
    pub(crate) fn record(&mut self, value: f64) {
        self.count_in(Bucket::of(value));
    }

    /// Counts a value of this bucket, if it has one.
    pub(crate) fn count_in(&mut self, bucket: Option<Bucket>) {
        let Some(Bucket(bucket)) = bucket else { return };
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            *bucket = bucket.saturating_add(1);
            self.count += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        if other.buckets.is_empty() {
            return;
        }
        self.buckets.resize(BUCKETS, 0);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The value below which this share of the values lies, interpolated within its bucket; `None` without values.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.count as f64 * share).ceil().max(1.0);
        let mut below = 0.0;
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= rank {
                let position = bucket as f64 + (rank - below - 0.5) / count;
                return Some(libm::pow(STEP, position - f64::from(BELOW_ONE)));
            }
            below += count;
        }
        None
    }
}

/// The bucket of a value, for values that several histograms count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket(usize);

impl Bucket {
    /// `None` for a value that is not counted.
    pub(crate) fn of(value: f64) -> Option<Bucket> {
        if !value.is_finite() || value < 0.0 {
            return None;
        }
        let position = libm::log(value) / LN_STEP + f64::from(BELOW_ONE);
        Some(Bucket((position.max(0.0) as usize).min(BUCKETS - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_five_percent() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|i| histogram.record(f64::from(i) / 1000.0));
        for (share, exact) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99)] {
            let found = histogram.quantile(share).unwrap();
            assert!((found / exact - 1.0).abs() < 0.055, "{share}: {found}");
        }
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for i in 1..100 {
            let value = f64::from(i * i) / 50.0;
            if i % 3 == 0 {
                a.record(value)
            } else {
                b.record(value)
            }
            both.record(value);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn the_logarithm_of_a_step_is_written_exactly() {
        assert_eq!(LN_STEP.to_bits(), libm::log(STEP).to_bits());
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn extremes_fall_into_the_outer_buckets() {
        let mut histogram = Histogram::default();
        [0.0, 1e12, f64::NAN, -1.0].into_iter().for_each(|value| histogram.record(value));
        assert_eq!(histogram.count(), 2);
    }
}
