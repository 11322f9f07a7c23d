//! JSON of an issued key, both ways: the body of an answer, and the members that a call may set.

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, NaiveDate, NaiveTime};
use pointsman_base::clock;
use pointsman_config::{Scope, is_account_name, is_alias_text, spend_amount};
use pointsman_dialect::shown;
use pointsman_domain::{
    Catalog, Invalid, InvalidReason, ModelPattern, Objective, ResetPeriod, Task, UnknownQuality, Usd, closest_name,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::key_view::SpendingBody;
use crate::{
    access::{
        issued::{IssuedKey, StoredLimit, quality_floor, unknown_quality},
        key_state::KeyState,
    },
    api::models::{measurements::rfc_3339, model_entry::Absent},
};

/// Longest name of a key, characters.
pub(super) const MAX_NAME: usize = 128;
/// Longest list of models, providers or aliases.
pub(super) const MAX_LIST: usize = 1_000;
/// Longest text of a list, characters.
pub(super) const MAX_TEXT: usize = 256;
/// Highest rate or count.
pub(super) const MAX_RATE: u64 = 1_000_000_000;
/// Members that client libraries send and that have no meaning here.
const IGNORED: [&str; 4] = ["include_byok_in_limit", "workspace_id", "creator_user_id", "hash"];

view! {
    /// A key that was issued while the gateway ran.
    pub(crate) struct IssuedKeyBody as "IssuedKey" {
        /// The body of `key`, whose usage is in `state`.
        pub(crate) fn new(key: IssuedKey, state: &Arc<KeyState>) {
            let reading = state.budget.read(clock::unix_millis());
            let limit = key.spend.as_ref().and_then(StoredLimit::limit);
        }

        /// Number of the key, as 16 hexadecimal digits: its address in `/keys/{hash}`. It stays when the key is rotated and
        /// says nothing about the text of the key.
        hash: String = format!("{:016x}", key.id),
        /// Name of the key, which no other key has.
        name: String = key.name,
        /// The first ten and the last four characters of the text of the key.
        label: String = key.label,
        /// Whether the key is refused because it was disabled.
        disabled: bool = key.disabled,
        #[serde(flatten)]
        spending: SpendingBody = SpendingBody::new(limit, &reading),
        /// When the key was issued. RFC 3339, UTC, with milliseconds.
        created_at: String = rfc_3339(key.created_ms),
        /// When the key was last changed or rotated. RFC 3339, UTC, with milliseconds.
        updated_at: String = rfc_3339(key.updated_ms),
        /// When the last call of the key was admitted since the gateway started; `null` without one. RFC 3339, UTC, with
        /// milliseconds.
        last_used_at: Option<String> = state.life.last_call_ms().map(rfc_3339),
        /// When the key ends; `null` if it does not. RFC 3339, UTC, with milliseconds.
        expires_at: Option<String> = key.expires_ms.map(rfc_3339),
        /// Always `null`. Client libraries require the member; the gateway has no value for it.
        creator_user_id: Absent = Absent,
        /// The client's own name for whom the key is for; `null` without one.
        external_user: Option<String> = key.external_user,
        /// Always empty. Client libraries require the member.
        workspace_id: &'static str = "",
        /// Name of the key that issued this one, or `command line`.
        created_by: String = key.created_by,
        /// Name of the account that its calls are charged to.
        account: String = key.account,
        /// What the key may do: call models, read records and figures, administer.
        #[cfg_attr(test, schemars(with = "Vec<crate::base::words::Scope>"))]
        scopes: Vec<String> = key.scopes,
        /// Most requests per minute; `null`: the default of the configuration; 0: no limit.
        requests_per_minute: Option<u32> = key.requests_per_minute,
        /// Most tokens per minute; `null`: the default of the configuration; 0: no limit.
        tokens_per_minute: Option<u32> = key.tokens_per_minute,
        /// Most requests in progress at once; `null`: the default of the configuration; 0: no limit.
        concurrency: Option<u32> = key.concurrency,
        /// Patterns of models that the key may call; empty: all.
        allowed_models: Vec<String> = key.allowed_models,
        /// Patterns of models that the key may not call.
        blocked_models: Vec<String> = key.blocked_models,
        /// Slugs of the providers that may serve the key; empty: all.
        allowed_providers: Vec<String> = key.allowed_providers,
        /// Slugs of providers that may not serve the key.
        blocked_providers: Vec<String> = key.blocked_providers,
        /// Objective of requests that name none; `null`: that of the alias or of the configuration.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::Objective>"))]
        objective: Option<String> = key.objective,
        /// Class of the tasks of requests that name none: quality counts by it, where it does.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::Task>"))]
        task: Option<String> = key.task,
        /// Whether choices of the key may be drawn at random to learn from (`routing.explore`).
        explore: bool = key.explore.unwrap_or(true),
        /// Least quality of requests whose alias names none: of the mean, or as `{"p10": 0.7}` of the lower tenth.
        #[cfg_attr(test, schemars(with = "Option<crate::api::models::parameters_view::QualityFloorBody>"))]
        min_quality: Option<Value> = key.min_quality,
        /// What `min_quality` does with endpoints of unknown quality; `null`: they are excluded.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::UnknownQuality>"))]
        quality_unknown: Option<String> = key.quality_unknown,
        /// Names of models that only this key knows, each with the model or alias that it stands for.
        aliases: BTreeMap<String, String> = key.aliases,
    }
}

/// Sets the members of a call in `key`. `null` clears a member. The account of an existing key stays.
///
/// # Errors
/// 400 that names the member.
pub(crate) fn set_members(
    key: &mut IssuedKey,
    members: &Map<String, Value>,
    is_new: bool,
    catalog: &Catalog,
) -> Result<(), Invalid> {
    for (name, value) in members {
        match name.as_str() {
            "name" => key.name = label(name, value, MAX_NAME)?,
            "account" if is_new => key.account = account_name(name, value)?,
            "disabled" => key.disabled = value.as_bool().ok_or_else(|| wrong(name, "true or false"))?,
            "scopes" => key.scopes = scopes(name, value)?,
            "expires_at" => key.expires_ms = expiry(name, value)?,
            "requests_per_minute" => key.requests_per_minute = rate(name, value)?,
            "tokens_per_minute" => key.tokens_per_minute = rate(name, value)?,
            "concurrency" => key.concurrency = rate(name, value)?,
            "allowed_models" => key.allowed_models = patterns(name, value)?,
            "blocked_models" => key.blocked_models = patterns(name, value)?,
            "allowed_providers" => key.allowed_providers = texts(name, value)?,
            "blocked_providers" => key.blocked_providers = texts(name, value)?,
            "objective" => key.objective = objective(name, value)?,
            "task" => key.task = task(name, value)?,
            "explore" if value.is_null() => key.explore = None,
            "explore" => key.explore = Some(value.as_bool().ok_or_else(|| wrong(name, "true, false or null"))?),
            "min_quality" => key.min_quality = min_quality(name, value)?,
            "quality_unknown" => key.quality_unknown = quality_unknown(name, value)?,
            "aliases" => key.aliases = aliases(name, value, catalog)?,
            "external_user" if value.is_null() => key.external_user = None,
            "external_user" => key.external_user = Some(label(name, value, MAX_TEXT)?),
            "limit" | "limit_reset" => {}
            _ if IGNORED.contains(&name.as_str()) => {}
            "account" => return Err(wrong(name, "left out: a key stays in its account")),
            _ => return Err(wrong(name, "left out: there is no such member")),
        }
    }
    key.spend = spend_limit(key.spend.take(), members)?;
    Ok(())
}

/// The spending limit after a call that may set `limit`, `limit_reset` or both.
///
/// # Errors
/// 400 that names the member.
pub(crate) fn spend_limit(
    before: Option<StoredLimit>,
    members: &Map<String, Value>,
) -> Result<Option<StoredLimit>, Invalid> {
    let reset = match members.get("limit_reset") {
        None => before.as_ref().and_then(|limit| limit.reset.clone()),
        Some(Value::Null) => None,
        Some(value) => {
            let period = value.as_str().and_then(ResetPeriod::parse);
            let names = ResetPeriod::ALL.map(ResetPeriod::as_str);
            let period = period.ok_or_else(|| none_of("limit_reset", value, &names))?;
            Some(period.as_str().to_owned())
        }
    };
    let amount = match members.get("limit") {
        None => before.map(|limit| limit.amount),
        Some(Value::Null) => None,
        Some(value) => Some(amount("limit", value)?.to_string()),
    };
    if amount.is_none() && members.get("limit_reset").is_some_and(|reset| !reset.is_null()) {
        return Err(wrong("limit_reset", "beside a limit"));
    }
    Ok(amount.map(|amount| StoredLimit { amount, reset }))
}

/// Dollars, from a number or a decimal string.
fn amount(name: &str, value: &Value) -> Result<Usd, Invalid> {
    let amount = match value {
        Value::Number(number) => {
            Usd::from_number(&number.to_string()).and_then(|amount| spend_amount(&amount.to_string()))
        }
        Value::String(text) => spend_amount(text),
        _ => None,
    };
    amount.ok_or_else(|| wrong(name, "US dollars from 0 to 10^12, or null for no limit"))
}

/// A limit per minute or of requests in progress; `null` for the default of the configuration, 0 for no limit.
pub(crate) fn rate(name: &str, value: &Value) -> Result<Option<u32>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    let rate = value.as_u64().filter(|rate| *rate <= MAX_RATE).and_then(|rate| u32::try_from(rate).ok());
    rate.map(Some).ok_or_else(|| wrong(name, "a whole number from 0 (no limit) to 10^9, or null for the default"))
}

