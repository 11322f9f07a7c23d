//! The built-in catalogue: providers, models and prices that ship with the program, one file per provider.
//!
//! The catalogue is merged into the configuration entry by entry. Keys of the configuration override keys of the
//! catalogue.

use std::sync::LazyLock;

use super::{
    fault::{Faults, SourceLocation},
    tree::{self, Entry, Node, Table, Value},
};

/// The files, in the order of the catalogue.
const FILES: [(&str, &str); 12] = [
    ("catalog/simulated.toml", include_str!("catalog/simulated.toml")),
    ("catalog/openai.toml", include_str!("catalog/openai.toml")),
    ("catalog/anthropic.toml", include_str!("catalog/anthropic.toml")),
    ("catalog/google.toml", include_str!("catalog/google.toml")),
    ("catalog/mistral.toml", include_str!("catalog/mistral.toml")),
    ("catalog/groq.toml", include_str!("catalog/groq.toml")),
    ("catalog/deepseek.toml", include_str!("catalog/deepseek.toml")),
    ("catalog/xai.toml", include_str!("catalog/xai.toml")),
    ("catalog/together.toml", include_str!("catalog/together.toml")),
    ("catalog/fireworks.toml", include_str!("catalog/fireworks.toml")),
    ("catalog/openrouter.toml", include_str!("catalog/openrouter.toml")),
    ("catalog/local.toml", include_str!("catalog/local.toml")),
];

/// Alternative keys: an entry that has one key of a group gets no other key of the group from the catalogue.
const GROUPS: [&[&str]; 2] = [&["pricing", "usd_per_million"], &["api_key_env", "api_key_file"]];

/// All files in one tree.
static CATALOGUE: LazyLock<Table> = LazyLock::new(|| {
    let mut all = Table::empty(SourceLocation::Default);
    for (name, text) in FILES {
        // A test checks that no file has a fault.
        merge(&mut all, &tree::read(text, &format!("{name} (built in)"), &Faults::default()), &[]);
    }
    all
});

/// A provider of the built-in catalogue that needs a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltInProvider {
    /// Short name.
    pub slug: String,
    /// Display name.
    pub name: String,
    /// The environment variable of its key.
    pub key_variable: String,
}

/// The providers of the built-in catalogue that need a key, in its order.
pub fn built_in_providers() -> Vec<BuiltInProvider> {
    let providers = CATALOGUE.at(["providers"]).and_then(Node::table);
    let read = |entry: &Entry| {
        let table = entry.node.table()?;
        let name = table.text("name").unwrap_or(&entry.key).to_owned();
        Some(BuiltInProvider { slug: entry.key.clone(), name, key_variable: table.text("api_key_env")?.to_owned() })
    };
    providers.into_iter().flat_map(|table| &table.entries).filter_map(read).collect()
}

/// Adds the catalogue to a configuration that sets `catalog.builtin`, or that defines no provider of its own.
pub(super) fn add_to(root: &mut Table) {
    let wanted = match root.at(["catalog", "builtin"]).map(|node| &node.value) {
        Some(Value::Flag(wanted)) => *wanted,
        _ => !defines_a_provider(root),
    };
    if wanted {
        merge(root, &CATALOGUE, &[]);
    }
}

/// Whether a configuration defines a provider: one that is not in the catalogue, or that has a `base_url`. Any other
/// provider entry changes an entry of the catalogue.
fn defines_a_provider(root: &Table) -> bool {
    // The address first: the catalogue is read only where it decides.
    let is_own = |path: &[&str], entry: &Entry| {
        let has_address = entry.node.table().is_some_and(|entry| entry.get("base_url").is_some());
        let known = || CATALOGUE.at(path.iter().copied()).and_then(Node::table);
        has_address || known().is_none_or(|known| known.get(&entry.key).is_none())
    };
    [["providers"].as_slice(), &["simulation", "providers"]].iter().any(|path| {
        match root.at(path.iter().copied()).map(|node| &node.value) {
            Some(Value::Table(table)) => table.entries.iter().any(|entry| is_own(path, entry)),
            // A value of the wrong type is reported as it is, without the catalogue.
            other => other.is_some(),
        }
    })
}

