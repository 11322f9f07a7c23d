//! `spend`: what was spent, by team, key, model, day and the like, and why that changed, from a running gateway.

mod table;

use actix_web::http::Method;
use chrono::{Local, TimeZone as _};
use clap::Args;
use pointsman_base::clock;
use pointsman_config::Environment;
use pointsman_dialect::percent::encoded;
use serde_json::Value;

use super::{
    CommandOutput, Finished,
    admin_place::{AdminClient, admin_url},
    gateway::GatewayArguments,
    names, success,
};

const OWN_KEY_VARIABLE: &str = "POINTSMAN_API_KEY";

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Which spending to show, and in what form.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SpendRequest {
    /// Groups, divided by commas: team, account, key, model, provider, alias, objective, task, day, hour
    #[arg(long, value_name = "GROUPS", default_value = "model")]
    by: String,
    /// Beginning: 7d (days, today included), 12h, today, yesterday, month, 2026-11-23, 2026-11-23T06:00:00Z
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: String,
    /// End, not included, such as today; default: now
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Say why the cost differs from that of the time before, which is as long
    #[arg(long)]
    explain: bool,
    /// With --explain: beginning of another time to compare with
    #[arg(long, value_name = "TIME", requires = "explain")]
    compare_to: Option<String>,
    /// Only these teams, divided by commas; so for the other names
    #[arg(long, value_name = "NAMES")]
    team: Option<String>,
    /// Only these accounts
    #[arg(long, value_name = "NAMES")]
    account: Option<String>,
    /// Only these keys
    #[arg(long, value_name = "NAMES")]
    key: Option<String>,
    /// Only these models
    #[arg(long, value_name = "NAMES", add = names::models())]
    model: Option<String>,
    /// Only these providers
    #[arg(long, value_name = "NAMES", add = names::providers())]
    provider: Option<String>,
    /// Only these aliases
    #[arg(long, value_name = "NAMES")]
    alias: Option<String>,
    /// Only these objectives
    #[arg(long, value_name = "NAMES")]
    objective: Option<String>,
    /// Only these classes of tasks
    #[arg(long, value_name = "NAMES")]
    task: Option<String>,
    /// What the key in POINTSMAN_API_KEY spent, at the address of calls; default: http://127.0.0.1:8080
    #[arg(long)]
    own: bool,
    /// The gateway: its admin address; default: POINTSMAN_ADMIN_URL, else http://127.0.0.1:8081; with --own POINTSMAN_URL, else
    /// http://127.0.0.1:8080
    #[arg(long)]
    url: Option<String>,
    /// Environment variable with a key of the scope admin; default: POINTSMAN_ADMIN_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Print CSV
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    csv: bool,
    /// Print the answer of the gateway unchanged, as JSON; with --explain that about the change
    #[arg(long)]
    json: bool,
}

/// Shows what was spent.
pub(super) fn run(request: &SpendRequest, environment: &Environment) -> Finished {
    let gateway = request.gateway(environment)?;
    let now_ms = clock::unix_millis();
    let zone = Zone::here(now_ms);
    let common = request.query(zone, now_ms);
    let rows = format!("group_by={}{common}", encoded(&request.by));
    let compared = request.compare_to.as_ref().map(|time| format!("&compare_to={}", encoded(&zone.time(time, now_ms))));
    let change = format!("{}{}", common.trim_start_matches('&'), compared.unwrap_or_default());
    let base = if request.own { "/api/v1/activity" } else { "/api/v1/admin/activity" };
    let page = |below: &str, query: &str| {
        let body = gateway.page(Method::GET, &format!("{base}{below}?{query}"), None);
        body.map_err(|failed| request.with_remedy(failed))
    };
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    if request.csv {
        return Ok(success(text(&page(".csv", &rows)?)));
    }
    if request.json {
        let body = if request.explain { page("/explain", &change)? } else { page("", &rows)? };
        return Ok(success(format!("{}\n", text(&body))));
    }
    let read = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap_or_default();
    let mut shown = table::spend(&read(&page("", &rows)?), zone.minutes);
    if request.explain {
        shown.push('\n');
        shown.push_str(&table::change(&read(&page("/explain", &change)?), zone.minutes));
    }
    Ok(success(shown))
}

impl SpendRequest {
    fn gateway(&self, environment: &Environment) -> Result<AdminClient, CommandOutput> {
        let url = match self.own {
            true => GatewayArguments::new(self.url.clone(), None).url(environment),
            false => admin_url(self.url.as_deref(), environment),
        };
        let key_env = self.key_env.as_deref().or(self.own.then_some(OWN_KEY_VARIABLE));
        AdminClient::new(&url, key_env, environment)
    }

