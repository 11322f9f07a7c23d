//! A running gateway as `health`, `logs`, `explain`, `preview` and `replay` ask it.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_base::secret::Secret;
use pointsman_config::{DEVELOPMENT_KEY, Environment, Listeners};
use pointsman_domain::FailureKind;
use pointsman_transport::{Connection, UpstreamError, call_page, client_config, own_config};
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

use super::{CommandOutput, EXIT_UNREACHABLE, Finished, failure, refused, report, success};

/// Default environment variable of the administrator's key.
pub(super) const ADMIN_KEY_VARIABLE: &str = "POINTSMAN_ADMIN_KEY";
/// Default environment variable of the key.
const DEFAULT_KEY_VARIABLE: &str = "POINTSMAN_API_KEY";
/// Environment variable with the address of the gateway, where --url names none.
const URL_VARIABLE: &str = "POINTSMAN_URL";
/// Default address of the gateway.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// Timeout of a request to the gateway.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What to do when a configuration names no address.
pub(super) fn no_address(key: &str) -> CommandOutput {
    refused(format!("{key} names no address that can be asked; name it with --url"))
}

/// An error answer.
#[derive(Deserialize)]
pub(super) struct ErrorPage {
    pub(super) error: Message,
}

#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) message: String,
}

/// Which gateway, with which key, and the form of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GatewayArguments {
    /// The gateway; default: that of --config, else POINTSMAN_URL, else http://127.0.0.1:8080; for 'health' the address in the
    /// configuration
    #[arg(long)]
    pub(super) url: Option<String>,
    /// Configuration that names the address without --url; 'health' reads ./config.toml by default if it exists, else the built-in
    /// one
    #[arg(id = "gateway_config", short = 'c', long = "config", value_name = "FILE", conflicts_with = "url")]
    pub(super) config: Option<PathBuf>,
    /// Environment variable with a key; default: POINTSMAN_API_KEY
    #[arg(long, value_name = "NAME")]
    pub(super) key_env: Option<String>,
    /// Print the answer of the gateway unchanged, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A gateway with the key to call it.
pub(super) struct ReachedGateway {
    url: String,
    key: KeySource,
    connection: Connection,
    tls: Arc<ClientConfig>,
}

impl GatewayArguments {
    /// A gateway as other commands name it; without an address the default one.
    pub(super) fn new(url: Option<String>, key_env: Option<String>) -> GatewayArguments {
        GatewayArguments { url, config: None, key_env, json: false }
    }

    /// Its address, without the version path.
    pub(super) fn url(&self, environment: &Environment) -> String {
        let named = environment.get(URL_VARIABLE).filter(|url| !url.trim().is_empty());
        root(self.url.as_deref().or(named).unwrap_or(DEFAULT_URL)).to_owned()
    }

    /// The gateway. Connects only with the first call.
    pub(super) fn connect(&self, environment: &Environment) -> Result<ReachedGateway, CommandOutput> {
        let gateway = match (&self.url, &self.config) {
            (None, Some(file)) => ReachedGateway::of_configuration(file, environment)?,
            _ => self.without_key(&self.url(environment))?,
        };
        // An administrator's key reads the generations of all keys here, too.
        if self.key_env.as_deref() == Some(ADMIN_KEY_VARIABLE) {
            gateway.require_encryption()?;
        }
        let key = key(self.key_env.as_deref(), &gateway.url, environment).map_err(refused)?;
        let connection = gateway.connection.with_bearer(key).map_err(|fault| refused(format!("the key {fault}")))?;
        let key = self.key_source(environment);
        Ok(ReachedGateway { connection, key, ..gateway })
    }

    /// The gateway for pages that need no key.
    pub(super) fn connect_without_key(&self) -> Result<ReachedGateway, CommandOutput> {
        self.without_key(self.url.as_deref().unwrap_or(DEFAULT_URL))
    }

    fn without_key(&self, url: &str) -> Result<ReachedGateway, CommandOutput> {
        let tls = client_config(None).map_err(refused)?;
        ReachedGateway::without_key(url, tls)
    }

    fn key_source(&self, environment: &Environment) -> KeySource {
        let variable = self.key_env.as_deref().unwrap_or(DEFAULT_KEY_VARIABLE);
        match environment.get(variable).filter(|key| !key.is_empty()) {
            Some(_) => KeySource::Variable(variable.to_owned()),
            None => KeySource::Development,
        }
    }

