//! A service account of Google: the signed statement of who calls, and the token it was exchanged for.

use std::{
    fmt,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use pointsman_base::secret::Secret;
use rustls::{
    SignatureScheme,
    crypto::ring::sign::any_supported_type,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
    sign::Signer,
};
use serde::Deserialize;

/// What the token allows.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const DEFAULT_TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// Longest time that the signed statement is valid.
const STATEMENT_SECONDS: u64 = 3600;

/// A service account and its current token. Shared by all workers.
pub struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    signer: Box<dyn Signer>,
    /// Where statements are exchanged for tokens.
    pub(super) token_uri: String,
    token: Mutex<Option<Token>>,
    /// Held while a token is fetched, so that there is one fetch at a time.
    pub(super) fetching: tokio::sync::Mutex<()>,
}

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
        Ok(ServiceAccount {
            email: file.client_email,
            key_id: file.private_key_id,
            signer,
            token_uri,
            token: Mutex::new(None),
            fetching: tokio::sync::Mutex::new(()),
        })
    }

    /// The token, if it is valid for at least so long.
    pub(super) fn current(&self, least: Duration) -> Option<Secret> {
        let token = self.token.lock();
        token.as_ref().filter(|token| token.ends > Instant::now() + least).map(|token| token.secret.clone())
    }

    /// Keeps a token that ends then.
    pub(super) fn keep(&self, secret: Secret, ends: Instant) {
        *self.token.lock() = Some(Token { secret, ends });
    }

    /// Forgets this token, which was refused.
    pub(super) fn forget(&self, refused: &Secret) {
        let mut token = self.token.lock();
        *token = token.take().filter(|token| token.secret.expose() != refused.expose());
    }

    /// The signed statement (a JSON web token, RS256) that is exchanged for a token.
    pub(super) fn statement(&self, now: u64) -> Option<Secret> {
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

    const KEY: &str = include_str!("../../../tests/it/fixtures/service_account/key.pem");
    const PUBLIC: &[u8] = include_bytes!("../../../tests/it/fixtures/service_account/public.der");

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
