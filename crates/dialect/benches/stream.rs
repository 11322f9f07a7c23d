//! What an answer costs on its way through: one chunk of a stream, and a plain answer of 1 KB.
//!
//! The yardstick is a round trip through `serde_json::Value`, which is what the splice avoids.

use std::{hint::black_box, sync::Arc};

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use pointsman_dialect::{AnswerContext, ChatStream, StreamOptions, rewrite_answer};
use pointsman_domain::{GenerationId, Pricing, Usd};

/// As in the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// 290 bytes, as the largest provider of this convention writes them, `usage` null included.
const CHUNK: &str = concat!(
    r#"data: {"id":"chatcmpl-BzQ1x7vFqk2aL0cWm3nPd8rTuYi5o","object":"chat.completion.chunk","created":1763629501,"#,
    r#""model":"gpt-small-2026-01-01","service_tier":"default","system_fingerprint":"fp_a1b2c3d4e5","#,
    r#""choices":[{"index":0,"delta":{"content":" wonderful"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    "\n\n"
);
/// The same content from a server that sorts its keys.
const SORTED_CHUNK: &str = concat!(
    r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" wonderful"}}],"created":1763629501,"#,
    r#""id":"chatcmpl-BzQ1x7vFqk2aL0cWm3nPd8rTuYi5o","model":"small-q4.gguf","system_fingerprint":"b4321-a1b2c3d4","#,
    r#""object":"chat.completion.chunk"}"#,
    "\n\n"
);
const CALL_CHUNK: &str = concat!(
    r#"data: {"id":"chatcmpl-BzQ1x7vFqk2aL0cWm3nPd8rTuYi5o","object":"chat.completion.chunk","created":1763629501,"#,
    r#""model":"gpt-small-2026-01-01","service_tier":"default","system_fingerprint":"fp_a1b2c3d4e5","#,
    r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","#,
    r#""arguments":"{\"ci"}}]},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    "\n\n"
);

fn price(text: &str) -> Usd {
    text.parse().unwrap_or_default()
}

fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::new(1_763_629_500, [1, 2, 3]),
        created: 1_763_629_500,
        model: Arc::from("acme/small"),
        provider_name: Arc::from("Acme"),
        fingerprint: Arc::from("fp_1"),
        pricing: Some(Arc::new(Pricing {
            prompt: price("0.00000015"),
            completion: price("0.0000006"),
            ..<_>::default()
        })),
        prompt_tokens: 12,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: Default::default(),
        told: Default::default(),
        clock: || 1_763_629_503,
    }
}

fn answer() -> Bytes {
    let text = "All work and no play makes Jack a dull boy. ".repeat(9);
    Bytes::from(format!(
        concat!(
            r#"{{"id":"chatcmpl-BzQ1x7vFqk2aL0cWm3nPd8rTuYi5o","object":"chat.completion","created":1763629501,"#,
            r#""model":"gpt-small-2026-01-01","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}","#,
            r#""refusal":null,"annotations":[]}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":19,"#,
            r#""completion_tokens":100,"total_tokens":119,"prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}},"#,
            r#""completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"#,
            r#""rejected_prediction_tokens":0}}}},"service_tier":"default","system_fingerprint":"fp_a1b2c3d4e5"}}"#,
        ),
        text
    ))
}

/// Chunks that follow one another, each in a read of its own.
fn chunks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk");
    let mut measure = |name: &str, reads: &[Bytes]| {
        let mut stream = ChatStream::new(context(), StreamOptions::default());
        let mut out = BytesMut::with_capacity(4_096);
        let mut next = reads.iter().cycle();
        group.throughput(Throughput::Elements(1));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                let Some(read) = next.next() else { return false };
                black_box(stream.push(black_box(read), &mut out)).is_ok_and(|progress| progress.content)
            });
        });
    };
    measure("same beginning", &[Bytes::from_static(CHUNK.as_bytes())]);
    measure("keys sorted", &[Bytes::from_static(SORTED_CHUNK.as_bytes())]);
    measure("tool call", &[Bytes::from_static(CALL_CHUNK.as_bytes())]);
    let other = CHUNK.replace("1763629501", "1763629502");
    measure("another beginning each time", &[Bytes::from_static(CHUNK.as_bytes()), Bytes::from(other)]);
    let ten = CHUNK.repeat(10);
    group.throughput(Throughput::Elements(10));
    let mut stream = ChatStream::new(context(), StreamOptions::default());
    let (read, mut out) = (Bytes::from(ten), BytesMut::with_capacity(8_192));
    group.bench_function("ten in one read", |bencher| {
        bencher.iter(|| {
            out.clear();
            black_box(stream.push(black_box(&read), &mut out)).is_ok()
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("through serde_json::Value", |bencher| {
        let data = CHUNK.trim_start_matches("data: ").trim_end();
        bencher.iter(|| through_value(black_box(data)));
    });
    group.finish();
}

fn through_value(data: &str) -> Option<Vec<u8>> {
    let mut value: serde_json::Value = serde_json::from_str(data).ok()?;
    let object = value.as_object_mut()?;
    object.insert("id".to_owned(), "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv".into());
    object.insert("model".to_owned(), "acme/small".into());
    object.insert("provider".to_owned(), "Acme".into());
    object.remove("usage");
    serde_json::to_vec(&value).ok()
}

fn answers(criterion: &mut Criterion) {
    let (body, context) = (answer(), context());
    let mut group = criterion.benchmark_group("answer");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("1 KB", |bencher| {
        bencher.iter(|| black_box(rewrite_answer(black_box(&body), &context)).is_ok());
    });
    group.bench_function("1 KB through serde_json::Value", |bencher| {
        let text = std::str::from_utf8(&body).unwrap_or_default();
        bencher.iter(|| through_value(black_box(text)));
    });
    group.finish();
}

criterion_group!(benches, chunks, answers);
criterion_main!(benches);