/// Adds the entries of `base` that `target` does not have. `path` is the path of both.
fn merge(target: &mut Table, base: &Table, path: &[&str]) {
    let missing = |target: &Table, key: &str| {
        let group = GROUPS.iter().find(|group| group.contains(&key)).copied();
        group.map_or_else(|| target.get(key).is_none(), |group| group.iter().all(|key| target.get(key).is_none()))
    };
    let own_prices = target.get("pricing").is_some();
    for entry in &base.entries {
        let key = entry.key.as_str();
        // Prices per request belong to the token prices of the same entry, so they are not mixed with other prices.
        if missing(target, key) && !(own_prices && key == "usd_each") {
            target.entries.push(entry.clone());
            continue;
        }
        let Some(own) = target.entries.iter_mut().find(|own| own.key == key) else { continue };
        match (&mut own.node.value, &entry.node.value) {
            (Value::Table(own), Value::Table(base)) if has_entries(path, key) => {
                merge(own, base, &[path, &[key]].concat());
            }
            (Value::List(own), Value::List(base)) => merge_list(own, base, &[path, &[key]].concat()),
            _ => {}
        }
    }
}

/// Whether the table is merged entry by entry. Any other table is a value, which is replaced as a whole.
fn has_entries(path: &[&str], key: &str) -> bool {
    match path {
        [] => true,
        ["simulation"] => key == "providers",
        ["providers"] | ["simulation", "providers"] => true,
        _ => false,
    }
}

