//! `/admin/regret`: what the decisions that this gateway recorded came to beyond better ones. A job as a comparison is one.

use std::sync::{Arc, atomic::AtomicBool};

use actix_web::{HttpResponse, web::Bytes};
use pointsman_base::clock;
use pointsman_domain::grouped;
use pointsman_ledger::traffic::{Sample, Traffic, Wanted};
use serde::Deserialize;

use super::{
    diff::{ConditionsBody, HOUR_MS, wanted, wrong},
    diff_job::{JobReport, accepted, asked, start},
};
use crate::{
    api::{
        auth::{Administrator, Authorized},
        diff::{
            regret_report::RegretReport,
            regret_run::{RegretRequest, run},
            run::Pace,
        },
    },
    base::error::ApiError,
    state::{diff_job::DiffJob, gateway::Worker},
};

impl JobReport for RegretReport {
    const PREFIX: &'static str = "regret-";
    const BEGINS: &'static str = "reviews recorded decisions";
    const CANCELS: &'static str = "cancels the review";
}

/// Longest time that is reviewed in a gateway. Memory has a bound of its own ([`MOST_KEPT`]).
const MOST_HOURS: i64 = 7 * 24;
/// Hours that are reviewed by default.
const HOURS: i64 = 24;
/// Most requests that are reviewed in a gateway, about: each takes 1 KB.
const MOST: u64 = 20_000;
/// Most that a gateway keeps of what was known of endpoints, one for each endpoint and ten seconds: about 125 MB. 24
/// endpoints with requests at all times reach it in a day, four in a week.
const MOST_KEPT: usize = 205_000;

/// What to review.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(
    description = "",
    extend("examples" = [{"since": "2026-11-27", "by_day": true}]),
))]
#[serde(deny_unknown_fields)]
pub(crate) struct RegretBody {
    /// Records from this time on: RFC 3339, a date or Unix milliseconds. At most a week before the end; a day before it by
    /// default.
    #[serde(default)]
    since: Option<String>,
    /// Records before this time.
    #[serde(default)]
    until: Option<String>,
    #[serde(default, rename = "where")]
    conditions: ConditionsBody,
    /// Whether each day (UTC) has figures of its own, too.
    #[serde(default)]
    by_day: bool,
}

/// Begins a review.
///
/// # Errors
/// 400 for a wrong body, 404 without a durable ledger, 409 while a comparison or another review runs.
pub(crate) async fn begin(by: Administrator, body: Bytes) -> Result<HttpResponse, ApiError> {
    accepted::<RegretReport>(&*begin_job(&by, &asked(&body)?, Vec::new())?)
}

/// Begins a review: for the call and for the console, which keeps with it what was `entered`.
///
/// # Errors
/// As [`begin`].
pub(crate) fn begin_job(
    by: &Authorized,
    body: &RegretBody,
    entered: Vec<(String, String)>,
) -> Result<Arc<DiffJob>, ApiError> {
    let (wanted, by_day) = (body.wanted(&by.worker)?, body.by_day);
    let work = move |traffic: &Traffic, stop: &AtomicBool| {
        let all = traffic.count(&wanted).map_err(|fault| fault.to_string())?;
        let wanted = Wanted { sample: Sample::of(MOST, all), ..wanted };
        let request = RegretRequest { wanted, by_day, threads: 1, pace: Pace::Background, most_kept: MOST_KEPT };
        let reviewed = run(traffic, &request, stop).map_err(|why| why.to_string())?;
        let mut report = RegretReport::new(&reviewed);
        if request.wanted.sample.is_some() {
            let of = format!("about {} of {} requests, by chance", grouped(MOST.into()), grouped(all.into()));
            report.warnings.push(format!("{of}; 'pointsman regret' takes all of them"));
        }
        Ok(report)
    };
    start(by, entered, work)
}

impl RegretBody {
    /// The records of the last hours, of all aliases or one.
    pub(crate) fn of_hours(hours: i64, alias: Option<String>, by_day: bool) -> RegretBody {
        let since = clock::unix_millis().saturating_sub(hours.saturating_mul(HOUR_MS));
        let conditions = ConditionsBody { alias, ..ConditionsBody::default() };
        RegretBody { since: Some(since.to_string()), conditions, by_day, ..RegretBody::default() }
    }

    fn wanted(&self, worker: &Worker) -> Result<Wanted, ApiError> {
        let mut wanted = wanted(worker, [&self.since, &self.until], &self.conditions)?;
        let filter = &mut wanted.filter;
        let until = filter.until_ms.unwrap_or_default();
        let since = *filter.since_ms.get_or_insert(until.saturating_sub(HOURS * HOUR_MS));
        if until.saturating_sub(since) > MOST_HOURS * HOUR_MS {
            let message = "A gateway reviews at most a week of records; 'pointsman regret' on a copy reviews more.";
            return Err(wrong("since", message.to_owned()));
        }
        Ok(wanted)
    }
}
