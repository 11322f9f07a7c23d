//! What the models behind the Messages API differ in.

use pointsman_domain::{Capability, CapabilitySet};

use crate::{json::Raw, neutral::UnsupportedFields};

/// Longest name of a tool, and of the id of a call.
const MAX_NAME: usize = 128;

/// Alphabet of tool names and call ids.
pub(crate) const NAMES: crate::neutral::NameRules =
    crate::neutral::NameRules { extra: "_-", begins_with_letter: false, max: MAX_NAME };

/// Which of `temperature`, `top_p` and `top_k` a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// All.
    Any,
    /// `temperature` or `top_p`, not both.
    EitherOf,
    /// None.
    No,
}

/// What a model is sent for a parameter of sampling. `None` if it would refuse the value; one that thinks refuses most.
pub(crate) fn sampled<'a>(
    name: &str,
    value: Raw<'a>,
    is_thinking: bool,
    unsupported: &mut UnsupportedFields,
) -> Option<&'a [u8]> {
    let number: f64 = std::str::from_utf8(value.bytes()).ok()?.parse().ok()?;
    let is_refused = match name {
        "temperature" => number != 1.0,
        "top_p" => number < 0.95,
        _ => true,
    };
    if is_thinking && is_refused {
        return None;
    }
    if name == "temperature" && number > 1.0 {
        unsupported.emulate(name);
        return Some(b"1");
    }
    Some(value.bytes())
}

/// How a model reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingControl {
    /// Within a budget of tokens.
    Budget,
    /// As much as it finds right for an effort.
    Adaptive,
}

/// How reasoning is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingOff {
    /// `disabled`
    Disabled,
    /// Not before calls of tools only: `between_tools`.
    BetweenTools,
    /// Not at all; a low effort comes closest.
    LowEffort,
}

/// What one model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Longest answer, tokens.
    pub(crate) max_output: u64,
    /// Sampling parameters.
    pub(crate) sampling: Sampling,
    /// Whether `tool_choice` may force a call.
    pub(crate) forces_tools: bool,
    /// Whether the last message may be the beginning of the answer.
    pub(crate) prefill: bool,
    /// How it reasons.
    pub(crate) thinking: ThinkingControl,
    /// How reasoning is switched off.
    pub(crate) thinking_off: ThinkingOff,
    /// Whether answers and calls can be made to follow a schema.
    pub(crate) structured_output: bool,
    /// Whether `speed` is known.
    pub(crate) fast: bool,
}

/// A recent model that the table does not know: it takes what all recent ones take.
const RECENT: Capabilities = Capabilities {
    max_output: 128_000,
    sampling: Sampling::No,
    forces_tools: true,
    prefill: false,
    thinking: ThinkingControl::Adaptive,
    thinking_off: ThinkingOff::Disabled,
    structured_output: true,
    fast: false,
};
/// A model whose name says nothing, such as an alias of a proxy: whether it samples is for `supported_parameters` to say.
const UNNAMED: Capabilities = Capabilities { sampling: Sampling::Any, ..RECENT };
const OPUS: Capabilities = Capabilities { fast: true, ..RECENT };
const GENERATION_4_6: Capabilities = Capabilities { sampling: Sampling::EitherOf, ..RECENT };
const GENERATION_4_5: Capabilities = Capabilities {
    max_output: 64_000,
    sampling: Sampling::EitherOf,
    thinking: ThinkingControl::Budget,
    prefill: true,
    ..RECENT
};
const OPUS_4: Capabilities =
    Capabilities { max_output: 32_000, sampling: Sampling::Any, structured_output: false, ..GENERATION_4_5 };

