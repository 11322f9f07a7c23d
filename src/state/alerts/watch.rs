//! Which notices are worth an alert: those that begin, last for a whole period, or end. Times are arguments.
//!
//! An event about one subject is told when it begins, again after each period while it lasts, and when it has ended. An end
//! counts once the notice has been away for a while, so that an endpoint that fails every other minute does not ring every
//! other minute: each time it comes back within a period, that while doubles.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// How long a notice must be away before its event has ended.
const SETTLE: Duration = Duration::from_secs(60);
/// Most events that are watched for one receiver. Further ones are not told.
const MOST_WATCHED: usize = 2_000;
/// Most subjects that one alert names.
const MOST_NAMED: usize = 50;
/// Events that happen and neither last nor end.
const MOMENTARY: [&str; 1] = ["catalogue_changed"];

/// An event and its subject, which is empty for the gateway.
pub type EventKey = (String, String);

/// A notice of the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its code, which is the name of the event.
    pub event: &'static str,
    /// Its severity.
    pub severity: &'static str,
    /// It as a sentence for people.
    pub sentence: String,
    /// What it is about; empty if it is about the gateway.
    pub subjects: Vec<String>,
}

/// What needs attention at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The notices.
    pub notices: Vec<Notice>,
    /// Events that have not ended although there is no notice of them.
    pub lasting: BTreeSet<EventKey>,
    /// Whether a part of the gateway did not answer, so that a notice may be missing: nothing ends then.
    pub is_partial: bool,
}

pointsman_domain::named! {
    /// Where an event is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// It began.
        Began = "began",
        /// It has lasted for another period.
        Lasts = "lasts",
        /// It has ended.
        Ended = "ended",
        /// A test of an administrator.
        Test = "test",
    }
}

/// Something to tell a receiver. One alert has all subjects of an event that are in the same phase at the same moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// The event.
    pub event: String,
    /// Where it is.
    pub phase: Phase,
    /// Severity of its notice.
    pub severity: String,
    /// What it is about; empty if it is about the gateway.
    pub subjects: Vec<String>,
    /// It as a sentence for people.
    pub sentence: String,
    /// When the event began: the earliest of its subjects. Unix milliseconds.
    pub since_ms: i64,
}

/// What one receiver was told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(EventKey, Watched)>", into = "Vec<(EventKey, Watched)>")]
pub struct Watch(BTreeMap<EventKey, Watched>);

impl From<Vec<(EventKey, Watched)>> for Watch {
    fn from(events: Vec<(EventKey, Watched)>) -> Watch {
        Watch(events.into_iter().collect())
    }
}

impl From<Watch> for Vec<(EventKey, Watched)> {
    fn from(watch: Watch) -> Vec<(EventKey, Watched)> {
        watch.0.into_iter().collect()
    }
}

/// An event about one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    severity: String,
    /// When it began. Unix milliseconds, as all of these.
    pub since_ms: i64,
    reported_ms: i64,
    /// Since when there is no notice of it.
    gone_ms: Option<i64>,
    /// When its end was told.
    ended_ms: Option<i64>,
    /// Times that it came back within a period.
    returns: u32,
}

impl Watch {
    /// The events that last.
    pub fn lasting(&self) -> impl Iterator<Item = (&EventKey, &Watched)> {
        self.0.iter().filter(|(_, watched)| watched.ended_ms.is_none())
    }

