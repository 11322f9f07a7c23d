//! "Why not X?" for a preview.
//!
//! A preview still has everything that the decision read, so a trial makes the whole decision again with the changed
//! figure. Baselines change with the figure, and a `what_if` with the same change gives the same choice.

use std::sync::Arc;

use pointsman_domain::{Decision, EndpointId, RouteError, Tick};

use super::{PREFERENCE_MISSED, Verdict, WhyNot, lost::figures, sentence::sentence, why_not, why_not_in};
use crate::explain::{
    counterfactual::{Figure, Trial, smallest, weights_at},
    hypothetical_stats::PredictionOverride,
    rescoring::leader,
    what_if::WhatIfWorld,
};
use crate::stats::EndpointStats;

/// Answers why `asked` is not the choice of `decided`, which was decided from `world`.
pub fn why_not_now(
    asked: &str,
    world: &WhatIfWorld,
    decided: &Result<Decision, RouteError>,
    now: Tick,
    seed: Option<u64>,
) -> WhyNot {
    let (catalog, policy) = (&world.snapshot.catalog, &world.snapshot.policy);
    let decision = match decided {
        Ok(decision) => decision,
        Err(error) => return why_not_in(asked, error, catalog),
    };
    let answer = why_not(asked, decision, policy, catalog);
    let Some((index, id)) = answer.about.filter(|_| can_change(&answer)) else {
        return answer;
    };
    let candidates = decision.candidates.iter().chain(&decision.rivals);
    let (Some(candidate), Some(stats)) = (
        candidates.into_iter().find(|candidate| candidate.endpoint == id),
        world.snapshot.endpoints.get(index as usize),
    ) else {
        return answer;
    };
    let (stats, cost, is_probe) = (stats.clone(), candidate.inputs.cost, candidate.probe);
    let mut trial = DecisionTrial { world: world.clone(), index, id, is_probe, stats, cost, now, seed };
    let answer = WhyNot { would_win_if: smallest(&figures(candidate, decision), &mut trial), ..answer };
    WhyNot { sentence: sentence(&answer, catalog), ..answer }
}

/// Whether another figure can change the result: the score decided, or a missed preference.
fn can_change(answer: &WhyNot) -> bool {
    answer.verdict == Verdict::Lost && (answer.margin.is_some() || answer.reason == PREFERENCE_MISSED)
}

/// Makes the whole decision again with one changed figure of one endpoint.
struct DecisionTrial {
    world: WhatIfWorld,
    index: u32,
    id: EndpointId,
    /// Whether the endpoint would be a probe.
    is_probe: bool,
    /// The unchanged statistics of the endpoint.
    stats: EndpointStats,
    cost: f64,
    now: Tick,
    seed: Option<u64>,
}

impl DecisionTrial {
    /// Whether the endpoint is the choice, or would be without a probe of another one.
    fn is_chosen(&self) -> bool {
        let decided = self.world.decide(self.now, self.seed);
        let is_chosen = |decision| leader(&decision, self.is_probe).is_some_and(|leader| leader.endpoint == self.id);
        decided.is_ok_and(is_chosen)
    }

    fn is_chosen_with_quality(&mut self, value: f64) -> bool {
        let table = Arc::clone(&self.world.snapshot.quality);
        self.world.override_quality(self.index, value);
        let chosen = self.is_chosen();
        self.world.snapshot.quality = table;
        chosen
    }

    fn is_chosen_with(&mut self, target: PredictionOverride) -> bool {
        self.world.override_prediction(target, self.index, self.now);
        let chosen = self.is_chosen();
        if let Some(stats) = self.world.snapshot.endpoints.get_mut(self.index as usize) {
            *stats = self.stats.clone();
        }
        chosen
    }
}

impl Trial for DecisionTrial {
    fn wins(&mut self, figure: Figure, value: f64) -> bool {
        match figure {
            Figure::Price => self.is_chosen_with(PredictionOverride::PriceFactor(value / self.cost)),
            Figure::FirstToken => self.is_chosen_with(PredictionOverride::FirstToken(value)),
            Figure::TokensPerSecond => self.is_chosen_with(PredictionOverride::TokensPerSecond(value)),
            Figure::FailureProbability => self.is_chosen_with(PredictionOverride::FailureProbability(value)),
            Figure::Quality => self.is_chosen_with_quality(value),
            Figure::LatencyWeight | Figure::QualityWeight => {
                let changed = weights_at(figure, value, self.world.query.weights);
                let weights = std::mem::replace(&mut self.world.query.weights, changed);
                let chosen = self.is_chosen();
                self.world.query.weights = weights;
                chosen
            }
        }
    }
}
