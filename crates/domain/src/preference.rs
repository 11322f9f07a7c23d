use std::fmt;

use serde::{Deserialize, Serialize};

crate::named! {
    /// A percentile that a bound may be set on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Percentile {
        /// The median.
        P50 = "p50",
        /// Three quarters.
        P75 = "p75",
        /// Nine in ten.
        P90 = "p90",
        /// Nineteen in twenty.
        P95 = "p95",
        /// All but one in a hundred.
        P99 = "p99",
    }
}

impl Percentile {
    /// The share of answers that may miss the bound.
    #[must_use]
    pub const fn missable(self) -> f64 {
        match self {
            Percentile::P50 => 0.50,
            Percentile::P75 => 0.25,
            Percentile::P90 => 0.10,
            Percentile::P95 => 0.05,
            Percentile::P99 => 0.01,
        }
    }
}

/// A preference about a distribution, as bounds on some of its percentiles. Plain numbers mean p50.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Preference {
    /// Bound on the median.
    pub p50: Option<f64>,
    /// Bound on the 75th percentile.
    pub p75: Option<f64>,
    /// Bound on the 90th percentile.
    pub p90: Option<f64>,
    /// Bound on the 95th percentile.
    pub p95: Option<f64>,
    /// Bound on the 99th percentile.
    pub p99: Option<f64>,
}

/// Why bounds are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferenceFault {
    /// No bound is given.
    Empty,
    /// The bound on this percentile is not a number above 0.
    NotPositive(Percentile),
    /// Two bounds contradict each other.
    Contradiction {
        /// The lower percentile.
        lower: Percentile,
        /// The higher one.
        higher: Percentile,
        /// Whether the lower one's bound may not be above the higher one's (a latency), or not below it (a rate).
        rises: bool,
    },
}

impl fmt::Display for PreferenceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreferenceFault::Empty => f.write_str("names none of p50, p75, p90, p95, p99"),
            PreferenceFault::NotPositive(percentile) => write!(f, "{} must be above 0", percentile.as_str()),
            PreferenceFault::Contradiction { lower, higher, rises } => {
                let order = if *rises { "above" } else { "below" };
                write!(f, "{} may not be {order} {}", lower.as_str(), higher.as_str())
            }
        }
    }
}

impl Preference {
    /// A bound on the median alone.
    pub fn median(bound: f64) -> Preference {
        Preference { p50: Some(bound), ..Preference::default() }
    }

    /// The bound on a percentile.
    pub const fn bound(&self, percentile: Percentile) -> Option<f64> {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P75 => self.p75,
            Percentile::P90 => self.p90,
            Percentile::P95 => self.p95,
            Percentile::P99 => self.p99,
        }
    }

    /// The bounds that were given, the lowest percentile first.
    pub fn bounds(&self) -> impl Iterator<Item = (Percentile, f64)> {
        Percentile::ALL.into_iter().filter_map(|percentile| Some((percentile, self.bound(percentile)?)))
    }

    /// Checks the preference as bounds on a latency, which must not fall with the percentile.
    pub fn latency_fault(&self) -> Option<PreferenceFault> {
        self.fault(true)
    }

    /// Checks the preference as bounds on a throughput, which must not rise with the percentile: p95 is reached by 95 %
    /// of the answers.
    pub fn throughput_fault(&self) -> Option<PreferenceFault> {
        self.fault(false)
    }

    fn fault(&self, rises: bool) -> Option<PreferenceFault> {
        let mut before: Option<(Percentile, f64)> = None;
        for (percentile, bound) in self.bounds() {
            if !(bound.is_finite() && bound > 0.0) {
                return Some(PreferenceFault::NotPositive(percentile));
            }
            if let Some((lower, least)) = before
                && (if rises { least > bound } else { least < bound })
            {
                return Some(PreferenceFault::Contradiction { lower, higher: percentile, rises });
            }
            before = Some((percentile, bound));
        }
        before.is_none().then_some(PreferenceFault::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_must_be_there_be_positive_and_agree() {
        let none = Preference::default();
        let both = |p50, p95| Preference { p50: Some(p50), p95: Some(p95), ..none };
        let said = |fault: Option<PreferenceFault>| fault.map(|fault| fault.to_string()).unwrap_or_default();
        for (preference, latency, throughput) in [
            (none, "names none of p50, p75, p90, p95, p99", "names none of p50, p75, p90, p95, p99"),
            (Preference::median(0.5), "", ""),
            (Preference::median(0.0), "p50 must be above 0", "p50 must be above 0"),
            (Preference::median(-1.0), "p50 must be above 0", "p50 must be above 0"),
            (Preference::median(f64::NAN), "p50 must be above 0", "p50 must be above 0"),
            (Preference::median(f64::INFINITY), "p50 must be above 0", "p50 must be above 0"),
            (both(0.5, 0.5), "", ""),
            (both(0.5, 0.8), "", "p50 may not be below p95"),
            (both(0.8, 0.5), "p50 may not be above p95", ""),
        ] {
            assert_eq!(said(preference.latency_fault()), latency, "{preference:?}");
            assert_eq!(said(preference.throughput_fault()), throughput, "{preference:?}");
        }
    }
}
