//! `keys`: issues, lists, rotates, disables and revokes keys, and shows what they spent, at a running gateway or in the data
//! directory of a stopped one.

use std::fmt::Write as _;

use actix_web::http::Method;
use clap::{Args, Subcommand};
use pointsman_config::{Config, Environment};
use pointsman_dialect::percent::encoded;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    CommandOutput, Finished,
    admin_place::{AdminClient, AdminPlace, RateArguments, StoppedGateway, given, stopped_gateway},
    columns::{dollars, shown},
};
use crate::{
    access::{
        issued::{Actor, Change},
        registry::{ChangeFault, Registry},
    },
    api::keys::issued_keys::{new_key, new_text},
};

/// Most keys of the configuration that a list names.
const MOST_CONFIGURED: usize = 20;

/// What to do with which keys.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct KeysRequest {
    #[command(subcommand)]
    action: KeysAction,
    #[command(flatten)]
    pub(super) place: AdminPlace,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum KeysAction {
    /// Issue a key, and print it once
    Create(Box<NewKeyArguments>),
    /// List the issued keys
    List,
    /// Give an issued key a new text; the old one is refused from then on
    Rotate {
        /// Name of the key
        name: String,
    },
    /// Refuse a key until it is enabled again; also a key of the configuration
    Disable {
        /// Name of the key
        name: String,
    },
    /// Accept a disabled key again
    Enable {
        /// Name of the key
        name: String,
    },
    /// Remove an issued key for good
    Revoke {
        /// Name of the key
        name: String,
    },
    /// Show what keys have spent and what is left of the limit that each meets first, also of keys of the configuration; at a
    /// running gateway only
    Usage {
        /// Name of the key; default: all
        name: Option<String>,
    },
}

// The names of the arguments are those of the members that they set.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize)]
struct NewKeyArguments {
    /// Name, for logs and records; unique
    #[arg(value_name = "NAME", required_unless_present = "name")]
    #[serde(skip)]
    key: Option<String>,
    /// The same
    #[arg(long, conflicts_with = "key")]
    #[serde(skip)]
    name: Option<String>,
    /// Account; default: one of its own
    #[arg(long)]
    account: Option<String>,
    /// Scope: inference, read, admin or feedback; may be repeated; default: inference and read
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Spending limit in US dollars, such as 25.00
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    limit: Option<String>,
    /// When the limit starts again: daily, weekly or monthly
    #[arg(long, value_name = "PERIOD")]
    limit_reset: Option<String>,
    /// Time from which the key is refused, such as 2027-12-31
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    rates: RateArguments,
    /// Model id or prefix such as acme/* that the key may use; may be repeated
    #[arg(long = "allowed-model", value_name = "PATTERN")]
    allowed_models: Vec<String>,
    /// Model id or prefix that the key may not use; may be repeated
    #[arg(long = "blocked-model", value_name = "PATTERN")]
    blocked_models: Vec<String>,
    /// Provider that the key may use; may be repeated
    #[arg(long = "allowed-provider", value_name = "PROVIDER")]
    allowed_providers: Vec<String>,
    /// Provider that the key may not use; may be repeated
    #[arg(long = "blocked-provider", value_name = "PROVIDER")]
    blocked_providers: Vec<String>,
    /// Objective of requests that name none: cheapest, fastest, reliable or balanced
    #[arg(long, value_name = "OBJECTIVE")]
    objective: Option<String>,
    /// Class of the tasks of requests that name none, for records, such as code
    #[arg(long, value_name = "CLASS")]
    task: Option<String>,
    /// Whether choices of the key may be drawn at random to learn from; default: true
    #[arg(long, value_name = "BOOL")]
    explore: Option<bool>,
    /// Name that means a model or an alias in requests of the key; may be repeated
    #[arg(long = "alias", value_name = "NAME=MODEL", value_parser = alias)]
    #[serde(skip)]
    aliases: Vec<(String, String)>,
    /// Your own name of the user of the key
    #[arg(long, value_name = "NAME")]
    external_user: Option<String>,
}

fn alias(text: &str) -> Result<(String, String), String> {
    let (name, target) = text.split_once('=').ok_or("needs the form NAME=MODEL")?;
    Ok((name.to_owned(), target.to_owned()))
}

