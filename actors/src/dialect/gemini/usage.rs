//! Tokens as the Gemini API counts them: thoughts stand beside the answer, and what was read from a cache is in the prompt.

use crate::dialect::{json::Raw, neutral::ReportedTokens};

/// The counts of a complete report in the arithmetic of chat; a report without the prompt is of something else.
pub(super) fn tokens(usage: Raw<'_>) -> Option<ReportedTokens> {
    let count = |name: &[u8]| usage.member(name).and_then(Raw::count);
    let prompt = count(b"promptTokenCount")?;
    let thoughts = count(b"thoughtsTokenCount");
    Some(ReportedTokens {
        prompt: prompt.saturating_add(count(b"toolUsePromptTokenCount").unwrap_or_default()),
        cached: count(b"cachedContentTokenCount"),
        audio_prompt: audio(usage, b"promptTokensDetails"),
        completion: count(b"candidatesTokenCount").unwrap_or_default().saturating_add(thoughts.unwrap_or_default()),
        reasoning: thoughts,
        audio_completion: audio(usage, b"candidatesTokensDetails"),
        ..ReportedTokens::default()
    })
}

/// The tokens of audio in a list by modality.
fn audio(usage: Raw<'_>, list: &[u8]) -> Option<u64> {
    let is_audio = |entry: &Raw<'_>| entry.member(b"modality").and_then(Raw::text).as_deref() == Some("AUDIO");
    usage.member(list)?.elements().find(is_audio)?.member(b"tokenCount")?.count()
}
