//! The two places where keys, accounts and the audit log are: a running gateway, asked at its admin listener, and the data
//! directory of one that does not run.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_config::{Config, Environment, Listeners};
use pointsman_ledger::{accounts::AccountLog, directory::Directory, fault::Fault};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    CommandOutput, Finished, failure,
    gateway::{ADMIN_KEY_VARIABLE, ReachedGateway, no_address},
    load, report, success,
};
use crate::{
    access::{issued::Actor, registry::Registry},
    state::{accounts, replicas::shared_log::SharedLog},
};

/// Environment variable with the admin address, where --url names none.
const URL_VARIABLE: &str = "POINTSMAN_ADMIN_URL";
/// Where a gateway takes calls of administrators, unless it is told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:8081";

/// The admin address: the one that is named, else that of the variable.
fn named_url(named: Option<&str>, environment: &Environment) -> Option<String> {
    let of_variable = || environment.get(URL_VARIABLE).filter(|url| !url.trim().is_empty());
    named.or_else(of_variable).map(str::to_owned)
}

/// The admin address of a gateway that runs.
pub(super) fn admin_url(named: Option<&str>, environment: &Environment) -> String {
    named_url(named, environment).unwrap_or_else(|| DEFAULT_URL.to_owned())
}

/// A running gateway at its admin address, with an administrator's key.
pub(super) fn reached(
    url: &str,
    key_env: Option<&str>,
    environment: &Environment,
) -> Result<ReachedGateway, CommandOutput> {
    let variable = key_env.unwrap_or(ADMIN_KEY_VARIABLE);
    let key = environment.get(variable).filter(|key| !key.is_empty());
    let unset = || format!("the variable {variable} is not set; set it to a key with the scope admin");
    ReachedGateway::with_key(url, variable, key.ok_or_else(unset)?)
}

/// The gateway that listens at the admin address of a configuration, with an administrator's key.
pub(super) fn reached_by_configuration(
    file: Option<&Path>,
    key_env: Option<&str>,
    environment: &Environment,
) -> Result<ReachedGateway, CommandOutput> {
    let listeners = Listeners::read(file, environment).map_err(|faults| failure(report(&faults)))?;
    let url = listeners.admin_urls().first().cloned().ok_or_else(|| no_address("admin.bind"))?;
    reached(&url, key_env, environment)?.trusting(&listeners)
}

/// Where a command works, and the form of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AdminPlace {
    /// Configuration that names the data directory of a gateway that does not run
    #[arg(id = "admin_config", short = 'c', long = "config", global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Admin address of a running gateway; default: that of --config if its gateway runs; without --config
    /// POINTSMAN_ADMIN_URL, else that of the default configuration if its gateway runs
    #[arg(long, global = true)]
    url: Option<String>,
    /// Environment variable with a key of the scope admin, for a running gateway; default: POINTSMAN_ADMIN_KEY
    #[arg(long, global = true, value_name = "NAME")]
    key_env: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

// Rates of a key or an account; a doc comment would be part of the help.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize)]
pub(super) struct RateArguments {
    /// Requests per minute; 0: no limit
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<u32>,
    /// Tokens per minute; 0: no limit
    #[arg(long, value_name = "N")]
    tokens_per_minute: Option<u32>,
    /// Requests in progress; 0: no limit
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
}

/// The members that arguments of the same names set: those that are given.
pub(super) fn given(arguments: &impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(arguments) else { return Map::new() };
    members.retain(|_, value| !value.is_null() && !value.as_array().is_some_and(Vec::is_empty));
    members
}

