//! "Why not X?" of a decision that was made just now.
//!
//! Everything the decision read is still at hand, so a change is tried by making the whole decision again with it:
//! medians move with the changed figure, and what is found holds when it is imagined with a `what_if`.

use super::{PREFERENCE_MISSED, Verdict, WhyNot, figures, sentence::sentence, why_not, why_not_in};
use crate::explain::{
    counterfactual::{Figure, Trial, smallest},
    imagined::ImaginedPrediction,
    rescoring::leader,
    what_if::WhatIfWorld,
};
use crate::{
    domain::{Decision, EndpointId, RouteError, Tick, Weights},
    stats::EndpointStats,
};

/// Why `asked` is not the choice of what was `decided` in this world.
#[must_use]
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
    let Some((index, id)) = answer.about.filter(|_| may_be_turned(&answer)) else {
        return answer;
    };
    let candidates = decision.candidates.iter().chain(&decision.rivals);
    let (Some(candidate), Some(stats)) = (
        candidates.into_iter().find(|candidate| candidate.endpoint == id),
        world.snapshot.endpoints.get(index as usize),
    ) else {
        return answer;
    };
    let (stats, cost, probes) = (stats.clone(), candidate.inputs.cost, candidate.probe);
    let mut trial = Imagined { world: world.clone(), index, id, probes, stats, cost, now, seed };
    let answer = WhyNot { would_win_if: smallest(&figures(candidate, decision), &mut trial), ..answer };
    WhyNot { sentence: sentence(&answer, catalog), ..answer }
}

/// Whether a figure decided: its score, or a preference that one of its figures misses.
fn may_be_turned(answer: &WhyNot) -> bool {
    answer.verdict == Verdict::Lost && (answer.margin.is_some() || answer.reason == PREFERENCE_MISSED)
}

/// The whole decision again, with one figure of one endpoint changed.
struct Imagined {
    world: WhatIfWorld,
    index: u32,
    id: EndpointId,
    /// Whether it would be a probe itself.
    probes: bool,
    /// What is known of it, as it is.
    stats: EndpointStats,
    cost: f64,
    now: Tick,
    seed: Option<u64>,
}

impl Imagined {
    /// Whether it would be the choice now; whoever is probed goes first either way.
    fn is_chosen(&self) -> bool {
        let decided = self.world.decide(self.now, self.seed);
        let is_it = |decision| leader(&decision, self.probes).is_some_and(|leader| leader.endpoint == self.id);
        decided.is_ok_and(is_it)
    }

    fn is_chosen_with(&mut self, goal: ImaginedPrediction) -> bool {
        self.world.retarget(goal, self.index, self.now);
        let chosen = self.is_chosen();
        if let Some(stats) = self.world.snapshot.endpoints.get_mut(self.index as usize) {
            *stats = self.stats.clone();
        }
        chosen
    }
}

impl Trial for Imagined {
    fn wins(&mut self, figure: Figure, value: f64) -> bool {
        match figure {
            Figure::Price => self.is_chosen_with(ImaginedPrediction::PriceFactor(value / self.cost)),
            Figure::FirstToken => self.is_chosen_with(ImaginedPrediction::FirstToken(value)),
            Figure::TokensPerSecond => self.is_chosen_with(ImaginedPrediction::TokensPerSecond(value)),
            Figure::FailureProbability => self.is_chosen_with(ImaginedPrediction::FailureProbability(value)),
            Figure::LatencyWeight => {
                let weights =
                    std::mem::replace(&mut self.world.query.weights, Weights { latency: value, cost: 1.0 - value });
                let chosen = self.is_chosen();
                self.world.query.weights = weights;
                chosen
            }
        }
    }
}
