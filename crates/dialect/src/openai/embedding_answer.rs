//! Answers to embedding requests: checked, put in order, and written in the form that the client asked for.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::FinishReason;

use super::{
    answer::whole_answer,
    request::VectorFormat,
    usage::{ProducedOutput, ReportedUsage, billed_usage, push_cost},
};
use crate::{
    answer::{Answer, AnswerContext, AnswerFault, AnswerResult, Outcome},
    json::{Comma, Raw},
};

/// Checks the response of an embedding call and rewrites it: one vector for each of `inputs`, in order.
///
/// # Errors
/// When the body is no response, or does not hold one vector for each input.
pub fn rewrite_embeddings(
    body: &Bytes,
    inputs: usize,
    format: VectorFormat,
    context: &AnswerContext,
) -> Result<Answer, AnswerFault> {
    let answer = whole_answer(body)?;
    let vectors = vectors(answer, inputs)?;
    let reported = ReportedUsage::of_answer(answer);
    let usage = billed_usage(reported.as_ref(), ProducedOutput::default(), context);
    let cost = context.cost(&usage);
    let mut out = BytesMut::with_capacity(body.len() + 512);
    out.put_slice(b"{\"object\":\"list\",\"data\":[");
    for (index, vector) in vectors.into_iter().enumerate() {
        push!(out; Comma, br#"{"object":"embedding","index":"#, index as u64, br#","embedding":"#);
        push_vector(vector, format, &mut out)?;
        out.put_u8(b'}');
    }
    push!(out; br#"],"model":"#, context.model, br#","provider":"#, context.provider_name, br#","id":"#,
        context.generation.as_str(), br#","usage":{"prompt_tokens":"#, usage.prompt_tokens, br#","total_tokens":"#,
        usage.prompt_tokens);
    push_cost(&mut out, cost.as_ref());
    out.put_slice(b"}}");
    let finish = Some(FinishReason::Stop);
    Ok(Answer { body: out.freeze(), outcome: Outcome { usage, cost, finish, ..Outcome::default() } })
}

/// The vectors by their index.
fn vectors(answer: Raw<'_>, inputs: usize) -> AnswerResult<Vec<Raw<'_>>> {
    let data = answer.member(b"data").filter(|data| data.bytes().starts_with(b"["));
    let data = data.ok_or(AnswerFault::malformed("no list of embeddings"))?;
    let mut vectors: Vec<Option<Raw<'_>>> = vec![None; inputs];
    for (position, entry) in data.elements().enumerate() {
        let index = entry.member(b"index").and_then(Raw::count).map_or(position, saturated);
        let vector = entry.member(b"embedding").ok_or(AnswerFault::malformed("an entry without an embedding"))?;
        match vectors.get_mut(index) {
            Some(place @ None) => *place = Some(vector),
            _ => return Err(AnswerFault::malformed("two embeddings of one input, or one too many")),
        }
    }
    vectors.into_iter().collect::<Option<_>>().ok_or(AnswerFault::malformed("fewer embeddings than inputs"))
}

fn saturated(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Appends a vector. What has the wanted form already passes as it came.
fn push_vector(vector: Raw<'_>, format: VectorFormat, out: &mut BytesMut) -> AnswerResult {
    let malformed = || AnswerFault::malformed("an embedding that is no vector");
    if let Some(text) = vector.text() {
        let bytes = STANDARD.decode(text.as_bytes()).map_err(|_| malformed())?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if floats.is_empty() || !rest.is_empty() {
            return Err(malformed());
        }
        if format == VectorFormat::Base64 {
            out.put_slice(vector.bytes());
            return Ok(());
        }
        out.put_u8(b'[');
        for (place, float) in floats.iter().enumerate() {
            let float = f32::from_le_bytes(*float);
            if !float.is_finite() {
                return Err(malformed());
            }
            let comma = if place > 0 { "," } else { "" };
            // Displayed floats read back as the same bits. Writing to memory cannot fail.
            let _ = write!(out, "{comma}{float}");
        }
        out.put_u8(b']');
        return Ok(());
    }
    if !vector.bytes().starts_with(b"[") {
        return Err(malformed());
    }
    let number =
        |raw: Raw<'_>| std::str::from_utf8(raw.bytes()).ok()?.parse::<f32>().ok().filter(|float| float.is_finite());
    let floats: Option<Vec<f32>> = vector.elements().map(number).collect();
    let floats = floats.filter(|floats| !floats.is_empty()).ok_or_else(malformed)?;
    match format {
        VectorFormat::Float => out.put_slice(vector.bytes()),
        VectorFormat::Base64 => {
            let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
            push!(out; br#"""#, STANDARD.encode(bytes).as_bytes(), br#"""#);
        }
    }
    Ok(())
}
