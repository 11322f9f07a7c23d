//! The secret of a provider: read from an environment variable, or from a file that only its owner can read.
//!
//! A secret in the configuration file is a fault. The text of the fault does not contain it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use pointsman_base::secret::Secret;
use serde_json::Value;

use super::{Surroundings, environment::Environment, keys::is_variable_name, section::Section};

/// Largest accepted key file, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 16 * 1024;
const MAX_CA_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Value of `auth` for the key file of a Google service account, which is JSON.
pub(super) const SERVICE_ACCOUNT: &str = "service-account";
/// Value of `auth` for calls that are signed with the keys of an AWS account.
pub(super) const SIGV4: &str = "sigv4";

/// The API key for a provider.
pub(super) enum Credential {
    /// The provider needs no key.
    None,
    /// This key; `from` is its variable or file.
    Found { secret: Secret, from: String },
    /// The provider needs a key and there is none. `why` is the reason; `variable` is the variable to set.
    Missing { why: String, variable: Option<String> },
}

/// Reads the secret that `api_key_env` or `api_key_file` names. Key files of disabled providers are not read.
pub(super) fn read(
    section: &Section<'_>,
    sources: (Option<&str>, Option<&str>),
    enabled: bool,
    context: &Surroundings<'_>,
) -> Credential {
    const SOURCES: &str = "api_key_env = \"NAME_OF_A_VARIABLE\" or api_key_file = \"path\"";
    for key in ["api_key", "key", "secret", "token", "password"] {
        section.refuse(key, "a secret must not be in this file", SOURCES);
    }
    match sources {
        (None, None) if section.filled("auth") == Some(SIGV4) => from_aws_variables(context.environment),
        (None, None) => Credential::None,
        (Some(variable), None) => from_variable(section, variable, context.environment),
        (None, Some(path)) if enabled => {
            let path = context.directory.join(path);
            context.files.add(&path);
            from_file(section, &path)
        }
        (None, Some(_)) => missing("its key file is not read".to_owned()),
        (Some(_), Some(_)) => {
            section.fault("api_key_file", "is set together with api_key_env", format!("one of them: {SOURCES}"));
            Credential::None
        }
    }
}

fn from_variable(section: &Section<'_>, variable: &str, environment: &Environment) -> Credential {
    if !is_variable_name(variable) {
        let allowed = "letters, digits and underscores, not beginning with a digit; never the key itself";
        section.fault("api_key_env", "is not the name of an environment variable", allowed);
        return Credential::None;
    }
    if environment.is_unreadable(variable) {
        section.fault("api_key_env", format!("{variable} is not UTF-8"), VISIBLE);
        return Credential::None;
    }
    match environment.get(variable).map(str::trim) {
        None => Credential::Missing { why: format!("{variable} is not set"), variable: Some(variable.to_owned()) },
        Some("") => Credential::Missing { why: format!("{variable} is empty"), variable: Some(variable.to_owned()) },
        Some(key) => found(section, "api_key_env", key, variable.to_owned()),
    }
}

/// The text of a variable that must be set.
pub(super) fn secret_of_variable(variable: &str, environment: &Environment) -> Result<Secret, String> {
    if !is_variable_name(variable) {
        return Err("is not the name of an environment variable".to_owned());
    }
    match environment.get(variable).map(str::trim) {
        None | Some("") => Err(format!("{variable} is not set")),
        Some(text) => Ok(Secret::new(text.to_owned())),
    }
}

fn missing(why: String) -> Credential {
    Credential::Missing { why, variable: None }
}

const VISIBLE: &str = "a key of visible ASCII characters";

fn found(section: &Section<'_>, key: &'static str, secret: &str, from: String) -> Credential {
    let wanted = match section.filled("auth") {
        Some(SERVICE_ACCOUNT) => {
            Some((["client_email", "private_key"], "the JSON key file of a Google service account"))
        }
        Some(SIGV4) => {
            Some((["AccessKeyId", "SecretAccessKey"], "JSON as `aws configure export-credentials` prints it"))
        }
        _ => None,
    };
    if let Some((members, allowed)) = wanted
        && let Err(why) = check_members(secret, members)
    {
        section.fault(key, format!("{from} {why}"), allowed);
        return Credential::None;
    }
    if wanted.is_none() && !secret.bytes().all(|b| b.is_ascii_graphic()) {
        section.fault(key, format!("the key in {from} has characters that are not allowed in a header"), VISIBLE);
        return Credential::None;
    }
    Credential::Found { secret: Secret::new(secret.to_owned()), from }
}

