//! A running gateway as `explain` and `preview` ask it.

use std::time::Duration;

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_actors::domain::FailureKind;

use super::{
    CommandOutput, EXIT_UNREACHABLE, failure,
    replay::{self, ErrorPage},
};
use crate::{
    config::Environment,
    upstream::{Connection, call_page, client_config},
};

/// Default address of the gateway.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// Timeout of a request to the gateway.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Which gateway, with which key, and the form of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GatewayArguments {
    /// The gateway; default: http://127.0.0.1:8080
    #[arg(long)]
    url: Option<String>,
    /// Environment variable with a key; default: POINTSMAN_API_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Print the answer of the gateway unchanged, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl GatewayArguments {
    /// The answer of the gateway; every other status than 200 is a failure.
    pub(super) fn call(
        &self,
        call: (Method, &str),
        body: Option<Bytes>,
        environment: &Environment,
    ) -> Result<Bytes, CommandOutput> {
        let refused = |message: String| failure(format!("pointsman: {message}\n"));
        let url = replay::root(self.url.as_deref().unwrap_or(DEFAULT_URL));
        let connection = Connection::new(url).map_err(|fault| refused(format!("--url {fault}")))?;
        let key = replay::key(self.key_env.as_deref(), url, environment).map_err(refused)?;
        let connection = connection.with_bearer(key).map_err(|fault| refused(format!("the key {fault}")))?;
        let tls = client_config(None).map_err(|fault| refused(fault.to_string()))?;
        let called = actix_web::rt::System::new().block_on(call_page(&connection, &tls, call, body, TIMEOUT));
        match called {
            Ok((200, body)) => Ok(body),
            Ok((status, body)) => {
                let message = serde_json::from_slice(&body).map(|ErrorPage { error }| error.message);
                let message = message.as_deref().unwrap_or("no readable error message");
                Err(refused(format!("{url} answers {status}: {message}")))
            }
            Err(error) => {
                let hint = match error.failure.kind {
                    FailureKind::Connect => "; start it with 'pointsman', or name its address with --url",
                    _ => "",
                };
                Err(CommandOutput { text: format!("pointsman: {url}: {error}{hint}\n"), code: EXIT_UNREACHABLE })
            }
        }
    }
}
