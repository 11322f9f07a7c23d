//! What each receiver was told, and the alerts that wait to be delivered: one value, kept in one file.
//!
//! An alert enters the file together with the knowledge that it was told, before it is sent, and leaves it after the receiver
//! took it. So a process that is killed loses no alert, and repeats the one that was on its way, under the same id. Times are
//! arguments.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use pointsman_config::AlertReceiver;
use serde::{Deserialize, Serialize};

use super::{
    sender::Refused,
    watch::{Alert, Findings, Watch},
};

/// Most alerts that wait for one receiver; the oldest is given up for a further one.
const MOST_WAITING: usize = 200;
/// How long an alert is tried.
pub const GIVE_UP: Duration = Duration::from_secs(24 * 3_600);
/// Wait after the first failure. It doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// All of it, by name of the receiver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outbox {
    receivers: BTreeMap<String, Mailbox>,
}

/// One receiver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Mailbox {
    watch: Watch,
    waiting: VecDeque<Waiting>,
    /// The last delivery or attempt at one.
    #[serde(default)]
    last: Option<Delivery>,
    /// Whether an attempt is under way.
    #[serde(skip)]
    is_sending: bool,
}

/// An alert that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its id, the same for every attempt.
    pub id: String,
    /// The alert.
    pub alert: Alert,
    /// When it was queued. Unix milliseconds.
    pub queued_ms: i64,
    attempts: u32,
    next_ms: i64,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// When. Unix milliseconds.
    pub at_ms: i64,
    /// The event.
    pub event: String,
    /// `sent`, or why it was not.
    pub outcome: String,
}

/// What follows from an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The receiver has the alert.
    Sent,
    /// It is tried again.
    Again,
    /// It is not tried any more.
    GivenUp,
}

impl Outbox {
    /// Puts into the queues what is to be told now, and drops receivers that are no longer configured. `fresh_id` makes ids.
    /// Gives the alerts that were given up because a queue was full, each with its receiver.
    pub fn observe(
        &mut self,
        receivers: &[AlertReceiver],
        findings: &Findings,
        now_ms: i64,
        mut fresh_id: impl FnMut() -> String,
    ) -> Vec<(String, Waiting)> {
        self.receivers.retain(|name, _| receivers.iter().any(|receiver| *receiver.name == **name));
        let mut lost = Vec::new();
        for receiver in receivers {
            let mailbox = self.receivers.entry(receiver.name.to_string()).or_default();
            let is_wanted = |event: &str| receiver.events.contains(&event);
            for alert in mailbox.watch.observe(findings, (now_ms, receiver.repeat), is_wanted) {
                if mailbox.waiting.len() >= MOST_WAITING
                    // The first may be on its way.
                    && let Some(oldest) = mailbox.waiting.remove(1)
                {
                    lost.push((receiver.name.to_string(), oldest));
                }
                let waiting = Waiting { id: fresh_id(), alert, queued_ms: now_ms, attempts: 0, next_ms: now_ms };
                mailbox.waiting.push_back(waiting);
            }
        }
        lost
    }

    /// Begins an attempt at the first alert of a receiver, if it is due and none is under way.
    pub fn begin(&mut self, receiver: &str, now_ms: i64) -> Option<Waiting> {
        let mailbox = self.receivers.get_mut(receiver).filter(|mailbox| !mailbox.is_sending)?;
        // A clock that was set back must not make it wait for longer than the longest wait.
        let is_due = |one: &&Waiting| one.next_ms <= now_ms || one.next_ms - now_ms > millis(LONGEST_WAIT);
        let first = mailbox.waiting.front().filter(is_due)?.clone();
        mailbox.is_sending = true;
        Some(first)
    }

