//! The schemas of bodies, which come from structs: those that read or write them, or, for the forms of other APIs, those of
//! [`described`]. Five requests with many members stand as JSON in the folder `written`.

use std::collections::BTreeMap;

use schemars::{
    JsonSchema, Schema, SchemaGenerator,
    generate::{Contract, SchemaSettings},
    transform::{Transform, transform_subschemas},
};
use serde_json::{Map, Value, json};

use crate::{
    api::{
        admin,
        answer::Data,
        decisions, diff, front_page, generations, health, inference,
        keys::{self, key_members},
        models,
        openapi::described,
    },
    base::{error, words::OR_NULL},
};

/// Formats that the number types of Rust have in schemas, which tell a client nothing.
const NUMBER_FORMATS: [&str; 11] =
    ["int8", "int32", "int64", "int", "uint8", "uint16", "uint32", "uint64", "uint", "float", "double"];

const WRITTEN: [&str; 5] = [
    include_str!("written/chat.json"),
    include_str!("written/embeddings.json"),
    include_str!("written/images.json"),
    include_str!("written/messages.json"),
    include_str!("written/responses.json"),
];

/// Every schema by its name.
pub(super) fn all() -> BTreeMap<String, Value> {
    let mut derived = derived(Contract::Serialize, Direction::Answer, bodies);
    derived.extend(self::derived(Contract::Deserialize, Direction::Answer, answers_of_other_apis));
    derived.extend(self::derived(Contract::Deserialize, Direction::Request, requests));
    for (name, schema) in WRITTEN.iter().flat_map(|text| serde_json::from_str::<Map<String, Value>>(text).unwrap()) {
        assert!(derived.insert(name.clone(), schema).is_none(), "{name} is written although a struct describes it");
    }
    derived
}

/// The schemas of structs: `bodies`, and what these name in turn.
fn derived(
    contract: Contract,
    direction: Direction,
    bodies: impl FnOnce(&mut SchemaGenerator) -> Vec<(&'static str, Schema)>,
) -> BTreeMap<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.contract = contract;
    });
    let mut generator = settings.into_generator();
    let bodies = bodies(&mut generator).into_iter().map(|(name, body)| (name.to_owned(), body.to_value()));
    let bodies: Vec<_> = bodies.collect();
    let all = generator.take_definitions(false).into_iter().chain(bodies);
    all.filter_map(|(name, schema)| {
        let mut schema = Schema::try_from(schema).ok()?;
        Plain(direction).transform(&mut schema);
        Some((name, schema.to_value()))
    })
    .collect()
}

/// Bodies of requests that structs read.
fn requests(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    vec![
        ("AccountLimits", body::<key_members::AccountLimits>(generator)),
        ("ChatRequest", body::<described::chat::ChatRequest>(generator)),
        ("CompletionRequest", body::<described::completions::CompletionRequest>(generator)),
        ("CountTokensRequest", body::<described::messages::CountTokensRequest>(generator)),
        ("DiffRequest", body::<admin::diff::DiffBody>(generator)),
        ("ExplainRequest", body::<generations::lookup::LookupMembers>(generator)),
        ("KeyChange", body::<key_members::KeyChange>(generator)),
        ("Message", body::<described::chat::Message>(generator)),
        ("MessagesRequest", body::<described::messages::MessagesRequest>(generator)),
        ("NewKey", body::<key_members::NewKey>(generator)),
        ("PreviewRequest", body::<described::routing::PreviewRequest>(generator)),
        ("PromotionRequest", body::<admin::promotion::PromotionRequest>(generator)),
        ("RatingBatch", body::<Vec<generations::feedback_body::BatchRatingRequest>>(generator)),
        ("RatingRequest", body::<generations::feedback_body::RatingRequest>(generator)),
        ("RegretRequest", body::<admin::regret::RegretBody>(generator)),
        ("RoutingMembers", body::<described::routing::RoutingMembers>(generator)),
        ("TeamLimits", body::<key_members::TeamLimits>(generator)),
        ("Time", body::<generations::ledger_query::Time>(generator)),
    ]
}

