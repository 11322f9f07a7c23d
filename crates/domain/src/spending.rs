//! Spending of a key, an account or a team: sums by day, week and month (UTC), and amounts reserved for running requests.
//!
//! A request reserves its worst-case cost before it is sent and settles with its actual cost when it ends. All amounts are
//! integers.

use std::{
    collections::BTreeMap,
    ops::{Add, Range},
};

use chrono::{DateTime, Datelike as _};

use super::money::Usd;

const DAY_MS: i64 = 86_400_000;
/// Days of which the sum is known: the longest month, and as many days of a wall clock that was wrong.
const MOST_DAYS: usize = 62;

crate::named! {
    /// How often a spending limit starts again, at midnight UTC.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ResetPeriod {
        /// Every day.
        Daily = "daily",
        /// Every Monday.
        Weekly = "weekly",
        /// On the first of the month.
        Monthly = "monthly",
    }
}

impl ResetPeriod {
    /// The period with this name.
    pub fn parse(name: &str) -> Option<ResetPeriod> {
        ResetPeriod::ALL.into_iter().find(|period| period.as_str() == name)
    }

    /// Beginning of the next period, Unix milliseconds.
    #[must_use]
    pub fn next_start_ms(self, now_ms: i64) -> i64 {
        self.days(now_ms).end.saturating_mul(DAY_MS)
    }

    /// The days of the period that a time lies in, counted since 1970.
    fn days(self, now_ms: i64) -> Range<i64> {
        let day = now_ms.div_euclid(DAY_MS);
        match self {
            ResetPeriod::Daily => day..day + 1,
            ResetPeriod::Weekly => {
                let monday = day - (day + MONDAY).rem_euclid(7);
                monday..monday + 7
            }
            ResetPeriod::Monthly => {
                let date = DateTime::from_timestamp_millis(now_ms).unwrap_or_default().date_naive();
                let first = day - i64::from(date.day0());
                first..first + i64::from(date.num_days_in_month())
            }
        }
    }
}

/// A limit on spending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpendLimit {
    /// Most that may be spent, not negative.
    pub amount: Usd,
    /// When it starts again; `None` means never.
    pub reset: Option<ResetPeriod>,
}

/// Sums of amounts spent, and the reserved amount.
///
/// Each day has a sum of its own, so that what a wall clock that is ahead counts in a later day takes nothing from today.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpendingMeter {
    total: Usd,
    /// By number of the day since 1970.
    days: BTreeMap<i64, Usd>,
    reserved: Usd,
}

/// Amounts spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Ever.
    pub total: Usd,
    /// Today.
    pub day: Usd,
    /// Since Monday.
    pub week: Usd,
    /// Since the first of the month.
    pub month: Usd,
}

impl SpendingMeter {
    /// Adds a cost with its time in Unix milliseconds.
    pub fn add(&mut self, cost: Usd, at_ms: i64) {
        let day = at_ms.div_euclid(DAY_MS);
        self.total += cost;
        *self.days.entry(day).or_default() += cost;
        if self.days.len() > MOST_DAYS {
            let oldest = self.days.keys().copied().find(|other| *other != day);
            oldest.map(|oldest| self.days.remove(&oldest));
        }
    }

    /// Adds an amount that counts in the total alone, because its period is long over.
    pub fn add_to_total(&mut self, cost: Usd) {
        self.total += cost;
    }

    /// Forgets what was spent. What is reserved stays.
    pub fn forget_spent(&mut self) {
        *self = SpendingMeter { reserved: self.reserved, ..SpendingMeter::default() };
    }

    /// The sums at a time in Unix milliseconds.
    pub fn read(&self, now_ms: i64) -> Spent {
        let in_period = |period| self.since_reset(Some(period), now_ms);
        Spent {
            total: self.total,
            day: in_period(ResetPeriod::Daily),
            week: in_period(ResetPeriod::Weekly),
            month: in_period(ResetPeriod::Monthly),
        }
    }

    /// The amount that counts at a time, Unix milliseconds, against a limit with this period.
    pub fn since_reset(&self, reset: Option<ResetPeriod>, now_ms: i64) -> Usd {
        reset.map_or(self.total, |period| self.days.range(period.days(now_ms)).map(|(_, sum)| *sum).sum())
    }

