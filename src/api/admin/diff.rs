//! `/admin/diff`: what another configuration would have chosen for the records of this gateway. One comparison at a time, on a
//! thread of its own that leaves the processors to requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use actix_web::{HttpResponse, web::Bytes};
use pointsman_base::clock;
use pointsman_config::Fault;
use pointsman_domain::{Invalid, InvalidReason};
use pointsman_ledger::{
    entry::Filter,
    facts::label,
    generations::owner_label,
    traffic::{Traffic, Wanted},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    diff_job::{JobReport, accepted, asked, start},
    keys,
};
use crate::{
    api::{
        auth::{Administrator, Authorized},
        diff::{
            configuration::ComparedConfiguration,
            limit::Limit,
            report::DiffReport,
            run::{DiffRequest, Pace, run},
        },
        generations::ledger_query::moment,
    },
    base::error::ApiError,
    state::{diff_job::DiffJob, gateway::Worker},
};

pub(super) const HOUR_MS: i64 = 60 * 60 * 1_000;
/// Highest factor of prices.
const MOST_FACTOR: f64 = 1_000.0;
/// Most examples of a report.
const MOST_EXAMPLES: usize = 100;

impl JobReport for DiffReport {
    const PREFIX: &'static str = "diff-";
    const BEGINS: &'static str = "compares a configuration";
    const CANCELS: &'static str = "cancels the comparison";
}

/// What to compare.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(
    description = "",
    extend("examples" = [{"config": "[routing.balanced]\ncost = 0.7\n", "limits": ["spend > +5%"]}]),
))]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffBody {
    /// The configuration after the change, as TOML text. Environment variables of the gateway apply as at its start.
    #[serde(default)]
    config: Option<String>,
    /// Instead of it, the keys of the configuration in force that change, with their values after it: each by its path, such as
    /// `routing.balanced.cost` or `aliases["chat"].objective`.
    #[serde(default)]
    #[cfg_attr(test, schemars(extend("examples" = [{"routing.balanced.cost": 0.7, "aliases[\"chat\"].objective": "fastest"}])))]
    changes: Option<Map<String, Value>>,
    /// Factors of the prices of providers, by their slugs.
    #[serde(default)]
    #[cfg_attr(test, schemars(extend("additionalProperties" = {"type": "number", "minimum": 0, "maximum": 1000})))]
    price_factors: BTreeMap<String, f64>,
    /// Records from this time on: RFC 3339, a date or Unix milliseconds.
    #[serde(default)]
    since: Option<String>,
    /// Records before this time.
    #[serde(default)]
    until: Option<String>,
    #[serde(default, rename = "where")]
    conditions: ConditionsBody,
    /// Figures that may not grow by more, such as `spend > +5%`.
    #[serde(default)]
    limits: Vec<String>,
    /// Whether a limit counts as kept only if the whole interval keeps it.
    #[serde(default)]
    strict: bool,
    /// Whether decisions are left out whose choice does not follow from the record.
    #[serde(default)]
    exact_only: bool,
    /// Number of moved decisions that are shown, at most 100.
    #[serde(default)]
    examples: usize,
    /// Whether keys that work over time, such as half-lives and breakers, are answered by running the recorded attempts through
    /// statistics and breakers with other constants. Without it they are refused.
    #[serde(default)]
    open_loop: bool,
}

/// Conditions on records.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
#[serde(deny_unknown_fields)]
pub(super) struct ConditionsBody {
    /// The alias that was asked for.
    pub(super) alias: Option<String>,
    /// Objective of the decision.
    pub(super) objective: Option<String>,
    /// Name of the key.
    pub(super) key: Option<String>,
}

/// Begins a comparison.
///
/// # Errors
/// 400 for a wrong body or a configuration with faults, 404 without a durable ledger, 409 while another comparison runs.
pub(crate) async fn begin(by: Administrator, body: Bytes) -> Result<HttpResponse, ApiError> {
    let body: DiffBody = asked(&body)?;
    let after = body.after(&by.worker)?;
    accepted::<DiffReport>(&*begin_job(&by, after, &body, Vec::new())?)
}

/// Begins a comparison with this configuration: for the call and for the console, which keeps with it what was `entered`.
///
/// # Errors
/// 400 for wrong conditions, 404 without a durable ledger, 409 while another comparison runs.
pub(crate) fn begin_job(
    by: &Authorized,
    after: ComparedConfiguration,
    body: &DiffBody,
    entered: Vec<(String, String)>,
) -> Result<Arc<DiffJob>, ApiError> {
    let request = request(&by.worker, after, body)?;
    let work = move |traffic: &Traffic, stop: &AtomicBool| {
        let compared = run(traffic, &request, stop).map_err(|why| why.to_string())?;
        Ok(DiffReport::new(&compared, &request, clock::unix_millis()))
    };
    start(by, entered, work)
}

