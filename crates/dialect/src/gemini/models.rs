//! What the Gemini models differ in.

use pointsman_domain::{Capability, CapabilitySet};

use crate::neutral::{Effort, NameRules};

/// Alphabet of function names.
pub(super) const NAMES: NameRules = NameRules { extra: "_.:-", begins_with_letter: true, max: 128 };

/// What an endpoint of that model refuses.
pub(crate) fn capability_gaps(upstream_model: &str) -> CapabilitySet {
    let of_api = CapabilitySet::NONE
        .with(Capability::TokenIds)
        .with(Capability::SingleCalls)
        .with(Capability::OfficeFiles)
        .with(Capability::OtherFiles);
    if capabilities(upstream_model).json_with_tools { of_api } else { of_api.with(Capability::StrictSchemaWithTools) }
}

/// How a model is told how much to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingControl {
    /// It does not reason.
    Never,
    /// By a budget of tokens within these bounds. `can_be_off`: also by 0, for no reasoning at all.
    Budget { can_be_off: bool, least: u64, most: u64 },
    /// By one of these levels, from least to most.
    Level(&'static [Effort]),
}

/// What one model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// How it is told how much to reason.
    pub(super) thinking: ThinkingControl,
    /// Whether calls of functions carry signatures that must come back.
    pub(super) signs_calls: bool,
    /// Whether results of functions may hold media.
    pub(super) media_in_results: bool,
    /// Whether each image may say how finely it is to be looked at.
    pub(super) resolves_parts: bool,
    /// Whether an answer may be held to JSON while functions are declared.
    pub(super) json_with_tools: bool,
    /// Whether calls can be held to the schemas of functions.
    pub(super) validates_calls: bool,
    /// Whether schemas are taken as JSON Schema; else in the subset of OpenAPI.
    pub(super) json_schema: bool,
}

/// A recent model that the table does not know: it takes what all recent ones take.
const RECENT: Capabilities = Capabilities {
    thinking: ThinkingControl::Level(&[Effort::Minimal, Effort::Low, Effort::Medium, Effort::High]),
    signs_calls: true,
    media_in_results: true,
    resolves_parts: true,
    json_with_tools: true,
    validates_calls: true,
    json_schema: true,
};
const PRO_3: Capabilities =
    Capabilities { thinking: ThinkingControl::Level(&[Effort::Low, Effort::Medium, Effort::High]), ..RECENT };
const FIRST_PRO_3: Capabilities =
    Capabilities { thinking: ThinkingControl::Level(&[Effort::Low, Effort::High]), ..RECENT };
const GENERATION_2_5: Capabilities = Capabilities {
    thinking: ThinkingControl::Budget { can_be_off: true, least: 1, most: 24_576 },
    signs_calls: false,
    media_in_results: false,
    resolves_parts: false,
    json_with_tools: false,
    ..RECENT
};
const GENERATION_2_0: Capabilities =
    Capabilities { thinking: ThinkingControl::Never, validates_calls: false, ..GENERATION_2_5 };
const BEFORE: Capabilities = Capabilities { json_schema: false, ..GENERATION_2_0 };

/// Capabilities by a part of the model's name; the first that is found counts, so longer names come first.
const MODELS: [(&str, Capabilities); 9] = [
    ("gemini-3-pro", FIRST_PRO_3),
    ("gemini-3.1-pro", PRO_3),
    (
        "gemini-2.5-pro",
        Capabilities {
            thinking: ThinkingControl::Budget { can_be_off: false, least: 128, most: 32_768 },
            ..GENERATION_2_5
        },
    ),
    (
        "gemini-2.5-flash-lite",
        Capabilities {
            thinking: ThinkingControl::Budget { can_be_off: true, least: 512, most: 24_576 },
            ..GENERATION_2_5
        },
    ),
    ("gemini-2.5-flash-image", Capabilities { thinking: ThinkingControl::Never, ..GENERATION_2_5 }),
    ("gemini-2.5", GENERATION_2_5),
    ("gemini-2.0", GENERATION_2_0),
    ("gemini-1.", BEFORE),
    ("gemma", BEFORE),
];

/// The capabilities of a model by the upstream's name for it.
pub(super) fn capabilities(upstream_model: &str) -> Capabilities {
    let name = upstream_model.to_ascii_lowercase();
    MODELS.iter().find(|(part, _)| name.contains(part)).map_or(RECENT, |(_, capabilities)| *capabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides_and_an_unknown_model_is_a_recent_one() {
        assert_eq!(capabilities("gemini-2.5-flash"), GENERATION_2_5);
        assert_ne!(capabilities("gemini-2.5-flash-lite-preview"), GENERATION_2_5);
        assert_eq!(capabilities("publishers/google/models/gemini-1.5-pro"), BEFORE);
        assert_eq!(capabilities("my-tuned-model"), RECENT);
        for (place, (name, _)) in MODELS.iter().enumerate() {
            assert!(MODELS.iter().take(place).all(|(longer, _)| !name.contains(longer)), "{name} is never found");
        }
    }

    #[test]
    fn signatures_and_levels_begin_with_generation_three() {
        for (name, capabilities) in MODELS {
            let has_levels = matches!(capabilities.thinking, ThinkingControl::Level(_));
            assert_eq!(has_levels, name.contains("gemini-3"), "{name}");
            assert_eq!(capabilities.signs_calls, has_levels, "{name}");
        }
    }
}
