//! `[messages]`: names of models for clients of the Anthropic Messages API.

use pointsman_domain::ModelPattern;

use super::section::Section;

const MAX_NAMES: usize = 256;

settings! {
    /// Clients of the Anthropic Messages API (`/messages`).
    #[derive(Debug, Clone, PartialEq)]
    pub struct MessagesConfig read(section) {
        /// Meaning of names that are neither an alias of the key, nor a model, nor an alias, such as `{
        /// "claude-haiku-*" = "service/auto" }`; the first match counts. Without an entry, the name of a model at an
        /// endpoint with `dialect = "anthropic"`, with or without a date at its end, means that model.
        pub models: Vec<(ModelPattern, String)> = with(models)
            [allowed = "name or prefix with `*` = model id or alias"],
    }
}

fn models(section: &Section<'_>, key: &'static str) -> Vec<(ModelPattern, String)> {
    let pairs = section.pairs(key, MAX_NAMES);
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
    models.collect()
}
