//! The spend pace of an alias: calls that cost a given mean, at the best quality that this buys.
//!
//! A choice maximises `quality − λ · cost ÷ ceiling`. The multiplier λ is the quality that one ceiling's worth of money
//! has to buy. It follows what is owed, the sum of `cost ÷ ceiling − 1` over the calls (primal-dual pacing, arXiv
//! 2604.00136): while calls are too dear it rises, and cheaper models are chosen. Its logarithm has a part in proportion to
//! what is owed and a slow part that remembers, so that in the long run nothing is owed: the mean is the ceiling.
//!
//! No clock is read: the ceiling is one of calls, not of hours. A call is charged its expected cost when it is decided,
//! so that calls under way count, and the difference when it ends.

mod state;

pub use self::state::SavedPace;

use parking_lot::Mutex;
use pointsman_domain::Usd;

/// The multiplier is 0 below the first and never above the second.
const MULTIPLIERS: [f64; 2] = [1e-4, 100.0];
/// Multipliers between which the slow part stays. Half of the least one, so that what a call costs beyond its expected cost does not
/// bring money back into play.
const LEVELS: [f64; 2] = [MULTIPLIERS[0] / 2.0, MULTIPLIERS[1]];
/// Gain of the first call, and how many calls make its reciprocal greater by 1, until the last gain is reached. Quick at
/// first, because nothing is known: the multiplier spans six orders of magnitude.
const FIRST_GAIN: f64 = 1.0 / 3.0;
const GAIN_CALLS: f64 = 6.0;
/// What one ceiling owed adds to the logarithm of the multiplier. On the sets of `oracle quality`, each asked once, 1/64 left a
/// mean 3 % off its ceiling, and 1/16 lost .002 of quality (BFCL).
const LAST_GAIN: f64 = 1.0 / 24.0;
/// Damping of the slow part: 4 is critical where a multiplier e times as high saves one ceiling a call.
const DAMPING: f64 = 4.0;
/// Ceilings owed that move the slow part at most: one very dear call says little about the others. Without this limit a mean was
/// 8 % off its ceiling instead of 4 % (BFCL, 850 calls).
const MOST_MOVING: f64 = 8.0;
/// Most ceilings owed that are remembered.
const MOST_OWED: f64 = 1000.0;
/// Calls over which the recent mean goes.
const RECENT_CALLS: u64 = 1000;
/// Ceilings by which choices at the highest multiplier were expected to be too dear, from which on the ceiling is out of reach:
/// twenty calls of twice the ceiling or two hundred of 1.1 times. A call counts for [`MOST_MOVING`] at most, and a cheap one
/// counts against it.
const MOST_STRAIN: f64 = 20.0;
/// Most of these ceilings that are remembered. More than [`MOST_STRAIN`], so that a few cheap calls among dear ones do not
/// bring the ceiling back into reach.
const KEPT_STRAIN: f64 = 5.0 * MOST_STRAIN;

/// The spend pace of one alias.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpendPace {
    /// Dollars of a call.
    ceiling: f64,
    /// Logarithm of the multiplier where nothing is owed.
    level: f64,
    /// What was spent beyond the ceilings of all calls, in ceilings; negative: what is left.
    owed: f64,
    calls: u64,
    /// Mean cost of the last calls, in ceilings.
    recent: f64,
    /// Ceilings by which choices at the highest multiplier were expected to be too dear.
    strain: f64,
}

/// How a charged call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It cost this, all attempts together.
    Paid(Usd),
    /// Its cost is not known; the expected one stays.
    Unknown,
    /// Nothing was answered and nothing paid: it does not count, so that an outage saves nothing for later.
    Unserved,
}

impl SpendPace {
    /// A pace without calls. It starts with cheap models, and lets dearer ones in as money is left over. `None` if the
    /// ceiling of a thousand calls is not positive.
    pub fn new(thousand_calls: Usd) -> Option<SpendPace> {
        let ceiling = thousand_calls.to_f64() / 1000.0;
        (ceiling > 0.0).then_some(SpendPace { ceiling, level: 0.0, owed: 0.0, calls: 0, recent: 0.0, strain: 0.0 })
    }

