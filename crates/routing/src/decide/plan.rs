//! The order of the attempts.
//!
//! First the probe of a half-open breaker, then by target (unless models compete), by preference, by score. Ties are
//! broken by lower failure probability, lower cost, fewer requests in flight, then id, so that the order of the input
//! does not matter.
//!
//! Every later attempt goes to the candidate among the best eight with the least expected loss, `score × (1 + k ×
//! failure probability) × (2 at a provider that was tried already)`. `k` is the cost of a failure of that attempt
//! relative to its score. It is higher for the last attempt, whose failure the client sees. Both factors are bounded,
//! so that neither diversity nor caution pays any price.

use std::cmp::Ordering;

use pointsman_domain::EndpointId;

use super::{
    pooled_endpoint::{PooledEndpoint, Role},
    precedence::Precedence,
};

/// Relative difference up to which scores are equal.
const TIE: f64 = 1e-9;
/// Cost of a failure of a later attempt relative to its score, while another attempt is left ...
const LATER_RISK: f64 = 10.0;
/// ... and for the last attempt.
const LAST_RISK: f64 = 40.0;
/// Factor on the loss of an attempt at a provider that was tried already, because the provider may be the cause of the
/// failure. Bounded, so that diversity does not pay any price.
pub const SAME_PROVIDER: f64 = 2.0;

/// Number of best candidates among which later attempts are chosen and which are recorded with all figures.
const BEST: usize = 8;

/// That number for a plan with this many attempts: at least one more than these.
pub(crate) const fn best_ones(attempts: usize) -> usize {
    if attempts < BEST { BEST } else { attempts + 1 }
}

/// An ordered plan.
pub(crate) struct Plan<'r, 'a> {
    /// The candidates in the order of the attempts.
    pub order: Vec<&'r PooledEndpoint<'a>>,
    /// Number of attempts.
    pub attempts: u32,
    /// The choice without noise and without a draw, if one of them changed the choice.
    pub noiseless_best: Option<EndpointId>,
    /// Whether a prompt cache changed the choice.
    pub cache_decided: bool,
    /// Positions in the catalog of the endpoints that a draw could choose.
    pub safe_set: Vec<u32>,
    /// Probability of the draw.
    pub exploration_share: f64,
}

/// What an order is computed from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankKey {
    /// Rank before any score.
    pub precedence: Precedence,
    /// Rank within the same precedence: the score, or the time at which the gate opens. Never negative.
    pub rank: f64,
    pub failure: f64,
    pub cost: f64,
    pub in_flight: u32,
    pub endpoint: EndpointId,
    pub provider: u32,
    pub role: Role,
}

/// An endpoint of the pool in a decision, a recorded candidate in an explanation or a replay.
pub(crate) trait Ranked {
    fn key(&self) -> RankKey;

    /// What a plan is sorted by. Ranks are never negative, so their bits sort as they do.
    fn place(&self) -> (Precedence, u64) {
        let RankKey { precedence, rank, .. } = self.key();
        (precedence, rank.to_bits())
    }
}

impl Ranked for PooledEndpoint<'_> {
    #[inline]
    fn key(&self) -> RankKey {
        RankKey {
            precedence: self.precedence,
            rank: self.rank,
            failure: self.forecast.noiseless.failure,
            cost: self.live.cost,
            in_flight: self.live.in_flight,
            endpoint: self.endpoint(),
            provider: self.provider(),
            role: self.role,
        }
    }

    #[inline]
    fn place(&self) -> (Precedence, u64) {
        (self.precedence, self.rank.to_bits())
    }
}

/// Orders the candidates for this number of attempts. One that was drawn comes first.
pub(crate) fn settle<R: Ranked>(order: &mut [&R], attempts: u32, drawn: Option<EndpointId>) {
    // Of many, the places are worked out once each and lie side by side.
    order.sort_by_cached_key(|candidate| candidate.place());
    settle_ties(order);
    if let Some(drawn) = drawn {
        let position = order.iter().position(|candidate| candidate.key().endpoint == drawn);
        move_to_front(order, position);
    }
    let probe = order.iter().position(|candidate| candidate.key().role == Role::Probe);
    move_to_front(order, probe);
    choose_later_attempts(order, attempts as usize);
}

/// The first of the order that [`settle`] makes, without making it.
pub(crate) fn first<'r, R: Ranked>(ranked: impl Iterator<Item = &'r R> + Clone, drawn: Option<&'r R>) -> Option<&'r R> {
    let probes = ranked.clone().filter(|candidate| candidate.key().role == Role::Probe);
    first_by_rank(probes).or(drawn).or_else(|| first_by_rank(ranked))
}

