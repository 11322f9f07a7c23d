//! What the families of models behind Converse differ in.

use pointsman_domain::ReasoningFormat;

use crate::{
    claude::models as claude,
    neutral::{Effort, NameRules},
};

/// Alphabet of tool names.
pub(super) const NAMES: NameRules = NameRules { extra: "_-", begins_with_letter: false, max: 64 };
/// Alphabet of call ids.
pub(super) const CALL_IDS: NameRules = NameRules { extra: "_.:-", begins_with_letter: false, max: 64 };

/// How a model is told how much to reason; there is no common member for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReasoningControl {
    /// Not at all.
    None,
    /// As in the Messages API.
    Claude,
    /// `reasoningConfig`.
    Nova,
    /// `reasoning_effort`.
    Flat,
    /// `reasoning.effort`.
    Nested,
}

/// What one model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// How it is told how much to reason.
    pub(super) reasoning: ReasoningControl,
    /// The efforts it knows, from least to most.
    pub(super) efforts: &'static [Effort],
    /// Whether answers can be held to a JSON schema.
    pub(super) json_schema: bool,
    /// Whether the client may mark what is cached.
    pub(super) caches: bool,
}

/// A model that the table does not know: only what all have in common.
const COMMON: Capabilities =
    Capabilities { reasoning: ReasoningControl::None, efforts: &[], json_schema: true, caches: false };
const CLAUDE: Capabilities = Capabilities { reasoning: ReasoningControl::Claude, caches: true, ..COMMON };
const EFFORTS: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High];
const NOVA_2: Capabilities =
    Capabilities { reasoning: ReasoningControl::Nova, efforts: EFFORTS, json_schema: false, caches: true };
const NOVA: Capabilities = Capabilities { json_schema: false, caches: true, ..COMMON };

/// Capabilities by a part of the model's name; the first that is found counts, so longer names come first.
const MODELS: [(&str, Capabilities); 8] = [
    ("claude", CLAUDE),
    ("nova-2", NOVA_2),
    ("nova-", NOVA),
    ("titan", Capabilities { json_schema: false, ..COMMON }),
    ("gpt-oss", Capabilities { reasoning: ReasoningControl::Flat, efforts: EFFORTS, ..COMMON }),
    (
        "gpt-",
        Capabilities {
            reasoning: ReasoningControl::Nested,
            efforts: &[Effort::None, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh],
            ..COMMON
        },
    ),
    ("llama", Capabilities { json_schema: false, ..COMMON }),
    ("mistral-7b", Capabilities { json_schema: false, ..COMMON }),
];

/// The capabilities of a model by the upstream's name for it, also with a region before it or as the address of a profile.
pub(super) fn capabilities(upstream_model: &str) -> Capabilities {
    let name = upstream_model.to_ascii_lowercase();
    let known = MODELS.iter().find(|(part, _)| name.contains(part)).map_or(COMMON, |(_, capabilities)| *capabilities);
    if known.reasoning == ReasoningControl::Claude {
        return Capabilities { json_schema: claude::capabilities(upstream_model).structured_output, ..known };
    }
    known
}

/// Whether the model is a Claude, whose reasoning is signed as at Anthropic.
pub(super) fn is_claude(upstream_model: &str) -> bool {
    capabilities(upstream_model).reasoning == ReasoningControl::Claude
}

/// Format of the reasoning that a model gives and takes back.
pub(crate) fn reasoning_format(upstream_model: &str) -> ReasoningFormat {
    if is_claude(upstream_model) { ReasoningFormat::Anthropic } else { ReasoningFormat::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides_and_regions_and_profiles_do_not_matter() {
        let reasoning = |name: &str| capabilities(name).reasoning;
        assert_eq!(reasoning("us.anthropic.claude-opus-4-5-20251101-v1:0"), ReasoningControl::Claude);
        let profile = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-2-lite-v1:0";
        assert_eq!(reasoning(profile), ReasoningControl::Nova);
        assert_eq!(reasoning("amazon.nova-pro-v1:0"), ReasoningControl::None);
        assert_eq!(reasoning("openai.gpt-oss-120b-1:0"), ReasoningControl::Flat);
        assert_eq!(reasoning("openai.gpt-5.6"), ReasoningControl::Nested);
        assert_eq!(capabilities("my-tuned-model"), COMMON);
        for (place, (name, _)) in MODELS.iter().enumerate() {
            assert!(MODELS.iter().take(place).all(|(longer, _)| !name.contains(longer)), "{name} is never found");
        }
    }

    #[test]
    fn schemas_are_native_where_the_model_follows_them() {
        for (name, native) in [
            ("anthropic.claude-opus-4-5-v1:0", true),
            ("anthropic.claude-opus-4-20250514-v1:0", false),
            ("amazon.nova-lite-v1:0", false),
            ("qwen.qwen3-235b", true),
        ] {
            assert_eq!(capabilities(name).json_schema, native, "{name}");
        }
    }
}
