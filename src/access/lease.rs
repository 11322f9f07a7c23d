//! Leases: the part of a spending limit that this replica may spend.
//!
//! Replicas share a limit. Each leases a part of it in blocks and admits requests from memory, as long as what it spent and
//! reserved stays within its lease. A lease is lowered here before Redis hears of it, and raised by Redis before it counts here,
//! so that the leases of all replicas together never exceed the limit.
//!
//! While Redis answers, a replica uses its lease only up to a ceiling that Redis knows. If it is killed, what is above the ceiling
//! was certainly not spent and can be given to others. Without Redis it uses the whole lease.

use std::time::{Duration, Instant};

use pointsman_base::clock;
use pointsman_domain::{SpendLimit, SpendingMeter, Tick, Usd};

/// Time without spending after which an unused lease is given back.
const IDLE: Duration = Duration::from_secs(60);
/// Time between two reports of a lease that is not in use.
const IDLE_REPORT: Duration = Duration::from_secs(2);
/// 10⁻¹⁵ dollars in a millionth of a dollar, the unit of leases.
const FEMTO_PER_MICRO: i128 = 1_000_000_000;

/// How leases are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaseTerms {
    /// Share of the limit that is leased at a time, in millionths.
    pub block_ppm: u32,
    /// Time after the last report for which a lease is used.
    pub usable: Duration,
}

/// The lease of one budget, and what is known of the other replicas.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lease {
    /// End of the period that the lease is for, Unix milliseconds; `None` without a period.
    period: Option<i64>,
    /// What this replica may have spent and reserved in the period.
    granted: Usd,
    /// The part of it that it uses while Redis answers.
    ceiling: Usd,
    /// Redis does not answer.
    is_cut_off: bool,
    /// Last report that Redis took.
    reported_at: Option<Tick>,
    /// What was used then.
    reported_used: Usd,
    /// When `reported_used` last changed.
    changed_at: Option<Tick>,
    /// What a request needed beyond the lease.
    wanted: Usd,
    /// Another replica needs what is not used.
    is_asked_back: bool,
    /// Spent by the other replicas, and with what they reserved.
    others: Option<Others>,
}

/// What the other replicas spent in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    /// Spent.
    pub spent: Usd,
    /// Spent and reserved.
    pub used: Usd,
}

/// What this replica reports, and asks for. Amounts in millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseReport {
    /// End of the period, Unix milliseconds.
    pub period: Option<i64>,
    /// What it keeps.
    pub granted: i64,
    /// What it spent and reserved.
    pub used: i64,
    /// What it may use before its next report.
    pub ceiling: i64,
    /// What it spent.
    pub spent: i64,
    /// The least that helps it.
    pub need: i64,
    /// What it would like.
    pub want: i64,
    /// The limit.
    pub limit: i64,
}

/// What Redis answers. Amounts in millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseAnswer {
    /// What this replica has.
    pub granted: i64,
    /// What the others spent.
    pub others_spent: i64,
    /// What the others spent and reserved.
    pub others_used: i64,
    /// Whether another replica needs what is not used.
    pub is_asked_back: bool,
}

/// One time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Unix milliseconds, for periods.
    pub now_ms: i64,
    /// For waits.
    pub now: Tick,
}

impl Moment {
    /// The present, of which `now` was read.
    pub fn at(now: Instant) -> Moment {
        Moment { now_ms: clock::unix_millis(), now: clock::tick(now) }
    }
}

impl Lease {
    /// What this replica may have spent and reserved now.
    pub fn amount(&self, limit: SpendLimit, at: Moment, terms: &LeaseTerms) -> Usd {
        let is_fresh = self.reported_at.is_some_and(|reported| at.now.since(reported) < terms.usable);
        if !is_fresh || self.period != period(limit, at.now_ms) {
            return Usd::ZERO;
        }
        let amount = if self.is_cut_off { self.granted } else { self.granted.min(self.ceiling) };
        amount.min(limit.amount)
    }

    /// Says that Redis does not answer. The next answer says the opposite.
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// What the other replicas used, if Redis told.
    pub fn others(&self, limit: SpendLimit, now_ms: i64) -> Option<Others> {
        self.others.filter(|_| self.period == period(limit, now_ms))
    }

    /// Notes that a request needed more.
    pub fn want(&mut self, amount: Usd) {
        self.wanted = self.wanted.max(amount);
    }

