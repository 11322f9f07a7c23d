//! How long answers of a model are, by the limit the request set.

mod state;

pub(super) use state::LengthState;

use crate::domain::{Catalog, ModelId};

/// Upper ends of the classes of `max_tokens`; a fifth class holds larger and absent limits.
const CLASSES: [u32; 4] = [64, 256, 1024, 4096];
/// Expected tokens of an answer nobody has seen the like of, unless the request's limit is lower.
const COLD: f64 = 256.0;
/// Observations after which older ones fade.
const MOST: f64 = 40.0;
/// Standard deviation (ln) of the lengths of answers nobody has seen the like of; counts as one observation.
const COLD_SIGMA: f64 = 0.8;

/// Output tokens of the answers of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Length {
    mean: f64,
    weight: f64,
    /// Mean square of ln(tokens ÷ mean).
    spread: f64,
    /// Standard deviation of ln tokens, kept ready: every decision shows it, and none computes it.
    sigma: f64,
}

impl Default for Length {
    fn default() -> Length {
        Length { mean: 0.0, weight: 0.0, spread: 0.0, sigma: COLD_SIGMA }
    }
}

impl Length {
    fn known(mean: f64, weight: f64, spread: f64) -> Length {
        let variance = (spread * weight + COLD_SIGMA * COLD_SIGMA) / (weight + 1.0);
        Length { mean, weight, spread, sigma: variance.sqrt() }
    }
}

type Classes = [Length; CLASSES.len() + 1];

/// Expected output tokens per model (by position in the catalog) and class of `max_tokens`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutputLengths {
    models: Vec<Classes>,
}

impl OutputLengths {
    /// Room for every model of the catalog, nothing known.
    #[must_use]
    pub fn new(catalog: &Catalog) -> OutputLengths {
        OutputLengths { models: vec![Classes::default(); catalog.models.len()] }
    }

    /// Expected output tokens of a request of this class. One pseudo-observation of the cold value keeps a
    /// single odd answer from ruling.
    #[must_use]
    pub fn expected(&self, model: u32, class: LengthClass) -> f64 {
        let known = self.models.get(model as usize).and_then(|classes| classes.get(class.position));
        let Some(length) = known.filter(|length| length.weight > 0.0) else { return class.cold };
        ((length.mean * length.weight + class.cold) / (length.weight + 1.0)).min(class.most)
    }

    /// Standard deviation of ln output tokens of a request of this class.
    #[must_use]
    pub fn sigma(&self, model: u32, class: LengthClass) -> f64 {
        let known = self.models.get(model as usize).and_then(|classes| classes.get(class.position));
        known.map_or(COLD_SIGMA, |length| length.sigma)
    }

    /// Takes in that an answer of the model took this many tokens.
    pub fn observe(&mut self, model: u32, class: LengthClass, tokens: u32) {
        let known = self.models.get_mut(model as usize).and_then(|classes| classes.get_mut(class.position));
        let Some(length) = known else { return };
        let (weight, tokens) = ((length.weight + 1.0).min(MOST), f64::from(tokens));
        let mean = length.mean + (tokens - length.mean) / weight;
        let surprise = libm::log(tokens.max(1.0) / mean.max(1.0));
        let spread = length.spread + (surprise * surprise - length.spread) / weight;
        *length = Length::known(mean, weight, spread);
    }

    /// The same knowledge under the positions of another catalog.
    #[must_use]
    pub fn carried(&self, from: &Catalog, to: &Catalog) -> OutputLengths {
        let known = |id: &ModelId| from.models.iter().position(|model| model.id == *id);
        let models = to
            .models
            .iter()
            .map(|model| known(&model.id).and_then(|position| self.models.get(position)).copied().unwrap_or_default());
        OutputLengths { models: models.collect() }
    }
}

/// The class of a request's limit on output tokens; made once per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthClass {
    position: usize,
    most: f64,
    cold: f64,
}

impl LengthClass {
    /// The class of this limit.
    #[must_use]
    pub fn of(max_tokens: Option<u32>) -> LengthClass {
        let below = |limit: u32| CLASSES.iter().take_while(|end| limit > **end).count();
        let most = max_tokens.map_or(f64::INFINITY, f64::from);
        LengthClass { position: max_tokens.map_or(CLASSES.len(), below), most, cold: COLD.min(most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> OutputLengths {
        OutputLengths { models: vec![Classes::default(); 1] }
    }

    #[test]
    fn an_unknown_answer_is_expected_at_256_tokens_or_at_its_limit() {
        assert!((known().expected(0, LengthClass::of(None)) - 256.0).abs() < 1e-12);
        assert!((known().expected(0, LengthClass::of(Some(16))) - 16.0).abs() < 1e-12);
        assert!((known().expected(7, LengthClass::of(Some(9000))) - 256.0).abs() < 1e-12, "unknown model");
    }

    #[test]
    fn even_answers_narrow_the_spread_and_uneven_ones_widen_it() {
        let class = LengthClass::of(Some(1000));
        let (mut even, mut uneven) = (known(), known());
        assert!((even.sigma(0, class) - COLD_SIGMA).abs() < 1e-12 && (even.sigma(7, class) - COLD_SIGMA).abs() < 1e-12);
        (0..50).for_each(|_| even.observe(0, class, 300));
        (0..100).for_each(|n| uneven.observe(0, class, if n % 2 == 0 { 20 } else { 900 }));
        assert!(even.sigma(0, class) < 0.2, "{}", even.sigma(0, class));
        assert!(uneven.sigma(0, class) > 1.2, "{}", uneven.sigma(0, class));
    }

    #[test]
    fn classes_are_learned_apart_and_never_exceed_the_limit() {
        let mut lengths = known();
        (0..50).for_each(|_| lengths.observe(0, LengthClass::of(Some(1000)), 900));
        assert!(lengths.expected(0, LengthClass::of(Some(1000))) > 850.0);
        assert!((lengths.expected(0, LengthClass::of(Some(300))) - 300.0).abs() < 1e-12, "same class, lower limit");
        assert!((lengths.expected(0, LengthClass::of(Some(2000))) - 256.0).abs() < 1e-12, "another class");
    }
}
