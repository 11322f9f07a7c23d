//! Values of query parameters, and bodies of questions about the routing, that the documents of both listeners describe: the
//! server takes what a schema takes, answers the rest with a 400, and breaks at nothing.

use std::collections::BTreeSet;

use actix_web::http::Method;
use chrono::{DateTime, NaiveDate};
use serde_json::{Value, json};

use crate::{
    openapi::{Both, Described, both},
    openapi_requests::{Case, routing},
    schema,
};

/// Texts that are tried as the value of every parameter.
const TEXTS: [&str; 22] = [
    "",
    " ",
    "x",
    "-1",
    "0",
    "1",
    "1.5",
    "15",
    "many",
    "true",
    "false",
    "yes",
    "null",
    "2026-01-01",
    "2026-13-01",
    "2026-01-01T00:00:00Z",
    "1700000000000",
    "99999999999999999999",
    "completed,failed",
    ",",
    "\u{1}",
    "é",
];

/// The same, and words and bounds of the schema.
fn texts_for(schema: &Value) -> BTreeSet<String> {
    let mut texts: BTreeSet<String> = TEXTS.into_iter().map(str::to_owned).collect();
    texts.extend(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    for bound in ["minimum", "maximum"].into_iter().filter_map(|name| schema[name].as_i64()) {
        texts.extend([bound - 1, bound, bound + 1].map(|number| number.to_string()));
    }
    texts
}

/// Parameters whose value must also be one that exists or suits others: a key, a page, a time within what is kept.
const OF_MEANING: [&str; 15] = [
    "account",
    "after",
    "alias",
    "compare_to",
    "group_by",
    "key",
    "model",
    "objective",
    "owner",
    "provider",
    "since",
    "task",
    "team",
    "until",
    "why_not",
];

/// Whether a text fits the schema of a parameter. In a query everything is text.
fn fits(text: &str, schema: &Value, document: &Value) -> bool {
    if schema["$ref"].as_str().is_some_and(|name| name.ends_with("/Time")) {
        let millis = text.parse().is_ok_and(|millis: u64| millis <= 253_402_300_799_999);
        return millis || DateTime::parse_from_rfc3339(text).is_ok() || text.parse::<NaiveDate>().is_ok();
    }
    let read = serde_json::from_str(text).ok().filter(|value: &Value| value.is_number() || value.is_boolean());
    [Some(json!(text)), read].into_iter().flatten().any(|value| {
        let step = schema["multipleOf"].as_i64().unwrap_or(1);
        let is_step = value.as_i64().is_none_or(|number| number % step == 0);
        is_step && schema::fault(&value, schema, document).is_none()
    })
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[actix_web::test]
async fn any_value_of_any_parameter_is_taken_and_refused_as_its_schema_says() {
    let Both { inference, admin, .. } = &both().await;
    let mut wrong = Vec::new();
    for described in [inference, admin] {
        let Described { document, .. } = described;
        for (path, item) in document["paths"].as_object().unwrap() {
            let base = item.get("servers").unwrap_or(&document["servers"])[0]["url"].as_str().unwrap();
            let parameters = item["get"]["parameters"].as_array().cloned().unwrap_or_default();
            let in_query = |parameter: &&Value| parameter["in"] == "query";
            if path.contains('{') || !parameters.iter().any(|parameter| in_query(&parameter)) {
                continue;
            }
            for parameter in parameters.iter().filter(in_query) {
                let name = parameter["name"].as_str().unwrap();
                let others: String = parameters
                    .iter()
                    .filter(|other| in_query(other) && other["required"] == true && other["name"] != name)
                    .map(|other| format!("&{}=x", other["name"].as_str().unwrap()))
                    .collect();
                for text in texts_for(&parameter["schema"]) {
                    let good = fits(&text, &parameter["schema"], document);
                    let address = format!("{}{path}?{name}={}{others}", base.trim_end_matches('/'), encoded(&text));
                    let reply = described.call(Method::GET, &address, None).await;
                    // An empty value counts as absent, as forms of browsers send it.
                    let is_absent = text.trim_matches([' ', ',']).is_empty();
                    let is_open = is_absent || (good && OF_MEANING.contains(&name));
                    if reply.status >= 500 || (!is_open && (reply.status != 400) != good) {
                        wrong.push(format!(
                            "{path}?{name}={text:?}: schema {good}, server {} {}",
                            reply.status,
                            reply.text()
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asks `path` with changes of a body that fits the schema of this name. Whether what it asks about exists is no question of its
/// form.
async fn check(described: &Described, path: &str, name: &str, base: &Value, cases: Vec<Case>) {
    let schema = &described.document["components"]["schemas"][name];
    assert!(schema.is_object(), "no schema {name}");
    let mut wrong = Vec::new();
    for (member, value, good) in cases {
        let mut body = base.clone();
        body[member] = value;
        let fault = schema::fault(&body, schema, &described.document);
        let reply = described.call(Method::POST, path, Some(&body)).await;
        if reply.status >= 500 || (fault.is_none(), reply.status != 400) != (good, good) {
            wrong.push(format!("{body}: schema {fault:?}, server {} {}", reply.status, reply.text()));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

/// Values of `why_not`.
fn why_not() -> Vec<Case> {
    let cases = [
        (json!("sim-swift"), true),
        (json!("meadow/small@sim-swift"), true),
        (json!("nobody"), true),
        (json!(" meadow/small "), true),
        (json!("n".repeat(256)), true),
        (Value::Null, true),
        (json!(""), false),
        (json!("  "), false),
        (json!("a\nb"), false),
        (json!("n".repeat(257)), false),
        (json!(7), false),
        (json!(["meadow/small"]), false),
        (json!({"model": "meadow/small"}), false),
    ];
    cases.map(|(value, good)| ("why_not", value, good)).into()
}

#[actix_web::test]
async fn questions_about_the_routing_are_taken_and_refused_as_their_schemas_say() {
    let Both { inference, .. } = &both().await;
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let others = vec![
        ("model", Value::Null, true),
        ("messages", json!([]), false),
        ("messages", json!("Hello"), false),
        ("messages", Value::Null, true),
        ("top_n", json!(0), false),
        ("top_n", json!(101), false),
        ("top_n", json!("5"), true),
        ("top_n", json!("many"), false),
        ("route_seed", json!(7), true),
        ("route_seed", json!("7"), true),
        ("route_seed", json!(-1), false),
        ("what_if", Value::Null, true),
        ("what_if", json!(7), false),
        ("what_if", json!([]), false),
    ];
    let preview = [routing(), why_not(), others].concat();
    check(
        inference,
        "/api/v1/route/preview",
        "PreviewRequest",
        &json!({"model": "meadow/small", "messages": messages}),
        preview,
    )
    .await;
    let asked = json!({"model": "meadow/small", "messages": messages, "max_tokens": 5});
    let answered = inference.call(Method::POST, "/api/v1/chat/completions", Some(&asked)).await.expect(200);
    let explained = [
        why_not(),
        vec![
            ("generation_id", json!("gen-unknown"), true),
            ("generation_id", json!(""), false),
            ("generation_id", json!(7), false),
            ("generation_id", Value::Null, false),
        ],
    ];
    let by_id = vec![("why_not", Value::Null, true)];
    check(inference, "/api/v1/route/explain", "ExplainRequest", &json!({"id": answered["id"]}), by_id).await;
    let base = json!({"generation_id": answered["id"]});
    check(inference, "/api/v1/route/explain", "ExplainRequest", &base, explained.concat()).await;
}

/// Refused and taken parameters of queries, as their schemas say. In a query everything is text.
#[actix_web::test]
async fn parameters_of_queries_are_taken_and_refused_as_their_schemas_say() {
    let Both { admin, .. } = &both().await;
    let cases = [
        ("/api/v1/admin/series", "span", "24h", true),
        ("/api/v1/admin/series", "span", "7d", false),
        ("/api/v1/admin/series", "by", "provider", true),
        ("/api/v1/admin/series", "by", "colour", false),
        ("/api/v1/admin/generations", "limit", "1", true),
        ("/api/v1/admin/generations", "limit", "0", false),
        ("/api/v1/admin/generations", "limit", "many", false),
        ("/api/v1/admin/generations", "rescued", "true", true),
        ("/api/v1/admin/generations", "rescued", "1", false),
        ("/api/v1/admin/generations", "missed_target", "maybe", false),
        ("/api/v1/admin/generations", "min_ttft_ms", "0", true),
        ("/api/v1/admin/generations", "min_ttft_ms", "-1", false),
        ("/api/v1/admin/generations", "min_cost", "0.001", true),
        ("/api/v1/admin/generations", "min_cost", "-1", false),
        ("/api/v1/admin/generations", "owner", "0123456789abcdef", true),
        ("/api/v1/admin/generations", "owner", "acme", false),
        ("/api/v1/admin/activity", "group", "hour", true),
        ("/api/v1/admin/activity", "group", "week", false),
        ("/api/v1/admin/activity", "tz_offset_minutes", "330", true),
        ("/api/v1/admin/activity", "tz_offset_minutes", "east", false),
        ("/api/v1/keys", "offset", "0", true),
        ("/api/v1/keys", "offset", "-1", false),
        ("/api/v1/keys", "include_disabled", "true", true),
        ("/api/v1/keys", "include_disabled", "yes", false),
    ];
    for (path, name, text, good) in cases {
        let parameters = admin.document["paths"][path]["get"]["parameters"].as_array().unwrap();
        let parameter = parameters.iter().find(|parameter| parameter["name"] == name).expect("it is described");
        let value = match parameter["schema"]["type"].as_str() {
            Some("string") => json!(text),
            _ => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        };
        let fault = schema::fault(&value, &parameter["schema"], &admin.document);
        let reply = admin.call(Method::GET, &format!("{path}?{name}={text}"), None).await;
        let verdicts = (fault.is_none(), reply.status == 200);
        assert_eq!(verdicts, (good, good), "{path}?{name}={text}: {fault:?}, {} {}", reply.status, reply.text());
    }
    for path in
        ["series", "generations", "activity"].map(|page| format!("/api/v1/admin/{page}?a_parameter_of_tomorrow=1"))
    {
        assert_eq!(admin.call(Method::GET, &path, None).await.status, 400, "{path}");
    }
}
