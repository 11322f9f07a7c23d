//! The two places where keys, accounts and the audit log are: a running gateway, asked at its admin listener, and the data
//! directory of one that does not run.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_base::secret::Secret;
use pointsman_config::{Config, Environment};
use pointsman_ledger::{accounts::AccountLog, directory::Directory, fault::Fault};
use pointsman_transport::{Connection, UpstreamError, call_page, client_config};
use rustls::ClientConfig;
use serde_json::Value;

use super::{CommandOutput, EXIT_CONFIGURATION, EXIT_UNREACHABLE, gateway::unreachable, load, success};
use crate::{
    access::{issued::Actor, registry::Registry},
    state::{accounts, replicas::shared_log::SharedLog},
};

/// Default environment variable of the administrator's key.
const DEFAULT_KEY_VARIABLE: &str = "POINTSMAN_ADMIN_KEY";
/// Timeout of each request to the gateway.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a command works, and the form of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AdminPlace {
    /// Configuration that names the data directory of a gateway that does not run
    #[arg(id = "admin_config", short = 'c', long = "config", global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Admin address of a running gateway, such as http://127.0.0.1:8081
    #[arg(long, global = true)]
    url: Option<String>,
    /// Environment variable with a key of the scope admin, with --url; default: POINTSMAN_ADMIN_KEY
    #[arg(long, global = true, value_name = "NAME")]
    key_env: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl AdminPlace {
    /// Runs a command at the running gateway or in the directory, and shows what came of it.
    pub(super) fn run<T>(
        &self,
        environment: &Environment,
        running: impl FnOnce(&AdminClient) -> Result<T, Failed>,
        stopped: impl FnOnce(&Config) -> Result<T, Failed>,
        show: impl FnOnce(T) -> String,
    ) -> CommandOutput {
        let done = match &self.url {
            Some(url) => {
                AdminClient::new(url, self.key_env.as_deref(), environment).and_then(|client| running(&client))
            }
            None => match load(self.config.as_deref(), environment) {
                Ok(loaded) => stopped(&loaded.config),
                Err(output) => return output,
            },
        };
        match done {
            Ok(done) => success(show(done)),
            Err(Failed { message, code }) => CommandOutput { text: format!("pointsman: {message}\n"), code },
        }
    }
}

/// Why nothing was done, and the exit code.
pub(super) struct Failed {
    pub(super) message: String,
    pub(super) code: u8,
}

impl From<String> for Failed {
    fn from(message: String) -> Failed {
        Failed { message, code: EXIT_CONFIGURATION }
    }
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
pub(super) fn stopped_gateway(config: &Config) -> Result<StoppedGateway, Failed> {
    let path = config.ledger.durable_directory().ok_or_else(|| {
        "the configuration keeps records in memory only, so keys cannot be stored; set ledger.data_dir and \
         ledger.durability = \"group\""
            .to_owned()
    })?;
    let opened = Directory::open(path).map_err(|fault| match fault {
        Fault::InUse(path) => format!(
            "{path} is in use by a running gateway; give its admin address with --url, and set {DEFAULT_KEY_VARIABLE} to a key \
             with the scope admin"
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
pub(super) struct AdminClient {
    connection: Connection,
    url: String,
    /// Environment variable with the key.
    variable: String,
    /// `None`: the roots of the system.
    tls: Option<Arc<ClientConfig>>,
}

impl AdminClient {
    pub(super) fn new(url: &str, key_env: Option<&str>, environment: &Environment) -> Result<AdminClient, Failed> {
        let url = url.trim().trim_end_matches('/').trim_end_matches("/api/v1").to_owned();
        if url.starts_with("http://") && !is_loopback(&url) {
            return Err(format!(
                "--url {url}: a key would be sent unencrypted; use https, or call from the machine itself"
            )
            .into());
        }
        let variable = key_env.unwrap_or(DEFAULT_KEY_VARIABLE);
        let key = environment.get(variable).filter(|key| !key.is_empty());
        let key =
            key.ok_or_else(|| format!("the variable {variable} is not set; set it to a key with the scope admin"))?;
        let connection = Connection::new(&url).map_err(|fault| format!("--url {fault}"))?;
        let connection = connection.with_bearer(Secret::from(key)).map_err(|fault| format!("the key {fault}"))?;
        Ok(AdminClient { connection, url, variable: variable.to_owned(), tls: None })
    }

    /// The same gateway, with other certificates than those that the system trusts.
    pub(super) fn with_tls(self, tls: Arc<ClientConfig>) -> AdminClient {
        AdminClient { tls: Some(tls), ..self }
    }

    pub(super) fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failed> {
        Ok(serde_json::from_slice(&self.page(method, path, body)?).unwrap_or_default())
    }

    /// The body of the answer, as it came.
    pub(super) fn page(&self, method: Method, path: &str, body: Option<Value>) -> Result<Bytes, Failed> {
        let tls = match &self.tls {
            Some(tls) => Arc::clone(tls),
            None => client_config(None).map_err(|fault| fault.to_string())?,
        };
        let body = body.map(|body| Bytes::from(body.to_string()));
        let called = call_page(&self.connection, &tls, (method, path), body, TIMEOUT);
        let unreachable =
            |error: UpstreamError| Failed { message: unreachable(&self.url, &error), code: EXIT_UNREACHABLE };
        let (status, body) = actix_web::rt::System::new().block_on(called).map_err(unreachable)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no readable error message");
        let remedy =
            if status == 401 { format!(" The key is that of the variable {}.", self.variable) } else { String::new() };
        Err(format!("{} answers {status}: {message}{remedy}", self.url).into())
    }
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<actix_web::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