    /// What is to be reported; `None` if nothing is new. Lowers the lease to what the report says.
    pub fn report(
        &mut self,
        limit: SpendLimit,
        meter: &SpendingMeter,
        at: Moment,
        terms: &LeaseTerms,
        is_forced: bool,
    ) -> Option<LeaseReport> {
        let period = period(limit, at.now_ms);
        if self.period != period {
            *self = Lease { period, wanted: self.wanted, ..Lease::default() };
        }
        let spent = meter.since_reset(limit.reset, at.now_ms);
        let used = spent + meter.reserved();
        let is_changed = used != self.reported_used;
        if is_changed {
            self.changed_at = Some(at.now);
        }
        let since = |tick: Option<Tick>| tick.map_or(Duration::MAX, |tick| at.now.since(tick));
        let is_idle = since(self.changed_at) > IDLE;
        let holds_unused = self.granted > used;
        let is_due = holds_unused && since(self.reported_at) >= IDLE_REPORT;
        let is_forced = is_forced && !(used.is_zero() && self.granted.is_zero());
        let is_first = self.reported_at.is_none() && !used.is_zero();
        if !(is_forced || is_changed || is_first || is_due || !self.wanted.is_zero()) {
            return None;
        }
        let block = Usd::from_femto(limit.amount.femto() * i128::from(terms.block_ppm) / 1_000_000);
        let is_wanting = !self.wanted.is_zero();
        // Where the limit is nearly used up, nobody keeps more than it needs.
        let block = if self.is_asked_back { self.wanted } else { block.max(self.wanted) };
        let target = match () {
            () if is_wanting => used + block,
            () if is_idle || self.is_asked_back => used,
            () => used + block,
        };
        // A lease that is half used is raised in time; one that is larger than the target is lowered.
        let want = if is_wanting || self.granted < used + half(block) { target } else { self.granted.min(target) };
        // Two replicas that each keep too little for a request would wait for each other.
        let kept = if self.is_asked_back { used } else { self.granted.min(want) };
        self.granted = kept.max(used);
        self.reported_used = used;
        let ceiling = used + half(want - used).max(self.wanted).max(Usd::ZERO);
        self.ceiling = self.ceiling.min(ceiling);
        Some(LeaseReport {
            period,
            granted: micros_up(self.granted),
            used: micros_up(used),
            ceiling: micros_up(ceiling),
            spent: micros_up(spent),
            need: micros_up(if is_wanting { used + self.wanted } else { self.granted }),
            want: micros_up(want),
            limit: micros_down(limit.amount),
        })
    }

    /// Takes the answer to a report over. `at` is the time of the report.
    pub fn take(&mut self, report: &LeaseReport, answer: LeaseAnswer, at: Moment) {
        if self.period != report.period {
            return;
        }
        self.granted = self.granted.max(micros(answer.granted));
        self.ceiling = micros(report.ceiling.min(answer.granted));
        self.is_cut_off = false;
        if answer.granted >= report.need {
            self.wanted = Usd::ZERO;
        }
        self.reported_at = Some(at.now);
        self.is_asked_back = answer.is_asked_back;
        self.others = Some(Others { spent: micros(answer.others_spent), used: micros(answer.others_used) });
    }

    /// Gives back what is not used with the next report: this replica ends.
    pub fn give_back(&mut self) {
        (self.is_asked_back, self.wanted) = (true, Usd::ZERO);
    }

    /// Gives up what a request needed: it waited long enough.
    pub fn give_up(&mut self) {
        self.wanted = Usd::ZERO;
    }
}

/// End of the period of a limit.
fn period(limit: SpendLimit, now_ms: i64) -> Option<i64> {
    limit.reset.map(|reset| reset.next_start_ms(now_ms))
}

fn half(amount: Usd) -> Usd {
    Usd::from_femto(amount.femto() / 2)
}

fn micros(amount: i64) -> Usd {
    Usd::from_femto(i128::from(amount) * FEMTO_PER_MICRO)
}

fn micros_down(amount: Usd) -> i64 {
    i64::try_from(amount.femto().max(0) / FEMTO_PER_MICRO).unwrap_or(i64::MAX)
}

