//! What a shadow would have chosen, summed up: how often it agrees, its moves, and what they were predicted to cost.

use std::collections::BTreeMap;

use pointsman_domain::{Decision, EndpointId, Generation, ShadowChoice};

use super::{calibration::Calibration, units};

/// Most pairs of choices that are told apart. Further ones count in the figures, as moves between endpoints without a name.
const MOST_MOVES: usize = 1_024;

/// Choices of one shadow beside those that served.
#[derive(Debug, Clone, Default)]
pub struct ShadowTally {
    /// Requests that it decided.
    pub decisions: u64,
    /// Requests for which it made the same choice.
    pub agreed: u64,
    /// Requests for which it would have had no endpoint.
    pub unserved: u64,
    /// By the choice that served and its own; `None` where no endpoint could serve, or for pairs beyond the bound.
    moves: BTreeMap<(Option<EndpointId>, Option<EndpointId>), Sums>,
}

/// Sums of one pair of choices: of the first and the second one.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    decisions: u64,
    /// Picodollars.
    cost: [i128; 2],
    /// Nanoseconds.
    first_token: [i128; 2],
    /// Trillionths.
    failure: [i128; 2],
}

/// Predicted means of a request, corrected by what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Predicted {
    /// Dollars.
    pub cost: f64,
    /// Seconds to the first token.
    pub first_token: f64,
    /// Probability that the first attempt fails.
    pub failure: f64,
}

/// Decisions that a shadow moves alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowMove {
    /// The choice that served.
    pub from: Option<EndpointId>,
    /// The shadow's choice.
    pub to: Option<EndpointId>,
    /// Their number.
    pub decisions: u64,
    /// Change of their cost, dollars.
    pub cost: f64,
}

impl ShadowTally {
    /// Counts a choice for this generation.
    pub fn add(&mut self, generation: &Generation, choice: &ShadowChoice) {
        let decision: &Decision = &generation.decision;
        let served = decision.plan().next();
        let to = choice.choice.and_then(|index| generation.catalog.endpoint(index)).map(|endpoint| endpoint.id);
        let mut pair = (served.map(|served| served.endpoint), to);
        self.decisions += 1;
        self.agreed += u64::from(pair.0 == pair.1);
        self.unserved += u64::from(to.is_none());
        if self.moves.len() >= MOST_MOVES && !self.moves.contains_key(&pair) {
            pair = (None, None);
        }
        let sums = self.moves.entry(pair).or_default();
        let predicted = served.map(|served| served.predicted);
        let both =
            |served: f64, shadow: f32, unit: fn(f64) -> i64| [served, f64::from(shadow)].map(unit).map(i128::from);
        sums.decisions += 1;
        add(&mut sums.cost, both(predicted.map_or(0.0, |it| it.cost), choice.cost, units::pico));
        let first_token = predicted.map_or(0.0, |it| it.first_token_p50);
        add(&mut sums.first_token, both(first_token, choice.first_token, units::nano));
        add(&mut sums.failure, both(predicted.map_or(0.0, |it| it.failure), choice.failure, units::pico));
    }

    /// Means of a request as it was served, and as the shadow would have sent it.
    pub fn predicted(&self, calibration: &Calibration) -> [Predicted; 2] {
        let mut sums = [Predicted::default(); 2];
        for ((from, to), moved) in &self.moves {
            for (at, endpoint) in [from, to].into_iter().enumerate() {
                let part = moved.calibrated(at, *endpoint, calibration);
                let Some(sum) = sums.get_mut(at) else { continue };
                sum.cost += part.cost;
                sum.first_token += part.first_token;
                sum.failure += part.failure;
            }
        }
        let decisions = units::count(self.decisions.max(1));
        sums.map(|sum| Predicted {
            cost: sum.cost / decisions,
            first_token: sum.first_token / decisions,
            failure: sum.failure / decisions,
        })
    }

    /// The moves, the most frequent first.
    pub fn moves(&self, calibration: &Calibration) -> Vec<ShadowMove> {
        let moved = self.moves.iter().filter(|((from, to), _)| from != to);
        let moved = moved.map(|((from, to), sums)| {
            let cost = |at, endpoint| sums.calibrated(at, endpoint, calibration).cost;
            ShadowMove { from: *from, to: *to, decisions: sums.decisions, cost: cost(1, *to) - cost(0, *from) }
        });
        let mut moves: Vec<ShadowMove> = moved.collect();
        moves.sort_by_key(|moved| std::cmp::Reverse(moved.decisions));
        moves
    }
}

impl Sums {
    /// The sums at one of both places, times what was measured by what was predicted.
    fn calibrated(&self, at: usize, endpoint: Option<EndpointId>, calibration: &Calibration) -> Predicted {
        let of = |both: [i128; 2]| both.get(at).copied().unwrap_or_default();
        let plain = Predicted {
            cost: units::from_pico(of(self.cost)),
            first_token: units::from_nano(of(self.first_token)),
            failure: units::from_pico(of(self.failure)),
        };
        let Some(endpoint) = endpoint else { return plain };
        let factors = calibration.factors(endpoint);
        Predicted {
            cost: plain.cost * factors.cost,
            first_token: plain.first_token * factors.first_token,
            failure: (plain.failure * factors.failure).min(units::count(self.decisions)),
        }
    }
}

fn add(sums: &mut [i128; 2], both: [i128; 2]) {
    for (sum, one) in sums.iter_mut().zip(both) {
        *sum += one;
    }
}
