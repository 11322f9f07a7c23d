//! Providers without keys and their models as TOML, in one line each: for tests that write their own configuration.
//!
//! Everybody else builds a [`crate::world::World`].

/// A provider without a key, named like its slug.
pub(crate) fn provider(slug: &str, base_url: &str) -> String {
    format!("[providers.{slug}]\nbase_url = \"{base_url}\"\n")
}

/// A text model with further lines, at these providers: slug, price per prompt and per completion token.
pub(crate) fn model(id: &str, lines: &str, endpoints: &[(&str, &str, &str)]) -> String {
    let endpoints: String = endpoints
        .iter()
        .map(|(slug, prompt, completion)| {
            format!(
                "[[models.endpoints]]\nprovider = \"{slug}\"\nupstream_model = \"private-name\"\n\
                 pricing = {{ prompt = \"{prompt}\", completion = \"{completion}\" }}\n"
            )
        })
        .collect();
    let window = if lines.contains("context_length") { "" } else { "context_length = 8000\n" };
    format!("[[models]]\nid = \"{id}\"\n{window}{lines}\n{endpoints}")
}

/// A model at one provider, one dollar per million tokens.
pub(crate) fn simple_model(id: &str, slug: &str) -> String {
    model(id, "", &[(slug, "0.000001", "0.000001")])
}
