//! One operation of a document: a call of a path, its parameters, its body and its answers.

use serde_json::{Map, Value, json};

/// How an operation is called, and what answers it.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// Addresses that the path stands below, where they are not those of the document.
    pub(super) servers: &'static [&'static str],
    members: Map<String, Value>,
    headers: Headers,
}

/// Which headers the answers of an operation have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    Plain,
    /// A generation whose answer has no place for its cost.
    UnpricedGeneration,
    /// A generation whose answer names its cost.
    PricedGeneration,
    /// A count of tokens.
    Count,
    /// A page of records that is no JSON.
    Page,
}

/// Headers of errors that a later call may not meet again.
const RETRY: [&str; 3] = ["retry-after", "retry-after-ms", "x-should-retry"];
const ROUTE: [&str; 12] = [
    "x-generation-id",
    "x-route-model",
    "x-route-provider",
    "x-route-router",
    "x-route-reason",
    "x-route-attempts",
    "x-route-latency-ms",
    "x-route-overhead-ms",
    "x-route-dropped-parameters",
    "x-route-emulated-parameters",
    "x-route-ignored",
    "x-route-usage",
];
const LIMITS: [&str; 6] = [
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
];
const EXCEEDED: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
const PAGE: [&str; 3] = ["x-next-cursor", "x-unreadable-records", "x-damaged-blocks"];

impl Headers {
    /// Those of a success and those of an error, beside the id of the request.
    fn names(self) -> [Vec<&'static str>; 2] {
        let timing = "server-timing";
        match self {
            Headers::Plain => [vec![], RETRY.to_vec()],
            Headers::Page => [PAGE.to_vec(), RETRY.to_vec()],
            Headers::Count => [vec!["x-route-usage"], [&RETRY[..], &LIMITS, &EXCEEDED].concat()],
            Headers::PricedGeneration | Headers::UnpricedGeneration => {
                let cost: &[&str] = if self == Headers::UnpricedGeneration { &["x-route-cost"] } else { &[] };
                [
                    [&ROUTE[..], &[timing], cost, &LIMITS].concat(),
                    [&["x-generation-id", timing][..], &RETRY, &LIMITS, &EXCEEDED].concat(),
                ]
            }
        }
    }
}

pub(super) fn get(path: &str, id: &str, tag: &str, summary: &str) -> Operation {
    Operation::new("get", path, id, tag, summary)
}

pub(super) fn post(path: &str, id: &str, tag: &str, summary: &str) -> Operation {
    Operation::new("post", path, id, tag, summary)
}

pub(super) fn put(path: &str, id: &str, tag: &str, summary: &str) -> Operation {
    Operation::new("put", path, id, tag, summary)
}

pub(super) fn delete(path: &str, id: &str, tag: &str, summary: &str) -> Operation {
    Operation::new("delete", path, id, tag, summary)
}

impl Operation {
    pub(super) fn new(method: &'static str, path: &str, id: &str, tag: &str, summary: &str) -> Operation {
        let members = json!({ "operationId": id, "tags": [tag], "summary": summary, "responses": {} });
        let Value::Object(members) = members else { unreachable!() };
        let operation = Operation { method, path: path.to_owned(), servers: &[], members, headers: Headers::Plain };
        let refused = "The request is refused or has failed; `error.message` says why and what to do.";
        operation.answers_in("default", refused, "application/json", reference("Error"))
    }

    /// Needs no key.
    pub(super) fn open(self) -> Operation {
        self.with("security", json!([{}, { "bearer": [] }]))
    }

    pub(super) fn below(mut self, servers: &'static [&'static str]) -> Operation {
        self.servers = servers;
        self
    }

    pub(super) fn with(mut self, member: &str, value: Value) -> Operation {
        self.members.insert(member.to_owned(), value);
        self
    }

    pub(super) fn parameters(self, parameters: impl IntoIterator<Item = Value>) -> Operation {
        self.with("parameters", parameters.into_iter().collect())
    }

    /// The name in the path.
    pub(super) fn by_name(self) -> Operation {
        self.parameters([in_path("name", "Name.", text())])
    }

    pub(super) fn takes(self, schema: &str) -> Operation {
        let content = json!({ "application/json": { "schema": reference(schema) } });
        self.with("requestBody", json!({ "required": true, "content": content }))
    }

    pub(super) fn headers(mut self, headers: Headers) -> Operation {
        self.headers = headers;
        self
    }

    /// 200 with a JSON body.
    pub(super) fn answers(self, schema: &str) -> Operation {
        self.answers_with("200", schema)
    }

    pub(super) fn answers_with(self, status: &str, schema: &str) -> Operation {
        self.answers_in(status, "Success.", "application/json", reference(schema))
    }

    pub(super) fn answers_text(self, kind: &str) -> Operation {
        self.answers_in("200", "Success.", kind, json!({ "type": "string" }))
    }

    /// The same answer as server-sent events, for clients that ask for a stream. `end` says how it ends.
    pub(super) fn streams(self, end: &str) -> Operation {
        let events = "Server-sent events, one JSON object per `data:` line; comments keep the connection open.";
        let schema = json!({ "type": "string", "description": format!("{events}{end}") });
        self.answers_in("200", "Success.", "text/event-stream", schema)
    }

    /// One of several bodies, for clients of different APIs.
    pub(super) fn answers_any(self, status: &str, schemas: &[&str]) -> Operation {
        let any: Vec<Value> = schemas.iter().map(|name| reference(name)).collect();
        self.answers_in(status, "Success.", "application/json", json!({ "anyOf": any }))
    }

    /// Adds an answer, or another form of one.
    pub(super) fn answers_in(mut self, status: &str, description: &str, kind: &str, schema: Value) -> Operation {
        let answer = &mut self.members["responses"][status];
        if answer.is_null() {
            *answer = json!({ "description": description, "content": {} });
        }
        answer["content"][kind] = json!({ "schema": schema });
        self
    }

    /// The operation as JSON.
    pub(super) fn into_json(mut self) -> Value {
        let [success, error] = self.headers.names();
        for (status, answer) in self.members["responses"].as_object_mut().unwrap() {
            let names = if status == "default" { &error } else { &success };
            let names = ["x-request-id"].iter().chain(names);
            let headers =
                names.map(|name| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") })));
            answer["headers"] = headers.collect();
        }
        Value::Object(self.members)
    }
}

/// A reference to a schema.
pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// An optional parameter of the query.
pub(super) fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "description": description, "required": false, "schema": schema })
}

/// A parameter without which there is no answer.
pub(super) fn required(mut parameter: Value) -> Value {
    parameter["required"] = true.into();
    parameter
}

pub(super) fn in_header(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "string" });
    json!({ "name": name, "in": "header", "description": description, "required": false, "schema": schema })
}

/// A parameter that stands in the path.
pub(super) fn in_path(name: &str, description: &str, schema: Value) -> Value {
    required(json!({ "name": name, "in": "path", "description": description, "schema": schema }))
}

/// A text that is not empty.
pub(super) fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

pub(super) fn integer(least: i64, most: i64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

pub(super) fn number(least: i64, most: i64) -> Value {
    json!({ "type": "number", "minimum": least, "maximum": most })
}
