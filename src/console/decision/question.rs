//! The question of a decision as fields of the playground, so that it can be asked again under another condition.

use pointsman_dialect::percent;
use serde_json::{Map, Value, json};

use crate::api::decisions::explain_view::ExplainBody;

/// Parameters whose value stands beside its source.
const SOURCED: [&str; 6] = [
    "max_cost",
    "max_cost_per_1k_tokens",
    "preferred_max_latency",
    "preferred_min_throughput",
    "min_quality",
    "quality_unknown",
];

/// The query string of the playground for the same question, with the limit of its answer and one more field.
pub(super) fn query(body: &ExplainBody<'_>, max_tokens: Option<u32>, more: &[(&str, String)]) -> String {
    let further = further(body);
    let own = [
        ("model", Some(body.requested_model.to_owned())),
        ("objective", Some(body.objective.to_owned())),
        ("prompt_tokens", Some(body.estimate.prompt_tokens.to_string())),
        ("max_tokens", max_tokens.map(|tokens| tokens.to_string())),
        ("further", (!further.is_empty()).then(|| Value::Object(further).to_string())),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let all = own.chain(more.iter().map(|(name, value)| (*name, value.clone())));
    all.map(|(name, value)| format!("{name}={}", percent::encoded(&value))).collect::<Vec<_>>().join("&")
}

/// The parameters that have no field of their own, as members of a request.
fn further(body: &ExplainBody<'_>) -> Map<String, Value> {
    let Ok(Value::Object(mut given)) = serde_json::to_value(&body.parameters) else { return Map::new() };
    let mut request = Map::new();
    let weights = given.remove("weights").unwrap_or_default();
    if weights.get("source") != Some(&json!("default")) {
        let weight = |name: &'static str| Some((name.to_owned(), weights.get(name)?.clone()));
        let all: Map<String, Value> = ["latency", "cost", "quality"].into_iter().filter_map(weight).collect();
        request.insert("weights".to_owned(), Value::Object(all));
    }
    // A request has two places for allowed lists, and each of them restricts further.
    let mut allowed = given.remove("allowed_models").and_then(lists).unwrap_or_default().into_iter();
    request.extend(allowed.next().map(|list| ("allowed_models".to_owned(), list)));
    request.extend(allowed.next().map(|list| ("metadata".to_owned(), json!({"allowed_models": list}))));
    request.extend(given.remove("blocked_models").map(|list| ("blocked_models".to_owned(), list)));
    request.extend(given.remove("provider").map(|provider| ("provider".to_owned(), provider_of(provider))));
    let sourced = SOURCED.into_iter().filter_map(|name| {
        let value = given.remove(name)?.get_mut("value").map(Value::take)?;
        Some((name.to_owned(), value))
    });
    request.extend(sourced);
    request
}

/// What was asked of providers, with one list of providers in place of several.
fn provider_of(mut provider: Value) -> Value {
    let Some(members) = provider.as_object_mut() else { return provider };
    if let Some(only) = members.remove("only").and_then(lists) {
        let lists: Vec<Vec<Value>> = only.into_iter().filter_map(|list| list.as_array().cloned()).collect();
        let first = lists.first().cloned().unwrap_or_default();
        let common: Vec<Value> = first.into_iter().filter(|it| lists.iter().all(|list| list.contains(it))).collect();
        members.insert("only".to_owned(), Value::Array(common));
    }
    members.remove("partition");
    provider
}

fn lists(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(lists) = value { Some(lists) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::keys::HolderNames,
        api::{decisions::sentences::Sentences, route_samples::generation, samples::catalog},
    };

    #[test]
    fn the_whole_question_is_carried_into_the_playground() {
        let catalog = catalog();
        let generation = generation(&catalog);
        let (sentences, names) = (Sentences::default(), HolderNames::default());
        let body = ExplainBody::new(&generation, &catalog, &sentences, &names);
        let query = query(&body, Some(64), &[("if_price", "0.5".to_owned())]);
        let fields: Vec<(String, String)> =
            actix_web::web::Query::<Vec<(String, String)>>::from_query(&query).unwrap().into_inner();
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["model", "objective", "prompt_tokens", "max_tokens", "further", "if_price"]);
        let further: Value = serde_json::from_str(&fields[4].1).unwrap();
        assert_eq!(fields[1].1, "cheapest");
        assert_eq!((&further["max_cost"], &further["provider"]["order"]), (&json!(0.01), &json!(["acme"])));
        assert_eq!(further["allowed_models"], json!(["acme/*", "beta/medium"]));
        assert_eq!((&further["blocked_models"], further.get("weights")), (&json!(["beta/*"]), None));
    }

    #[test]
    fn several_lists_of_providers_become_their_common_part() {
        let provider = provider_of(json!({"only": [["a", "b", "c"], ["c", "b"]], "partition": "none"}));
        assert_eq!(provider, json!({"only": ["b", "c"]}));
    }
}
