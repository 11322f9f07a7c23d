//! Tokens as the Gemini API counts them: reasoning stands beside the answer, and what was read from a cache is in the prompt.

use pointsman_domain::{ServedService, ServiceName};

use crate::{json::Raw, neutral::ReportedTokens};

/// The counts of a complete report in the arithmetic of chat; a report without the prompt is of something else.
pub(super) fn tokens(usage: Raw<'_>) -> Option<ReportedTokens> {
    let [prompt, tools, cached, candidates, reasoning] = usage
        .pick(byte_names![
            promptTokenCount toolUsePromptTokenCount cachedContentTokenCount candidatesTokenCount
            thoughtsTokenCount
        ])
        .map(|count| count.and_then(Raw::count));
    let [prompts, caches, completions] =
        usage.pick([b"promptTokensDetails", b"cacheTokensDetails", b"candidatesTokensDetails"]);
    // Audio that was read from a cache is billed as that.
    let cached_audio = caches.and_then(audio).unwrap_or_default();
    Some(ReportedTokens {
        prompt: prompt?.saturating_add(tools.unwrap_or_default()),
        cached,
        audio_prompt: prompts.and_then(audio).map(|audio| audio.saturating_sub(cached_audio)),
        completion: candidates.unwrap_or_default().saturating_add(reasoning.unwrap_or_default()),
        reasoning,
        audio_completion: completions.and_then(audio),
        service: ServedService { tier: tier(usage), geography: None },
        ..ReportedTokens::default()
    })
}

/// The service tier, as one of Google's two APIs tells it.
fn tier(usage: Raw<'_>) -> Option<ServiceName> {
    let [tier, traffic] = usage.pick([b"serviceTier", b"trafficType"]);
    let word = tier.or(traffic)?.text()?.to_ascii_lowercase();
    let name = word.strip_prefix("service_tier_").or_else(|| word.strip_prefix("on_demand_")).unwrap_or(&word);
    ServiceName::parse(name)
}

/// The tokens of audio in a list by modality.
fn audio(list: Raw<'_>) -> Option<u64> {
    let is_audio = |entry: &Raw<'_>| entry.member(b"modality").and_then(Raw::text).as_deref() == Some("AUDIO");
    list.elements().find(is_audio)?.member(b"tokenCount")?.count()
}