    /// Compares what needs attention with what was told, and gives what is to be told now. `repeat` is the period, `is_wanted`
    /// whether the receiver is told an event at all.
    pub fn observe(
        &mut self,
        findings: &Findings,
        (now_ms, repeat): (i64, Duration),
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<Alert> {
        let period_ms = millis(repeat);
        let mut alerts = Alerts::default();
        let mut present = BTreeSet::new();
        for notice in findings.notices.iter().filter(|notice| is_wanted(notice.event)) {
            let of_gateway = [String::new()];
            let subjects = if notice.subjects.is_empty() { &of_gateway[..] } else { &notice.subjects };
            for subject in subjects {
                let key = (notice.event.to_owned(), subject.clone());
                if let Some((phase, since_ms)) = self.present(notice, &key, now_ms, period_ms) {
                    alerts.add(notice, phase, subject, since_ms);
                }
                present.insert(key);
            }
        }
        self.0.retain(|key, watched| {
            if present.contains(key) || !is_wanted(&key.0) {
                return is_wanted(&key.0);
            }
            let lasts = findings.is_partial || findings.lasting.contains(key);
            match watched.absent(&key.0, lasts, now_ms, period_ms) {
                Absent::Waits => true,
                Absent::Forgotten => false,
                Absent::Ended => {
                    alerts.end(key, watched, now_ms);
                    true
                }
            }
        });
        alerts.0.into_values().collect()
    }

    /// A notice is there. Gives what is to be told, and since when the event lasts.
    fn present(&mut self, notice: &Notice, key: &EventKey, now_ms: i64, period_ms: i64) -> Option<(Phase, i64)> {
        let Some(known) = self.0.get_mut(key) else {
            if self.0.len() >= MOST_WATCHED {
                return None;
            }
            self.0.insert(key.clone(), Watched::new(notice, now_ms));
            return Some((Phase::Began, now_ms));
        };
        known.gone_ms = None;
        if known.ended_ms.is_some() {
            let returns = known.returns.saturating_add(1);
            *known = Watched { returns, ..Watched::new(notice, now_ms) };
            return Some((Phase::Began, now_ms));
        }
        if MOMENTARY.contains(&notice.event) || now_ms.saturating_sub(known.reported_ms) < period_ms {
            return None;
        }
        known.reported_ms = now_ms;
        Some((Phase::Lasts, known.since_ms))
    }
}

/// What becomes of an event without a notice.
enum Absent {
    /// Nothing yet.
    Waits,
    /// Its end is told.
    Ended,
    /// It ended a period ago.
    Forgotten,
}

impl Watched {
    fn new(notice: &Notice, now_ms: i64) -> Watched {
        Watched {
            severity: notice.severity.to_owned(),
            since_ms: now_ms,
            reported_ms: now_ms,
            gone_ms: None,
            ended_ms: None,
            returns: 0,
        }
    }

