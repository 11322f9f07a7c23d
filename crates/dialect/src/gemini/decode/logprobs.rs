//! Log probabilities of a candidate in the form of chat.

use std::borrow::Cow;

use bytes::BytesMut;

use crate::json::{Raw, push_comma};

/// `logprobs` of chat; `None` if the result has another form.
pub(super) fn of_chat(result: Raw<'_>) -> Option<String> {
    let chosen: Vec<Raw<'_>> = result.member(b"chosenCandidates")?.elements().collect();
    let tops: Vec<Raw<'_>> = result.elements_of(b"topCandidates").collect();
    let mut out = BytesMut::from(&b"{\"content\":["[..]);
    for (place, candidate) in chosen.iter().enumerate() {
        push_comma(&mut out);
        push_logprob(*candidate, &mut out)?;
        out.extend_from_slice(b",\"top_logprobs\":[");
        let others = tops.get(place).and_then(|top| top.member(b"candidates"));
        for other in others.into_iter().flat_map(Raw::elements) {
            push_comma(&mut out);
            push_logprob(other, &mut out)?;
            out.extend_from_slice(b"}");
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"],\"refusal\":null}");
    String::from_utf8(out.to_vec()).ok()
}

/// Appends an entry without its closing brace.
fn push_logprob(candidate: Raw<'_>, out: &mut BytesMut) -> Option<()> {
    let token: Cow<'_, str> = candidate.member(b"token")?.text()?;
    push!(out; br#"{"token":"#, token, br#","logprob":"#, candidate.member(b"logProbability")?.bytes(),
        br#","bytes":["#);
    let bytes: Vec<String> = token.bytes().map(|byte| byte.to_string()).collect();
    push!(out; bytes.join(",").as_bytes(), b"]");
    Some(())
}
