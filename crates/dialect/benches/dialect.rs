//! What translation between dialects costs: a chunk of a stream, a whole answer, a request from its reading to its writing.
//!
//! `cargo bench -p pointsman-dialect --bench dialect`. The same contents as `stream.rs` and `request.rs`, where nothing is
//! translated. Instructions of a request: see `docs/BENCHMARKS.md`.

use std::{hint::black_box, sync::Arc};

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use pointsman_dialect::{
    AnswerContext, ChatPurpose, ChatRequest, ChatStream, ClientReader, ClientRequest, OutgoingBody, ProviderState,
    RequestLimits, StateKey, StreamOptions, chat_body, completion_of,
};
use pointsman_domain::{
    Catalog, Dialect, Endpoint, EndpointId, GenerationId, Invalid, Model, ModelId, ParameterNames, ParameterSet,
    Pricing, Provider, ProviderSlug,
};

/// As in the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A dialect of endpoints with events of a stream.
struct Upstream {
    dialect: Dialect,
    /// What comes before the first text.
    opening: &'static str,
    text: &'static str,
    /// What comes before the first arguments of a call, and arguments; none where calls come whole.
    call: Option<(&'static str, &'static str)>,
}

const UPSTREAMS: [Upstream; 5] = [
    Upstream {
        dialect: Dialect::OpenAi,
        opening: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
        text: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" wonderful\"},\"finish_reason\":null}]}\n\n",
        call: Some((
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n",
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"ci\"}}]},\"finish_reason\":null}]}\n\n",
        )),
    },
    Upstream {
        dialect: Dialect::Anthropic,
        opening: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        text: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" wonderful\"}}\n\n",
        call: Some((
            "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"ci\"}}\n\n",
        )),
    },
    Upstream {
        dialect: Dialect::Gemini,
        opening: "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"\"}]}}],\"responseId\":\"r1\"}\n\n",
        text: "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\" wonderful\"}]}}],\"usageMetadata\":{\"promptTokenCount\":12,\"candidatesTokenCount\":3,\"totalTokenCount\":15},\"modelVersion\":\"m\",\"responseId\":\"r1\"}\n\n",
        call: None,
    },
    Upstream {
        dialect: Dialect::Responses,
        opening: "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"in_progress\",\"content\":[]}}\n\n",
        text: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":9,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" wonderful\"}\n\n",
        call: Some((
            "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":2,\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"call_1\",\"name\":\"f\",\"arguments\":\"\",\"status\":\"in_progress\"}}\n\n",
            "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":9,\"item_id\":\"fc_1\",\"output_index\":1,\"delta\":\"{\\\"ci\"}\n\n",
        )),
    },
    // Type and payload of an event per line, which [`framed`] makes frames of.
    Upstream {
        dialect: Dialect::Converse,
        opening: "messageStart {\"role\":\"assistant\"}\n",
        text: "contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\" wonderful\"},\"p\":\"abcdefghijklmnop\"}\n",
        call: Some((
            "contentBlockStop {\"contentBlockIndex\":0}\ncontentBlockStart {\"contentBlockIndex\":1,\"start\":{\"toolUse\":{\"toolUseId\":\"tooluse_1\",\"name\":\"f\"}}}\n",
            "contentBlockDelta {\"contentBlockIndex\":1,\"delta\":{\"toolUse\":{\"input\":\"{\\\"ci\"}}}\n",
        )),
    },
];

/// Events as the upstream sends them.
fn framed(dialect: Dialect, events: &str) -> Bytes {
    if dialect != Dialect::Converse {
        return Bytes::copy_from_slice(events.as_bytes());
    }
    let mut bytes = Vec::new();
    for (kind, payload) in events.lines().filter_map(|line| line.split_once(' ')) {
        let header = |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
        let message = Message::new(payload.to_owned())
            .add_header(header(":event-type", kind))
            .add_header(header(":content-type", "application/json"))
            .add_header(header(":message-type", "event"));
        // Only a header that is too long cannot be written.
        let _ = write_message_to(&message, &mut bytes);
    }
    bytes.into()
}

/// One model at an endpoint of each dialect.
fn catalog() -> Option<Catalog> {
    let mut names = ParameterNames::published();
    let listed = ["tools", "max_tokens", "temperature"].iter().filter_map(|name| names.intern(name).ok());
    let parameters = listed.fold(ParameterSet::default(), ParameterSet::union);
    let id: ModelId = "acme/able".parse().ok()?;
    let provider = Provider::with_defaults(ProviderSlug::new("acme")?);
    let endpoint = |(variant, dialect): (&str, Dialect)| Endpoint {
        parameters,
        dialect,
        variant: variant.to_owned(),
        ..Endpoint::with_defaults(EndpointId::new(id.as_str(), "acme", variant), 0, 0, "up-able")
    };
    let endpoints = UPSTREAMS.map(|upstream| endpoint((name(upstream.dialect), upstream.dialect))).into();
    let model = Model::with_defaults(id.clone(), (0..5).collect());
    Catalog::new(1, vec![provider], vec![model], endpoints, Vec::new(), &[], names).ok()
}

