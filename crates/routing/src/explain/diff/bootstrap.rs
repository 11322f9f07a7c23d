//! Intervals by the Poisson bootstrap: every cluster of decisions counts as often as a Poisson variable of mean 1 says, which
//! is drawn from a hash of the cluster. So it takes one pass, and the order of decisions changes nothing.

use crate::stats::seeded_hash;

/// Replicates.
pub(super) const REPLICATES: usize = 200;
/// Weights from one hash.
const PER_HASH: usize = 4;
/// Highest weight: more than 8 has a probability of 1 in a million.
const MOST: usize = 8;

/// Probabilities of at most 0, 1, … of a Poisson variable of mean 1, in 65,536ths.
const CUMULATED: [u16; MOST] = [24_109, 48_219, 60_273, 64_291, 65_296, 65_497, 65_530, 65_535];

/// How often a cluster counts in each replicate.
pub(super) fn weights(cluster: u64) -> [u32; REPLICATES] {
    let mut weights = [0; REPLICATES];
    for (hash, group) in (0_u64..).zip(weights.chunks_mut(PER_HASH)) {
        let bits = seeded_hash(cluster, hash);
        for (at, weight) in group.iter_mut().enumerate() {
            *weight = poisson((bits >> (16 * at)) as u16);
        }
    }
    weights
}

/// The central 95 % of the replicates.
pub(super) fn interval(mut replicates: Vec<f64>) -> Option<[f64; 2]> {
    replicates.retain(|value| value.is_finite());
    replicates.sort_unstable_by(f64::total_cmp);
    let cut = replicates.len() / 40;
    let least = replicates.get(cut)?;
    let most = replicates.get(replicates.len().checked_sub(cut + 1)?)?;
    Some([*least, *most])
}

/// A quantile of values as they are, and with weights: `(cluster, value, weight)`. The 95 % interval of the change between
/// them, as a share; `None` if there is none.
pub(crate) fn weighted_quantiles(mut all: Vec<(u64, f64, f64)>, share: f64) -> ([f64; 2], Option<[f64; 2]>) {
    all.sort_unstable_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
    let of = |weight: &dyn Fn(&(u64, f64, f64)) -> f64| {
        let (sum, mut passed) = (all.iter().map(weight).sum::<f64>(), 0.0);
        let is_reached = |one: &&(u64, f64, f64)| {
            passed += weight(one);
            passed >= share * sum && passed > 0.0
        };
        all.iter().find(is_reached).map_or(f64::NAN, |one| one.1)
    };
    let quantiles = [of(&|_| 1.0), of(&|one| one.2)];
    let change = |replicate: usize| {
        let times = |one: &(u64, f64, f64)| f64::from(weight(one.0, replicate));
        of(&|one| one.2 * times(one)) / of(&|one| times(one)) - 1.0
    };
    (quantiles, interval((0..REPLICATES).map(change).collect()))
}

/// How often a cluster counts in one replicate.
fn weight(cluster: u64, replicate: usize) -> u32 {
    let bits = seeded_hash(cluster, (replicate / PER_HASH) as u64);
    poisson((bits >> (16 * (replicate % PER_HASH))) as u16)
}

fn poisson(draw: u16) -> u32 {
    CUMULATED.iter().map(|limit| u32::from(draw > *limit)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_mean_and_variance_one() {
        let all: Vec<u32> = (0..2_000).flat_map(weights).collect();
        let count = all.len() as f64;
        let mean = all.iter().map(|weight| f64::from(*weight)).sum::<f64>() / count;
        let variance = all.iter().map(|weight| (f64::from(*weight) - mean).powi(2)).sum::<f64>() / count;
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert_eq!(weights(7), weights(7));
        assert_ne!(weights(7), weights(8));
    }

    #[test]
    fn an_interval_leaves_out_a_fortieth_on_either_side() {
        assert_eq!(interval((0..200).map(f64::from).collect()), Some([5.0, 194.0]));
        assert_eq!(interval(Vec::new()), None);
    }
}
