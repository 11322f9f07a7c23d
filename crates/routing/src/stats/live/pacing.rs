//! Request rate allowed at an endpoint that answered 429.
//!
//! A `Retry-After` date does not say at which rate to continue. The rate is learned: it starts a little below the
//! rate at which the last 429 came and grows until the next 429. Both growing and forgetting begin when the wait is
//! over: before, nothing is asked and nothing learned. A plain value; the caller passes the time.

use std::time::Duration;

use pointsman_domain::{Failure, Tick};

/// Share of the rate at which the 429 came that is allowed afterwards.
const CAUTION: f64 = 0.85;
/// Growth of the allowed rate per second.
const GROWTH: f64 = 1.05;
/// Token bucket size: requests that may follow each other at once.
const BURST: f64 = 2.0;
/// 429s closer together than this count as one.
const SAME: Duration = Duration::from_millis(300);
/// Pacing ends after this long without a 429, not counting the wait that the last one asked for.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Without pacing, admissions are counted over the last one to two periods of this length.
const SPAN: Duration = Duration::from_secs(5);

/// Requests admitted since a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Admitted {
    since: Tick,
    count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// Requests per second.
    rate: f64,
    tokens: f64,
    at: Tick,
    refused: Tick,
    /// When it is forgotten.
    until: Tick,
}

/// The admission rate of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pacing {
    earlier: Admitted,
    admitted: Admitted,
    pace: Option<Pace>,
}

impl Pacing {
    /// Whether no rate limit applies.
    pub fn is_quiet(&self) -> bool {
        self.pace.is_none()
    }

    /// When the next request is allowed; `None` means at once.
    pub fn due(&self, now: Tick) -> Option<Tick> {
        let pace = self.pace.filter(|pace| now < pace.until)?.refilled(now);
        if pace.tokens >= 1.0 {
            return None;
        }
        let wait = Duration::try_from_secs_f64((1.0 - pace.tokens) / pace.rate.max(1e-9));
        Some(pace.at.plus(wait.unwrap_or(FORGOTTEN).min(FORGOTTEN)))
    }

    /// Counts an admitted request and takes a token.
    pub fn admit(&mut self, now: Tick) {
        self.pace = self.pace.filter(|pace| now < pace.until).map(|pace| pace.refilled(now).taken());
        if self.pace.is_none() && now - self.admitted.since >= SPAN {
            let gone = now - self.admitted.since >= 2 * SPAN;
            self.earlier = if gone { Admitted { since: now, count: 0 } } else { self.admitted };
            self.admitted = Admitted { since: now, count: 0 };
        }
        self.admitted.count = self.admitted.count.saturating_add(1);
    }

    /// Records a 429 to a request admitted at `dispatched` that asks for a `wait`. That of a request admitted before the previous
    /// 429 leaves the rate as it is; a wait that ends later prolongs the pace.
    pub fn refuse(&mut self, now: Tick, dispatched: Tick, wait: Option<Duration>) {
        let wait = wait.unwrap_or_default().min(Failure::LONGEST_WAIT);
        if let Some(pace) = self.pace.filter(|pace| now - pace.refused < SAME || dispatched <= pace.refused) {
            if !wait.is_zero() && now.plus(wait) > pace.at {
                self.resume(Pace { refused: pace.refused, ..Pace::after(wait, pace.refilled(now).rate, now) });
            }
            return;
        }
        let since = self.earlier.since.min(self.admitted.since);
        let count = self.earlier.count.saturating_add(self.admitted.count).max(1);
        let rate = f64::from(count) / (now - since).max(SAME).as_secs_f64();
        let known = self.pace.map_or(f64::INFINITY, |pace| pace.refilled(now).rate);
        let rate = CAUTION * rate.min(known);
        self.resume(Pace::after(wait, rate, now));
    }

    /// Goes on at a pace. Requests are counted from when it begins.
    fn resume(&mut self, pace: Pace) {
        self.earlier = Admitted { since: pace.at, count: 0 };
        self.admitted = self.earlier;
        self.pace = Some(pace);
    }
}

impl Pace {
    /// The pace that begins a `wait` after the 429 that comes `now`.
    fn after(wait: Duration, rate: f64, now: Tick) -> Pace {
        let (at, tokens) = (now.plus(wait), (rate * wait.as_secs_f64()).min(BURST));
        Pace { rate, tokens, at, refused: now, until: at.plus(FORGOTTEN) }
    }

    fn refilled(self, now: Tick) -> Pace {
        let elapsed = now.seconds_since(self.at);
        let grown = self.rate * libm::pow(GROWTH, elapsed);
        let tokens = (self.tokens + 0.5 * (self.rate + grown) * elapsed).min(BURST);
        Pace { rate: grown, tokens, at: self.at.max(now), ..self }
    }

