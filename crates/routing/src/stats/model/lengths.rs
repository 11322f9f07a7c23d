//! Output length of a model's answers, by `max_tokens` of the request.

use pointsman_domain::Catalog;

pub(crate) mod state;

/// Upper bounds of the classes of `max_tokens`. A fifth class holds larger and absent limits.
const CLASSES: [u32; 4] = [64, 256, 1024, 4096];
/// Prior mean of output tokens, unless `max_tokens` is lower.
const COLD: f64 = 256.0;
/// Prior of the squared coefficient of variation.
const COLD_SPREAD: f64 = 0.3;
/// Highest weight, in observations; older ones decay.
const MOST: f64 = 40.0;

/// Output tokens of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Length {
    mean: f64,
    weight: f64,
    /// Squared coefficient of variation.
    spread: f64,
    /// Variance of ln tokens. Precomputed, like the next two, because every decision needs it.
    variance: f64,
    /// Share of the observations in the posterior mean, tokens.
    known: f64,
    /// Share of the prior in it: one pseudo-observation.
    cold: f64,
}

impl Default for Length {
    fn default() -> Length {
        Length::known(0.0, 0.0, 0.0)
    }
}

impl Length {
    fn known(mean: f64, weight: f64, spread: f64) -> Length {
        let variance = libm::log1p((spread * weight + COLD_SPREAD) / (weight + 1.0));
        let cold = 1.0 / (weight + 1.0);
        Length { mean, weight, spread, variance, known: mean * weight * cold, cold }
    }
}

/// Expected output tokens by class of `max_tokens` and by position of the model in the catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutputLengths {
    classes: [Vec<Length>; CLASSES.len() + 1],
}

impl OutputLengths {
    /// Without observations.
    pub fn new(catalog: &Catalog) -> OutputLengths {
        OutputLengths { classes: std::array::from_fn(|_| vec![Length::default(); catalog.models.len()]) }
    }

    /// The models' lengths in one class.
    pub fn of(&self, class: LengthClass) -> ClassLengths<'_> {
        ClassLengths { models: self.classes.get(class.position).map_or(&[], Vec::as_slice), class }
    }

    /// Adds an answer of this many tokens.
    pub fn observe(&mut self, model: u32, class: LengthClass, tokens: u32) {
        let known = self.classes.get_mut(class.position).and_then(|models| models.get_mut(model as usize));
        let Some(length) = known else { return };
        let weight = (length.weight + 1.0).min(MOST);
        let surprise = f64::from(tokens) - length.mean;
        let mean = length.mean + surprise / weight;
        let relative = surprise / mean.max(1.0);
        // The first answer has no deviation.
        let share = if weight > 1.0 { 1.0 / weight } else { 0.0 };
        let spread = length.spread + (relative * relative * (1.0 - share) - length.spread) * share;
        *length = Length::known(mean, weight, spread);
    }

    /// The same lengths in another catalog, whose models had these positions in this one.
    pub(crate) fn carried(&self, positions: &[Option<usize>]) -> OutputLengths {
        let carried = |models: &Vec<Length>| {
            let length = |position: &Option<usize>| position.and_then(|at| models.get(at)).copied().unwrap_or_default();
            positions.iter().map(length).collect()
        };
        OutputLengths { classes: self.classes.each_ref().map(carried) }
    }
}

/// Output lengths of one class.
#[derive(Debug, Clone, Copy)]
pub struct ClassLengths<'a> {
    /// By position in the catalog.
    models: &'a [Length],
    class: LengthClass,
}

impl ClassLengths<'_> {
    /// Expected output tokens of the model, limited by the request and the endpoint's longest answer, and the variance
    /// of their ln.
    pub fn expected(&self, model: u32, longest_answer: u32) -> (f64, f64) {
        let length = self.models.get(model as usize);
        let Length { known, cold, variance, .. } = length.copied().unwrap_or_default();
        let mean = known + cold * self.class.cold;
        let longest = f64::from(longest_answer);
        let most = if self.class.most < longest { self.class.most } else { longest };
        (if mean < most { mean } else { most }, variance)
    }
}

/// Class of `max_tokens`; computed once per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthClass {
    position: usize,
    most: f64,
    cold: f64,
}

impl LengthClass {
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
        OutputLengths { classes: std::array::from_fn(|_| vec![Length::default()]) }
    }

    fn expected(lengths: &OutputLengths, model: u32, longest_answer: u32, max_tokens: Option<u32>) -> f64 {
        lengths.of(LengthClass::of(max_tokens)).expected(model, longest_answer).0
    }

    #[test]
    fn an_unknown_answer_is_expected_at_256_tokens_or_at_its_limit() {
        assert!((expected(&known(), 0, u32::MAX, None) - 256.0).abs() < 1e-12);
        assert!((expected(&known(), 0, u32::MAX, Some(16)) - 16.0).abs() < 1e-12);
        assert!((expected(&known(), 7, u32::MAX, Some(9000)) - 256.0).abs() < 1e-12, "unknown model");
        assert!((expected(&known(), 0, 100, None) - 100.0).abs() < 1e-12, "the endpoint's limit");
    }

    #[test]
    fn the_spread_of_answers_is_learned() {
        let class = LengthClass::of(None);
        let variance = |answers: [u32; 2]| {
            let mut lengths = known();
            (0..100).for_each(|i| lengths.observe(0, class, answers[i % 2]));
            lengths.of(class).expected(0, u32::MAX).1
        };
        assert!(variance([100, 100]) < 0.02);
        assert!((variance([50, 150]) - 1.25_f64.ln()).abs() < 0.03, "{}", variance([50, 150]));
        assert!((known().of(class).expected(7, u32::MAX).1 - 1.3_f64.ln()).abs() < 1e-12, "unknown model");
    }

    #[test]
    fn classes_are_learned_apart_and_never_exceed_the_limit() {
        let mut lengths = known();
        (0..50).for_each(|_| lengths.observe(0, LengthClass::of(Some(1000)), 900));
        assert!(expected(&lengths, 0, u32::MAX, Some(1000)) > 850.0);
        assert!((expected(&lengths, 0, u32::MAX, Some(300)) - 300.0).abs() < 1e-12, "same class, lower limit");
        assert!((expected(&lengths, 0, u32::MAX, Some(2000)) - 256.0).abs() < 1e-12, "another class");
    }
}
