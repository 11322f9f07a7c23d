//! Shadow policies: `[[shadow]]`, other configurations whose choices are recorded beside those that serve.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use pointsman_domain::{Alias, Catalog, Objective, RoutingPolicy};

use super::{
    Config,
    changes::WrittenConfig,
    fault::{Faults, SourceLocation},
    keys::{digest_of, expiry},
    providers::ProviderConfig,
    section::{Section, words},
    toml_value,
    tree::{Table, Value},
};

/// Most shadows.
const MOST: usize = 4;
/// Sections that decide where a request goes.
const DECIDING: [&str; 6] = ["aliases", "models", "providers", "routing", "simulation", "timeouts"];
/// Longest name: it is in every record.
const LONGEST_NAME: usize = 16;

/// Another configuration that decides beside this one and serves nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Share of the requests that it decides, too.
    pub share: f64,
    /// Only requests with this alias.
    pub alias: Option<String>,
    /// Only requests with this objective.
    pub objective: Option<Objective>,
    /// Until when it decides.
    pub until: Option<DateTime<Utc>>,
    /// The keys that it changes, with their values; what might be a secret is not shown.
    pub overrides: String,
    /// The digest of the same with all of their values, and of what it and what serves decide by: the default objective, the
    /// constants of the routing, and the alias that it watches.
    pub digest: [u8; 32],
    /// Models, endpoints, providers and aliases under the changes.
    pub catalog: Arc<Catalog>,
    /// The constants of the routing under the changes.
    pub policy: Arc<RoutingPolicy>,
    /// Objective of requests that name none, under the changes.
    pub default_objective: Objective,
}

/// A shadow as it is written.
pub(super) struct Declared<'t> {
    name: Arc<str>,
    share: f64,
    alias: Option<String>,
    objective: Option<Objective>,
    until: Option<DateTime<Utc>>,
    overrides: Option<&'t Table>,
    location: SourceLocation,
}

/// Reads all of them as they are written.
pub(super) fn declared<'t>(root: &Section<'t>) -> Vec<Declared<'t>> {
    let shadows = root.sections("shadow", MOST, read);
    for (position, shadow) in shadows.iter().enumerate() {
        if !shadow.name.is_empty() && shadows.iter().take(position).any(|other| other.name == shadow.name) {
            root.fault("shadow", format!("has two entries called '{}'", shadow.name), "each name once");
        }
    }
    shadows
}

fn read<'t>(section: &Section<'t>) -> Declared<'t> {
    const NAME: &str = "1 to 16 letters, digits, '-' and '_'";
    keys! { section:
        //! Shadow policies, one `[[shadow]]` each, at most four: other configurations that choose for the same requests and
        //! serve none. [POLICY.md](POLICY.md#shadows) shows how to use them.
        /// Its name, which records and metrics show.
        name = required(NAME),
        /// Share of the requests that it decides.
        share = number_or(0.0001..=1.0, 1.0),
        /// Time from which on it rests.
        until = with(expiry) [absent = "never", kind = "date or time"],
        /// What it does otherwise: keys of this file with other values, as `routing.objective = "cheapest"`. What works over
        /// time (breakers, half-lives, pacing, stickiness) cannot differ, and there are no other models, providers and endpoints.
        overrides = with(table) [kind = "table", absent = "none", allowed = "keys of the configuration"],
    }
    let name = name.unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if section.has("name") && (name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name)) {
        section.fault("name", "is not a name", NAME);
    }
    let (alias, objective) = section.section("where", |section| {
        keys! { section:
            //! Which requests a shadow decides; all by default.
            /// Only those with this alias, such as `service/auto`.
            alias = filled_text() [absent = "all"],
            /// Only those with this objective.
            objective = choice(&words(Objective::ALL, Objective::as_str)) [absent = "all"],
        }
        (alias, objective)
    });
    let location = section.location().clone();
    Declared { name: name.into(), share, alias, objective, until, overrides, location }
}

fn table<'t>(section: &Section<'t>, key: &'static str) -> Option<&'t Table> {
    match section.any(key)? {
        Value::Table(table) => Some(table),
        other => {
            section.fault(key, format!("got {}", other.kind()), "a table");
            None
        }
    }
}