    /// Which key is asked with, as a part of a sentence.
    pub(super) fn key_name(&self, environment: &Environment) -> String {
        match self.key_source(environment) {
            KeySource::Variable(name) => format!("the key in {name}"),
            _ => format!("the development key ({DEFAULT_KEY_VARIABLE} is not set)"),
        }
    }

    /// The answer of the gateway; a status of failure is one.
    pub(super) fn call(
        &self,
        call: (Method, &str),
        body: Option<Bytes>,
        environment: &Environment,
    ) -> Result<Bytes, CommandOutput> {
        let gateway = self.connect(environment)?;
        actix_web::rt::System::new().block_on(gateway.call(call, body))
    }
}

impl ReachedGateway {
    /// The gateway at `url`, for pages that need no key.
    pub(super) fn without_key(url: &str, tls: Arc<ClientConfig>) -> Result<ReachedGateway, CommandOutput> {
        let url = root(url);
        let connection = Connection::new(url).map_err(|fault| refused(format!("--url {fault}")))?;
        Ok(ReachedGateway { url: url.to_owned(), key: KeySource::None, connection, tls })
    }

    /// Its address.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Refuses an address where others could read an administrator's key on its way.
    fn require_encryption(&self) -> Result<(), CommandOutput> {
        let uri = self.url.parse::<actix_web::http::Uri>();
        if uri.is_ok_and(|uri| uri.scheme_str() == Some("https")) || is_loopback(&self.url) {
            return Ok(());
        }
        let url = &self.url;
        Err(refused(format!(
            "--url {url}: a key would be sent unencrypted; use https, or call from the machine itself"
        )))
    }

    /// The gateway that listens at the address of a configuration, for pages that need no key.
    fn of_configuration(file: &Path, environment: &Environment) -> Result<ReachedGateway, CommandOutput> {
        let listeners = Listeners::read(Some(file), environment).map_err(|faults| failure(report(&faults)))?;
        let url = listeners.server_urls().first().cloned().ok_or_else(|| no_address("server.bind"))?;
        ReachedGateway::without_key(&url, client_config(None).map_err(refused)?)?.trusting(&listeners)
    }

    /// The gateway at `url`, called with an administrator's key, that of the variable `variable`.
    pub(super) fn with_key(url: &str, variable: &str, key: &str) -> Result<ReachedGateway, CommandOutput> {
        let gateway = ReachedGateway::without_key(url, client_config(None).map_err(refused)?)?;
        gateway.require_encryption()?;
        let connection = gateway.connection.with_bearer(Secret::from(key));
        let connection = connection.map_err(|fault| refused(format!("the key {fault}")))?;
        Ok(ReachedGateway { connection, key: KeySource::Variable(variable.to_owned()), ..gateway })
    }

    /// The same gateway, with the certificate of its configuration, if that names one.
    pub(super) fn trusting(self, listeners: &Listeners) -> Result<ReachedGateway, CommandOutput> {
        let certificate = listeners.identity.as_ref().and_then(|identity| identity.certified.cert.first());
        let Some(certificate) = certificate else { return Ok(self) };
        Ok(ReachedGateway { tls: own_config(Some(certificate)).map_err(refused)?, ..self })
    }

    /// The answer to one call; a status of failure is one.
    pub(super) async fn call(&self, call: (Method, &str), body: Option<Bytes>) -> Result<Bytes, CommandOutput> {
        let answer = self.page(call, body).await?;
        self.body_of(answer)
    }

    /// The body of an answer; a status of failure is one.
    pub(super) fn body_of(&self, answer: (u16, Bytes)) -> Result<Bytes, CommandOutput> {
        match answer {
            (200..300, body) => Ok(body),
            (status, body) => {
                let message = serde_json::from_slice(&body).map(|ErrorPage { error }| error.message);
                let message = message.as_deref().unwrap_or("no readable error message");
                // The admin listener has none of the pages that these commands read.
                let is_admin = message.contains("the listener for administration");
                let remedy = match status {
                    401 => self.key.remedy(),
                    404 if message.contains("known for this API key") => {
                        " A key with the scope admin finds those of all keys: --key-env POINTSMAN_ADMIN_KEY.".to_owned()
                    }
                    404 if is_admin => " --url must be the address that models are called at (server.bind).".to_owned(),
                    _ => String::new(),
                };
                Err(refused(format!("{} answers {status}: {message}{remedy}", self.url)))
            }
        }
    }

