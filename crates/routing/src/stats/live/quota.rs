//! Remaining quota that an endpoint announced, and when the next request fits into it.
//!
//! Providers announce in response headers how many requests and tokens they accept before a reset. An endpoint with
//! a used-up quota is not called, so it need not answer 429. The last few requests are spread over the rest of the
//! window. Where the limit is known, too, the quota is taken for a bucket that is refilled steadily, as OpenAI documents it: the reset is
//! when the bucket is full, and the next request fits much earlier. A provider that means a window answers with 429 then, and is not
//! called before the time that this answer names. A plain value; the caller passes the time and reports every admission.

use std::time::Duration;

use pointsman_domain::Tick;

/// Remaining requests at which the rest is spread over the window.
const FEW: u64 = 8;
/// Tokens left from which hardly a request has to wait.
const ENOUGH_TOKENS: u64 = 100_000;
/// Longest time for which a used-up quota is believed, like the date of a 429.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a quota without a reset date is believed.
const UNDATED: Duration = Duration::from_secs(1);

/// Remaining amount and its reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    /// Requests or tokens left.
    pub left: u64,
    /// Time until the reset; `None` if the answer gave none.
    pub resets_in: Option<Duration>,
    /// Time in which one of them comes back, if the quota is refilled steadily; `None` if nothing is known of that.
    pub refill: Option<Duration>,
}

/// Quota headers of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaReport {
    /// Requests: `x-ratelimit-remaining-requests` and its reset.
    pub requests: Option<Remaining>,
    /// Tokens: `x-ratelimit-remaining-tokens` and its reset.
    pub tokens: Option<Remaining>,
}

impl QuotaReport {
    /// Whether the answer had no quota headers.
    pub fn is_some(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some()
    }

    /// The report of an answer that refused the request: the provider says by it when requests fit again.
    #[must_use]
    pub fn of_refusal(mut self, retry_after: Option<Duration>) -> QuotaReport {
        if let Some(requests) = &mut self.requests {
            requests.refill = None;
            if requests.left == 0 {
                requests.resets_in = retry_after.or(requests.resets_in);
            }
        }
        self
    }

    /// Whether so little is left that requests may have to wait.
    pub fn is_scarce(&self) -> bool {
        self.requests.is_some_and(|requests| requests.left <= FEW)
            || self.tokens.is_some_and(|tokens| tokens.left < ENOUGH_TOKENS)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    left: u64,
    resets: Tick,
    refill: Option<Duration>,
    /// When the last request was counted, or when the quota was used up.
    at: Tick,
}

/// Quota of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    requests: Option<Budget>,
    tokens: Option<Budget>,
    admitted: Tick,
}

/// Tokens left until a reset. A larger request has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokensLeft {
    /// Tokens left.
    pub left: u64,
    /// When the quota is reset.
    pub until: Tick,
}

impl Quota {
    /// Whether no quota limits requests.
    pub fn is_quiet(&self) -> bool {
        self.tokens.is_none() && self.requests.is_none_or(|budget| budget.left > FEW)
    }

    /// Records the quota headers of an answer. `since` requests were admitted after the answered request and are not
    /// yet included in the headers.
    pub fn report(&mut self, now: Tick, report: QuotaReport, since: u64) {
        let admitted = self.admitted;
        let budget = |remaining: Remaining, since: u64| {
            let left = remaining.left.saturating_sub(since);
            let resets = now.plus(remaining.resets_in.unwrap_or(UNDATED));
            Budget { left, resets, refill: remaining.refill, at: if left == 0 { now } else { admitted } }
        };
        self.requests = report.requests.map(|remaining| budget(remaining, since)).or(self.requests);
        self.tokens = report.tokens.map(|remaining| budget(remaining, 0)).or(self.tokens);
    }

    /// When the next request is allowed; `None` means at once.
    pub fn due(&self, now: Tick) -> Option<Tick> {
        let budget = self.requests.filter(|budget| now < budget.resets && budget.left <= FEW)?;
        let rest = budget.resets - budget.at;
        let wait = match (budget.left, budget.refill) {
            (0, refill) => refill.map_or(rest, |refill| refill.min(rest)),
            (_, Some(_)) => return None,
            (left, None) => rest / u32::try_from(left + 1).unwrap_or(u32::MAX),
        };
        let due = budget.at.plus(wait.min(LONGEST));
        (now < due).then_some(due)
    }

    /// Tokens left; `None` if they are not limited.
    pub fn tokens(&self, now: Tick) -> Option<TokensLeft> {
        let budget = self.tokens.filter(|budget| now < budget.resets)?;
        let until = budget.resets.min(budget.at.plus(LONGEST));
        let back = budget.refill.map_or(0, |refill| (now - budget.at).as_nanos() / refill.as_nanos().max(1));
        let left = budget.left.saturating_add(u64::try_from(back).unwrap_or(u64::MAX));
        (now < until).then_some(TokensLeft { left, until })
    }

