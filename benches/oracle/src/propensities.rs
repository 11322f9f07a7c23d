//! Whether the probabilities of choices, which are computed, are the shares with which seeds make them.

use std::{collections::BTreeMap, fmt};

use pointsman_domain::{Decision, EndpointId, RoutingPolicy};
use pointsman_routing::explain::{fill_selection_probabilities, replay};

use crate::{request::Aim, rules, table::Plan, world::World};

/// Standard errors by which a share may be off.
const MOST_ERRORS: f64 = 4.0;

/// What the seeds say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Checked {
    /// Decisions.
    pub decisions: usize,
    /// Their candidates that some seed could choose.
    pub candidates: usize,
    /// Candidates whose share is off by more than four standard errors.
    pub off: usize,
    /// The furthest, in standard errors.
    pub furthest: f64,
    /// By how much the probabilities of a decision miss 1, at most.
    pub sum_off: f64,
}

/// Makes so many decisions of each single objective again, each with so many seeds.
#[must_use]
pub fn run(plan: &Plan, decisions: usize, seeds: u64) -> Checked {
    let mut checked = Checked::default();
    for aim in plan.aims.iter().filter(|aim| matches!(aim, Aim::All(_))) {
        let worlds = plan.scenarios.len().max(1);
        for scenario in &plan.scenarios {
            let world = World::with(plan.traffic, *scenario, *aim, plan.seeds.first().copied().unwrap_or_default());
            let (left, seen) = (decisions.div_ceil(worlds), world.requests.len());
            let (kept, policy) = rules::decisions(&world, plan.policy.clone(), (seen / left.max(1)).max(1));
            kept.iter().take(left).for_each(|decision| checked.add(decision, &policy, seeds));
        }
    }
    checked
}

impl Checked {
    fn add(&mut self, decision: &Decision, policy: &RoutingPolicy, seeds: u64) {
        let mut told = decision.clone();
        fill_selection_probabilities(&mut told, policy);
        let mut chosen: BTreeMap<EndpointId, u64> = BTreeMap::new();
        let mut again = decision.clone();
        for seed in 1..=seeds {
            again.seed = seed;
            replay(&again, policy).order.first().into_iter().for_each(|first| *chosen.entry(*first).or_default() += 1);
        }
        let mut sum = 0.0;
        for candidate in told.candidates.iter().chain(&told.rivals) {
            let probability = candidate.selection_probability.unwrap_or_default();
            let share = chosen.get(&candidate.endpoint).copied().unwrap_or_default() as f64 / seeds as f64;
            sum += probability;
            self.compare(probability, share, seeds as f64);
        }
        self.decisions += 1;
        self.sum_off = self.sum_off.max((sum - 1.0).abs());
    }

    fn compare(&mut self, probability: f64, share: f64, seeds: f64) {
        let off = (share - probability).abs();
        // Rarer than once in all seeds: its share is 0 or 1 of these, with nothing between.
        let error = (probability * (1.0 - probability) / seeds).sqrt().max(0.5 / seeds);
        self.candidates += usize::from(probability > 0.0 || share > 0.0);
        self.off += usize::from(off > MOST_ERRORS * error);
        self.furthest = self.furthest.max(off / error);
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { decisions, candidates, off, furthest, sum_off } = self;
        writeln!(
            out,
            "{off} of {candidates} probabilities of {decisions} decisions are off by more than {MOST_ERRORS} standard errors \
             (furthest {furthest:.1}); sums miss 1 by {sum_off:.0e} at most"
        )
    }
}