impl NewKeyArguments {
    fn name(&self) -> &str {
        self.key.as_deref().or(self.name.as_deref()).unwrap_or_default()
    }

    fn members(&self) -> Map<String, Value> {
        let mut members = given(self);
        members.insert("name".to_owned(), json!(self.name()));
        if !self.aliases.is_empty() {
            let aliases = self.aliases.iter().map(|(name, target)| (name.clone(), json!(target)));
            members.insert("aliases".to_owned(), aliases.collect());
        }
        members
    }
}

/// Runs the command.
pub(super) fn run(request: &KeysRequest, environment: &Environment) -> Finished {
    request.place.run(
        environment,
        |gateway| gateway.run(&request.action),
        |config| stopped(config, &request.action),
        |done| if request.place.json { format!("{}\n", done.json()) } else { done.text() },
    )
}

/// What was done.
enum Done {
    /// The key with this name got this text.
    Issued {
        name: String,
        text: String,
    },
    /// The issued keys, and the names of those of the configuration.
    Listed(Vec<Value>, Vec<String>),
    Used(Vec<Value>),
    Switched {
        name: String,
        on: bool,
    },
    Revoked {
        name: String,
    },
}

impl Done {
    fn text(&self) -> String {
        match self {
            Done::Issued { name, text } => {
                format!("The key '{name}'. It is shown only once and not stored:\n\n  {text}\n")
            }
            Done::Listed(keys, configured) => list(keys, configured),
            Done::Used(keys) => usage(keys),
            Done::Switched { name, on } => {
                format!("The key '{name}' is {}.\n", if *on { "enabled" } else { "disabled" })
            }
            Done::Revoked { name } => format!("The key '{name}' is revoked.\n"),
        }
    }

    fn json(&self) -> Value {
        match self {
            Done::Issued { name, text } => json!({ "name": name, "key": text }),
            Done::Listed(keys, configured) => json!({ "data": keys, "configured": configured }),
            Done::Used(keys) => json!({ "data": keys }),
            Done::Switched { name, on } => json!({ "name": name, "disabled": !on }),
            Done::Revoked { name } => json!({ "name": name, "revoked": true }),
        }
    }
}

/// Works on the data directory of a gateway that does not run.
fn stopped(config: &Config, action: &KeysAction) -> Result<Done, CommandOutput> {
    let StoppedGateway { registry, actor, .. } = &stopped_gateway(config)?;
    let actor = actor.clone();
    let fault = |fault: ChangeFault| fault.to_string();
    match action {
        KeysAction::Create(arguments) => {
            let (key, text) = new_key(&arguments.members(), &actor.by, &config.catalog(1))
                .map_err(|error| error.message().to_owned())?;
            let name = key.name.clone();
            registry.create(actor, key).map_err(fault)?;
            Ok(Done::Issued { name, text: text.expose().to_owned() })
        }
        KeysAction::List => Ok(Done::Listed(
            registry
                .keys()
                .iter()
                .map(|key| {
                    let expires = key.expires_ms.map(|ms| json!(crate::api::keys::issued_keys::time(ms)));
                    let spend = key.spend.as_ref();
                    json!({ "name": key.name, "label": key.label, "account": key.account, "disabled": key.disabled,
                    "scopes": key.scopes, "expires_at": expires, "limit": spend.map(|spend| &spend.amount),
                    "limit_reset": spend.and_then(|spend| spend.reset.as_ref()) })
                })
                .collect(),
            config.keys.iter().map(|key| key.name.as_ref().to_owned()).collect(),
        )),
        KeysAction::Rotate { name } => {
            let (text, label, sha256) = new_text();
            let id = issued(registry, name)?;
            let change = registry.change(actor, id, |key| {
                (key.label, key.sha256) = (label, sha256);
                Change::RotateKey
            });
            let key = change.map_err(fault)?;
            Ok(Done::Issued { name: key.name.clone(), text: text.expose().to_owned() })
        }
        KeysAction::Disable { name } => switch(registry, config, actor, name, false),
        KeysAction::Enable { name } => switch(registry, config, actor, name, true),
        KeysAction::Revoke { name } => {
            registry.revoke(actor, issued(registry, name)?).map_err(fault)?;
            Ok(Done::Revoked { name: name.clone() })
        }
        KeysAction::Usage { .. } => {
            let message =
                "what keys have spent is counted by a running gateway: start it, or give its admin address with --url";
            Err(message.to_owned().into())
        }
    }
}