    /// Counts an admitted request and its expected tokens.
    pub fn admit(&mut self, now: Tick, tokens: u64) {
        self.admitted = now;
        let spent = |budget: Budget, by: u64| Budget { left: budget.left.saturating_sub(by), at: now, ..budget };
        self.requests = self.requests.filter(|budget| now < budget.resets).map(|budget| spent(budget, 1));
        self.tokens = self.tokens.filter(|budget| now < budget.resets).map(|budget| spent(budget, tokens));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Tick {
        Tick((seconds * 1e6) as u64)
    }

    fn reported(requests: u64, seconds: u64) -> Quota {
        let mut quota = Quota::default();
        let requests = Some(Remaining { left: requests, resets_in: Some(Duration::from_secs(seconds)), refill: None });
        quota.admit(at(100.0), 10);
        quota.report(at(100.0), QuotaReport { requests, tokens: None }, 0);
        quota
    }

    /// Seconds after the report at which requests pass, of ten a second.
    fn passed(mut quota: Quota, seconds: u32) -> Vec<f64> {
        let times = (0..10 * seconds).map(|tenth| f64::from(tenth) / 10.0);
        times
            .filter(|time| {
                let now = at(100.0 + time);
                let passes = quota.due(now).is_none();
                if passes {
                    quota.admit(now, 10);
                }
                passes
            })
            .collect()
    }

    #[test]
    fn a_quota_with_enough_left_delays_no_request() {
        assert_eq!(passed(reported(1000, 60), 10).len(), 100);
    }

    #[test]
    fn a_used_up_quota_admits_no_request_before_its_reset() {
        let passed = passed(reported(0, 7), 10);
        assert!((passed[0] - 7.0).abs() < 1e-9 && passed.len() == 30, "{passed:?}");
    }

    #[test]
    fn the_last_requests_are_spread_over_the_window() {
        let passed: Vec<f64> = passed(reported(4, 20), 20);
        assert_eq!(passed, [4.0, 8.0, 12.0, 16.0]);
    }

    #[test]
    fn a_bucket_admits_a_request_whenever_one_comes_back() {
        let mut quota = Quota::default();
        let refill = Some(Duration::from_millis(500));
        let requests = Some(Remaining { left: 2, resets_in: Some(Duration::from_secs(59)), refill });
        quota.report(at(100.0), QuotaReport { requests, tokens: None }, 0);
        let passed = passed(quota, 2);
        assert_eq!(passed, [0.0, 0.1, 0.6, 1.1, 1.6], "two at once, then two a second");
    }

    #[test]
    fn a_refusal_says_when_requests_fit_again_and_wins_over_the_reset() {
        let report = |left, refill| {
            let requests = Remaining { left, resets_in: Some(Duration::from_secs(59)), refill };
            QuotaReport { requests: Some(requests), tokens: None }
        };
        let due = |report: QuotaReport| {
            let mut quota = Quota::default();
            quota.report(at(100.0), report, 0);
            quota.due(at(100.0))
        };
        let refill = Some(Duration::from_millis(500));
        assert_eq!(due(report(0, refill).of_refusal(Some(Duration::from_secs(2)))), Some(at(102.0)));
        assert_eq!(due(report(0, refill).of_refusal(None)), Some(at(159.0)), "a window, and not a bucket");
    }

    #[test]
    fn admitted_requests_are_subtracted_from_the_quota() {
        let passed = passed(reported(20, 60), 60);
        assert_eq!(passed.len(), 20, "all of the twenty and no more");
        assert!(passed[11] < 1.5 && passed[13] > 5.0, "{passed:?}");
    }

    #[test]
    fn a_quota_with_a_distant_reset_is_believed_for_a_minute() {
        let quota = reported(0, 86_400);
        assert_eq!(quota.due(at(100.0)), Some(at(160.0)));
        assert_eq!(quota.due(at(160.0)), None);
    }

    #[test]
    fn requests_in_flight_are_subtracted_from_a_reported_quota() {
        let mut quota = Quota::default();
        let requests = Some(Remaining { left: 3, resets_in: Some(Duration::from_secs(5)), refill: None });
        quota.report(at(100.0), QuotaReport { requests, tokens: None }, 3);
        assert_eq!(quota.due(at(100.0)), Some(at(105.0)));
    }

    #[test]
    fn tokens_are_counted_down_until_the_reset() {
        let mut quota = Quota::default();
        let tokens = Some(Remaining { left: 1000, resets_in: Some(Duration::from_secs(5)), refill: None });
        quota.report(at(100.0), QuotaReport { requests: None, tokens }, 0);
        quota.admit(at(101.0), 700);
        assert_eq!(quota.tokens(at(101.0)), Some(TokensLeft { left: 300, until: at(105.0) }));
        assert_eq!((quota.tokens(at(105.0)), quota.due(at(101.0))), (None, None));
    }
}