    /// Reserved for running requests.
    pub fn reserved(&self) -> Usd {
        self.reserved
    }

    /// What may still be spent or reserved; never negative.
    pub fn available(&self, limit: SpendLimit, now_ms: i64) -> Usd {
        let used = self.since_reset(limit.reset, now_ms) + self.reserved;
        (limit.amount - used).max(Usd::ZERO)
    }

    /// Reserves an amount if the limit leaves room for all of it. A negative amount counts as zero.
    ///
    /// # Errors
    /// What is available.
    pub fn reserve(&mut self, amount: Usd, limit: Option<SpendLimit>, now_ms: i64) -> Result<(), Usd> {
        let amount = amount.max(Usd::ZERO);
        if let Some(limit) = limit {
            let available = self.available(limit, now_ms);
            if amount > available {
                return Err(available);
            }
        }
        self.reserved += amount;
        Ok(())
    }

    /// Whether the limit is used up, so that not even a request without cost is admitted. A limit of zero never is.
    pub fn is_exhausted(&self, limit: SpendLimit, now_ms: i64) -> bool {
        !limit.amount.is_zero() && self.since_reset(limit.reset, now_ms) >= limit.amount
    }

    /// Gives a reserved amount back.
    pub fn release(&mut self, amount: Usd) {
        self.reserved = (self.reserved - amount.max(Usd::ZERO)).max(Usd::ZERO);
    }
}

impl Add for Spent {
    type Output = Spent;

    fn add(self, other: Spent) -> Spent {
        Spent {
            total: self.total + other.total,
            day: self.day + other.day,
            week: self.week + other.week,
            month: self.month + other.month,
        }
    }
}

