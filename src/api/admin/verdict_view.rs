//! The verdict: everything that needs attention, worst first, and one sentence for the worst.

use pointsman_config::ALERT_EVENTS;
use pointsman_domain::Usd;
use serde::Serialize;

use super::{budget_notices::ShortBudget, series_view::Totals};
use crate::state::{
    alerts::watch::{Findings, Notice},
    reload_status::CatalogueChange,
};

/// Clients see too many failures when more than one call in so many failed, of at least so many: the alert rule for
/// Prometheus has 2 % of one call in ten seconds.
const FAILED_SHARE: u64 = 50;
const MIN_RECENT_CALLS: u64 = 30;

pointsman_domain::named! {
    /// How urgent a notice is. The order of the variants is their order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Severity {
        /// Nothing to do.
        Ok = "ok",
        /// Good to know.
        Info = "info",
        /// Calls are served; somebody should look soon.
        Warning = "warning",
        /// Calls fail, or what an operator ordered is not in force.
        Critical = "critical",
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct NoticeBody {
    /// `critical`: calls fail, or what was ordered is not in force. `warning`: calls are served, and somebody should
    /// look soon. `info`: good to know. `ok`: nothing to do.
    pub(crate) severity: Severity,
    /// Name of what needs attention, such as `draining`, `actor_silent`, `actor_restarted`, `shedding`,
    /// `all_endpoints_down`, `endpoints_down`, `endpoints_degraded`, `failures_shown`, `target_at_risk`,
    /// `canary_fell_back`, `spend_pace_out_of_reach`,
    /// `predictions_off`, `config_refused`, `restart_pending`, `prices_old`, `catalogue_changed`, `budget_spent`,
    /// `budget_near`, `ledger_failing`, `ledger_in_memory`, `records_dropped`, `memory_failing`, `memory_not_restored`, `store_away`.
    pub(crate) code: &'static str,
    /// The same as a sentence for people.
    pub(crate) sentence: String,
    /// What it is about, such as endpoints or budgets, by name; empty if it is about the gateway.
    pub(crate) subjects: Vec<String>,
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
    /// Endpoints that are not down, and whose breaker is not closed.
    pub(crate) recovering: Vec<String>,
    /// Endpoints whose predictions do not hold.
    pub(crate) mispredicted: Vec<String>,
    /// Latency targets that are missed more often than allowed.
    pub(crate) missed_targets: Vec<String>,
    /// Aliases whose canary has fallen back.
    pub(crate) fallen_canaries: Vec<String>,
    /// Aliases with a spend pace that even their cheapest choices exceed.
    pub(crate) exceeded_paces: Vec<String>,
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
    /// Calls of the last minutes.
    pub(crate) recent_calls: Totals,
    /// Prices and retirements that a reload changed lately.
    pub(crate) catalogue: Option<CatalogueChange>,
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

    /// The notices that alerts tell, and what has not ended although there is no notice of it.
    pub(crate) fn findings(&self) -> Findings {
        let alerts = self.notices().into_iter().filter(|notice| ALERT_EVENTS.contains(&notice.code));
        let notices = alerts.map(|notice| Notice {
            event: notice.code,
            severity: notice.severity.as_str(),
            sentence: notice.sentence,
            subjects: notice.subjects,
        });
        // A breaker that is probed has not closed. A budget that is spent is no longer near, and has not recovered.
        let recovering =
            self.down.iter().chain(&self.recovering).map(|name| ("endpoints_down".to_owned(), name.clone()));
        let spent = self.short_budgets.iter().filter(|budget| budget.is_spent);
        let spent = spent.map(|budget| ("budget_near".to_owned(), budget.text()));
        let is_partial = !self.silent_actors.is_empty();
        Findings { notices: notices.collect(), lasting: recovering.chain(spent).collect(), is_partial }
    }

    fn notices(&self) -> Vec<NoticeBody> {
        let mut notices = Vec::new();
        self.process_notices(&mut notices);
        self.endpoint_notices(&mut notices);
        self.outcome_notices(&mut notices);
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
            notices.push(notice(Severity::Critical, "actor_silent", sentence).about(&self.silent_actors));
        }
        if !self.restarted_actors.is_empty() {
            let each = self.restarted_actors.iter().map(|(name, times)| format!("{name} ({times} times)"));
            let each = each.collect::<Vec<_>>().join(", ");
            let sentence = format!("A part of the gateway was restarted: {each}; its panics are in the log.");
            let names: Vec<_> = self.restarted_actors.iter().map(|(name, _)| name).collect();
            notices.push(notice(Severity::Warning, "actor_restarted", sentence).about(&names));
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
            notices.push(notice(Severity::Warning, "endpoints_down", sentence).about(&self.down));
        }
        if !self.degraded.is_empty() {
            let (some, are) = (some(&self.degraded), are(&self.degraded));
            let sentence = format!("{} of {all} endpoints {are} degraded: {some}.", self.degraded.len());
            notices.push(notice(Severity::Warning, "endpoints_degraded", sentence).about(&self.degraded));
        }
    }

    fn outcome_notices(&self, notices: &mut Vec<NoticeBody>) {
        let Totals { failed, .. } = self.recent_calls;
        let calls = self.recent_calls.calls();
        if calls >= MIN_RECENT_CALLS && failed * FAILED_SHARE > calls {
            let percent = (failed * 100 + calls / 2) / calls;
            let sentence = format!(
                "Clients see failures: {percent} % of the last {calls} calls ended with an error or a broken stream."
            );
            notices.push(notice(Severity::Critical, "failures_shown", sentence));
        }
        if !self.missed_targets.is_empty() {
            let sentence = format!(
                "First tokens are late more often than allowed in the last hour: {}.",
                some(&self.missed_targets)
            );
            notices.push(notice(Severity::Warning, "target_at_risk", sentence).about(&self.missed_targets));
        }
        if !self.fallen_canaries.is_empty() {
            let sentence = format!(
                "The canary exceeded its guardrail and gets no requests any more: {}. Change or remove it.",
                some(&self.fallen_canaries)
            );
            notices.push(notice(Severity::Warning, "canary_fell_back", sentence).about(&self.fallen_canaries));
        }
        if !self.exceeded_paces.is_empty() {
            let sentence = format!(
                "Chats cost more than their spend_pace although price counts as much as it can, because cheaper models are \
                 missing or because requests name another objective or stay with their model: {}. Raise it, add a cheaper \
                 model, or let fewer requests name an objective.",
                some(&self.exceeded_paces)
            );
            notices.push(notice(Severity::Warning, "spend_pace_out_of_reach", sentence).about(&self.exceeded_paces));
        }
        if !self.mispredicted.is_empty() {
            let sentence = format!(
                "Predictions do not hold, so choices may be wrong: more than 15 % of the times of the last hour exceed the \
                 predicted 95th percentile at {}.",
                some(&self.mispredicted)
            );
            notices.push(notice(Severity::Warning, "predictions_off", sentence).about(&self.mispredicted));
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
            notices.push(notice(Severity::Critical, "budget_spent", sentence).about(&spent));
        }
        if !near.is_empty() {
            let sentence = format!("Less than a tenth is left of the budget of {}.", some(&near));
            notices.push(notice(Severity::Warning, "budget_near", sentence).about(&near));
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
            notices.push(notice(Severity::Warning, "restart_pending", sentence).about(&self.restart_pending));
        }
        if !self.old_prices.is_empty() {
            let sentence = format!(
                "Prices are older than 90 days: {}. 'pointsman catalog diff' compares them with a list.",
                some(&self.old_prices)
            );
            notices.push(notice(Severity::Warning, "prices_old", sentence).about(&self.old_prices));
        }
        if let Some(CatalogueChange { version, changes, .. }) = &self.catalogue {
            let sentence = format!("Version {version} of the configuration changed the catalogue: {}.", some(changes));
            notices.push(notice(Severity::Info, "catalogue_changed", sentence).about(&[format!("version {version}")]));
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
            notices.push(notice(Severity::Warning, "store_away", sentence).about(&self.stores_away));
        }
        if !self.stores_refusing.is_empty() {
            let names = self.stores_refusing.join(", ");
            let sentence =
                format!("A store that replicas share refuses a part of what is sent, as the log says: {names}.");
            notices.push(notice(Severity::Warning, "store_refuses", sentence).about(&self.stores_refusing));
        }
    }
}

