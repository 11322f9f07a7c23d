//! `check`: every fault of a configuration, or a summary of a valid one.

use std::{fmt::Write, path::PathBuf, sync::atomic::AtomicBool};

use clap::Args;
use pointsman_domain::{Catalog, Endpoint, Model, Provider, ProviderState};

use pointsman_base::clock;
use pointsman_config::{
    AccountConfig, AuthMode, Config, DEVELOPMENT_KEY, Environment, ExploreConfig, Fault, HolderLimits, Key,
    SourceLocation, TeamConfig, Warning, digest_of, quality_warnings,
};
use pointsman_ledger::{
    entry::Filter,
    fault::Fault as LedgerFault,
    traffic::{Traffic, TrafficRecord, Wanted},
};
use serde_json::{Value, json};

use super::{CommandOutput, EXIT_CONFIGURATION, EXIT_DIFFERENT, report};
use crate::api::{
    admin::budget_notices::limit_text,
    diff::{break_even, recorded::Recorded, text},
};

/// Most models that are listed; further ones are counted.
const MAX_LISTED_MODELS: usize = 60;
/// Most records that are read, a second's work.
const MAX_RECORDS: u64 = 20_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What to check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct CheckRequest {
    /// Configuration to check; default: ./config.toml if it exists, else the built-in one
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON; each fault with its file, line and column
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    pub strict: bool,
}

/// Checks the configuration.
pub(super) fn run(request: &CheckRequest, environment: &Environment) -> CommandOutput {
    let (text, code) = match Config::load(request.config.as_deref(), environment) {
        Ok(loaded) => {
            let config = &loaded.config;
            let doubts = doubts(config);
            let recorded = recorded(config);
            let is_finding = request.strict && !(config.warnings().is_empty() && doubts.is_empty());
            let text = match request.json {
                true => format!("{:#}\n", summary_json(config, doubts, &recorded)),
                false => summary_with(config, &doubts, &recorded),
            };
            (text, if is_finding { EXIT_DIFFERENT } else { 0 })
        }
        Err(faults) if request.json => (format!("{:#}\n", faults_json(&faults)), EXIT_CONFIGURATION),
        Err(faults) => (report(&faults), EXIT_CONFIGURATION),
    };
    CommandOutput { text, code }
}

fn faults_json(faults: &[Fault]) -> Value {
    let fault = |fault: &Fault| {
        let more = [("key", &fault.key), ("wrong", &fault.wrong), ("allowed", &fault.allowed)];
        located(&fault.location, more)
    };
    json!({ "valid": false, "faults": faults.iter().map(fault).collect::<Vec<_>>() })
}