/// Merges lists of entries. Any other list is a value, which is replaced as a whole.
fn merge_list(own: &mut Vec<Node>, base: &[Node], path: &[&str]) {
    let name: fn(&Table) -> Option<(String, String)> = match path {
        ["models"] => |model| Some((model.text("id")?.to_owned(), String::new())),
        ["models", "endpoints"] => |endpoint| {
            let variant = endpoint.text("variant").unwrap_or_default();
            Some((endpoint.text("provider")?.to_owned(), variant.to_owned()))
        },
        _ => return,
    };
    let count = own.len();
    for node in base {
        let Some(entry) = node.table() else { continue };
        let known = own.iter_mut().take(count).find_map(|own| match &mut own.value {
            Value::Table(own) if name(own) == name(entry) => Some(own),
            _ => None,
        });
        match known {
            Some(known) => merge(known, entry, path),
            None => own.push(node.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, environment::Environment};

    fn config(toml: &str) -> Config {
        Config::parse(toml, "f", Path::new("."), &Environment::default()).unwrap()
    }

    #[test]
    fn every_file_of_the_catalogue_is_toml_and_has_only_providers_and_models() {
        for (name, text) in FILES {
            let faults = Faults::default();
            let table = tree::read(text, name, &faults);
            assert!(faults.is_empty(), "{name}");
            let keys: Vec<&str> = table.entries.iter().map(|entry| entry.key.as_str()).collect();
            assert!(keys.iter().all(|key| ["providers", "simulation", "models"].contains(key)), "{name}: {keys:?}");
        }
    }

    #[test]
    fn every_endpoint_of_the_catalogue_has_a_price_with_its_source_and_date() {
        let Some(Value::List(models)) = CATALOGUE.get("models").map(|entry| &entry.node.value) else { panic!() };
        let mut count = 0;
        for model in models.iter().filter_map(Node::table) {
            let id = model.text("id").unwrap();
            let Some(Value::List(endpoints)) = model.get("endpoints").map(|entry| &entry.node.value) else { panic!() };
            for endpoint in endpoints.iter().filter_map(Node::table) {
                let prices = |entry: &'static Table| entry.get("usd_per_million")?.node.table();
                let prices = prices(endpoint).or(prices(model)).unwrap_or_else(|| panic!("{id} has no prices"));
                let (source, date) = (prices.text("source"), prices.text("date"));
                assert!(source.is_some_and(|source| source.len() > 10), "{id}: {source:?}");
                assert!(date.is_some_and(|date| date >= "2026-11"), "{id}: {date:?}");
                assert!(endpoint.get("pricing").is_none() && model.get("pricing").is_none(), "{id}");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn no_model_and_no_provider_is_in_two_files() {
        let mut seen = std::collections::BTreeSet::new();
        for (name, text) in FILES {
            let table = tree::read(text, name, &Faults::default());
            for entry in
                table.at(["providers"]).and_then(Node::table).into_iter().flat_map(|providers| &providers.entries)
            {
                assert!(seen.insert(entry.key.clone()), "{name}: {}", entry.key);
            }
            if let Some(Value::List(models)) = table.get("models").map(|entry| &entry.node.value) {
                for model in models.iter().filter_map(Node::table) {
                    let id = model.text("id").unwrap().to_owned();
                    assert!(seen.insert(id.clone()), "{name}: {id}");
                }
            }
        }
    }

    const OWN: &str = "[providers.acme]\nbase_url = \"http://h/v1\"\n";

    fn providers(config: &Config) -> Vec<String> {
        config.catalog(1).providers.iter().map(|provider| provider.slug.to_string()).collect()
    }

    #[test]
    fn a_configuration_that_defines_a_provider_gets_the_catalogue_only_on_request() {
        assert_eq!(providers(&config(OWN)), ["acme"]);
        assert!(config(OWN).catalog(1).models.is_empty());
        let both = config(&format!("{OWN}[catalog]\nbuiltin = true"));
        assert_eq!(providers(&both).first().map(String::as_str), Some("acme"));
        assert!(providers(&both).contains(&"openai".to_owned()) && both.catalog(1).models.len() > 40);
        assert!(providers(&config("[catalog]\nbuiltin = false")).is_empty());
        assert!(providers(&config("[limits]\nmax_n = 2")).contains(&"openai".to_owned()));
    }

    #[test]
    fn a_provider_of_the_catalogue_with_a_base_url_counts_as_a_defined_provider() {
        assert_eq!(providers(&config("[providers.openai]\nbase_url = \"http://h/v1\"")), ["openai"]);
        let corrected = config("[providers.ollama]\nenabled = true\nmax_in_flight = 3");
        assert!(providers(&corrected).contains(&"openai".to_owned()));
        let on: Vec<_> = corrected.providers.iter().map(|one| (one.slug.to_string(), one.max_in_flight)).collect();
        assert_eq!(on, [("ollama".to_owned(), 3)]);
        assert_eq!(corrected.providers.first().unwrap().base_url.to_string(), "http://127.0.0.1:11434/v1");
    }

    #[test]
    fn an_entry_with_the_id_of_a_model_changes_only_the_keys_it_sets() {
        let changed = config(
            "[[models]]\nid = \"openai/gpt-4o-mini\"\nname = \"Mini\"\n[[models.endpoints]]\nprovider = \"openai\"\n\
             pricing = { prompt = \"1\", completion = \"2\" }\n[[models.endpoints]]\nprovider = \"openrouter\"\n\
             upstream_model = \"openai/gpt-4o-mini\"\ncontext_length = 7\nusd_per_million = { prompt = \"3\", completion = \"4\" }",
        );
        let (catalog, shipped) = (changed.catalog(1), config("").catalog(1));
        assert_eq!(catalog.models.len(), shipped.models.len());
        let find = |catalog: &pointsman_domain::Catalog| {
            let model = catalog.models.iter().find(|model| model.id.as_str() == "openai/gpt-4o-mini").unwrap().clone();
            let endpoints: Vec<_> = catalog.endpoints_of(&model).map(|(_, endpoint)| endpoint.clone()).collect();
            (model, endpoints)
        };
        let ((model, endpoints), (old, old_endpoints)) = (find(&catalog), find(&shipped));
        assert_eq!((model.name.as_str(), model.description), ("Mini", old.description));
        assert_eq!((endpoints.len(), old_endpoints.len()), (2, 1));
        let (first, second, before) = (&endpoints[0], &endpoints[1], &old_endpoints[0]);
        assert_eq!((first.pricing.as_ref().unwrap().prompt.to_string(), first.limits), ("1".to_owned(), before.limits));
        assert_eq!(first.pricing.as_ref().unwrap().input_cache_read, None, "prices are replaced as a whole");
        assert_eq!(
            (second.pricing.as_ref().unwrap().prompt.to_string(), second.limits.context_length),
            ("0.000003".to_owned(), 7)
        );
    }

    #[test]
    fn a_fault_in_an_entry_of_the_configuration_has_its_location_and_position() {
        let text = "[[models]]\nid = \"openai/gpt-4o-mini\"\ncreated = \"soon\"";
        let faults = Config::parse(text, "f", Path::new("."), &Environment::default()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().starts_with("f:3:11: models[0].created: is not a date or time"), "{}", faults[0]);
    }
}
