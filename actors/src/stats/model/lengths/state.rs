//! What of the lengths of answers survives a restart.
//!
//! All of it: how long answers are says something about the traffic, which a restart does not change. Nothing reads
//! the weight as certainty; less of it would only pull the mean towards what is expected of an unknown model.

use serde::{Deserialize, Serialize};

use super::{CLASSES, Length, MOST, OutputLengths};
use crate::stats::model::saved::{ImplausibleValue, weight, within};

/// No answer is longer, tokens.
const LONGEST: f64 = 1e9;

/// Mean output tokens of one class, and their spread: the mean squared distance from it, relative to its square.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LengthState {
    mean: f64,
    weight: f64,
    spread: f64,
}

impl OutputLengths {
    /// What a later process should know of the model at a position; nothing when it never answered.
    pub(crate) fn export(&self, model: usize) -> Option<Vec<LengthState>> {
        let known: Option<Vec<&Length>> = self.classes.iter().map(|models| models.get(model)).collect();
        let known = known.filter(|classes| classes.iter().any(|length| length.weight > 0.0))?;
        let state = |&Length { mean, weight, spread, .. }: &Length| LengthState { mean, weight, spread };
        Some(known.into_iter().map(state).collect())
    }

    /// Goes on with the lengths of the model at a position as they were.
    pub(crate) fn restore(&mut self, model: usize, classes: &[LengthState]) -> Result<(), ImplausibleValue> {
        // Other classes are told apart now than were then.
        if classes.len() != CLASSES.len() + 1 {
            return Ok(());
        }
        let known = |LengthState { mean, weight: w, spread }: &LengthState| {
            Ok(Length::known(within(*mean, LONGEST)?, weight(*w)?.min(MOST), within(*spread, LONGEST)?))
        };
        // All or nothing.
        let fresh: Vec<Length> = classes.iter().map(known).collect::<Result<_, ImplausibleValue>>()?;
        for (models, length) in self.classes.iter_mut().zip(fresh) {
            if let Some(known) = models.get_mut(model) {
                *known = length;
            }
        }
        Ok(())
    }
}