fn name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi => "chat",
        Dialect::Anthropic => "messages",
        Dialect::Gemini => "gemini",
        Dialect::Responses => "responses",
        Dialect::Converse => "converse",
    }
}

fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::new(1_763_629_500, [1, 2, 3]),
        created: 1_763_629_500,
        model: Arc::from("acme/able"),
        provider_name: Arc::from("Acme"),
        fingerprint: Arc::from("fp_1"),
        pricing: Some(Arc::new(Pricing::default())),
        prompt_tokens: 12,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: Default::default(),
        told: Default::default(),
        clock: || 1_763_629_503,
    }
}

fn chat(turns: usize) -> Option<Box<ChatRequest>> {
    let turn = r#"{"role":"user","content":"The breaker opens at the third failure in a row.\nEverything else stays as it was, which is why \"closed\" keeps its count. "},{"role":"assistant","content":"It does."}"#;
    let tool = r#"{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}"#;
    let turns = vec![turn; turns].join(",");
    let body = format!(
        r#"{{"model":"acme/able","stream":true,"max_tokens":512,"tools":[{tool}],"messages":[{{"role":"system","content":"You are brief."}},{turns},{{"role":"user","content":"Go on."}}]}}"#
    );
    ChatRequest::parse(Bytes::from(body), ChatPurpose::Chat, &RequestLimits::default()).ok()
}

/// The requests of clients of the other dialects.
fn clients() -> [(&'static str, Option<ClientRequest>); 3] {
    let key = StateKey::new([7; 32]);
    let message =
        r#"{"model":"acme/able","stream":true,"max_tokens":512,"messages":[{"role":"user","content":"Go on."}]}"#;
    let response = r#"{"model":"acme/able","stream":true,"input":"Go on."}"#;
    let limits = RequestLimits::default();
    let reader = ClientReader { state_key: &key, purpose: ChatPurpose::Chat, limits: &limits };
    let client = |chat: Result<Box<ChatRequest>, Invalid>| chat.ok()?.client.map(Arc::unwrap_or_clone);
    let headers = Vec::new();
    [
        ("chat", None),
        ("messages", client(reader.messages(Bytes::from_static(message.as_bytes()), None, &headers))),
        (
            "responses",
            client(reader.responses(Bytes::from_static(response.as_bytes()), || ProviderState::Refused, true)),
        ),
    ]
}

/// Chunks that follow one another, each in a read of its own, for each client at each upstream.
fn chunks(criterion: &mut Criterion) {
    let Some(catalog) = catalog() else { return };
    for kind in ["text chunk", "argument chunk"] {
        let mut group = criterion.benchmark_group(kind);
        for (upstream, endpoint) in UPSTREAMS.iter().zip(&catalog.endpoints) {
            let (before, event) = match upstream.call {
                _ if kind == "text chunk" => ("", upstream.text),
                Some(call) => call,
                None => continue,
            };
            for (client_name, client) in clients() {
                let Some(mut request) = chat(1) else { return };
                request.client = client.map(Arc::new);
                let Some(outgoing) = chat_body(&request, &catalog, endpoint, None) else { continue };
                let (client, options) = (request.client.as_deref(), StreamOptions::default());
                let mut stream = ChatStream::between(Some(&outgoing), client, context(), options);
                let mut out = BytesMut::with_capacity(1 << 16);
                let begun = [upstream.opening, upstream.text, before].concat();
                if stream.push(&framed(upstream.dialect, &begun), &mut out).is_err() {
                    continue;
                }
                let event = framed(upstream.dialect, event);
                group.bench_function(BenchmarkId::new(name(upstream.dialect), client_name), |bencher| {
                    bencher.iter(|| {
                        out.clear();
                        black_box(stream.push(black_box(&event), &mut out)).is_ok()
                    });
                });
            }
        }
        group.finish();
    }
}

/// Whole answers of 4 KB.
fn answers(criterion: &mut Criterion) {
    let (Some(catalog), Some(request)) = (catalog(), chat(1)) else { return };
    let text = "All work and no play makes Jack a dull boy. ".repeat(90);
    let mut group = criterion.benchmark_group("whole answer of 4 KB");
    for (dialect, endpoint) in UPSTREAMS.iter().map(|upstream| upstream.dialect).zip(&catalog.endpoints) {
        let body = match dialect {
            Dialect::OpenAi => continue,
            Dialect::Anthropic => format!(
                r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","stop_sequence":null,"content":[{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":12,"output_tokens":900}}}}"#
            ),
            Dialect::Gemini => format!(
                r#"{{"candidates":[{{"index":0,"finishReason":"STOP","content":{{"role":"model","parts":[{{"text":"{text}"}}]}}}}],"usageMetadata":{{"promptTokenCount":12,"candidatesTokenCount":900,"totalTokenCount":912}}}}"#
            ),
            Dialect::Converse => format!(
                r#"{{"output":{{"message":{{"role":"assistant","content":[{{"text":"{text}"}}]}}}},"stopReason":"end_turn","usage":{{"inputTokens":12,"outputTokens":900,"totalTokens":912}}}}"#
            ),
            Dialect::Responses => format!(
                r#"{{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"{text}","annotations":[]}}]}}],"usage":{{"input_tokens":12,"output_tokens":900,"total_tokens":912}}}}"#
            ),
        };
        let Some(outgoing) = chat_body(&request, &catalog, endpoint, None) else { continue };
        let body = Bytes::from(body);
        group.bench_function(name(dialect), |b| b.iter(|| completion_of(black_box(&body), &outgoing).is_ok()));
    }
    group.finish();
}

