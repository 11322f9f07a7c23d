//! What of the first-token model survives a restart.

use serde::{Deserialize, Serialize};

use super::{KNEES, LatencyModel, LoadSums, LongRun};
use crate::{
    domain::Tick,
    stats::{
        model::saved::{ImplausibleValue, Restart, idle, ln_mean, trusted, weight, within},
        model::{
            prior::Prior,
            prompt::{PromptModel, state::PromptState},
        },
    },
};

/// The most observations that the long-run mean counts for after a restart: enough not to be that of the first minute.
const LONG_RUN_TRUST: f64 = 40.0;
/// No sum per observation is larger: the squares of logarithms that can be.
const LARGEST: f64 = 1e3;

/// Decayed sums as they were after the last observation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FirstTokenState {
    weight: f64,
    y: f64,
    yy: f64,
    /// Sums of x, x·x and x·y per knee.
    by_knee: Vec<[f64; 3]>,
    highest_load: f64,
    prompt: PromptState,
    /// Mean and weight.
    long_run: [f64; 2],
    /// Sum of squares around what was expected, and its weight.
    scatter: [f64; 2],
    /// Seconds since the last observation.
    idle_s: f64,
}

impl LatencyModel {
    /// What a later process should know; nothing when nothing was observed.
    pub(crate) fn export(&self, now: Tick) -> Option<FirstTokenState> {
        // A fit follows from the sums; surprises are of the moment.
        let LatencyModel { weight, y, yy, by_knee, highest_load, shock: _, drift: _, prompt, long_run, fit: _, at } =
            self;
        Some(FirstTokenState {
            idle_s: now.seconds_since((*at)?),
            weight: *weight,
            y: *y,
            yy: *yy,
            by_knee: by_knee.iter().map(|LoadSums { x, xx, xy }| [*x, *xx, *xy]).collect(),
            highest_load: *highest_load,
            prompt: prompt.export(),
            long_run: [long_run.mean, long_run.weight],
            scatter: [long_run.squares, long_run.evidence],
        })
    }

    /// The model as it was, resting on fewer observations.
    pub(crate) fn restored(state: &FirstTokenState, restart: Restart) -> Result<LatencyModel, ImplausibleValue> {
        let FirstTokenState { weight: w, y, yy, ref by_knee, highest_load, ref prompt, long_run, scatter, idle_s } =
            *state;
        if weight(w)? == 0.0 {
            return Ok(LatencyModel::default());
        }
        let mean = ln_mean(y / w)?;
        let mut model = LatencyModel {
            weight: w,
            y,
            yy: within(yy, LARGEST * w)?,
            highest_load: weight(highest_load)?,
            prompt: PromptModel::restored(prompt, trusted(w) * w)?,
            long_run: LongRun::restored(long_run, scatter)?,
            at: Some(restart.moment(idle(idle_s)?)),
            ..LatencyModel::default()
        };
        // Other knees are searched now than were then: what is known of load is not.
        if by_knee.len() == KNEES.len() {
            for (sums, [x, xx, xy]) in model.by_knee.iter_mut().zip(by_knee) {
                within(xy.abs(), LARGEST * w)?;
                *sums = LoadSums { x: within(*x, LARGEST * w)?, xx: within(*xx, LARGEST * w)?, xy: *xy };
            }
        }
        // The fit of all that was known then; what comes now weighs against less. Its own mean serves as the prior,
        // so that restarts in a row do not pull it elsewhere.
        let prompt_slope = model.prompt.measured().unwrap_or_default();
        let fit = model.fitted(Prior { first_token: mean, prompt_slope, per_token: 0.0, failure: 0.0 });
        ln_mean(fit.intercept)?;
        model.fit = Some(fit);
        model.scale(trusted(w));
        Ok(model)
    }

    fn scale(&mut self, share: f64) {
        self.weight *= share;
        self.y *= share;
        self.yy *= share;
        for sums in &mut self.by_knee {
            *sums = LoadSums { x: share * sums.x, xx: share * sums.xx, xy: share * sums.xy };
        }
    }
}

impl LongRun {
    fn restored([mean, usual]: [f64; 2], [squares, evidence]: [f64; 2]) -> Result<LongRun, ImplausibleValue> {
        let evidence = weight(evidence)?;
        let kept = evidence.min(LONG_RUN_TRUST);
        let squares = within(squares, LARGEST * evidence)?;
        let squares = if evidence > 0.0 { squares * kept / evidence } else { 0.0 };
        Ok(LongRun { mean: ln_mean(mean)?, weight: weight(usual)?.min(LONG_RUN_TRUST), squares, evidence: kept })
    }
}