/// The name of an account or a team.
pub(crate) fn account_name(name: &str, value: &Value) -> Result<String, Invalid> {
    let text = value.as_str().filter(|text| is_account_name(text));
    text.map(str::to_owned).ok_or_else(|| wrong(name, "a name of 1 to 128 visible characters"))
}

fn label(name: &str, value: &Value, most: usize) -> Result<String, Invalid> {
    let fits =
        |text: &&str| !text.trim().is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control);
    let text = value.as_str().filter(fits);
    text.map(str::to_owned).ok_or_else(|| wrong(name, format!("a text of 1 to {most} characters")))
}

fn scopes(name: &str, value: &Value) -> Result<Vec<String>, Invalid> {
    let mut scopes = Vec::new();
    let allowed = Scope::ALL.map(Scope::as_str);
    let no_list = || wrong(name, format!("a list of {}", allowed.join(", "))).allowing(allowed);
    for item in value.as_array().filter(|items| !items.is_empty()).ok_or_else(no_list)? {
        let scope = Scope::parse(item.as_str().ok_or_else(no_list)?);
        let scope = scope.ok_or_else(|| none_of(name, item, &allowed))?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    Ok(scopes.into_iter().map(|scope| scope.as_str().to_owned()).collect())
}

fn expiry(name: &str, value: &Value) -> Result<Option<i64>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    let text = value.as_str().unwrap_or_default();
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp_millis()).ok();
    let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN).and_utc().timestamp_millis();
    let time = time.or_else(|| text.parse().ok().map(midnight)).filter(|time| *time > clock::unix_millis());
    time.map(Some).ok_or_else(|| wrong(name, "a time in the future such as 2027-12-31T12:00:00Z, or null"))
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, Invalid> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let items = value.as_array().filter(|items| items.len() <= MAX_LIST);
    let texts = items.and_then(|items| items.iter().map(|item| label(name, item, MAX_TEXT).ok()).collect());
    texts.ok_or_else(|| wrong(name, format!("a list of at most {MAX_LIST} texts")))
}

