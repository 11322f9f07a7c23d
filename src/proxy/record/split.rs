//! The part of a divided alias, with what a replay needs to find it again.

use std::sync::Arc;

use pointsman_domain::{AliasSplit, Canary, Guardrail, SplitPart, SplitShare, StickyBy, TakenSplit};
use serde::{Deserialize, Serialize};

use super::exact::Exact;

/// A part of a divided alias: the place among 65,536 and the shares give it again.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedSplit {
    /// Place of the request, 0 to 65535.
    place: u16,
    /// Weights of the shares of the alias.
    weights: Vec<Exact>,
    /// Share of its canary; `null` without one.
    canary: Option<Exact>,
    /// Whether the canary had fallen back.
    canary_stopped: bool,
    /// The part: `own`, `canary`, `rule 1`, `share 2`.
    part: String,
    /// Its probability.
    probability: Exact,
}

impl RecordedSplit {
    pub(super) fn new(taken: &TakenSplit) -> RecordedSplit {
        RecordedSplit {
            place: taken.place,
            weights: taken.split.shares.iter().map(|share| Exact(share.weight)).collect(),
            canary: taken.split.canary.as_ref().map(|canary| Exact(canary.share)),
            canary_stopped: taken.canary_stopped,
            part: taken.part.name(),
            probability: Exact(taken.probability),
        }
    }

    /// The part as far as a replay needs it. Names are not in the record.
    ///
    /// # Errors
    /// When this version does not know the part.
    pub(super) fn taken(&self) -> Result<Arc<TakenSplit>, String> {
        let share = |weight: &Exact| SplitShare { weight: weight.0, names: Vec::new() };
        let canary = |share: Exact| Canary { share: share.0, names: Vec::new(), guardrail: Guardrail::default() };
        Ok(Arc::new(TakenSplit {
            requested: Vec::new(),
            alias: 0,
            split: Arc::new(AliasSplit {
                sticky: StickyBy::Request,
                ladder: Vec::new(),
                rules: Vec::new(),
                canary: self.canary.map(canary),
                shares: self.weights.iter().map(share).collect(),
            }),
            sticky: StickyBy::Request,
            place: self.place,
            canary_stopped: self.canary_stopped,
            part: SplitPart::named(&self.part).ok_or_else(|| format!("the part '{}' is not known here", self.part))?,
            probability: self.probability.0,
        }))
    }
}
