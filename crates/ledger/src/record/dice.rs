//! Any value of a type, for tests: what [`super::any`] and the codecs implement.

use pointsman_routing::decide::splitmix64;

/// Chance that repeats.
pub(super) struct Dice(pub u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        splitmix64(self.0)
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.roll() % choices.len() as u64) as usize]
    }
}

/// A type of which any value can be made.
pub(super) trait Any {
    fn any(dice: &mut Dice) -> Self;
}