fn patterns(name: &str, value: &Value) -> Result<Vec<String>, Invalid> {
    let texts = texts(name, value)?;
    match texts.iter().find(|text| text.parse::<ModelPattern>().is_err()) {
        Some(text) => Err(wrong(name, format!("model ids or patterns ending in '*', and '{text}' is neither"))),
        None => Ok(texts),
    }
}

fn objective(name: &str, value: &Value) -> Result<Option<String>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    let objective = value.as_str().and_then(|text| text.parse::<Objective>().ok());
    let objective = objective.ok_or_else(|| none_of(name, value, &Objective::ALL.map(Objective::as_str)))?;
    Ok(Some(objective.as_str().to_owned()))
}

fn task(name: &str, value: &Value) -> Result<Option<String>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    let task = value.as_str().and_then(Task::named);
    let task = task.ok_or_else(|| none_of(name, value, &Task::ALL.map(Task::as_str)))?;
    Ok(Some(task.as_str().to_owned()))
}

fn min_quality(name: &str, value: &Value) -> Result<Option<Value>, Invalid> {
    let is_meant = value.is_null() || quality_floor(value).is_some();
    let floor = is_meant.then(|| Some(value.clone()).filter(|value| !value.is_null()));
    floor.ok_or_else(|| wrong(name, "a number from 0 to 1 (of the mean), an object such as {\"p10\": 0.7}, or null"))
}

fn quality_unknown(name: &str, value: &Value) -> Result<Option<String>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    let unknown = value.as_str().and_then(unknown_quality);
    let unknown = unknown.ok_or_else(|| none_of(name, value, &UnknownQuality::ALL.map(UnknownQuality::as_str)))?;
    Ok(Some(unknown.as_str().to_owned()))
}

fn aliases(name: &str, value: &Value, catalog: &Catalog) -> Result<BTreeMap<String, String>, Invalid> {
    if value.is_null() {
        return Ok(BTreeMap::new());
    }
    let wrong = || wrong(name, format!("an object of at most {MAX_LIST} names, each with a model id or alias"));
    let members = value.as_object().filter(|members| members.len() <= MAX_LIST).ok_or_else(wrong)?;
    let mut aliases = BTreeMap::new();
    for (alias, target) in members {
        let target = target.as_str().filter(|target| is_alias_text(target) && is_alias_text(alias));
        let target = target.ok_or_else(wrong)?;
        if !catalog.knows(target, true) {
            let known = catalog.models.iter().map(|model| model.id.as_str());
            let known = known.chain(catalog.aliases.iter().map(|alias| alias.id.as_str()));
            let near = closest_name(target, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            let message = format!("'{name}': '{target}' is neither a model nor an alias of this catalog{near}");
            return Err(Invalid::field(InvalidReason::InvalidValue, format!("{name}.{alias}"), message));
        }
        aliases.insert(alias.clone(), target.to_owned());
    }
    Ok(aliases)
}

fn none_of(name: &str, value: &Value, allowed: &[&str]) -> Invalid {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Invalid::none_of(name, &shown(&text), allowed)
}

pub(crate) fn wrong(name: &str, allowed: impl std::fmt::Display) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, name, format!("'{name}' must be {allowed}."))
}