    /// Ends the attempt at the alert `id`. `chance`, from 0 to 1, spreads the next attempt.
    pub fn settle(
        &mut self,
        receiver: &str,
        id: &str,
        result: Result<(), Refused>,
        now_ms: i64,
        chance: f64,
    ) -> Settled {
        // A reload may have removed the receiver meanwhile.
        let alone = if result.is_ok() { Settled::Sent } else { Settled::GivenUp };
        let Some(mailbox) = self.receivers.get_mut(receiver) else { return alone };
        mailbox.is_sending = false;
        let Some(first) = mailbox.waiting.front_mut().filter(|first| first.id == id) else { return alone };
        let (event, outcome) = (first.alert.event.clone(), result.as_ref().err().map(|refused| refused.why.clone()));
        mailbox.last = Some(Delivery { at_ms: now_ms, event, outcome: outcome.unwrap_or_else(|| "sent".to_owned()) });
        let settled = match result {
            Ok(()) => Settled::Sent,
            Err(_) if now_ms.saturating_sub(first.queued_ms) >= millis(GIVE_UP) => Settled::GivenUp,
            Err(Refused { wait, .. }) => {
                // Longer than the longest wait nobody is left alone.
                let wanted = wait.unwrap_or_default().min(LONGEST_WAIT);
                first.next_ms = now_ms.saturating_add(millis(wait_after(first.attempts, chance).max(wanted)));
                first.attempts = first.attempts.saturating_add(1);
                Settled::Again
            }
        };
        if settled != Settled::Again {
            mailbox.waiting.pop_front();
        }
        settled
    }

    /// Notes a delivery that did not come from the queue.
    pub fn note(&mut self, receiver: &str, delivery: Delivery) {
        self.receivers.entry(receiver.to_owned()).or_default().last = Some(delivery);
    }

    /// Whether nothing is known of any receiver.
    pub fn is_empty(&self) -> bool {
        self.receivers.is_empty()
    }

    /// The state of a receiver; `None` before it was first looked at.
    pub fn mailbox(&self, receiver: &str) -> Option<&Mailbox> {
        self.receivers.get(receiver)
    }
}

impl Mailbox {
    /// What it was told and lasts.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Alerts that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The last delivery or attempt at one.
    pub fn last(&self) -> Option<&Delivery> {
        self.last.as_ref()
    }
}