impl ShadowConfig {
    /// Twelve hexadecimal digits of what it changes, for which requests, and what it and what serves decide by; its end is not
    /// in them.
    pub fn fingerprint(&self) -> String {
        let ShadowConfig { digest, share, alias, objective, .. } = self;
        let definition = digest_of(&format!("{digest:?} {share} {alias:?} {objective:?}"));
        definition.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Declared<'_> {
    /// The shadow. `changed` reads the configuration with its changes. `None` after a fault.
    pub(super) fn resolved(
        self,
        serving: &Config,
        faults: &Faults,
        changed: impl FnOnce(&Table) -> Option<Config>,
    ) -> Option<ShadowConfig> {
        let empty = Table::empty(SourceLocation::Default);
        let overrides = self.overrides.unwrap_or(&empty);
        let config = changed(overrides)?;
        let fault = |key: &str, wrong: &str, allowed: &str| {
            faults.value(&self.location, &format!("shadow.{}.{key}", self.name), wrong, allowed);
        };
        let section = |key: &str| key.split(['.', '[']).next().unwrap_or_default().to_owned();
        let foreign = overrides.entries.iter().map(|entry| section(&entry.key));
        if let Some(foreign) = foreign.into_iter().find(|section| !DECIDING.contains(&section.as_str())) {
            fault("overrides", &format!("changes [{foreign}], which decides nothing"), &DECIDING.join(", "));
            return None;
        }
        if let Some((wrong, allowed)) = impossible(serving, &config) {
            fault("overrides", wrong, allowed);
            return None;
        }
        let alias = match &self.alias {
            None => None,
            Some(named) => match serving.models.alias_called(named) {
                Some(alias) => Some(alias.id.clone()),
                None => {
                    fault("where.alias", &format!("'{named}' is no alias"), "an alias such as service/auto");
                    return None;
                }
            },
        };
        let changes = toml_value::value(&Value::Table(overrides.clone()));
        let sides = [serving, &config].map(|side| decided_by(side, alias.as_deref()));
        Some(ShadowConfig {
            name: self.name,
            share: self.share,
            alias,
            objective: self.objective,
            until: self.until,
            overrides: shown(overrides),
            digest: digest_of(&format!("{changes}\n{}", sides.join("\n"))),
            default_objective: config.routing.objective,
            policy: Arc::new(config.routing.policy),
            catalog: Arc::new(config.models),
        })
    }
}

/// What a configuration decides the requests of an alias by, as text that is the same in each process. The description of the
/// alias decides nothing.
fn decided_by(config: &Config, alias: Option<&str>) -> String {
    let alias = alias.and_then(|alias| config.models.alias_called(alias));
    let alias = alias.map(|alias| Alias { description: String::new(), ..alias.clone() });
    format!("{:?} {:?} {alias:?}", config.routing.objective, config.routing.policy)
}

/// The keys with their values, without what might be a secret.
fn shown(overrides: &Table) -> String {
    let keys = WrittenConfig::new(overrides).differences_from(&WrittenConfig::default());
    let keys = keys.into_iter().map(|change| format!("{} = {}", change.key, change.on_disk.unwrap_or_default()));
    keys.collect::<Vec<_>>().join(", ")
}

/// What a shadow cannot change: it shares statistics and live state with what serves.
fn impossible(serving: &Config, shadow: &Config) -> Option<(&'static str, &'static str)> {
    let over_time = |config: &Config| {
        let policy = &config.routing.policy;
        (policy.stats, policy.breaker, policy.pacing, policy.sticky, policy.targets)
    };
    let shape = |catalog: &Catalog| {
        let endpoints: Vec<_> = catalog.endpoints.iter().map(|endpoint| endpoint.id).collect();
        let models: Vec<_> = catalog.models.iter().map(|model| model.id.clone()).collect();
        let providers: Vec<_> = catalog.providers.iter().map(|provider| provider.slug.clone()).collect();
        (endpoints, models, providers)
    };
    let is_called_alike = |provider: &ProviderConfig| {
        serving.providers.iter().find(|serving| serving.slug == provider.slug).is_none_or(|serving| serving == provider)
    };
    if !shadow.providers.iter().all(is_called_alike) {
        let allowed =
            "whether providers are on, and prices, limits and traits of endpoints; nobody is called for a shadow";
        return Some(("changes how a provider is called", allowed));
    }
    if over_time(serving) != over_time(shadow) {
        let allowed = "weights, objectives, prices, limits, aliases and providers; breakers, half-lives, pacing, stickiness and \
                       gains of targets work over time, and a shadow sees the statistics of what serves";
        return Some(("changes what works over time", allowed));
    }
    (shape(&serving.models) != shape(&shadow.models)).then_some((
        "adds or removes models, providers or endpoints",
        "those that serve; providers and endpoints may be switched off",
    ))
}
