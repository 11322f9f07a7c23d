//! What replicas share: `[shared]`, `[shared.postgres]` and `[shared.redis]`.
//!
//! The address of a store may hold a password, so it comes from an environment variable or from a file that only its owner
//! can read, never from the configuration itself.

use std::{fs, path::PathBuf, time::Duration};

use pointsman_base::secret::Secret;

use super::{
    Surroundings,
    credential::{ca_file, open_to_others, secret_of_variable},
    quantity::{DAY, HOUR, MILLISECOND, SECOND},
    section::Section,
    storage::{Durability, LedgerConfig},
};

/// Largest file with the address of a store, in bytes.
const MAX_URL_FILE_BYTES: u64 = 16 * 1024;
/// Beginning of the names in Redis, unless the configuration names another.
const DEFAULT_PREFIX: &str = "pointsman";
/// Longest name of a replica, in bytes.
const MAX_NODE_BYTES: usize = 64;

/// `[shared]`.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedConfig {
    /// Name of this replica; `None` for one that is made at the first start and kept in `ledger.data_dir`.
    pub node: Option<String>,
    /// Time between two exchanges with a store.
    pub sync_every: Duration,
    /// Share of a spending limit that a replica leases at a time.
    pub budget_block: f64,
    /// Time without a report after which what a replica did not spend of its lease is given to others.
    pub lease_expiry: Duration,
    /// `[shared.postgres]`.
    pub postgres: Option<StoreAddress>,
    /// `[shared.redis]`.
    pub redis: Option<StoreAddress>,
    /// Beginning of all names in Redis.
    pub prefix: String,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAddress {
    /// Its URL, with the password if there is one.
    pub url: Secret,
    /// Certificates that are trusted in addition to those of the system.
    pub ca_file: Option<PathBuf>,
}

impl SharedConfig {
    /// Whether there is a store that replicas share.
    pub fn is_on(&self) -> bool {
        self.postgres.is_some() || self.redis.is_some()
    }