/// The first of January 1970 was a Thursday: weeks start three days earlier.
const MONDAY: i64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(moment: &str) -> i64 {
        DateTime::parse_from_rfc3339(moment).unwrap().timestamp_millis()
    }

    #[test]
    fn each_period_starts_from_nothing() {
        let cent: Usd = "0.01".parse().unwrap();
        let mut account = SpendingMeter::default();
        // A Sunday, then the Monday after it, both in November; then the first of December.
        account.add(cent, at("2026-11-29T23:59:59Z"));
        account.add(cent, at("2026-11-30T00:00:00Z"));
        assert_eq!(
            account.read(at("2026-11-30T12:00:00Z")),
            Spent { total: cent * 2, day: cent, week: cent, month: cent * 2 }
        );
        account.add(cent, at("2026-12-01T08:00:00Z"));
        assert_eq!(
            account.read(at("2026-12-01T09:00:00Z")),
            Spent { total: cent * 3, day: cent, week: cent * 2, month: cent }
        );
        assert_eq!(account.read(at("2027-05-01T00:00:00Z")), Spent { total: cent * 3, ..Spent::default() });
    }

    #[test]
    fn a_late_entry_counts_in_the_periods_in_which_it_began() {
        let cent: Usd = "0.01".parse().unwrap();
        let mut account = SpendingMeter::default();
        account.add(cent, at("2026-12-02T00:00:01Z"));
        account.add(cent, at("2026-12-01T23:59:59Z"));
        let spent = account.read(at("2026-12-02T01:00:00Z"));
        assert_eq!((spent.total, spent.day, spent.month), (cent * 2, cent, cent * 2));
    }

    #[test]
    fn a_clock_that_was_wrong_for_a_while_takes_nothing_from_the_current_periods() {
        let (cent, today): (Usd, i64) = ("0.01".parse().unwrap(), at("2026-11-25T12:00:00Z"));
        for wrong in ["2026-11-26T12:00:00Z", "2026-12-25T12:00:00Z", "2033-01-01T00:00:00Z", "1970-01-01T00:00:00Z"] {
            let mut account = SpendingMeter::default();
            account.add(cent, today);
            (0..25).for_each(|day| account.add(cent, at(wrong) + day * DAY_MS));
            account.add(cent, today);
            let spent = account.read(today);
            let later = if wrong.starts_with("2026-11") { cent * 5 } else { Usd::ZERO };
            assert_eq!((spent.total, spent.day, spent.month), (cent * 27, cent * 2, cent * 2 + later), "{wrong}");
        }
    }

    #[test]
    fn a_meter_keeps_the_sums_of_the_latest_days_only() {
        let mut account = SpendingMeter::default();
        (0..1_000).for_each(|day| account.add(Usd::from_femto(1), day * DAY_MS));
        assert_eq!((account.days.len(), account.total), (MOST_DAYS, Usd::from_femto(1_000)));
        account.add(Usd::from_femto(5), 0);
        assert_eq!((account.days.len(), account.read(0).day), (MOST_DAYS, Usd::from_femto(5)));
    }

    #[test]
    fn each_period_ends_at_its_own_midnight() {
        // A Sunday in the last month of a year.
        let now = at("2026-12-27T13:00:00Z");
        for (period, next) in [
            (ResetPeriod::Daily, "2026-12-28T00:00:00Z"),
            (ResetPeriod::Weekly, "2026-12-28T00:00:00Z"),
            (ResetPeriod::Monthly, "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(period.next_start_ms(now), at(next), "{period:?}");
            assert_eq!(ResetPeriod::parse(period.as_str()), Some(period));
            let mut meter = SpendingMeter::default();
            meter.add(Usd::from_femto(1), now);
            assert_eq!(meter.since_reset(Some(period), at(next) - 1), Usd::from_femto(1), "{period:?}");
            assert_eq!(meter.since_reset(Some(period), at(next)), Usd::ZERO, "{period:?}");
        }
    }

    /// A generator of numbers for the test below.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn whatever_the_order_spent_and_reserved_never_exceed_the_limit_and_everything_is_given_back() {
        for seed in 0..500_u64 {
            let mut state = seed;
            let limit = SpendLimit { amount: Usd::from_femto(i128::from(next(&mut state) % 1_000)), reset: None };
            let (mut meter, mut open, mut charged) = (SpendingMeter::default(), Vec::new(), Usd::ZERO);
            for _ in 0..200 {
                let amount = Usd::from_femto(i128::from(next(&mut state) % 100));
                match next(&mut state) % 3 {
                    0 => match meter.reserve(amount, Some(limit), 0) {
                        Ok(()) => open.push(amount),
                        Err(available) => {
                            assert!(available < amount, "{seed}: refused without need");
                        }
                    },
                    _ if open.is_empty() => {}
                    step => {
                        let reserved = open.swap_remove(next(&mut state) as usize % open.len());
                        meter.release(reserved);
                        if step == 1 {
                            // The actual cost is at most what was reserved.
                            let cost = Usd::from_femto(i128::from(next(&mut state)) % (reserved.femto() + 1));
                            meter.add(cost, 0);
                            charged += cost;
                        }
                    }
                }
                assert!(meter.read(0).total + meter.reserved() <= limit.amount, "{seed}");
                assert_eq!(meter.reserved(), open.iter().copied().sum(), "{seed}");
                assert_eq!(meter.read(0).total, charged, "{seed}");
            }
            open.into_iter().for_each(|amount| meter.release(amount));
            assert_eq!(meter.reserved(), Usd::ZERO, "{seed}");
        }
    }

    #[test]
    fn the_largest_amounts_neither_wrap_nor_panic() {
        let most = Usd::from_femto(i128::MAX);
        let mut meter = SpendingMeter::default();
        let limit = SpendLimit { amount: most, reset: None };
        assert_eq!(meter.reserve(most, Some(limit), 0), Ok(()));
        assert_eq!(meter.reserve(Usd::from_femto(1), Some(limit), 0), Err(Usd::ZERO));
        meter.release(most);
        meter.add(most, i64::MAX);
        meter.add(most, i64::MAX);
        assert_eq!(meter.reserve(Usd::from_femto(1), Some(limit), i64::MAX), Err(Usd::ZERO));
    }

    #[test]
    fn a_limit_of_zero_admits_what_costs_nothing() {
        let zero = SpendLimit { amount: Usd::ZERO, reset: None };
        let mut meter = SpendingMeter::default();
        assert_eq!(meter.reserve(Usd::ZERO, Some(zero), 0), Ok(()));
        assert_eq!(meter.reserve(Usd::from_femto(1), Some(zero), 0), Err(Usd::ZERO));
    }
}
