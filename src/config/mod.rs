//! The configuration: read once, checked whole, and complaining by name.
//!
//! [`Config::load`] reads TOML and the environment and gives either a [`Config`] in which everything
//! holds, or every [`Fault`] at once. Nothing here binds, connects or starts anything; the only I/O is
//! reading the configuration, key files and certificate files.
//!
//! In reading order: `tree` is the text with its places, `former` moves keys to their names of today, `catalog` puts
//! the built-in providers and models below, `environment` overrides all of that, `section` reads one table strictly, one
//! module per subject gives typed settings, `switches` says which providers are on, `assemble` makes the catalog.
//! `reference` describes every key: `docs/CONFIG.md` is made from it.

mod address;
mod admin;
mod aliases;
mod assemble;
mod auth;
mod catalog;
mod changes;
mod credential;
mod environment;
mod fault;
mod files;
mod former;
mod hosts;
mod keys;
mod limits;
mod memory;
mod models;
mod origin;
mod prices;
mod providers;
mod quantity;
mod reference;
mod reload;
mod restart;
mod routing;
mod section;
mod server;
mod simulation;
mod storage;
mod switches;
mod tls;
mod toml_value;
mod tree;
mod validity;
mod widening;
mod write;

use std::{fs, path::Path};

use chrono::Utc;
use pointsman_actors::domain::{Alias, Catalog, RoutingPolicy};

pub use address::{BaseUrl, BaseUrlFault};
pub use admin::AdminConfig;
pub use auth::{AuthConfig, AuthMode, DEVELOPMENT_KEY};
pub(crate) use changes::WrittenConfig;
pub use environment::Environment;
pub use fault::{Fault, SourceLocation, Warning};
pub use hosts::Hosts;
pub use keys::{Key, Scope, digest_of, to_hex};
pub use limits::{BodyPace, COPIES_OF_A_BODY, LimitsConfig, StreamConfig, TimeoutsConfig};
pub use memory::MemoryConfig;
pub use origin::{LoadedConfig, ReadOutcome};
pub use providers::{ProviderConfig, RESERVED_HEADERS, WireDialect};
pub use reference::page as reference_page;
pub use reload::ReloadConfig;
pub use restart::PendingRestart;
pub use routing::{RoutingConfig, ServiceConfig};
pub use server::{CorsConfig, MetricsConfig, ServerConfig};
pub use simulation::{SimulationConfig, SimulationMode};
pub use storage::{CatalogConfig, Envelope, ImagesConfig, LedgerConfig};
pub use tls::{Identity, TlsConfig};

use admin::Transport;
use aliases::Aliases;
use assemble::{Assembly, Tables, assemble};
use environment::Part;
use fault::Faults;
use files::{Files, NamedFiles};
use keys::{KeyContext, KeyTable};
use origin::Origin;
use providers::{ProviderContext, ProviderTable};
use section::Section;
use simulation::SimulationTable;
use tree::{Node, Table, Value};

/// The configuration that the program carries within itself; its providers and models are the built-in catalogue.
pub const BUILT_IN: &str = include_str!("../../config.toml");
/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "config.toml";
/// How faults of the built-in configuration name it.
const BUILT_IN_NAME: &str = "config.toml (built in)";
/// A larger file is not a configuration.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;

