//! What every test of answers needs: a context, ways to feed a stream, and a readable account of what came out.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{AnswerContext, AnswerFault, ChatStream, Outcome, StreamError, StreamOptions, UsageChunk};
use pointsman_domain::{GenerationId, Pricing, Usage, Usd};

/// Everything the tests rewrite with: 12 estimated prompt tokens, $0.15 and $0.60 per million.
pub(crate) fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::parse("gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").expect("an id"),
        created: 1_763_629_500,
        model: Arc::from("acme/small"),
        provider_name: Arc::from("Acme"),
        fingerprint: Arc::from("fp_1"),
        pricing: Some(Arc::new(Pricing {
            prompt: usd("0.00000015"),
            completion: usd("0.0000006"),
            ..Pricing::default()
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

pub(crate) fn usd(text: &str) -> Usd {
    text.parse().expect("an amount")
}

/// What the client would be told when an attempt breaks in the middle.
pub(crate) fn stream_error() -> StreamError {
    StreamError {
        code: 502,
        message: "The provider's answer broke off.".into(),
        kind: "provider_error",
        error_type: "provider_unavailable",
        reason: None,
        provider_name: Some(Arc::from("Acme")),
        previous_errors: None,
        request_id: None,
        is_final: false,
    }
}

/// Context and options of a corpus file: its first line may be a comment `: options …` with words for them.
pub(crate) fn setting(stream: &[u8]) -> (AnswerContext, StreamOptions) {
    let (mut context, mut options) = (context(), StreamOptions::default());
    let first_line = stream.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = String::from_utf8_lossy(first_line.strip_prefix(b": options ").unwrap_or_default()).into_owned();
    for word in words.split_whitespace() {
        match word {
            "include_usage" => options.usage_chunk = UsageChunk::WithoutChoices,
            "no_usage" => options.usage_chunk = UsageChunk::Omitted,
            "exclude_reasoning" => context.exclude_reasoning = true,
            "legacy_functions" => context.legacy_functions = true,
            "no_error_compat" => options.error_compat = false,
            "tiny_events" => options.max_event_bytes = 256,
            _ => panic!("unknown option {word}"),
        }
    }
    (context, options)
}

/// What came of a stream.
pub(crate) struct Run {
    pub(crate) out: Vec<u8>,
    pub(crate) fault: Option<AnswerFault>,
    pub(crate) had_content: bool,
    pub(crate) outcome: Outcome,
}

/// Feeds the reads and ends the stream; a fault ends it with the error chunk, as the relay would.
pub(crate) fn run<'a>(
    reads: impl IntoIterator<Item = &'a [u8]>,
    (context, options): (AnswerContext, StreamOptions),
) -> Run {
    let mut stream = ChatStream::new(context, options);
    let mut out = BytesMut::new();
    let mut pushed = Ok(());
    for read in reads {
        pushed = stream.push(&Bytes::copy_from_slice(read), &mut out).map(|_| ());
        if pushed.is_err() {
            break;
        }
    }
    let fault = pushed.and_then(|()| stream.end(&mut out)).err();
    let had_content = stream.has_content();
    if fault.is_some() {
        stream.fail(&stream_error(), &mut out);
    }
    assert!(stream.is_done(), "a stream always ends");
    Run { out: out.to_vec(), fault, had_content, outcome: stream.outcome() }
}

/// Classes that few providers report.
fn special_classes(usage: &Usage) -> String {
    let classes = [
        (usage.cache_write_1h_tokens, "written for 1 h"),
        (usage.audio_tokens, "audio in"),
        (usage.audio_output_tokens, "audio out"),
    ];
    let present = classes.into_iter().filter(|(count, _)| *count > 0);
    let reported = usage.reported_cost.map(|cost| format!(", {cost} USD reported"));
    present.map(|(count, name)| format!(", {count} {name}")).chain(reported).collect()
}

/// An account for a golden file.
pub(crate) fn account(text: &str, fault: Option<&AnswerFault>, outcome: Option<&Outcome>) -> String {
    let mut account = text.to_owned();
    if let Some(fault) = fault {
        let _ = writeln!(account, "-- fault {fault}");
    }
    if let Some(outcome) = outcome {
        let Outcome {
            usage,
            cost,
            finish,
            native_finish,
            upstream_id,
            images,
            hidden_tokens: _,
            gives_reasoning_content: _,
        } = outcome;
        let _ = writeln!(
            account,
            "-- {} + {} tokens ({} cached, {} written, {} reasoning){}, {} billed images, {} searches{}, {} USD",
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            special_classes(usage),
            usage.images,
            usage.web_searches,
            if usage.estimated { ", estimated" } else { "" },
            cost.map_or_else(|| "unknown".to_owned(), |cost| cost.total().to_string()),
        );
        let _ =
            writeln!(account, "-- finish {finish:?} {native_finish:?}, upstream id {upstream_id:?}, {images} images");
    }
    account
}

/// The files of a corpus directory that end in `extension`, in order, with their content.
pub(crate) fn corpus(directory: &str, extension: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(directory);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("a corpus directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", directory.display());
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a readable file"))).collect()
}
