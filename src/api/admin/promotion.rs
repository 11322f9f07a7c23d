//! `POST /admin/shadows/{name}/promote`: whether a shadow may be tried on a share of the requests of its alias, and the lines
//! that do it. It changes nothing: what runs is what the file says.

use std::sync::Arc;

use actix_web::{HttpResponse, web, web::Bytes};
use pointsman_base::clock;
use pointsman_config::{CanaryLines, NotACanary, SHARE_ON_TRIAL, ShadowConfig};
use pointsman_dialect::shown;
use pointsman_domain::{Guardrail, Invalid, InvalidReason, grouped};
use pointsman_routing::explain::diff::{Calibration, Predicted};
use serde::{Deserialize, Serialize};

use super::audit;
use crate::{
    access::issued::Change,
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        diff::text::{percent, short, signed_percent},
        number::Figure,
        path_name::PathName,
    },
    base::{error::ApiError, events},
    state::{gateway::GatewayView, shadows::ObservedShadow},
};

const HOUR_MS: f64 = 3_600_000.0;
/// Shortest time that a shadow must have decided for: a day has all hours.
const LEAST_HOURS: f64 = 24.0;
/// Fewest decisions.
const FEWEST: u64 = 10_000;
/// Longest reason, in characters.
const MOST_REASON: usize = 200;
/// By how much a shadow, and then the canary, may be worse.
const GUARDRAIL: Guardrail = Guardrail { spend: Some(0.1), failures: Some(0.005), first_token: Some(0.2) };
/// Excess, as a share, that is left to rounding: figures of shadows have seven digits.
const ROUNDING: f64 = 1e-5;

/// What is asked.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(
    description = "",
    extend("examples" = [{"share": 0.05, "expect": "3f9a1c2b44d0"}]),
))]
#[serde(deny_unknown_fields)]
pub(crate) struct PromotionRequest {
    /// Share of the requests that the canary is to get, at most 0.5.
    #[cfg_attr(test, schemars(range(min = 0.0001, max = 0.5)))]
    share: f64,
    /// The `fingerprint` of the shadow in `GET /health/shadows`.
    expect: String,
    /// By which share it may cost more; 0.1 by default.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 0, max = 100)))]
    max_spend: Option<f64>,
    /// By how much its share of failures may be higher; 0.005 by default.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    max_failures: Option<f64>,
    /// By which share its first tokens may be later; 0.2 by default.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 0, max = 100)))]
    max_ttft: Option<f64>,
    /// Why it may be tried although too little is known of it, or although it is worse than a limit. 1 to 200 characters;
    /// the log and the audit log show them.
    #[serde(default, rename = "override")]
    reason: Option<String>,
}

/// Whether a shadow may be tried.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PromotionBody {
    /// Its name.
    shadow: String,
    /// Its fingerprint now.
    fingerprint: String,
    /// The keys that it changes, with their values.
    overrides: String,
    /// Share of the requests that the canary is to get.
    #[cfg_attr(test, schemars(with = "f64"))]
    share: Figure,
    /// `allowed`; `overridden`: allowed for the reason that was given; `refused`.
    #[cfg_attr(test, schemars(extend("enum" = ["allowed", "overridden", "refused"])))]
    verdict: &'static str,
    checks: Vec<CheckBody>,
    /// The alias on trial and the canary as TOML, with comments that say where they belong; `null` if refused.
    lines: Option<String>,
}

/// One condition.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CheckBody {
    /// `fingerprint`, `canary`, `window`, `spend`, `failures` or `first_token`. The first two cannot be overridden.
    pub(crate) check: &'static str,
    /// Whether it is met.
    pub(crate) ok: bool,
    /// With the figures.
    pub(crate) sentence: String,
}

/// What is known of a shadow, beside the limits that hold where nobody names others. Empty where there is no such shadow.
pub(crate) fn judged(view: &GatewayView, shadow: &str) -> Vec<CheckBody> {
    let found = view.setup.config.shadows.iter().find(|config| *config.name == *shadow);
    let evidence = found.map(|config| Evidence::of(view, config, clock::unix_millis()));
    evidence.map_or_else(Vec::new, |evidence| evidence.checks(&GUARDRAIL).into())
}