pub(super) fn wrong(param: &str, why: String) -> ApiError {
    ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, param, why))
}

/// The configuration in force with these keys changed, as TOML, and with these factors of prices.
///
/// # Errors
/// 400 for faults and unknown providers.
pub(crate) fn changed(
    worker: &Worker,
    changes: &str,
    factors: &BTreeMap<String, f64>,
) -> Result<ComparedConfiguration, ApiError> {
    let config = worker.setup.config.with_changes(changes, "changes").map_err(|faults| faulty("changes", &faults))?;
    with_factors(ComparedConfiguration::new("changes".to_owned(), &config), factors)
}

fn faulty(param: &str, faults: &[Fault]) -> ApiError {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    wrong(param, lines.join("\n"))
}

fn with_factors(
    after: ComparedConfiguration,
    factors: &BTreeMap<String, f64>,
) -> Result<ComparedConfiguration, ApiError> {
    for (slug, factor) in factors {
        if !after.has_provider(slug) {
            return Err(wrong("price_factors", format!("there is no provider '{slug}'")));
        }
        if !(0.0..=MOST_FACTOR).contains(factor) {
            return Err(wrong("price_factors", format!("the factor of '{slug}' must be from 0 to {MOST_FACTOR}")));
        }
    }
    Ok(if factors.is_empty() { after } else { after.with_prices(factors) })
}

impl DiffBody {
    /// The records of the last hours, or all.
    pub(crate) fn of_hours(hours: Option<i64>, limits: Vec<String>, examples: usize) -> DiffBody {
        let since = hours.map(|hours| clock::unix_millis().saturating_sub(hours.saturating_mul(HOUR_MS)).to_string());
        DiffBody { since, limits, examples, ..DiffBody::default() }
    }

    fn after(&self, worker: &Worker) -> Result<ComparedConfiguration, ApiError> {
        match (&self.config, &self.changes) {
            (Some(text), None) => {
                let config =
                    worker.setup.config.read_alike(text, "config").map_err(|faults| faulty("config", &faults))?;
                let read = ComparedConfiguration::new("config".to_owned(), &config).with_text(text);
                with_factors(read, &self.price_factors)
            }
            (None, changes) if changes.is_some() || !self.price_factors.is_empty() => {
                let changes = changes.clone().unwrap_or_default();
                let toml = toml::to_string(&changes).map_err(|error| wrong("changes", error.to_string()))?;
                changed(worker, &toml, &self.price_factors)
            }
            _ => Err(wrong("config", "give either 'config', or 'changes', 'price_factors' or both".to_owned())),
        }
    }
}

/// The records between two times, with conditions.
pub(super) fn wanted(
    worker: &Worker,
    [since, until]: [&Option<String>; 2],
    conditions: &ConditionsBody,
) -> Result<Wanted, ApiError> {
    let time = |param: &str, text: &Option<String>| {
        let none = || {
            wrong(param, format!("'{param}' must be a time such as 2026-11-23T06:00:00Z, a date or Unix milliseconds."))
        };
        text.as_ref().map(|text| moment(text).ok_or_else(none)).transpose()
    };
    let until = time("until", until)?.unwrap_or_else(clock::unix_millis);
    let mut labels = Vec::new();
    let ConditionsBody { alias, objective, key } = conditions;
    labels.extend(alias.as_ref().map(|alias| (label::ALIAS, vec![alias.as_str().into()])));
    labels.extend(objective.as_ref().map(|objective| (label::OBJECTIVE, vec![objective.as_str().into()])));
    if let Some(key) = key {
        labels.push((label::KEY, vec![owner_label(keys::find(worker, key)?.id)]));
    }
    let (since_ms, until_ms) = (time("since", since)?, Some(until.saturating_sub(1)));
    Ok(Wanted { filter: Filter { since_ms, until_ms, labels, ..Filter::default() }, ..Wanted::default() })
}

fn request(worker: &Worker, after: ComparedConfiguration, body: &DiffBody) -> Result<DiffRequest, ApiError> {
    let wanted = wanted(worker, [&body.since, &body.until], &body.conditions)?;
    let limits = body.limits.iter().map(|text| Limit::parse(text)).collect::<Result<_, _>>();
    Ok(DiffRequest {
        before: None,
        after,
        wanted,
        limits: limits.map_err(|why| wrong("limits", why))?,
        strict: body.strict,
        exact_only: body.exact_only,
        examples: body.examples.min(MOST_EXAMPLES),
        estimate: false,
        open_loop: body.open_loop,
        threads: 1,
        pace: Pace::Background,
    })
}