    /// Why the admin listener answered with a status of failure, and what to do.
    pub(super) fn refused_by_admin(&self, status: u16, body: &[u8]) -> CommandOutput {
        let message = serde_json::from_slice(body).map(|ErrorPage { error }| error.message);
        let hint = match status {
            401 | 403 => " It needs a key with the scope 'admin', in POINTSMAN_ADMIN_KEY or the variable of --key-env.",
            404 => " The address must be that of the admin listener (admin.bind).",
            _ => "",
        };
        let message = message.as_deref().unwrap_or("no readable error message.");
        refused(format!("{} answers {status}: {message}{hint}", self.url))
    }

    /// Status and body of the answer to one call.
    pub(super) async fn page(&self, call: (Method, &str), body: Option<Bytes>) -> Result<(u16, Bytes), CommandOutput> {
        self.page_within(call, body, TIMEOUT).await
    }

    /// The same with another timeout.
    pub(super) async fn page_within(
        &self,
        call: (Method, &str),
        body: Option<Bytes>,
        timeout: Duration,
    ) -> Result<(u16, Bytes), CommandOutput> {
        let called = call_page(&self.connection, &self.tls, call, body, timeout).await;
        called.map_err(|error| {
            let text = format!("pointsman: {}\n", unreachable(&self.url, &error));
            CommandOutput { text, code: EXIT_UNREACHABLE }
        })
    }
}

/// Does `work` until it is done or a signal arrives. Returns what remains to be printed.
pub(super) fn until_a_signal(work: impl Future<Output = Result<(), CommandOutput>>) -> Finished {
    let done = actix_web::rt::System::new().block_on(async {
        let listen = |kind| signal(kind).map_err(|error| refused(format!("no signals: {error}")));
        let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        tokio::select! {
            ended = work => ended,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    });
    done.map(|()| success(String::new()))
}

/// Why no answer came from the gateway at `url`, and what to do.
pub(super) fn unreachable(url: &str, error: &UpstreamError) -> String {
    const HINT: &str = "start it with 'pointsman', or name its address with --url";
    match (error.failure.kind, error.cause) {
        (FailureKind::Connect, Some("refused")) => format!("nothing listens at {url}; {HINT}"),
        (FailureKind::Connect, Some("name_unknown")) => format!("the name in {url} is known to no name server; {HINT}"),
        (FailureKind::Connect, _) => format!("{url}: {error}; {HINT}"),
        _ => format!("{url}: {error}"),
    }
}

/// Where the key of a call comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeySource {
    /// None is sent.
    None,
    /// The key that every gateway on loopback has until that is switched off; the variable is not set.
    Development,
    Variable(String),
}

impl KeySource {
    /// What to do when the gateway refuses the key.
    fn remedy(&self) -> String {
        match self {
            KeySource::None => String::new(),
            KeySource::Development => {
                format!(
                    " {DEFAULT_KEY_VARIABLE} is not set, so the development key was sent: set it to one of the gateway's keys."
                )
            }
            KeySource::Variable(name) => format!(" The key is that of the variable {name}."),
        }
    }
}

/// The address without the version path at the end of the printed base address.
pub(super) fn root(url: &str) -> &str {
    let url = url.trim().trim_end_matches('/');
    ["/api/v1", "/v1", "/api"].iter().find_map(|version| url.strip_suffix(version)).unwrap_or(url)
}

/// The key in the named variable. For a gateway on loopback the development key is the default.
pub(super) fn key(key_env: Option<&str>, url: &str, environment: &Environment) -> Result<Secret, String> {
    let variable = key_env.unwrap_or(DEFAULT_KEY_VARIABLE);
    match environment.get(variable).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Secret::from(key)),
        None if key_env.is_none() && is_loopback(url) => Ok(Secret::from(DEVELOPMENT_KEY)),
        None => Err(format!("the variable {variable} is not set; set it to a key that may read the record")),
    }
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<actix_web::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