/// These members behind the place that they are about.
fn located<const N: usize>(location: &SourceLocation, more: [(&str, &String); N]) -> Value {
    let place = match location {
        SourceLocation::File { file, line, column } => {
            vec![("file", json!(&**file)), ("line", json!(line)), ("column", json!(column))]
        }
        SourceLocation::Variable(name) => vec![("variable", json!(&**name))],
        SourceLocation::Default => Vec::new(),
    };
    let more = more.map(|(name, text)| (name, json!(text)));
    place.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What the latest records of the gateway of this configuration tell, if a key needs it. Nothing where there is no ledger that can be
/// read: a configuration is checked on any machine.
fn recorded(config: &Config) -> Recorded {
    let explore = &config.routing.explore;
    let has_cascade = |catalog: &Catalog| catalog.aliases.iter().any(|alias| alias.cascade.is_some());
    let is_asked = explore.exploration.share > 0.0 || has_cascade(&config.catalog(1));
    let traffic = config.ledger.data_dir.as_deref().filter(|_| is_asked).and_then(|place| Traffic::open(place).ok());
    traffic.and_then(|traffic| latest(&traffic, explore).ok()).unwrap_or_default()
}

/// The records of the last day, or of as much of it as holds not too many.
fn latest(traffic: &Traffic, explore: &ExploreConfig) -> Result<Recorded, LedgerFault> {
    let (now_ms, mut span_ms) = (clock::unix_millis(), DAY_MS);
    let wanted = |span_ms| Wanted {
        filter: Filter { since_ms: Some(now_ms.saturating_sub(span_ms)), ..Filter::default() },
        ..Wanted::default()
    };
    while span_ms > 1 && traffic.count(&wanted(span_ms))? > MAX_RECORDS {
        span_ms /= 2;
    }
    let step = |recorded: &mut Recorded, record: TrafficRecord| recorded.add(&record.generation, explore);
    let (parts, _) = traffic.fold(&wanted(span_ms), 1, &AtomicBool::new(false), Recorded::default, step)?;
    Ok(parts.into_iter().next().unwrap_or_default())
}

/// What `[routing.explore]` costs, if it is on.
fn exploration(config: &Config, recorded: &Recorded) -> Option<String> {
    Some(text::exploration(&recorded.exploration(Some(0.0), &config.routing.explore, 1.0)?))
}

fn summary_json(config: &Config, doubts: Vec<String>, recorded: &Recorded) -> Value {
    let catalog = config.catalog(1);
    let cascades = break_even::lines(&catalog, &recorded.acceptances, clock::today(), |_| true);
    let providers = catalog.providers.iter().map(|provider| match &provider.state {
        ProviderState::On => json!({ "slug": provider.slug.as_str(), "on": true }),
        ProviderState::Off(why) => json!({ "slug": provider.slug.as_str(), "on": false, "why": why.to_string() }),
    });
    let served = catalog.models.iter().filter(|model| catalog.is_served(model, clock::today()));
    let models = served.map(|model| json!({ "id": model.id.as_str(), "providers": callable(&catalog, model) }));
    let keys = config.keys.iter().map(|key| {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        json!({ "name": &*key.name, "scopes": scopes, "disabled": key.disabled })
    });
    let warning = |warning: &Warning| located(&warning.location, [("key", &warning.key), ("text", &warning.text)]);
    let doubts = doubts.into_iter().map(|text| json!({ "key": "quality", "text": text }));
    json!({
        "valid": true,
        "source": config.source.to_string(),
        "address": config.server.bind.to_string(),
        "aliases": catalog.aliases.iter().map(|alias| alias.id.as_str()).collect::<Vec<_>>(),
        "providers": providers.collect::<Vec<_>>(),
        "models": models.collect::<Vec<_>>(),
        "models_total": catalog.models.len(),
        "keys": keys.collect::<Vec<_>>(),
        "exploration": exploration(config, recorded),
        "cascades": cascades.into_iter().skip(1).collect::<Vec<_>>(),
        "warnings": config.warnings().iter().map(warning).chain(doubts).collect::<Vec<_>>(),
        "notes": config.start_up_notes().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// What is doubtful about the scores of models today.
fn doubts(config: &Config) -> Vec<String> {
    let routing = &config.routing;
    quality_warnings(&config.catalog(1), &routing.policy, routing.objective, clock::today())
}

/// Slugs of the providers at which a model can be called.
fn callable<'c>(catalog: &'c Catalog, model: &'c Model) -> Vec<&'c str> {
    let is_callable =
        |endpoint: &Endpoint| !endpoint.disabled && catalog.provider_of(endpoint).is_some_and(Provider::is_on);
    let endpoints = catalog.endpoints_of(model).filter(|(_, endpoint)| is_callable(endpoint));
    endpoints.filter_map(|(_, endpoint)| Some(catalog.provider_of(endpoint)?.slug.as_str())).collect()
}

/// The summary without records: address, providers with reasons, models, keys, warnings and notes.
pub fn summary(config: &Config) -> String {
    summary_with(config, &doubts(config), &Recorded::default())
}

fn summary_with(config: &Config, doubts: &[String], recorded: &Recorded) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_summary(&mut page, config, doubts, recorded);
    page
}

fn write_summary(page: &mut String, config: &Config, doubts: &[String], recorded: &Recorded) -> std::fmt::Result {
    let catalog = config.catalog(1);
    let warnings = config.warnings().len() + doubts.len() + config.start_up_notes().len();
    match warnings {
        0 => writeln!(page, "{}: nothing is wrong.\n", config.source)?,
        1 => writeln!(page, "{}: can be used; one remark stands below.\n", config.source)?,
        _ => writeln!(page, "{}: can be used; {warnings} remarks stand below.\n", config.source)?,
    }
    writeln!(page, "Address: {}", config.server.bind)?;
    if let Some(admin) = config.admin.bind.filter(|_| config.console.enabled) {
        // On loopback the admin listener does not use TLS.
        let scheme = if config.tls.is_some() && !config.admin.is_loopback() { "https" } else { "http" };
        writeln!(page, "Console: {scheme}://{admin}/console/")?;
    }
    let aliases: Vec<&str> = catalog.aliases.iter().map(|alias| alias.id.as_str()).collect();
    writeln!(page, "Aliases: {}", aliases.join(", "))?;
    writeln!(page, "\nProviders")?;
    for (index, provider) in (0_u32..).zip(&catalog.providers) {
        writeln!(page, "  {}", provider_line(&catalog, index, provider))?;
    }
    write_models(page, &catalog)?;
    let cascades = break_even::lines(&catalog, &recorded.acceptances, clock::today(), |_| true);
    for (at, line) in cascades.iter().enumerate() {
        writeln!(page, "{}{line}", if at == 0 { "\n" } else { "  " })?;
    }
    if let Some(sentence) = exploration(config, recorded) {
        writeln!(page, "\nExploration\n  {sentence}.")?;
    }
    write_keys(page, config)?;
    if !(config.warnings().is_empty() && doubts.is_empty()) {
        writeln!(page, "\nWarnings")?;
    }
    for warning in config.warnings() {
        writeln!(page, "  {warning}")?;
    }
    for doubt in doubts {
        writeln!(page, "  quality: {doubt}")?;
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
        writeln!(page, "  {:<32} {}", model.id.as_str(), callable(catalog, model).join(", "))?;
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
    write_holders(page, "Accounts", config.accounts.iter().map(|account| (&*account.name, account_facts(account))))?;
    let team = |team: &TeamConfig| team.spend.map(limit_text).into_iter().collect();
    write_holders(page, "Teams", config.teams.iter().map(|of| (&*of.name, team(of))))
}

/// Accounts or teams; nothing if there are none.
fn write_holders<'c>(
    page: &mut String,
    title: &str,
    holders: impl ExactSizeIterator<Item = (&'c str, Vec<String>)>,
) -> std::fmt::Result {
    if holders.len() > 0 {
        writeln!(page, "\n{title}")?;
    }
    for (name, facts) in holders {
        let facts = if facts.is_empty() { "no limit".to_owned() } else { facts.join("; ") };
        writeln!(page, "  {name:<18} {facts}")?;
    }
    Ok(())
}

fn account_facts(account: &AccountConfig) -> Vec<String> {
    let HolderLimits { requests_per_minute, tokens_per_minute, concurrency, spend } = account.limits;
    let team = account.team.as_ref().map(|team| format!("team {team}"));
    let number = |limit: Option<u32>, what: &str| limit.map(|limit| format!("{limit} {what}"));
    let facts = [
        team,
        spend.map(limit_text),
        number(requests_per_minute, "requests per minute"),
        number(tokens_per_minute, "tokens per minute"),
        number(concurrency, "concurrent calls"),
    ];
    facts.into_iter().flatten().collect()
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
    if let Some(limit) = key.spend {
        add(&limit_text(limit));
    }
    if let Some(rate) = key.requests_per_minute {
        add(&format!("{rate} requests per minute"));
    }
    if let Some(limit) = key.concurrency {
        add(&format!("{limit} concurrent calls"));
    }
    line
}