    fn absent(&mut self, event: &str, lasts: bool, now_ms: i64, period_ms: i64) -> Absent {
        if MOMENTARY.contains(&event) {
            return Absent::Forgotten;
        }
        if let Some(ended) = self.ended_ms {
            return if now_ms.saturating_sub(ended) >= period_ms { Absent::Forgotten } else { Absent::Waits };
        }
        if lasts {
            self.gone_ms = None;
            return Absent::Waits;
        }
        let gone = *self.gone_ms.get_or_insert(now_ms);
        let settle_ms = millis(SETTLE).saturating_mul(1 << self.returns.min(20)).min(period_ms);
        if now_ms.saturating_sub(gone) < settle_ms {
            return Absent::Waits;
        }
        self.ended_ms = Some(now_ms);
        Absent::Ended
    }
}

/// The alerts of one observation, by event and phase.
#[derive(Default)]
struct Alerts(BTreeMap<(String, &'static str), Alert>);

impl Alerts {
    fn add(&mut self, notice: &Notice, phase: Phase, subject: &str, since_ms: i64) {
        let key = (notice.event.to_owned(), phase.as_str());
        let alert = self.0.entry(key).or_insert_with(|| Alert {
            event: notice.event.to_owned(),
            phase,
            severity: notice.severity.to_owned(),
            subjects: Vec::new(),
            sentence: notice.sentence.clone(),
            since_ms,
        });
        alert.name(subject, since_ms);
    }

    fn end(&mut self, (event, subject): &EventKey, watched: &Watched, now_ms: i64) {
        let key = (event.clone(), Phase::Ended.as_str());
        let alert = self.0.entry(key).or_insert_with(|| Alert {
            event: event.clone(),
            phase: Phase::Ended,
            severity: watched.severity.clone(),
            subjects: Vec::new(),
            sentence: String::new(),
            since_ms: watched.since_ms,
        });
        alert.name(subject, watched.since_ms);
        let gone = watched.gone_ms.unwrap_or(now_ms);
        let lasted = minutes(gone.saturating_sub(alert.since_ms));
        let about =
            if alert.subjects.is_empty() { String::new() } else { format!(" of {}", alert.subjects.join(", ")) };
        alert.sentence = format!("Over after {lasted}: {}{about}.", alert.event.replace('_', " "));
    }
}

impl Alert {
    fn name(&mut self, subject: &str, since_ms: i64) {
        self.since_ms = self.since_ms.min(since_ms);
        if !subject.is_empty() && self.subjects.len() < MOST_NAMED {
            self.subjects.push(subject.to_owned());
        }
    }
}

/// A span of time for people.
fn minutes(millis: i64) -> String {
    match millis / 60_000 {
        0 => "less than a minute".to_owned(),
        1 => "a minute".to_owned(),
        minutes @ ..120 => format!("{minutes} minutes"),
        minutes => format!("{} hours", minutes / 60),
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn notice(event: &'static str, subjects: &[&str]) -> Notice {
        let subjects = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        Notice { event, severity: "warning", sentence: format!("{event} happened."), subjects }
    }

    fn down(endpoints: &[&str]) -> Findings {
        let notices = if endpoints.is_empty() { Vec::new() } else { vec![notice("endpoints_down", endpoints)] };
        Findings { notices, ..Findings::default() }
    }

    /// What is told at a minute, such as `began a,b`.
    fn told(watch: &mut Watch, findings: &Findings, minute: i64) -> Vec<String> {
        let alerts = watch.observe(findings, (minute * 60_000, HOUR), |_| true);
        alerts.iter().map(|alert| format!("{} {}", alert.phase.as_str(), alert.subjects.join(","))).collect()
    }

    #[test]
    fn an_event_is_told_once_per_period_and_its_end_once() {
        let mut watch = Watch::default();
        assert_eq!(told(&mut watch, &down(&["a"]), 0), ["began a"]);
        for minute in 1..60 {
            assert_eq!(told(&mut watch, &down(&["a"]), minute), [""; 0], "{minute}");
        }
        assert_eq!(told(&mut watch, &down(&["a"]), 60), ["lasts a"]);
        assert_eq!(told(&mut watch, &down(&["a"]), 61), [""; 0]);
        assert_eq!(told(&mut watch, &down(&[]), 62), [""; 0], "it may come back at once");
        assert_eq!(told(&mut watch, &down(&[]), 63), ["ended a"]);
        assert_eq!(told(&mut watch, &down(&[]), 64), [""; 0]);
        assert_eq!(told(&mut watch, &down(&["a"]), 200), ["began a"], "it is another event");
    }

    #[test]
    fn subjects_are_told_apart_and_those_of_one_moment_together() {
        let mut watch = Watch::default();
        assert_eq!(told(&mut watch, &down(&["a", "b"]), 0), ["began a,b"]);
        assert_eq!(told(&mut watch, &down(&["a", "b", "c"]), 1), ["began c"]);
        assert_eq!(told(&mut watch, &down(&["c"]), 2), [""; 0]);
        assert_eq!(told(&mut watch, &down(&["c"]), 3), ["ended a,b"]);
    }

    #[test]
    fn an_event_that_comes_and_goes_is_told_ever_more_seldom_but_never_left_out_for_long() {
        let mut watch = Watch::default();
        let mut began = 0;
        for minute in 0..60 {
            // Away for two minutes of three.
            let findings = if minute % 3 == 0 { down(&["a"]) } else { down(&[]) };
            began += told(&mut watch, &findings, minute).iter().filter(|told| told.starts_with("began")).count();
        }
        assert!((2..=4).contains(&began), "{began}");
        assert_eq!(watch.lasting().count(), 1, "the receiver knows it as lasting");
    }

    #[test]
    fn an_endpoint_that_is_probed_has_not_recovered() {
        let mut watch = Watch::default();
        assert_eq!(told(&mut watch, &down(&["a"]), 0), ["began a"]);
        let partial = Findings { is_partial: true, ..Findings::default() };
        assert_eq!(told(&mut watch, &partial, 0), [""; 0], "nobody knows");
        let probed =
            Findings { lasting: [("endpoints_down".to_owned(), "a".to_owned())].into(), ..Findings::default() };
        assert_eq!(told(&mut watch, &probed, 1), [""; 0]);
        assert_eq!(told(&mut watch, &probed, 30), [""; 0]);
        assert_eq!(told(&mut watch, &down(&[]), 31), [""; 0]);
        assert_eq!(told(&mut watch, &down(&[]), 32), ["ended a"]);
    }

    #[test]
    fn an_end_says_what_ended_and_how_long_it_lasted() {
        let mut watch = Watch::default();
        told(&mut watch, &down(&["small at acme"]), 0);
        told(&mut watch, &down(&[]), 12);
        let ended = watch.observe(&down(&[]), (13 * 60_000, HOUR), |_| true);
        assert_eq!(ended[0].sentence, "Over after 12 minutes: endpoints down of small at acme.");
        assert_eq!((ended[0].since_ms, &*ended[0].severity), (0, "warning"));
    }

    #[test]
    fn events_that_the_receiver_does_not_want_are_not_told_and_not_kept() {
        let mut watch = Watch::default();
        assert!(watch.observe(&down(&["a"]), (0, HOUR), |event| event != "endpoints_down").is_empty());
        told(&mut watch, &down(&["a"]), 1);
        assert!(watch.observe(&down(&[]), (120_000, HOUR), |_| false).is_empty());
        assert_eq!(watch, Watch::default());
    }

    #[test]
    fn memory_is_bounded() {
        let mut watch = Watch::default();
        let names: Vec<String> = (0..MOST_WATCHED + 10).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let alerts = watch.observe(&down(&names), (0, HOUR), |_| true);
        assert_eq!((alerts.len(), alerts[0].subjects.len(), watch.0.len()), (1, MOST_NAMED, MOST_WATCHED));
    }
}
