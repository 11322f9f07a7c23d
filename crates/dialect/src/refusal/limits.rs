//! Limits of the account that a refusal names, against the size of the request that got it.
//!
//! A request that is larger than the limit is refused at any time, so that waiting cures nothing and the endpoint need not rest.

use super::{TokenLimit, request::RefusedRequest, said::Said, words::plain};
use crate::json::{Cursor, Raw};

/// Most tokens per estimated token of a prompt: some languages have a token for a third of the bytes that are assumed.
const MOST_PER_ESTIMATED: u64 = 3;

/// The part of a limit that is room for the requests of others: a quarter.
const ROOM_FOR_OTHERS: u64 = 4;

/// The size of a request, if its refusal is not about all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Larger than the limit.
    Larger,
    /// Perhaps larger: the size is an estimate.
    PerhapsLarger,
}

/// Compares a request, with its estimated tokens, with the limit that refused it. One that stands in a header alone may be
/// another than that which refused it.
pub(super) fn judge(
    said: &Said,
    body: &[u8],
    request: &RefusedRequest<'_>,
    (prompt_tokens, in_header): (u32, Option<TokenLimit>),
) -> Option<Size> {
    let messages = [plain(&said.message), plain(&said.inner_message)];
    if messages.iter().any(|message| exceeds_alone(message)) {
        return Some(Size::Larger);
    }
    // It may fit later, and smaller ones fit now.
    if messages.iter().any(|message| leaves_room(message)) {
        return Some(Size::PerhapsLarger);
    }
    let in_words = messages.iter().filter_map(|message| before(message, " input tokens per minute"));
    let in_words = in_words.chain(quota_value(body)).filter(|limit| *limit > 0).min();
    let prompt = u64::from(prompt_tokens);
    let (limit, estimate) = match (in_words, in_header) {
        (Some(limit), _) | (None, Some(TokenLimit::Prompts(limit))) => (limit, prompt),
        (None, Some(TokenLimit::All(limit))) => (limit, prompt.saturating_add(request.most_output())),
        // One of long prompts, perhaps.
        (None, Some(TokenLimit::Other)) => return Some(Size::PerhapsLarger),
        // Azure asks so for a day where the request is larger than the limit.
        (None, None) => {
            let is_for_a_day = messages.iter().any(|message| message.contains("retry after 86400 seconds"));
            return is_for_a_day.then_some(Size::PerhapsLarger);
        }
    };
    if limit == 0 {
        return None;
    }
    // Tokens that are read from a cache do not count.
    let is_larger = estimate * 4 >= limit.saturating_mul(5) && !request.has_name("cache_control");
    match () {
        () if is_larger => Some(Size::Larger),
        () if estimate * MOST_PER_ESTIMATED > limit => Some(Size::PerhapsLarger),
        () => None,
    }
}

/// Whether a message as `limit 30000, used 0, requested 41000` says that the request asks for more than the limit.
fn exceeds_alone(message: &str) -> bool {
    let limit = message.find("limit ").and_then(|_| after(message, "limit "));
    matches!((limit, after(message, "requested ")), (Some(limit), Some(requested)) if requested > limit)
}

/// Whether a message as `limit 30000, used 5000, requested 29000` says that a good part of the limit is left for others.
fn leaves_room(message: &str) -> bool {
    let limit = message.find("limit ").and_then(|_| after(message, "limit "));
    let (Some(limit), Some(used), Some(requested)) = (limit, after(message, "used "), after(message, "requested "))
    else {
        return false;
    };
    let left = limit.saturating_sub(used);
    requested > left && left > 0 && left.saturating_mul(ROOM_FOR_OTHERS) >= limit
}

/// The number behind the last of these words that one follows.
fn after(message: &str, words: &str) -> Option<u64> {
    message.rmatch_indices(words).find_map(|(at, _)| {
        let rest = message.get(at + words.len()..)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
        number(rest.get(..end)?)
    })
}

/// The number before these words.
fn before(message: &str, words: &str) -> Option<u64> {
    let (start, _) = message.split_once(words)?;
    number(start.rsplit(' ').next()?)
}

