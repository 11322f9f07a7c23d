//! How many tokens a prompt really has, per token that it was estimated to have.
//!
//! The estimate counts bytes and is meant to be too high, because a prompt that does not fit is an error. What a prompt
//! costs and how long it takes to read follows from what providers count: tokenisers differ between models, so this is
//! learned per model, from the usage that answers come with.

use serde::{Deserialize, Serialize};

use super::saved::{ImplausibleValue, weight, within};
use crate::domain::{Catalog, ModelId};

/// Observations that the estimate itself counts as: a quarter, so that a few answers outweigh it.
const PRIOR_WEIGHT: f64 = 0.25;
/// Variance of ln of the ratio where nothing was observed.
const PRIOR_VARIANCE: f64 = 0.1;
/// Observations after which older ones fade.
const MOST: f64 = 40.0;
/// No ratio is further from 1, as ln: twenty times as many, or as few.
const FURTHEST: f64 = 3.0;

/// The ratio at one model.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    /// Mean ln of counted over estimated tokens.
    mean: f64,
    weight: f64,
    /// Mean squared distance from the mean.
    spread: f64,
    /// Kept ready, because every decision needs it.
    scale: PromptScale,
}

/// What an estimate is multiplied with, and how far the truth is from that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptScale {
    /// Prompt tokens per estimated one.
    pub factor: f64,
    /// Variance of ln of that from request to request.
    pub variance: f64,
}

impl Default for PromptScale {
    fn default() -> PromptScale {
        PromptScale { factor: 1.0, variance: PRIOR_VARIANCE }
    }
}

impl PromptScale {
    /// Prompt tokens of a request with so many estimated ones.
    #[must_use]
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

/// The ratio at each model, by position in the catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptScales(Vec<Ratio>);

/// What of one ratio survives a restart. Like the lengths of answers it is a matter of the traffic and the model, not of
/// how an endpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PromptScaleState {
    ln_ratio: f64,
    weight: f64,
    spread: f64,
}

impl PromptScales {
    /// Room for every model of the catalog, nothing known.
    #[must_use]
    pub fn new(catalog: &Catalog) -> PromptScales {
        PromptScales(vec![Ratio::default(); catalog.models.len()])
    }

    /// That of the model at a position.
    #[must_use]
    #[inline]
    pub fn of(&self, model: u32) -> PromptScale {
        self.0.get(model as usize).map_or_else(PromptScale::default, |ratio| ratio.scale)
    }

    /// Takes in that a prompt had so many tokens per estimated one.
    pub fn observe(&mut self, model: u32, ratio: f64) {
        let Some(known) = self.0.get_mut(model as usize).filter(|_| ratio > 0.0) else { return };
        let weight = (known.weight + 1.0).min(MOST);
        let surprise = libm::log(ratio).clamp(-FURTHEST, FURTHEST) - known.mean;
        let share = 1.0 / weight;
        // The first one shows no spread.
        let shown = if weight > 1.0 { share } else { 0.0 };
        let spread = known.spread + (surprise * surprise * (1.0 - share) - known.spread) * shown;
        *known = Ratio::known(known.mean + surprise * share, weight, spread);
    }

    /// The same knowledge under the positions of another catalog.
    #[must_use]
    pub fn carried(&self, from: &Catalog, to: &Catalog) -> PromptScales {
        let position = |id: &ModelId| from.models.iter().position(|model| model.id == *id);
        let known = |id: &ModelId| self.0.get(position(id)?).copied();
        PromptScales(to.models.iter().map(|model| known(&model.id).unwrap_or_default()).collect())
    }

    /// What a later process should know of the model at a position; nothing when nothing was observed.
    pub(crate) fn export(&self, model: usize) -> Option<PromptScaleState> {
        let Ratio { mean, weight, spread, scale: _ } = *self.0.get(model).filter(|ratio| ratio.weight > 0.0)?;
        Some(PromptScaleState { ln_ratio: mean, weight, spread })
    }

    /// Goes on with the ratio of the model at a position as it was.
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
    fn the_scatter_is_learned_and_a_change_is_followed() {
        let variance = |ratios: [f64; 2]| scales(&ratios.repeat(50)).of(0).variance;
        assert!(variance([0.7, 0.7]) < 0.001);
        assert!((variance([0.5, 1.0]) - (0.5 * 2.0_f64.ln()).powi(2)).abs() < 0.02, "{}", variance([0.5, 1.0]));
        let changed = [[0.7; 100], [1.4; 100]].concat();
        assert!((scales(&changed).of(0).factor - 1.4).abs() < 0.1);
    }

    #[test]
    fn it_survives_a_restart_unless_it_cannot_be_true() {
        let known = scales(&[0.7, 0.8, 0.75]);
        let mut fresh = scales(&[]);
        fresh.restore(0, known.export(0).unwrap()).unwrap();
        assert_eq!(fresh, known);
        let odd = PromptScaleState { ln_ratio: 9.0, weight: 1.0, spread: 0.0 };
        assert!(fresh.restore(0, odd).is_err() && fresh == known);
        assert_eq!(scales(&[]).export(0), None);
    }
}
