//! What the binary prints when it is ready: everything a stranger needs for a first call.

use std::{fmt::Write as _, net::SocketAddr};

use pointsman_actors::domain::{Catalog, ProviderState};

use crate::config::{AuthMode, Config, DEVELOPMENT_KEY};

/// The text for a server at `address`. The line with the base address is stable: scripts read it.
pub(super) fn text(config: &Config, address: &str, administration: Option<SocketAddr>) -> String {
    let catalog = config.catalog(1);
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{address}/api/v1");
    let mut text = format!("Pointsman {} is listening.\n\n", env!("CARGO_PKG_VERSION"));
    // Writing to a `String` cannot fail.
    let _ = tell_access(&mut text, config, &catalog, &base);
    let _ = match administration {
        Some(address) => writeln!(text, "  Admin         {scheme}://{address}/api/v1/admin"),
        None => writeln!(text, "  Admin         none: switched off, or its address is taken"),
    };
    let _ = tell_providers(&mut text, &catalog);
    for note in config.start_up_notes() {
        let _ = writeln!(text, "  Note          {note}");
    }
    let _ = tell_first_call(&mut text, config, &catalog, &base);
    text
}

fn tell_access(text: &mut String, config: &Config, catalog: &Catalog, base: &str) -> std::fmt::Result {
    let key = match config.auth.mode {
        AuthMode::None => "none needed",
        AuthMode::Keys if config.auth.development_key_enabled => DEVELOPMENT_KEY,
        AuthMode::Keys => "one of yours, from [[keys]]",
    };
    let aliases: Vec<&str> = catalog.aliases.iter().map(|alias| alias.id.as_str()).collect();
    let models: Vec<&str> =
        catalog.models.iter().filter(|model| catalog.is_served(model)).map(|model| model.id.as_str()).collect();
    writeln!(text, "  Base address  {base}")?;
    writeln!(text, "  Key           {key}")?;
    writeln!(text, "  Aliases       {}", aliases.join(", "))?;
    writeln!(text, "  Models        {}", if models.is_empty() { "none".to_owned() } else { models.join(", ") })
}

/// The ones that serve first, then why each of the others does not.
fn tell_providers(text: &mut String, catalog: &Catalog) -> std::fmt::Result {
    let name = |provider: &pointsman_actors::domain::Provider| match provider.simulated {
        true => format!("{} (simulated)", provider.slug),
        false => provider.slug.to_string(),
    };
    let on: Vec<String> = catalog.providers.iter().filter(|provider| provider.is_on()).map(name).collect();
    writeln!(text, "  Serving       {}", if on.is_empty() { "nobody".to_owned() } else { on.join(", ") })?;
    for provider in &catalog.providers {
        if let ProviderState::Off(why) = &provider.state {
            writeln!(text, "  Off           {}: {why}", provider.slug)?;
        }
    }
    Ok(())
}

fn tell_first_call(text: &mut String, config: &Config, catalog: &Catalog, base: &str) -> std::fmt::Result {
    if !catalog.models.iter().any(|model| catalog.is_served(model)) {
        return writeln!(
            text,
            "\nNo provider serves: every call will fail. Set a provider's key variable, or POINTSMAN__SIMULATION__MODE=on."
        );
    }
    let header = match config.auth.mode {
        AuthMode::None => String::new(),
        AuthMode::Keys if config.auth.development_key_enabled => {
            format!(" -H 'Authorization: Bearer {DEVELOPMENT_KEY}'")
        }
        AuthMode::Keys => " -H \"Authorization: Bearer $KEY\"".to_owned(),
    };
    let model = catalog.aliases.first().map_or("service/auto", |alias| alias.id.as_str());
    let price = if config.simulation.active { "" } else { " (a real provider answers, and bills you)" };
    writeln!(
        text,
        "\nTry it{price}:\n  curl {base}/chat/completions{header} -H 'Content-Type: application/json' \\\n    \
         -d '{{\"model\": \"{model}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Which way?\"}}]}}'\n"
    )
}
