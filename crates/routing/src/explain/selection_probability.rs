//! How likely each candidate of a recorded decision was to be chosen: computed, not counted over seeds.
//!
//! The noise of an endpoint is independent of that of the others, and the baselines are made without noise. So candidate `i` is
//! chosen with the probability
//!
//! ```text
//! P(i) = Σ P(Sᵢ = v) · Π P(Sⱼ > v)        v: the scores of i; j: its rivals; a tie counts where the plan prefers i
//! ```
//!
//! where `S` are equally likely scores, made from the quantile table that serving takes its noise from: from each of its 1,024
//! entries where the noise of one estimate matters, from 4,096 points of a lattice over them where that of several does.
//!
//! Uses the record of the decision only, as a replay does. Not for the hot path.

use pointsman_domain::{Decision, RoutingPolicy};

use super::rescoring::{Rescoring, rivals};
use crate::decide::{
    forecast::{Forecast, ForecastRules, PointForecast},
    noise::{ENTRIES, ESTIMATES, NoiseDraw},
    plan::{self, Ranked},
    score::Scoring,
    uncertainty::Uncertainty,
};

/// Points of the lattice, four in each stratum of the table.
const POINTS: usize = 4 * ENTRIES;
/// Generators of the lattice, (1, a, a²) modulo its points: of those whose shortest dual vector in any two dimensions is
/// longer than 60, the one where it is longest in three. The fourth one has the longest shortest dual vector with each of
/// them, 59.
const GENERATORS: [usize; ESTIMATES] = [1, 1201, 609, 995];

/// Sets `selection_probability` of every recorded candidate: that of the noise and that of a draw from the safe ones, times the probability of the part of a divided alias that the request
/// fell to. Candidates that the record omits do not compete.
pub fn fill_selection_probabilities(decision: &mut Decision, policy: &RoutingPolicy) {
    let probabilities = probabilities(decision, policy);
    let part = decision.split.as_ref().map_or(1.0, |taken| taken.probability);
    let recorded = decision.candidates.iter_mut().chain(&mut decision.rivals);
    let all = probabilities.into_iter().chain(std::iter::repeat(0.0));
    let (share, safe) = (decision.exploration_share, &decision.safe_set);
    recorded.zip(all).for_each(|(candidate, probability)| {
        let drawn = if safe.contains(&candidate.index) { share / safe.len() as f64 } else { 0.0 };
        candidate.selection_probability = Some(part * ((1.0 - share) * probability + drawn));
    });
}

/// The probabilities of the candidates that compete with the choice, in plan order.
fn probabilities(decision: &Decision, policy: &RoutingPolicy) -> Vec<f64> {
    if rivals(decision).count() < 2 || (policy.exploration <= 0.0 && decision.exploration_share <= 0.0) {
        // The seed cannot change a probe, a panic plan, a single candidate or a decision without exploration noise.
        return vec![1.0];
    }
    let rescoring = Rescoring::new(decision, policy);
    let competitors = rivals(decision).map(|rival| Competitor {
        ranked: rival,
        rules: rescoring.rules,
        scoring: rescoring.scoring,
        forecast: rescoring.forecast(rival, &rival.inputs),
        uncertainty: rescoring.rules.uncertainty_of(&rival.inputs),
        cost: rival.inputs.cost,
    });
    first_places(&competitors.collect::<Vec<_>>())
}

/// An endpoint that competes for the first place by its score alone.
pub(crate) struct Competitor<'a, R> {
    pub ranked: &'a R,
    pub rules: ForecastRules,
    pub scoring: Scoring,
    pub forecast: Forecast,
    pub uncertainty: Uncertainty,
    pub cost: f64,
}

