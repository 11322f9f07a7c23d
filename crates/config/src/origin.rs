//! The source of a configuration, so that a reload reads the same file and environment.

use std::path::{Path, PathBuf};

use super::{
    BUILT_IN, BUILT_IN_NAME, Config, DEFAULT_FILE, EmptyText, Text, changes::WrittenConfig, environment::Environment,
    fault::Fault, parse, read_file,
};

/// Directory of the durable ledger beside the configuration file, unless the file names another.
const DEFAULT_DATA_DIR: &str = "data";

/// File of the routing memory in that directory, unless the configuration names another.
const ROUTING_MEMORY: &str = "routing.json";

/// The file and the environment of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Origin {
    /// `None` means the built-in configuration. Decided once, so that a file that is missing for a moment does not bring
    /// the built-in configuration into force.
    path: Option<PathBuf>,
    environment: Environment,
}

/// A configuration and the keys its text sets. Setting a key to its default changes the second and not the first.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The keys it sets; `None` when it was not read from text.
    pub written: Option<WrittenConfig>,
}

impl From<Config> for LoadedConfig {
    fn from(config: Config) -> LoadedConfig {
        LoadedConfig { config, written: None }
    }
}

/// Result of reading a configuration again.
pub struct ReadOutcome {
    /// The configuration, or all faults.
    pub config: Result<LoadedConfig, Vec<Fault>>,
    /// The configuration file and every file that it names, also after a fault.
    pub files: Vec<PathBuf>,
}

impl Origin {
    /// The file at `path`; without a path `./config.toml` if it exists now, else the built-in configuration.
    pub(super) fn new(path: Option<&Path>, environment: &Environment) -> Origin {
        let default = Path::new(DEFAULT_FILE);
        let path = path.or_else(|| default.exists().then_some(default));
        Origin { path: path.map(Path::to_owned), environment: environment.clone() }
    }

    /// Reads and checks the configuration. Blocks on reading files.
    pub(super) fn read(&self) -> ReadOutcome {
        match self.text() {
            Ok((text, name)) => self.parse(&text, &name, self.directory()),
            Err(faults) => ReadOutcome { config: Err(faults), files: self.path.iter().cloned().collect() },
        }
    }

    /// The directory of the file.
    pub(super) fn directory(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new("."))
    }

    /// The text and its file name in faults. Blocks on reading a file.
    pub(super) fn text(&self) -> Result<(String, String), Vec<Fault>> {
        let Some(path) = &self.path else { return Ok((BUILT_IN.to_owned(), BUILT_IN_NAME.to_owned())) };
        let name = path.display().to_string();
        Ok((read_file(path, &name)?, name))
    }

    fn parse(&self, text: &str, name: &str, directory: &Path) -> ReadOutcome {
        let (config, files) = parse(Text { text, name, empty: EmptyText::Fault }, directory, &self.environment);
        let config = config.map(|LoadedConfig { config, written }| {
            let mut config = Config { origin: Some(self.clone()), ..config };
            config.ledger.data_dir.get_or_insert_with(|| directory.join(DEFAULT_DATA_DIR));
            if !config.routing.memory.is_set {
                config.routing.memory.path = config.ledger.durable_directory().map(|data| data.join(ROUTING_MEMORY));
            }
            LoadedConfig { config, written }
        });
        ReadOutcome { config, files: self.path.iter().cloned().chain(files.into_keys()).collect() }
    }
}

impl Config {
    /// Reads the configuration again from its source; `None` when it was passed as text. Blocks on reading files.
    pub fn read_again(&self) -> Option<ReadOutcome> {
        self.origin.as_ref().map(Origin::read)
    }

    /// The configuration file and every file that it names. Empty for a configuration that was passed as text.
    pub fn files(&self) -> Vec<PathBuf> {
        let Some(origin) = &self.origin else { return Vec::new() };
        origin.path.iter().chain(self.named_files.keys()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(toml: &str) -> LoadedConfig {
        let text = format!("{toml}\n[simulation]\nmode = \"off\"\n");
        let text = Text { text: &text, name: "test", empty: EmptyText::Defaults };
        parse(text, Path::new("."), &Environment::default()).0.unwrap()
    }

    #[test]
    fn a_configuration_that_sets_a_key_to_its_default_is_equal_and_has_a_changed_key() {
        let implicit = loaded("");
        let explicit = loaded(&format!("[limits]\nmax_n = {}", implicit.config.limits.request.max_n));
        assert_eq!(implicit.config, explicit.config);
        let (new, old) = (explicit.written.unwrap(), implicit.written.unwrap());
        assert_eq!(new.changes_since(&old, &[]), ["limits.max_n"]);
    }
}
