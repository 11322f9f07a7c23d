//! What some endpoints refuse of a request, whatever parameters they list.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One thing that an endpoint may refuse. Records hold the positions: a new one comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// A call of a tool can be forced, of any or of a named one.
    ForcedTool,
    /// Functions are served while an effort of reasoning is given.
    ToolsWithEffort,
    /// Functions are served while nothing is said about reasoning.
    ToolsByDefault,
    /// The last message may be the beginning of the answer.
    Prefill,
    /// Texts to embed may be given as token ids.
    TokenIds,
    /// Media may be given by their address, or as a file that was uploaded before.
    RemoteMedia,
    /// Calls of tools can be forbidden in a conversation that has had some.
    NoCallAfterCalls,
    /// Tools may take free text, which may follow a grammar.
    CustomTools,
    /// An answer can be made to follow a JSON schema strictly.
    StrictSchema,
    /// The same, while tools are declared.
    StrictSchemaWithTools,
    /// A schema that is followed strictly may refer to itself, or leave an object open.
    OpenSchema,
    /// Texts are completed through the deprecated API for it.
    LegacyCompletions,
    /// Several calls in one turn can be forbidden. Only requests that require all their parameters need it.
    SingleCalls,
    /// The provider keeps responses, which later ones continue.
    KeptResponses,
    /// Images may be of other types than PNG, JPEG, GIF and WebP.
    OtherImages,
    /// Messages may hold sound, videos, and files that are neither PDF nor text.
    OtherMedia,
    /// A schema that is followed strictly may have more than 24 properties in all that are not required.
    OptionalProperties,
    /// Messages may hold sound and videos.
    SoundOrVideo,
    /// The same, in formats that Amazon's API has no name for.
    RareMedia,
    /// Messages may hold documents of Word and Excel.
    OfficeFiles,
    /// Messages may hold files that are neither PDF, text, image, sound, video nor such a document.
    OtherFiles,
    /// The address of media may be one of http.
    HttpMedia,
    /// Files may be given by their address. Only requests of clients of other APIs than chat need it of chat endpoints.
    FileUrl,
}

impl Capability {
    const ALL: [Capability; 23] = [
        Capability::ForcedTool,
        Capability::ToolsWithEffort,
        Capability::ToolsByDefault,
        Capability::Prefill,
        Capability::TokenIds,
        Capability::RemoteMedia,
        Capability::NoCallAfterCalls,
        Capability::CustomTools,
        Capability::StrictSchema,
        Capability::StrictSchemaWithTools,
        Capability::OpenSchema,
        Capability::OptionalProperties,
        Capability::LegacyCompletions,
        Capability::SingleCalls,
        Capability::KeptResponses,
        Capability::OtherImages,
        Capability::OtherMedia,
        Capability::SoundOrVideo,
        Capability::RareMedia,
        Capability::OfficeFiles,
        Capability::OtherFiles,
        Capability::HttpMedia,
        Capability::FileUrl,
    ];

