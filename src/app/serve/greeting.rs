//! The text that the binary prints when it serves: address, key, models and an example call.

use std::{fmt::Write as _, net::SocketAddr};

use pointsman_base::{clock, secret::Secret};
use pointsman_config::{AuthMode, Config, DEVELOPMENT_KEY};
use pointsman_domain::{Catalog, Endpoint, Pricing, ProviderState};

use crate::access::keys;

/// Address of the admin listener, the admin key generated at this start, and the link that logs in once with it.
pub(super) struct AdminAccess {
    pub(super) address: Option<SocketAddr>,
    pub(super) key: Option<Secret>,
    pub(super) login_link: Option<Secret>,
}

/// The greeting of a server at `address`. Scripts read the line `Base address`: its format must not change.
pub(super) fn text(config: &Config, address: &str, admin: &AdminAccess) -> String {
    let catalog = config.catalog(1);
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{address}/api/v1");
    let mut text = format!("Pointsman {} is listening.\n\n", env!("CARGO_PKG_VERSION"));
    // Writing to a `String` cannot fail.
    let _ = write_access(&mut text, config, &catalog, &base);
    let _ = write_admin(&mut text, config, admin);
    let _ = write_providers(&mut text, &catalog);
    let _ = match config.ledger.durable_directory() {
        Some(path) => writeln!(text, "  Records       {}", path.display()),
        None => writeln!(text, "  Records       in memory only: they end with the process"),
    };
    for note in config.start_up_notes().iter().chain(&config.public_spending()) {
        let _ = writeln!(text, "  Note          {note}");
    }
    let _ = write_first_call(&mut text, config, &catalog, &base);
    text
}

fn write_access(text: &mut String, config: &Config, catalog: &Catalog, base: &str) -> std::fmt::Result {
    let key = match config.auth.mode {
        AuthMode::None => "none needed",
        AuthMode::Keys if config.auth.development_key_enabled => DEVELOPMENT_KEY,
        AuthMode::Keys => "one of yours, from [[keys]]",
    };
    let aliases: Vec<&str> = catalog.aliases.iter().map(|alias| alias.id.as_str()).collect();
    let models: Vec<&str> = catalog
        .models
        .iter()
        .filter(|model| catalog.is_served(model, clock::today()))
        .map(|model| model.id.as_str())
        .collect();
    writeln!(text, "  Base address  {base}")?;
    writeln!(text, "  Key           {key}")?;
    writeln!(text, "  Aliases       {}", aliases.join(", "))?;
    writeln!(text, "  Models        {}", if models.is_empty() { "none".to_owned() } else { models.join(", ") })
}

fn write_admin(text: &mut String, config: &Config, admin: &AdminAccess) -> std::fmt::Result {
    let Some(address) = admin.address else {
        return writeln!(text, "  Admin         none: switched off, or its address is taken");
    };
    // On loopback the admin listener does not use TLS.
    let scheme = if config.tls.is_some() && !config.admin.is_loopback() { "https" } else { "http" };
    writeln!(text, "  Admin         {scheme}://{address}/api/v1/admin")?;
    if config.console.enabled {
        writeln!(text, "  Console       {scheme}://{address}/console/ (log in with the admin key)")?;
        if let Some(link) = &admin.login_link {
            writeln!(text, "  Log in once   {scheme}://{address}{}", link.expose())?;
        }
    }
    match &admin.key {
        Some(key) => writeln!(
            text,
            "  Admin key     {} (shown only once, valid until this process ends; to keep a key, add one with the scope \
             admin to [[keys]])",
            key.expose()
        ),
        None if keys::names_administrator(config) => {
            writeln!(text, "  Admin key     one of yours, from [[keys]] with the scope admin")
        }
        None => writeln!(text, "  Admin key     none: name one of yours, with the scope admin, in [[keys]]"),
    }
}

/// The providers that are on, then those that are off, a line for each reason.
fn write_providers(text: &mut String, catalog: &Catalog) -> std::fmt::Result {
    let name = |provider: &pointsman_domain::Provider| match provider.simulated {
        true => format!("{} (simulated)", provider.slug),
        false => provider.slug.to_string(),
    };
    let on: Vec<String> = catalog.providers.iter().filter(|provider| provider.is_on()).map(name).collect();
    writeln!(text, "  Serving       {}", if on.is_empty() { "none".to_owned() } else { on.join(", ") })?;
    let mut off: Vec<(&str, Vec<String>)> = Vec::new();
    for provider in &catalog.providers {
        let ProviderState::Off(why) = &provider.state else { continue };
        let (why, name) = match why.strip_suffix(" is not set") {
            Some(variable) => ("not set", format!("{} ({variable})", provider.slug)),
            None => (why.as_str(), provider.slug.to_string()),
        };
        match off.iter_mut().find(|(other, _)| *other == why) {
            Some((_, names)) => names.push(name),
            None => off.push((why, vec![name])),
        }
    }
    off.iter().try_for_each(|(why, names)| writeln!(text, "  Off           {}: {why}", names.join(", ")))
}

fn write_first_call(text: &mut String, config: &Config, catalog: &Catalog, base: &str) -> std::fmt::Result {
    if !catalog.models.iter().any(|model| catalog.is_served(model, clock::today())) {
        return writeln!(
            text,
            "\nNo provider is on: every call will fail. Set a provider's key variable, or POINTSMAN__SIMULATION__MODE=on."
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
    let price = if may_cost(config, catalog) { " (a real provider answers and bills you)" } else { "" };
    writeln!(
        text,
        "\nTry it{price}:\n  curl {base}/chat/completions{header} -H 'Content-Type: application/json' \\\n    \
         -d '{{\"model\": \"{model}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Which way?\"}}]}}'\n"
    )
}

/// Whether an enabled endpoint at an address other than loopback has a price. Simulated providers cost nothing.
fn may_cost(config: &Config, catalog: &Catalog) -> bool {
    let remote = config.providers.iter().filter(|provider| !provider.base_url.is_loopback());
    let remote: Vec<u32> = remote.map(|provider| provider.index).collect();
    let is_priced = |endpoint: &Endpoint| endpoint.pricing.as_deref() != Some(&Pricing::default());
    let mut serving = catalog.endpoints.iter().filter(|endpoint| !endpoint.disabled);
    serving.any(|endpoint| remote.contains(&endpoint.provider) && is_priced(endpoint))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn check(base_url: &str, price: &str, bills: bool) {
        let toml = format!(
            "[simulation]\nmode = \"off\"\n[providers.acme]\nbase_url = \"{base_url}\"\n[[models]]\nid = \"acme/small\"\n\
             context_length = 1000\nendpoints = [{{ provider = \"acme\", upstream_model = \"s\", pricing = {{ prompt = \
             \"{price}\", completion = \"0\" }} }}]\n"
        );
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        let config = Config::parse(&toml, "test", Path::new("."), &environment).unwrap();
        let no_admin = AdminAccess { address: None, key: None, login_link: None };
        let greeting = text(&config, "127.0.0.1:8080", &no_admin);
        assert!(greeting.contains("The development key is public: whatever runs on this machine"), "{greeting}");
        assert_eq!(greeting.contains("bills you"), bills, "{greeting}");
    }

    #[test]
    fn the_greeting_warns_of_costs_only_where_a_call_costs_money() {
        check("https://api.example.com/v1", "0.000001", true);
        check("https://api.example.com/v1", "0", false);
        check("http://127.0.0.1:11434/v1", "0.000001", false);
    }
}
