//! Prompt tokens per estimated prompt token.
//!
//! The gateway estimates tokens from bytes, rather too high, because a prompt that does not fit is an error. Cost
//! and latency depend on what the provider counts. Tokenizers differ between models, so the ratio is learned per model
//! from the usage in answers.

use pointsman_domain::Catalog;
use serde::{Deserialize, Serialize};

use super::saved::{ImplausibleValue, weight, within};

/// Weight of the prior ratio 1, in observations: low, so that a few answers outweigh it.
const PRIOR_WEIGHT: f64 = 0.25;
/// Prior variance of ln of the ratio.
const PRIOR_VARIANCE: f64 = 0.1;
/// Highest weight, in observations; older ones decay.
const MOST: f64 = 40.0;
/// Limit of |ln ratio|: a factor of twenty.
const FURTHEST: f64 = 3.0;

/// The ratio of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    /// Mean of ln of counted over estimated tokens.
    mean: f64,
    weight: f64,
    /// Variance of the observations.
    spread: f64,
    /// Precomputed, because every decision needs it.
    scale: PromptScale,
}

/// Correction of an estimate and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptScale {
    /// Prompt tokens per estimated one.
    pub factor: f64,
    /// Variance of its ln from request to request.
    pub variance: f64,
}

impl Default for PromptScale {
    fn default() -> PromptScale {
        PromptScale { factor: 1.0, variance: PRIOR_VARIANCE }
    }
}

impl PromptScale {
    /// Expected prompt tokens.
    #[inline]
    pub fn tokens(self, estimated: f64) -> f64 {
        estimated * self.factor
    }
}

impl Default for Ratio {
    fn default() -> Ratio {
        Ratio { mean: 0.0, weight: 0.0, spread: 0.0, scale: PromptScale::default() }
    }
}

impl Ratio {
    fn known(mean: f64, weight: f64, spread: f64) -> Ratio {
        let sum = weight + PRIOR_WEIGHT;
        let variance = (spread * weight + PRIOR_VARIANCE * PRIOR_WEIGHT) / sum;
        Ratio { mean, weight, spread, scale: PromptScale { factor: libm::exp(mean * weight / sum), variance } }
    }
}

/// The ratios by position of the model in the catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptScales(Vec<Ratio>);

/// Saved state of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PromptScaleState {
    ln_ratio: f64,
    weight: f64,
    spread: f64,
}

impl PromptScales {
    /// Without observations.
    pub fn new(catalog: &Catalog) -> PromptScales {
        PromptScales(vec![Ratio::default(); catalog.models.len()])
    }

    /// The correction for a model.
    #[inline]
    pub fn of(&self, model: u32) -> PromptScale {
        self.0.get(model as usize).map_or_else(PromptScale::default, |ratio| ratio.scale)
    }

    /// Adds a ratio of counted to estimated tokens.
    pub fn observe(&mut self, model: u32, ratio: f64) {
        let Some(known) = self.0.get_mut(model as usize).filter(|_| ratio > 0.0) else { return };
        let weight = (known.weight + 1.0).min(MOST);
        let surprise = libm::log(ratio).clamp(-FURTHEST, FURTHEST) - known.mean;
        let share = 1.0 / weight;
        // The first ratio has no deviation.
        let shown = if weight > 1.0 { share } else { 0.0 };
        let spread = known.spread + (surprise * surprise * (1.0 - share) - known.spread) * shown;
        *known = Ratio::known(known.mean + surprise * share, weight, spread);
    }

    /// The same ratios in another catalog, whose models had these positions in this one.
    pub(crate) fn carried(&self, positions: &[Option<usize>]) -> PromptScales {
        let ratio = |position: &Option<usize>| position.and_then(|at| self.0.get(at)).copied().unwrap_or_default();
        PromptScales(positions.iter().map(ratio).collect())
    }

    /// State of a model for a later process; `None` without observations.
    pub(crate) fn export(&self, model: usize) -> Option<PromptScaleState> {
        let Ratio { mean, weight, spread, scale: _ } = *self.0.get(model).filter(|ratio| ratio.weight > 0.0)?;
        Some(PromptScaleState { ln_ratio: mean, weight, spread })
    }

    /// Restores the ratio of a model.
    pub(crate) fn restore(&mut self, model: usize, state: PromptScaleState) -> Result<(), ImplausibleValue> {
        let PromptScaleState { ln_ratio, weight: w, spread } = state;
        let _ = within(ln_ratio.abs(), FURTHEST)?;
        let known = Ratio::known(ln_ratio, weight(w)?.min(MOST), within(spread, FURTHEST * FURTHEST)?);
        if let Some(ratio) = self.0.get_mut(model) {
            *ratio = known;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scales(ratios: &[f64]) -> PromptScales {
        let mut scales = PromptScales(vec![Ratio::default()]);
        ratios.iter().for_each(|ratio| scales.observe(0, *ratio));
        scales
    }

    #[test]
    fn nothing_observed_leaves_the_estimate_as_it_is() {
        assert!((scales(&[]).of(0).tokens(812.0) - 812.0).abs() < 1e-9);
        assert!((scales(&[0.7]).of(7).factor - 1.0).abs() < 1e-12, "unknown model");
        assert_eq!(scales(&[0.0, f64::NAN]), scales(&[]), "no ratio at all");
    }

    #[test]
    fn a_few_answers_correct_an_estimate_that_is_always_too_high() {
        let factor = scales(&[0.7; 5]).of(0).factor;
        assert!((factor / 0.7 - 1.0).abs() < 0.03, "{factor}");
    }

    #[test]
    fn the_variance_is_learned_and_a_change_is_followed() {
        let variance = |ratios: [f64; 2]| scales(&ratios.repeat(50)).of(0).variance;
        assert!(variance([0.7, 0.7]) < 0.001);
        assert!((variance([0.5, 1.0]) - (0.5 * 2.0_f64.ln()).powi(2)).abs() < 0.02, "{}", variance([0.5, 1.0]));
        let changed = [[0.7; 100], [1.4; 100]].concat();
        assert!((scales(&changed).of(0).factor - 1.4).abs() < 0.1);
    }

    #[test]
    fn a_ratio_survives_a_restart_unless_it_is_implausible() {
        let known = scales(&[0.7, 0.8, 0.75]);
        let mut fresh = scales(&[]);
        fresh.restore(0, known.export(0).unwrap()).unwrap();
        assert_eq!(fresh, known);
        let odd = PromptScaleState { ln_ratio: 9.0, weight: 1.0, spread: 0.0 };
        assert!(fresh.restore(0, odd).is_err() && fresh == known);
        assert_eq!(scales(&[]).export(0), None);
    }
}
