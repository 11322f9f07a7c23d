//! The verdict: everything that needs attention, worst first, and one sentence for the worst.

use pointsman_domain::Usd;
use serde::Serialize;

use super::{budget_notices::ShortBudget, series_view::Totals};

/// How urgent a notice is. The order of the variants is their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Nothing to do.
    Ok,
    /// Good to know.
    Info,
    /// Calls are served; somebody should look soon.
    Warning,
    /// Calls fail, or what an operator ordered is not in force.
    Critical,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct NoticeBody {
    /// `critical`: calls fail, or what was ordered is not in force. `warning`: calls are served, and somebody should
    /// look soon. `info`: good to know. `ok`: nothing to do.
    pub(crate) severity: Severity,
    /// Name of what needs attention, such as `draining`, `actor_silent`, `actor_restarted`, `shedding`,
    /// `all_endpoints_down`, `endpoints_down`, `endpoints_degraded`, `config_refused`, `restart_pending`, `prices_old`,
    /// `budget_spent`, `budget_near`, `ledger_failing`, `ledger_in_memory`, `records_dropped`, `memory_failing`, `memory_not_restored`, `store_away`.
    pub(crate) code: &'static str,
    /// The same as a sentence for people.
    pub(crate) sentence: String,
}

/// The worst finding, and all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct VerdictBody {
    /// `critical`: calls fail, or what was ordered is not in force. `warning`: calls are served, and somebody should
    /// look soon. `info`: good to know. `ok`: nothing to do.
    pub(crate) severity: Severity,
    /// Name of the worst notice; `all_well` where none is worse than `info`.
    pub(crate) code: &'static str,
    /// The same as a sentence for people.
    pub(crate) sentence: String,
    /// Everything that needs attention, worst first; empty if nothing does.
    pub(crate) notices: Vec<NoticeBody>,
}

/// What the verdict is based on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Situation {
    /// The process was asked to stop.
    pub(crate) draining: bool,
    /// Names of the actors that do not answer.
    pub(crate) silent_actors: Vec<&'static str>,
    /// Names of the actors that were replaced after a panic, and how often.
    pub(crate) restarted_actors: Vec<(&'static str, u64)>,
    /// Enabled endpoints.
    pub(crate) endpoints: usize,
    /// Endpoints that take no calls, as `model at provider`.
    pub(crate) down: Vec<String>,
    /// Endpoints that fail often or are being probed.
    pub(crate) degraded: Vec<String>,
    /// Version of the configuration in force.
    pub(crate) config_version: u64,
    /// Faults of the configuration that was refused.
    pub(crate) config_faults: Vec<String>,
    /// Settings that wait for a restart.
    pub(crate) restart_pending: Vec<&'static str>,
    /// Since when the disk of the ledger fails.
    pub(crate) ledger_failing: Option<String>,
    /// Whether records are kept in memory only.
    pub(crate) ledger_in_memory: bool,
    /// Observations and records without room since the start.
    pub(crate) dropped: u64,
    /// Why the routing memory cannot be saved.
    pub(crate) memory_failing: Option<String>,
    /// Why the routing memory was not restored.
    pub(crate) memory_not_restored: Option<String>,
    /// Providers whose oldest price is older than a quarter of a year.
    pub(crate) old_prices: Vec<String>,
    /// Names of the shared stores that are away.
    pub(crate) stores_away: Vec<&'static str>,
    /// Names of the shared stores that refuse commands or rows.
    pub(crate) stores_refusing: Vec<&'static str>,
    /// Whether calls were refused a moment ago because a limit of the gateway was reached.
    pub(crate) shedding: bool,
    /// Limits on spending of which little is left.
    pub(crate) short_budgets: Vec<ShortBudget>,
    /// Calls of the last complete minute and of the last hour; `None` when they could not be read.
    pub(crate) calls: Option<(Totals, Totals)>,
}

impl VerdictBody {
    /// The verdict on a situation.
    pub(crate) fn new(situation: &Situation) -> VerdictBody {
        let mut notices = situation.notices();
        notices.sort_by_key(|notice| std::cmp::Reverse(notice.severity));
        let worst = notices.first().filter(|notice| notice.severity > Severity::Info);
        let (severity, code, sentence) = worst.map_or_else(
            || (Severity::Ok, "all_well", situation.all_well()),
            |worst| (worst.severity, worst.code, worst.sentence.clone()),
        );
        VerdictBody { severity, code, sentence, notices }
    }
}

impl Situation {
    fn all_well(&self) -> String {
        let taking = self.endpoints - self.down.len().min(self.endpoints);
        let calls = self.calls.map(|(minute, hour)| {
            format!(", {} requests/min, ${} in the last hour", minute.calls(), cents(hour.spent))
        });
        format!("All well: {taking} of {} endpoints take calls{}.", self.endpoints, calls.unwrap_or_default())
    }

    fn notices(&self) -> Vec<NoticeBody> {
        let mut notices = Vec::new();
        self.process_notices(&mut notices);
        self.endpoint_notices(&mut notices);
        self.budget_notices(&mut notices);
        self.config_notices(&mut notices);
        self.record_notices(&mut notices);
        notices
    }

