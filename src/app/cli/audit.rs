//! `audit`: what administrators changed, newest first, at a running gateway or in the data directory of a stopped one.

use actix_web::http::Method;
use clap::Args;
use pointsman_config::{Config, Environment};
use pointsman_dialect::percent::encoded;
use serde_json::{Value, json};

use super::{
    CommandOutput, Finished,
    admin_place::{AdminClient, AdminPlace, stopped_gateway},
    columns::{cut, list, shown},
};
use crate::api::admin::audit::{AuditQuery, EntryBody};

/// Longest value of a member in a line.
const MOST_LETTERS: usize = 60;

/// Which lines of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditRequest {
    /// Most lines, up to 1000
    #[arg(long, value_name = "N", default_value = "50")]
    limit: u32,
    /// Only changes by this key, or by 'command line'
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only this action, such as create_key or put_team
    #[arg(long)]
    action: Option<String>,
    /// Only changes of the key, account or team of this name
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Only from this time on, such as 2026-11-23
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    pub(super) place: AdminPlace,
}

impl AuditRequest {
    /// The filters as a query string of the API.
    fn query(&self) -> String {
        let filters = [
            ("by", &self.by),
            ("action", &self.action),
            ("object", &self.object),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let named = filters.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        named.fold(format!("limit={}", self.limit), |query, (name, value)| format!("{query}&{name}={}", encoded(value)))
    }
}

/// Runs the command.
pub(super) fn run(request: &AuditRequest, environment: &Environment) -> Finished {
    request.place.run(
        environment,
        |gateway| at_running(request, gateway),
        |config| at_stopped(request, config),
        |page| if request.place.json { format!("{page}\n") } else { lines(&page) },
    )
}

fn at_running(request: &AuditRequest, gateway: &AdminClient) -> Result<Value, CommandOutput> {
    gateway.call(Method::GET, &format!("/api/v1/admin/audit?{}", request.query()), None)
}

fn at_stopped(request: &AuditRequest, config: &Config) -> Result<Value, CommandOutput> {
    let asked = AuditQuery::parse(&request.query(), 1).map_err(|error| error.message().to_owned())?;
    let gateway = stopped_gateway(config)?;
    let (lines, total) = asked.read(&gateway.registry);
    let data: Vec<EntryBody<'_>> = lines.iter().map(EntryBody::new).collect();
    Ok(json!({ "data": data, "total": total }))
}

/// One line for each change: when, who, from where, what, and the members that are different since.
fn lines(page: &Value) -> String {
    let entries = list(page, "data");
    if entries.is_empty() {
        return "No change passes.\n".to_owned();
    }
    let line = |entry: &Value| {
        let [at, by, from, action] = ["/at", "/by", "/from", "/action"].map(|path| shown(entry, path));
        let object = entry.get("object").filter(|object| !object.is_null()).map(|_| shown(entry, "/object"));
        let object = object.map_or_else(String::new, |object| format!(" '{object}'"));
        let changes: Vec<String> = list(entry, "changes").iter().map(changed).collect();
        let changes = if changes.is_empty() { String::new() } else { format!(": {}", changes.join(", ")) };
        format!("{at}  {by} ({from})  {action}{object}{changes}\n")
    };
    entries.iter().map(line).collect()
}

fn changed(change: &Value) -> String {
    let value = |path: &str| cut(&shown(change, path), MOST_LETTERS);
    match change.get("from").is_none_or(Value::is_null) {
        true => format!("{} {}", shown(change, "/member"), value("/to")),
        false => format!("{} {} -> {}", shown(change, "/member"), value("/from"), value("/to")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_who_and_what_changed() {
        let page = json!({ "data": [
            { "at": "2026-11-27T18:00:00.000Z", "by": "boss", "from": "127.0.0.1", "action": "put_team", "object": "web",
              "changes": [{ "member": "spend", "from": { "amount": "5" }, "to": null }, { "member": "name", "from": null, "to": "web" }] },
            { "at": "2026-11-27T17:00:00.000Z", "by": "command line", "from": "ann", "action": "reload", "object": null, "changes": [] },
        ] });
        let expected = "2026-11-27T18:00:00.000Z  boss (127.0.0.1)  put_team 'web': spend {\"amount\":\"5\"} -> -, name web\n\
                        2026-11-27T17:00:00.000Z  command line (ann)  reload\n";
        assert_eq!(lines(&page), expected);
        assert_eq!(lines(&json!({ "data": [] })), "No change passes.\n");
    }
}
