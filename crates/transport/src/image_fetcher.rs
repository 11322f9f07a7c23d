//! Fetches images that a provider's answer links to.
//!
//! A link is not trusted: it chooses only the path. The host must be the provider's own or one that the operator listed.
//! The request holds no key, follows no redirect and is not repeated. The answer passes the same guard as any other.

use std::{
    cell::RefCell,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_http::{
    HttpMessage as _, Method, StatusCode, Uri,
    header::{ACCEPT, HeaderValue},
};
use awc::{Client, ClientResponse};
use bytes::Bytes;
use pointsman_domain::FailureKind;
use rustls::ClientConfig;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connector::Connector,
    failure::UpstreamError,
    http_client,
    keep_alive::KeepAlive,
};

/// Timeout for the head, and for each pause in the body. The image exists already, so a longer silence is a failure.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Fetches the images of one provider, for one worker.
pub(super) struct ImageFetcher {
    provider: Connection,
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    /// One per origin; the list of hosts limits their number.
    clients: RefCell<Vec<(Origin, Client)>>,
}

/// Host, port, and whether TLS is used.
type Origin = (String, u16, bool);

impl ImageFetcher {
    pub(super) fn new(provider: &Connection, tls: &Arc<ClientConfig>, connect_timeout: Duration) -> ImageFetcher {
        let (provider, tls) = (provider.clone(), Arc::clone(tls));
        ImageFetcher { provider, tls, connect_timeout, clients: RefCell::default() }
    }

    /// The bytes behind `link`, at most `max_bytes`.
    ///
    /// # Errors
    /// When the link is not allowed, or the answer is not regular. The kind is [`FailureKind::Malformed`], or `GatewayLimit` or
    /// `Shortage`: a failing image host says nothing about the provider's limits or latency.
    pub(super) async fn fetch(&self, link: &str, deadline: Instant, max_bytes: usize) -> Result<Bytes, UpstreamError> {
        let fetched = match self.admit(link) {
            Some((origin, uri)) => self.get(&origin, uri, deadline, max_bytes).await,
            None => Err(UpstreamError::new(
                FailureKind::GatewayLimit,
                "The provider's answer links to an image at a host that is not listed. The administrator of the gateway can add \
                 it to providers.image_hosts.",
            )),
        };
        fetched.map_err(|error| match error.failure.kind {
            FailureKind::Shortage => error,
            FailureKind::GatewayLimit if error.detail.contains("image_hosts") => error,
            FailureKind::GatewayLimit => {
                let sentence = format!(
                    "An image of the provider has more than {max_bytes} bytes. The administrator of the gateway can raise \
                     images.max_image and limits.upstream_body."
                );
                UpstreamError::new(FailureKind::GatewayLimit, sentence)
            }
            _ => refused(&format!("image: {error}")),
        })
    }

    /// Origin and address of a link that may be followed.
    fn admit(&self, link: &str) -> Option<(Connection, Uri)> {
        let uri: Uri = link.parse().ok()?;
        // Rejects user and password, and fills in the default port.
        let origin = Connection::new(&format!("{}://{}", uri.scheme_str()?, uri.authority()?)).ok()?;
        let uri = origin.uri(uri.path_and_query().map_or("/", |path| path.as_str())).ok()?;
        self.is_allowed(&origin).then_some((origin, uri))
    }

    /// Compares host names as text: an IP address is allowed only if the operator listed that address.
    fn is_allowed(&self, origin: &Connection) -> bool {
        let own = origin.host.eq_ignore_ascii_case(&self.provider.host);
        if !own && !self.provider.image_hosts.iter().any(|host| origin.host.eq_ignore_ascii_case(host)) {
            return false;
        }
        let same_port = origin.port == self.provider.port;
        match origin.server_name {
            Some(_) => same_port || origin.port == 443,
            None => same_port && self.provider.server_name.is_none() && (own || is_loopback(&origin.host)),
        }
    }

    async fn get(
        &self,
        origin: &Connection,
        uri: Uri,
        deadline: Instant,
        max_bytes: usize,
    ) -> Result<Bytes, UpstreamError> {
        let head_deadline = deadline.min(Instant::now() + IDLE_TIMEOUT);
        let headers = [(ACCEPT, HeaderValue::from_static("image/*"))];
        let client = self.client(origin);
        let response = http_client::call((&client, origin), (Method::GET, uri), headers, None, head_deadline).await?;
        accept(response, deadline, max_bytes)?.collect().await
    }