fn micros_up(amount: Usd) -> i64 {
    i64::try_from((amount.femto().max(0) + FEMTO_PER_MICRO - 1) / FEMTO_PER_MICRO).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use pointsman_domain::ResetPeriod;

    use super::*;

    const TERMS: LeaseTerms = LeaseTerms { block_ppm: 100_000, usable: Duration::from_secs(60) };
    const DAY_MS: i64 = 86_400_000;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    fn limit() -> SpendLimit {
        SpendLimit { amount: usd("10"), reset: Some(ResetPeriod::Daily) }
    }

    fn at(seconds: u64) -> Moment {
        Moment { now_ms: seconds as i64 * 1000, now: Tick(seconds * 1_000_000) }
    }

    fn answer(granted: i64) -> LeaseAnswer {
        LeaseAnswer { granted, others_spent: 0, others_used: 0, is_asked_back: false }
    }

    /// A lease of one block for a request that needs half of one.
    fn leased(meter: &SpendingMeter) -> Lease {
        let mut lease = Lease::default();
        lease.want(usd("0.5"));
        let report = lease.report(limit(), meter, at(1), &TERMS, false).unwrap();
        assert_eq!((report.granted, report.need, report.want, report.limit), (0, 500_000, 1_000_000, 10_000_000));
        assert_eq!(report.ceiling, 500_000);
        lease.take(&report, answer(1_000_000), at(1));
        lease
    }

    #[test]
    fn a_lease_counts_from_the_answer_on_and_ends_with_its_period_or_without_reports() {
        let meter = SpendingMeter::default();
        let lease = leased(&meter);
        assert_eq!(Lease::default().amount(limit(), at(1), &TERMS), Usd::ZERO);
        assert_eq!(lease.amount(limit(), at(2), &TERMS), usd("0.5"), "what Redis knows that it may use");
        let mut cut_off = lease;
        cut_off.cut_off();
        assert_eq!(cut_off.amount(limit(), at(2), &TERMS), usd("1"));
        assert_eq!(lease.amount(limit(), at(61), &TERMS), Usd::ZERO);
        let tomorrow = Moment { now_ms: DAY_MS + 1, now: at(2).now };
        assert_eq!(lease.amount(limit(), tomorrow, &TERMS), Usd::ZERO);
    }

    #[test]
    fn a_half_used_lease_is_raised_before_it_is_used_up() {
        let mut meter = SpendingMeter::default();
        let mut lease = leased(&meter);
        assert_eq!(lease.report(limit(), &meter, at(2), &TERMS, false), None, "nothing is new");
        meter.add(usd("0.6"), at(2).now_ms);
        let report = lease.report(limit(), &meter, at(2), &TERMS, false).unwrap();
        assert_eq!((report.granted, report.used, report.want), (1_000_000, 600_000, 1_600_000));
    }

    #[test]
    fn what_is_asked_back_or_idle_is_lowered_here_before_it_is_reported() {
        let mut meter = SpendingMeter::default();
        let mut lease = leased(&meter);
        meter.reserve(usd("0.25"), None, at(2).now_ms).unwrap();
        let report = lease.report(limit(), &meter, at(2), &TERMS, false).unwrap();
        lease.take(&report, LeaseAnswer { is_asked_back: true, ..answer(report.granted) }, at(2));
        let report = lease.report(limit(), &meter, at(5), &TERMS, false).unwrap();
        assert_eq!((report.granted, report.want), (250_000, 250_000));
        assert_eq!(lease.amount(limit(), at(5), &TERMS), usd("0.25"));

        let mut idle = leased(&SpendingMeter::default());
        let report = idle.report(limit(), &SpendingMeter::default(), at(100), &TERMS, false).unwrap();
        assert_eq!((report.granted, report.want), (0, 0));
    }

    #[test]
    fn a_replica_that_waits_for_more_keeps_nothing_that_another_one_waits_for() {
        let meter = SpendingMeter::default();
        let mut lease = leased(&meter);
        lease.want(usd("2"));
        let report = lease.report(limit(), &meter, at(2), &TERMS, false).unwrap();
        lease.take(&report, LeaseAnswer { is_asked_back: true, ..answer(report.granted) }, at(2));
        let report = lease.report(limit(), &meter, at(3), &TERMS, false).unwrap();
        assert_eq!((report.granted, report.need, report.want), (0, 2_000_000, 2_000_000));
    }

    #[test]
    fn after_redis_was_lost_everything_that_was_used_is_reported_again() {
        let mut meter = SpendingMeter::default();
        let mut lease = leased(&meter);
        meter.add(usd("0.1"), at(2).now_ms);
        let report = lease.report(limit(), &meter, at(2), &TERMS, false).unwrap();
        lease.take(&report, answer(1_000_000), at(2));
        assert_eq!(lease.report(limit(), &meter, at(3), &TERMS, false), None);
        assert_eq!(lease.report(limit(), &meter, at(3), &TERMS, true).unwrap().granted, 1_000_000);
    }
}