/// Capabilities by a part of the model's name; the first that is found counts, so longer names come first.
const MODELS: [(&str, Capabilities); 18] = [
    ("claude-sonnet-5-5", Capabilities { forces_tools: false, thinking_off: ThinkingOff::BetweenTools, ..RECENT }),
    ("claude-opus-5-5", Capabilities { forces_tools: false, thinking_off: ThinkingOff::LowEffort, ..OPUS }),
    ("claude-haiku-5-5", RECENT),
    ("claude-opus-5", OPUS),
    ("claude-fable-5-1", Capabilities { forces_tools: false, thinking_off: ThinkingOff::LowEffort, ..RECENT }),
    ("claude-fable-5", Capabilities { thinking_off: ThinkingOff::LowEffort, ..RECENT }),
    ("claude-opus-4-8", OPUS),
    ("claude-opus-4-7", OPUS),
    ("claude-sonnet-5", RECENT),
    ("claude-opus-4-6", Capabilities { fast: true, ..GENERATION_4_6 }),
    ("claude-sonnet-4-6", GENERATION_4_6),
    ("claude-sonnet-4-5", GENERATION_4_5),
    ("claude-opus-4-5", GENERATION_4_5),
    ("claude-haiku-4-5", GENERATION_4_5),
    ("claude-opus-4-1", Capabilities { max_output: 32_000, ..GENERATION_4_5 }),
    ("claude-sonnet-4-", Capabilities { max_output: 64_000, ..OPUS_4 }),
    ("claude-opus-4-", OPUS_4),
    ("claude-", RECENT),
];

/// The capabilities of a model by the upstream's name for it, also with the marks of clouds around it, such as
/// `us.anthropic.claude-opus-4-5-v1:0` or `claude-sonnet-4@20250514`.
pub(crate) fn capabilities(upstream_model: &str) -> Capabilities {
    let name: String = upstream_model.chars().map(|c| if matches!(c, '@' | '.') { '-' } else { c }).collect();
    let name = name.to_ascii_lowercase();
    MODELS.iter().find(|(part, _)| name.contains(part)).map_or(UNNAMED, |(_, capabilities)| *capabilities)
}

/// What an endpoint of that model refuses. Nothing is said about a model of another name.
pub(crate) fn capability_gaps(upstream_model: &str) -> CapabilitySet {
    let of_api =
        CapabilitySet::NONE.with(Capability::OtherImages).with(Capability::OtherMedia).with(Capability::HttpMedia);
    if !upstream_model.to_ascii_lowercase().contains("claude") {
        return of_api;
    }
    let Capabilities { forces_tools, prefill, structured_output, .. } = capabilities(upstream_model);
    let lacks = [
        (Capability::ForcedTool, !forces_tools),
        (Capability::Prefill, !prefill),
        (Capability::StrictSchema, !structured_output),
        (Capability::OpenSchema, true),
        (Capability::OptionalProperties, true),
    ];
    lacks.into_iter().filter(|(_, lacks)| *lacks).fold(of_api, |all, (one, _)| all.with(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides_and_marks_of_clouds_do_not_matter() {
        let max = |name: &str| capabilities(name).max_output;
        assert_eq!(max("claude-opus-4-5-20251101"), 64_000);
        assert_eq!(max("us.anthropic.claude-opus-4-5-v1:0"), 64_000);
        assert_eq!(max("claude-opus-4-1"), 32_000);
        assert_eq!(max("claude-sonnet-4@20250514"), 64_000);
        assert_eq!(max("claude-something-9"), 128_000);
        assert_eq!(max("my-alias"), 128_000);
        assert_eq!(capabilities("my-alias").sampling, Sampling::Any);
        assert_eq!(capabilities("claude-something-9").sampling, Sampling::No);
        assert_eq!(capabilities("claude-sonnet-5-5-20261001").thinking_off, ThinkingOff::BetweenTools);
        assert_eq!(capabilities("claude-sonnet-5").thinking_off, ThinkingOff::Disabled);
    }

    #[test]
    fn budgets_of_reasoning_end_with_generation_four_five() {
        let adaptive = |name: &str| capabilities(name).thinking == ThinkingControl::Adaptive;
        for name in ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-fable-5", "claude-new"] {
            assert!(adaptive(name), "{name}");
        }
        for name in ["claude-haiku-4-5", "claude-opus-4-1", "claude-opus-4-20250514"] {
            assert!(!adaptive(name), "{name}");
        }
    }

    #[test]
    fn the_models_that_refuse_forced_tools_are_these() {
        let refusing: Vec<&str> =
            MODELS.iter().filter(|(_, known)| !known.forces_tools).map(|(name, _)| *name).collect();
        assert_eq!(refusing, ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1"]);
    }
}