/// Reads a request of a client and writes it for an endpoint. Not inlined, so that callgrind can count it alone.
#[inline(never)]
fn exchange(client: &str, body: &Bytes, catalog: &Catalog, endpoint: &Endpoint) -> Option<OutgoingBody> {
    black_box(chat_body(&*request_of(client, black_box(body))?, catalog, endpoint, None))
}

fn request_of(client: &str, body: &Bytes) -> Option<Box<ChatRequest>> {
    let (limits, key) = (RequestLimits::default(), StateKey::new([7; 32]));
    let reader = ClientReader { state_key: &key, purpose: ChatPurpose::Chat, limits: &limits };
    match client {
        "chat" => ChatRequest::parse(body.clone(), ChatPurpose::Chat, &limits),
        "messages" => reader.messages(body.clone(), None, &Vec::new()),
        _ => reader.responses(body.clone(), || ProviderState::Refused, true),
    }
    .ok()
}

/// Requests of 1 KB and of 99 KB in short messages, of each client for each endpoint.
fn requests(criterion: &mut Criterion) {
    let Some(catalog) = catalog() else { return };
    let turn = r#"{"role":"user","content":"The breaker opens at the third failure in a row. Everything else stays."},{"role":"assistant","content":"It does."}"#;
    for (size, turns) in [("1 KB", 7), ("99 KB", 700)] {
        let mut group = criterion.benchmark_group(format!("request of {size}"));
        for client in ["chat", "messages", "responses"] {
            let (list, limit) = match client {
                "responses" => ("input", "max_output_tokens"),
                _ => ("messages", "max_tokens"),
            };
            let turns = vec![turn; turns].join(",");
            let last = r#"{"role":"user","content":"Go on."}"#;
            let body = Bytes::from(format!(r#"{{"model":"acme/able","{limit}":512,"{list}":[{turns},{last}]}}"#));
            for (dialect, endpoint) in UPSTREAMS.iter().map(|upstream| upstream.dialect).zip(&catalog.endpoints) {
                // What is made once for all requests is not counted.
                let written = |request: Box<ChatRequest>| chat_body(&request, &catalog, endpoint, None);
                if request_of(client, &body).and_then(written).is_none() {
                    continue;
                }
                let id = BenchmarkId::new(client, name(dialect));
                group.bench_function(id, |b| b.iter(|| exchange(client, &body, &catalog, endpoint)));
            }
        }
        group.finish();
    }
}

/// A chunk of Gemini with 1 KB of text, which is what newer models send at a time.
fn large_chunks(criterion: &mut Criterion) {
    let (Some(catalog), Some(request)) = (catalog(), chat(1)) else { return };
    let mut group = criterion.benchmark_group("text chunk of 1 KB");
    for (upstream, endpoint) in UPSTREAMS.iter().zip(&catalog.endpoints) {
        let Some(outgoing) = chat_body(&request, &catalog, endpoint, None) else { continue };
        let mut stream = ChatStream::between(Some(&outgoing), None, context(), StreamOptions::default());
        let mut out = BytesMut::with_capacity(1 << 16);
        if stream.push(&framed(upstream.dialect, upstream.opening), &mut out).is_err() {
            continue;
        }
        let text = upstream.text.replace(" wonderful", &" wonderful".repeat(90));
        let event = framed(upstream.dialect, &text);
        group.bench_function(name(upstream.dialect), |bencher| {
            bencher.iter(|| {
                out.clear();
                black_box(stream.push(black_box(&event), &mut out)).is_ok()
            });
        });
    }
    group.finish();
}

/// A request with an image of 1 MB, which is copied and not decoded.
fn media(criterion: &mut Criterion) {
    let Some(catalog) = catalog() else { return };
    let image = "QUJD".repeat(1 << 18);
    let body = format!(
        r#"{{"model":"acme/able","max_tokens":512,"messages":[{{"role":"user","content":[{{"type":"text","text":"What is this?"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}]}}"#
    );
    let Ok(request) = ChatRequest::parse(Bytes::from(body), ChatPurpose::Chat, &RequestLimits::default()) else {
        return;
    };
    let mut group = criterion.benchmark_group("request with an image of 1 MB");
    group.throughput(Throughput::Bytes(request.body().len() as u64));
    for (dialect, endpoint) in UPSTREAMS.iter().map(|upstream| upstream.dialect).zip(&catalog.endpoints) {
        group.bench_function(name(dialect), |b| b.iter(|| chat_body(black_box(&request), &catalog, endpoint, None)));
    }
    group.finish();
}

criterion_group!(dialects, chunks, large_chunks, answers, requests, media);
criterion_main!(dialects);
