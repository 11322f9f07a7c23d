//! Usage of an answer: read from the provider, repaired, estimated where it is missing, priced and written.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::{CostBreakdown, ServedService, ServiceName, Usage, Usd};

use crate::{
    answer::AnswerContext,
    json::{Cursor, JsonFault, Raw, push_count, push_member, push_usd},
    neutral::ReportedTokens,
};

/// Details that are forwarded as reported. Only audio has prices of its own.
const PROMPT_DETAILS: [&[u8]; 3] = [b"audio_tokens", b"image_tokens", b"text_tokens"];
const COMPLETION_DETAILS: [&[u8]; 5] =
    [b"audio_tokens", b"image_tokens", b"text_tokens", b"accepted_prediction_tokens", b"rejected_prediction_tokens"];

/// Usage as reported by the provider. Missing, negative, invalid or implausible figures are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReportedUsage {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_write: Option<u64>,
    /// Of `cache_write`, by the time for which they were written.
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    reasoning: Option<u64>,
    searches: Option<u64>,
    cost: Option<Usd>,
    service: ServedService,
    prompt_details: [Option<u64>; PROMPT_DETAILS.len()],
    completion_details: [Option<u64>; COMPLETION_DETAILS.len()],
}

impl From<&ReportedTokens> for ReportedUsage {
    fn from(tokens: &ReportedTokens) -> ReportedUsage {
        let plausible = |count: Option<u64>| count.filter(|count| *count <= u64::from(u32::MAX));
        ReportedUsage {
            prompt: plausible(Some(tokens.prompt)),
            completion: plausible(Some(tokens.completion)),
            total: plausible(Some(tokens.prompt.saturating_add(tokens.completion))),
            cached: plausible(tokens.cached),
            cache_write: plausible(tokens.cache_write),
            cache_write_5m: plausible(tokens.cache_write_5m),
            cache_write_1h: plausible(tokens.cache_write_1h),
            reasoning: plausible(tokens.reasoning),
            searches: plausible(tokens.web_searches),
            cost: None,
            service: tokens.service,
            prompt_details: [plausible(tokens.audio_prompt), None, None],
            completion_details: [plausible(tokens.audio_completion), None, None, None, None],
        }
    }
}

/// Amount of output seen while an answer passed, for estimates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProducedOutput {
    /// UTF-8 bytes of text, refusals, names and arguments of calls.
    pub(super) text_bytes: u64,
    /// UTF-8 bytes of reasoning.
    pub(super) reasoning_bytes: u64,
    /// Images in the answer.
    pub(super) images: u64,
    /// Whether some of the reasoning was in the member `reasoning_content`.
    pub(super) has_reasoning_content: bool,
}

impl ProducedOutput {
    /// The output beyond `earlier`.
    pub(super) fn since(&self, earlier: &ProducedOutput) -> ProducedOutput {
        ProducedOutput {
            text_bytes: self.text_bytes.saturating_sub(earlier.text_bytes),
            reasoning_bytes: self.reasoning_bytes.saturating_sub(earlier.reasoning_bytes),
            images: self.images.saturating_sub(earlier.images),
            has_reasoning_content: self.has_reasoning_content,
        }
    }

    /// Estimated tokens of text and reasoning.
    pub(super) fn text_tokens(&self) -> u64 {
        tokens(self.text_bytes + self.reasoning_bytes)
    }

    /// Reasoning tokens that the answer did not show. Text of less than half of them (four bytes each) is a summary, which
    /// is generated after the reasoning.
    pub(super) fn hidden_tokens(&self, usage: &Usage) -> u64 {
        let is_summary = self.reasoning_bytes < 2 * usage.reasoning_tokens;
        if is_summary { usage.reasoning_tokens } else { 0 }
    }
}

