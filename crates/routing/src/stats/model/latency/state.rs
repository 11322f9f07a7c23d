//! Saved state of the latency model.

use pointsman_domain::Tick;
use serde::{Deserialize, Serialize};

use super::{KNEES, LatencyModel, LoadSums, LongRun};
use crate::stats::model::{
    prior::Prior,
    prompt::{PromptModel, state::PromptState},
    saved::{ImplausibleValue, Restart, idle, ln_mean, trusted, weight, within},
};

/// Highest weight of the long-run mean after a restart, in observations.
const LONG_RUN_TRUST: f64 = 40.0;
/// Highest plausible sum per observation.
const LARGEST: f64 = 1e3;

/// Decayed sums as of the last observation.
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
    /// Sum of squared residuals and its weight.
    scatter: [f64; 2],
    /// Seconds since the last observation.
    idle_s: f64,
}

impl LatencyModel {
    /// State for a later process; `None` without observations.
    pub(crate) fn export(&self, now: Tick) -> Option<FirstTokenState> {
        // The fit follows from the sums. Surprises are not kept.
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

    /// The model with a lower weight.
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
            at: Some(restart.time_of(idle(idle_s)?)),
            ..LatencyModel::default()
        };
        // The file was written with other knees: the effect of load is learned anew.
        if by_knee.len() == KNEES.len() {
            for (sums, [x, xx, xy]) in model.by_knee.iter_mut().zip(by_knee) {
                within(xy.abs(), LARGEST * w)?;
                *sums = LoadSums { x: within(*x, LARGEST * w)?, xx: within(*xx, LARGEST * w)?, xy: *xy };
            }
        }
        // The fit of everything saved. Its own mean serves as the prior, so that repeated restarts do not shift it.
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
