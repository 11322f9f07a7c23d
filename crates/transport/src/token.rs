//! Exchanges the signed statement of a service account for a token, which is kept until shortly before its end.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use actix_http::{
    HttpMessage as _, Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use pointsman_base::secret::Secret;
use pointsman_domain::FailureKind;
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connector::Connector,
    failure::UpstreamError,
    http_client,
    keep_alive::KeepAlive,
    service_account::ServiceAccount,
};

/// A token is renewed so long before its end, while calls still use it.
const AHEAD: Duration = Duration::from_secs(300);
/// A token that ends earlier than this is not used any more.
const LEAST: Duration = Duration::from_secs(10);
/// Longest time for one token.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u64,
}

/// A token that is valid for now.
///
/// # Errors
/// When the token endpoint does not give one until `deadline`.
pub(super) async fn token(
    account: &Arc<ServiceAccount>,
    tls: &Arc<ClientConfig>,
    deadline: Instant,
) -> Result<Secret, UpstreamError> {
    if let Some(token) = account.current(LEAST) {
        if account.current(AHEAD).is_none() && account.fetching.try_lock().is_ok() {
            let (account, tls) = (Arc::clone(account), Arc::clone(tls));
            actix_rt::spawn(async move {
                if let Err(error) = renewed(&account, &tls, AHEAD, Instant::now() + TIMEOUT).await {
                    log::warn!("the token of a service account could not be renewed: {}", error.detail);
                }
            });
        }
        return Ok(token);
    }
    renewed(account, tls, LEAST, deadline.min(Instant::now() + TIMEOUT)).await
}

/// A new token, unless somebody else has fetched one meanwhile.
async fn renewed(
    account: &ServiceAccount,
    tls: &Arc<ClientConfig>,
    least: Duration,
    deadline: Instant,
) -> Result<Secret, UpstreamError> {
    let late = |_| UpstreamError::timeout("no token in time");
    let _fetching = timeout_at(deadline.into(), account.fetching.lock()).await.map_err(late)?;
    if let Some(token) = account.current(least) {
        return Ok(token);
    }
    let (token, ends) = fetch(account, tls, deadline).await?;
    account.keep(token.clone(), ends);
    Ok(token)
}

async fn fetch(
    account: &ServiceAccount,
    tls: &Arc<ClientConfig>,
    deadline: Instant,
) -> Result<(Secret, Instant), UpstreamError> {
    let failed = |why: &str| UpstreamError::without_credentials(format!("token of the service account: {why}"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let statement = account.statement(now).ok_or_else(|| failed("it cannot be signed"))?;
    let form =
        format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={}", statement.expose());
    let endpoint = Connection::new(&account.token_uri).map_err(|fault| failed(&format!("token_uri {fault}")))?;
    let uri = endpoint.uri("").map_err(|fault| failed(&fault.to_string()))?;
    let client = http_client::build(Connector::new(&endpoint, tls, TIMEOUT, KeepAlive::NEVER));
    let headers = [(ACCEPT, "application/json"), (CONTENT_TYPE, "application/x-www-form-urlencoded")];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    let (asked, target) = (Instant::now(), (Method::POST, uri));
    let sent = http_client::call((&client, &endpoint), target, headers, Some(form.into()), deadline).await;
    let mut response = sent.map_err(|error| {
        let detail = format!("token of the service account: {}", error.detail);
        UpstreamError { detail, ..error }
    })?;
    let status = response.status().as_u16();
    let announced = http_client::announced_length(response.headers());
    let bounds = BodyBounds { deadline, idle: None, size: MAX_BYTES };
    let body = UpstreamBody::new(response.take_payload(), announced, bounds).collect().await?;
    match status {
        200 => {}
        // The account is not refused: the token endpoint has no room or is broken.
        429 | 500..=599 => {
            let kind = FailureKind::of_status(status.into()).unwrap_or(FailureKind::Server);
            let error = UpstreamError::new(kind, format!("token of the service account: status {status}"));
            return Err(error.with_status(status));
        }
        _ => return Err(failed(&format!("status {status}"))),
    }
    let answer: TokenAnswer = serde_json::from_slice(&body).map_err(|_| failed("the answer holds none"))?;
    let time = Duration::from_secs(answer.expires_in.min(86_400));
    Ok((Secret::new(answer.access_token), asked + time))
}