    fn process_notices(&self, notices: &mut Vec<NoticeBody>) {
        if self.draining {
            let sentence = "The gateway is shutting down: new calls are refused.";
            notices.push(notice(Severity::Warning, "draining", sentence));
        }
        if !self.silent_actors.is_empty() {
            let sentence = format!("A part of the gateway does not answer: {}.", self.silent_actors.join(", "));
            notices.push(notice(Severity::Critical, "actor_silent", sentence));
        }
        if !self.restarted_actors.is_empty() {
            let each = self.restarted_actors.iter().map(|(name, times)| format!("{name} ({times} times)"));
            let each = each.collect::<Vec<_>>().join(", ");
            let sentence = format!("A part of the gateway was restarted: {each}; its panics are in the log.");
            notices.push(notice(Severity::Warning, "actor_restarted", sentence));
        }
        if self.shedding {
            let sentence = "Calls are refused because a limit of the gateway is reached.";
            notices.push(notice(Severity::Warning, "shedding", sentence));
        }
    }

    fn endpoint_notices(&self, notices: &mut Vec<NoticeBody>) {
        let all = self.endpoints;
        if all > 0 && self.down.len() >= all {
            let sentence = format!("No endpoint takes calls: all {all} are down.");
            notices.push(notice(Severity::Critical, "all_endpoints_down", sentence));
        } else if !self.down.is_empty() {
            let sentence =
                format!("{} of {all} endpoints {} down: {}.", self.down.len(), are(&self.down), some(&self.down));
            notices.push(notice(Severity::Warning, "endpoints_down", sentence));
        }
        if !self.degraded.is_empty() {
            let (some, are) = (some(&self.degraded), are(&self.degraded));
            let sentence = format!("{} of {all} endpoints {are} degraded: {some}.", self.degraded.len());
            notices.push(notice(Severity::Warning, "endpoints_degraded", sentence));
        }
    }

    fn budget_notices(&self, notices: &mut Vec<NoticeBody>) {
        let texts = |is_spent| {
            let of_kind = self.short_budgets.iter().filter(|budget| budget.is_spent == is_spent);
            of_kind.map(ShortBudget::text).collect::<Vec<_>>()
        };
        let (spent, near) = (texts(true), texts(false));
        if !spent.is_empty() {
            let sentence = format!("Calls are refused with 402: the budget is spent of {}.", some(&spent));
            notices.push(notice(Severity::Critical, "budget_spent", sentence));
        }
        if !near.is_empty() {
            let sentence = format!("Less than a tenth is left of the budget of {}.", some(&near));
            notices.push(notice(Severity::Warning, "budget_near", sentence));
        }
    }

    fn config_notices(&self, notices: &mut Vec<NoticeBody>) {
        if let Some((first, others)) = self.config_faults.split_first() {
            let more = if others.is_empty() { String::new() } else { format!(" And {} more faults.", others.len()) };
            let version = self.config_version;
            let sentence =
                format!("The configuration on disk is refused; version {version} stays in force. {first}{more}");
            notices.push(notice(Severity::Critical, "config_refused", sentence));
        }
        if !self.restart_pending.is_empty() {
            let sentence = format!("Settings wait for a restart: {}.", self.restart_pending.join(", "));
            notices.push(notice(Severity::Warning, "restart_pending", sentence));
        }
        if !self.old_prices.is_empty() {
            let sentence = format!(
                "Prices are older than 90 days: {}. 'pointsman catalog diff' compares them with a list.",
                some(&self.old_prices)
            );
            notices.push(notice(Severity::Warning, "prices_old", sentence));
        }
    }

    fn record_notices(&self, notices: &mut Vec<NoticeBody>) {
        if let Some(since) = &self.ledger_failing {
            let sentence = format!("The disk of the ledger fails since {since}; records wait in memory.");
            notices.push(notice(Severity::Critical, "ledger_failing", sentence));
        }
        if self.ledger_in_memory {
            let sentence = "Records are kept in memory only. Set ledger.data_dir and ledger.durability to keep them.";
            notices.push(notice(Severity::Info, "ledger_in_memory", sentence));
        }
        if self.dropped > 0 {
            let sentence = format!("{} observations or records had no room and are lost.", self.dropped);
            notices.push(notice(Severity::Warning, "records_dropped", sentence));
        }
        if let Some(why) = &self.memory_failing {
            let sentence = format!("The routing memory cannot be saved: {why}");
            notices.push(notice(Severity::Warning, "memory_failing", sentence));
        }
        if let Some(why) = &self.memory_not_restored {
            let sentence = format!("The routing memory was not restored: {why}");
            notices.push(notice(Severity::Warning, "memory_not_restored", sentence));
        }
        if !self.stores_away.is_empty() {
            let sentence = format!("A store that replicas share is away: {}.", self.stores_away.join(", "));
            notices.push(notice(Severity::Warning, "store_away", sentence));
        }
        if !self.stores_refusing.is_empty() {
            let names = self.stores_refusing.join(", ");
            let sentence =
                format!("A store that replicas share refuses a part of what is sent, as the log says: {names}.");
            notices.push(notice(Severity::Warning, "store_refuses", sentence));
        }
    }
}