impl AdminPlace {
    /// Runs a command at the running gateway or in the directory, and shows what came of it.
    pub(super) fn run<T>(
        &self,
        environment: &Environment,
        running: impl FnOnce(&AdminClient) -> Result<T, CommandOutput>,
        stopped: impl FnOnce(&Config) -> Result<T, CommandOutput>,
        show: impl FnOnce(T) -> String,
    ) -> Finished {
        let key_env = self.key_env.as_deref();
        let url = match (&self.url, &self.config) {
            // The variable must not lead a command away from the gateway that it names.
            (None, Some(_)) => None,
            (url, _) => named_url(url.as_deref(), environment),
        };
        if let Some(url) = url {
            return Ok(success(show(running(&AdminClient::new(&url, key_env, environment)?)?)));
        }
        let (file, config) = (self.config.as_deref(), load(self.config.as_deref(), environment)?.config);
        let has_key = environment.get(key_env.unwrap_or(ADMIN_KEY_VARIABLE)).is_some_and(|key| !key.is_empty());
        let done = match has_key && is_in_use(&config) {
            true => running(&AdminClient::of_configuration(file, key_env, environment)?)?,
            false => stopped(&config)?,
        };
        Ok(success(show(done)))
    }
}

/// Whether a gateway runs in the data directory.
fn is_in_use(config: &Config) -> bool {
    let directory = config.ledger.durable_directory();
    directory.is_some_and(|path| matches!(Directory::open(path), Err(Fault::InUse(_))))
}

/// What a gateway that does not run has stored.
pub(super) struct StoppedGateway {
    pub(super) registry: Arc<Registry>,
    /// Who changes it: the user of the machine.
    pub(super) actor: Actor,
    /// Held as long as the registry, so that no gateway starts meanwhile.
    _directory: Directory,
}

/// The keys, accounts and changes of a gateway that does not run.
pub(super) fn stopped_gateway(config: &Config) -> Result<StoppedGateway, CommandOutput> {
    let path = config.ledger.durable_directory().ok_or_else(|| {
        "the configuration keeps records in memory only, so keys cannot be stored; set ledger.data_dir and \
         ledger.durability = \"group\""
            .to_owned()
    })?;
    let opened = Directory::open(path).map_err(|fault| match fault {
        Fault::InUse(path) => format!(
            "{path} is in use by a running gateway; set {ADMIN_KEY_VARIABLE} to a key with the scope admin, and give its admin address \
             with --url if it is not that of the configuration"
        ),
        fault => format!("{}: {fault}", path.display()),
    })?;
    let (log, mut stored) = AccountLog::open(opened.disk()).map_err(|fault| fault.to_string())?;
    // Keys of other replicas too. What is changed here is sent at the next start.
    let shared_log = SharedLog::open(opened.disk()).map_err(|fault| fault.to_string())?;
    stored.changes = shared_log.merge(stored.changes).lines;
    let registry = accounts::registry(&config.limits, Some((log, stored))).map_err(|fault| fault.to_string())?;
    registry.adopt(config);
    let from = std::env::var("USER").unwrap_or_default();
    let actor = Actor { by: "command line".to_owned(), from, request_id: None };
    Ok(StoppedGateway { registry, actor, _directory: opened })
}

/// A running gateway, reached through its admin listener.
pub(super) struct AdminClient(ReachedGateway);

impl AdminClient {
    pub(super) fn new(
        url: &str,
        key_env: Option<&str>,
        environment: &Environment,
    ) -> Result<AdminClient, CommandOutput> {
        reached(url, key_env, environment).map(AdminClient)
    }

    /// The gateway that listens at the admin address of a configuration.
    pub(super) fn of_configuration(
        file: Option<&Path>,
        key_env: Option<&str>,
        environment: &Environment,
    ) -> Result<AdminClient, CommandOutput> {
        reached_by_configuration(file, key_env, environment).map(AdminClient)
    }

    pub(super) fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, CommandOutput> {
        Ok(serde_json::from_slice(&self.page(method, path, body)?).unwrap_or_default())
    }

    /// The body of the answer, as it came.
    pub(super) fn page(&self, method: Method, path: &str, body: Option<Value>) -> Result<Bytes, CommandOutput> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        actix_web::rt::System::new().block_on(self.0.call((method, path), body))
    }
}