impl ReportedUsage {
    /// Reads a `usage` object. Both families of names are known; the prompt convention wins where both are given.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<ReportedUsage, JsonFault> {
        let mut reported = ReportedUsage::default();
        cursor.pass_byte(b'{')?;
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            match &*key.name() {
                b"prompt_tokens_details" | b"input_tokens_details" => reported.read_prompt_details(cursor)?,
                b"completion_tokens_details" | b"output_tokens_details" => reported.read_completion_details(cursor)?,
                name => reported.note(name, cursor.value()?),
            }
        }
        Ok(reported)
    }

    /// What a body reports that is no chunk of a stream.
    pub(super) fn of_answer(answer: Raw<'_>) -> Option<ReportedUsage> {
        let usage = answer.member(b"usage").filter(|usage| usage.is_object())?;
        let reported = ReportedUsage::read(&mut Cursor::over(usage)).ok()?;
        Some(reported.with_tier(answer.member(b"service_tier").and_then(service_name)))
    }

    /// Whether any token count is above 0.
    pub(super) fn is_credible(&self) -> bool {
        [self.prompt, self.completion].iter().flatten().any(|count| *count > 0)
    }

    /// Notes the tier that the answer tells beside its usage.
    pub(super) fn with_tier(mut self, tier: Option<ServiceName>) -> ReportedUsage {
        self.service.tier = tier.or(self.service.tier);
        self
    }

    fn note(&mut self, name: &[u8], value: Raw<'_>) {
        match name {
            b"prompt_tokens" => self.prompt = value.count(),
            b"completion_tokens" => self.completion = value.count(),
            b"total_tokens" => self.total = value.count(),
            b"input_tokens" => self.prompt = self.prompt.or(value.count()),
            b"output_tokens" => self.completion = self.completion.or(value.count()),
            b"cached_tokens" | b"prompt_cache_hit_tokens" | b"cache_read_input_tokens" => {
                self.cached = self.cached.or(value.count());
            }
            b"cache_creation" => self.read_cache_writes(value),
            b"cache_creation_input_tokens" => self.cache_write = self.cache_write.or(value.count()),
            b"server_tool_use" => self.searches = value.member(b"web_search_requests").and_then(Raw::count),
            b"cost" => self.cost = reported_dollars(value.member(b"total_cost").unwrap_or(value)),
            b"estimated_cost" => self.cost = self.cost.or(reported_dollars(value)),
            b"cost_in_usd_ticks" => self.cost = self.cost.or(reported_dollars(value).map(of_ticks)),
            // Perplexity counts its queries; xAI counts the sources of its live search, and charges for each.
            b"num_search_queries" | b"num_sources_used" => self.searches = value.count(),
            b"service_tier" if self.service.tier.is_none() => self.service.tier = service_name(value),
            // The only speed with a price of its own, and so a tier.
            b"speed" => {
                self.service.tier = service_name(value).filter(|name| !name.is_standard()).or(self.service.tier)
            }
            b"inference_geo" => self.service.geography = service_name(value),
            _ => {}
        }
    }

    fn read_prompt_details(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonFault> {
        for_each_detail(cursor, |name, value| match name {
            b"cached_tokens" => self.cached = value.count().or(self.cached),
            b"cache_write_tokens" | b"cache_creation_tokens" => self.cache_write = value.count().or(self.cache_write),
            b"cache_creation_token_details" | b"cache_creation" => self.read_cache_writes(value),
            _ => keep_detail(&PROMPT_DETAILS, &mut self.prompt_details, name, value),
        })
    }

    /// Tokens written to the cache, by the time for which they were written.
    fn read_cache_writes(&mut self, value: Raw<'_>) {
        let count = |name: &[u8]| value.member(name).and_then(Raw::count);
        self.cache_write_5m = count(b"ephemeral_5m_input_tokens").or(self.cache_write_5m);
        self.cache_write_1h = count(b"ephemeral_1h_input_tokens").or(self.cache_write_1h);
    }

    /// The usage with these counts. Input tokens that are not plain text are disjoint parts of the prompt, and output tokens
    /// of audio are at most those that are not reasoning.
    fn usage(&self, prompt_tokens: u64, completion_tokens: u64, reasoning: u64, context: &AnswerContext) -> Usage {
        let cached_tokens = self.cached.unwrap_or(0).min(prompt_tokens);
        let by_time = self.cache_write_5m.unwrap_or(0) + self.cache_write_1h.unwrap_or(0);
        let cache_write_tokens = self.cache_write.unwrap_or(by_time).min(prompt_tokens - cached_tokens);
        let ([audio, ..], [audio_output, ..]) = (self.prompt_details, self.completion_details);
        let reasoning_tokens = reasoning.min(completion_tokens);
        Usage {
            prompt_tokens,
            completion_tokens,
            cached_tokens,
            cache_write_tokens,
            cache_write_1h_tokens: self.cache_write_1h.unwrap_or(0).min(cache_write_tokens),
            audio_tokens: audio.unwrap_or(0).min(prompt_tokens - cached_tokens - cache_write_tokens),
            audio_output_tokens: audio_output.unwrap_or(0).min(completion_tokens - reasoning_tokens),
            reasoning_tokens,
            images: u64::from(context.images),
            web_searches: self.searches.unwrap_or(0),
            reported_cost: self.cost,
            estimated: false,
            service: context.served(self.service),
        }
    }

    fn read_completion_details(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonFault> {
        for_each_detail(cursor, |name, value| match name {
            b"reasoning_tokens" => self.reasoning = value.count(),
            _ => keep_detail(&COMPLETION_DETAILS, &mut self.completion_details, name, value),
        })
    }

    /// Output tokens including reasoning. Some providers count reasoning separately, which is visible only in their
    /// total.
    fn completion_with_reasoning(&self) -> Option<u64> {
        let completion = self.completion?;
        let reasoning = self.reasoning.unwrap_or(0);
        let apart = self.prompt.unwrap_or(0) + completion + reasoning;
        Some(if reasoning > 0 && self.total == Some(apart) { completion + reasoning } else { completion })
    }
}

/// The usage to bill for a whole answer: reported figures, repaired, and estimates where no plausible figure was reported.
pub(super) fn billed_usage(
    reported: Option<&ReportedUsage>,
    produced: ProducedOutput,
    context: &AnswerContext,
) -> Usage {
    usage_with_later_output(reported, produced, ProducedOutput::default(), context)
}

/// The usage to bill for an answer that was cut: as for a whole one, with an estimate of the output that came after the
/// provider's last report.
pub(super) fn usage_with_later_output(
    reported: Option<&ReportedUsage>,
    produced: ProducedOutput,
    later: ProducedOutput,
    context: &AnswerContext,
) -> Usage {
    let later_reasoning = tokens(later.reasoning_bytes);
    let later_completion = tokens(later.text_bytes) + later_reasoning;
    let estimated_completion = tokens(produced.text_bytes + produced.reasoning_bytes);
    let estimated_reasoning = tokens(produced.reasoning_bytes);
    let reported = reported.copied().unwrap_or_default();
    let credible = |count: &u64| *count > 0;
    // A prompt is never empty, and a non-empty answer has at least one token.
    let prompt = reported.prompt.filter(credible);
    let completion = reported.completion_with_reasoning().filter(|count| *count > 0 || estimated_completion == 0);
    let (prompt, completion) = complete(prompt, completion, reported.total);
    let prompt_tokens = prompt.unwrap_or(u64::from(context.prompt_tokens));
    let completion_tokens = completion.map_or(estimated_completion, |counted| counted + later_completion);
    let reasoning = match completion {
        Some(_) => reported.reasoning.unwrap_or(0) + later_reasoning,
        None => estimated_reasoning,
    };
    let estimated = prompt.is_none() || completion.is_none() || later_completion > 0;
    Usage { estimated, ..reported.usage(prompt_tokens, completion_tokens, reasoning, context) }
}

/// The usage to bill for an image call: generated images, and tokens if reported.
pub(super) fn billed_image_usage(reported: Option<&ReportedUsage>, made: u64, context: &AnswerContext) -> Usage {
    let reported = reported.copied().unwrap_or_default();
    let prompt_tokens = reported.prompt.unwrap_or(0);
    let completion_tokens = reported.completion_with_reasoning().unwrap_or(0);
    let reasoning = reported.reasoning.unwrap_or(0);
    let estimated = reported.prompt.is_none() || reported.completion.is_none();
    Usage { images: made, estimated, ..reported.usage(prompt_tokens, completion_tokens, reasoning, context) }
}

/// Image and text tokens of an image call. Client libraries require the split of the input.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageDetails {
    /// Images and text among the input tokens. What the provider does not assign is text: prompts are.
    input: TokenSplit,
    /// The same of the output, where the provider says so.
    output: Option<TokenSplit>,
}