    /// Quality that a dollar has to buy: λ ÷ ceiling. 0: money plays no part.
    pub fn quality_per_dollar(&self) -> f64 {
        self.multiplier() / self.ceiling
    }

    /// λ: quality that one ceiling has to buy.
    pub fn multiplier(&self) -> f64 {
        let multiplier = libm::exp(self.level + self.gain() * self.owed);
        if multiplier <= MULTIPLIERS[0] { 0.0 } else { multiplier.min(MULTIPLIERS[1]) }
    }

    /// Dollars of a call.
    pub fn ceiling(&self) -> f64 {
        self.ceiling
    }

    /// Dollars spent beyond the ceilings of all calls, as far as they are remembered; negative: dollars left.
    pub fn owed(&self) -> f64 {
        self.owed * self.ceiling
    }

    /// Calls that were charged, without those that nobody served.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Mean dollars of the last thousand calls or so.
    pub fn recent_mean(&self) -> f64 {
        self.recent * self.ceiling
    }

    /// Whether calls at the highest multiplier are dearer than the ceiling. What an answer cost beyond its expected cost does not
    /// count: it can be made up for.
    pub fn is_out_of_reach(&self) -> bool {
        self.strain >= MOST_STRAIN && self.recent > 1.0
    }

    /// Charges a decided call. An expected cost that is no amount counts as the ceiling.
    pub fn charge(&mut self, expected: f64) {
        let ceilings = self.ceilings(expected);
        let strain = (self.strain + (ceilings - 1.0).min(MOST_MOVING)).clamp(0.0, KEPT_STRAIN);
        self.strain = if self.multiplier() < MULTIPLIERS[1] { 0.0 } else { strain };
        self.calls = self.calls.saturating_add(1);
        self.recent += (ceilings - self.recent) / self.recent_calls();
        self.owe(ceilings - 1.0);
        self.move_level(1.0);
        self.owed = self.owed.max(self.least_owed());
    }

    /// Settles a charged call when it ended.
    pub fn settle(&mut self, expected: f64, end: CallEnd) {
        let charged = self.ceilings(expected);
        let difference = match end {
            CallEnd::Paid(paid) => self.ceilings(paid.to_f64()) - charged,
            CallEnd::Unknown => 0.0,
            CallEnd::Unserved => return self.forget(charged),
        };
        // Of many calls under way, the differences may come to more than the mean.
        self.recent = (self.recent + difference / self.recent_calls()).clamp(0.0, MOST_OWED);
        self.owe(difference);
    }

    /// Does what [`SpendPace::charge`] did the other way round.
    fn forget(&mut self, charged: f64) {
        let others = self.recent_calls() - 1.0;
        let without = self.recent - (charged - self.recent) / others;
        self.recent = if others > 0.0 { without.clamp(0.0, MOST_OWED) } else { 0.0 };
        let is_above_least = self.owed > self.least_owed();
        self.move_level(-1.0);
        if is_above_least {
            self.owe(1.0 - charged);
        }
        self.calls = self.calls.saturating_sub(1);
    }

    /// Moves the slow part by what is owed after so many calls.
    fn move_level(&mut self, calls: f64) {
        let gain = self.gain();
        let moved = gain * gain / DAMPING * self.owed.clamp(-MOST_MOVING, MOST_MOVING);
        let [least, most] = LEVELS.map(libm::log);
        self.level = (self.level + calls * moved).clamp(least, most);
    }

    /// What is left over where money plays no part is not saved up.
    fn least_owed(&self) -> f64 {
        (libm::log(LEVELS[0]) - self.level) / self.gain()
    }

    fn ceilings(&self, dollars: f64) -> f64 {
        let ceilings = dollars / self.ceiling;
        if ceilings.is_finite() && ceilings >= 0.0 { ceilings.min(MOST_OWED) } else { 1.0 }
    }

    fn owe(&mut self, ceilings: f64) {
        self.owed = (self.owed + ceilings).clamp(-MOST_OWED, MOST_OWED);
    }

    fn gain(&self) -> f64 {
        (1.0 / (1.0 / FIRST_GAIN + self.calls as f64 / GAIN_CALLS)).max(LAST_GAIN)
    }

    fn recent_calls(&self) -> f64 {
        self.calls.clamp(1, RECENT_CALLS) as f64
    }
}