/// The wait after the failure of this number, counted from 0: half of it is chance, so that replicas do not come together.
fn wait_after(attempts: u32, chance: f64) -> Duration {
    let whole = FIRST_WAIT.saturating_mul(1 << attempts.min(16)).min(LONGEST_WAIT);
    whole.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pointsman_config::Config;

    use super::*;
    use crate::state::alerts::watch::Notice;

    fn receivers(names: &[&str]) -> Vec<AlertReceiver> {
        let tables = names.iter().map(|name| format!("[[alerts]]\nname = \"{name}\"\nurl = \"https://h/x\"\n"));
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        Config::parse(&tables.collect::<String>(), "test", Path::new("."), &environment).unwrap().alerts
    }

    fn spent(teams: &[&str]) -> Findings {
        let subjects = teams.iter().map(|team| (*team).to_owned()).collect();
        let sentence = "Spent.".to_owned();
        Findings {
            notices: vec![Notice { event: "budget_spent", severity: "critical", sentence, subjects }],
            ..Findings::default()
        }
    }

    struct Run {
        outbox: Outbox,
        ids: u32,
    }

    impl Run {
        fn new() -> Run {
            Run { outbox: Outbox::default(), ids: 0 }
        }

        fn observe(&mut self, receivers: &[AlertReceiver], findings: &Findings, now_ms: i64) -> usize {
            let ids = &mut self.ids;
            let fresh = || {
                *ids += 1;
                ids.to_string()
            };
            self.outbox.observe(receivers, findings, now_ms, fresh).len()
        }

        /// The process was killed and starts again with what the file holds.
        fn killed(self) -> Run {
            let file = serde_json::to_vec(&self.outbox).unwrap();
            Run { outbox: serde_json::from_slice(&file).unwrap(), ids: self.ids }
        }
    }

    #[test]
    fn an_alert_waits_until_the_receiver_took_it_also_across_a_kill() {
        let (ops, mut run) = (receivers(&["ops"]), Run::new());
        run.observe(&ops, &spent(&["product"]), 0);
        let first = run.outbox.begin("ops", 0).unwrap();
        assert_eq!(run.outbox.begin("ops", 0), None, "one attempt at a time");
        let mut run = run.killed();
        run.observe(&ops, &spent(&["product"]), 1_000);
        let again = run.outbox.begin("ops", 1_000).unwrap();
        assert_eq!((again.id, again.alert), (first.id.clone(), first.alert), "the same alert, once");
        assert_eq!(run.outbox.settle("ops", &first.id, Ok(()), 1_000, 0.5), Settled::Sent);
        let mut run = run.killed();
        run.observe(&ops, &spent(&["product"]), 2_000);
        assert_eq!(run.outbox.begin("ops", 2_000), None);
    }

    #[test]
    fn attempts_come_ever_more_seldom_and_end_after_a_day() {
        let (ops, mut run) = (receivers(&["ops"]), Run::new());
        run.observe(&ops, &spent(&["product"]), 0);
        let (mut now, mut waits, mut settled) = (0, Vec::new(), Settled::Again);
        while settled == Settled::Again {
            let waiting = run.outbox.begin("ops", now).unwrap();
            settled = run.outbox.settle("ops", &waiting.id, Err("503".to_owned().into()), now, 1.0);
            if let Some(next) = run.outbox.receivers["ops"].waiting.front().map(|first| first.next_ms) {
                assert_eq!(run.outbox.begin("ops", next - 1), None);
                waits.push((next - now) / 1_000);
                now = next;
            }
        }
        assert_eq!(&waits[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600]);
        assert!((86_400_000..87_000_000).contains(&now), "{now}");
        assert_eq!((settled, run.outbox.mailbox("ops").unwrap().waiting()), (Settled::GivenUp, 0));
        assert_eq!(run.outbox.mailbox("ops").unwrap().last().unwrap().outcome, "503");
    }

    #[test]
    fn a_receiver_that_asks_for_a_wait_gets_it_but_no_longer_one_than_the_longest() {
        let (ops, mut run) = (receivers(&["ops"]), Run::new());
        run.observe(&ops, &spent(&["product"]), 0);
        let mut now = 0;
        for (asked, waits) in [(30, 30), (3_600, 600)] {
            let waiting = run.outbox.begin("ops", now).unwrap();
            let refused = Refused { why: "429".to_owned(), wait: Some(Duration::from_secs(asked)) };
            run.outbox.settle("ops", &waiting.id, Err(refused), now, 1.0);
            now += waits * 1_000;
            assert_eq!(run.outbox.begin("ops", now - 1), None);
        }
        assert!(run.outbox.begin("ops", now).is_some());
    }

    #[test]
    fn half_of_a_wait_is_chance() {
        assert_eq!(wait_after(0, 0.0), FIRST_WAIT / 2);
        assert_eq!(wait_after(0, 1.0), FIRST_WAIT);
        assert_eq!(wait_after(u32::MAX, 0.0), LONGEST_WAIT / 2);
    }

    #[test]
    fn each_receiver_has_a_queue_of_its_own() {
        let (both, mut run) = (receivers(&["ops", "chat"]), Run::new());
        run.observe(&both, &spent(&["product"]), 0);
        let one = run.outbox.begin("ops", 0).unwrap();
        assert_eq!(run.outbox.settle("ops", &one.id, Err("timeout".to_owned().into()), 0, 1.0), Settled::Again);
        assert!(run.outbox.begin("chat", 0).is_some(), "another receiver does not wait");
        run.observe(&receivers(&["chat"]), &spent(&["product"]), 1);
        assert!(run.outbox.mailbox("ops").is_none(), "it is no longer configured");
    }

    #[test]
    fn a_full_queue_gives_up_its_oldest_alert_but_not_the_one_on_its_way() {
        let (ops, mut run) = (receivers(&["ops"]), Run::new());
        let mut lost = 0;
        for team in 0..=MOST_WAITING {
            let teams: Vec<String> = (0..=team).map(|team| team.to_string()).collect();
            let teams: Vec<&str> = teams.iter().map(String::as_str).collect();
            lost += run.observe(&ops, &spent(&teams), 0);
        }
        assert_eq!((lost, run.outbox.mailbox("ops").unwrap().waiting()), (1, MOST_WAITING));
        assert_eq!(run.outbox.begin("ops", 0).unwrap().alert.subjects, ["0"]);
    }
}
