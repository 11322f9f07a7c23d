//! What a client sends as a rating. There is no place for text: an unknown member is refused and named, its value is not repeated.

use std::collections::BTreeMap;

use pointsman_domain::{Invalid, InvalidReason, RatingSource};
use pointsman_ledger::ratings::{ACCEPTED, Rating};
use pointsman_routing::quality::UNIT;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Members of a rating.
const MEMBERS: [&str; 5] = ["name", "value", "weight", "source", "idempotency_key"];
/// The member that names the answer of a rating in a batch.
pub(super) const GENERATION: &str = "generation_id";
/// Longest name, label and idempotency key, in characters.
const LONGEST_NAME: usize = 32;
const LONGEST_KEY: usize = 128;

/// A rating as the description of the API shows it.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(inline, description = "", deny_unknown_fields)]
#[expect(dead_code, reason = "members are read one by one, so that nothing of a wrong one is repeated")]
pub(crate) struct RatingRequest {
    /// What it says: 1 to 32 letters, digits, `-` and `_`. Only ratings called `accepted` count.
    #[schemars(default)]
    name: Option<String>,
    /// Whether the answer was acceptable: `true`, `false`, how much of it, 0 to 1, or a label of `feedback.labels`.
    #[schemars(extend("type" = ["boolean", "number", "string"]))]
    value: Value,
    /// What it counts for: above 0, at most 1, which is the default.
    #[schemars(default)]
    weight: Option<f64>,
    /// Source of the rating; `user` by default. Ratings of judges are kept apart.
    #[schemars(default, extend("enum" = ["user", "program", "judge"]))]
    source: Option<String>,
    /// A further call with the same key changes nothing. At most 128 characters; only a digest of it is kept.
    #[schemars(default)]
    idempotency_key: Option<String>,
}

/// The same of a rating in a batch.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(inline, description = "")]
#[expect(dead_code, reason = "as in `RatingRequest`")]
pub(crate) struct BatchRatingRequest {
    /// Id of the generation that is rated.
    generation_id: String,
    #[serde(flatten)]
    rating: RatingRequest,
}

/// A rating as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RatingBody {
    pub(super) generation: Option<String>,
    name: Box<str>,
    source: RatingSource,
    value: i64,
    weight: i64,
    idempotency_key: Option<String>,
}

impl RatingBody {
    /// Reads a rating at this place of the body, which is empty for the whole of it. A rating of a batch names its answer.
    ///
    /// # Errors
    /// 400 that names the member.
    pub(super) fn read(rating: &Value, at: &str, labels: &BTreeMap<String, f64>) -> Result<RatingBody, Invalid> {
        let Some(members) = rating.as_object() else {
            let message = "A rating must be a JSON object, such as {\"value\": true}.";
            let param = Some(at.to_owned()).filter(|at| !at.is_empty());
            return Err(Invalid { param, ..Invalid::body(InvalidReason::InvalidType, message) });
        };
        let members = Members { members, at };
        members.refuse_others()?;
        Ok(RatingBody {
            generation: if at.is_empty() { None } else { Some(members.generation()?) },
            name: members.name()?,
            source: members.source()?,
            value: members.value(labels)?,
            weight: members.weight()?,
            idempotency_key: members.idempotency_key()?,
        })
    }

    /// The rating that a user rejects an answer.
    pub(super) fn rejection() -> RatingBody {
        let (name, source) = (ACCEPTED.into(), RatingSource::User);
        RatingBody { generation: None, name, source, value: 0, weight: UNIT, idempotency_key: None }
    }

    /// The rating of an account at a time.
    pub(super) fn rating(&self, rater: u64, rated_ms: i64) -> Rating {
        let digest = |key| Sha256::new().chain_update(rater.to_be_bytes()).chain_update(key).finalize();
        Rating {
            name: self.name.clone(),
            source: self.source,
            rater,
            rated_ms,
            value: self.value,
            weight: self.weight,
            is_withdrawn: false,
            token: self.idempotency_key.as_ref().and_then(|key| digest(key).first_chunk().copied()),
        }
    }
}

/// The members of one rating.
struct Members<'a> {
    members: &'a Map<String, Value>,
    at: &'a str,
}

impl<'a> Members<'a> {
    fn path(&self, member: &str) -> String {
        if self.at.is_empty() { member.to_owned() } else { format!("{}.{member}", self.at) }
    }

    fn wrong(&self, member: &str, allowed: &str) -> Invalid {
        let path = self.path(member);
        let message = format!("'{path}' must be {allowed}.");
        Invalid::field(InvalidReason::InvalidValue, path, message)
    }