    fn client(&self, origin: &Connection) -> Client {
        let key = (origin.host.to_ascii_lowercase(), origin.port, origin.server_name.is_some());
        let mut clients = self.clients.borrow_mut();
        if let Some((_, known)) = clients.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let client = http_client::build(Connector::new(origin, &self.tls, self.connect_timeout, KeepAlive::NEVER));
        clients.push((key, client.clone()));
        client
    }
}

/// The body of a 200 without encoding.
fn accept(mut response: ClientResponse, deadline: Instant, max_bytes: usize) -> Result<UpstreamBody, UpstreamError> {
    if response.status() != StatusCode::OK {
        let detail = format!("status {}", response.status().as_u16());
        return Err(UpstreamError::new(FailureKind::UnexpectedStatus, detail));
    }
    if !http_client::is_identity(response.headers()) {
        return Err(refused("an encoded body, though none was requested"));
    }
    let announced = http_client::announced_length(response.headers());
    let bounds = BodyBounds { deadline, idle: Some(IDLE_TIMEOUT), size: max_bytes };
    Ok(UpstreamBody::new(response.take_payload(), announced, bounds))
}

fn refused(why: &str) -> UpstreamError {
    UpstreamError::new(FailureKind::Malformed, why)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::client_config;

    #[track_caller]
    fn check(base_url: &str, link: &str, expected: Option<&str>) {
        let hosts = ["cdn.example", "127.0.0.2", "10.0.0.9"].map(str::to_owned);
        let provider = Connection::new(base_url).unwrap().with_image_hosts(hosts.to_vec());
        let fetcher = ImageFetcher::new(&provider, &client_config(None).unwrap(), Duration::from_secs(1));
        let admitted = fetcher
            .admit(link)
            .map(|(origin, uri)| format!("{}:{}{}", origin.host, origin.port, uri.path_and_query().unwrap()));
        assert_eq!(admitted.as_deref(), expected, "{link} at {base_url}");
    }

    #[test]
    fn a_link_may_lead_to_the_provider_and_to_listed_hosts() {
        let base = "https://api.example/v1";
        check(base, "https://api.example/a/b/?sig=1%2F2", Some("api.example:443/a/b/?sig=1%2F2"));
        check(base, "https://CDN.example:443", Some("CDN.example:443/"));
        check("https://api.example:8443", "https://cdn.example:8443/a", Some("cdn.example:8443/a"));
        check("http://10.1.1.1:8000/v1", "http://10.1.1.1:8000/a", Some("10.1.1.1:8000/a"));
        check("http://127.0.0.1:8000/v1", "http://127.0.0.2:8000/a", Some("127.0.0.2:8000/a"));
        check("http://10.1.1.1:8000/v1", "https://cdn.example/a", Some("cdn.example:443/a"));
    }

    #[test]
    fn a_link_leads_nowhere_else() {
        for link in [
            "https://other.example/a",
            "https://sub.cdn.example/a",
            "https://cdn.example.evil.example/a",
            "https://cdn.example./a",
            "https://169.254.169.254/latest/meta-data",
            "https://[::1]/a",
            "https://2130706434/a",
            "https://0x7f000002/a",
            "https://user@cdn.example/a",
            "https://cdn.example@other.example/a",
            "https://cdn.example:8443/a",
            "http://cdn.example/a",
            "http://api.example/a",
            "http://127.0.0.2/a",
            "ftp://cdn.example/a",
            "//cdn.example/a",
            "/a",
            "https://",
            "",
        ] {
            check("https://api.example/v1", link, None);
        }
        // Plain HTTP only on loopback, and only to the provider's own port.
        check("http://127.0.0.1:8000", "http://127.0.0.1:22/", None);
        check("http://127.0.0.1:8000", "http://127.0.0.1/", None);
        check("http://127.0.0.1:8000", "http://cdn.example:8000/", None);
        check("http://127.0.0.1:8000", "http://10.0.0.9:8000/", None);
    }
}