fn notice(severity: Severity, code: &'static str, sentence: impl Into<String>) -> NoticeBody {
    NoticeBody { severity, code, sentence: sentence.into() }
}

/// The first three names.
fn some(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let more = names.len() - shown.len();
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// The verb for as many as these.
const fn are(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

/// An amount with two digits after the point, rounded to the nearest.
fn cents(amount: Usd) -> String {
    const CENT: i128 = 10_000_000_000_000;
    let cents = (amount.femto() + CENT / 2) / CENT;
    format!("{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Situation {
        let spent = "1.837".parse().unwrap();
        let hour = Totals { ok: 9_000, spent, ..Totals::default() };
        let minute = Totals { ok: 200, rescued: 10, failed: 2, ..Totals::default() };
        Situation { endpoints: 14, config_version: 3, calls: Some((minute, hour)), ..Situation::default() }
    }

    #[track_caller]
    fn check(situation: Situation, severity: Severity, code: &str, part: &str) {
        let verdict = VerdictBody::new(&situation);
        assert_eq!((verdict.severity, verdict.code), (severity, code), "{verdict:?}");
        assert!(verdict.sentence.contains(part), "{}", verdict.sentence);
    }

    #[test]
    fn the_verdict_is_the_worst_of_each_situation() {
        use Severity::{Critical, Ok, Warning};
        let names = |count: usize| (1..=count).map(|n| format!("acme/{n} at acme")).collect::<Vec<_>>();
        check(
            well(),
            Ok,
            "all_well",
            "All well: 14 of 14 endpoints take calls, 212 requests/min, $1.84 in the last hour.",
        );
        check(Situation { calls: None, ..well() }, Ok, "all_well", "14 of 14 endpoints take calls.");
        check(Situation { ledger_in_memory: true, ..well() }, Ok, "all_well", "All well");
        check(Situation { draining: true, ..well() }, Warning, "draining", "shutting down");
        check(Situation { silent_actors: vec!["ledger"], ..well() }, Critical, "actor_silent", "ledger");
        check(
            Situation { restarted_actors: vec![("health", 2)], ..well() },
            Warning,
            "actor_restarted",
            "health (2 times)",
        );
        check(Situation { shedding: true, ..well() }, Warning, "shedding", "limit");
        check(Situation { down: names(14), ..well() }, Critical, "all_endpoints_down", "all 14 are down");
        check(
            Situation { down: names(5), ..well() },
            Warning,
            "endpoints_down",
            "5 of 14 endpoints are down: acme/1 at acme, acme/2 at acme, acme/3 at acme and 2 more.",
        );
        check(
            Situation { degraded: names(1), ..well() },
            Warning,
            "endpoints_degraded",
            "1 of 14 endpoints is degraded",
        );
        let budget = |is_spent| ShortBudget {
            holder: "team product".to_owned(),
            limit: "1".parse().unwrap(),
            reset: Some(pointsman_domain::ResetPeriod::Daily),
            is_spent,
        };
        check(
            Situation { short_budgets: vec![budget(true)], down: names(1), ..well() },
            Critical,
            "budget_spent",
            "Calls are refused with 402: the budget is spent of team product ($1 a day).",
        );
        check(Situation { short_budgets: vec![budget(false)], ..well() }, Warning, "budget_near", "Less than a tenth");
        check(Situation { config_faults: names(2), ..well() }, Critical, "config_refused", "And 1 more");
        check(Situation { restart_pending: vec!["server.bind"], ..well() }, Warning, "restart_pending", "server.bind");
        check(Situation { old_prices: vec!["acme".into()], ..well() }, Warning, "prices_old", "90 days: acme.");
        check(Situation { ledger_failing: Some("noon".into()), ..well() }, Critical, "ledger_failing", "noon");
        check(Situation { dropped: 7, ..well() }, Warning, "records_dropped", "7");
        check(Situation { memory_failing: Some("disk full".into()), ..well() }, Warning, "memory_failing", "disk full");
        check(Situation { memory_not_restored: Some("cut".into()), ..well() }, Warning, "memory_not_restored", "cut");
        check(Situation { stores_away: vec!["redis"], ..well() }, Warning, "store_away", "redis");
        check(Situation { stores_refusing: vec!["redis"], ..well() }, Warning, "store_refuses", "redis");
    }

    #[test]
    fn every_finding_is_listed_worst_first() {
        let situation = Situation { ledger_in_memory: true, shedding: true, config_faults: vec!["x".into()], ..well() };
        let verdict = VerdictBody::new(&situation);
        let codes: Vec<_> = verdict.notices.iter().map(|notice| notice.code).collect();
        assert_eq!((verdict.code, codes), ("config_refused", vec!["config_refused", "shedding", "ledger_in_memory"]));
    }
}