fn number(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// The smallest limit on prompt tokens among the violated quotas of Google.
fn quota_value(body: &[u8]) -> Option<u64> {
    let value = Cursor::new(std::str::from_utf8(body).ok()?).value().ok()?;
    let whole = value.elements().next().filter(|_| value.is_array()).unwrap_or(value);
    let details = whole.member(b"error")?.member(b"details")?;
    let violations = details.elements().filter_map(|detail| detail.member(b"violations")).flat_map(Raw::elements);
    let is_of_prompts = |violation: &Raw<'_>| {
        let metric = violation.member(b"quotaMetric").and_then(Raw::text);
        metric.is_some_and(|metric| metric.contains("input_token"))
    };
    let limits = violations.filter(is_of_prompts).filter_map(|violation| {
        let value = violation.member(b"quotaValue")?;
        value.count().or_else(|| number(&value.text()?))
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(message: &str, prompt_tokens: u32) -> Option<Size> {
        let said = Said { message: message.to_owned(), ..Said::default() };
        judge(&said, b"", &RefusedRequest::new(b"{}"), (prompt_tokens, None))
    }

    #[test]
    fn a_request_is_compared_with_the_limit_that_refuses_it() {
        let words =
            "This request would exceed your organization's rate limit of 30,000 input tokens per minute (org: x).";
        assert_eq!(judged(words, 37_500), Some(Size::Larger));
        assert_eq!(judged(words, 37_499), Some(Size::PerhapsLarger));
        assert_eq!(judged(words, 10_001), Some(Size::PerhapsLarger));
        assert_eq!(judged(words, 10_000), None);
        assert_eq!(judged("Limit 30000, Used 29000, Requested 41,000.", 1), Some(Size::Larger));
        assert_eq!(judged("Limit 30000, Used 29000, Requested 4000.", 1), None);
        assert_eq!(judged("Limit 30000, Used 5000, Requested 29000.", 1), Some(Size::PerhapsLarger));
        assert_eq!(judged("Limit 30000, Used 22500, Requested 7501.", 1), Some(Size::PerhapsLarger));
        assert_eq!(judged("Limit 30000, Used 22501, Requested 7501.", 1), None, "little is left for anybody");
        assert_eq!(judged("Limit 3, Used 3, Requested 1.", 1), None);
        assert_eq!(judged("Limit 0, Used 0, Requested 0.", 1), None);
        assert_eq!(judged("Rate limit reached.", 1_000_000), None);
    }

    #[test]
    fn limits_stand_in_quotas_and_headers() {
        let body = br#"{"error":{"details":[{"violations":[{"quotaMetric":"x/generate_content_free_tier_requests","quotaValue":"5"},
            {"quotaMetric":"x/generate_content_free_tier_input_token_count","quotaValue":"30000"}]}]}}"#;
        let plain = RefusedRequest::new(b"{}");
        let cached = RefusedRequest::new(br#"{"system":[{"text":"Hi","cache_control":{"type":"ephemeral"}}]}"#);
        let judged = |body, request, sizes| judge(&Said::default(), body, request, sizes);
        assert_eq!(judged(body, &plain, (40_000, None)), Some(Size::Larger));
        assert_eq!(judged(body, &cached, (40_000, None)), Some(Size::PerhapsLarger));
        assert_eq!(judged(body, &plain, (4_000, None)), None);
        let prompts = Some(TokenLimit::Prompts(30_000));
        assert_eq!(judged(b"", &plain, (40_000, prompts)), Some(Size::Larger));
        assert_eq!(judged(b"", &plain, (37_499, prompts)), Some(Size::PerhapsLarger));
        assert_eq!(judged(b"", &cached, (40_000, prompts)), Some(Size::PerhapsLarger));
        assert_eq!(judged(b"", &plain, (10_000, prompts)), None);
        let all = Some(TokenLimit::All(30_000));
        for name in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
            let body = format!("{{\"{name}\":36500}}");
            let long = RefusedRequest::new(body.as_bytes());
            let judged = |limit| judge(&Said::default(), b"", &long, (1_000, limit));
            assert_eq!((judged(all), judged(prompts)), (Some(Size::Larger), None), "{name}");
        }
        assert_eq!(judged(b"", &plain, (1_000, all)), None);
        assert_eq!(judged(b"", &plain, (1_000, Some(TokenLimit::Other))), Some(Size::PerhapsLarger));
    }
}
