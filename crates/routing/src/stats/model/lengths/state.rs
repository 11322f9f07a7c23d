//! Saved state of the output lengths.
//!
//! Weights are kept in full: output lengths depend on the traffic, which a restart does not change.

use serde::{Deserialize, Serialize};

use super::{CLASSES, Length, MOST, OutputLengths};
use crate::stats::model::saved::{ImplausibleValue, weight, within};

/// Longest plausible answer, tokens.
const LONGEST: f64 = 1e9;

/// Mean output tokens of one class and their squared coefficient of variation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LengthState {
    mean: f64,
    weight: f64,
    spread: f64,
}

impl OutputLengths {
    /// State of a model for a later process; `None` without observations.
    pub(crate) fn export(&self, model: usize) -> Option<Vec<LengthState>> {
        let known: Option<Vec<&Length>> = self.classes.iter().map(|models| models.get(model)).collect();
        let known = known.filter(|classes| classes.iter().any(|length| length.weight > 0.0))?;
        let state = |&Length { mean, weight, spread, .. }: &Length| LengthState { mean, weight, spread };
        Some(known.into_iter().map(state).collect())
    }

    /// Restores the lengths of a model.
    pub(crate) fn restore(&mut self, model: usize, classes: &[LengthState]) -> Result<(), ImplausibleValue> {
        // The file was written with other classes.
        if classes.len() != CLASSES.len() + 1 {
            return Ok(());
        }
        let known = |LengthState { mean, weight: w, spread }: &LengthState| {
            Ok(Length::known(within(*mean, LONGEST)?, weight(*w)?.min(MOST), within(*spread, LONGEST)?))
        };
        // All classes or none.
        let fresh: Vec<Length> = classes.iter().map(known).collect::<Result<_, ImplausibleValue>>()?;
        for (models, length) in self.classes.iter_mut().zip(fresh) {
            if let Some(known) = models.get_mut(model) {
                *known = length;
            }
        }
        Ok(())
    }
}
