//! Reproducible chance: the same seed gives the same numbers, whatever else was drawn.

use pointsman_routing::stats::seeded_hash;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
    count: u64,
}

impl Dice {
    /// The stream of this seed that is named so. Streams of different names are independent.
    #[must_use]
    pub const fn new(seed: u64, name: u64) -> Dice {
        Dice { state: seeded_hash(seed, name), count: 0 }
    }

    /// Between 0 and 1, neither included.
    pub fn uniform(&mut self) -> f64 {
        self.count += 1;
        ((seeded_hash(self.state, self.count) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Evenly between two numbers.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Between two positive numbers, evenly in their logarithm.
    pub fn ratio(&mut self, low: f64, high: f64) -> f64 {
        libm::exp(self.between(libm::log(low), libm::log(high)))
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * libm::log(radius)).sqrt() * libm::cos(std::f64::consts::TAU * angle)
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.uniform())
    }
}
