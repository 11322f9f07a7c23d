//! Rules that know nothing.

use crate::{
    dice::Dice,
    rule::{Ask, Rule},
    world::ENDPOINTS,
};

/// Uniform, the order of fallbacks too: what a regret of 1 means.
pub struct Random(Dice);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Dice::new(seed, 0x4a4d))
    }
}

impl Rule for Random {
    fn choose(&mut self, _: &Ask<'_>) -> Vec<usize> {
        let draws: [f64; ENDPOINTS] = std::array::from_fn(|_| self.0.uniform());
        super::ranked(|endpoint| draws[endpoint])
    }
}

/// One after the other; the next ones are the fallbacks.
#[derive(Default)]
pub struct RoundRobin(usize);

impl Rule for RoundRobin {
    fn choose(&mut self, _: &Ask<'_>) -> Vec<usize> {
        self.0 += 1;
        (0..ENDPOINTS).map(|place| (self.0 + place) % ENDPOINTS).collect()
    }
}