    /// The name in reasons, errors and configurations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Capability::ForcedTool => "tool_choice.required",
            Capability::ToolsWithEffort | Capability::ToolsByDefault => "tools_with_reasoning",
            Capability::Prefill => "prefill",
            Capability::TokenIds => "token_ids",
            Capability::RemoteMedia => "media_url",
            Capability::NoCallAfterCalls => "tool_choice.none",
            Capability::CustomTools => "custom_tools",
            Capability::StrictSchema | Capability::StrictSchemaWithTools => "json_schema.strict",
            Capability::OpenSchema => "json_schema.open",
            Capability::OptionalProperties => "json_schema.more_than_24_optional",
            Capability::LegacyCompletions => "legacy_completions",
            Capability::SingleCalls => "parallel_tool_calls",
            Capability::KeptResponses => "previous_response_id",
            Capability::OtherImages => "image_types",
            Capability::OtherMedia => "media_types",
            Capability::SoundOrVideo => "media_types.sound_and_video",
            Capability::RareMedia => "media_types.rare_formats",
            Capability::OfficeFiles => "media_types.office",
            Capability::OtherFiles => "media_types.other_files",
            Capability::HttpMedia => "media_url.http",
            Capability::FileUrl => "media_url.files",
        }
    }

    /// Whether a configuration lists it as missing; an API is rather switched on.
    const fn is_listed(self) -> bool {
        !matches!(self, Capability::LegacyCompletions | Capability::KeptResponses)
    }

    /// The field of a request that needs it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Capability::ForcedTool | Capability::NoCallAfterCalls => "tool_choice",
            Capability::ToolsWithEffort | Capability::ToolsByDefault => "tools",
            Capability::Prefill
            | Capability::RemoteMedia
            | Capability::OtherImages
            | Capability::OtherMedia
            | Capability::SoundOrVideo
            | Capability::RareMedia
            | Capability::OfficeFiles
            | Capability::OtherFiles
            | Capability::HttpMedia
            | Capability::FileUrl => "messages",
            Capability::TokenIds => "input",
            Capability::CustomTools => "tools",
            Capability::StrictSchema
            | Capability::StrictSchemaWithTools
            | Capability::OpenSchema
            | Capability::OptionalProperties => "response_format",
            Capability::LegacyCompletions => "prompt",
            Capability::SingleCalls => "parallel_tool_calls",
            Capability::KeptResponses => "previous_response_id",
        }
    }
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CapabilitySet(u32);

impl CapabilitySet {
    /// No capability.
    pub const NONE: CapabilitySet = CapabilitySet(0);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, one: Capability) -> CapabilitySet {
        CapabilitySet(self.0 | (1 << one as u32))
    }

    /// The set without one.
    #[must_use]
    pub const fn without(self, one: Capability) -> CapabilitySet {
        CapabilitySet(self.0 & !(1 << one as u32))
    }

    /// The set without those of another.
    #[must_use]
    pub const fn minus(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 & !other.0)
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 | other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn common(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 & other.0)
    }

    /// Whether the capability is in the set.
    #[must_use]
    pub const fn has(self, one: Capability) -> bool {
        self.0 & (1 << one as u32) != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its first capability.
    #[must_use]
    pub fn first(self) -> Option<Capability> {
        Capability::ALL.into_iter().find(|one| self.has(*one))
    }

    /// The capabilities of that name.
    pub fn named(name: &str) -> Option<CapabilitySet> {
        let of_name = Capability::ALL.into_iter().filter(|one| one.is_listed() && one.as_str() == name);
        let set = of_name.fold(CapabilitySet::NONE, CapabilitySet::with);
        (!set.is_empty()).then_some(set)
    }

    /// The names that a configuration can list.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let listed = Capability::ALL.into_iter().filter(|one| one.is_listed());
        let mut names: Vec<&str> = listed.map(Capability::as_str).collect();
        names.dedup();
        names.into_iter()
    }

    /// The set as bits: for records.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set of these bits.
    pub const fn of_bits(bits: u32) -> CapabilitySet {
        CapabilitySet(bits)
    }
}

impl From<Capability> for Arc<str> {
    fn from(one: Capability) -> Arc<str> {
        one.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_all_capabilities_that_share_it() {
        let tools = CapabilitySet::NONE.with(Capability::ToolsWithEffort).with(Capability::ToolsByDefault);
        assert_eq!(CapabilitySet::named("tools_with_reasoning"), Some(tools));
        assert_eq!(CapabilitySet::named("odd"), None);
        let names: Vec<&str> = CapabilitySet::names().collect();
        assert_eq!(
            names,
            [
                "tool_choice.required",
                "tools_with_reasoning",
                "prefill",
                "token_ids",
                "media_url",
                "tool_choice.none",
                "custom_tools",
                "json_schema.strict",
                "json_schema.open",
                "json_schema.more_than_24_optional",
                "parallel_tool_calls",
                "image_types",
                "media_types",
                "media_types.sound_and_video",
                "media_types.rare_formats",
                "media_types.office",
                "media_types.other_files",
                "media_url.http",
                "media_url.files",
            ]
        );
        assert_eq!(tools.common(CapabilitySet::NONE.with(Capability::Prefill)).first(), None);
        assert_eq!(tools.first(), Some(Capability::ToolsWithEffort));
    }
}