/// Says whether a shadow may be tried. What is allowed stands in the audit log, with the reason of an override.
///
/// # Errors
/// 400 for a wrong body, 404 for an unknown shadow, 503 if the audit log cannot be written.
pub(crate) async fn promote(by: Administrator, name: PathName, body: Bytes) -> Result<HttpResponse, ApiError> {
    let request = PromotionRequest::parse(&body)?;
    let setup = Arc::clone(&by.worker.setup);
    let shadow = setup.config.shadows.iter().find(|shadow| *shadow.name == *name);
    let shadow = shadow.ok_or_else(|| ApiError::no_such("shadow"))?.clone();
    let evidence = Evidence::of(&by.worker, &shadow, clock::unix_millis());
    let guardrail = request.guardrail();
    let (share, asked) = (request.share, shadow.clone());
    let keys_choose = setup.keys.callers().iter().any(|caller| caller.key.objective.is_some());
    let lines = web::block(move || setup.config.canary_lines(&asked, share, &guardrail, keys_choose));
    let lines = lines.await.map_err(|_| ApiError::internal())?;
    let promotion = PromotionBody::new(&request, &shadow, &evidence, &lines);
    if let (true, Ok(CanaryLines { alias, .. })) = (promotion.lines.is_some(), lines) {
        let change = promotion.change(alias, request.reason);
        audit::record(&by, change.clone()).await?;
        let (by, what) = (&*by.caller.key.name, act(&change));
        events::administered(by, &what, Some(&promotion.shadow));
    }
    Ok(uncached(&Data { data: promotion }))
}

/// What the log says of it.
fn act(change: &Change) -> String {
    match change {
        Change::PromoteShadow { overridden, reason: Some(reason), .. } => {
            format!("overrides {} because of {reason:?} and promotes the shadow", overridden.join(", "))
        }
        _ => "promotes the shadow".to_owned(),
    }
}

impl PromotionRequest {
    fn parse(body: &[u8]) -> Result<PromotionRequest, ApiError> {
        let parsed: PromotionRequest = serde_json::from_slice(body)
            .map_err(|error| ApiError::invalid(Invalid::body(InvalidReason::InvalidValue, error.to_string())))?;
        if !SHARE_ON_TRIAL.contains(&parsed.share) {
            let most = "a share of the requests from 0.0001 to 0.5, such as 0.05 for 5 %";
            return Err(ApiError::bad_query("share", format!("'share' must be {most}; it is {}.", parsed.share)));
        }
        let limits = [
            ("max_spend", parsed.max_spend, 100.0),
            ("max_failures", parsed.max_failures, 1.0),
            ("max_ttft", parsed.max_ttft, 100.0),
        ];
        let beyond = limits.into_iter().find(|(_, limit, most)| limit.is_some_and(|it| !(0.0..=*most).contains(&it)));
        if let Some((name, _, most)) = beyond {
            return Err(ApiError::bad_query(name, format!("'{name}' must be a number from 0 to {most}.")));
        }
        let is_reason = |reason: &String| {
            let length = reason.trim().chars().count();
            (1..=MOST_REASON).contains(&length) && !reason.chars().any(char::is_control)
        };
        if !parsed.reason.as_ref().is_none_or(is_reason) {
            let message = format!("'override' must be the reason, in one line of 1 to {MOST_REASON} characters.");
            return Err(ApiError::bad_query("override", message));
        }
        Ok(parsed)
    }

    fn guardrail(&self) -> Guardrail {
        Guardrail {
            spend: self.max_spend.or(GUARDRAIL.spend),
            failures: self.max_failures.or(GUARDRAIL.failures),
            first_token: self.max_ttft.or(GUARDRAIL.first_token),
        }
    }
}

/// What is known of a shadow.
#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    hours: f64,
    decisions: u64,
    serving: Predicted,
    /// As the shadow would have it: a request without an endpoint counts as failed.
    shadow: Predicted,
}

