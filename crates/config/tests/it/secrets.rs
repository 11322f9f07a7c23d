//! Secrets: where they may come from, and that they are never shown.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pointsman_config::{Config, Environment, Fault};

use crate::folder::Folder;

/// A directory that configurations and the files they name are written to.
struct Scratch(Folder);

impl Scratch {
    fn new() -> Scratch {
        Scratch(Folder::new())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.0.at(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, mode);
        path
    }

    fn load(&self, toml: &str, environment: &Environment) -> Result<Config, Vec<Fault>> {
        let path = self.write("config.toml", toml, 0o644);
        Config::load(Some(&path), environment).map(|loaded| loaded.config)
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) {}

const KEY_FILE: &str = "[providers.acme]\nbase_url = \"https://h/v1\"\napi_key_file = \"acme.key\"\n";

fn single_fault(result: Result<Config, Vec<Fault>>) -> String {
    let faults = result.unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string()
}

#[test]
fn a_key_file_beside_the_configuration_is_read_and_trimmed() {
    let scratch = Scratch::new();
    scratch.write("acme.key", "  sk-from-a-file\n", 0o600);
    let config = scratch.load(KEY_FILE, &Environment::default()).unwrap();
    assert_eq!(config.providers[0].key.as_ref().unwrap().expose(), "sk-from-a-file");
    assert!(config.start_up_notes()[0].ends_with("acme.key holds its key."), "{:?}", config.start_up_notes());
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_may_read_is_refused() {
    for mode in [0o644, 0o640, 0o604, 0o620] {
        let scratch = Scratch::new();
        scratch.write("acme.key", "sk-from-a-file", mode);
        let fault = single_fault(scratch.load(KEY_FILE, &Environment::default()));
        assert!(fault.contains(&format!("has mode {mode:04o}: others may read it")), "{fault}");
        assert!(fault.contains("config.toml:3:16: providers.acme.api_key_file: "), "{fault}");
    }
    let scratch = Scratch::new();
    scratch.write("acme.key", "sk-from-a-file", 0o400);
    assert!(scratch.load(KEY_FILE, &Environment::default()).is_ok());
}

#[test]
fn a_missing_or_empty_key_file_leaves_the_provider_off() {
    let scratch = Scratch::new();
    let reason = |config: Config| config.catalog(1).providers[0].state.clone();
    let state = reason(scratch.load(KEY_FILE, &Environment::default()).unwrap());
    assert!(format!("{state:?}").contains("acme.key does not exist"), "{state:?}");
    scratch.write("acme.key", "\n", 0o600);
    let state = reason(scratch.load(KEY_FILE, &Environment::default()).unwrap());
    assert!(format!("{state:?}").contains("acme.key is empty"), "{state:?}");
}

#[test]
fn a_key_file_of_a_provider_that_is_off_stays_untouched() {
    let scratch = Scratch::new();
    scratch.write("acme.key", "sk-from-a-file", 0o644);
    assert!(scratch.load(&format!("{KEY_FILE}enabled = false\n"), &Environment::default()).is_ok());
}

#[test]
fn what_is_no_key_is_refused_without_being_shown() {
    let scratch = Scratch::new();
    scratch.write("acme.key", "sk-one\nsk-two", 0o600);
    let fault = single_fault(scratch.load(KEY_FILE, &Environment::default()));
    assert!(fault.contains("has characters that are not allowed in a header") && !fault.contains("sk-"), "{fault}");
    scratch.write("acme.key", vec![b'k'; 20_000], 0o600);
    let fault = single_fault(scratch.load(KEY_FILE, &Environment::default()));
    assert!(fault.contains("is not a key file"), "{fault}");
    let environment = [("ACME_API_KEY", "sk-one\r\nx-evil: 1")].into_iter().collect();
    let toml = "[providers.acme]\nbase_url = \"https://h/v1\"\napi_key_env = \"ACME_API_KEY\"\n";
    let fault = single_fault(scratch.load(toml, &environment));
    assert!(fault.contains("ACME_API_KEY") && !fault.contains("sk-one") && !fault.contains("evil"), "{fault}");
}

#[test]
fn a_certificate_file_must_hold_certificates() {
    let scratch = Scratch::new();
    let toml = "[providers.acme]\nbase_url = \"https://h/v1\"\nca_file = \"ca.pem\"\n";
    assert!(single_fault(scratch.load(toml, &Environment::default())).contains("ca.pem cannot be read"));
    scratch.write("ca.pem", "hello", 0o644);
    assert!(single_fault(scratch.load(toml, &Environment::default())).contains("ca.pem has no certificate"));
    scratch.write("ca.pem", "-----BEGIN CERTIFICATE-----\n…", 0o644);
    let config = scratch.load(toml, &Environment::default()).unwrap();
    assert_eq!(config.providers[0].ca_file, Some(scratch.0.at("ca.pem")));
}

#[test]
fn no_secret_is_in_any_debug_output_or_note() {
    const PROVIDER: &str = "sk-provider-7f3a9c";
    const CALLER: &str = "sk-caller-key-51d0e2";
    let environment: Environment = [("ACME_API_KEY", PROVIDER), ("TEAM_KEY", CALLER)].into_iter().collect();
    let toml = "[providers.acme]\nbase_url = \"http://10.0.0.1/v1\"\napi_key_env = \"ACME_API_KEY\"\n\
                [[keys]]\nname = \"team\"\nenv = \"TEAM_KEY\"\n";
    let config = Config::parse(toml, "f", Path::new("."), &environment).unwrap();
    let digest = hex::encode(pointsman_config::digest_of(CALLER));
    let shown = format!("{config:?} {config:#?} {environment:?} {:?}", config.start_up_notes());
    for secret in [PROVIDER, CALLER, digest.as_str()] {
        assert!(!shown.contains(secret), "{secret}");
    }
    assert!(shown.contains("***"), "the key is there, but hidden");
    assert!(shown.contains("is sent unencrypted to http://10.0.0.1/v1"), "{shown}");
    let broken = Config::parse(&format!("{toml}oops = 1"), "f", Path::new("."), &environment).unwrap_err();
    assert!(!format!("{broken:?}").contains(PROVIDER));
}

#[test]
fn a_file_that_cannot_be_read_is_one_fault() {
    let scratch = Scratch::new();
    let load =
        |name: &str| Config::load(Some(&scratch.0.at(name)), &Environment::default()).map(|loaded| loaded.config);
    assert!(single_fault(load("none.toml")).contains("none.toml:1:1: configuration: there is no such file"));
    scratch.write("latin.toml", b"[server]\nbind = \"\xe4\"", 0o644);
    assert!(single_fault(load("latin.toml")).contains("latin.toml:2:9: configuration: is not UTF-8"));
    scratch.write("long.toml", vec![b'#'; 9_000_000], 0o644);
    assert!(single_fault(load("long.toml")).contains("long.toml:1:1: configuration: has 9000000 bytes"));
}