#[derive(Debug, Clone, Copy)]
struct TokenSplit {
    image: u64,
    text: u64,
}

impl ImageDetails {
    pub(super) fn new(reported: Option<&ReportedUsage>, usage: &Usage) -> ImageDetails {
        let reported = reported.copied().unwrap_or_default();
        let [_, image, text] = reported.prompt_details;
        let (image, text) = (image.map(|count| count.min(usage.prompt_tokens)), text);
        let rest = |known: u64| usage.prompt_tokens.saturating_sub(known);
        let input = match (image, text) {
            (Some(image), _) => TokenSplit { image, text: text.unwrap_or(rest(image)).min(rest(image)) },
            (None, Some(text)) => TokenSplit { image: rest(text), text: text.min(usage.prompt_tokens) },
            (None, None) => TokenSplit { image: 0, text: usage.prompt_tokens },
        };
        let [_, image, text, ..] = reported.completion_details;
        let output = (image.is_some() || text.is_some())
            .then(|| TokenSplit { image: image.unwrap_or_default(), text: text.unwrap_or_default() });
        ImageDetails { input, output }
    }

    /// Appends the members.
    pub(super) fn push(&self, out: &mut BytesMut) {
        push_member(out, b"input_tokens_details", b"");
        self.input.push(out);
        if let Some(output) = &self.output {
            push_member(out, b"output_tokens_details", b"");
            output.push(out);
        }
    }
}