fn notice(severity: Severity, code: &'static str, sentence: impl Into<String>) -> NoticeBody {
    NoticeBody { severity, code, sentence: sentence.into(), subjects: Vec::new() }
}

impl NoticeBody {
    fn about(self, subjects: &[impl ToString]) -> NoticeBody {
        NoticeBody { subjects: subjects.iter().map(ToString::to_string).collect(), ..self }
    }
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
        let calls = |failed| Totals { ok: 100 - failed, failed, ..Totals::default() };
        check(Situation { recent_calls: calls(3), ..well() }, Critical, "failures_shown", "3 % of the last 100 calls");
        check(Situation { recent_calls: calls(2), ..well() }, Ok, "all_well", "All well");
        let few = Totals { failed: 29, ..Totals::default() };
        check(Situation { recent_calls: few, ..well() }, Ok, "all_well", "All well");
        let missed_targets = vec!["fast (p95 within 0.8 s)".to_owned()];
        let fallen_canaries = vec!["service/chat".to_owned()];
        check(Situation { fallen_canaries, ..well() }, Warning, "canary_fell_back", "service/chat");
        let exceeded_paces = vec!["service/paced".to_owned()];
        check(
            Situation { exceeded_paces, ..well() },
            Warning,
            "spend_pace_out_of_reach",
            "stay with their model: service/paced. Raise it",
        );
        check(Situation { missed_targets, ..well() }, Warning, "target_at_risk", "fast (p95 within 0.8 s)");
        check(Situation { mispredicted: names(1), ..well() }, Warning, "predictions_off", "acme/1 at acme");
        check(Situation { stores_away: vec!["redis"], ..well() }, Warning, "store_away", "redis");
        check(Situation { stores_refusing: vec!["redis"], ..well() }, Warning, "store_refuses", "redis");
    }

    #[test]
    fn every_notice_is_an_event_that_alerts_can_tell_but_for_three() {
        let budget = |is_spent| ShortBudget {
            holder: "team product".to_owned(),
            limit: "1".parse().unwrap(),
            reset: None,
            is_spent,
        };
        let names = || vec!["a at b".to_owned()];
        let catalogue = CatalogueChange { version: 2, at_ms: 0, changes: names() };
        let some = Situation {
            draining: true,
            silent_actors: vec!["ledger"],
            restarted_actors: vec![("ledger", 1)],
            down: names(),
            degraded: names(),
            mispredicted: names(),
            missed_targets: names(),
            fallen_canaries: names(),
            exceeded_paces: names(),
            config_faults: names(),
            restart_pending: vec!["server.bind"],
            ledger_failing: Some("noon".to_owned()),
            ledger_in_memory: true,
            dropped: 1,
            memory_failing: Some("full".to_owned()),
            memory_not_restored: Some("cut".to_owned()),
            old_prices: names(),
            stores_away: vec!["redis"],
            stores_refusing: vec!["redis"],
            shedding: true,
            short_budgets: vec![budget(true), budget(false)],
            recent_calls: Totals { failed: 100, ..Totals::default() },
            catalogue: Some(catalogue),
            ..well()
        };
        let all_down = Situation { endpoints: 1, down: names(), ..Situation::default() };
        let mut codes: Vec<_> = some.notices().iter().chain(&all_down.notices()).map(|notice| notice.code).collect();
        codes.retain(|code| !["draining", "endpoints_degraded", "ledger_in_memory"].contains(code));
        codes.sort_unstable();
        assert_eq!(codes, ALERT_EVENTS);
        assert_eq!(some.findings().notices.len() + all_down.findings().notices.len(), ALERT_EVENTS.len());
    }

    #[test]
    fn an_endpoint_that_is_probed_and_a_budget_that_is_spent_have_not_recovered() {
        let budget =
            ShortBudget { holder: "team lab".to_owned(), limit: "1".parse().unwrap(), reset: None, is_spent: true };
        let situation = Situation { recovering: vec!["a at b".to_owned()], short_budgets: vec![budget], ..well() };
        let lasting = situation.findings().lasting.into_iter().collect::<Vec<_>>();
        let expected = [("budget_near", "team lab ($1 in all)"), ("endpoints_down", "a at b")];
        assert_eq!(lasting, expected.map(|(event, subject)| (event.to_owned(), subject.to_owned())));
    }

    #[test]
    fn every_finding_is_listed_worst_first() {
        let situation = Situation { ledger_in_memory: true, shedding: true, config_faults: vec!["x".into()], ..well() };
        let verdict = VerdictBody::new(&situation);
        let codes: Vec<_> = verdict.notices.iter().map(|notice| notice.code).collect();
        assert_eq!((verdict.code, codes), ("config_refused", vec!["config_refused", "shedding", "ledger_in_memory"]));
    }
}