    /// The parameters of both pages, each behind an ampersand.
    fn query(&self, zone: Zone, now_ms: i64) -> String {
        let names = [
            ("team", &self.team),
            ("account", &self.account),
            ("key", &self.key),
            ("model", &self.model),
            ("provider", &self.provider),
            ("alias", &self.alias),
            ("objective", &self.objective),
            ("task", &self.task),
        ];
        let names = names.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let until = self.until.as_ref().map(|time| ("until", zone.time(time, now_ms)));
        let times = [("since", zone.time(&self.since, now_ms)), ("tz_offset_minutes", zone.minutes.to_string())];
        let pairs = times.into_iter().chain(until).chain(names);
        pairs.map(|(name, value)| format!("&{name}={}", encoded(&value))).collect()
    }

    /// A failure with what to do.
    fn with_remedy(&self, failed: CommandOutput) -> CommandOutput {
        // What the other listener is good for is said by the client itself.
        if self.own || !failed.text.contains("answers 404") || !failed.text.contains("path does not exist") {
            return failed;
        }
        let text = format!(
            "{} --url must be the admin address (admin.bind), such as http://127.0.0.1:8081; --own asks the other one for the \
             spending of one key.\n",
            failed.text.trim_end()
        );
        CommandOutput { text, ..failed }
    }
}

/// Local time less UTC.
#[derive(Debug, Clone, Copy)]
struct Zone {
    minutes: i64,
}

impl Zone {
    /// That of this machine, or of the variable TZ, to a quarter of an hour.
    fn here(now_ms: i64) -> Zone {
        let offset = Local.timestamp_millis_opt(now_ms).single().map_or(0, |now| now.offset().local_minus_utc());
        Zone { minutes: i64::from(offset).div_euclid(900) * 15 }
    }

    /// A time as the gateway reads it. What is none goes to it unchanged: it says what is wrong.
    fn time(self, text: &str, now_ms: i64) -> String {
        let local = now_ms + self.minutes * MINUTE_MS;
        let midnight = |days_ago: i64| local - local.rem_euclid(DAY_MS) - days_ago * DAY_MS - self.minutes * MINUTE_MS;
        let count =
            |unit: char| text.strip_suffix(unit).and_then(|count| count.parse::<i64>().ok()).filter(|count| *count > 0);
        let date = |text: &str| chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
        let at = match text {
            "today" => Some(midnight(0)),
            "yesterday" => Some(midnight(1)),
            "month" => {
                let day = chrono::DateTime::from_timestamp_millis(local).map(|now| now.format("%d").to_string());
                day.and_then(|day| day.parse::<i64>().ok()).map(|day| midnight(day - 1))
            }
            _ => count('d')
                .map(|days| midnight(days.saturating_sub(1).min(100_000)))
                .or_else(|| count('h').map(|hours| now_ms - hours.min(2_400_000) * HOUR_MS))
                .or_else(|| {
                    let start = date(text)?.and_time(chrono::NaiveTime::MIN).and_utc();
                    Some(start.timestamp_millis() - self.minutes * MINUTE_MS)
                }),
        };
        at.map_or_else(|| text.to_owned(), |at| at.max(0).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_days_hours_and_words_of_the_local_zone() {
        // 2026-11-23T06:07:00Z.
        let now = 1_795_414_020_000;
        let shown = |minutes, text: &str| {
            let time = Zone { minutes }.time(text, now);
            let millis = time.parse().ok().and_then(chrono::DateTime::from_timestamp_millis);
            millis.map_or(time, |time| time.format("%FT%RZ").to_string())
        };
        for (minutes, text, expected) in [
            (0, "today", "2026-11-23T00:00Z"),
            (0, "1d", "2026-11-23T00:00Z"),
            (0, "7d", "2026-11-17T00:00Z"),
            (330, "7d", "2026-11-16T18:30Z"),
            (-480, "today", "2026-11-22T08:00Z"),
            (0, "12h", "2026-11-22T18:07Z"),
            (60, "month", "2026-10-31T23:00Z"),
            (60, "2026-11-02", "2026-11-01T23:00Z"),
            (60, "2026-11-02T06:00:00Z", "2026-11-02T06:00:00Z"),
            (-480, "yesterday", "2026-11-21T08:00Z"),
            (0, "tomorrow", "tomorrow"),
        ] {
            assert_eq!(shown(minutes, text), expected, "{minutes} {text}");
        }
    }
}