impl TokenSplit {
    fn push(self, out: &mut BytesMut) {
        push!(out; br#"{"image_tokens":"#, self.image, br#","text_tokens":"#, self.text, b"}");
    }
}

/// Appends the `usage` object of our convention.
pub(super) fn push_usage(
    out: &mut BytesMut,
    usage: &Usage,
    cost: Option<&CostBreakdown>,
    reported: Option<&ReportedUsage>,
) {
    out.reserve(512);
    push!(out; br#"{"prompt_tokens":"#, usage.prompt_tokens, br#","completion_tokens":"#, usage.completion_tokens,
        br#","total_tokens":"#, usage.total_tokens());
    push_cost(out, cost);
    if usage.estimated {
        out.put_slice(b",\"estimated\":true");
    }
    push!(out; br#","is_byok":false,"prompt_tokens_details":{"cached_tokens":"#, usage.cached_tokens);
    if usage.cache_write_tokens > 0 {
        push_count(out, b"cache_write_tokens", usage.cache_write_tokens);
    }
    if usage.cache_write_1h_tokens > 0 {
        push_count(out, b"cache_write_1h_tokens", usage.cache_write_1h_tokens);
    }
    push_details(out, &PROMPT_DETAILS, reported.map(|reported| reported.prompt_details.as_slice()));
    push!(out; br#"},"completion_tokens_details":{"reasoning_tokens":"#, usage.reasoning_tokens);
    push_details(out, &COMPLETION_DETAILS, reported.map(|reported| reported.completion_details.as_slice()));
    out.put_slice(b"},\"cost_details\":{\"upstream_inference_cost\":");
    match usage.reported_cost {
        Some(reported) => push_usd(out, reported),
        None => out.put_slice(b"null"),
    }
    out.put_slice(b",\"upstream_inference_prompt_cost\":");
    let cost = cost.copied().unwrap_or_default();
    push!(out; cost.input(), br#","upstream_inference_completions_cost":"#, cost.output(), b"}}");
}

/// Appends `,"cost":…`. The member is always a number, because clients reject others: an unknown cost is 0 and marked.
pub(super) fn push_cost(out: &mut BytesMut, cost: Option<&CostBreakdown>) {
    push!(out; br#","cost":"#, cost.map_or(Usd::ZERO, CostBreakdown::total));
    if cost.is_none() {
        out.put_slice(b",\"cost_unknown\":true");
    }
}

/// Computes a missing prompt or completion count from the total.
fn complete(prompt: Option<u64>, completion: Option<u64>, total: Option<u64>) -> (Option<u64>, Option<u64>) {
    let rest = |known: u64| total.and_then(|total| total.checked_sub(known)).filter(|rest| *rest > 0);
    match (prompt, completion) {
        (Some(prompt), None) => (Some(prompt), rest(prompt)),
        (None, Some(completion)) => (rest(completion), Some(completion)),
        both => both,
    }
}

/// The name of a service, as an answer tells it.
pub(super) fn service_name(value: Raw<'_>) -> Option<ServiceName> {
    value.text().and_then(|text| ServiceName::parse(&text))
}

/// An amount that a provider reports, as a number or as the text of one. Negative ones are no costs.
fn reported_dollars(value: Raw<'_>) -> Option<Usd> {
    let text = value.text().or_else(|| Some(std::str::from_utf8(value.bytes()).ok()?.into()))?;
    Usd::from_number(text.trim()).filter(|cost| *cost >= Usd::ZERO)
}

/// xAI reports costs in 10⁻¹⁰ dollars.
fn of_ticks(ticks: Usd) -> Usd {
    const TICKS: i128 = 10_000_000_000;
    Usd::from_femto(ticks.femto() / TICKS)
}

/// The gateway's own estimate: four bytes of text are a token.
fn tokens(text_bytes: u64) -> u64 {
    text_bytes.div_ceil(4)
}

/// Passes a value; what it is made of matters only if it is an object.
fn for_each_detail(cursor: &mut Cursor<'_>, mut on_member: impl FnMut(&[u8], Raw<'_>)) -> Result<(), JsonFault> {
    if cursor.peek()? != b'{' {
        return cursor.value().map(|_| ());
    }
    cursor.pass_byte(b'{')?;
    let mut first = true;
    while let Some(key) = cursor.key(&mut first)? {
        let value = cursor.value()?;
        on_member(&key.name(), value);
    }
    Ok(())
}

fn keep_detail(names: &[&[u8]], kept: &mut [Option<u64>], name: &[u8], value: Raw<'_>) {
    if let Some((_, slot)) = names.iter().zip(kept).find(|(known, _)| **known == name) {
        *slot = value.count();
    }
}

fn push_details(out: &mut BytesMut, names: &[&[u8]], counts: Option<&[Option<u64>]>) {
    for (name, count) in names.iter().zip(counts.unwrap_or_default()) {
        if let Some(count) = count {
            push_count(out, name, *count);
        }
    }
}
