//! `check`: a summary of a valid configuration.

use std::fmt::Write;

use pointsman_actors::domain::{Catalog, Model, Provider, ProviderState};

use crate::{
    base::clock,
    config::{AuthMode, Config, DEVELOPMENT_KEY, Key, digest_of},
};

/// Most models that are listed; further ones are counted.
const MAX_LISTED_MODELS: usize = 60;

/// The summary: address, providers with reasons, models, keys, warnings and notes.
#[must_use]
pub fn summary(config: &Config) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_summary(&mut page, config);
    page
}

fn write_summary(page: &mut String, config: &Config) -> std::fmt::Result {
    let catalog = config.catalog(1);
    writeln!(page, "{}: nothing is wrong.\n", config.source)?;
    writeln!(page, "Address: {}", config.server.bind)?;
    let aliases: Vec<&str> = catalog.aliases.iter().map(|alias| alias.id.as_str()).collect();
    writeln!(page, "Aliases: {}", aliases.join(", "))?;
    writeln!(page, "\nProviders")?;
    for (index, provider) in (0_u32..).zip(&catalog.providers) {
        writeln!(page, "  {}", provider_line(&catalog, index, provider))?;
    }
    write_models(page, &catalog)?;
    write_keys(page, config)?;
    if !config.warnings().is_empty() {
        writeln!(page, "\nWarnings")?;
    }
    for warning in config.warnings() {
        writeln!(page, "  {warning}")?;
    }
    if !config.start_up_notes().is_empty() {
        writeln!(page, "\nNotes")?;
    }
    for note in config.start_up_notes() {
        writeln!(page, "  {note}")?;
    }
    Ok(())
}

fn provider_line(catalog: &Catalog, index: u32, provider: &Provider) -> String {
    let slug = provider.slug.as_str();
    match &provider.state {
        ProviderState::On => {
            let served = |model: &&Model| {
                catalog.endpoints_of(model).any(|(_, endpoint)| endpoint.provider == index && !endpoint.disabled)
            };
            let models = catalog.models.iter().filter(served).count();
            format!("on   {slug:<14} {models} model{}", if models == 1 { "" } else { "s" })
        }
        ProviderState::Off(why) => format!("off  {slug:<14} {why}"),
    }
}

fn write_models(page: &mut String, catalog: &Catalog) -> std::fmt::Result {
    let served: Vec<&Model> = catalog.models.iter().filter(|model| catalog.is_served(model, clock::today())).collect();
    writeln!(page, "\nModels: {} can be called now, of {}", served.len(), catalog.models.len())?;
    for model in served.iter().take(MAX_LISTED_MODELS) {
        let callable = |endpoint: &pointsman_actors::domain::Endpoint| {
            !endpoint.disabled && catalog.provider_of(endpoint).is_some_and(Provider::is_on)
        };
        let providers = catalog
            .endpoints_of(model)
            .filter(|(_, endpoint)| callable(endpoint))
            .filter_map(|(_, endpoint)| Some(catalog.provider_of(endpoint)?.slug.as_str()));
        writeln!(page, "  {:<32} {}", model.id.as_str(), providers.collect::<Vec<_>>().join(", "))?;
    }
    if served.len() > MAX_LISTED_MODELS {
        writeln!(page, "  and {} more", served.len() - MAX_LISTED_MODELS)?;
    }
    Ok(())
}

fn write_keys(page: &mut String, config: &Config) -> std::fmt::Result {
    if config.auth.mode == AuthMode::None {
        return writeln!(page, "\nKeys: none required (auth.mode = \"none\")");
    }
    writeln!(page, "\nKeys")?;
    for key in &config.keys {
        writeln!(page, "  {}", key_line(key))?;
    }
    Ok(())
}

fn key_line(key: &Key) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let mut line = format!("{:<18} {}", key.name, scopes.join(", "));
    let mut add = |text: &str| line.push_str(&format!("; {text}"));
    if key.disabled {
        add("disabled");
    }
    if key.sha256 == digest_of(DEVELOPMENT_KEY) {
        add("on loopback only");
    }
    if let Some(end) = key.expires_at {
        add(&format!("until {}", end.to_rfc3339()));
    }
    if let Some(rate) = key.requests_per_minute {
        add(&format!("{rate} requests per minute"));
    }
    if let Some(limit) = key.concurrency {
        add(&format!("{limit} concurrent calls"));
    }
    line
}