    fn taken(self) -> Pace {
        Pace { tokens: (self.tokens - 1.0).max(0.0), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Tick {
        Tick((seconds * 1e6) as u64)
    }

    /// Ten requests a second for three seconds, then a 429.
    fn refused_at_ten_a_second() -> Pacing {
        refused_with(None)
    }

    fn refused_with(wait: Option<u64>) -> Pacing {
        let mut pacing = Pacing::default();
        (0..30).for_each(|i| pacing.admit(at(100.0 + f64::from(i) / 10.0)));
        pacing.refuse(at(103.0), at(102.9), wait.map(Duration::from_secs));
        pacing
    }

    /// Requests that pass in a tenth of a second each, from a moment on.
    fn passed(pacing: &mut Pacing, from: f64, tenths: u32) -> usize {
        let times = (0..tenths).map(|tenth| at(from + f64::from(tenth) / 10.0));
        times.filter(|now| pacing.due(*now).is_none().then(|| pacing.admit(*now)).is_some()).count()
    }

    #[test]
    fn nothing_is_paced_before_the_first_429() {
        let mut pacing = Pacing::default();
        (0..1000).for_each(|_| pacing.admit(at(1.0)));
        assert_eq!(pacing.due(at(1.0)), None);
    }

    #[test]
    fn the_pace_is_a_little_below_the_rate_at_which_the_429_came() {
        let mut pacing = refused_at_ten_a_second();
        assert!(pacing.due(at(103.0)).is_some());
        let passed = passed(&mut pacing, 104.0, 50);
        assert!((38..=50).contains(&passed), "8.5 a second, growing: {passed}");
    }

    #[test]
    fn a_429_to_a_request_from_before_the_last_429_changes_nothing() {
        let mut pacing = refused_at_ten_a_second();
        let once = pacing;
        pacing.refuse(at(103.2), at(103.1), None);
        assert_eq!(pacing, once, "the same burst");
        pacing.refuse(at(105.0), at(102.95), None);
        assert_eq!(pacing, once, "dispatched before the first 429");
    }

    #[test]
    fn a_429_of_the_same_burst_that_asks_for_a_longer_wait_prolongs_the_pace() {
        let is_paced = |pacing: &Pacing, seconds| {
            let mut pacing = *pacing;
            (0..3).for_each(|_| pacing.admit(at(seconds)));
            pacing.due(at(seconds)).is_some()
        };
        let mut pacing = refused_at_ten_a_second();
        pacing.refuse(at(103.1), at(102.95), Some(Duration::from_secs(45)));
        let once = pacing;
        pacing.refuse(at(103.2), at(102.96), Some(Duration::from_secs(10)));
        assert_eq!(pacing, once, "a shorter wait changes nothing");
        assert!(is_paced(&pacing, 148.2) && is_paced(&pacing, 178.0) && !is_paced(&pacing, 178.2));
        // The rate is that of the first 429, and the next one counts from the end of the wait.
        pacing.admit(at(149.0));
        pacing.refuse(at(150.1), at(149.0), None);
        let due = pacing.due(at(150.1)).unwrap().seconds_since(at(150.1));
        assert!((2.0..2.7).contains(&due), "one request in two seconds: {due}");
    }

    #[test]
    fn a_second_429_lowers_the_pace_and_half_a_minute_without_one_drops_it() {
        let mut pacing = refused_at_ten_a_second();
        pacing.admit(at(105.0));
        pacing.refuse(at(106.0), at(105.0), None);
        let due = pacing.due(at(106.0)).unwrap();
        assert!(due.seconds_since(at(106.0)) > 2.0, "one request in three seconds");
        assert_eq!(pacing.due(at(136.0)), None);
    }

    #[test]
    fn a_pace_outlives_a_long_retry_after_and_neither_grows_nor_slows_down_meanwhile() {
        for wait in [1, 20, 45, 60, 86_400] {
            let mut pacing = refused_with(Some(wait));
            let resumes = 103.0 + wait.min(60) as f64;
            let passed = passed(&mut pacing, resumes, 50);
            assert!((38..=52).contains(&passed), "8.5 a second after {wait} s: {passed}");
            assert_eq!(pacing.due(at(resumes + 30.0)), None, "half a minute later it is dropped");
            // The next 429 comes at the rate that was asked since, not since the first one.
            pacing.refuse(at(resumes + 5.0), at(resumes + 4.9), None);
            let due = pacing.due(at(resumes + 5.0)).unwrap();
            assert!(due.seconds_since(at(resumes + 5.0)) < 0.2, "after {wait} s: {due:?}");
        }
    }
}
