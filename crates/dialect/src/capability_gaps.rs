//! What models refuse at endpoints of a dialect, by the provider's name of the model. The configuration overrides it.

use pointsman_domain::{Capability, CapabilitySet, Dialect};

use super::{claude, converse, gemini};

/// Families whose chats serve no functions while they reason, and whether they reason unless they are told not to. OpenAI's
/// other API serves both.
const NO_TOOLS_WITH_REASONING: [(&str, bool); 4] =
    [("gpt-5.4", false), ("gpt-5.5", true), ("gpt-5.6", true), ("gpt-6", true)];

/// What an endpoint lacks.
pub fn capability_gaps(dialect: Dialect, upstream_model: &str) -> CapabilitySet {
    match dialect {
        Dialect::OpenAi => of_chat(upstream_model),
        Dialect::Anthropic => claude::models::capability_gaps(upstream_model),
        Dialect::Gemini => gemini::capability_gaps(upstream_model),
        // Its messages have no part for it.
        Dialect::Responses => CapabilitySet::NONE.with(Capability::SoundOrVideo),
        Dialect::Converse => converse::capability_gaps(upstream_model),
    }
}

/// Only OpenAI's own names: whoever serves these models under a name with its maker translates chats itself.
fn of_chat(upstream_model: &str) -> CapabilitySet {
    let family = NO_TOOLS_WITH_REASONING.into_iter().find(|(name, _)| upstream_model.starts_with(name));
    // OpenAI's chat has no member for the address of a file; OpenRouter takes it in the place of the data.
    let of_api = CapabilitySet::NONE.with(Capability::FileUrl);
    match family {
        None => of_api,
        Some((_, false)) => of_api.with(Capability::ToolsWithEffort),
        Some((_, true)) => of_api.with(Capability::ToolsWithEffort).with(Capability::ToolsByDefault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dialect: Dialect, model: &str, expected: &[Capability]) {
        let expected = expected.iter().fold(CapabilitySet::NONE, |all, one| all.with(*one));
        assert_eq!(capability_gaps(dialect, model), expected, "{model}");
    }

    #[test]
    fn what_models_refuse_is_known_by_their_names() {
        use Capability::{
            FileUrl, ForcedTool, HttpMedia, NoCallAfterCalls, OfficeFiles, OpenSchema, OptionalProperties, OtherFiles,
            OtherImages, OtherMedia, Prefill, RareMedia, RemoteMedia, SingleCalls, SoundOrVideo, StrictSchema,
            StrictSchemaWithTools, TokenIds, ToolsByDefault, ToolsWithEffort,
        };
        check(Dialect::OpenAi, "gpt-5.4-mini", &[FileUrl, ToolsWithEffort]);
        check(Dialect::OpenAi, "gpt-5.6", &[FileUrl, ToolsWithEffort, ToolsByDefault]);
        check(Dialect::OpenAi, "gpt-5.2", &[FileUrl]);
        check(Dialect::OpenAi, "openai/gpt-5.6", &[FileUrl]);
        check(Dialect::Responses, "gpt-5.6", &[SoundOrVideo]);
        check(
            Dialect::Anthropic,
            "claude-sonnet-5-5",
            &[ForcedTool, Prefill, OpenSchema, OptionalProperties, OtherImages, OtherMedia, HttpMedia],
        );
        check(
            Dialect::Anthropic,
            "claude-opus-5",
            &[Prefill, OpenSchema, OptionalProperties, OtherImages, OtherMedia, HttpMedia],
        );
        check(
            Dialect::Anthropic,
            "claude-opus-4-5-20251101",
            &[OpenSchema, OptionalProperties, OtherImages, OtherMedia, HttpMedia],
        );
        check(
            Dialect::Anthropic,
            "claude-sonnet-4-20250514",
            &[StrictSchema, OpenSchema, OptionalProperties, OtherImages, OtherMedia, HttpMedia],
        );
        check(Dialect::Anthropic, "my-alias", &[OtherImages, OtherMedia, HttpMedia]);
        check(Dialect::Gemini, "gemini-3-pro", &[TokenIds, SingleCalls, OfficeFiles, OtherFiles]);
        check(
            Dialect::Gemini,
            "gemini-2.5-flash",
            &[TokenIds, StrictSchemaWithTools, SingleCalls, OfficeFiles, OtherFiles],
        );
        let of_converse = [RemoteMedia, NoCallAfterCalls, TokenIds, OtherImages, SingleCalls, RareMedia, OtherFiles];
        check(Dialect::Converse, "qwen.qwen3-235b", &of_converse);
        check(Dialect::Converse, "amazon.nova-lite-v1:0", &[&of_converse[..], &[StrictSchema]].concat());
    }
}