/// Whether a text is JSON with these members. The fault does not contain the text.
fn check_members(text: &str, members: [&str; 2]) -> Result<(), String> {
    let file: Value = serde_json::from_str(text).map_err(|_| "is not JSON")?;
    let missing = members.into_iter().find(|name| !file.get(name).is_some_and(Value::is_string));
    missing.map_or(Ok(()), |name| Err(format!("has no {name}")))
}

/// The keys in the variables that every tool for AWS reads.
fn from_aws_variables(environment: &Environment) -> Credential {
    const ID: &str = "AWS_ACCESS_KEY_ID";
    const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
    let variable = |name: &str| environment.get(name).map(str::trim).filter(|value| !value.is_empty());
    let missing =
        |name: &str| Credential::Missing { why: format!("{name} is not set"), variable: Some(name.to_owned()) };
    let (id, secret) = match (variable(ID), variable(SECRET)) {
        (Some(id), Some(secret)) => (id, secret),
        (None, _) => return missing(ID),
        (_, None) => return missing(SECRET),
    };
    let keys = serde_json::json!({
        "AccessKeyId": id, "SecretAccessKey": secret, "SessionToken": variable("AWS_SESSION_TOKEN"),
    });
    Credential::Found { secret: Secret::new(keys.to_string()), from: SECRET.to_owned() }
}

fn from_file(section: &Section<'_>, path: &Path) -> Credential {
    let shown = path.display().to_string();
    let fault = |wrong: String| {
        section.fault("api_key_file", wrong, "a file that holds nothing but the key, with mode 0600");
        Credential::None
    };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return missing(format!("{shown} does not exist"));
        }
        Err(error) => return fault(format!("{shown} cannot be read: {error}")),
        Ok(metadata) => metadata,
    };
    if !metadata.is_file() || metadata.len() > MAX_KEY_FILE_BYTES {
        return fault(format!("{shown} is not a key file"));
    }
    if let Some(mode) = open_to_others(&metadata) {
        return fault(format!("{shown} has mode {mode:04o}: others may read it"));
    }
    match fs::read_to_string(path).map(|text| Secret::new(text.trim().to_owned())) {
        Err(error) => fault(format!("{shown} cannot be read: {error}")),
        Ok(secret) if secret.expose().is_empty() => missing(format!("{shown} is empty")),
        Ok(secret) => found(section, "api_key_file", secret.expose(), shown),
    }
}

/// The mode of a file with permissions for its group or others.
#[cfg(unix)]
pub(super) fn open_to_others(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Other systems have no file modes.
#[cfg(not(unix))]
pub(super) fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}

/// A file of additional trusted certificates. Checked here when the provider is enabled, so that a wrong path is reported
/// at start and not at the first request.
pub(super) fn ca_file(section: &Section<'_>, enabled: bool, context: &Surroundings<'_>) -> Option<PathBuf> {
    let path = context.directory.join(section.filled("ca_file")?);
    if enabled {
        let shown = path.display();
        context.files.add(&path);
        let wrong = match read_certificates(&path) {
            Err(error) => Some(format!("{shown} cannot be read: {error}")),
            Ok(None) => Some(format!("{shown} has no certificate")),
            Ok(Some(content)) => {
                context.files.add_with_digest(&path, &content);
                None
            }
        };
        if let Some(wrong) = wrong {
            section.fault("ca_file", wrong, "a readable file with certificates in PEM form");
        }
    }
    Some(path)
}

/// The content of a file, or `None` when it has no certificate. Devices and very large files are refused unread.
fn read_certificates(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_CA_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file of at most 4 MiB"));
    }
    let marker: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let content = fs::read(path)?;
    Ok(content.windows(marker.len()).any(|window| window == marker).then_some(content))
}
