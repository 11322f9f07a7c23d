//! Spending of an owner since the process started and in the current day, week and month (UTC).
//!
//! Only sums are kept. They outlive the records they were made from and are lost when the process ends.

use chrono::{DateTime, Datelike as _};

use crate::domain::Usd;

/// Spending sums of one owner.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpendingAccount {
    total: Usd,
    day: PeriodSum,
    week: PeriodSum,
    month: PeriodSum,
}

/// Amounts spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Since the process started.
    pub total: Usd,
    /// Today.
    pub day: Usd,
    /// Since Monday.
    pub week: Usd,
    /// Since the first of the month.
    pub month: Usd,
}

/// Sum of one day, week or month. A new period starts at zero.
#[derive(Debug, Clone, Copy, Default)]
struct PeriodSum {
    number: i64,
    sum: Usd,
}

impl SpendingAccount {
    /// Adds a cost with its time in Unix milliseconds.
    pub(super) fn add(&mut self, cost: Usd, at_ms: i64) {
        let [day, week, month] = numbers(at_ms);
        self.total += cost;
        self.day.add(cost, day);
        self.week.add(cost, week);
        self.month.add(cost, month);
    }

    /// The sums at a time in Unix milliseconds.
    pub(super) fn read(&self, now_ms: i64) -> Spent {
        let [day, week, month] = numbers(now_ms);
        Spent { total: self.total, day: self.day.read(day), week: self.week.read(week), month: self.month.read(month) }
    }
}

impl PeriodSum {
    fn add(&mut self, cost: Usd, number: i64) {
        // A late entry of a past period does not count in the current one.
        if number > self.number {
            *self = PeriodSum { number, sum: Usd::ZERO };
        }
        if number == self.number {
            self.sum += cost;
        }
    }

    fn read(self, number: i64) -> Usd {
        if number == self.number { self.sum } else { Usd::ZERO }
    }
}

impl std::ops::Add for Spent {
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

/// Numbers of the day, week and month of a time, each counted since 1970.
fn numbers(unix_ms: i64) -> [i64; 3] {
    const DAY_MS: i64 = 86_400_000;
    /// The first of January 1970 was a Thursday: weeks start three days earlier.
    const MONDAY: i64 = 3;
    let day = unix_ms.div_euclid(DAY_MS);
    let date = DateTime::from_timestamp_millis(unix_ms).unwrap_or_default();
    let month = i64::from(date.year() - 1970) * 12 + i64::from(date.month0());
    [day, (day + MONDAY).div_euclid(7), month]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(moment: &str) -> i64 {
        DateTime::parse_from_rfc3339(moment).unwrap().timestamp_millis()
    }

    #[test]
    fn each_period_starts_from_nothing() {
        let cent: Usd = "0.01".parse().unwrap();
        let mut account = SpendingAccount::default();
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
    fn a_late_entry_counts_in_the_total_alone() {
        let cent: Usd = "0.01".parse().unwrap();
        let mut account = SpendingAccount::default();
        account.add(cent, at("2026-12-02T00:00:01Z"));
        account.add(cent, at("2026-12-01T23:59:59Z"));
        let spent = account.read(at("2026-12-02T01:00:00Z"));
        assert_eq!((spent.total, spent.day), (cent * 2, cent));
    }
}
