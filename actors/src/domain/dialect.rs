/// Wire format of an API, of a provider or of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// OpenAI's chat completions.
    #[default]
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// OpenAI's Responses.
    Responses,
    /// Amazon Bedrock's Converse.
    Converse,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Dialect; 5] =
        [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Responses, Dialect::Converse];

    /// Its name in the configuration and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Responses => "openai-responses",
            Dialect::Converse => "converse",
        }
    }
}

/// A set of dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DialectSet(u8);

impl DialectSet {
    /// No dialect.
    pub const NONE: DialectSet = DialectSet(0);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, one: Dialect) -> DialectSet {
        DialectSet(self.0 | (1 << one as u8))
    }

    /// The set without one.
    #[must_use]
    pub const fn without(self, one: Dialect) -> DialectSet {
        DialectSet(self.0 & !(1 << one as u8))
    }

    /// Whether the dialect is in the set.
    #[must_use]
    pub const fn has(self, one: Dialect) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set as bits: for records.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits.
    #[must_use]
    pub const fn of_bits(bits: u8) -> DialectSet {
        DialectSet(bits)
    }
}

/// Format of the reasoning that an answer gives and that the next turn of its conversation brings back. A provider takes
/// back only its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReasoningFormat {
    /// `anthropic-claude-v1`
    Anthropic,
    /// `google-gemini-v1`
    Gemini,
    /// `openai-responses-v1`
    Responses,
    /// Any other, or none.
    #[default]
    Unknown,
}

impl ReasoningFormat {
    /// The name in `reasoning_details[].format`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ReasoningFormat::Anthropic => "anthropic-claude-v1",
            ReasoningFormat::Gemini => "google-gemini-v1",
            ReasoningFormat::Responses => "openai-responses-v1",
            ReasoningFormat::Unknown => "unknown",
        }
    }

    /// The format of that name.
    #[must_use]
    pub fn named(name: &str) -> ReasoningFormat {
        match name {
            "anthropic-claude-v1" => ReasoningFormat::Anthropic,
            "google-gemini-v1" => ReasoningFormat::Gemini,
            "openai-responses-v1" | "azure-openai-responses-v1" => ReasoningFormat::Responses,
            _ => ReasoningFormat::Unknown,
        }
    }

    /// Whether it is one that only endpoints with the same format take back.
    #[must_use]
    pub const fn is_bound(self) -> bool {
        !matches!(self, ReasoningFormat::Unknown)
    }
}

/// Who serves an API, where paths, framing and a few members differ from those of its maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Platform {
    /// Its maker, or somebody who serves it in the same way.
    #[default]
    Native,
    /// Amazon Bedrock, with the name of the model in the path and streams in frames of its own.
    Bedrock,
    /// Google Vertex AI, with the name of the model in the path.
    Vertex,
}
