//! Parameters that several operations have.

use serde_json::{Value, json};

use crate::{
    access::issued::Change,
    api::{
        models::model_query::Sort,
        openapi::operation::{integer, number, query, reference, text},
    },
};

/// Some of these words, divided by commas.
fn listed(words: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^({words})(,({words}))*$") })
}

/// Filters of the lists of models.
pub(super) fn models() -> Vec<Value> {
    vec![
        query("output_modalities", "Filter of the list.", listed("all|text|image|audio|embeddings")),
        query("input_modalities", "Filter of the list.", listed("all|text|image|audio|file|video|embeddings")),
        query("supported_parameters", "Filter of the list.", json!({ "type": "string" })),
        query("providers", "Filter of the list.", json!({ "type": "string" })),
        query("q", "Filter of the list.", json!({ "type": "string" })),
        query("context", "Filter of the list.", integer(0, 4294967295)),
        query("max_price", "Filter of the list.", number(0, 1000000000000)),
        query("sort", "Filter of the list.", json!({ "type": "string", "enum": Sort::ALL.map(|(name, _)| name) })),
        query("limit", "Most models.", integer(1, 1000)),
        query("offset", "Models to leave out.", integer(0, 9007199254740991)),
    ]
}

/// A range of time.
fn range() -> Vec<Value> {
    let time = "A time such as `2026-11-23T06:00:00Z`, a date (its beginning in UTC), or Unix milliseconds.";
    [("since", time.to_owned()), ("until", format!("End, excluded. {time}"))]
        .map(|(name, description)| query(name, &description, reference("Time")))
        .into()
}

/// Filters of the lists of generations, and their page of at most `most` records.
pub(super) fn generations(most: i64) -> Vec<Value> {
    let mut parameters = range();
    parameters.extend([
        query("model", "Ids, divided by commas.", text()),
        query("provider", "Slugs, divided by commas.", json!({ "type": "string" })),
        query("team", "Names of teams at the time of the calls, divided by commas.", text()),
        query("alias", "Aliases that were asked for, divided by commas.", text()),
        query("objective", "Objectives of decisions, divided by commas.", text()),
        query("task", "Classes of tasks, divided by commas.", text()),
        query(
            "status",
            "One or more of `completed`, `failed`, `cancelled`, divided by commas.",
            listed("completed|failed|cancelled"),
        ),
        query("rescued", "Whether this happened.", json!({ "type": "boolean" })),
        query("hedged", "Whether this happened.", json!({ "type": "boolean" })),
        query("explored", "Whether this happened.", json!({ "type": "boolean" })),
        query("missed_target", "Whether this happened.", json!({ "type": "boolean" })),
        query("slower_than_predicted", "Whether this happened.", json!({ "type": "boolean" })),
        query("min_ttft_ms", "Least milliseconds to the first token.", integer(0, 9007199254740991)),
        query("min_cost", "Least US dollars.", number(0, 1000000000000)),
        query("q", "Requested model, model or provider contains this, in any case.", json!({ "type": "string" })),
        query("cause", "What the last attempt of a failed call failed of, divided by commas.", text()),
        query("limit", "Most records.", integer(1, most)),
        query("after", "Cursor of the page before.", text()),
    ]);
    parameters
}

/// The filters of the audit log.
pub(super) fn audit() -> Vec<Value> {
    vec![
        query("limit", "Most lines.", integer(1, 1000)),
        query("offset", "Lines to pass over.", integer(0, 4294967295)),
        query("by", "Name of the administrator's key, or `command line`.", text()),
        query("action", "What was done.", json!({ "type": "string", "enum": Change::ACTIONS })),
        query("object", "Name of a key, an account or a team.", text()),
        query("since", "Beginning.", reference("Time")),
        query("until", "End, excluded.", reference("Time")),
    ]
}

/// The range of time of sums, and the calls that count.
fn counted() -> Vec<Value> {
    let filters = [
        ("team", "Names of teams, divided by commas. A name that nobody knows is an error."),
        ("account", "Names of accounts, divided by commas."),
        ("key", "Names of keys, divided by commas."),
        ("model", "Ids of models, divided by commas."),
        ("provider", "Slugs, divided by commas."),
        ("alias", "Aliases, divided by commas."),
        ("objective", "Objectives, divided by commas."),
        ("task", "Classes of tasks, divided by commas."),
    ];
    let mut parameters = range();
    parameters.push(query(
        "tz_offset_minutes",
        "Offset of the reader from UTC.",
        json!({ "type": "integer", "minimum": -720, "maximum": 840, "multipleOf": 15 }),
    ));
    parameters.extend(filters.map(|(name, description)| query(name, description, text())));
    parameters
}

pub(super) fn activity() -> Vec<Value> {
    let words = "team|account|key|model|provider|alias|objective|task|day|hour";
    let mut parameters = counted();
    parameters.extend([
        query("group", "Length of a period, without `group_by`.", json!({ "type": "string", "enum": ["day", "hour"] })),
        query("group_by", "What rows are told apart by, divided by commas. Adds totals to the answer.", listed(words)),
    ]);
    parameters
}

pub(super) fn change_of_cost() -> Vec<Value> {
    let mut parameters = counted();
    let description = "Beginning of the earlier period, which is as long: a time, a date or Unix milliseconds. Without it the \
                       period just before.";
    parameters.push(query("compare_to", description, text()));
    parameters
}

/// The key or the account whose records are meant.
pub(super) fn of_key() -> [Value; 3] {
    [query("key", "Name of a key.", text()), query("account", "Name of an account.", text()), of_owner()]
}

pub(super) fn of_owner() -> Value {
    query(
        "owner",
        "16 hexadecimal digits, as in `GET /admin/ledger`.",
        json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{16}$" }),
    )
}