/// The spend paces of all aliases that have a ceiling. Shared by all workers, so that calls under way at one count at all; the
/// lock is held for a few operations.
#[derive(Debug, Default)]
pub struct SpendPaces(Mutex<Vec<PacedAlias>>);

/// An alias with a ceiling, and its pace.
#[derive(Debug, Clone, PartialEq)]
pub struct PacedAlias {
    /// Id of the alias.
    pub alias: Box<str>,
    /// Ceiling of a thousand calls.
    pub thousand_calls: Usd,
    /// Its pace.
    pub pace: SpendPace,
}

impl SpendPaces {
    /// The pace of an alias with this ceiling; one without calls if there was none, or another ceiling.
    pub fn get(&self, alias: &str, thousand_calls: Usd) -> Option<SpendPace> {
        let known = self.0.lock().iter().find(|paced| paced.is(alias, thousand_calls)).map(|paced| paced.pace);
        known.or_else(|| SpendPace::new(thousand_calls))
    }

    /// Charges a decided call. The first one under another ceiling begins anew. Of an alias two ceilings are kept, so that calls from
    /// before a reload and after it do not disturb each other.
    pub fn charge(&self, alias: &str, thousand_calls: Usd, expected: f64) {
        let mut paces = self.0.lock();
        match paces.iter_mut().find(|paced| paced.is(alias, thousand_calls)) {
            Some(paced) => paced.pace.charge(expected),
            None => {
                let Some(mut pace) = SpendPace::new(thousand_calls) else { return };
                pace.charge(expected);
                let is_of = |paced: &PacedAlias| *paced.alias == *alias;
                if paces.iter().filter(|paced| is_of(paced)).count() > 1
                    && let Some(oldest) = paces.iter().position(is_of)
                {
                    paces.remove(oldest);
                }
                paces.push(PacedAlias { alias: alias.into(), thousand_calls, pace });
            }
        }
    }

    /// Settles a charged call, if the pace of its ceiling is still kept.
    pub fn settle(&self, alias: &str, thousand_calls: Usd, expected: f64, end: CallEnd) {
        if let Some(paced) = self.0.lock().iter_mut().find(|paced| paced.is(alias, thousand_calls)) {
            paced.pace.settle(expected, end);
        }
    }
}

