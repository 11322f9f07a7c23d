//! `[messages]`: names of models for clients of the Anthropic Messages API.

use pointsman_domain::ModelPattern;

use super::section::Section;

const MAX_NAMES: usize = 256;

/// `[messages]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessagesConfig {
    /// Names that clients of this API send, and what they mean; the first match counts.
    pub models: Vec<(ModelPattern, String)>,
}

impl MessagesConfig {
    pub(super) fn read(section: &Section<'_>) -> MessagesConfig {
        let pairs = section.pairs("models", MAX_NAMES);
        let models = pairs.into_iter().filter_map(|(name, meaning)| match name.parse() {
            Ok(pattern) if !meaning.text.is_empty() => {
                meaning.names_model(true);
                Some((pattern, meaning.text.to_owned()))
            }
            _ => {
                meaning.fault("is not a name and its meaning", "\"claude-haiku-*\" = \"a model or alias\"");
                None
            }
        });
        MessagesConfig { models: models.collect() }
    }
}
