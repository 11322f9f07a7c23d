//! The better of two endpoints drawn at random, by peak EWMA times requests in flight: linkerd, tower, agentgateway.

use crate::{
    dice::Dice,
    rule::{Ask, News, Report, Rule},
    world::ENDPOINTS,
};

/// Time constant of the decay, seconds.
const DECAY: f64 = 10.0;
/// Seconds assumed at first, and seconds a failure counts as.
const ASSUMED: f64 = 1.0;
const FAILED: f64 = 10.0;

/// Power of two choices over a peak EWMA.
pub struct PeakEwma {
    dice: Dice,
    average: [f64; ENDPOINTS],
    at: [f64; ENDPOINTS],
}

impl PeakEwma {
    pub fn new(seed: u64) -> PeakEwma {
        PeakEwma { dice: Dice::new(seed, 0x2c2c), average: [ASSUMED; ENDPOINTS], at: [0.0; ENDPOINTS] }
    }

    fn load(&self, ask: &Ask<'_>, endpoint: usize) -> f64 {
        let faded = libm::exp(-(ask.now - self.at[endpoint]) / DECAY);
        self.average[endpoint] * faded * f64::from(ask.in_flight[endpoint] + 1)
    }
}

impl Rule for PeakEwma {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let draws: [f64; ENDPOINTS] = std::array::from_fn(|_| self.dice.uniform());
        let mut order = super::ranked(|endpoint| draws[endpoint]);
        // Each attempt takes the better of two of those that are left.
        for place in (0..ENDPOINTS - 1).step_by(2) {
            if self.load(ask, order[place + 1]) < self.load(ask, order[place]) {
                order.swap(place, place + 1);
            }
        }
        // The loser of a pair comes after the winner of the next.
        (0..ENDPOINTS).step_by(2).chain((1..ENDPOINTS).step_by(2)).map(|place| order[place]).collect()
    }

    fn heard(&mut self, report: &Report<'_>) {
        let time = match report.news {
            News::Completed => report.now - report.started,
            News::Failed { .. } => FAILED,
            News::Began | News::FirstToken | News::Cancelled => return,
        };
        let endpoint = report.endpoint;
        let old = libm::exp(-(report.now - self.at[endpoint]) / DECAY);
        let faded = old * self.average[endpoint];
        self.average[endpoint] = if time > faded { time } else { faded + (1.0 - old) * time };
        self.at[endpoint] = report.now;
    }
}