impl Evidence {
    fn of(view: &GatewayView, config: &ShadowConfig, now_ms: i64) -> Evidence {
        let (observed, calibration) = view.shared.records.shadows.report();
        let observed = observed.iter().find(|shadow| shadow.is_of(config));
        observed.map_or_else(Evidence::default, |observed| Evidence::new(observed, &calibration, config, now_ms))
    }

    fn new(observed: &ObservedShadow, calibration: &Calibration, config: &ShadowConfig, now_ms: i64) -> Evidence {
        let until = config.until.map_or(now_ms, |until| until.timestamp_millis().min(now_ms));
        let [serving, shadow] = observed.tally.predicted(calibration);
        let decisions = observed.tally.decisions;
        let unserved = observed.tally.unserved as f64 / decisions.max(1) as f64;
        let shadow = Predicted { failure: shadow.failure + unserved, ..shadow };
        let hours = until.saturating_sub(observed.since_ms).max(0) as f64 / HOUR_MS;
        Evidence { hours, decisions, serving, shadow }
    }

    fn checks(&self, guardrail: &Guardrail) -> [CheckBody; 4] {
        let Evidence { hours, decisions, serving, shadow } = *self;
        let window = CheckBody {
            check: "window",
            ok: hours >= LEAST_HOURS && decisions >= FEWEST,
            sentence: format!(
                "{hours:.1} h and {} decisions; at least {LEAST_HOURS} h and {} are needed",
                grouped(decisions.into()),
                grouped(FEWEST.into())
            ),
        };
        let compared = |check, of: [f64; 2], limit: Option<f64>, shown: [String; 2]| {
            self.compared(check, of, limit.unwrap_or(f64::INFINITY), shown)
        };
        let dollars = [serving, shadow].map(|it| format!("${}", short(it.cost * 1e3)));
        let seconds = [serving, shadow].map(|it| format!("{} s", short(it.first_token)));
        [
            window,
            compared("spend", [serving.cost, shadow.cost], guardrail.spend, dollars),
            self.failures(guardrail.failures.unwrap_or(f64::INFINITY)),
            compared("first_token", [serving.first_token, shadow.first_token], guardrail.first_token, seconds),
        ]
    }

    /// A figure that may grow by a share of itself.
    fn compared(&self, check: &'static str, of: [f64; 2], limit: f64, shown: [String; 2]) -> CheckBody {
        let ([serving, shadow], [from, to]) = (of, shown);
        let change =
            if serving > 0.0 { format!(" ({})", signed_percent(shadow / serving - 1.0)) } else { String::new() };
        let of = if check == "spend" { " per 1,000 requests" } else { "" };
        let sentence = format!("{to} instead of {from}{of}{change}; at most {} is allowed", signed_percent(limit));
        self.known(check, shadow <= serving * (1.0 + limit + ROUNDING), sentence)
    }

    fn failures(&self, limit: f64) -> CheckBody {
        let (serving, shadow) = (self.serving.failure, self.shadow.failure);
        let sentence = format!(
            "{} instead of {} ({:+.2} points); at most {:+.2} is allowed",
            percent(shadow),
            percent(serving),
            100.0 * (shadow - serving),
            100.0 * limit
        );
        self.known("failures", shadow <= serving + limit + ROUNDING, sentence.replace('-', "−"))
    }

    /// Without decisions nothing is as it should be.
    fn known(&self, check: &'static str, ok: bool, sentence: String) -> CheckBody {
        match self.decisions {
            0 => CheckBody { check, ok: false, sentence: "nothing is known yet".to_owned() },
            _ => CheckBody { check, ok, sentence },
        }
    }
}

