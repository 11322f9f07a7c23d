//! Tokens for a service account of Google: a signed statement of who calls is exchanged for a token, which is kept until
//! shortly before its end.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use actix_http::{
    HttpMessage as _,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use pointsman_actors::domain::FailureKind;
use rustls::{
    ClientConfig, SignatureScheme,
    crypto::ring::sign::any_supported_type,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
    sign::Signer,
};
use serde::Deserialize;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connector::Connector,
    failure::{self, UpstreamError},
    http_client,
    idle::KeepAlive,
    request,
};
use crate::base::secret::Secret;

/// What the token allows.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const DEFAULT_TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// Longest time that the signed statement is valid.
const STATEMENT_SECONDS: u64 = 3600;
/// A token is renewed so long before its end, while calls still use it.
const AHEAD: Duration = Duration::from_secs(300);
/// A token that ends earlier than this is not used any more.
const LEAST: Duration = Duration::from_secs(10);
/// Longest time for one token.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 64 * 1024;

/// A service account and its current token. Shared by all workers.
pub struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    signer: Box<dyn Signer>,
    token_uri: String,
    endpoint: Connection,
    token: Mutex<Option<Token>>,
    /// Held while a token is fetched, so that there is one fetch at a time.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Token {
    secret: Secret,
    ends: Instant,
}

#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u64,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

