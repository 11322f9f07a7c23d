//! A whole gateway on a port of its own, and a client that shows what it got.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::Arc};

use actix_web::http::Method;
use futures_util::StreamExt as _;
use pointsman::app::server::{Gateway, Server};
use pointsman_config::{BUILT_IN, Config, LoadedConfig};
use pointsman_ledger::generations::GenerationStore;
use serde_json::Value;

use crate::documented;

/// The key every test gateway accepts.
pub const KEY: &str = "sk-test-0123456789abcdef";

/// No listener for administration, unless a test names another address: the default is there once per machine.
pub const NO_ADMIN: (&str, &str) = ("POINTSMAN__ADMIN__BIND", "");
/// No call waits for an endpoint to reopen, so that a refusal is seen at once. Tests that are about waiting say how long.
pub const NO_WAIT: (&str, &str) = ("POINTSMAN__ROUTING__RETRY__WAIT", "0s");
/// Records in memory only, unless a test says otherwise: the default directory is there once per working directory.
pub const NO_LEDGER: (&str, &str) = ("POINTSMAN__LEDGER__DURABILITY", "off");

/// How much longer a figure of a released binary may take in a build without optimisation.
pub const UNOPTIMISED: u32 = if cfg!(debug_assertions) { 10 } else { 1 };

/// A running gateway. Stops with the test's runtime.
pub struct TestGateway {
    /// Where it listens.
    pub address: SocketAddr,
    admin: Option<SocketAddr>,
    admin_key: Option<String>,
    handle: Option<actix_web::dev::ServerHandle>,
    gateway: Option<Gateway>,
}

/// What a call was answered with.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The JSON of every `data:` event of a stream, `[DONE]` left out.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))).collect()
    }

    /// The text a stream's deltas add up to.
    pub fn content(&self) -> String {
        let events = self.events();
        events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect()
    }

    /// Fails the test unless the status is `expected`, and gives the JSON body.
    pub fn expect(&self, expected: u16) -> Value {
        assert_eq!(self.status, expected, "{}", self.text());
        self.json()
    }
}

impl TestGateway {
    /// Starts a gateway with this configuration, given as TOML. The server section, the test key and
    /// simulation = off are put before it.
    pub async fn start(config: &str) -> TestGateway {
        TestGateway::start_with(config, &[]).await
    }

    /// As [`TestGateway::start`], with environment variables.
    pub async fn start_with(config: &str, environment: &[(&str, &str)]) -> TestGateway {
        TestGateway::run(read(config, environment)).await
    }