    pub(super) fn read(section: &Section<'_>, ledger: &LedgerConfig, context: &Surroundings<'_>) -> SharedConfig {
        keys! { section:
            //! What replicas share: [REPLICAS.md](REPLICAS.md). Without the sections below, nothing. All keys need a
            //! restart.
            /// Name of this replica. No two replicas may have the same.
            node = filled_text()
                [absent = "made at the first start, kept in `ledger.data_dir`",
                 allowed = "1 to 64 letters, digits, `-`, `_`, `.`"],
            /// Time between two exchanges with a store: records, keys and accounts, leases of budgets, usage of rate
            /// limits.
            sync_every = duration_or(20 * MILLISECOND..=SECOND, 250 * MILLISECOND),
            /// Share of a spending limit that a replica leases at a time. More lasts longer while Redis is away; less
            /// is out of reach of the others.
            budget_block = number_or(0.0001..=1.0, 0.02) [unit = "of the limit"],
            /// Time without a report after which Redis gives what a replica had not used of its lease to the others. A
            /// replica that reaches Redis no more uses its lease for half of this time.
            lease_expiry = duration_or(2 * SECOND..=30 * DAY, HOUR),
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if node.as_ref().is_some_and(|node| node.len() > MAX_NODE_BYTES || !node.chars().all(is_name)) {
            section.fault("node", "is no name", "1 to 64 letters, digits, '-', '_' and '.'");
        }
        let postgres = section.optional("postgres", |section| {
            keys! { section:
                //! PostgreSQL for records, keys, accounts and the audit log. Needs `ledger.durability` other than
                //! `off`: the ledger on disk stays, and holds what PostgreSQL does not have yet.
            }
            built_with(section, cfg!(feature = "postgres"), "postgres");
            if ledger.durability == Durability::Off {
                section.absence("url_env", "needs a ledger on disk", "ledger.durability = \"group\" or \"sync\"");
            }
            address(section, &["postgres://", "postgresql://"], context)
        });
        let redis = section.optional("redis", |section| {
            built_with(section, cfg!(feature = "redis"), "redis");
            let address = address(section, &["redis://", "rediss://"], context);
            keys! { section:
                //! Redis for spending limits, rate limits and hints of health. Let it keep its data over a restart
                //! (`appendonly yes`).
                /// Beginning of all names in Redis. Gateways with different prefixes share nothing.
                prefix = filled_text() [absent = "`pointsman`"],
            }
            (address, prefix.unwrap_or(DEFAULT_PREFIX.to_owned()))
        });
        let (redis, prefix) = redis.unwrap_or((None, DEFAULT_PREFIX.to_owned()));
        SharedConfig { node, sync_every, budget_block, lease_expiry, postgres: postgres.flatten(), redis, prefix }
    }
}

fn built_with(section: &Section<'_>, is_there: bool, feature: &str) {
    if !is_there {
        let wrong = format!("this binary was built without the feature '{feature}'");
        section.absence("url_env", wrong, "a released binary, or no such section");
    }
}

/// The address in the variable or file that the section names.
fn address(section: &Section<'_>, schemes: &[&str], context: &Surroundings<'_>) -> Option<StoreAddress> {
    const SOURCES: &str = "url_env = \"NAME_OF_A_VARIABLE\" or url_file = \"path\"";
    for key in ["url", "password"] {
        section.refuse(key, "a secret must not be in this file", SOURCES);
    }
    keys! { section:
        /// Variable with the address: `postgres://user:password@host:5432/database`, `redis://:password@host:6379/0`,
        /// or with TLS `rediss://`. With `sslmode=require` the certificate of a PostgreSQL server is verified.
        url_env = filled() [absent = "this or `url_file`", allowed = "name of a variable"],
        /// File with the address and nothing else, mode 0600.
        url_file = filled() [absent = "this or `url_env`", allowed = "path, relative to this file"],
        /// PEM: further certificates to trust.
        ca_file = with(|section, _| ca_file(section, true, context))
            [absent = "those of the system only", allowed = "path, relative to this file"],
    }
    let (key, found) = match (url_env, url_file) {
        (Some(variable), None) => ("url_env", secret_of_variable(variable, context.environment)),
        (None, Some(path)) => ("url_file", from_file(&context.directory.join(path), context)),
        (None, None) => {
            if !section.has("url") {
                section.absence("url_env", "is missing", SOURCES);
            }
            return None;
        }
        (Some(_), Some(_)) => {
            section.fault("url_file", "is set together with url_env", format!("one of them: {SOURCES}"));
            return None;
        }
    };
    let begins = || format!("an address that begins with {}", schemes.join(" or "));
    match found {
        Err(wrong) => section.fault(key, wrong, begins()),
        Ok(url) if !schemes.iter().any(|scheme| url.expose().starts_with(scheme)) => {
            section.fault(key, "names no address of this store", begins());
        }
        Ok(url) if !is_readable(&verifying(&url)) => match refused_parameter(&verifying(&url)) {
            Some(name) => {
                let wrong =
                    format!("names an address with the parameter '{name}', which is unknown or has a wrong value");
                section.fault(key, wrong, "the parameters of the client, such as sslmode and application_name");
            }
            None => section.fault(key, "cannot be read as an address", begins()),
        },
        Ok(url) => return Some(StoreAddress { url: verifying(&url), ca_file }),
    }
    None
}

/// The address with `sslmode=require` for the modes of other clients that ask for more: certificate and name are verified
/// in any case.
fn verifying(url: &Secret) -> Secret {
    let Some((place, parameters)) = url.expose().split_once('?') else { return url.clone() };
    let parameters = parameters.split('&').map(|parameter| match parameter {
        "sslmode=verify-ca" | "sslmode=verify-full" => "sslmode=require",
        other => other,
    });
    Secret::new(format!("{place}?{}", parameters.collect::<Vec<_>>().join("&")))
}

/// Whether the client of the store can read the address.
fn is_readable(url: &Secret) -> bool {
    #[cfg(feature = "postgres")]
    if url.expose().starts_with("postgres") {
        return url.expose().parse::<tokio_postgres::Config>().is_ok_and(|config| !config.get_hosts().is_empty());
    }
    #[cfg(feature = "redis")]
    if let Some(rest) = url.expose().strip_prefix("redis") {
        let plain = format!("redis{}", rest.strip_prefix('s').unwrap_or(rest));
        return redis::IntoConnectionInfo::into_connection_info(plain).is_ok();
    }
    !url.expose().is_empty()
}

/// The name of the first parameter that the client of the store does not take.
fn refused_parameter(url: &Secret) -> Option<String> {
    let (_, parameters) = url.expose().split_once('?')?;
    let is_refused = |parameter: &&str| !is_readable(&Secret::new(format!("postgres://host/database?{parameter}")));
    let refused = parameters.split('&').find(is_refused).filter(|_| url.expose().starts_with("postgres"))?;
    refused.split('=').next().map(str::to_owned)
}

fn from_file(path: &std::path::Path, context: &Surroundings<'_>) -> Result<Secret, String> {
    let shown = path.display();
    context.files.add(path);
    let metadata = fs::metadata(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if !metadata.is_file() || metadata.len() > MAX_URL_FILE_BYTES {
        return Err(format!("{shown} is not a file with an address"));
    }
    if let Some(mode) = open_to_others(&metadata) {
        return Err(format!("{shown} has mode {mode:04o}: others may read it"));
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    Ok(Secret::new(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Environment};

    fn faults(text: &str, url: Option<&str>) -> Vec<String> {
        let environment: Environment = url.map(|url| ("STORE", url)).into_iter().collect();
        let read = Config::parse(text, "test.toml", Path::new("."), &environment);
        let faults = read.err().unwrap_or_default();
        faults.iter().map(ToString::to_string).filter(|fault| fault.contains("shared")).collect()
    }

    #[test]
    fn an_address_comes_from_a_variable_and_is_never_shown() {
        let text = "[shared.redis]\nurl_env = \"STORE\"\n";
        assert_eq!(faults(text, Some("redis://:secret@127.0.0.1:6379")), Vec::<String>::new());
        let wrong = faults(text, Some("http://:secret@127.0.0.1:6379")).join("\n");
        assert!(wrong.contains("begins with redis://") && !wrong.contains("secret"), "{wrong}");
        assert!(faults(text, None).join("\n").contains("STORE is not set"));
        let in_file = faults("[shared.postgres]\nurl = \"postgres://u:secret@h/d\"\n", None).join("\n");
        assert!(in_file.contains("must not be in this file") && !in_file.contains("secret@"), "{in_file}");
    }

    #[test]
    fn every_mode_of_encryption_that_others_have_for_a_verified_server_is_taken_and_weaker_ones_are_refused() {
        let text = "[shared.postgres]\nurl_env = \"STORE\"\n";
        for (mode, is_taken) in [
            ("disable", true),
            ("prefer", true),
            ("require", true),
            ("verify-ca", true),
            ("verify-full", true),
            ("allow", false),
        ] {
            let found = faults(text, Some(&format!("postgres://u:secret@h/d?application_name=x&sslmode={mode}")));
            assert_eq!(found.is_empty(), is_taken, "{mode}: {found:?}");
            assert!(!found.join("\n").contains("secret"), "{found:?}");
            assert!(is_taken || found.join("\n").contains("'sslmode'"), "{found:?}");
        }
        let found = faults(text, Some("postgres://u:secret@h/d?connect_timeout=3&pgbouncer=hush")).join("\n");
        assert!(found.contains("'pgbouncer'") && !found.contains("secret") && !found.contains("hush"), "{found}");
    }

    #[test]
    fn postgres_needs_a_ledger_on_disk_because_that_is_its_outbox() {
        let text = "[ledger]\ndurability = \"off\"\n[shared.postgres]\nurl_env = \"STORE\"\n";
        assert!(faults(text, Some("postgres://u@h/d")).join("\n").contains("needs a ledger on disk"));
    }
}
