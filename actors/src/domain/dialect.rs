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
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Responses];

    /// Its name in the configuration and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Responses => "openai-responses",
        }
    }
}
