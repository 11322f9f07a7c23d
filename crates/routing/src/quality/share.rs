//! How much one account may say.

/// The most that one account counts for, so that none has more than `share` of all of it, `prior` included.
pub(super) fn most_of_one(mut totals: Vec<f64>, prior: f64, share: f64) -> f64 {
    totals.sort_unstable_by(|one, other| other.total_cmp(one));
    let mut rest = prior + totals.iter().sum::<f64>();
    let mut left = 1.0;
    for total in totals {
        let most = share * rest / left;
        // Nobody is left to be cut where so few make up the whole.
        if total <= most || share >= left {
            return most;
        }
        rest -= total;
        left -= share;
    }
    share * rest / left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_more_than_a_quarter_and_less_is_not_cut() {
        for (totals, prior) in [
            (vec![10_000.0], 20.0),
            (vec![10_000.0, 30.0, 20.0, 10.0], 20.0),
            (vec![1_000.0, 900.0, 800.0, 10.0], 2.0),
            (vec![100.0, 100.0, 100.0, 100.0, 0.0], 20.0),
        ] {
            let most = most_of_one(totals.clone(), prior, 0.25);
            let counted: Vec<f64> = totals.iter().map(|total| total.min(most)).collect();
            let all = prior + counted.iter().sum::<f64>();
            assert!(counted.iter().all(|one| *one <= 0.25 * all * (1.0 + 1e-12)), "{totals:?}: {counted:?}");
            let is_tight = |(total, one): (&f64, &f64)| total == one || *one >= 0.25 * all * (1.0 - 1e-9);
            assert!(totals.iter().zip(&counted).all(is_tight), "{totals:?}: {counted:?}");
        }
        assert!(most_of_one(vec![5.0], 2.0, 1.0) >= 5.0, "a share of 1 cuts nothing");
    }
}
