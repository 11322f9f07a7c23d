//! Makes `inference.json` and `admin.json` of the operations, the schemas and the headers. They stand in the repository,
//! so that neither a build nor the server makes them: the test below fails where they differ, and
//! `UPDATE_EXPECT=1 cargo test --lib openapi` writes them.

use std::collections::BTreeMap;

use expect_test::{ExpectFile, expect_file};
use serde_json::{Map, Value, json};

use super::{headers::HEADERS, operation::Operation, operations, schemas};

/// What a document says beside its operations.
struct Listener {
    title: &'static str,
    description: &'static str,
    servers: &'static [&'static str],
    tags: &'static [&'static str],
    operations: Vec<Operation>,
}

fn inference() -> Listener {
    Listener {
        title: "Pointsman",
        description: "One OpenAI-compatible address before many providers. HEAD is answered wherever GET is. The \
                      paths stand below /api/v1, /api and, unless `server.mount_v1` is off, /v1. A parameter with an \
                      empty value counts as absent.",
        servers: &["/api/v1", "/api", "/v1"],
        tags: &["inference", "models", "routing", "records", "health", "keys", "documents"],
        operations: operations::inference(),
    }
}

fn admin() -> Listener {
    Listener {
        title: "Pointsman administration",
        description: "The admin listener (`admin.bind`). Keys need the scope admin. HEAD is answered wherever GET is. \
                      A parameter with an empty value counts as absent. Only the call that deletes records refuses it.",
        servers: &["/"],
        tags: &["process", "keys", "accounts", "records", "health", "documents"],
        operations: operations::admin(),
    }
}

/// Everything that a document may refer to.
struct Parts {
    schemas: BTreeMap<String, Value>,
    headers: BTreeMap<String, Value>,
}

impl Parts {
    fn all() -> Parts {
        let header = |(name, kind, description): &(&str, &str, &str)| {
            ((*name).to_owned(), json!({ "description": description, "schema": { "type": kind } }))
        };
        Parts { schemas: schemas::all(), headers: HEADERS.iter().map(header).collect() }
    }

    /// The parts that `value` needs, by what kind they are of.
    fn needed(&self, value: &Value) -> Map<String, Value> {
        let (mut schemas, mut headers, mut open) = (Map::new(), Map::new(), vec![value]);
        while let Some(value) = open.pop() {
            for reference in references(value) {
                let (kind, name) = reference.trim_start_matches("#/components/").split_once('/').unwrap();
                let (known, found) =
                    if kind == "schemas" { (&self.schemas, &mut schemas) } else { (&self.headers, &mut headers) };
                let part = known.get(name).unwrap_or_else(|| panic!("there is no {reference}"));
                if found.insert(name.to_owned(), part.clone()).is_none() {
                    open.push(part);
                }
            }
        }
        let bearer = json!({ "bearer": { "type": "http", "scheme": "bearer" } });
        let all = [("headers", headers.into()), ("schemas", schemas.into()), ("securitySchemes", bearer)];
        all.into_iter().map(|(kind, parts)| (kind.to_owned(), parts)).collect()
    }
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(values) => values.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

impl Listener {
    fn document(self, parts: &Parts) -> Value {
        let servers = |urls: &[&str]| urls.iter().map(|url| json!({ "url": url })).collect::<Value>();
        let mut paths = json!({});
        for operation in self.operations {
            let item = &mut paths[&operation.path];
            if !operation.servers.is_empty() {
                item["servers"] = servers(operation.servers);
            }
            let method = operation.method;
            item[method] = operation.into_json();
        }
        json!({
            "openapi": "3.1.1",
            "info": {
                "title": self.title,
                "version": env!("CARGO_PKG_VERSION"),
                "description": self.description,
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            },
            "servers": servers(self.servers),
            "security": [{ "bearer": [] }],
            "tags": self.tags.iter().map(|name| json!({ "name": name })).collect::<Value>(),
            "components": parts.needed(&paths),
            "paths": paths,
        })
    }
}

/// A document with one line for each path, header and schema.
fn written(value: &Value, levels: usize) -> String {
    match value {
        Value::Object(members) if levels > 0 => {
            let inner = |name: &str| if name == "components" { 2 } else { levels - 1 };
            let lines = members.iter().map(|(name, value)| format!("{}: {}", json!(name), written(value, inner(name))));
            format!("{{\n{}\n}}", lines.collect::<Vec<_>>().join(",\n"))
        }
        value => value.to_string(),
    }
}

fn check(document: &Value, file: &ExpectFile) {
    file.assert_eq(&format!("{}\n", written(document, 2)));
}

#[test]
fn the_documents_are_those_of_the_operations_and_the_structs() {
    let parts = Parts::all();
    let [inference, admin] = [inference(), admin()].map(|listener| listener.document(&parts));
    for name in parts.schemas.keys() {
        let is_used = [&inference, &admin].iter().any(|document| document["components"]["schemas"].get(name).is_some());
        assert!(is_used, "no operation needs the schema {name}");
    }
    check(&inference, &expect_file!["inference.json"]);
    check(&admin, &expect_file!["admin.json"]);
}
