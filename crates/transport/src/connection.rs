//! Address of a provider and the headers that are sent to it.

use std::{fmt, sync::Arc};

use actix_http::{
    Uri,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
    uri::Scheme,
};
use pointsman_base::secret::Secret;
use pointsman_config::{RESERVED_HEADERS, Routes};
use pointsman_dialect::percent;
use rustls::pki_types::ServerName;

use super::{service_account::ServiceAccount, signer::Signer};

/// A provider's address and the credentials for it. Validated when made; each worker builds its client from it.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// The name to verify in the certificate; `None` means no TLS.
    pub(super) server_name: Option<ServerName<'static>>,
    /// Value of the `Host` header: without the port if it is the default of the scheme.
    pub(super) authority: String,
    base_path: String,
    query: Option<String>,
    routes: Routes,
    credentials: Option<Credentials>,
    /// Where the tokens come from that are sent instead of a key.
    pub(super) service_account: Option<Arc<ServiceAccount>>,
    /// Signs calls that are sent without a key.
    pub(super) signer: Option<Arc<Signer>>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Further hosts from which its images may be fetched.
    pub(super) image_hosts: Arc<[String]>,
    /// Whether calls carry a `traceparent`.
    pub(super) forwards_traceparent: bool,
}

#[derive(Debug, Clone)]
struct Credentials {
    header: HeaderName,
    scheme: String,
    secret: Secret,
}

/// Why the settings of a connection are invalid. Never holds the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionFault {
    /// Not a URL.
    Url(String),
    /// Neither `http://` nor `https://`.
    Scheme,
    /// No host, or one that a certificate cannot name.
    Host,
    /// User and password in the URL.
    UserInfo,
    /// Not a header name.
    HeaderName(String),
    /// The value of this header holds a character that headers do not allow.
    HeaderValue(String),
    /// The gateway sets this header itself.
    Reserved(String),
}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionFault::Url(why) => write!(f, "is not a URL ({why})"),
            ConnectionFault::Scheme => f.write_str("needs to begin with https:// or http://"),
            ConnectionFault::Host => f.write_str("names no valid host"),
            ConnectionFault::UserInfo => f.write_str("must not hold a user or password"),
            ConnectionFault::HeaderName(name) => write!(f, "'{name}' is not a header name"),
            ConnectionFault::HeaderValue(name) => {
                write!(f, "the value of '{name}' holds a character that headers do not allow")
            }
            ConnectionFault::Reserved(name) => write!(f, "the header '{name}' is set by the gateway itself"),
        }
    }
}

impl std::error::Error for ConnectionFault {}

impl Connection {
    /// Whether host, port and use of TLS are the same.
    pub(super) fn is_same_address(&self, other: &Connection) -> bool {
        (&self.host, self.port, &self.server_name) == (&other.host, other.port, &other.server_name)
    }

