//! Tokens as Converse counts them: what was read from and written to caches stands beside the input.

use pointsman_domain::{ServedService, ServiceName};

use crate::{json::Raw, neutral::ReportedTokens};

/// The counts of an answer, or of the event that holds them, in the arithmetic of chat; a report without input is of something
/// else.
pub(super) fn tokens(holder: Raw<'_>) -> Option<ReportedTokens> {
    let usage = holder.member(b"usage")?;
    let tier = holder.member(b"serviceTier").and_then(|tier| tier.member(b"type")).and_then(Raw::text);
    let count = |name: &[u8]| usage.member(name).and_then(Raw::count);
    let (read, write) = (count(b"cacheReadInputTokens"), count(b"cacheWriteInputTokens"));
    let beside = read.unwrap_or_default().saturating_add(write.unwrap_or_default());
    Some(ReportedTokens {
        prompt: count(b"inputTokens")?.saturating_add(beside),
        cached: read,
        cache_write: write,
        cache_write_5m: written_for(usage, "5m"),
        cache_write_1h: written_for(usage, "1h"),
        completion: count(b"outputTokens").unwrap_or_default(),
        service: ServedService { tier: tier.and_then(|tier| ServiceName::parse(&tier)), geography: None },
        ..ReportedTokens::default()
    })
}

/// The tokens written to caches for that time.
fn written_for(usage: Raw<'_>, ttl: &str) -> Option<u64> {
    let is_meant = |entry: &Raw<'_>| entry.member(b"ttl").and_then(Raw::text).as_deref() == Some(ttl);
    usage.member(b"cacheDetails")?.elements().find(is_meant)?.member(b"inputTokens")?.count()
}