/// A checked configuration. Two are equal when each would do what the other does.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where it came from, for messages.
    pub source: String,
    /// `[server]`.
    pub server: ServerConfig,
    /// `[server.tls]`; `None`: plain HTTP.
    pub tls: Option<TlsConfig>,
    /// `[admin]`.
    pub admin: AdminConfig,
    /// `[service]`.
    pub service: ServiceConfig,
    /// `[auth]`.
    pub auth: AuthConfig,
    /// Every key that may call; the development key first, if it is enabled.
    pub keys: Vec<Key>,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[timeouts]`.
    pub timeouts: TimeoutsConfig,
    /// `[stream]`.
    pub stream: StreamConfig,
    /// `[routing]`, with its clocks filled in.
    pub routing: RoutingConfig,
    /// `[catalog]`: how the model list is shown.
    pub catalog: CatalogConfig,
    /// `[ledger]`.
    pub ledger: LedgerConfig,
    /// `[images]`.
    pub images: ImagesConfig,
    /// `[metrics]`.
    pub metrics: MetricsConfig,
    /// `[cors]`.
    pub cors: CorsConfig,
    /// `[simulation]`.
    pub simulation: SimulationConfig,
    /// The real providers that are on.
    pub providers: Vec<ProviderConfig>,
    /// `[reload]`.
    pub reload: ReloadConfig,
    models: Catalog,
    notes: Vec<String>,
    warnings: Warnings,
    origin: Option<Origin>,
    named_files: NamedFiles,
}

/// What a configuration is warned about. Changes nothing of what it does: any two are equal.
#[derive(Debug, Clone, Default)]
struct Warnings(Vec<Warning>);

impl PartialEq for Warnings {
    fn eq(&self, _: &Warnings) -> bool {
        true
    }
}

impl Config {
    /// Reads the configuration: the file at `path`; without one `./config.toml` if it exists, else the
    /// built-in one. Overrides and secrets come from `environment`. Blocks on reading files.
    ///
    /// # Errors
    /// Every fault that was found, in the order of the file, those of the environment last.
    pub fn load(path: Option<&Path>, environment: &Environment) -> Result<LoadedConfig, Vec<Fault>> {
        Origin::new(path, environment).read().config
    }

    /// Reads the configuration from text. `name` is how faults call it; relative paths in it are
    /// relative to `directory`.
    ///
    /// # Errors
    /// Every fault that was found.
    pub fn parse(text: &str, name: &str, directory: &Path, environment: &Environment) -> Result<Config, Vec<Fault>> {
        parse(Text { text, name, blank: Blank::Defaults }, directory, environment).0.map(|loaded| loaded.config)
    }

    /// The models, endpoints, providers and aliases, stamped with `version`.
    #[must_use]
    pub fn catalog(&self, version: u64) -> Catalog {
        let mut catalog = self.models.clone();
        catalog.version = version;
        catalog
    }

    /// The constants of the routing, stamped with `version`.
    #[must_use]
    pub fn routing_policy(&self, version: u64) -> RoutingPolicy {
        self.routing.policy.clone().stamped(version)
    }

    /// What an operator should know at start, one sentence each: every variable that switched a
    /// provider on or the simulation on or off, keys that cannot be used, doors that stand open.
    #[must_use]
    pub fn start_up_notes(&self) -> &[String] {
        &self.notes
    }

    /// What still works and should be written otherwise, in the order of the file.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings.0
    }

    /// Every key as TOML, with its value and where that comes from: the file, a variable, the built-in catalogue or the
    /// default. Reads as [`Config::load`] does.
    ///
    /// # Errors
    /// Every fault that was found.
    pub fn show(path: Option<&Path>, environment: &Environment) -> Result<String, Vec<Fault>> {
        let origin = Origin::new(path, environment);
        origin.read().config?;
        let (text, name) = origin.text()?;
        Ok(effective(&text, &name, environment))
    }

    /// The same of an empty configuration: every default, and the built-in catalogue.
    #[must_use]
    pub fn show_defaults() -> String {
        effective("", BUILT_IN_NAME, &Environment::default())
    }

    /// Who may call real providers with what everybody knows or has, in a sentence; `None` where nobody may.
    #[must_use]
    pub fn public_spending(&self) -> Option<String> {
        let real: Vec<&str> = self.providers.iter().map(|provider| provider.slug.as_str()).collect();
        let who = match self.auth.mode {
            AuthMode::None => "Nobody needs a key (auth.mode = \"none\")",
            AuthMode::Keys if self.accepts_public_key(Utc::now()) => "The development key is public",
            AuthMode::Keys => return None,
        };
        (!real.is_empty()).then(|| {
            format!(
                "{who}: whatever runs on this machine may call real providers ({}), with the scopes inference and read, \
                 never admin. 'pointsman keygen' makes a key of your own; then set auth.mode = \"keys\" and \
                 auth.development_key_enabled = false.",
                real.join(", ")
            )
        })
    }
}

/// A configuration as it was found.
struct Text<'t> {
    text: &'t str,
    /// How faults call it.
    name: &'t str,
    blank: Blank,
}

/// What a text that sets nothing is.
enum Blank {
    /// The configuration in which every key has its default.
    Defaults,
    /// A file that was emptied or cut off: what it held would lapse in silence, keys included.
    Fault,
}

/// The configuration in a text, and every file that it names, also when it is faulty.
fn parse(
    Text { text, name, blank }: Text<'_>,
    directory: &Path,
    environment: &Environment,
) -> (Result<LoadedConfig, Vec<Fault>>, NamedFiles) {
    let (faults, files) = (Faults::default(), Files::default());
    let tree = tree::read(text, name, &faults);
    if matches!(blank, Blank::Fault) && faults.is_empty() && sets_nothing(&tree) {
        let allowed = "at least one key, such as server.bind; without any file the built-in configuration is used";
        faults.value(&tree.place, "configuration", "is empty: the file sets no key; it may have been cut off", allowed);
    }
    let tree = complete(tree, environment, &faults);
    let surroundings = Surroundings { directory, environment, files: &files };
    let mut config = Section::root(&tree, &faults, |root| read(root, name, &surroundings));
    let warnings = warnings(&config);
    config.notes.extend(warnings);
    config.warnings = Warnings(faults.take_warnings());
    let (faults, named_files) = (faults.into_sorted(), files.into_named());
    if !faults.is_empty() {
        return (Err(faults), named_files);
    }
    let config = Config { named_files: named_files.clone(), ..config };
    (Ok(LoadedConfig { config, written: Some(WrittenConfig::of(&tree)) }), named_files)
}

/// A text, what the environment says instead, and the built-in catalogue, under the names of today.
fn complete(mut tree: Table, environment: &Environment, faults: &Faults) -> Table {
    former::rename(&mut tree, faults);
    environment::apply(&mut tree, environment, Part::Definitions, faults);
    former::rename(&mut tree, faults);
    catalog::put_below(&mut tree);
    environment::apply(&mut tree, environment, Part::Corrections, faults);
    former::rename(&mut tree, faults);
    tree
}

/// A configuration without faults, with every key that it does not say.
fn effective(text: &str, name: &str, environment: &Environment) -> String {
    let faults = Faults::default();
    let mut tree = complete(tree::read(text, name, &faults), environment, &faults);
    reference::fill_in(&mut tree);
    if let Some(catalog) = tree.table_mut("catalog") {
        // What is shown is complete: read again, it must not get the catalogue a second time.
        catalog.entries.retain(|entry| entry.key != "builtin");
        catalog.add("builtin", Node::new(Value::Flag(false), SourceLocation::Default));
    }
    let position = |entry: &tree::Entry| reference::position(&entry.key);
    tree.entries.sort_by_key(position);
    write::toml(&tree)
}

/// Whether no key in it has a value, however many sections there are.
fn sets_nothing(table: &Table) -> bool {
    table.entries.iter().all(|entry| matches!(&entry.node.value, Value::Table(table) if sets_nothing(table)))
}

/// What a configuration is read with, beside its text.
/// Environment and files that a configuration is read with.
struct Surroundings<'s> {
    /// Directory of the configuration file. Relative paths are relative to it.
    directory: &'s Path,
    environment: &'s Environment,
    /// Records every file that the configuration names.
    files: &'s Files,
}

/// Reads every section. Asks for all of them even when some are wrong: unknown ones are what is left.
fn read(root: &Section<'_>, name: &str, surroundings: &Surroundings<'_>) -> Config {
    let &Surroundings { directory, environment, .. } = surroundings;
    let (server, tls) = root.section("server", |section| read_server(section, surroundings));
    let service = root.section("service", ServiceConfig::read);
    let auth = root.section("auth", |section| AuthConfig::read(section, &server));
    let transport = if tls.is_some() { Transport::Tls } else { Transport::Plain };
    let admin = root.section("admin", |section| AdminConfig::read(section, &server, &auth, transport));
    let limits = root.section("limits", LimitsConfig::read);
    let timeouts = root.section("timeouts", TimeoutsConfig::read);
    let stream = root.section("stream", StreamConfig::read);
    let mut routing = root.section("routing", |section| RoutingConfig::read(section, directory));
    routing.policy.clocks = timeouts.phases(&stream);
    let keys = KeyContext { environment, server: &server, admin: &admin, auth: &auth, limits: &limits };
    let keys = KeyTable::read(root, &keys);
    let aliases = Aliases::read(root, &service, &routing);
    let providers = ProviderContext { surroundings, server: &server, admin: &admin };
    let Assembly { catalog: models, providers, simulation, mut notes } = read_catalog(root, aliases, &providers);
    notes.extend(keys.absent);
    Config {
        source: name.to_owned(),
        catalog: root.section("catalog", CatalogConfig::read),
        ledger: root.section("ledger", LedgerConfig::read),
        images: root.section("images", ImagesConfig::read),
        metrics: root.section("metrics", MetricsConfig::read),
        cors: root.section("cors", CorsConfig::read),
        reload: root.section("reload", ReloadConfig::read),
        keys: keys.entries,
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
        notes,
        warnings: Warnings::default(),
        origin: None,
        named_files: NamedFiles::new(),
    }
}

/// `[server]`, and `[server.tls]` where it is there: nothing within, where it is faulty.
fn read_server(section: &Section<'_>, surroundings: &Surroundings<'_>) -> (ServerConfig, Option<Option<TlsConfig>>) {
    let &Surroundings { directory, files, .. } = surroundings;
    let tls = section.optional("tls", |section| TlsConfig::read(section, directory, files));
    (ServerConfig::read(section), tls)
}

/// Reads every model and who serves it, and puts them together.
fn read_catalog(root: &Section<'_>, aliases: Aliases, providers: &ProviderContext<'_>) -> Assembly {
    let simulation = root.section("simulation", SimulationTable::read);
    let providers = ProviderTable::read_all(root, providers);
    assemble(root, Tables { aliases, simulation, providers, models: models::read_all(root) })
}

/// What is allowed, and yet hardly wanted.
fn warnings(config: &Config) -> Vec<String> {
    let taken = config.providers.iter().filter_map(|provider| in_the_way(&config.admin, provider));
    let certificate = config.tls.iter().flat_map(|tls| tls.notes(Utc::now()));
    let empty = config.models.aliases.iter().filter_map(|alias| stands_for_nobody(&config.models, alias));
    open_doors(config).into_iter().chain(unguarded(config)).chain(taken).chain(certificate).chain(empty).collect()
}

/// An alias whose lists leave no model: perhaps misspelt, perhaps ahead of the catalog.
fn stands_for_nobody(catalog: &Catalog, alias: &Alias) -> Option<String> {
    let id = &alias.id;
    let note =
        || format!("{id} stands for nobody: its allowed_models and blocked_models leave no model of the catalog.");
    catalog.is_emptied_by_lists_of(alias).then(note)
}

/// What lets in nobody.
fn open_doors(config: &Config) -> Option<String> {
    let Config { auth, keys, .. } = config;
    (auth.mode == AuthMode::Keys && keys.iter().all(|key| key.disabled))
        .then(|| "No key is configured: every call will be refused. 'pointsman keygen' makes one.".to_owned())
}

/// Where keys of administrators travel in clear.
fn unguarded(config: &Config) -> Option<String> {
    let admin = &config.admin;
    let open = admin.bind.filter(|_| config.tls.is_none() && !admin.is_loopback())?;
    Some(format!("admin.bind is {open}: keys with the scope admin travel there unencrypted (admin.allow_plain_http)."))
}

/// A provider where the listener for administration stands unless it is told otherwise: whoever is there first, stays.
fn in_the_way(admin: &AdminConfig, provider: &ProviderConfig) -> Option<String> {
    let url = &provider.base_url;
    let same = admin.is_default() && url.is_loopback() && url.port() == AdminConfig::DEFAULT_BIND.port();
    same.then(|| {
        let slug = &provider.slug;
        format!("providers.{slug}.base_url is the default address of admin.bind: give admin.bind another one, or \"\" for none.")
    })
}

fn read_file(path: &Path, name: &str) -> Result<String, Vec<Fault>> {
    let faults = Faults::default();
    let refuse =
        |place: &SourceLocation, wrong: String| faults.value(place, "configuration", wrong, "a TOML file in UTF-8");
    let start = SourceLocation::File { file: name.into(), line: 1, column: 1 };
    let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > LARGEST_FILE {
        refuse(&start, format!("has {size} bytes"));
        return Err(faults.into_sorted());
    }
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => return Ok(text),
        Ok(Err(error)) => {
            let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            refuse(&tree::end_of(&String::from_utf8_lossy(good), name), "is not UTF-8".to_owned());
        }
        Err(error) => refuse(&start, format!("cannot be read: {error}")),
    }
    Err(faults.into_sorted())
}
