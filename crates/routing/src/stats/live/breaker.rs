//! Circuit breaker: when to stop calling an endpoint and when to try again.
//!
//! A plain value without lock, timer or clock. [`super::board::LiveBoard`] passes the time and decides which
//! outcomes count; [`crate::stats::model::failure_effect::FailureEffect`] says what a failure means. Providers use the
//! same type; there only refused connections and account faults count.
//!
//! ```text
//! closed --failures--> open --until passed--> half-open --success--> closed
//!        --429-------> cooling --until passed--> half-open
//!        --refusal---> config fault --until passed--> half-open
//! half-open --failure--> open (longer) --429--> cooling --refusal--> config fault --cancelled--> half-open
//!           --answer begins--> closed, but open (longer) if it fails before any success
//! ```
//! While requests are refused, the deadline never moves to an earlier time.

use std::time::Duration;

use pointsman_domain::{BreakerPolicy, ExclusionReason, Failure, FailureCause, FailureKind, Finding, Tick};

use super::gate::Gate;

/// First and longest duration of a configuration fault.
const FAULT_BASE: Duration = Duration::from_secs(60);
const FAULT_MOST: Duration = Duration::from_secs(15 * 60);
/// Cooldown after a 429 without a date.
const COOLING_DEFAULT: Duration = Duration::from_secs(1);
/// Consecutive successes after which earlier openings are forgotten, so that the next outage starts with a short
/// opening again. An endpoint that fails a tenth of the time hardly ever reaches it.
const SOUND: u32 = 30;

/// How a request passed the breaker, which decides what its outcome means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedAs {
    /// The breaker was closed.
    Ordinary,
    /// As the probe of a half-open breaker.
    Probe,
    /// Past an open breaker, because no other candidate was left.
    Panic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Closed,
    Cooling {
        until: Tick,
    },
    Open {
        until: Tick,
    },
    ConfigFault {
        until: Tick,
    },
    Probing {
        since: Tick,
    },
}

/// The breaker of an endpoint or provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breaker {
    state: State,
    failures: u32,
    /// Consecutive successes.
    answers: u32,
    /// Consecutive successes before the present run of failures.
    before: u32,
    opens: u32,
    faults: u32,
    last: Option<FailureCause>,
    refused: Option<RefusedSince>,
    /// The wait that was told for the present cooldown, if it was shortened.
    told: Option<Duration>,
    /// Whether requests that have waited may pass beside the probe.
    is_lenient: bool,
}

/// What a provider refuses, and since when without a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedSince {
    /// The first refusal.
    pub since: Tick,
    /// What the provider said at the last one.
    pub finding: Finding,
}

impl Breaker {
    /// The gate at `now`. Reading it changes nothing, so a preview may.
    pub fn gate(&self, now: Tick) -> Gate {
        match self.state {
            State::Closed => Gate::Passing,
            State::Probing { since } => Gate::Probing { since },
            State::Cooling { until } | State::Open { until } | State::ConfigFault { until } if now >= until => {
                Gate::HalfOpen { since: until }
            }
            State::Cooling { until } => Gate::Cooling { until },
            State::Open { until } => Gate::Open { until },
            State::ConfigFault { until } => Gate::ConfigFault { until },
        }
    }

    /// Whether the breaker is closed and holds nothing to show.
    pub fn is_quiet(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether the run of failures followed many consecutive successes.
    pub fn failed_suddenly(&self) -> bool {
        self.before >= SOUND
    }

    /// Whether the last call failed and the one before it succeeded.
    pub fn has_failed_once(&self) -> bool {
        self.failures == 1 && self.before > 0 && self.state == State::Closed
    }

    /// Consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    pub fn last(&self) -> Option<FailureCause> {
        self.last
    }

    /// The wait that was told for the cooldown, if it was longer than any that is heeded.
    pub fn told(&self) -> Option<Duration> {
        self.told.filter(|_| matches!(self.state, State::Cooling { .. }))
    }

    /// Whether requests that have waited may pass beside the probe, as many as there are: it was a 429 that shut the breaker, or
    /// the answer to the probe has begun.
    pub fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// The configuration fault that no success has ended yet.
    pub fn refused(&self) -> Option<RefusedSince> {
        self.refused
    }