fn first_by_rank<'r, R: Ranked>(ranked: impl Iterator<Item = &'r R> + Clone) -> Option<&'r R> {
    let first = ranked.clone().min_by_key(|candidate| candidate.place())?;
    let RankKey { precedence, rank: least, .. } = first.key();
    let tied = ranked.filter(|candidate| {
        let key = candidate.key();
        key.precedence == precedence && is_tie(least, key.rank)
    });
    // No rank ties with an infinite one, not even itself.
    tied.min_by(|a, b| tie_break(*a, *b)).or(Some(first))
}

/// Chooses every attempt after the first: of the best candidates the one with the least expected loss.
fn choose_later_attempts<R: Ranked>(order: &mut [&R], attempts: usize) {
    let best = best_ones(attempts).min(order.len());
    for position in 1..attempts.min(best) {
        let risk_weight = if position + 1 < attempts { LATER_RISK } else { LAST_RISK };
        let Some((tried, open)) = order.get_mut(..best).and_then(|best| best.split_at_mut_checked(position)) else {
            return;
        };
        let next = least_loss(tried, open, risk_weight);
        move_to_front(open, next);
    }
}

/// The best of those with the best precedence, with the tie-break of the plan. `scored` pairs candidates with scores.
pub(crate) fn best<'r, R: Ranked>(scored: impl Iterator<Item = (&'r R, f64)> + Clone) -> Option<&'r R> {
    let better = |(first, least): (Precedence, f64), (candidate, score): (&R, f64)| {
        let own = candidate.key().precedence;
        if own < first || (own == first && score < least) { (own, score) } else { (first, least) }
    };
    let (first, least) = scored.clone().fold((Precedence::NOBODY, f64::INFINITY), better);
    let tied = scored.filter(|(candidate, score)| is_tie(least, *score) && candidate.key().precedence == first);
    tied.map(|(candidate, _)| candidate).min_by(|a, b| tie_break(*a, *b))
}

/// Whether a score ties with the least one.
pub(crate) fn is_tie(least: f64, score: f64) -> bool {
    score - least <= TIE * score
}

/// The order of two whose scores tie.
pub(crate) fn tie_break<R: Ranked>(a: &R, b: &R) -> Ordering {
    let (a, b) = (a.key(), b.key());
    let by_figures = a.failure.total_cmp(&b.failure).then(a.cost.total_cmp(&b.cost));
    by_figures.then(a.in_flight.cmp(&b.in_flight)).then(a.endpoint.cmp(&b.endpoint))
}

/// Applies the tie-break to every run of scores that tie with the first of the run.
fn settle_ties<R: Ranked>(order: &mut [&R]) {
    let mut rest = order;
    while let Some(first) = rest.first().map(|first| first.key()) {
        let tied = |next: &&&R| next.key().precedence == first.precedence && is_tie(first.rank, next.key().rank);
        let length = rest.iter().take_while(tied).count().max(1);
        let Some((run, after)) = rest.split_at_mut_checked(length) else { return };
        if run.len() > 1 {
            run.sort_unstable_by(|a, b| tie_break(*a, *b));
        }
        rest = after;
    }
}

fn move_to_front<T>(order: &mut [T], position: Option<usize>) {
    if let Some(upto) = position.and_then(|position| order.get_mut(..=position)) {
        upto.rotate_right(1);
    }
}

/// Position in `open` of the candidate with the first one's precedence and the least expected loss, given the candidates
/// already tried. `None` if the first is a probe or past a refusing gate.
fn least_loss<R: Ranked>(tried: &[&R], open: &[&R], risk_weight: f64) -> Option<usize> {
    let first = open.first().map(|next| next.key()).filter(|next| next.role == Role::Candidate)?.precedence;
    let mut least: Option<(usize, f64)> = None;
    let ranked_alike = open.iter().map(|candidate| candidate.key()).take_while(|key| key.precedence == first);
    for (position, key) in ranked_alike.enumerate() {
        // No factor is below 1, so the rank alone shows that many are not the least.
        if key.role != Role::Candidate || least.is_some_and(|(_, loss)| key.rank >= loss) {
            continue;
        }
        let same_provider = tried.iter().any(|before| before.key().provider == key.provider);
        let diversity = if same_provider { SAME_PROVIDER } else { 1.0 };
        let loss = key.rank * (1.0 + risk_weight * key.failure) * diversity;
        if least.is_none_or(|(_, known)| loss < known) {
            least = Some((position, loss));
        }
    }
    least.map(|(position, _)| position)
}