/// Bodies of answers in the forms of other APIs, which no struct writes.
fn answers_of_other_apis(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    vec![
        ("ChatCompletion", body::<described::chat::ChatCompletion>(generator)),
        ("Completion", body::<described::completions::Completion>(generator)),
        ("EmbeddingList", body::<described::vectors_and_images::EmbeddingList>(generator)),
        ("ImageList", body::<described::vectors_and_images::ImageList>(generator)),
        ("MessagesAnswer", body::<described::messages::MessagesAnswer>(generator)),
        ("MessagesError", body::<described::messages::MessagesError>(generator)),
        ("ResponsesAnswer", body::<described::responses::ResponsesAnswer>(generator)),
    ]
}

/// Bodies of answers that no other body contains, with their names.
fn bodies(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    vec![
        ("Accounts", list::<admin::accounts::HolderBody>(generator, "All accounts that have keys or limits.")),
        ("Activity", body::<generations::activity::view::ActivityBody>(generator)),
        ("AdminActivity", body::<generations::activity::view::ActivityBody>(generator)),
        ("CodexModelList", body::<models::messages_models::CodexModelList>(generator)),
        ("CostChange", body::<generations::activity::explanation::ChangeBody>(generator)),
        ("AdminGenerations", body::<generations::generation_list::PageBody>(generator)),
        ("AdminKey", data::<admin::keys::KeyBody>(generator)),
        (
            "AdminKeyList",
            list::<admin::keys::KeyBody>(generator, "The keys of the configuration and those that were issued."),
        ),
        ("AdminLedger", data::<admin::ledger::LedgerBody>(generator)),
        ("AdminConfig", body::<admin::config_values::ConfigValuesBody>(generator)),
        ("AdminRefused", body::<admin::refused::RefusedCallsBody>(generator)),
        ("AdminRunning", body::<admin::running::RunningBody>(generator)),
        ("AdminSeries", body::<admin::series_view::SeriesBody>(generator)),
        ("AdminStatus", data::<admin::status::StatusBody>(generator)),
        ("AdminVerdict", data::<admin::verdict_view::VerdictBody>(generator)),
        ("AlertReceivers", list::<admin::alerts::ReceiverBody>(generator, "In the order of the configuration.")),
        ("AlertTests", list::<admin::alerts::TestBody>(generator, "Each receiver that was tested.")),
        ("AnthropicModelList", body::<models::messages_models::MessagesModelList<'_>>(generator)),
        ("Audit", body::<admin::audit::PageBody>(generator)),
        ("Calibration", body::<health::calibration_view::CalibrationsBody>(generator)),
        ("CreatedKey", body::<keys::issued_keys::Issued>(generator)),
        ("Credits", data::<keys::own_key::CreditsBody>(generator)),
        ("Deleted", body::<keys::issued_keys::Deleted>(generator)),
        ("Deletion", body::<admin::ledger::DeletedBody>(generator)),
        ("DiffJob", data::<admin::diff_job::JobBody<diff::report::DiffReport>>(generator)),
        ("Error", body::<error::body::ErrorBody>(generator)),
        ("Explanation", body::<decisions::explain_view::ExplainBody>(generator)),
        ("FrontPage", body::<front_page::FrontPageBody>(generator)),
        ("Generation", body::<generations::generation_view::GenerationBody>(generator)),
        ("GenerationList", body::<generations::generation_list::PageBody>(generator)),
        ("Health", body::<health::gateway_health::StatusBody>(generator)),
        ("InputTokens", body::<inference::responses::InputTokensBody>(generator)),
        ("KeyBody", data::<keys::issued_key::IssuedKeyBody>(generator)),
        (
            "KeyList",
            list::<keys::issued_key::IssuedKeyBody>(generator, "At most 100 keys, oldest first; `offset` leads on."),
        ),
        ("Live", body::<health::gateway_health::LiveBody>(generator)),
        ("Memory", data::<health::routing_memory::RoutingMemoryBody>(generator)),
        ("ModelCount", data::<models::model_handlers::CountBody>(generator)),
        ("ModelEndpoints", data::<models::endpoint_entry::ModelEndpoints>(generator)),
        ("ModelEnvelope", data::<models::model_entry::ModelEntry>(generator)),
        ("ModelList", body::<models::model_list::ModelList>(generator)),
        (
            "ModelStats",
            list::<health::health_view::EndpointHealthBody>(
                generator,
                "Each enabled endpoint, or those of the model asked for.",
            ),
        ),
        ("OwnKey", data::<keys::key_view::KeyBody>(generator)),
        ("Preview", body::<decisions::preview_view::PreviewBody>(generator)),
        (
            "ProviderHealth",
            list::<health::health_view::ProviderHealthBody>(
                generator,
                "All providers, enabled ones first; one alone for `/health/providers/{slug}`.",
            ),
        ),
        ("Promotion", data::<admin::promotion::PromotionBody>(generator)),
        ("ProviderList", body::<health::providers_view::ProvidersBody>(generator)),
        ("QualityHealth", body::<health::quality::QualityHealthBody>(generator)),
        ("RegretJob", data::<admin::diff_job::JobBody<diff::regret_report::RegretReport>>(generator)),
        ("Rated", body::<generations::feedback_view::RatedBody>(generator)),
        ("RatedBatch", body::<generations::feedback::BatchBody>(generator)),
        ("Ratings", body::<generations::feedback_view::RatingsBody>(generator)),
        ("WithdrawnRatings", body::<generations::feedback_view::WithdrawnBody>(generator)),
        ("Ready", body::<health::readiness::ReadinessBody>(generator)),
        ("Reload", body::<admin::config::ReloadBody>(generator)),
        ("ReloadPreview", body::<admin::config::PreviewBody>(generator)),
        ("Replay", data::<decisions::replay::ReplayBody>(generator)),
        ("RouteMetadata", body::<inference::route_metadata::RouteMetadata>(generator)),
        ("Targets", body::<health::slo::SloBody>(generator)),
        ("Shadows", body::<health::shadows::ShadowsBody>(generator)),
        ("Splits", body::<health::splits::SplitsBody>(generator)),
        ("Teams", list::<admin::accounts::HolderBody>(generator, "All teams.")),
        ("TokenCount", body::<inference::as_chat::TokenCountBody>(generator)),
        ("Verification", data::<health::ledger_verification::VerificationBody>(generator)),
    ]
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// A body in `data`.
fn data<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    Data::<T>::json_schema(generator)
}

/// A list in `data`.
fn list<T: JsonSchema>(generator: &mut SchemaGenerator, description: &str) -> Schema {
    let mut schema = data::<Vec<T>>(generator);
    schema.ensure_object()["properties"]["data"]["description"] = description.into();
    schema
}

/// Who writes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Answer,
}

