//! What the models behind the Responses API differ in.

use crate::neutral::{Effort, NameRules};

/// Alphabet of tool names, and of call ids.
pub(crate) const NAMES: NameRules = NameRules { extra: "_-", begins_with_letter: false, max: 64 };
/// Least value of `max_output_tokens`.
pub(crate) const LEAST_OUTPUT: u32 = 16;

/// When a model takes `temperature`, `top_p` and `logprobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Always.
    Any,
    /// While it does not reason.
    WithoutReasoning,
}

/// What one model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// The efforts it takes, from least to most; empty if it does not reason.
    pub(crate) efforts: &'static [Effort],
    /// Whether it reasons if no effort is given.
    pub(crate) reasons_by_default: bool,
    /// When it takes sampling parameters.
    pub(crate) sampling: Sampling,
}

const ALL: &[Effort] =
    &[Effort::None, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];
const THREE: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High];

/// A model that the table does not know: nothing is taken from its request.
const UNKNOWN: Capabilities = Capabilities { efforts: ALL, reasons_by_default: false, sampling: Sampling::Any };
/// A model that does not reason.
const PLAIN: Capabilities = Capabilities { efforts: &[], reasons_by_default: false, sampling: Sampling::Any };
const FIRST_REASONING: Capabilities =
    Capabilities { efforts: THREE, reasons_by_default: true, sampling: Sampling::WithoutReasoning };
const GPT_5: Capabilities =
    Capabilities { efforts: &[Effort::Minimal, Effort::Low, Effort::Medium, Effort::High], ..FIRST_REASONING };
const GPT_5_1: Capabilities = Capabilities {
    efforts: &[Effort::None, Effort::Low, Effort::Medium, Effort::High],
    reasons_by_default: false,
    sampling: Sampling::WithoutReasoning,
};
const GPT_5_2: Capabilities =
    Capabilities { efforts: &[Effort::None, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh], ..GPT_5_1 };
const CODEX: Capabilities =
    Capabilities { efforts: &[Effort::Low, Effort::Medium, Effort::High, Effort::XHigh], ..FIRST_REASONING };
/// From gpt-5.5 on, models reason unless they are told not to, and `minimal` is refused.
const RECENT: Capabilities = Capabilities {
    efforts: &[Effort::None, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max],
    reasons_by_default: true,
    sampling: Sampling::WithoutReasoning,
};

/// Capabilities by the beginning of the model's name; the first that fits counts, so longer names come first.
const MODELS: [(&str, Capabilities); 21] = [
    ("gpt-3.5", PLAIN),
    ("gpt-4", PLAIN),
    ("chatgpt-4o", PLAIN),
    ("gpt-5-chat", PLAIN),
    ("gpt-5.1-chat", PLAIN),
    ("gpt-5.2-chat", PLAIN),
    ("gpt-5-codex", FIRST_REASONING),
    ("gpt-5.1-codex-max", CODEX),
    ("gpt-5.1-codex", FIRST_REASONING),
    ("gpt-5.2-codex", CODEX),
    ("gpt-5.3-codex", CODEX),
    ("gpt-5.1", GPT_5_1),
    ("gpt-5.2", GPT_5_2),
    ("gpt-5.3", GPT_5_2),
    ("gpt-5.4", GPT_5_2),
    ("gpt-5.", RECENT),
    ("gpt-5", GPT_5),
    ("gpt-6", RECENT),
    ("o1", FIRST_REASONING),
    ("o3", FIRST_REASONING),
    ("o4", FIRST_REASONING),
];

/// The capabilities of a model, by the name that the provider has for it.
pub(crate) fn capabilities(upstream_model: &str) -> Capabilities {
    let name = upstream_model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_prefix("openai.").unwrap_or(&name);
    MODELS.iter().find(|(beginning, _)| name.starts_with(beginning)).map_or(UNKNOWN, |(_, found)| *found)
}

/// Whether a model takes marks up to which the prompt may be cached.
pub(crate) fn takes_cache_breakpoints(upstream_model: &str) -> bool {
    let name = upstream_model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_prefix("openai.").unwrap_or(&name);
    ["gpt-5.6", "gpt-5.7", "gpt-5.8", "gpt-5.9", "gpt-6"].iter().any(|beginning| name.starts_with(beginning))
}

/// Whether a model has a name that OpenAI itself gives its models.
pub(crate) fn has_name_of_openai(upstream_model: &str) -> bool {
    MODELS.iter().any(|(beginning, _)| upstream_model.starts_with(beginning))
}

impl Capabilities {
    /// Whether the model takes sampling parameters. `reasons`: what the request says about reasoning.
    pub(crate) fn admits_sampling(&self, reasons: Option<bool>) -> bool {
        self.sampling == Sampling::Any || !reasons.unwrap_or(self.reasons_by_default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_name_whoever_serves_it() {
        assert_eq!(capabilities("gpt-5"), GPT_5);
        assert_eq!(capabilities("gpt-5-2025-08-07"), GPT_5);
        assert_eq!(capabilities("openai.gpt-5.6-mini"), RECENT);
        assert_eq!(capabilities("openai/gpt-6"), RECENT);
        assert_eq!(capabilities("GPT-4o"), PLAIN);
        assert_eq!(capabilities("openai.gpt-oss-120b"), UNKNOWN);
        assert_eq!(capabilities("my-deployment"), UNKNOWN);
    }

    #[test]
    fn an_effort_that_a_model_lacks_becomes_the_next_lower_one_else_the_next_higher_one() {
        assert_eq!(Effort::Minimal.nearest(RECENT.efforts), Some(Effort::None));
        assert_eq!(Effort::Max.nearest(GPT_5.efforts), Some(Effort::High));
        assert_eq!(Effort::None.nearest(GPT_5.efforts), Some(Effort::Minimal));
        assert_eq!(Effort::High.nearest(PLAIN.efforts), None);
    }

    #[test]
    fn longer_names_come_before_their_beginnings() {
        for (place, (name, _)) in MODELS.iter().enumerate() {
            let earlier = MODELS.iter().take(place).find(|(earlier, _)| name.starts_with(earlier));
            assert_eq!(earlier.map(|(name, _)| name), None, "{name}");
        }
    }
}