fn issued(registry: &Registry, name: &str) -> Result<u64, String> {
    let key = registry.keys().into_iter().find(|key| key.name == name);
    key.map(|key| key.id).ok_or_else(|| format!("there is no issued key '{name}'; 'pointsman keys list' shows them"))
}

fn switch(registry: &Registry, config: &Config, actor: Actor, name: &str, on: bool) -> Result<Done, CommandOutput> {
    let configured = config.keys.iter().find(|key| *key.name == *name);
    let done = match configured {
        Some(key) => registry.switch(actor, name, (!on || key.disabled).then_some(on)),
        None => registry
            .change(actor, issued(registry, name)?, |key| {
                key.disabled = !on;
                if on { Change::EnableKey } else { Change::DisableKey }
            })
            .map(drop),
    };
    done.map_err(|fault| fault.to_string())?;
    Ok(Done::Switched { name: name.to_owned(), on })
}

/// One line per issued key, and one about those of the configuration.
fn list(keys: &[Value], configured: &[String]) -> String {
    let mut lines = String::new();
    for key in keys {
        let text = |member: &str| key.get(member).and_then(Value::as_str).unwrap_or("-");
        let scopes: Vec<&str> =
            key.get("scopes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let state = if key.get("disabled").and_then(Value::as_bool) == Some(true) { "disabled" } else { "active" };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            lines,
            "{}  {}  {state}  account {}  scopes {}  limit {}  expires {}",
            text("name"),
            text("label"),
            text("account"),
            scopes.join(","),
            limit_of(key),
            text("expires_at")
        );
    }
    if lines.is_empty() {
        "There are no issued keys.\n".clone_into(&mut lines);
    }
    if !configured.is_empty() {
        let names: Vec<&str> = configured.iter().take(MOST_CONFIGURED).map(String::as_str).collect();
        let more = if configured.len() > names.len() { ", …" } else { "" };
        let _ = writeln!(lines, "Keys of the configuration ({}): {}{more}.", configured.len(), names.join(", "));
    }
    lines
}

/// `$5 daily`, or `-` without a limit.
fn limit_of(key: &Value) -> String {
    // A running gateway gives the limit as a number.
    let amount = match key.get("limit") {
        None | Some(Value::Null) => return "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(number) => number.to_string(),
    };
    let reset = key.get("limit_reset").and_then(Value::as_str).map(|reset| format!(" {reset}"));
    format!("${amount}{}", reset.unwrap_or_default())
}

/// A table with one line per key; its name stands last, so that it is never cut.
fn usage(keys: &[Value]) -> String {
    let line = |parts: [&str; 8]| {
        let [state, spent, today, month, limit, left, reset, name] = parts;
        format!("{state:<8} {spent:>10} {today:>10} {month:>10} {limit:>10} {left:>10} {reset:<8} {name}\n")
    };
    let mut lines = line(["STATE", "SPENT $", "TODAY $", "MONTH $", "LIMIT $", "LEFT $", "RESET", "KEY"]);
    for key in keys {
        let [spent, today, month, limit, left] =
            ["/usage/total", "/usage/daily", "/usage/monthly", "/effective_limit/limit", "/effective_limit/remaining"]
                .map(|path| dollars(key, path));
        let [mut state, reset, mut name] = ["/state", "/effective_limit/reset", "/name"].map(|path| shown(key, path));
        if let Some(holder) = state.strip_prefix("disabled_").map(str::to_owned) {
            "disabled".clone_into(&mut state);
            name.push_str(&format!("  (its {holder} is disabled)"));
        }
        // The limit that the key meets first may be that of its account or its team.
        let [holder, of] = ["/effective_limit/holder", "/effective_limit/name"].map(|path| shown(key, path));
        if !["-", "key"].contains(&holder.as_str()) {
            name.push_str(&format!("  (limit of the {holder} {of})"));
        }
        lines.push_str(&line([&state, &spent, &today, &month, &limit, &left, &reset, &name]));
    }
    lines
}

