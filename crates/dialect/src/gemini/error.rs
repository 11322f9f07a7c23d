//! Errors of the Gemini API: refused signatures, named waits, and an error inside a 200.
//!
//! Nothing of them reaches the client from here.

use std::time::Duration;

use crate::{
    answer::AnswerFault,
    json::{Cursor, Raw},
    refusal,
};

/// What a message says about a signature that it refuses or misses, in lower case.
const SIGNATURE: [&str; 3] = ["thought_signature", "thought signature", "thoughtsignature"];
/// Longest wait that can be wait.
const MAX_WAIT: Duration = Duration::from_secs(1_000_000_000_000);
/// A limit of a day is waited for so long if the provider names no time.
const OF_A_DAY: Duration = Duration::from_secs(60);

/// Whether an answer of `status` says that a signature of reasoning was refused or missed. The same body with
/// [`super::Signatures::StandIns`] may then be accepted.
pub(crate) fn refuses_signature(status: u16, body: &[u8]) -> bool {
    let value = std::str::from_utf8(body).ok().and_then(|text| Cursor::new(text).value().ok());
    let message = value.and_then(error_of).and_then(|error| error.member(b"message")?.text());
    let message = message.unwrap_or_default().to_ascii_lowercase();
    status == 400 && SIGNATURE.iter().any(|words| message.contains(words))
}

/// The time after which the provider will accept requests again, if it says so. Limits of minutes bear the names of limits
/// of days, too, so that a time counts for more than a name.
pub(crate) fn retry_delay(body: &[u8]) -> Option<Duration> {
    let value = Cursor::new(std::str::from_utf8(body).ok()?).value().ok()?;
    let error = error_of(value)?;
    let wait = details(error).filter_map(|detail| detail.member(b"retryDelay")?.text()).find_map(|text| seconds(&text));
    wait.or_else(|| {
        let message = error.member(b"message")?.text()?.into_owned();
        let (_, rest) = message.split_once("Please retry in ")?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        seconds(rest.get(..=end)?)
    })
    .or_else(|| is_daily(error).then_some(OF_A_DAY))
}

/// Whether a limit of a day was reached.
fn is_daily(error: Raw<'_>) -> bool {
    let violations = details(error).filter_map(|detail| detail.member(b"violations")).flat_map(Raw::elements);
    let mut ids = violations.filter_map(|violation| violation.member(b"quotaId")?.text());
    ids.any(|id| id.contains("PerDay") || id.contains("Daily"))
}

fn details(error: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    error.elements_of(b"details")
}

/// Decimal seconds with an `s` behind.
fn seconds(text: &str) -> Option<Duration> {
    let digits = text.trim().strip_suffix('s')?;
    // `parse` alone would also accept "inf", "nan" and "1e9".
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let seconds: f64 = digits.parse().ok()?;
    Some(Duration::from_secs_f64(seconds.min(MAX_WAIT.as_secs_f64())))
}

/// The failure of an answer whose body is an error.
pub(crate) fn fault(value: Raw<'_>) -> Option<AnswerFault> {
    error_of(value).map(refusal::fault)
}

/// The error of a body; without `alt=sse` it stands in a list.
fn error_of(value: Raw<'_>) -> Option<Raw<'_>> {
    let holder = value.elements().next().unwrap_or(value);
    holder.member(b"error").filter(|error| error.is_object())
}