    /// A connection without credentials. The paths of calls are appended to `base_url`, such as
    /// `https://api.openai.com/v1`. A query in it is sent with every call.
    ///
    /// # Errors
    /// When `base_url` is not an absolute `http` or `https` URL with a host.
    pub fn new(base_url: &str) -> Result<Connection, ConnectionFault> {
        let uri: Uri = base_url.trim().parse().map_err(|error| ConnectionFault::Url(format!("{error}")))?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(ConnectionFault::Scheme),
        };
        let authority = uri.authority().ok_or(ConnectionFault::Host)?;
        if authority.as_str().contains('@') {
            return Err(ConnectionFault::UserInfo);
        }
        let default_port = if secure { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(default_port);
        let bracketed = authority.host();
        let host = bracketed.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| ConnectionFault::Host)?;
        Ok(Connection {
            port,
            server_name: secure.then_some(name),
            authority: if port == default_port { bracketed.to_owned() } else { format!("{bracketed}:{port}") },
            host,
            base_path: uri.path().trim_end_matches('/').to_owned(),
            query: uri.query().map(str::to_owned),
            routes: Routes::Standard,
            credentials: None,
            service_account: None,
            signer: None,
            headers: Vec::new(),
            image_hosts: Arc::default(),
            forwards_traceparent: false,
        })
    }

    /// Sends `authorization: Bearer <secret>` with every call.
    ///
    /// # Errors
    /// When the secret holds a character that headers do not allow.
    pub fn with_bearer(self, secret: Secret) -> Result<Connection, ConnectionFault> {
        self.with_secret(AUTHORIZATION.as_str(), "Bearer", secret)
    }

    /// Sends `<header>: <scheme> <secret>` with every call, or `<header>: <secret>` if the scheme is empty.
    ///
    /// # Errors
    /// When the header is invalid, or the gateway sets it itself.
    pub fn with_secret(mut self, header: &str, scheme: &str, secret: Secret) -> Result<Connection, ConnectionFault> {
        let header = header_name(header)?;
        let credentials = Credentials { header, scheme: scheme.to_owned(), secret };
        credentials.value()?;
        self.credentials = Some(credentials);
        Ok(self)
    }

    /// Sends a further header with every call.
    ///
    /// # Errors
    /// When the header is invalid, or the gateway sets it itself.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Connection, ConnectionFault> {
        let name = header_name(name)?;
        let value = HeaderValue::from_str(value).map_err(|_| ConnectionFault::HeaderValue(name.to_string()))?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// Allows images from these hosts too. They never get the credentials.
    #[must_use]
    pub fn with_image_hosts(mut self, hosts: Vec<String>) -> Connection {
        self.image_hosts = hosts.into();
        self
    }

    /// Sends `authorization: Bearer <token>` with every call, with tokens of this account.
    #[must_use]
    pub(super) fn with_service_account(mut self, account: Arc<ServiceAccount>) -> Connection {
        self.service_account = Some(account);
        self
    }

    /// Signs every call.
    #[must_use]
    pub(super) fn with_signer(mut self, signer: Signer) -> Connection {
        self.signer = Some(Arc::new(signer));
        self
    }

    /// The address of `path` as its signature names it.
    pub(super) fn signed_address(&self, path: &str) -> String {
        let scheme = if self.server_name.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path_and_query(path))
    }

    /// Where Amazon Bedrock lists the models that this connection calls: another host than the one that runs them.
    pub(super) fn model_list(&self) -> Result<(Connection, &'static str), ConnectionFault> {
        if self.signer.as_ref().is_some_and(|signer| signer.is_mantle()) {
            return Ok((self.clone(), "/models"));
        }
        let scheme = if self.server_name.is_some() { "https" } else { "http" };
        let authority = self.authority.replacen("bedrock-runtime", "bedrock", 1);
        Ok((Connection::new(&format!("{scheme}://{authority}"))?, "/foundation-models"))
    }

    /// Makes the paths of calls in this way.
    #[must_use]
    pub fn with_routes(mut self, routes: Routes) -> Connection {
        self.routes = routes;
        self
    }

    /// The path of a call to `model`, whose usual path is `path`.
    pub(super) fn path_for(&self, path: Arc<str>, model: &str) -> Arc<str> {
        match self.routes {
            Routes::Standard | Routes::Bedrock | Routes::Vertex => path,
            Routes::Deployments => format!("/deployments/{}{path}", percent::encoded(model)).into(),
        }
    }

    /// The secret sent with every call, for redaction.
    pub fn secret(&self) -> Option<&Secret> {
        self.credentials.as_ref().map(|credentials| &credentials.secret)
    }

    /// The header with the secret, marked as sensitive.
    pub(super) fn credentials(&self) -> Result<Option<(HeaderName, HeaderValue)>, ConnectionFault> {
        let Some(credentials) = &self.credentials else { return Ok(None) };
        Ok(Some((credentials.header.clone(), credentials.value()?)))
    }

    /// The address of `path` for awc, which wants scheme and host. The connector chooses both by itself.
    pub(super) fn uri(&self, path: &str) -> Result<Uri, ConnectionFault> {
        let uri = format!("http://h{}", self.path_and_query(path));
        uri.parse().map_err(|error| ConnectionFault::Url(format!("{error}")))
    }

    fn path_and_query(&self, path: &str) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        let query = self.query.as_ref().map_or(String::new(), |query| format!("{separator}{query}"));
        format!("{}{path}{query}", self.base_path)
    }
}

