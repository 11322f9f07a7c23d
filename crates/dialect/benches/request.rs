//! What it costs to read a chat request and to write it for an upstream, beside the same with a tree of values.
//!
//! `cargo bench -p pointsman-dialect --bench request`. The bodies are what agents send: a few fields, a tool,
//! a conversation with line breaks and code in it; 1 KB and 100 KB. Then what the class of a task costs: a last message of 8 KB
//! whose text is looked at, and the same with a tool, which tells the class without.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use pointsman_dialect::{ChatPurpose, ChatRequest, RequestLimits};
use pointsman_domain::{
    Catalog, Endpoint, EndpointId, Model, ModelId, ParameterNames, ParameterSet, Provider, ProviderSlug,
};
use serde_json::Value;

/// As in the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const TURN: &str = "The breaker opens at the third failure in a row.\\n\\n```rust\\nif failures >= policy.trip_after {\\n    return Breaker::Open { until: now + policy.cooldown };\\n}\\n```\\nEverything else stays as it was, which is why \\\"closed\\\" keeps its count.";

/// A body of about `bytes` bytes: as many turns as fit.
fn body(bytes: usize) -> Bytes {
    let tool = r#"{"type":"function","function":{"name":"weather","description":"Looks up the weather.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}"#;
    let mut text = format!(
        r#"{{"model":"acme/able","stream":true,"temperature":0.7,"max_tokens":512,"metadata":{{"objective":"fastest"}},"tools":[{tool}],"messages":[{{"role":"system","content":"You are brief."}}"#
    );
    let roles = ["user", "assistant"].into_iter().cycle();
    for role in roles {
        text.push_str(&format!(r#",{{"role":"{role}","content":"{TURN}"}}"#));
        if text.len() + TURN.len() > bytes {
            break;
        }
    }
    text.push_str("]}");
    Bytes::from(text)
}

fn read(body: &Bytes, limits: &RequestLimits) -> Option<Box<ChatRequest>> {
    ChatRequest::parse(body.clone(), ChatPurpose::Chat, limits).ok()
}

/// The usual way: a tree, a few changes, and the whole of it written again.
fn through_a_tree(body: &[u8]) -> Option<Vec<u8>> {
    let mut tree: Value = serde_json::from_slice(body).ok()?;
    let members = tree.as_object_mut()?;
    members.insert("model".to_owned(), "up-able".into());
    members.remove("metadata");
    members.insert("stream_options".to_owned(), serde_json::json!({"include_usage": true}));
    serde_json::to_vec(&tree).ok()
}

/// One message of 8 KB.
fn message(text: &str, tools: &str) -> Bytes {
    let text = text.repeat(8192 / text.len());
    Bytes::from(format!(r#"{{"model":"acme/able",{tools}"messages":[{{"role":"user","content":"{text}"}}]}}"#))
}

fn classes(criterion: &mut Criterion) {
    const TOOL: &str = r#""tools":[{"type":"function","function":{"name":"f"}}],"#;
    let limits = RequestLimits::default();
    let mut group = criterion.benchmark_group("class of 8 KB");
    group.throughput(Throughput::Bytes(8192));
    for (kind, text) in [("prose", "Which of the two roads is open in winter? "), ("code", "let a = f(b); ")] {
        let (looked_at, skipped) = (message(text, ""), message(text, TOOL));
        group.bench_function(kind, |b| b.iter(|| read(black_box(&looked_at), &limits)));
        group.bench_function(format!("{kind}, with a tool"), |b| b.iter(|| read(black_box(&skipped), &limits)));
    }
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    let limits = RequestLimits::default();
    let Some(catalog) = catalog() else { return };
    let Some(endpoint) = catalog.endpoints.first() else { return };
    for bytes in [1 << 10, 100 << 10] {
        let body = body(bytes);
        let Some(request) = read(&body, &limits) else { return };
        let mut group = criterion.benchmark_group(format!("request of {} bytes", body.len()));
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function("parse", |b| b.iter(|| read(black_box(&body), &limits)));
        group.bench_function("splice", |b| b.iter(|| black_box(&request).upstream_body(&catalog, endpoint)));
        group.bench_function("parse and splice", |b| {
            b.iter(|| read(black_box(&body), &limits).map(|request| request.upstream_body(&catalog, endpoint)));
        });
        group.bench_function("parse and write a tree", |b| b.iter(|| through_a_tree(black_box(&body))));
        group.finish();
    }
}

/// One model at one endpoint that takes everything the bodies hold.
fn catalog() -> Option<Catalog> {
    let mut names = ParameterNames::published();
    let listed = ["tools", "max_tokens", "temperature"].iter().filter_map(|name| names.intern(name).ok());
    let parameters = listed.fold(ParameterSet::default(), ParameterSet::union);
    let id: ModelId = "acme/able".parse().ok()?;
    let provider = Provider::with_defaults(ProviderSlug::new("acme")?);
    let endpoint =
        Endpoint { parameters, ..Endpoint::with_defaults(EndpointId::new(id.as_str(), "acme", ""), 0, 0, "up-able") };
    let model = Model::with_defaults(id, vec![0]);
    Catalog::new(1, vec![provider], vec![model], vec![endpoint], Vec::new(), &[], names).ok()
}

criterion_group!(request, benches, classes);
criterion_main!(request);