impl PromotionBody {
    fn new(
        request: &PromotionRequest,
        shadow: &ShadowConfig,
        evidence: &Evidence,
        lines: &Result<CanaryLines, NotACanary>,
    ) -> PromotionBody {
        let fingerprint = shadow.fingerprint();
        let is_expected = request.expect == fingerprint;
        let named = CheckBody {
            check: "fingerprint",
            ok: is_expected,
            sentence: match is_expected {
                true => format!("{fingerprint}, as expected"),
                false => format!("{fingerprint}, and not '{}': the shadow is another one", shown(&request.expect)),
            },
        };
        let canary = CheckBody {
            check: "canary",
            ok: lines.is_ok(),
            sentence: match lines {
                Ok(lines) => format!("a canary of {} does what the shadow does", lines.alias),
                Err(why) => why.to_string(),
            },
        };
        let judged = evidence.checks(&request.guardrail());
        let verdict = match judged.iter().all(|check| check.ok) {
            _ if !(named.ok && canary.ok) => "refused",
            true => "allowed",
            false if request.reason.is_some() => "overridden",
            false => "refused",
        };
        let lines = lines.as_ref().ok().filter(|_| verdict != "refused");
        PromotionBody {
            shadow: shadow.name.to_string(),
            fingerprint,
            overrides: shadow.overrides.clone(),
            share: Figure::exact(request.share),
            verdict,
            checks: [named, canary].into_iter().chain(judged).collect(),
            lines: lines.map(|lines| lines.toml.clone()),
        }
    }