    /// Goes over to another configuration, given as for [`TestGateway::start_with`].
    pub async fn adopt(&self, config: &str, environment: &[(&str, &str)]) -> u64 {
        self.try_adopt(config, environment).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same; what is told where it is refused.
    pub async fn try_adopt(&self, config: &str, environment: &[(&str, &str)]) -> Result<u64, String> {
        self.inner().adopt(read(config, environment)).await.map_err(|error| error.to_string())
    }

    /// Starts a gateway in front of the shipped simulated providers, made quick and faultless.
    pub async fn simulated() -> TestGateway {
        let mut environment: Vec<(String, String)> = vec![
            ("TEST_KEY".into(), KEY.into()),
            ("POINTSMAN__SERVER__BIND".into(), "127.0.0.1:0".into()),
            ("POINTSMAN__SERVER__WORKERS".into(), "1".into()),
            (NO_ADMIN.0.into(), NO_ADMIN.1.into()),
            (NO_LEDGER.0.into(), NO_LEDGER.1.into()),
            ("POINTSMAN__SIMULATION__MODE".into(), "on".into()),
            ("POINTSMAN__KEYS".into(), "[{ name = \"test\", env = \"TEST_KEY\" }]".into()),
        ];
        for slug in ["SIM_SWIFT", "SIM_THRIFT", "SIM_FLAKY", "SIM_GRATIS"] {
            for (key, value) in
                [("TTFT", "1ms"), ("TOKENS_PER_SECOND", "10000"), ("ERROR_RATE", "0"), ("TRUNCATE_RATE", "0")]
            {
                environment.push((format!("POINTSMAN__SIMULATION__PROVIDERS__{slug}__{key}"), value.into()));
            }
        }
        let environment = environment.into_iter().collect();
        let config = Config::parse(BUILT_IN, "test", Path::new("."), &environment);
        TestGateway::run(config.unwrap_or_else(|faults| panic!("{faults:#?}"))).await
    }

    /// Starts a gateway with the configuration in the file at `path`, read with these variables and the test key.
    pub async fn load(path: &Path, environment: &[(&str, &str)]) -> TestGateway {
        let environment =
            [NO_ADMIN, NO_LEDGER, ("TEST_KEY", KEY)].into_iter().chain(environment.iter().copied()).collect();
        let config = Config::load(Some(path), &environment);
        TestGateway::run(config.unwrap_or_else(|faults| panic!("{faults:#?}"))).await
    }

    /// The gateway itself, when it runs in this process.
    pub fn inner(&self) -> &Gateway {
        self.gateway.as_ref().expect("a gateway in this process")
    }

    /// The number of the statistics that the routing reads now.
    pub fn snapshot_version(&self) -> u64 {
        self.inner().setup().published.snapshot().version
    }

    /// As [`TestGateway::start_with`], with a ledger that the test has opened.
    pub async fn start_over(
        config: &str,
        environment: &[(String, String)],
        ledger: Arc<GenerationStore>,
    ) -> TestGateway {
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let server = Server::bind_with_ledger(read(config, &environment), ledger).await;
        TestGateway::serve(server.unwrap_or_else(|error| panic!("{error}")))
    }

    async fn run(config: impl Into<LoadedConfig>) -> TestGateway {
        TestGateway::serve(Server::bind(config).await.unwrap_or_else(|error| panic!("{error}")))
    }

    fn serve(mut server: Server) -> TestGateway {
        let (address, handle, gateway) = (server.address(), server.handle(), server.gateway().clone());
        let admin = server.admin_address();
        let admin_key = server.take_admin_key().map(|key| key.expose().to_owned());
        actix_web::rt::spawn(server.run());
        TestGateway { address, admin, admin_key, handle: Some(handle), gateway: Some(gateway) }
    }

    /// A gateway that runs elsewhere: a process of its own.
    pub fn at(address: SocketAddr) -> TestGateway {
        TestGateway { address, admin: None, admin_key: None, handle: None, gateway: None }
    }

    /// Its listener for administration; what is sent there has the test key unless it names another.
    pub fn admin(&self) -> TestGateway {
        TestGateway::at(self.admin.expect("a listener for administration"))
    }

    /// The administrator's key that its start made, if it made one.
    pub fn admin_key(&self) -> Option<&str> {
        self.admin_key.as_deref()
    }

    /// The address below which everything lies.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// `GET` with the test key.
    pub async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, &[], None).await
    }

    /// `POST` of a JSON body with the test key.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::POST, path, &[("content-type", "application/json")], Some(body.to_string().into_bytes()))
            .await
    }

    /// `POST /api/v1/chat/completions`.
    pub async fn chat(&self, body: &Value) -> Reply {
        self.post("/api/v1/chat/completions", body).await
    }

    /// Any call; the test key is sent unless `headers` name another `authorization` (an empty one is not sent).
    pub async fn call(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Vec<u8>>) -> Reply {
        self.call_watched(method, path, headers, body, |_| ()).await
    }

    /// As [`TestGateway::call`]; `watch` sees every piece of the answer's body as it comes.
    pub async fn call_watched(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
        watch: impl Fn(&[u8]),
    ) -> Reply {
        let client = awc::Client::builder().timeout(std::time::Duration::from_secs(20)).disable_redirects().finish();
        let mut request = client.request(method.clone(), self.url(path));
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.insert_header(("authorization", format!("Bearer {KEY}")));
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.append_header((*name, *value));
        }
        let response = match body {
            Some(body) => request.send_body(body).await,
            None => request.send().await,
        };
        let mut response = response.unwrap_or_else(|error| panic!("{path}: {error}"));
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned())).collect();
        let mut body = Vec::new();
        while let Some(piece) = response.next().await {
            let piece = piece.unwrap_or_else(|error| panic!("{path}: {error}"));
            watch(&piece);
            body.extend_from_slice(&piece);
        }
        let reply = Reply { status: response.status().as_u16(), headers, body };
        if reply.header("content-type").is_some_and(|kind| kind.starts_with("application/json"))
            && method != Method::HEAD
        {
            documented::check(&method, path, reply.status, &reply.body);
        }
        reply
    }

    /// Asks the server to stop, running calls first.
    pub async fn stop(&self) {
        if let Some(handle) = &self.handle {
            handle.stop(true).await;
        }
    }

    /// Tells whatever still runs that the time of the process is over; its pages can still be read.
    pub fn end_requests(&self) {
        self.gateway.as_ref().expect("runs in a process of its own").end_requests();
    }
}

/// The configuration of a test: the preamble and this.
pub(crate) fn read(config: &str, environment: &[(&str, &str)]) -> Config {
    let text = format!("{}\n{config}", preamble());
    let environment = [NO_ADMIN, NO_WAIT, ("TEST_KEY", KEY)].into_iter().chain(environment.iter().copied()).collect();
    let config = Config::parse(&text, "test", Path::new("."), &environment);
    config.unwrap_or_else(|faults| panic!("{faults:#?}"))
}

/// What stands before the configuration of every test.
pub fn preamble() -> &'static str {
    "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n\
     [auth]\ndevelopment_key_enabled = false\n[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n"
}
