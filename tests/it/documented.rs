//! Every JSON body that a test reads is described by the document of a listener, with all its members.
//!
//! The harness looks at each answer. It leaves out what no document describes: unknown paths and methods, paths below a
//! prefix, streams, and answers that the client read in part only.

use std::{cmp::Reverse, sync::LazyLock};

use actix_web::http::Method;
use regex::Regex;
use serde_json::Value;

use crate::schema;

/// A document and what it says of each path.
struct Listener {
    document: Value,
    paths: Vec<Described>,
}

struct Described {
    address: Regex,
    /// The least is meant where several fit: fewer placeholders, then the longer one.
    rank: (usize, Reverse<usize>),
    /// Pointer to the operations.
    item: String,
}

static LISTENERS: LazyLock<[Listener; 2]> = LazyLock::new(|| {
    [
        Listener::read(include_str!("../../src/api/openapi/inference.json")),
        Listener::read(include_str!("../../src/api/openapi/admin.json")),
    ]
});

impl Listener {
    fn read(text: &str) -> Listener {
        let document: Value = serde_json::from_str(text).unwrap();
        let paths = document["paths"].as_object().unwrap().iter().map(|(path, item)| {
            let servers = item.get("servers").unwrap_or(&document["servers"]).as_array().unwrap();
            let bases = servers.iter().map(|server| server["url"].as_str().unwrap().trim_end_matches('/'));
            let bases: Vec<String> = bases.map(regex::escape).collect();
            // Ids of models hold slashes.
            let path_of = regex::escape(path).replace(r"\{id\}", ".+");
            let path_of = Regex::new(r"\\\{\w+\\\}").unwrap().replace_all(&path_of, "[^/]+").into_owned();
            Described {
                address: Regex::new(&format!("^(?:{}){path_of}$", bases.join("|"))).unwrap(),
                rank: (path.matches('{').count(), Reverse(path.len())),
                item: format!("/paths/{}", path.replace('~', "~0").replace('/', "~1")),
            }
        });
        let paths = paths.collect();
        Listener { document, paths }
    }

    /// The schema of a JSON answer. `None` where the document says nothing.
    fn schema(&self, method: &Method, path: &str, status: u16) -> Option<&Value> {
        let fitting = self.paths.iter().filter(|described| described.address.is_match(path));
        let item = self.document.pointer(&fitting.min_by_key(|described| described.rank)?.item)?;
        let answers = &item.get(method.as_str().to_ascii_lowercase())?["responses"];
        answers.get(status.to_string()).unwrap_or(&answers["default"])["content"]["application/json"].get("schema")
    }
}

/// Fails the test if the document of a listener describes this answer, but not like that.
pub(crate) fn check(method: &Method, target: &str, status: u16, body: &[u8]) {
    let path = target.split('?').next().unwrap_or_default();
    let schemas = LISTENERS.iter().filter_map(|listener| Some((listener, listener.schema(method, path, status)?)));
    let schemas: Vec<_> = schemas.collect();
    if schemas.is_empty() {
        return;
    }
    let body: Value = serde_json::from_slice(body)
        .unwrap_or_else(|error| panic!("{method} {target}: {error}: {}", String::from_utf8_lossy(body)));
    // Both listeners answer some paths.
    let faults = schemas.iter().map(|(listener, schema)| {
        let fault = schema::fault(&body, schema, &listener.document);
        fault.or_else(|| undocumented(&body, &[*schema], &listener.document, "body"))
    });
    let faults: Vec<Option<String>> = faults.collect();
    if let [Some(fault), ..] = &faults[..]
        && faults.iter().all(Option::is_some)
    {
        panic!("{method} {target}: {status} is not as documented: {fault}\n{body:#}");
    }
}

/// A member that none of these schemas describes. The value fits each of them.
fn undocumented(value: &Value, schemas: &[&Value], root: &Value, path: &str) -> Option<String> {
    let mut flat = Vec::new();
    schemas.iter().for_each(|schema| flatten(value, schema, root, &mut flat));
    let part = |keyword: &str| flat.iter().filter_map(|schema| schema.get(keyword)).collect::<Vec<_>>();
    match value {
        Value::Array(elements) => {
            let items = part("items");
            elements
                .iter()
                .zip(0..)
                .find_map(|(element, n)| undocumented(element, &items, root, &format!("{path}[{n}]")))
        }
        Value::Object(members) => {
            let (properties, additional) = (part("properties"), part("additionalProperties"));
            if properties.is_empty() && additional.is_empty() {
                // Free by its description.
                return None;
            }
            members.iter().find_map(|(name, member)| {
                let mut described: Vec<&Value> = properties.iter().filter_map(|all| all.get(name)).collect();
                if described.is_empty() {
                    described = additional.iter().copied().filter(|schema| **schema != false).collect();
                }
                let path = format!("{path}.{name}");
                if described.is_empty() {
                    return Some(format!("{path} is not documented"));
                }
                undocumented(member, &described, root, &path)
            })
        }
        _ => None,
    }
}

/// The schemas that apply to a value: behind references, in `allOf`, and the alternatives that it fits.
fn flatten<'a>(value: &Value, schema: &'a Value, root: &'a Value, flat: &mut Vec<&'a Value>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a dangling reference");
        return flatten(value, target, root, flat);
    }
    flat.push(schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        flatten(value, part, root, flat);
    }
    for alternative in ["oneOf", "anyOf"].into_iter().filter_map(|keyword| schema[keyword].as_array()).flatten() {
        if schema::fault(value, alternative, root).is_none() {
            flatten(value, alternative, root, flat);
        }
    }
}
