//! The configuration: reading, checking, and reporting faults.
//!
//! [`Config::load`] reads TOML and the environment. It returns a valid [`Config`], or every [`Fault`] at once. This
//! crate binds, connects and starts nothing; its only I/O is reading the configuration, key and certificate files.
//!
//! Steps of reading: `tree` parses the text and keeps source locations, `catalog` adds the built-in providers and
//! models, `environment` applies overrides, `section` reads one table strictly, one module per subject declares its keys
//! and returns typed settings, `provider_states` decides which providers are on, and `assemble` builds the catalog.
//!
//! A new key is one declaration in the module of its section, which `declare` explains:
//!
//! ```text
//! /// What it is for, and the reason for its default.
//! pub keepalive: Duration = duration_or(MILLISECOND..=DAY, 15 * SECOND),
//! ```
//!
//! It makes the field and the reader, and the key's place in `docs/CONFIG.md`, in the JSON Schema and in what
//! `pointsman config show` prints: `reference` records what is declared while every section is read as if it were empty.

#[macro_use]
mod declare;

mod accounts;
mod address;
mod admin;
mod alerts;
mod aliases;
mod assemble;
mod auth;
mod cascades;
mod catalog;
mod changes;
mod console;
mod credential;
mod described;
mod endpoint_settings;
mod environment;
mod fault;
mod feedback;
mod files;
mod hosts;
mod item;
mod keys;
mod limits;
mod listeners;
mod logging;
mod memory;
mod messages;
mod models;
mod origin;
mod overrides;
#[deny(clippy::float_arithmetic)]
mod prices;
mod promotion;
mod provider_states;
mod providers;
mod quality;
mod quantity;
mod reference;
mod reload;
mod reload_guard;
mod responses;
mod restart;
mod routing;
mod schema;
mod section;
mod server;
mod shadows;
mod shared;
mod simulation;
mod splits;
mod storage;
mod tls;
#[deny(clippy::float_arithmetic)]
mod token_class;
mod toml_value;
mod traces;
mod tree;
mod validity;
mod write;

use std::{collections::BTreeMap, fs, io, path::Path};

use chrono::{NaiveDate, Utc};
use pointsman_domain::{Alias, Catalog, ProviderSlug, RoutingPolicy};

pub use accounts::{AccountConfig, HolderLimits, TeamConfig, is_account_name, spend_amount};
pub use address::{BaseUrl, BaseUrlFault};
pub use admin::AdminConfig;
pub use alerts::{ALERT_EVENTS, AlertFormat, AlertReceiver, SigningKey};
pub use auth::{AuthConfig, AuthMode, DEVELOPMENT_KEY};
pub use catalog::{BuiltInProvider, built_in_providers};
pub use changes::{ChangedKey, KeyInForce, WrittenConfig};
pub use console::{ConsoleConfig, TraceUrl};
pub use environment::Environment;
pub use fault::{Fault, SourceLocation, Warning};
pub use feedback::FeedbackConfig;
pub use hosts::Hosts;
pub use keys::{Key, Scope, digest_of, from_hex, is_alias_text};
pub use limits::{BodyPace, COPIES_OF_A_BODY, LimitsConfig, StreamConfig, TimeoutsConfig};
pub use listeners::Listeners;
pub use logging::{LogConfig, LogFormat};
pub use memory::MemoryConfig;
pub use messages::MessagesConfig;
pub use origin::{LoadedConfig, ReadOutcome};
pub use promotion::{CanaryLines, NotACanary};
pub use providers::{KeyHeader, ProviderConfig, RESERVED_HEADERS, Routes};
pub use quality::quality_warnings;
pub use reference::page as reference_page;
pub use reload::ReloadConfig;
pub use responses::ResponsesConfig;
pub use restart::PendingRestart;
pub use routing::{ExploreConfig, RoutingConfig, ServiceConfig};
pub use schema::schema;
pub use server::{CorsConfig, MetricsConfig, ServerConfig};
pub use shadows::ShadowConfig;
pub use shared::{SharedConfig, StoreAddress};
pub use simulation::{SimulationConfig, SimulationMode};
pub use splits::SHARE_ON_TRIAL;
pub use storage::{CatalogConfig, Durability, Envelope, ImagesConfig, LedgerConfig};
pub use tls::{Identity, TlsConfig};
pub use token_class::TokenClass;
pub use traces::{SpanBatches, TracesConfig};

