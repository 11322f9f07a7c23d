//! Conditions of `preview --what-if`, as the member `what_if` of a preview has them.

use serde_json::{Map, Value, json};

/// What can be imagined of an endpoint.
const OF_AN_ENDPOINT: [&str; 7] =
    ["price", "ttft_ms", "tokens_per_second", "failure_probability", "circuit", "in_flight", "quality"];
/// Weights of `balanced`.
const WEIGHTS: [&str; 3] = ["weights.latency", "weights.cost", "weights.quality"];

/// The conditions together; `None` if there are none.
///
/// # Errors
/// A sentence about the first one that cannot be read.
pub(super) fn conditions(written: &[String]) -> Result<Option<Value>, String> {
    let (mut conditions, mut weights, mut endpoints) = (Map::new(), Map::new(), Vec::new());
    for condition in written {
        let (name, value) = condition.split_once('=').ok_or_else(|| wrong(condition))?;
        match name {
            "objective" => drop(conditions.insert("objective".to_owned(), json!(value))),
            _ if WEIGHTS.contains(&name) => drop(weights.insert(name.replace("weights.", ""), number(value))),
            _ => endpoints.push(endpoint(condition, name, value)?),
        }
    }
    if !weights.is_empty() {
        conditions.insert("weights".to_owned(), Value::Object(weights));
    }
    if !endpoints.is_empty() {
        conditions.insert("endpoints".to_owned(), Value::Array(endpoints));
    }
    Ok((!conditions.is_empty()).then_some(Value::Object(conditions)))
}

/// `MODEL@PROVIDER.member=value`, or `PROVIDER.member=value` for all its endpoints.
fn endpoint(condition: &str, name: &str, value: &str) -> Result<Value, String> {
    let (subject, member) = name.rsplit_once('.').ok_or_else(|| wrong(condition))?;
    if subject.is_empty() || !OF_AN_ENDPOINT.contains(&member) {
        return Err(wrong(condition));
    }
    let value = match (member, value.strip_prefix('*')) {
        ("price", Some(factor)) => json!({ "factor": number(factor) }),
        _ => number(value),
    };
    let mut of = Map::from_iter([(member.to_owned(), value)]);
    let (model, provider) = subject.rsplit_once('@').map_or((None, subject), |(model, at)| (Some(model), at));
    of.extend(model.map(|model| ("model".to_owned(), json!(model))));
    of.insert("provider".to_owned(), json!(provider));
    Ok(Value::Object(of))
}

/// A number where it is one. What the gateway does not know it refuses by name.
pub(super) fn number(text: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text).map_or_else(|_| json!(text), Value::Number)
}

fn wrong(condition: &str) -> String {
    let members = OF_AN_ENDPOINT.join(", ");
    format!(
        "'{condition}' is no condition; write objective=NAME, weights.latency=NUMBER (or .cost, .quality), or MODEL@PROVIDER.MEMBER=VALUE with \
         one of {members}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &[&str]) -> Result<Option<Value>, String> {
        conditions(&written.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn conditions_become_the_member_of_a_preview() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(
            read(&[
                "objective=fastest",
                "weights.latency=0.2",
                "weights.quality=0.3",
                "a/b.c@swift.circuit=open",
                "thrift.price=*0.5"
            ]),
            Ok(Some(json!({
                "objective": "fastest", "weights": {"latency": 0.2, "quality": 0.3},
                "endpoints": [
                    {"model": "a/b.c", "provider": "swift", "circuit": "open"},
                    {"provider": "thrift", "price": {"factor": 0.5}},
                ],
            })))
        );
    }

    #[test]
    fn what_is_no_condition_is_refused_with_those_there_are() {
        for written in ["circuit", "circuit=open", "swift.colour=red", ".circuit=open"] {
            let why = read(&[written]).unwrap_err();
            assert!(why.contains(written) && why.contains("tokens_per_second"), "{why}");
        }
    }
}