    /// What the audit log holds of it. A reason that nothing needed is left out.
    fn change(&self, alias: String, reason: Option<String>) -> Change {
        let unmet = self.checks.iter().filter(|check| !check.ok);
        let overridden: Vec<String> = unmet.map(|check| check.check.to_owned()).collect();
        Change::PromoteShadow {
            shadow: self.shadow.clone(),
            fingerprint: self.fingerprint.clone(),
            alias,
            share: self.share.value().to_string(),
            reason: reason.filter(|_| !overridden.is_empty()).map(|reason| reason.trim().to_owned()),
            overridden,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pointsman_config::{Config, Environment};

    use super::*;

    const SERVING: Predicted = Predicted { cost: 0.001, first_token: 0.5, failure: 0.02 };
    const ENOUGH: Evidence = Evidence { hours: 24.0, decisions: 10_000, serving: SERVING, shadow: SERVING };

    /// The checks that are not met.
    fn unmet(evidence: Evidence) -> Vec<&'static str> {
        let checks = evidence.checks(&GUARDRAIL);
        checks.iter().filter(|check| !check.ok).map(|check| check.check).collect()
    }

    #[test]
    fn a_window_under_a_day_or_under_ten_thousand_decisions_is_too_short() {
        assert_eq!(unmet(ENOUGH), [""; 0]);
        assert_eq!(unmet(Evidence { hours: 23.99, ..ENOUGH }), ["window"]);
        assert_eq!(unmet(Evidence { decisions: 9_999, ..ENOUGH }), ["window"]);
    }

    #[test]
    fn a_figure_beyond_its_limit_is_not_met_and_one_at_it_is() {
        let of = |shadow: Predicted| unmet(Evidence { shadow, ..ENOUGH });
        assert_eq!(of(Predicted { cost: 0.001_1, first_token: 0.6, failure: 0.025 }), [""; 0]);
        assert_eq!(of(Predicted { cost: 0.001_11, ..SERVING }), ["spend"]);
        assert_eq!(of(Predicted { failure: 0.026, ..SERVING }), ["failures"]);
        assert_eq!(of(Predicted { first_token: 0.61, ..SERVING }), ["first_token"]);
        let free = Predicted { cost: 0.0, ..SERVING };
        assert_eq!(unmet(Evidence { serving: free, ..ENOUGH }), ["spend"], "of nothing there is no ten per cent more");
        assert_eq!(of(Predicted { cost: f64::NAN, first_token: f64::NAN, failure: f64::NAN }).len(), 3);
    }

    #[test]
    fn enough_evidence_within_the_limits_allows_it_and_a_reason_that_nothing_needs_is_not_said() {
        let toml = "[[shadow]]\nname = \"thrifty\"\nwhere = { alias = \"service/auto\" }\n[shadow.overrides]\n\
                    routing.objective = \"cheapest\"";
        let config = Config::parse(toml, "test", Path::new("."), &Environment::default()).unwrap();
        let shadow = &config.shadows[0];
        let request = |expect: &str, reason: &str| {
            let body = format!("{{\"share\": 0.05, \"expect\": {expect:?}, \"override\": {reason:?}}}");
            PromotionRequest::parse(body.as_bytes()).unwrap()
        };
        let asked = |expect: &str, evidence: &Evidence| {
            let request = request(expect, "a friday");
            let lines = config.canary_lines(shadow, request.share, &request.guardrail(), false);
            let promotion = PromotionBody::new(&request, shadow, evidence, &lines);
            let change = promotion.change("service/auto".to_owned(), request.reason);
            (promotion.verdict, promotion.lines.is_some(), act(&change))
        };
        let short = Evidence { hours: 1.0, ..ENOUGH };
        let fingerprint = shadow.fingerprint();
        assert_eq!(asked(&fingerprint, &ENOUGH), ("allowed", true, "promotes the shadow".to_owned()));
        let said = "overrides window because of \"a friday\" and promotes the shadow".to_owned();
        assert_eq!(asked(&fingerprint, &short), ("overridden", true, said));
        assert_eq!(asked("another one", &ENOUGH).0, "refused");
    }

    #[test]
    fn the_audit_log_holds_the_share_of_the_lines() {
        let toml = "[[shadow]]\nname = \"thrifty\"\nwhere = { alias = \"service/auto\" }\n[shadow.overrides]\n\
                    routing.objective = \"cheapest\"";
        let config = Config::parse(toml, "test", Path::new("."), &Environment::default()).unwrap();
        let shadow = &config.shadows[0];
        let body = format!("{{\"share\": 0.00015, \"expect\": {:?}}}", shadow.fingerprint());
        let request = PromotionRequest::parse(body.as_bytes()).unwrap();
        let lines = config.canary_lines(shadow, request.share, &request.guardrail(), false);
        let promotion = PromotionBody::new(&request, shadow, &ENOUGH, &lines);
        let toml = promotion.lines.as_deref().unwrap_or_default();
        assert!(toml.contains("\nshare = 0.00015\n"), "{toml}");
        let Change::PromoteShadow { share, .. } = promotion.change("service/auto".to_owned(), None) else {
            panic!("it promotes a shadow");
        };
        assert_eq!(share, "0.00015");
    }

    #[test]
    fn without_decisions_no_limit_is_kept() {
        assert_eq!(unmet(Evidence::default()), ["window", "spend", "failures", "first_token"]);
    }

    #[test]
    fn the_sentence_says_both_figures_the_change_and_the_limit() {
        let shadow = Predicted { cost: 0.001_2, failure: 0.01, ..SERVING };
        let checks = Evidence { shadow, ..ENOUGH }.checks(&GUARDRAIL);
        let sentences: Vec<&str> = checks.iter().map(|check| check.sentence.as_str()).collect();
        assert_eq!(
            sentences,
            [
                "24.0 h and 10,000 decisions; at least 24 h and 10,000 are needed",
                "$1.20 instead of $1.00 per 1,000 requests (+20.0 %); at most +10.0 % is allowed",
                "1.0 % instead of 2.0 % (−1.00 points); at most +0.50 is allowed",
                "0.5000 s instead of 0.5000 s (0 %); at most +20.0 % is allowed",
            ]
        );
    }

    #[test]
    fn shares_limits_and_reasons_out_of_range_are_refused_by_name() {
        let refused = |members: &str| {
            let body = format!("{{\"share\": 0.05, \"expect\": \"a\"{members}}}");
            PromotionRequest::parse(body.as_bytes()).err().and_then(|error| error.param().map(str::to_owned))
        };
        assert_eq!(refused(""), None);
        let long = format!(", \"override\": \"{}\"", "x".repeat(201));
        for (members, param) in [
            (", \"max_spend\": -1", "max_spend"),
            (", \"max_failures\": 1.1", "max_failures"),
            (", \"max_ttft\": 1e99", "max_ttft"),
            (", \"override\": \" \"", "override"),
            (", \"override\": \"a\\nb\"", "override"),
            (long.as_str(), "override"),
        ] {
            assert_eq!(refused(members).as_deref(), Some(param), "{members}");
        }
        for share in ["0", "-0.1", "0.51", "1", "1e99"] {
            let body = format!("{{\"share\": {share}, \"expect\": \"a\"}}");
            let error = PromotionRequest::parse(body.as_bytes()).unwrap_err();
            assert_eq!(error.param(), Some("share"), "{share}");
        }
    }
}