use accounts::AccountTable;
use admin::Transport;
use aliases::Aliases;
use assemble::{Assembly, Tables, assemble};
use endpoint_settings::EndpointSettings;
use environment::Part;
use fault::Faults;
use files::{Files, NamedFiles};
use keys::{KeyContext, KeyTable};
use origin::Origin;
use overrides::WrittenTree;
use providers::{ProviderContext, ProviderTable};
use section::Section;
use shadows::Declared;
use simulation::SimulationTable;
use tree::{Node, Table, Value};

/// The built-in configuration. Its providers and models are the built-in catalogue.
pub const BUILT_IN: &str = include_str!("../../../config.toml");
/// The file that is read when the command line names none.
pub const DEFAULT_FILE: &str = "config.toml";
/// File name of the built-in configuration in faults.
const BUILT_IN_NAME: &str = "config.toml (built in)";
/// Largest accepted configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// A valid configuration. Two configurations are equal when they have the same effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Name of the source, for messages.
    pub source: String,
    /// `[server]`.
    pub server: ServerConfig,
    /// `[server.tls]`; `None` means plain HTTP.
    pub tls: Option<TlsConfig>,
    /// `[admin]`.
    pub admin: AdminConfig,
    /// `[console]`.
    pub console: ConsoleConfig,
    /// `[service]`.
    pub service: ServiceConfig,
    /// `[auth]`.
    pub auth: AuthConfig,
    /// All API keys; the development key first, if it is enabled.
    pub keys: Vec<Key>,
    /// `[[accounts]]`.
    pub accounts: Vec<AccountConfig>,
    /// `[[teams]]`.
    pub teams: Vec<TeamConfig>,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[timeouts]`.
    pub timeouts: TimeoutsConfig,
    /// `[stream]`.
    pub stream: StreamConfig,
    /// `[routing]`, with the timeouts of `[timeouts]` and `[stream]`.
    pub routing: RoutingConfig,
    /// `[catalog]`: how the model list is shown.
    pub catalog: CatalogConfig,
    /// `[messages]`: names of models for clients of the Messages API.
    pub messages: MessagesConfig,
    /// `[responses]`: what clients of the Responses API may count on.
    pub responses: ResponsesConfig,
    /// `[ledger]`.
    pub ledger: LedgerConfig,
    /// `[feedback]`.
    pub feedback: FeedbackConfig,
    /// `[shared]`.
    pub shared: SharedConfig,
    /// `[images]`.
    pub images: ImagesConfig,
    /// `[log]`.
    pub log: LogConfig,
    /// `[metrics]`.
    pub metrics: MetricsConfig,
    /// `[[alerts]]`.
    pub alerts: Vec<AlertReceiver>,
    /// `[traces]`, completed by the standard variables.
    pub traces: TracesConfig,
    /// `[cors]`.
    pub cors: CorsConfig,
    /// `[simulation]`.
    pub simulation: SimulationConfig,
    /// The real providers that are on.
    pub providers: Vec<ProviderConfig>,
    /// `[reload]`.
    pub reload: ReloadConfig,
    /// Date of the oldest prices of each provider whose prices are dated, by its position in the catalog.
    pub price_dates: BTreeMap<u32, NaiveDate>,
    /// Enabled real providers that are off because the key they need is missing.
    pub providers_without_key: Vec<ProviderSlug>,
    /// `[[shadow]]`: configurations that decide beside this one.
    pub shadows: Vec<ShadowConfig>,
    models: Catalog,
    notes: Vec<String>,
    warnings: Warnings,
    origin: Option<Origin>,
    named_files: NamedFiles,
    written: WrittenTree,
}

/// Warnings about a configuration. They do not change its effect, so all values are equal.
#[derive(Debug, Clone, Default)]
struct Warnings(Vec<Warning>);

impl PartialEq for Warnings {
    fn eq(&self, _: &Warnings) -> bool {
        true
    }
}

impl Config {
    /// Reads the configuration from `path`; without a path from `./config.toml` if it exists, else the built-in one.
    /// Overrides and secrets come from `environment`. Blocks on reading files.
    ///
    /// # Errors
    /// All faults, in the order of the file; those of the environment last.
    pub fn load(path: Option<&Path>, environment: &Environment) -> Result<LoadedConfig, Vec<Fault>> {
        Origin::new(path, environment).read().config
    }

    /// Reads the configuration from text. `name` is the file name in faults; relative paths are relative to
    /// `directory`.
    ///
    /// # Errors
    /// All faults.
    pub fn parse(text: &str, name: &str, directory: &Path, environment: &Environment) -> Result<Config, Vec<Fault>> {
        parse(Text { text, name, empty: EmptyText::Defaults }, directory, environment).0.map(|loaded| loaded.config)
    }

    /// The models, endpoints, providers and aliases, with this `version`.
    pub fn catalog(&self, version: u64) -> Catalog {
        let mut catalog = self.models.clone();
        catalog.version = version;
        catalog
    }

    /// The constants of the routing, with this `version`.
    pub fn routing_policy(&self, version: u64) -> RoutingPolicy {
        self.routing.policy.clone().stamped(version)
    }

    /// Sentences for the operator at start: variables that switched a provider or the simulation on or off, keys that
    /// cannot be used, unsafe settings.
    pub fn start_up_notes(&self) -> &[String] {
        &self.notes
    }

    /// Warnings about keys that work, in the order of the file.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings.0
    }

    /// Every key as TOML, with its value and the source of the value: the file, a variable, the built-in catalogue or
    /// the default. Reads the same sources as [`Config::load`].
    ///
    /// # Errors
    /// All faults.
    pub fn show(path: Option<&Path>, environment: &Environment) -> Result<String, Vec<Fault>> {
        let origin = Origin::new(path, environment);
        origin.read().config?;
        let (text, name) = origin.text()?;
        Ok(effective(&text, &name, environment))
    }

    /// The same for an empty configuration: all defaults, and the built-in catalogue.
    pub fn show_defaults() -> String {
        effective("", BUILT_IN_NAME, &Environment::default())
    }

    /// A warning when real providers can be called without a private key; `None` when a private key is required.
    pub fn public_spending(&self) -> Option<String> {
        let real: Vec<&str> = self.providers.iter().map(|provider| provider.slug.as_str()).collect();
        let reason = match self.auth.mode {
            AuthMode::None => "No key is required (auth.mode = \"none\")",
            AuthMode::Keys if self.accepts_public_key(Utc::now()) => "The development key is public",
            AuthMode::Keys => return None,
        };
        (!real.is_empty()).then(|| {
            format!(
                "{reason}: whatever runs on this machine may call real providers ({}), with the scopes inference and read, \
                 never admin. 'pointsman keygen' makes a key of your own; then set auth.mode = \"keys\" and \
                 auth.development_key_enabled = false.",
                real.join(", ")
            )
        })
    }
}

/// Text of a configuration.
struct Text<'t> {
    text: &'t str,
    /// File name in faults.
    name: &'t str,
    empty: EmptyText,
}

/// Meaning of a text that sets no key.
enum EmptyText {
    /// All keys have their defaults.
    Defaults,
    /// A fault: the file may have been emptied or cut off, and its API keys would be lost without notice.
    Fault,
}

/// The configuration in a text or its faults, and every file that the text names.
fn parse(
    Text { text, name, empty }: Text<'_>,
    directory: &Path,
    environment: &Environment,
) -> (Result<LoadedConfig, Vec<Fault>>, NamedFiles) {
    let (faults, files) = (Faults::default(), Files::default());
    let tree = tree::read(text, name, &faults);
    if matches!(empty, EmptyText::Fault) && faults.is_empty() && sets_nothing(&tree) {
        let allowed = "at least one key, such as server.bind; without any file the built-in configuration is used";
        faults.value(
            &tree.location,
            "configuration",
            "is empty: the file sets no key; it may have been cut off",
            allowed,
        );
    }
    let written = WrittenTree::new(&tree, directory, environment);
    let tree = complete(tree, environment, &faults);
    let surroundings = Surroundings { directory, environment, files: &files };
    let (config, shadows) = Section::root(&tree, &faults, |root| read(root, name, &surroundings));
    let mut config = Config { written, ..config };
    if faults.is_empty() {
        let read = |overrides: &Table| {
            overrides::changed(&tree, overrides, name, &surroundings).map_err(|found| faults.extend(found)).ok()
        };
        let shadows = shadows.into_iter().filter_map(|shadow| shadow.resolved(&config, &faults, read));
        config.shadows = shadows.collect();
    }
    let warnings = warnings(&config);
    config.notes.extend(warnings);
    faults.look_up_names(&config.models);
    config.warnings = Warnings(faults.take_warnings());
    let (faults, named_files) = (faults.into_sorted(), files.into_named());
    if !faults.is_empty() {
        return (Err(faults), named_files);
    }
    let config = Config { named_files: named_files.clone(), ..config };
    (Ok(LoadedConfig { config, written: Some(WrittenConfig::new(&tree)) }), named_files)
}

/// Adds overrides of the environment and the built-in catalogue.
fn complete(mut tree: Table, environment: &Environment, faults: &Faults) -> Table {
    environment::warn_of_misspelt(environment, reference::path_of_words, faults);
    environment::warn_of_proxies(environment, faults);
    environment::apply(&mut tree, environment, Part::Definitions, faults);
    catalog::add_to(&mut tree);
    environment::apply(&mut tree, environment, Part::Corrections, faults);
    tree
}

/// A valid configuration as TOML, with the defaults of all keys that it does not set.
fn effective(text: &str, name: &str, environment: &Environment) -> String {
    let faults = Faults::default();
    let mut tree = complete(tree::read(text, name, &faults), environment, &faults);
    reference::fill_in(&mut tree);
    if let Some(catalog) = tree.table_mut("catalog") {
        // The output holds the whole catalogue. When it is read again, the catalogue must not be added a second time.
        catalog.entries.retain(|entry| entry.key != "builtin");
        catalog.add("builtin", Node::new(Value::Flag(false), SourceLocation::Default));
    }
    let position = |entry: &tree::Entry| reference::position(&entry.key);
    tree.entries.sort_by_key(position);
    write::toml(&tree)
}

/// Whether the table and its sections set no key.
fn sets_nothing(table: &Table) -> bool {
    table.entries.iter().all(|entry| matches!(&entry.node.value, Value::Table(table) if sets_nothing(table)))
}

/// Environment and files that a configuration is read with.
struct Surroundings<'s> {
    /// Directory of the configuration file. Relative paths are relative to it.
    directory: &'s Path,
    environment: &'s Environment,
    /// Records every file that the configuration names.
    files: &'s Files,
}

/// Reads every section, also after a fault: a section that is not requested is reported as unknown. Shadows are read once the rest
/// is without fault.
fn read<'t>(root: &Section<'t>, name: &str, surroundings: &Surroundings<'_>) -> (Config, Vec<Declared<'t>>) {
    let &Surroundings { directory, environment, .. } = surroundings;
    let (server, tls) = root.section("server", |section| read_server(section, surroundings));
    let auth = root.section("auth", |section| AuthConfig::read(section).checked(section, &server));
    let transport = if tls.is_some() { Transport::Tls } else { Transport::Plain };
    let admin = root.section("admin", |section| AdminConfig::read(section).checked(section, &server, &auth, transport));
    let console = root.section("console", ConsoleConfig::read);
    let reload = root.section("reload", ReloadConfig::read);
    let service = root.section("service", ServiceConfig::read);
    let limits = root.section("limits", |section| LimitsConfig::read(section).checked(section));
    let keys = KeyContext { environment, server: &server, admin: &admin, auth: &auth, limits: &limits };
    let keys = KeyTable::read(root, &keys);
    let AccountTable { accounts, teams } = AccountTable::read(root, &limits);
    let alerts = alerts::read_all(root, surroundings);
    let cors = root.section("cors", CorsConfig::read);
    let traces = root.section("traces", |section| TracesConfig::read(section, surroundings));
    let log = root.section("log", LogConfig::read);
    let metrics = root.section("metrics", MetricsConfig::read);
    let timeouts = root.section("timeouts", TimeoutsConfig::read);
    let stream = root.section("stream", StreamConfig::read);
    let mut routing = root.section("routing", |section| RoutingConfig::read(section, directory));
    routing.policy.clocks = timeouts.phases(&stream);
    let aliases = Aliases::read(root, &service, &routing);
    let catalog = root.section("catalog", CatalogConfig::read);
    let messages = root.section("messages", MessagesConfig::read);
    let responses = root.section("responses", ResponsesConfig::read);
    let ledger = root.section("ledger", |section| LedgerConfig::read(section, directory).checked(section));
    let feedback = root.section("feedback", FeedbackConfig::read);
    let shared = root.section("shared", |section| SharedConfig::read(section, &ledger, surroundings));
    let images = root.section("images", ImagesConfig::read);
    let providers = ProviderContext { surroundings, server: &server, admin: &admin };
    let Assembly { catalog: models, providers, simulation, mut notes, price_dates, without_key } =
        read_catalog(root, aliases, &providers);
    notes.extend(keys.absent);
    let explored = routing.explore.aliases.iter().filter_map(|name| Some(models.alias_called(name)?.id.clone()));
    routing.explore.aliases = explored.collect();
    let shadows = shadows::declared(root);
    let config = Config {
        source: name.to_owned(),
        catalog,
        console,
        messages,
        responses,
        feedback,
        shared,
        ledger,
        images,
        log,
        metrics,
        alerts,
        traces,
        cors,
        reload,
        keys: keys.entries,
        accounts,
        teams,
        server,
        tls: tls.flatten(),
        admin,
        service,
        auth,
        limits,
        timeouts,
        stream,
        routing,
        simulation,
        providers,
        models,
        price_dates,
        providers_without_key: without_key,
        notes,
        warnings: Warnings::default(),
        origin: None,
        named_files: NamedFiles::new(),
        shadows: Vec::new(),
        written: WrittenTree::empty(),
    };
    (config, shadows)
}

/// `[server]` and `[server.tls]`. The outer option is `None` without that section, the inner one when it is faulty.
fn read_server(section: &Section<'_>, surroundings: &Surroundings<'_>) -> (ServerConfig, Option<Option<TlsConfig>>) {
    let &Surroundings { directory, files, .. } = surroundings;
    let tls = section.optional("tls", |section| TlsConfig::read(section, directory, files));
    (ServerConfig::read(section), tls)
}

/// Reads aliases, providers and models, and builds the catalog.
fn read_catalog(root: &Section<'_>, aliases: Aliases, providers: &ProviderContext<'_>) -> Assembly {
    let simulation = root.section("simulation", SimulationTable::read);
    let providers = ProviderTable::read_all(root, providers);
    let real =
        providers.iter().filter_map(|provider| Some((provider.slug.as_ref()?.as_str(), provider.endpoints.clone())));
    let simulated = simulation.providers.iter().map(|provider| {
        (provider.named.text, EndpointSettings { dialect: provider.settings.dialect, ..EndpointSettings::STANDARD })
    });
    let models = models::read_all(root, &simulated.chain(real).collect());
    assemble(root, Tables { aliases, simulation, providers, models })
}

/// Sentences about settings that are valid but probably not intended.
fn warnings(config: &Config) -> Vec<String> {
    let conflicts = config.providers.iter().filter_map(|provider| admin_address_conflict(&config.admin, provider));
    let certificate = config.tls.iter().flat_map(|tls| tls.notes(Utc::now()));
    let empty = config.models.aliases.iter().filter_map(|alias| empty_alias(&config.models, alias));
    let keys = no_usable_key(config).into_iter().chain(unencrypted_clients(config)).chain(unencrypted_admin(config));
    keys.chain(conflicts).chain(certificate).chain(empty).chain(alerts_in_memory(config)).collect()
}

/// Warns when alerts that are not delivered yet would be lost at a restart.
fn alerts_in_memory(config: &Config) -> Option<String> {
    let kept = config.alerts.is_empty() || config.ledger.durable_directory().is_some();
    let note = "Alerts that are not delivered yet are kept in memory only, and lost at a restart: ledger.data_dir and \
                ledger.durability keep them.";
    (!kept).then(|| note.to_owned())
}

/// Warns of an alias whose lists leave no model: a name may be misspelt, or its model not yet in the catalog.
fn empty_alias(catalog: &Catalog, alias: &Alias) -> Option<String> {
    let id = &alias.id;
    let note =
        || format!("{id} matches no model: its allowed_models and blocked_models leave no model of the catalog.");
    catalog.is_emptied_by_lists_of(alias).then(note)
}

/// Warns when no caller can authenticate.
fn no_usable_key(config: &Config) -> Option<String> {
    let Config { auth, keys, .. } = config;
    (auth.mode == AuthMode::Keys && keys.iter().all(|key| key.disabled))
        .then(|| "No key is configured: every call will be refused. 'pointsman keygen' makes one.".to_owned())
}

/// Warns when keys and prompts of clients may be sent unencrypted over a network.
fn unencrypted_clients(config: &Config) -> Option<String> {
    let server = &config.server;
    let open = config.tls.is_none() && !server.is_loopback();
    open.then(|| {
        format!("server.bind is {} without [server.tls]: leave it so only behind a proxy that ends TLS.", server.bind)
    })
}

/// Warns when keys of administrators are sent unencrypted over a network.
fn unencrypted_admin(config: &Config) -> Option<String> {
    let admin = &config.admin;
    let open = admin.bind.filter(|_| config.tls.is_none() && !admin.is_loopback())?;
    Some(format!(
        "admin.bind is {open}: keys with the scope admin are sent there unencrypted (admin.allow_plain_http)."
    ))
}

/// Warns of a provider at the default address of the admin listener: only one of the two can bind that port.
fn admin_address_conflict(admin: &AdminConfig, provider: &ProviderConfig) -> Option<String> {
    let url = &provider.base_url;
    let same = admin.is_default() && url.is_loopback() && url.port() == AdminConfig::DEFAULT_BIND.port();
    same.then(|| {
        let slug = &provider.slug;
        format!("providers.{slug}.base_url is the default address of admin.bind: give admin.bind another one, or \"\" for none.")
    })
}

fn read_file(path: &Path, name: &str) -> Result<String, Vec<Fault>> {
    let faults = Faults::default();
    let refuse = |location: &SourceLocation, wrong: String| {
        faults.value(location, "configuration", wrong, "a TOML file in UTF-8")
    };
    let start = SourceLocation::File { file: name.into(), line: 1, column: 1 };
    let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > MAX_FILE_BYTES {
        refuse(&start, format!("has {size} bytes"));
        return Err(faults.into_sorted());
    }
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => return Ok(text),
        Ok(Err(error)) => {
            let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            refuse(&tree::end_of(&String::from_utf8_lossy(good), name), "is not UTF-8".to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            faults.value(
                &start,
                "configuration",
                "there is no such file",
                "an existing file; 'pointsman init' writes one",
            );
        }
        Err(error) => refuse(&start, format!("cannot be read: {error}")),
    }
    Err(faults.into_sorted())
}