impl AdminClient {
    fn run(&self, action: &KeysAction) -> Result<Done, CommandOutput> {
        match action {
            KeysAction::Create(arguments) => {
                let issued = self.call(Method::POST, "/api/v1/keys", Some(Value::Object(arguments.members())))?;
                Ok(Done::Issued { name: arguments.name().to_owned(), text: text_of(&issued).to_owned() })
            }
            KeysAction::List => Ok(Done::Listed(self.keys()?, self.configured()?)),
            KeysAction::Rotate { name } => {
                let issued = self.call(Method::POST, &format!("/api/v1/keys/{}/rotate", self.hash(name)?), None)?;
                Ok(Done::Issued { name: name.clone(), text: text_of(&issued).to_owned() })
            }
            KeysAction::Disable { name } => self.switch(name, false),
            KeysAction::Enable { name } => self.switch(name, true),
            KeysAction::Revoke { name } => {
                self.call(Method::DELETE, &format!("/api/v1/keys/{}", self.hash(name)?), None)?;
                Ok(Done::Revoked { name: name.clone() })
            }
            KeysAction::Usage { name } => {
                let path = name.as_deref().map_or("/api/v1/admin/keys".to_owned(), path_of);
                let data = self.call(Method::GET, &path, None)?.get_mut("data").map(Value::take).unwrap_or_default();
                Ok(Done::Used(if let Value::Array(keys) = data { keys } else { vec![data] }))
            }
        }
    }

    fn switch(&self, name: &str, on: bool) -> Result<Done, CommandOutput> {
        let verb = if on { "enable" } else { "disable" };
        self.call(Method::POST, &format!("{}/{verb}", path_of(name)), None)?;
        Ok(Done::Switched { name: name.to_owned(), on })
    }

    /// All issued keys, page by page.
    fn keys(&self) -> Result<Vec<Value>, CommandOutput> {
        let mut keys = Vec::new();
        loop {
            let path = format!("/api/v1/keys?include_disabled=true&offset={}", keys.len());
            let mut page = self.call(Method::GET, &path, None)?;
            let page = page.get_mut("data").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            if page.is_empty() {
                return Ok(keys);
            }
            keys.extend(page);
        }
    }

    /// Names of the keys of the configuration.
    fn configured(&self) -> Result<Vec<String>, CommandOutput> {
        let page = self.call(Method::GET, "/api/v1/admin/keys", None)?;
        let keys = page.get("data").and_then(Value::as_array).into_iter().flatten();
        let configured = keys.filter(|key| key.get("issued").and_then(Value::as_bool) == Some(false));
        Ok(configured.filter_map(|key| Some(key.get("name")?.as_str()?.to_owned())).collect())
    }

    fn hash(&self, name: &str) -> Result<String, CommandOutput> {
        let keys = self.keys()?;
        let key = keys.iter().find(|key| key.get("name").and_then(Value::as_str) == Some(name));
        let hash = key.and_then(|key| key.get("hash")).and_then(Value::as_str);
        hash.map(str::to_owned).ok_or_else(|| CommandOutput::from(format!("there is no issued key '{name}'")))
    }
}

/// The page of a key.
fn path_of(name: &str) -> String {
    format!("/api/v1/admin/keys/{}", encoded(name))
}

fn text_of(issued: &Value) -> &str {
    issued.get("key").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_issued_keys_says_which_the_configuration_has() {
        let configured = ["webshop-prod".to_owned(), "support-bot".to_owned()];
        let text = "There are no issued keys.\nKeys of the configuration (2): webshop-prod, support-bot.\n";
        assert_eq!(list(&[], &configured), text);
        assert_eq!(list(&[], &[]), "There are no issued keys.\n");
    }

    #[test]
    fn usage_is_a_table_with_amounts_as_decimals() {
        let usage_of = json!({"total": 0.0000031, "daily": 0, "monthly": 12.5});
        let key = json!({"name": "ci", "state": "active", "usage": usage_of});
        let limit = json!({"holder": "team", "name": "lab", "limit": 20, "remaining": 7.5, "reset": "daily"});
        let of_team = json!({"name": "web", "state": "disabled_team", "usage": usage_of, "effective_limit": limit});
        expect_test::expect![[r#"
            STATE       SPENT $    TODAY $    MONTH $    LIMIT $     LEFT $ RESET    KEY
            active   0.00000310          0      12.50          -          - -        ci
            disabled 0.00000310          0      12.50      20.00       7.50 daily    web  (its team is disabled)  (limit of the team lab)
        "#]]
        .assert_eq(&usage(&[key, of_team]));
    }
}
