//! What the Gemini models differ in.

use crate::dialect::neutral::NameRules;

/// Alphabet of function names.
pub(super) const NAMES: NameRules = NameRules { extra: "_.:-", begins_with_letter: true, max: 128 };

/// How a model is told how much to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingControl {
    /// It does not reason.
    Never,
    /// By a budget of tokens within these bounds; with `least` 0, reasoning can be switched off.
    Budget { least: u64, most: u64 },
    /// By a level.
    Level,
}

/// What one model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// How it is told how much to reason.
    pub(super) thinking: ThinkingControl,
    /// Whether calls of functions carry signatures that must come back.
    pub(super) signs_calls: bool,
}

/// A recent model that the table does not know.
const RECENT: Capabilities = Capabilities { thinking: ThinkingControl::Level, signs_calls: true };
const GENERATION_2_5: Capabilities =
    Capabilities { thinking: ThinkingControl::Budget { least: 0, most: 24_576 }, signs_calls: false };
const BEFORE: Capabilities = Capabilities { thinking: ThinkingControl::Never, signs_calls: false };

/// Capabilities by a part of the model's name; the first that is found counts.
const MODELS: [(&str, Capabilities); 5] = [
    (
        "gemini-2.5-pro",
        Capabilities { thinking: ThinkingControl::Budget { least: 128, most: 32_768 }, ..GENERATION_2_5 },
    ),
    ("gemini-2.5", GENERATION_2_5),
    ("gemini-2.0", BEFORE),
    ("gemini-1.", BEFORE),
    ("gemma", BEFORE),
];

/// The capabilities of a model by the upstream's name for it.
pub(super) fn capabilities(upstream_model: &str) -> Capabilities {
    MODELS.iter().find(|(part, _)| upstream_model.contains(part)).map_or(RECENT, |(_, capabilities)| *capabilities)
}