impl Credentials {
    fn value(&self) -> Result<HeaderValue, ConnectionFault> {
        let text = match self.scheme.as_str() {
            "" => self.secret.clone(),
            scheme => Secret::new(format!("{scheme} {}", self.secret.expose())),
        };
        let fault = |_| ConnectionFault::HeaderValue(self.header.to_string());
        let mut value = HeaderValue::from_str(text.expose()).map_err(fault)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn header_name(name: &str) -> Result<HeaderName, ConnectionFault> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| ConnectionFault::HeaderName(name.to_owned()))?;
    if RESERVED_HEADERS.contains(&name.as_str()) {
        return Err(ConnectionFault::Reserved(name.to_string()));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base_url: &str, host_header: &str, (host, port): (&str, u16), path: &str) {
        let connection = Connection::new(base_url).unwrap();
        assert_eq!(connection.authority, host_header);
        assert_eq!((&*connection.host, connection.port), (host, port));
        assert_eq!(connection.uri("/chat/completions").unwrap().to_string(), format!("http://h{path}"));
    }

    #[test]
    fn awc_gets_http_and_the_host_header_has_a_port_only_if_needed() {
        check("https://api.example.com/v1", "api.example.com", ("api.example.com", 443), "/v1/chat/completions");
        check("https://h.example:8443/", "h.example:8443", ("h.example", 8443), "/chat/completions");
        check("https://h.example:443", "h.example", ("h.example", 443), "/chat/completions");
        check("https://h.example:80", "h.example:80", ("h.example", 80), "/chat/completions");
        check("http://127.0.0.1/v1/", "127.0.0.1", ("127.0.0.1", 80), "/v1/chat/completions");
        check("http://[::1]:8080/v1", "[::1]:8080", ("::1", 8080), "/v1/chat/completions");
        check("http://h:443/a?v=1", "h:443", ("h", 443), "/a/chat/completions?v=1");
    }

    #[test]
    fn an_invalid_address_is_rejected() {
        let fault = |url: &str| Connection::new(url).unwrap_err();
        assert_eq!(fault("ftp://h/"), ConnectionFault::Scheme);
        assert_eq!(fault("/v1"), ConnectionFault::Scheme);
        assert_eq!(fault("https://user:password@h/"), ConnectionFault::UserInfo);
        assert!(matches!(fault("https://"), ConnectionFault::Url(_)));
        assert!(matches!(fault("https://a b/"), ConnectionFault::Url(_)));
        assert_eq!(fault("https://-._/"), ConnectionFault::Host);
    }

    #[test]
    fn headers_of_the_transport_cannot_be_configured() {
        let connection = || Connection::new("https://h").unwrap();
        let fault = connection().with_header("Content-Length", "0").unwrap_err();
        assert_eq!(fault, ConnectionFault::Reserved("content-length".to_owned()));
        let fault = connection().with_header("a b", "0").unwrap_err();
        assert_eq!(fault, ConnectionFault::HeaderName("a b".to_owned()));
        let fault = connection().with_header("x-a", "1\r\nx-b: 2").unwrap_err();
        assert_eq!(fault, ConnectionFault::HeaderValue("x-a".to_owned()));
        assert!(connection().with_secret("host", "", Secret::from("k")).is_err());
    }

    #[test]
    fn bedrock_lists_its_models_at_another_host_than_it_runs_them() {
        for (base_url, address) in [
            (
                "https://bedrock-runtime.us-east-1.amazonaws.com",
                "https://bedrock.us-east-1.amazonaws.com/foundation-models",
            ),
            ("https://bedrock-mantle.us-east-1.api.aws/v1", "https://bedrock-mantle.us-east-1.api.aws/v1/models"),
        ] {
            let keys = Secret::from(r#"{"AccessKeyId":"A","SecretAccessKey":"s"}"#);
            let connection = Connection::new(base_url).unwrap();
            let signer = Signer::new(&keys, &connection.host, "us-east-1").unwrap();
            let (list, path) = connection.with_signer(signer).model_list().unwrap();
            assert_eq!(list.signed_address(path), address);
        }
    }

    #[test]
    fn the_secret_is_nowhere_in_debug_output_or_faults() {
        let connection = Connection::new("https://h").unwrap().with_bearer(Secret::from("sk-hidden")).unwrap();
        assert!(!format!("{connection:?}").contains("hidden"));
        assert!(!format!("{:?}", connection.credentials().unwrap()).contains("hidden"));
        let fault = Connection::new("https://h").unwrap().with_bearer(Secret::from("hid\nden")).unwrap_err();
        assert!(!format!("{fault:?} {fault}").contains("hid"));
    }
}
