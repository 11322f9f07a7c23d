//! Fetches images that a provider made and answered with links to.
//!
//! A link is the provider's word, so it chooses nothing but the path: the host must be the provider's own or one that
//! the operator listed, and what we send is the same for everybody. No key, no redirect, no second try; the bytes have
//! the same guard below them as every other answer.

use std::{
    cell::RefCell,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_http::{
    HttpMessage as _, StatusCode, Uri,
    body::None as NoBody,
    header::{ACCEPT, ACCEPT_ENCODING, HOST, USER_AGENT},
};
use awc::{Client, ClientResponse};
use bytes::Bytes;
use pointsman_actors::domain::FailureKind;
use rustls::ClientConfig;
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

/// The image is made already: who does not begin to send it in this time, or pauses so long, will not send it.
const SILENCE: Duration = Duration::from_secs(15);

/// Fetches the images of one provider, for one worker.
pub(super) struct ImageFetcher {
    provider: Connection,
    tls: Arc<ClientConfig>,
    connect: Duration,
    /// One per place that was fetched from; the list of hosts bounds them.
    clients: RefCell<Vec<(Origin, Client)>>,
}

/// Where a link leads: host, port, and whether through TLS.
type Origin = (String, u16, bool);

impl ImageFetcher {
    pub(super) fn new(provider: &Connection, tls: &Arc<ClientConfig>, connect: Duration) -> ImageFetcher {
        let (provider, tls) = (provider.clone(), Arc::clone(tls));
        ImageFetcher { provider, tls, connect, clients: RefCell::default() }
    }

    /// The bytes behind `link`, at most `most`.
    ///
    /// # Errors
    /// When the link leads elsewhere than it may, or anything but a whole regular answer comes. Always
    /// [`FailureKind::Malformed`], unless it was a shortage of our own: whatever a host of images does says nothing about
    /// the provider's limits or clocks.
    pub(super) async fn fetch(&self, link: &str, deadline: Instant, most: usize) -> Result<Bytes, UpstreamError> {
        let fetched = match self.admit(link) {
            Some((place, uri)) => self.get(&place, uri, deadline, most).await,
            None => Err(refused("a link to where nothing may be fetched from")),
        };
        fetched.map_err(|error| match error.failure.kind {
            FailureKind::Shortage => error,
            _ => refused(&format!("image: {error}")),
        })
    }

    /// The place and the address of a link that may be followed.
    fn admit(&self, link: &str) -> Option<(Connection, Uri)> {
        let uri: Uri = link.parse().ok()?;
        // Refuses user and password, and knows the port that is meant where none is named.
        let place = Connection::new(&format!("{}://{}", uri.scheme_str()?, uri.authority()?)).ok()?;
        let uri = place.uri(uri.path_and_query().map_or("/", |path| path.as_str())).ok()?;
        self.is_listed(&place).then_some((place, uri))
    }

    /// Names are compared, never addresses: a number is no name unless the operator wrote that very number.
    fn is_listed(&self, place: &Connection) -> bool {
        let own = place.host.eq_ignore_ascii_case(&self.provider.host);
        if !own && !self.provider.image_hosts.iter().any(|host| place.host.eq_ignore_ascii_case(host)) {
            return false;
        }
        let same_port = place.port == self.provider.port;
        match place.server_name {
            Some(_) => same_port || place.port == 443,
            None => same_port && self.provider.server_name.is_none() && (own || is_loopback(&place.host)),
        }
    }

    async fn get(&self, place: &Connection, uri: Uri, deadline: Instant, most: usize) -> Result<Bytes, UpstreamError> {
        let request = self
            .client(place)
            .get(uri)
            .force_close()
            .insert_header((HOST, place.authority.as_str()))
            .insert_header((USER_AGENT, request::AGENT))
            .insert_header((ACCEPT, "image/*"))
            .insert_header((ACCEPT_ENCODING, "identity"));
        let head_by = deadline.min(Instant::now() + SILENCE);
        let sent = timeout_at(head_by.into(), request.send_body(NoBody::new())).await;
        let response = sent.map_err(|_| UpstreamError::timeout("no head in time"))?;
        let body = accept(response.map_err(|error| failure::of_send(&error))?, deadline, most)?;
        body.collect().await
    }

    fn client(&self, place: &Connection) -> Client {
        let key = (place.host.to_ascii_lowercase(), place.port, place.server_name.is_some());
        let mut clients = self.clients.borrow_mut();
        if let Some((_, known)) = clients.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let made = http_client::build(Connector::new(place, &self.tls, self.connect, KeepAlive::NEVER));
        clients.push((key, made.clone()));
        made
    }
}

/// The body of a 200 that may be an image.
fn accept(mut response: ClientResponse, deadline: Instant, most: usize) -> Result<UpstreamBody, UpstreamError> {
    if response.status() != StatusCode::OK {
        let detail = format!("status {}", response.status().as_u16());
        return Err(UpstreamError::new(FailureKind::UnexpectedStatus, detail));
    }
    if !http_client::is_identity(response.headers()) {
        return Err(refused("an encoded body, though none was asked for"));
    }
    let announced = http_client::announced_length(response.headers());
    let bounds = BodyBounds { deadline, idle: Some(SILENCE), size: most };
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
    use crate::upstream::tls::client_config;

    #[track_caller]
    fn check(base_url: &str, link: &str, expected: Option<&str>) {
        let hosts = ["cdn.example", "127.0.0.2", "10.0.0.9"].map(str::to_owned);
        let provider = Connection::new(base_url).unwrap().with_image_hosts(hosts.to_vec());
        let fetcher = ImageFetcher::new(&provider, &client_config(None).unwrap(), Duration::from_secs(1));
        let admitted = fetcher.admit(link).map(|(_, uri)| uri.to_string());
        assert_eq!(admitted.as_deref(), expected, "{link} at {base_url}");
    }

    #[test]
    fn a_link_may_lead_to_the_provider_and_to_listed_hosts() {
        let base = "https://api.example/v1";
        check(base, "https://api.example/a/b/?sig=1%2F2", Some("http://api.example:443/a/b/?sig=1%2F2"));
        check(base, "https://CDN.example:443", Some("http://CDN.example:443/"));
        check("https://api.example:8443", "https://cdn.example:8443/a", Some("http://cdn.example:8443/a"));
        check("http://10.1.1.1:8000/v1", "http://10.1.1.1:8000/a", Some("http://10.1.1.1:8000/a"));
        check("http://127.0.0.1:8000/v1", "http://127.0.0.2:8000/a", Some("http://127.0.0.2:8000/a"));
        check("http://10.1.1.1:8000/v1", "https://cdn.example/a", Some("http://cdn.example:443/a"));
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
        // Plain HTTP to this machine only, to the one port that the provider itself is called at.
        check("http://127.0.0.1:8000", "http://127.0.0.1:22/", None);
        check("http://127.0.0.1:8000", "http://127.0.0.1/", None);
        check("http://127.0.0.1:8000", "http://cdn.example:8000/", None);
        check("http://127.0.0.1:8000", "http://10.0.0.9:8000/", None);
    }
}
