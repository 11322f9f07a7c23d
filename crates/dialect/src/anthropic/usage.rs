//! Tokens as the Messages API counts them: what was read from and written to caches stands beside the input.

use pointsman_domain::{ServedService, ServiceName};

use crate::{json::Raw, neutral::ReportedTokens};

/// The counts so far. `message_start` and every `message_delta` add to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
    web_searches: Option<u64>,
    service: ServedService,
}

impl Usage {
    /// Merges a `usage` object: a count replaces the earlier one, but no zero replaces another number.
    pub(super) fn merge(&mut self, usage: Raw<'_>) {
        self.merge_counts(usage);
        let [output, tools, speed, tier, geography, iterations] = usage.pick(byte_names![
            output_tokens_details server_tool_use speed service_tier inference_geo iterations
        ]);
        let count = |holder: Option<Raw<'_>>, name: &[u8]| holder?.member(name)?.count();
        replace(&mut self.thinking, count(output, b"thinking_tokens"));
        replace(&mut self.web_searches, count(tools, b"web_search_requests"));
        let name = |value: Option<Raw<'_>>| value.and_then(Raw::text).and_then(|name| ServiceName::parse(&name));
        // The only speed with a price of its own, and so a tier.
        let tier = name(speed).filter(|speed| !speed.is_standard()).or(name(tier));
        if self.service.tier.is_none_or(|known| known.is_standard()) {
            self.service.tier = tier.or(self.service.tier);
        }
        self.service.geography = name(geography).or(self.service.geography);
        if let Some(total) = iterations.and_then(sum_of_iterations) {
            self.input = total.input;
            self.output = total.output;
            self.cache_read = total.cache_read.or(self.cache_read);
            self.cache_write = total.cache_write.or(self.cache_write);
            self.cache_write_5m = total.cache_write_5m.or(self.cache_write_5m);
            self.cache_write_1h = total.cache_write_1h.or(self.cache_write_1h);
        }
    }

    /// Forgets what was counted of the output.
    pub(super) fn forget_output(&mut self) {
        self.output = None;
    }

    fn merge_counts(&mut self, usage: Raw<'_>) {
        for (key, value) in usage.members() {
            match &*key.name() {
                b"input_tokens" => replace(&mut self.input, value.count()),
                b"cache_read_input_tokens" => replace(&mut self.cache_read, value.count()),
                b"cache_creation_input_tokens" => replace(&mut self.cache_write, value.count()),
                b"output_tokens" => replace(&mut self.output, value.count()),
                b"cache_creation" => {
                    let count = |name: &[u8]| value.member(name)?.count();
                    replace(&mut self.cache_write_5m, count(b"ephemeral_5m_input_tokens"));
                    replace(&mut self.cache_write_1h, count(b"ephemeral_1h_input_tokens"));
                }
                _ => {}
            }
        }
    }

    /// The counts in the arithmetic of chat; `None` if the upstream gave none.
    pub(super) fn tokens(&self) -> Option<ReportedTokens> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let parts = [self.input, self.cache_read, self.cache_write];
        Some(ReportedTokens {
            prompt: parts.into_iter().flatten().fold(0, u64::saturating_add),
            cached: self.cache_read,
            cache_write: self.cache_write,
            cache_write_5m: self.cache_write_5m,
            cache_write_1h: self.cache_write_1h,
            audio_prompt: None,
            completion: self.output.unwrap_or(0),
            reasoning: self.thinking,
            audio_completion: None,
            web_searches: self.web_searches.filter(|searches| *searches > 0),
            service: self.service,
        })
    }
}

fn replace(count: &mut Option<u64>, new: Option<u64>) {
    if let Some(new) = new
        && (new > 0 || count.unwrap_or(0) == 0)
    {
        *count = Some(new);
    }
}

/// The sum over all iterations of this model. The counts at the top leave compactions out, and those of an advisor
/// belong to another model. `None` where the counts at the top are right: without a compaction, or after a fallback.
fn sum_of_iterations(iterations: Raw<'_>) -> Option<Usage> {
    let is = |iteration: Raw<'_>, kind: &str| iteration.kind().as_deref() == Some(kind);
    let has = |kind: &str| iterations.elements().any(|iteration| is(iteration, kind));
    if !has("compaction") || has("fallback_message") {
        return None;
    }
    let mut sum = Usage::default();
    for iteration in iterations.elements().filter(|one| is(*one, "compaction") || is(*one, "message")) {
        let mut counts = Usage::default();
        counts.merge_counts(iteration);
        for (total, count) in [
            (&mut sum.input, counts.input),
            (&mut sum.output, counts.output),
            (&mut sum.cache_read, counts.cache_read),
            (&mut sum.cache_write, counts.cache_write),
            (&mut sum.cache_write_5m, counts.cache_write_5m),
            (&mut sum.cache_write_1h, counts.cache_write_1h),
        ] {
            if let Some(count) = count {
                *total = Some(total.unwrap_or(0).saturating_add(count));
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Cursor;

    fn tokens(usages: &[&str]) -> ReportedTokens {
        let mut usage = Usage::default();
        for text in usages {
            usage.merge(Cursor::new(text).value().unwrap());
        }
        usage.tokens().unwrap()
    }

    #[test]
    fn what_stands_beside_the_input_is_added_to_the_prompt() {
        let tokens = tokens(&[
            r#"{"input_tokens":25,"cache_read_input_tokens":100,"cache_creation_input_tokens":7,
            "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"output_tokens":1}"#,
            r#"{"output_tokens":89,"output_tokens_details":{"thinking_tokens":40},"server_tool_use":{"web_search_requests":2}}"#,
        ]);
        assert_eq!((tokens.prompt, tokens.cached, tokens.cache_write), (132, Some(100), Some(7)));
        assert_eq!((tokens.cache_write_5m, tokens.cache_write_1h), (Some(3), Some(4)));
        assert_eq!((tokens.completion, tokens.reasoning, tokens.web_searches), (89, Some(40), Some(2)));
    }

    #[test]
    fn a_zero_or_absent_input_in_a_later_count_does_not_overwrite_the_first() {
        for later in [r#"{"input_tokens":0,"output_tokens":5}"#, r#"{"input_tokens":null,"output_tokens":5}"#] {
            let tokens = tokens(&[r#"{"input_tokens":25,"output_tokens":1}"#, later]);
            assert_eq!((tokens.prompt, tokens.completion), (25, 5), "{later}");
        }
        let corrected =
            tokens(&[r#"{"input_tokens":25,"output_tokens":1}"#, r#"{"input_tokens":30,"output_tokens":5}"#]);
        assert_eq!(corrected.prompt, 30);
    }

    #[test]
    fn compactions_are_counted_and_the_tokens_of_an_advisor_are_not() {
        let iterations = |more: &str| {
            format!(
                r#"{{"input_tokens":10,"output_tokens":2,"iterations":[{{"type":"compaction","input_tokens":500,"output_tokens":50}},
                {{"type":"advisor_message","input_tokens":9000,"output_tokens":900}},{{"type":"message","input_tokens":10,"output_tokens":2}}{more}]}}"#
            )
        };
        let counted = tokens(&[&iterations("")]);
        assert_eq!((counted.prompt, counted.completion), (510, 52));
        let after_fallback = tokens(&[&iterations(r#",{"type":"fallback_message","input_tokens":10}"#)]);
        assert_eq!((after_fallback.prompt, after_fallback.completion), (10, 2));
    }
}
