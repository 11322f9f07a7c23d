//! What of the prompt model survives a restart.

use serde::{Deserialize, Serialize};

use super::{PromptModel, SLOPES};
use crate::stats::model::saved::{ImplausibleValue, ln_mean, weight, within};

/// No squared deviation per observation is larger.
const LARGEST: f64 = 1e3;

/// What each of the tried slopes left unexplained.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PromptState {
    /// Mean and sum of squares per slope.
    by_slope: Vec<[f64; 2]>,
    evidence: f64,
    slope: f64,
}

impl PromptModel {
    /// What a later process should know.
    pub(crate) fn export(&self) -> PromptState {
        // Its weight is that of the sums it corrects.
        let PromptModel { means, squares, weight: _, evidence, slope } = self;
        let by_slope = means.iter().zip(squares).map(|(mean, squares)| [*mean, *squares]);
        PromptState { by_slope: by_slope.collect(), evidence: *evidence, slope: *slope }
    }

    /// The model as it was, its level resting on fewer observations, `weight`. What it knows of the slope is kept:
    /// a restart of the gateway does not change how an endpoint reads prompts.
    pub(crate) fn restored(state: &PromptState, level: f64) -> Result<PromptModel, ImplausibleValue> {
        let PromptState { by_slope, evidence, slope } = state;
        let most = SLOPES.last().copied().unwrap_or_default();
        // Other slopes are tried now than were then, or none were.
        if by_slope.len() != SLOPES.len() {
            return Ok(PromptModel::default());
        }
        let evidence = weight(*evidence)?;
        let mut model = PromptModel { weight: level, evidence, slope: within(*slope, 2.0 * most)?, ..<_>::default() };
        for ((mean, squares), [known, sum]) in model.means.iter_mut().zip(&mut model.squares).zip(by_slope) {
            (*mean, *squares) = (ln_mean(*known)?, within(*sum, LARGEST * evidence.max(1.0))?);
        }
        Ok(model)
    }
}
