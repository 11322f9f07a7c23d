//! The rate limit of a provider: a sliding window of sixty seconds over arrival times. The time is an argument.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Length of the window.
const WINDOW: Duration = Duration::from_secs(60);

/// Arrival times of admitted requests in the window.
#[derive(Debug, Default)]
pub(super) struct Quota {
    admitted: VecDeque<Instant>,
}

impl Quota {
    /// Admits a request at `now` and returns how many more would be admitted.
    ///
    /// # Errors
    /// The time to wait, when the limit is reached.
    pub(super) fn admit(&mut self, now: Instant, limit: u32) -> Result<u32, Duration> {
        while self.admitted.front().is_some_and(|oldest| now.saturating_duration_since(*oldest) >= WINDOW) {
            self.admitted.pop_front();
        }
        let limit = limit as usize;
        if self.admitted.len() < limit {
            self.admitted.push_back(now);
            return Ok((limit - self.admitted.len()) as u32);
        }
        // After the limit was lowered, several arrivals have to leave the window first.
        let leaves = self.admitted.get(self.admitted.len() - limit.max(1).min(self.admitted.len()));
        let waited = leaves.map_or(Duration::ZERO, |arrival| now.saturating_duration_since(*arrival));
        Err(WINDOW.saturating_sub(waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_the_limit_then_names_the_wait_until_the_oldest_leaves() {
        let mut quota = Quota::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(quota.admit(at(0), 2), Ok(1));
        assert_eq!(quota.admit(at(10), 2), Ok(0));
        assert_eq!(quota.admit(at(20), 2), Err(Duration::from_secs(40)));
        assert_eq!(quota.admit(at(60), 2), Ok(0));
        assert_eq!(quota.admit(at(61), 2), Err(Duration::from_secs(9)));
    }

    #[test]
    fn a_limit_of_nothing_admits_nothing() {
        assert_eq!(Quota::default().admit(Instant::now(), 0), Err(WINDOW));
    }
}
