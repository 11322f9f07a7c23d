//! Saved state of the spend paces, for a later process.
//!
//! A ceiling is one of calls, not of hours, so a pace does not age while no process runs. Another ceiling begins anew.

use pointsman_domain::Usd;
use serde::{Deserialize, Serialize};

use super::{LEVELS, MOST_OWED, PacedAlias, SpendPace, SpendPaces};

/// The pace of an alias in a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedPace {
    alias: Box<str>,
    thousand_calls: Usd,
    level: f64,
    owed: f64,
    calls: u64,
    recent: f64,
}

impl SpendPaces {
    /// State for a later process.
    pub fn export(&self) -> Vec<SavedPace> {
        self.0.lock().iter().map(SavedPace::of).collect()
    }

    /// Restores the paces of an earlier process for the aliases that `has` a ceiling like that. Gives the names of those
    /// that are implausible and begin anew.
    pub fn restore(&self, saved: Vec<SavedPace>, has: impl Fn(&str, Usd) -> bool) -> Vec<Box<str>> {
        let mut rejected = Vec::new();
        let mut paces = self.0.lock();
        for saved in saved.into_iter().filter(|saved| has(&saved.alias, saved.thousand_calls)) {
            match saved.pace() {
                None => rejected.push(saved.alias),
                Some(_) if paces.iter().any(|paced| paced.is(&saved.alias, saved.thousand_calls)) => {}
                Some(pace) => {
                    paces.push(PacedAlias { alias: saved.alias, thousand_calls: saved.thousand_calls, pace });
                }
            }
        }
        rejected
    }
}

impl SavedPace {
    fn of(PacedAlias { alias, thousand_calls, pace }: &PacedAlias) -> SavedPace {
        // Whether the ceiling is out of reach is found out again after some twenty calls.
        let SpendPace { ceiling: _, level, owed, calls, recent, strain: _ } = *pace;
        SavedPace { alias: alias.clone(), thousand_calls: *thousand_calls, level, owed, calls, recent }
    }

    /// `None` if a value is implausible.
    fn pace(&self) -> Option<SpendPace> {
        let SavedPace { alias: _, thousand_calls, level, owed, calls, recent } = *self;
        let [least, most] = LEVELS.map(libm::log);
        let is_plausible = (least..=most).contains(&level)
            && (-MOST_OWED..=MOST_OWED).contains(&owed)
            && (0.0..=MOST_OWED).contains(&recent);
        let fresh = SpendPace::new(thousand_calls).filter(|_| is_plausible)?;
        Some(SpendPace { level, owed, calls, recent, ..fresh })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spend_pace::CallEnd;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    /// Paces of two aliases, the first with two ceilings.
    fn used() -> SpendPaces {
        let paces = SpendPaces::default();
        for (alias, ceiling, cost) in [("one", "2", 0.004), ("one", "3", 0.001), ("two", "2", 0.0)] {
            for _ in 0..50 {
                paces.charge(alias, usd(ceiling), cost);
                paces.settle(alias, usd(ceiling), cost, CallEnd::Paid(Usd::from_f64(cost * 1.1).unwrap()));
            }
        }
        paces
    }

    fn restored(text: &str) -> (SpendPaces, Vec<Box<str>>) {
        let paces = SpendPaces::default();
        let rejected = paces.restore(serde_json::from_str(text).unwrap(), |alias, _| alias != "two");
        (paces, rejected)
    }

    #[test]
    fn a_later_process_goes_on_with_the_pace_of_each_configured_ceiling() {
        let before = used();
        let (after, rejected) = restored(&serde_json::to_string(&before.export()).unwrap());
        assert!(rejected.is_empty());
        for ceiling in ["2", "3"] {
            let [before, after] = [&before, &after].map(|paces| paces.get("one", usd(ceiling)).unwrap());
            assert_eq!(after.multiplier(), before.multiplier(), "{ceiling}");
            assert_eq!((after.owed(), after.recent_mean(), after.calls()), (before.owed(), before.recent_mean(), 50));
        }
        assert_eq!(after.get("two", usd("2")).unwrap().calls(), 0, "it is configured no more");
        assert_eq!(after.get("one", usd("2.5")).unwrap().calls(), 0, "another ceiling");
    }

    #[test]
    fn a_pace_is_plausible_after_many_calls_under_way_ended_far_from_what_was_expected() {
        for (expected, paid, recent) in [(0.004, "0.001", 0.0), (0.0, "2", 2.0)] {
            let paces = SpendPaces::default();
            let charge = || paces.charge("one", usd("2"), expected);
            let settle = || paces.settle("one", usd("2"), expected, CallEnd::Paid(usd(paid)));
            (0..800).for_each(|_| charge());
            for _ in 0..5_000 {
                charge();
                settle();
            }
            (0..800).for_each(|_| settle());
            let (after, rejected) = restored(&serde_json::to_string(&paces.export()).unwrap());
            assert!(rejected.is_empty(), "{expected}");
            let [before, after] = [&paces, &after].map(|paces| paces.get("one", usd("2")).unwrap());
            assert_eq!((after.owed(), after.calls()), (before.owed(), 5_800));
            assert_eq!((after.recent_mean(), before.recent_mean()), (recent, recent));
        }
    }

    #[test]
    fn an_implausible_pace_begins_anew_and_is_named() {
        let text = serde_json::to_string(&used().export()).unwrap();
        let levels = text.replace("\"level\":", "\"level\":1e9,\"of\":");
        let owed = text.replace("\"owed\":", "\"owed\":-1e9,\"of\":");
        let recent = text.replace("\"recent\":", "\"recent\":-1,\"of\":");
        for text in [levels, owed, recent] {
            let (paces, rejected) = restored(&text);
            assert_eq!(rejected, [Box::from("one"), Box::from("one")], "{text}");
            assert_eq!(paces.get("one", usd("2")).unwrap().calls(), 0);
        }
    }
}