impl PacedAlias {
    fn is(&self, alias: &str, thousand_calls: Usd) -> bool {
        *self.alias == *alias && self.thousand_calls == thousand_calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dollars and quality of three models, of which the second is dear for what it gives.
    const MODELS: [(f64, f64); 3] = [(0.001, 0.7), (0.004, 0.75), (0.010, 0.9)];

    fn pace(thousand_calls: &str) -> SpendPace {
        SpendPace::new(thousand_calls.parse().unwrap()).unwrap()
    }

    fn chosen(pace: &SpendPace) -> (f64, f64) {
        let value = |(dollars, quality): &(f64, f64)| quality - pace.quality_per_dollar() * dollars;
        MODELS.into_iter().max_by(|one, other| value(one).total_cmp(&value(other))).unwrap()
    }

    /// Between 0.5 and 1.5, 1 on average.
    fn spread(call: u64) -> f64 {
        let mixed = call.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        0.5 + (mixed >> 40) as f64 / f64::from(1_u32 << 24)
    }

    /// Mean dollars and quality of so many calls; prices are multiplied by `factor`, and costs vary by half.
    fn run(pace: &mut SpendPace, calls: u32, factor: f64) -> (f64, f64) {
        let (mut spent, mut good) = (0.0, 0.0);
        for _ in 0..calls {
            let (dollars, quality) = chosen(pace);
            let paid = dollars * factor * spread(pace.calls());
            pace.charge(dollars);
            pace.settle(dollars, CallEnd::Paid(Usd::from_f64(paid).unwrap()));
            (spent, good) = (spent + paid, good + quality);
        }
        (spent / f64::from(calls), good / f64::from(calls))
    }

    #[test]
    fn the_mean_is_the_ceiling_and_the_quality_that_of_the_best_mix() {
        for (ceiling, dollars) in [("2", 0.002), ("4", 0.004), ("7", 0.007), ("9.5", 0.0095)] {
            let (mean, quality) = run(&mut pace(ceiling), 3_000, 1.0);
            assert!((mean / dollars - 1.0).abs() < 0.01, "{ceiling}: {mean}");
            let best = 0.7 + 0.2 * (dollars - 0.001) / 0.009;
            assert!((quality - best).abs() < 0.005, "{ceiling}: {quality}, {best}");
        }
    }

    #[test]
    fn a_ceiling_above_every_price_leaves_the_choice_to_quality_and_saves_nothing_up() {
        let mut pace = pace("20");
        let (_, quality) = run(&mut pace, 2_000, 1.0);
        assert!(quality > 0.89 && pace.quality_per_dollar() == 0.0, "{pace:?}");
        // Prices four times as high: what was left over is no credit, and the calls keep the ceiling.
        let (mean, _) = run(&mut pace, 4_000, 4.0);
        assert!((mean / 0.02 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn prices_that_double_are_noticed_by_what_is_paid() {
        let mut pace = pace("5");
        run(&mut pace, 1_000, 1.0);
        let (mean, _) = run(&mut pace, 2_000, 2.0);
        assert!((mean / 0.005 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn the_first_calls_are_cheap_and_spend_no_more_than_their_ceilings() {
        let mut pace = pace("3");
        let mut spent = 0.0;
        for call in 1..=100 {
            let (dollars, _) = chosen(&pace);
            assert!(call > 3 || dollars < 0.002, "call {call} costs {dollars}");
            pace.charge(dollars);
            spent += dollars;
            assert!(spent <= 0.003 * f64::from(call) + 0.010, "after {call} calls {spent}");
        }
    }

    #[test]
    fn a_ceiling_below_every_price_chooses_the_cheapest_and_recovers() {
        let mut pace = pace("0.5");
        let (mean, _) = run(&mut pace, 5_000, 1.0);
        assert!(mean < 0.0011 && pace.is_out_of_reach(), "{mean}");
        // Prices fall to a tenth: the debt is paid back within a thousand ceilings, and then dearer models are back.
        run(&mut pace, 4_000, 0.1);
        let (mean, quality) = run(&mut pace, 2_000, 0.1);
        assert!((mean / 0.0005 - 1.0).abs() < 0.01 && quality > 0.75, "{mean}, {quality}");
        assert!(!pace.is_out_of_reach());
    }

    #[test]
    fn a_ceiling_that_cheap_models_keep_is_not_out_of_reach_after_one_very_dear_answer() {
        for (ceiling, before) in [("3", 0), ("3", 2_000), ("1.25", 0), ("1.25", 2_000)] {
            let mut pace = pace(ceiling);
            run(&mut pace, before, 1.0);
            pace.charge(0.001);
            pace.settle(0.001, CallEnd::Paid(Usd::from_f64(0.3).unwrap()));
            for _ in 0..500 {
                run(&mut pace, 1, 1.0);
                assert!(!pace.is_out_of_reach(), "{ceiling} {before}: {pace:?}");
            }
        }
    }

    #[test]
    fn calls_of_different_costs_are_out_of_reach_if_their_mean_is() {
        let dear: [&[f64]; 2] = [&[0.5, 3.0], &[0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 12.0]];
        for costs in dear {
            let mut pace = pace("1000");
            for (call, cost) in costs.iter().cycle().take(1_500).enumerate() {
                pace.charge(*cost);
                assert!(call >= 10 || !pace.is_out_of_reach(), "{costs:?}: too early at {call}");
                assert!(call < 500 || pace.is_out_of_reach(), "{costs:?}: not told at {call}");
            }
        }
        let mut cheap = pace("1000");
        for cost in [0.5, 1.2].iter().cycle().take(2_000) {
            cheap.charge(*cost);
            assert!(!cheap.is_out_of_reach(), "{cheap:?}");
        }
        // One very dear answer, so that the multiplier is the highest.
        cheap.settle(1.2, CallEnd::Paid("500".parse().unwrap()));
        for cost in [0.5, 1.2].iter().cycle().take(500) {
            cheap.charge(*cost);
            assert!(!cheap.is_out_of_reach(), "{cheap:?}");
        }
    }

    #[test]
    fn calls_that_nobody_served_count_as_if_they_had_not_been() {
        let mut pace = pace("3");
        run(&mut pace, 500, 1.0);
        let unserved = |pace: &mut SpendPace, dollars| {
            pace.charge(dollars);
            pace.settle(dollars, CallEnd::Unserved);
        };
        let before = pace;
        (0..3_000).for_each(|_| unserved(&mut pace, 0.01));
        let parts = |pace: SpendPace| [pace.owed(), pace.recent_mean(), pace.multiplier()];
        assert!(before.owed() != 0.0 && pace.calls() == before.calls());
        assert!(parts(before).iter().zip(parts(pace)).all(|(before, after)| (before - after).abs() < 1e-9), "{pace:?}");
        let mut fresh = SpendPace::new("3".parse().unwrap()).unwrap();
        (0..3).for_each(|_| unserved(&mut fresh, 0.001));
        assert_eq!((fresh.calls(), fresh.recent_mean()), (0, 0.0));
        // Where money plays no part, an outage owes nothing either.
        let mut ample = SpendPace::new("20".parse().unwrap()).unwrap();
        run(&mut ample, 2_000, 1.0);
        (0..3_000).for_each(|_| unserved(&mut ample, 0.01));
        assert_eq!(ample.quality_per_dollar(), 0.0, "{ample:?}");
    }

    #[test]
    fn many_calls_under_way_do_not_overspend() {
        let mut pace = pace("4");
        let (mut spent, mut waiting) = (0.0, Vec::new());
        for _ in 0..4_000 {
            let (dollars, _) = chosen(&pace);
            pace.charge(dollars);
            waiting.push(dollars);
            if waiting.len() > 200 {
                let ended = waiting.remove(0);
                // Answers cost a fifth more than expected.
                pace.settle(ended, CallEnd::Paid(Usd::from_f64(ended * 1.2).unwrap()));
            }
            spent += dollars * 1.2;
        }
        assert!((spent / 4_000.0 / 0.004 - 1.0).abs() < 0.02, "{spent}");
    }

    #[test]
    fn each_alias_has_a_pace_that_begins_anew_with_another_ceiling() {
        let (paces, [two, three, four]) =
            (SpendPaces::default(), ["2", "3", "4"].map(|ceiling| ceiling.parse().unwrap()));
        let calls = |alias, ceiling| paces.get(alias, ceiling).map(|pace| pace.calls());
        paces.charge("one", two, 0.001);
        paces.charge("one", two, 0.001);
        paces.charge("other", two, 0.001);
        assert_eq!((calls("one", two), calls("other", two), calls("third", two)), (Some(2), Some(1), Some(0)));
        paces.charge("one", three, 0.001);
        // The end of a call that was decided under the ceiling before.
        paces.settle("one", two, 0.001, CallEnd::Paid(Usd::from_f64(9.0).unwrap()));
        assert!(paces.get("one", three).unwrap().owed() < 0.0);
        // One from before the reload is decided after it.
        paces.charge("one", two, 0.001);
        assert_eq!((calls("one", two), calls("one", three)), (Some(3), Some(1)));
        paces.charge("one", four, 0.001);
        let all = [two, three, four].map(|ceiling| calls("one", ceiling));
        assert_eq!((all, calls("other", two)), ([Some(0), Some(1), Some(1)], Some(1)), "two are kept");
        assert_eq!(calls("one", Usd::ZERO), None);
    }

    #[test]
    fn no_cost_makes_a_multiplier_that_is_no_number() {
        let mut pace = pace("0.000000000001");
        let costs = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300, f64::MIN_POSITIVE];
        for n in 0..10_000 {
            let cost = costs[n % costs.len()];
            pace.charge(cost);
            let end = [CallEnd::Unknown, CallEnd::Unserved, CallEnd::Paid(Usd::from_femto(i128::MAX))][n % 3];
            pace.settle(costs[n / 3 % costs.len()], end);
            let rate = pace.quality_per_dollar();
            assert!(rate.is_finite() && rate >= 0.0 && pace.recent_mean().is_finite(), "{pace:?}");
        }
        assert!(SpendPace::new(Usd::ZERO).is_none() && SpendPace::new(Usd::from_femto(-1)).is_none());
    }
}