    fn get(&self, member: &str) -> Option<&'a Value> {
        self.members.get(member).filter(|value| !value.is_null())
    }

    fn refuse_others(&self) -> Result<(), Invalid> {
        let is_known = |name: &str| MEMBERS.contains(&name) || (name == GENERATION && !self.at.is_empty());
        let Some(other) = self.members.keys().find(|name| !is_known(name)) else { return Ok(()) };
        // A name may be a text, too.
        let shown = if is_name(other) { other.as_str() } else { "a member" };
        let message = format!(
            "A rating has no place for '{shown}': it consists of {}, and free text is not kept. Leave it out.",
            MEMBERS.join(", ")
        );
        let path = if is_name(other) { self.path(other) } else { self.at.to_owned() };
        let param = Some(path).filter(|path| !path.is_empty());
        let invalid = Invalid { param, ..Invalid::body(InvalidReason::UnsupportedParameter, message) };
        Err(invalid.allowing(MEMBERS))
    }

    fn generation(&self) -> Result<String, Invalid> {
        match self.get(GENERATION) {
            Some(Value::String(id)) => Ok(id.clone()),
            Some(_) => Err(self.wrong(GENERATION, "the id of a generation")),
            None => {
                let path = self.path(GENERATION);
                let message = format!("'{path}' is required: the id of the generation that is rated.");
                Err(Invalid::field(InvalidReason::MissingField, path, message))
            }
        }
    }

    fn name(&self) -> Result<Box<str>, Invalid> {
        match self.get("name") {
            None => Ok(ACCEPTED.into()),
            Some(Value::String(name)) if is_name(name) => Ok(name.as_str().into()),
            Some(_) => Err(self.wrong("name", "1 to 32 letters, digits, '-' and '_', such as \"accepted\"")),
        }
    }

    fn source(&self) -> Result<RatingSource, Invalid> {
        let Some(source) = self.get("source") else { return Ok(RatingSource::User) };
        source.as_str().and_then(RatingSource::named).ok_or_else(|| {
            let allowed = RatingSource::ALL.map(RatingSource::as_str);
            self.wrong("source", &format!("one of {}", allowed.join(", "))).allowing(allowed)
        })
    }

    fn value(&self, labels: &BTreeMap<String, f64>) -> Result<i64, Invalid> {
        let number = match self.get("value") {
            Some(Value::Bool(is_accepted)) => Some(f64::from(u8::from(*is_accepted))),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(label)) => labels.get(label).copied(),
            Some(_) => None,
            None => {
                let path = self.path("value");
                let message = format!("'{path}' is required: true, false or a number from 0 to 1.");
                return Err(Invalid::field(InvalidReason::MissingField, path, message));
            }
        };
        number.and_then(|number| units(number, 0)).ok_or_else(|| {
            let allowed = "true, false, a number from 0 to 1, or a label of feedback.labels";
            self.wrong("value", allowed).allowing(labels.keys())
        })
    }

    fn weight(&self) -> Result<i64, Invalid> {
        let Some(weight) = self.get("weight") else { return Ok(UNIT) };
        weight
            .as_f64()
            .and_then(|weight| units(weight, 1))
            .ok_or_else(|| self.wrong("weight", "a number above 0, at most 1"))
    }

    fn idempotency_key(&self) -> Result<Option<String>, Invalid> {
        match self.get("idempotency_key") {
            None => Ok(None),
            Some(Value::String(key)) if (1..=LONGEST_KEY).contains(&key.len()) => Ok(Some(key.clone())),
            Some(_) => Err(self.wrong("idempotency_key", "1 to 128 characters")),
        }
    }
}

/// A number from 0 to 1 in whole units, of which there must be so many.
fn units(number: f64, least: i64) -> Option<i64> {
    let units = (number * UNIT as f64).round() as i64;
    ((0.0..=1.0).contains(&number) && units >= least).then_some(units)
}

/// Whether a text is a name of ours: short, and of few characters.
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(rating: &Value) -> Result<RatingBody, Invalid> {
        RatingBody::read(rating, "", &BTreeMap::from([("resolved".to_owned(), 1.0), ("half".to_owned(), 0.5)]))
    }

    #[test]
    fn a_value_is_a_truth_a_number_or_a_label_and_everything_else_has_a_default() {
        for (value, units) in [(json!(true), UNIT), (json!(0), 0), (json!(0.25), UNIT / 4), (json!("half"), UNIT / 2)] {
            let read = read(&json!({"value": value})).unwrap();
            assert_eq!(
                (read.value, read.weight, &*read.name, read.source),
                (units, UNIT, ACCEPTED, RatingSource::User)
            );
        }
    }

    #[test]
    fn a_wrong_member_is_named_and_what_it_says_is_not_repeated() {
        let secret = "the patient said";
        for (rating, param) in [
            (json!({"value": secret}), "value"),
            (json!({"value": 1.5}), "value"),
            (json!({"value": -0.1}), "value"),
            (json!({"value": [secret]}), "value"),
            (json!({"name": "accepted"}), "value"),
            (json!({"value": 1, "name": secret}), "name"),
            (json!({"value": 1, "source": secret}), "source"),
            (json!({"value": 1, "weight": 0}), "weight"),
            (json!({"value": 1, "weight": 1e-12}), "weight"),
            (json!({"value": 1, "weight": 2}), "weight"),
            (json!({"value": 1, "idempotency_key": ""}), "idempotency_key"),
            (json!({"value": 1, "comment": secret}), "comment"),
            (json!({"value": 1, "generation_id": "gen-1"}), "generation_id"),
            (json!({"value": 1, secret: 1}), ""),
        ] {
            let invalid = read(&rating).unwrap_err();
            assert_eq!(invalid.param.as_deref().unwrap_or_default(), param, "{rating}");
            assert!(!invalid.message.contains(secret), "{}", invalid.message);
        }
        assert!(read(&json!([secret])).is_err());
    }
}
