//! Saved state of the prompt model.

use serde::{Deserialize, Serialize};

use super::{PromptModel, SLOPES};
use crate::stats::model::saved::{ImplausibleValue, ln_mean, weight, within};

/// Highest plausible squared deviation per observation.
const LARGEST: f64 = 1e3;

/// Residuals of each candidate slope.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PromptState {
    /// Mean and sum of squares per slope.
    by_slope: Vec<[f64; 2]>,
    evidence: f64,
    slope: f64,
}

impl PromptModel {
    /// State for a later process.
    pub(crate) fn export(&self) -> PromptState {
        // Its weight is that of the sums it corrects.
        let PromptModel { means, squares, weight: _, evidence, slope } = self;
        let by_slope = means.iter().zip(squares).map(|(mean, squares)| [*mean, *squares]);
        PromptState { by_slope: by_slope.collect(), evidence: *evidence, slope: *slope }
    }

    /// The model, with the level at a lower `weight`. The evidence on the slope is kept in full: a restart of the
    /// gateway does not change how an endpoint reads prompts.
    pub(crate) fn restored(state: &PromptState, level: f64) -> Result<PromptModel, ImplausibleValue> {
        let PromptState { by_slope, evidence, slope } = state;
        let most = SLOPES.last().copied().unwrap_or_default();
        // The file was written with other slopes, or without any.
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
