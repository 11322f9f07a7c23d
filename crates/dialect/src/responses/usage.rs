//! Tokens as the Responses API counts them: details stand inside the input and the output, as in chat.

use pointsman_domain::{ServedService, ServiceName};

use crate::{json::Raw, neutral::ReportedTokens};

/// The counts of a response; `None` if there are none. `searches`: calls of the web search in the answer.
pub(super) fn tokens(response: Raw<'_>, searches: u64) -> Option<ReportedTokens> {
    let usage = response.member(b"usage")?;
    let tier = response.member(b"service_tier").and_then(Raw::text).and_then(|tier| ServiceName::parse(&tier));
    let count = |name: &[u8]| usage.member(name)?.count();
    let detail = |holder: &[u8], name: &[u8]| usage.member(holder)?.member(name)?.count();
    let (input, output) = (count(b"input_tokens"), count(b"output_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(ReportedTokens {
        prompt: input.unwrap_or(0),
        cached: detail(b"input_tokens_details", b"cached_tokens"),
        cache_write: detail(b"input_tokens_details", b"cache_write_tokens"),
        completion: output.unwrap_or(0),
        reasoning: detail(b"output_tokens_details", b"reasoning_tokens"),
        web_searches: (searches > 0).then_some(searches),
        service: ServedService { tier, geography: None },
        ..ReportedTokens::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Cursor;

    #[test]
    fn details_are_inside_of_the_totals() {
        let text = r#"{"usage":{"input_tokens":75,"input_tokens_details":{"cached_tokens":32,"cache_write_tokens":8},"output_tokens":1186,
            "output_tokens_details":{"reasoning_tokens":1024},"total_tokens":1261},"service_tier":"flex"}"#;
        let expected = ReportedTokens {
            prompt: 75,
            cached: Some(32),
            cache_write: Some(8),
            completion: 1186,
            reasoning: Some(1024),
            web_searches: Some(2),
            service: ServedService { tier: ServiceName::parse("flex"), geography: None },
            ..ReportedTokens::default()
        };
        assert_eq!(tokens(Cursor::new(text).value().unwrap(), 2), Some(expected));
        for empty in ["{}", "null", r#"{"usage":{"input_tokens":-1}}"#] {
            assert_eq!(tokens(Cursor::new(empty).value().unwrap(), 0), None, "{empty}");
        }
    }
}