    /// Ends a configuration fault, because what was refused has changed. Returns whether there was one.
    pub fn pardon(&mut self) -> bool {
        if self.refused.take().is_none() {
            return false;
        }
        self.faults = 0;
        // A fault may have lengthened a cooldown or an opening; the request that finds out costs little.
        self.state = State::Closed;
        true
    }

    /// Admits a request: with `probe` as the probe of a half-open breaker, with `panic` past an open one. During a
    /// cooldown or a configuration fault no request is admitted.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn admit(&mut self, now: Tick, probe: bool, panic: bool) -> Result<PassedAs, ExclusionReason> {
        match self.gate(now) {
            Gate::Passing => Ok(PassedAs::Ordinary),
            Gate::HalfOpen { since } if probe || panic => {
                self.state = State::Probing { since };
                Ok(PassedAs::Probe)
            }
            Gate::Open { .. } | Gate::Probing { .. } if panic => Ok(PassedAs::Panic),
            gate => Err(gate.refusal().unwrap_or(ExclusionReason::CircuitOpen)),
        }
    }

    /// Records that an answer has begun. An answer may take long, so that of the probe closes the breaker at its beginning. Where
    /// answers broke off, a beginning proves little.
    pub fn begin_answer(&mut self, passed_as: PassedAs) {
        if !matches!((self.state, passed_as), (State::Probing { .. }, PassedAs::Probe)) {
            return;
        }
        let breaks_off = |last: FailureCause| {
            matches!(last.kind, FailureKind::Truncated | FailureKind::Reset | FailureKind::Malformed)
        };
        if self.last.is_some_and(breaks_off) { self.is_lenient = true } else { self.state = State::Closed }
    }

    /// Records a success. Returns whether it closed the breaker, or completes what did.
    pub fn succeed(&mut self, passed_as: PassedAs) -> bool {
        self.failures = 0;
        self.answers = self.answers.saturating_add(1);
        if self.answers >= SOUND && self.state == State::Closed {
            self.opens = 0;
        }
        let closes = match (self.state, passed_as) {
            (State::Probing { .. }, PassedAs::Probe | PassedAs::Panic) => true,
            (State::Open { .. }, PassedAs::Panic) => true,
            (State::Closed, PassedAs::Probe) => true,
            _ => return false,
        };
        self.state = State::Closed;
        self.opens = self.opens.saturating_sub(1);
        self.faults = 0;
        self.refused = None;
        closes
    }

    /// Counts a failure; [`Breaker::trip`] decides what follows.
    pub fn count(&mut self, cause: FailureCause) {
        if self.failures == 0 {
            self.before = self.answers;
        }
        self.failures = self.failures.saturating_add(1);
        self.answers = 0;
        self.last = Some(cause);
    }

    /// Handles a counted failure: opens the breaker if `trips` is set or if the request was the probe. The failure of a
    /// request that was in flight when the breaker opened, or that passed in panic, changes nothing.
    pub fn trip(
        &mut self,
        now: Tick,
        passed_as: PassedAs,
        trips: bool,
        policy: &BreakerPolicy,
        jitter: impl Fn(u32) -> f64,
    ) {
        let held = match (self.state, passed_as) {
            (State::Closed, _) if trips => Tick(0),
            (State::Cooling { until }, _) if trips => until,
            (State::Probing { since }, PassedAs::Probe) => since,
            // Its answer had begun, and nothing has succeeded since.
            (State::Closed, PassedAs::Probe) if self.failures > 1 => Tick(0),
            _ => return,
        };
        self.is_lenient = false;
        // A hanging endpoint costs each request a full time-out, so it is probed less often.
        let hangs = self.last.is_some_and(|last| last.kind == FailureKind::Timeout);
        let least = if hangs { policy.timeout_step } else { 1 };
        self.opens = (self.opens + 1).max(least).min(policy.max_steps.max(1));
        let time = policy.open_for(self.opens).as_secs_f64() * jitter(self.opens);
        let until = now.plus(Duration::try_from_secs_f64(time).unwrap_or(policy.base));
        self.state = State::Open { until: until.max(held) };
    }

    /// Starts the cooldown that a 429 asked for.
    pub fn cool(&mut self, now: Tick, asked: Option<Duration>, cause: FailureCause) {
        let until = now.plus(asked.unwrap_or(COOLING_DEFAULT).min(Failure::LONGEST_WAIT));
        let told = asked.filter(|asked| *asked > Failure::LONGEST_WAIT);
        self.told = told.or(self.told.filter(|_| matches!(self.state, State::Cooling { until } if now < until)));
        self.state = match self.state {
            State::Closed | State::Probing { .. } => State::Cooling { until },
            State::Cooling { until: held } => State::Cooling { until: held.max(until) },
            State::Open { until: held } if now >= held => State::Cooling { until },
            State::Open { until: held } => State::Open { until: held.max(until) },
            State::ConfigFault { until: held } => State::ConfigFault { until: held.max(until) },
        };
        self.is_lenient |= matches!(self.state, State::Cooling { .. });
        self.last = Some(cause);
    }

    /// The account or the model name is wrong: closes for a minute, then twice as long each time, up to a quarter of an
    /// hour. Answers to requests that were in flight when it closed change nothing.
    pub fn fault(&mut self, now: Tick, passed_as: PassedAs, cause: FailureCause, finding: Finding) {
        let held = match (self.state, passed_as) {
            (State::ConfigFault { .. }, _) => return,
            (State::Probing { .. }, PassedAs::Ordinary) => return,
            (State::Cooling { until } | State::Open { until }, _) => until,
            (State::Closed | State::Probing { .. }, _) => Tick(0),
        };
        let time = FAULT_BASE.saturating_mul(1 << self.faults.min(8)).min(FAULT_MOST);
        self.faults = self.faults.saturating_add(1);
        self.is_lenient = false;
        self.last = Some(cause);
        let since = self.refused.map_or(now, |refused| refused.since);
        self.refused = Some(RefusedSince { since, finding });
        self.state = State::ConfigFault { until: now.plus(time).max(held) };
    }

    /// The request ended without saying anything about the endpoint: its probe slot is free again.
    pub fn release(&mut self, passed_as: PassedAs) {
        if let (State::Probing { since }, PassedAs::Probe) = (self.state, passed_as) {
            self.state = State::Open { until: since };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use pointsman_domain::RoutingPolicy;

    const SERVER: FailureCause = FailureCause { kind: FailureKind::Server, status: Some(500) };
    const NO_MODEL: Finding = Finding { words: "model_not_found", meaning: "the model is unknown there" };
    const TIMEOUT: FailureCause = FailureCause { kind: FailureKind::Timeout, status: None };
    const CUT: FailureCause = FailureCause { kind: FailureKind::Truncated, status: Some(200) };

    fn policy() -> BreakerPolicy {
        RoutingPolicy::default().breaker
    }

    fn at(seconds: f64) -> Tick {
        Tick((seconds * 1e6) as u64)
    }

    /// Plays a script of `<seconds> <event>` steps on one breaker and returns the gate at its end. Events: `fail`,
    /// `refused`, `timeout` (those two open at once), `ok`, `429:<seconds>`, `404`, `probe` (admit as the probe),
    /// `panic` (admit in panic), `probe-begin` (its answer begins), `cut` (an answer that broke off), `probe-ok`, `probe-fail`, `probe-429:<seconds>`, `probe-404`, `probe-gone`,
    /// `panic-ok`, `panic-fail`, `look`.
    fn played(script: &str) -> String {
        let mut breaker = Breaker::default();
        let mut now = at(0.0);
        for step in script.split(',') {
            let (when, event) = step.trim().split_once(' ').unwrap();
            now = at(when.parse().unwrap());
            play(&mut breaker, now, event);
        }
        let seconds = |tick: Tick| tick.0 as f64 / 1e6;
        match breaker.gate(now) {
            Gate::Passing => "passing".to_owned(),
            Gate::Cooling { until } => format!("cooling until {}", seconds(until)),
            Gate::Open { until } => format!("open until {}", seconds(until)),
            Gate::ConfigFault { until } => format!("config fault until {}", seconds(until)),
            Gate::HalfOpen { since } => format!("half-open since {}", seconds(since)),
            Gate::Probing { since } => format!("probing since {}", seconds(since)),
        }
    }

    fn play(breaker: &mut Breaker, now: Tick, event: &str) {
        let (event, number) = event.split_once(':').map_or((event, None), |(e, n)| (e, n.parse().ok()));
        let (passed_as, event) = match event.split_once('-') {
            Some(("probe", rest)) => (PassedAs::Probe, rest),
            Some(("panic", rest)) => (PassedAs::Panic, rest),
            _ => (PassedAs::Ordinary, event),
        };
        let seconds = number.map(Duration::from_secs_f64);
        match event {
            "fail" | "cut" | "refused" | "timeout" => {
                breaker.count(match event {
                    "timeout" => TIMEOUT,
                    "cut" => CUT,
                    _ => SERVER,
                });
                let trips = matches!(event, "refused" | "timeout") || breaker.failures() >= policy().consecutive;
                breaker.trip(now, passed_as, trips, &policy(), |_| 1.0);
            }
            "ok" => _ = breaker.succeed(passed_as),
            "429" => breaker.cool(now, seconds, SERVER),
            "404" => breaker.fault(now, passed_as, SERVER, NO_MODEL),
            "gone" => breaker.release(passed_as),
            "begin" => breaker.begin_answer(passed_as),
            "probe" => _ = breaker.admit(now, true, false),
            "panic" => _ = breaker.admit(now, false, true),
            "look" => {}
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_wait_that_was_shortened_is_known_while_it_lasts() {
        let (mut breaker, told) = (Breaker::default(), Duration::from_secs(4_469_039_625));
        let shut = |breaker: &Breaker| breaker.gate(Tick(1)).until();
        breaker.cool(Tick(0), Some(told), SERVER);
        assert_eq!((shut(&breaker), breaker.told()), (Some(Tick(60_000_000)), Some(told)));
        breaker.cool(Tick(1), Some(Duration::from_secs(1)), SERVER);
        assert_eq!(breaker.told(), Some(told), "another answer changes nothing");
        breaker.cool(Tick(70_000_000), None, SERVER);
        assert_eq!(breaker.told(), None, "another rest");
        breaker.cool(Tick(70_000_001), Some(told), SERVER);
        assert!(breaker.admit(Tick(200_000_000), true, false).is_ok());
        assert_eq!(breaker.told(), None, "its probe is out");
    }

    #[test]
    fn the_state_machine_moves_as_designed() {
        let cases = [
            // closed -> open
            ("0 fail, 1 fail", "passing"),
            ("0 fail, 1 fail, 2 ok, 3 fail, 4 fail", "passing"),
            ("0 fail, 1 fail, 2 fail", "open until 7"),
            ("0 refused", "open until 5"),
            ("0 refused, 1 refused, 2 fail", "open until 5"),
            ("0 refused, 1 ok", "open until 5"),
            ("0 refused, 5 look", "half-open since 5"),
            // a time-out counts as the third opening at least
            ("0 timeout", "open until 25.3125"),
            ("0 timeout, 26 probe, 28 probe-timeout", "open until 84.953125"),
            ("0 refused, 6 probe, 8 probe-timeout", "open until 33.3125"),
            ("0 timeout, 26 probe, 27 probe-ok, 28 refused", "open until 53.3125"),
            // half-open: one probe, and each of its outcomes
            ("0 refused, 6 probe", "probing since 5"),
            ("0 refused, 6 probe, 6.5 probe", "probing since 5"),
            ("0 refused, 6 probe, 7 probe-ok", "passing"),
            ("0 refused, 6 probe, 7 probe-fail", "open until 18.25"),
            ("0 refused, 6 probe, 7 probe-429:2", "cooling until 9"),
            ("0 refused, 6 probe, 7 probe-404", "config fault until 67"),
            ("0 refused, 6 probe, 7 probe-gone", "half-open since 5"),
            ("0 refused, 6 probe, 7 ok", "probing since 5"),
            ("0 refused, 6 probe, 7 fail", "probing since 5"),
            ("0 refused, 6 probe, 7 probe-ok, 8 refused", "open until 13"),
            // the answer to the probe begins long before it ends
            ("0 refused, 6 probe, 7 probe-begin", "passing"),
            ("0 429:3, 4 probe, 5 probe-begin", "passing"),
            ("0 404, 61 probe, 62 probe-begin", "passing"),
            ("0 refused, 6 probe, 7 begin, 8 panic-begin", "probing since 5"),
            ("0 refused, 6 probe, 7 probe-begin, 8 probe-fail", "open until 19.25"),
            ("0 refused, 6 probe, 7 probe-begin, 8 ok, 9 probe-fail", "passing"),
            ("0 refused, 6 probe, 7 probe-begin, 8 probe-timeout", "open until 33.3125"),
            ("0 429:3, 4 probe, 5 probe-begin, 6 probe-fail", "passing"),
            ("0 fail, 1 fail, 2 fail, 8 probe, 9 probe-begin, 10 fail", "open until 21.25"),
            ("0 404, 61 probe, 62 probe-begin, 63 404", "config fault until 183"),
            ("0 cut, 1 cut, 2 cut, 8 probe, 9 probe-begin", "probing since 7"),
            ("0 cut, 1 cut, 2 cut, 8 probe, 9 probe-begin, 10 probe-cut", "open until 21.25"),
            ("0 cut, 1 cut, 2 cut, 8 probe, 9 probe-begin, 10 probe-ok", "passing"),
            // cooling
            ("0 429", "cooling until 1"),
            ("0 429:3", "cooling until 3"),
            ("0 429:600", "cooling until 60"),
            ("0 429:30, 1 429:2", "cooling until 30"),
            ("0 429:3, 1 ok", "cooling until 3"),
            ("0 429:3, 3 look", "half-open since 3"),
            ("0 429:3, 4 probe, 5 probe-ok", "passing"),
            ("0 429:30, 1 refused", "open until 30"),
            ("0 refused, 1 429:2", "open until 5"),
            ("0 refused, 1 429:20", "open until 21"),
            // config faults double from probe to probe
            ("0 404", "config fault until 60"),
            ("0 404, 1 404", "config fault until 60"),
            ("0 404, 60 probe, 61 probe-404", "config fault until 181"),
            ("0 404, 60 probe, 61 probe-ok, 62 404", "config fault until 122"),
            // panic
            ("0 refused, 1 panic, 2 panic-ok", "passing"),
            ("0 refused, 1 panic, 2 panic-fail", "open until 5"),
            ("0 refused, 6 panic", "probing since 5"),
        ];
        for (script, expected) in cases {
            assert_eq!(played(script), expected, "{script}");
        }
    }

    #[test]
    fn requests_that_have_waited_pass_beside_a_probe_after_a_429_or_whose_answer_has_begun() {
        let is_lenient = |script: &[&str]| {
            let mut breaker = Breaker::default();
            script.iter().enumerate().for_each(|(second, event)| play(&mut breaker, at(100.0 * second as f64), event));
            breaker.is_lenient()
        };
        assert!(is_lenient(&["429", "probe"]));
        assert!(is_lenient(&["429", "probe", "probe-gone", "probe"]));
        assert!(!is_lenient(&["refused", "probe"]) && !is_lenient(&["404", "probe"]));
        assert!(!is_lenient(&["429", "probe", "probe-refused", "probe"]));
        assert!(
            !is_lenient(&["cut", "cut", "cut", "probe"]) && is_lenient(&["cut", "cut", "cut", "probe", "probe-begin"])
        );
        assert!(!is_lenient(&["cut", "cut", "cut", "probe", "probe-begin", "probe-cut"]));
    }

    #[test]
    fn each_opening_lasts_longer_up_to_the_fifth() {
        let mut breaker = Breaker::default();
        let mut now = at(0.0);
        let mut lengths = Vec::new();
        breaker.trip(now, PassedAs::Ordinary, true, &policy(), |_| 1.0);
        for _ in 0..8 {
            let until = breaker.gate(now).until().unwrap();
            lengths.push(until.seconds_since(now).round() as u32);
            now = until;
            assert_eq!(breaker.admit(now, true, false), Ok(PassedAs::Probe));
            breaker.trip(now, PassedAs::Probe, false, &policy(), |_| 1.0);
        }
        assert_eq!(lengths, [5, 11, 25, 57, 128, 128, 128, 128]);
    }

    #[test]
    fn after_thirty_consecutive_successes_the_next_opening_is_short_again() {
        let after = |answers: usize| {
            let again = format!("0 refused, 6 probe, 7 probe-fail, 19 probe, 20 probe-ok{}", ", 21 ok".repeat(answers));
            played(&format!("{again}, 30 refused"))
        };
        assert_eq!(after(28), "open until 41.25", "the probe's answer is one of them");
        assert_eq!(after(29), "open until 35");
    }

    #[test]
    fn cooling_and_misconfigured_endpoints_are_never_called_not_even_in_panic() {
        for (event, reason) in [("429:5", ExclusionReason::RateLimited), ("404", ExclusionReason::ConfigFault)] {
            let mut breaker = Breaker::default();
            play(&mut breaker, at(0.0), event);
            assert_eq!(breaker.admit(at(1.0), true, true), Err(reason));
        }
    }

    #[test]
    fn a_changed_configuration_ends_a_fault_at_once_and_nothing_else() {
        let mut breaker = Breaker::default();
        assert!(!breaker.pardon(), "nothing to end");
        play(&mut breaker, at(0.0), "404");
        play(&mut breaker, at(60.0), "probe");
        play(&mut breaker, at(61.0), "probe-404");
        let refused = breaker.refused().unwrap();
        assert_eq!((refused.since, refused.finding), (at(0.0), NO_MODEL));
        assert!(breaker.pardon());
        assert_eq!((breaker.gate(at(62.0)), breaker.refused()), (Gate::Passing, None));
        play(&mut breaker, at(63.0), "404");
        assert_eq!(breaker.gate(at(63.0)), Gate::ConfigFault { until: at(123.0) }, "the time starts anew");
        play(&mut breaker, at(64.0), "ok");
        let mut open = Breaker::default();
        play(&mut open, at(0.0), "refused");
        assert!(!open.pardon());
        assert_eq!(open.gate(at(1.0)), Gate::Open { until: at(5.0) });
    }

    fn any_event() -> impl Strategy<Value = String> {
        let ends = ["fail", "cut", "refused", "timeout", "begin", "ok", "429:2", "429:40", "404", "gone"];
        let callers = ["", "probe-", "panic-"];
        prop_oneof![
            (prop::sample::select(ends.to_vec()), prop::sample::select(callers.to_vec()))
                .prop_map(|(end, passed_as)| format!("{passed_as}{end}")),
            Just("probe".to_owned()),
            Just("panic".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn deadlines_never_move_to_an_earlier_time(steps in prop::collection::vec((0_u64..4_000_000, any_event()), 1..60)) {
            let mut breaker = Breaker::default();
            let mut now = Tick(0);
            for (pause, event) in steps {
                now = Tick(now.0 + pause);
                let before = breaker.gate(now);
                play(&mut breaker, now, &event);
                let shut = |gate| matches!(gate, Gate::Cooling { .. } | Gate::Open { .. } | Gate::ConfigFault { .. });
                let after = breaker.gate(now);
                if shut(before) && shut(after) {
                    prop_assert!(after.until() >= before.until(), "{before:?} then {event}: {after:?}");
                }
                if shut(before) && !shut(after) {
                    prop_assert!(event == "panic-ok", "{before:?} then {event}: {after:?}");
                }
            }
        }

        #[test]
        fn half_open_admits_exactly_one(askers in 2_usize..20, late in 0_u64..100_000_000) {
            let mut breaker = Breaker::default();
            play(&mut breaker, Tick(0), "refused");
            let now = Tick(5_000_000 + late);
            let admitted = (0..askers).filter(|_| breaker.admit(now, true, false).is_ok()).count();
            prop_assert_eq!(admitted, 1);
            prop_assert_eq!(breaker.admit(now, false, false), Err(ExclusionReason::ProbeInFlight));
        }
    }
}
