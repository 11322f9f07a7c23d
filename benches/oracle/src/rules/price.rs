//! Cheap endpoints in proportion to 1/price², those that had an outage in the last half minute last: OpenRouter.

use crate::{
    dice::Dice,
    rule::{Ask, News, Report, Rule},
    world::ENDPOINTS,
};

/// Seconds for which an outage is remembered.
const MEMORY: f64 = 30.0;

/// Inverse square of the price.
pub struct InverseSquare {
    dice: Dice,
    failed: [f64; ENDPOINTS],
}

impl InverseSquare {
    pub fn new(seed: u64) -> InverseSquare {
        InverseSquare { dice: Dice::new(seed, 0x9b1c), failed: [f64::NEG_INFINITY; ENDPOINTS] }
    }
}

impl Rule for InverseSquare {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        // The least of exponentials with these rates is drawn in proportion to the rates, and so is each next one.
        let typical = ask.typical.1;
        let draws: [f64; ENDPOINTS] = std::array::from_fn(|endpoint| {
            let relative = (ask.cost)(endpoint) / typical;
            let draw = self.dice.exponential(relative * relative);
            if ask.now - self.failed[endpoint] < MEMORY { 1e9 + draw } else { draw }
        });
        super::ranked(|endpoint| draws[endpoint])
    }

    fn heard(&mut self, report: &Report<'_>) {
        if matches!(report.news, News::Failed { .. }) {
            self.failed[report.endpoint] = report.now;
        }
    }
}