impl ServiceAccount {
    /// The account of a key file, which is JSON as Google gives it out.
    ///
    /// # Errors
    /// A sentence about the fault, without the content of the file.
    pub fn parse(json: &Secret) -> Result<ServiceAccount, String> {
        let file: KeyFile = serde_json::from_str(json.expose()).map_err(|_| {
            "the key is not that of a service account: JSON with client_email and private_key".to_owned()
        })?;
        let pem = Secret::new(file.private_key);
        let key = PrivateKeyDer::from_pem_slice(pem.expose().as_bytes()).ok();
        let signer = key
            .and_then(|key| any_supported_type(&key).ok())
            .and_then(|key| key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]))
            .ok_or("the private_key of the service account is not an RSA key in PEM form")?;
        let token_uri = file.token_uri.unwrap_or_else(|| DEFAULT_TOKEN_URI.to_owned());
        let endpoint =
            Connection::new(&token_uri).map_err(|fault| format!("token_uri of the service account {fault}"))?;
        Ok(ServiceAccount {
            email: file.client_email,
            key_id: file.private_key_id,
            signer,
            token_uri,
            endpoint,
            token: Mutex::new(None),
            fetching: tokio::sync::Mutex::new(()),
        })
    }

    /// A token that is valid for now.
    ///
    /// # Errors
    /// When the token endpoint does not give one until `deadline`.
    pub(super) async fn token(
        self: &Arc<Self>,
        tls: &Arc<ClientConfig>,
        deadline: Instant,
    ) -> Result<Secret, UpstreamError> {
        if let Some(token) = self.current(LEAST) {
            if self.current(AHEAD).is_none() && self.fetching.try_lock().is_ok() {
                let (account, tls) = (Arc::clone(self), Arc::clone(tls));
                actix_rt::spawn(async move {
                    if let Err(error) = account.renewed(&tls, AHEAD, Instant::now() + TIMEOUT).await {
                        log::warn!("the token of a service account could not be renewed: {}", error.detail);
                    }
                });
            }
            return Ok(token);
        }
        self.renewed(tls, LEAST, deadline.min(Instant::now() + TIMEOUT)).await
    }

    /// The token, if it is valid for at least so long.
    fn current(&self, least: Duration) -> Option<Secret> {
        let token = self.token.lock();
        token.as_ref().filter(|token| token.ends > Instant::now() + least).map(|token| token.secret.clone())
    }

    /// A new token, unless somebody else has fetched one meanwhile.
    async fn renewed(
        &self,
        tls: &Arc<ClientConfig>,
        least: Duration,
        deadline: Instant,
    ) -> Result<Secret, UpstreamError> {
        let late = |_| UpstreamError::timeout("no token in time");
        let _fetching = timeout_at(deadline.into(), self.fetching.lock()).await.map_err(late)?;
        if let Some(token) = self.current(least) {
            return Ok(token);
        }
        let token = self.fetch(tls, deadline).await?;
        let secret = token.secret.clone();
        *self.token.lock() = Some(token);
        Ok(secret)
    }

    async fn fetch(&self, tls: &Arc<ClientConfig>, deadline: Instant) -> Result<Token, UpstreamError> {
        let failed = |why: &str| UpstreamError::new(FailureKind::Auth, format!("token of the service account: {why}"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let statement = self.statement(now).ok_or_else(|| failed("it cannot be signed"))?;
        let form = format!(
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={}",
            statement.expose()
        );
        let uri = self.endpoint.uri("").map_err(|fault| failed(&fault.to_string()))?;
        let client = http_client::build(Connector::new(&self.endpoint, tls, TIMEOUT, KeepAlive::NEVER));
        let request = client
            .post(uri)
            .force_close()
            .insert_header((HOST, self.endpoint.authority.as_str()))
            .insert_header((USER_AGENT, request::AGENT))
            .insert_header((ACCEPT, "application/json"))
            .insert_header((ACCEPT_ENCODING, "identity"))
            .insert_header((CONTENT_TYPE, "application/x-www-form-urlencoded"));
        let asked = Instant::now();
        let sent = timeout_at(deadline.into(), request.send_body(form)).await;
        let mut response =
            sent.map_err(|_| UpstreamError::timeout("no token in time"))?.map_err(|error| failure::of_send(&error))?;
        let status = response.status().as_u16();
        let announced = http_client::announced_length(response.headers());
        let bounds = BodyBounds { deadline, idle: None, size: MAX_BYTES };
        let body = UpstreamBody::new(response.take_payload(), announced, bounds).collect().await?;
        if status != 200 {
            return Err(failed(&format!("status {status}")));
        }
        let answer: TokenAnswer = serde_json::from_slice(&body).map_err(|_| failed("the answer holds none"))?;
        let time = Duration::from_secs(answer.expires_in.min(86_400));
        Ok(Token { secret: Secret::new(answer.access_token), ends: asked + time })
    }

    /// The signed statement (a JSON web token, RS256) that is exchanged for a token.
    fn statement(&self, now: u64) -> Option<Secret> {
        let mut head = serde_json::json!({"alg": "RS256", "typ": "JWT"});
        if let (Some(head), Some(id)) = (head.as_object_mut(), &self.key_id) {
            head.insert("kid".to_owned(), id.as_str().into());
        }
        let claims = serde_json::json!({
            "iss": self.email, "scope": SCOPE, "aud": self.token_uri, "iat": now, "exp": now + STATEMENT_SECONDS,
        });
        let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
        let signature = self.signer.sign(signed.as_bytes()).ok()?;
        Some(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = include_str!("../../tests/it/fixtures/service_account/key.pem");
    const PUBLIC: &[u8] = include_bytes!("../../tests/it/fixtures/service_account/public.der");

    #[test]
    fn the_statement_names_account_scope_and_address_and_is_signed_with_the_key() {
        let file =
            json!({"client_email": "a@b", "private_key": KEY, "private_key_id": "k1", "token_uri": "https://t/x"});
        let account = ServiceAccount::parse(&Secret::new(file.to_string())).unwrap();
        let statement = account.statement(1_000).unwrap();
        let (signed, signature) = statement.expose().rsplit_once('.').unwrap();
        let (head, claims) = signed.split_once('.').unwrap();
        let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        assert_eq!(read(head), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
        let expected = json!({"iss": "a@b", "scope": SCOPE, "aud": "https://t/x", "iat": 1_000, "exp": 4_600});
        assert_eq!(read(claims), expected);
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let (_, rs256) =
            algorithms.mapping.iter().find(|(scheme, _)| *scheme == SignatureScheme::RSA_PKCS1_SHA256).unwrap();
        assert!(rs256.iter().any(|one| one.verify_signature(PUBLIC, signed.as_bytes(), &signature).is_ok()));
        assert!(rs256.iter().all(|one| one.verify_signature(PUBLIC, b"another", &signature).is_err()));
    }

    #[test]
    fn a_key_file_of_another_kind_is_refused_without_its_content() {
        for text in ["sk-hidden-5ec2e7", r#"{"client_email":"a","private_key":"hidden"}"#] {
            let why = ServiceAccount::parse(&Secret::new(text.to_owned())).unwrap_err();
            assert!(why.contains("service account") && !why.contains("hidden"), "{why}");
        }
    }
}
