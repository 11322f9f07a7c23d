//! Where a configuration came from, so that it can be read again: the same file, the same environment.

use std::path::{Path, PathBuf};

use super::{
    BUILT_IN, BUILT_IN_NAME, Blank, Config, DEFAULT_FILE, Text, changes::WrittenConfig, environment::Environment,
    fault::Fault, parse, read_file,
};

/// A place to read a configuration from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Origin {
    /// `None` is the built-in configuration. Decided once: that a file is missing for a moment must not bring another
    /// configuration into force.
    path: Option<PathBuf>,
    environment: Environment,
}

/// A configuration, and beside it how it is written: that says nothing about what it does. One that spells out a default
/// equals one that does not.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The keys it sets; `None` when only the program that brought it knows.
    pub(crate) written: Option<WrittenConfig>,
}

impl From<Config> for LoadedConfig {
    fn from(config: Config) -> LoadedConfig {
        LoadedConfig { config, written: None }
    }
}

/// What came of reading a configuration again.
pub struct ReadOutcome {
    /// The configuration, or every fault.
    pub config: Result<LoadedConfig, Vec<Fault>>,
    /// Every file that had a part in it, also when it is faulty.
    pub files: Vec<PathBuf>,
}

impl Origin {
    /// The file at `path`; without one `./config.toml` if it exists now, else what is built in.
    pub(super) fn new(path: Option<&Path>, environment: &Environment) -> Origin {
        let default = Path::new(DEFAULT_FILE);
        let path = path.or_else(|| default.exists().then_some(default));
        Origin { path: path.map(Path::to_owned), environment: environment.clone() }
    }

    /// Blocks on reading files.
    pub(super) fn read(&self) -> ReadOutcome {
        let directory = self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        match self.text() {
            Ok((text, name)) => self.parse(&text, &name, directory),
            Err(faults) => ReadOutcome { config: Err(faults), files: self.path.iter().cloned().collect() },
        }
    }

    /// The text and how faults call it. Blocks on reading a file.
    pub(super) fn text(&self) -> Result<(String, String), Vec<Fault>> {
        let Some(path) = &self.path else { return Ok((BUILT_IN.to_owned(), BUILT_IN_NAME.to_owned())) };
        let name = path.display().to_string();
        Ok((read_file(path, &name)?, name))
    }

    fn parse(&self, text: &str, name: &str, directory: &Path) -> ReadOutcome {
        let (config, files) = parse(Text { text, name, blank: Blank::Fault }, directory, &self.environment);
        let config = config.map(|LoadedConfig { config, written }| {
            let config = Config { origin: Some(self.clone()), ..config };
            LoadedConfig { config, written }
        });
        ReadOutcome { config, files: self.path.iter().cloned().chain(files.into_keys()).collect() }
    }
}

impl Config {
    /// Reads it again from where it came from; `None` when it was given as text. Blocks on reading files.
    #[must_use]
    pub fn read_again(&self) -> Option<ReadOutcome> {
        self.origin.as_ref().map(Origin::read)
    }

    /// Every file that had a part in it. Empty for a configuration that was given as text.
    #[must_use]
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
        let text = Text { text: &text, name: "test", blank: Blank::Defaults };
        parse(text, Path::new("."), &Environment::default()).0.unwrap()
    }

    #[test]
    fn a_configuration_that_spells_out_a_default_does_the_same_and_is_written_otherwise() {
        let silent = loaded("");
        let outspoken = loaded(&format!("[limits]\nmax_n = {}", silent.config.limits.request.max_n));
        assert_eq!(silent.config, outspoken.config);
        let (new, old) = (outspoken.written.unwrap(), silent.written.unwrap());
        assert_eq!(new.changes_since(&old, &[]), ["limits.max_n"]);
    }
}