/// Schemas as clients need them.
struct Plain(Direction);

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        let is_answer = self.0 == Direction::Answer;
        if is_answer {
            without_nulls(schema);
        }
        transform_subschemas(self, schema);
        let Some(members) = schema.as_object_mut() else { return };
        ["title", "default", OR_NULL].into_iter().for_each(|member| drop(members.remove(member)));
        // What reads our own records refuses unknown members; a client must not.
        if is_answer && members.get("additionalProperties") == Some(&Value::Bool(false)) {
            members.remove("additionalProperties");
        }
        if members.get("format").and_then(Value::as_str).is_some_and(|format| NUMBER_FORMATS.contains(&format)) {
            members.remove("format");
            if is_answer {
                ["minimum", "maximum"].into_iter().for_each(|member| drop(members.remove(member)));
            }
        }
        if let Some(Value::String(description)) = members.get_mut("description") {
            *description = description.replace('\n', " ");
        }
        if let Some(words) = members.get("oneOf").and_then(Value::as_array).and_then(|variants| constants(variants)) {
            members.remove("oneOf");
            members.extend([("type".to_owned(), "string".into()), ("enum".to_owned(), words)]);
        }
    }
}

/// A member of an answer that may be absent is never `null`, unless it is marked.
fn without_nulls(schema: &mut Schema) {
    let Some(members) = schema.as_object_mut() else { return };
    let required = members.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|known| known == name));
    for (name, member) in members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if !is_required(name) && member.get(OR_NULL).is_none() {
            without_null(member);
        }
    }
}

/// The words of an enumeration whose variants have descriptions.
fn constants(variants: &[Value]) -> Option<Value> {
    variants.iter().map(|variant| variant.get("const").cloned()).collect()
}

fn without_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|kind| kind != "null");
        if let [kind] = &types[..] {
            schema["type"] = kind.clone();
        }
    }
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| *choice != json!({ "type": "null" }));
        if let [Value::Object(only)] = &choices[..] {
            let mut only = only.clone();
            let members = schema.as_object_mut().unwrap();
            members.remove("anyOf");
            only.append(members);
            *members = only;
        }
    }
}