/// The probability of each competitor to have the best score.
pub(crate) fn first_places<R: Ranked>(competitors: &[Competitor<'_, R>]) -> Vec<f64> {
    let ranges: Vec<(f64, f64)> = competitors.iter().map(Competitor::range).collect();
    let beaten = ranges.iter().map(|(_, most)| *most).fold(f64::INFINITY, f64::min);
    let scores: Vec<Scores<'_, R>> = competitors
        .iter()
        .zip(&ranges)
        .map(|(one, (least, most))| {
            let can_win = *least <= beaten || plan::is_tie(beaten, *least);
            // It never has the best score, so its distribution does not matter.
            let sorted = if can_win { one.equally_likely() } else { vec![*most] };
            Scores { candidate: one.ranked, can_win, sorted }
        })
        .collect();
    scores.iter().map(|own| if own.can_win { own.probability(&scores) } else { 0.0 }).collect()
}

impl<R> Competitor<'_, R> {
    /// The forecast with this entry of the table as the noise of every estimate.
    fn at_entry(&self, entry: usize) -> PointForecast {
        self.forecast.noiseless.with_noise(&self.rules, NoiseDraw::of_entry(entry), self.uncertainty)
    }

    /// The score where each estimate has the noise of another forecast.
    fn score(&self, [first_token, pace, failure, loss]: [&PointForecast; ESTIMATES]) -> f64 {
        let point = PointForecast {
            first_token: first_token.first_token,
            generation: pace.generation,
            failure: failure.failure,
            loss: loss.loss,
        };
        self.scoring.score_at(&point, &self.forecast, self.cost)
    }

    /// The least and the greatest score. The score rises or falls with the noise of each estimate, so both are at corners.
    fn range(&self) -> (f64, f64) {
        let ends = [0, ENTRIES - 1].map(|entry| self.at_entry(entry));
        let [low, high] = &ends;
        let end = |corner: usize, estimate: usize| if corner >> estimate & 1 == 0 { low } else { high };
        let corners = (0..1 << ESTIMATES).map(|corner| self.score(std::array::from_fn(|one| end(corner, one))));
        corners.fold((f64::INFINITY, 0.0), |(least, most), score| (score.min(least), score.max(most)))
    }

    /// Scores under evenly spread noise, ascending.
    fn equally_likely(&self) -> Vec<f64> {
        let forecasts: Vec<PointForecast> = (0..ENTRIES).map(|entry| self.at_entry(entry)).collect();
        let at = |entry: usize| forecasts.get(entry).unwrap_or(&self.forecast.noiseless);
        let [low, middle] = [0, ENTRIES / 2].map(at);
        let score_with =
            |estimate: usize| self.score(std::array::from_fn(|one| if one == estimate { low } else { middle }));
        let unmoved = self.score([middle; ESTIMATES]);
        let points = match (0..ESTIMATES).filter(|estimate| score_with(*estimate) != unmoved).count() {
            0 => 1,
            1 => ENTRIES,
            _ => POINTS,
        };
        let entries = |point: usize| {
            GENERATORS.map(|generator| if points == POINTS { point * generator % POINTS / 4 } else { point })
        };
        let mut scores: Vec<f64> = (0..points).map(|point| self.score(entries(point).map(at))).collect();
        scores.sort_unstable_by(f64::total_cmp);
        scores
    }
}

/// Equally likely scores of a candidate.
struct Scores<'a, R> {
    candidate: &'a R,
    can_win: bool,
    /// Ascending.
    sorted: Vec<f64>,
}

/// The scores of a rival, beside ascending scores of another candidate.
struct Rival<'s> {
    sorted: &'s [f64],
    /// Whether the plan prefers the other one in a tie.
    other_preferred: bool,
    /// Number of its scores that are better.
    wins: usize,
}

impl<R: Ranked> Scores<'_, R> {
    /// The probability that this candidate has the best score of `all`.
    fn probability(&self, all: &[Scores<'_, R>]) -> f64 {
        let own = self.candidate.key().endpoint;
        let rivals = all.iter().filter(|rival| rival.can_win && rival.candidate.key().endpoint != own);
        let mut rivals: Vec<Rival<'_>> = rivals
            .map(|rival| Rival {
                sorted: &rival.sorted,
                other_preferred: plan::tie_break(self.candidate, rival.candidate).is_lt(),
                wins: 0,
            })
            .collect();
        let won = self.sorted.iter().map(|own| rivals.iter_mut().map(|rival| rival.loses_to(*own)).product::<f64>());
        // A score that never wins is followed by none that does.
        won.take_while(|won| *won > 0.0).fold(0.0, |sum, won| sum + won) / self.sorted.len() as f64
    }
}

impl Rival<'_> {
    /// The probability of a score that loses to `other`, which is not below the one before; one that ties with it loses if the
    /// plan prefers the other.
    fn loses_to(&mut self, other: f64) -> f64 {
        let is_better = |own: &&f64| match self.other_preferred {
            true => **own < other && !plan::is_tie(**own, other),
            false => **own <= other || plan::is_tie(other, **own),
        };
        self.wins += self.sorted.iter().skip(self.wins).take_while(is_better).count();
        1.0 - self.wins as f64 / self.sorted.len() as f64
    }
}
