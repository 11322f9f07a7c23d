//! The rewriting of streams: any bytes become events of our form that end with one `[DONE]`, the same ones however
//! the bytes are cut into reads, and with an error chunk unless their end was proved.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{ChatStream, StreamError, StreamOptions};
use serde_json::Value;

/// See the module.
pub(crate) fn check(bytes: &[u8]) {
    check_with(bytes, || ChatStream::new(super::answer::context(), options()), in_our_form);
}

/// Limits of the streams here.
pub(crate) fn options() -> StreamOptions {
    StreamOptions { max_event_bytes: 4096, ..StreamOptions::default() }
}

/// The property for the streams that `new` makes, whose bytes have this form.
pub(crate) fn check_with(bytes: &[u8], new: impl Fn() -> ChatStream, in_form: fn(&Run)) {
    let whole = run(new(), std::iter::once(bytes));
    in_form(&whole);
    let pieces = super::pieces::cut(bytes);
    // A fault in the middle of a read takes what stood before it in the same read; what is whole must be the same.
    let cut = run(new(), pieces.iter().map(Vec::as_slice));
    in_form(&cut);
    if !whole.failed && !cut.failed {
        assert_eq!(String::from_utf8_lossy(&whole.out), String::from_utf8_lossy(&cut.out), "cut by chance");
    }
    assert_eq!(whole.failed, cut.failed, "cut by chance");
}

/// What became of a stream.
pub(crate) struct Run {
    /// What the client got.
    pub(crate) out: Vec<u8>,
    /// Whether its end was not proved.
    pub(crate) failed: bool,
}

fn run<'a>(mut stream: ChatStream, reads: impl Iterator<Item = &'a [u8]>) -> Run {
    let mut out = BytesMut::new();
    let mut pushed = Ok(());
    for read in reads {
        pushed = stream.push(&Bytes::copy_from_slice(read), &mut out).map(|_| ());
        if pushed.is_err() || stream.is_done() {
            break;
        }
    }
    let failed = pushed.and_then(|()| stream.end(&mut out)).is_err();
    if failed {
        let error = StreamError {
            code: 502,
            message: "The provider's answer broke off.".into(),
            kind: "provider_error",
            error_type: "provider_unavailable",
            reason: None,
            provider_name: None,
            request_id: None,
            previous_errors: None,
            is_final: false,
        };
        stream.fail(&error, &mut out);
    }
    assert!(stream.is_done(), "a stream always ends");
    let _ = stream.outcome();
    Run { out: out.to_vec(), failed }
}

/// Checks the form of a stream for a client of chats.
pub(crate) fn in_our_form(run: &Run) {
    let text = std::str::from_utf8(&run.out).expect("a client is sent UTF-8");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let mut errors = 0;
    for event in text.strip_suffix("data: [DONE]\n\n").unwrap_or_default().split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {event:?}"));
        assert!(!data.contains(['\n', '\r']), "{data:?}");
        errors += usize::from(data.contains("\"error\":{\"code\":502,"));
        let Some(chunk) = super::json::read(data) else { continue };
        assert_eq!(chunk["id"], "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv");
        assert_eq!((&chunk["model"], &chunk["object"]), (&"acme/small".into(), &"chat.completion.chunk".into()));
        assert!(chunk["system_fingerprint"].as_str().is_some_and(|print| !print.is_empty()), "{chunk}");
        assert!(["usage", "error"].iter().all(|name| chunk.get(name).is_none_or(Value::is_object)), "{chunk}");
        for choice in chunk["choices"].as_array().expect("choices") {
            assert!(choice["index"].is_u64() && choice["delta"].is_object(), "{chunk}");
            assert!(choice.get("finish_reason").is_some(), "{chunk}");
        }
    }
    assert_eq!(errors, usize::from(run.failed), "{text}");
}
