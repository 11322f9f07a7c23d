//! The listener and its HTTP settings: `[server]`, `[cors]` and `[metrics]`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

use super::{
    hosts::Hosts,
    quantity::{DAY, HOUR, SECOND},
    section::Section,
};

/// The address when the configuration sets none.
const DEFAULT_BIND: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

settings! {
    /// The address for clients. All keys but `drain_notice` need a restart.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ServerConfig read(section) {
        /// Address to listen on; with port 0 the operating system chooses a port. Any address but loopback needs keys
        /// of your own: see `[auth]`.
        pub bind: SocketAddr = with(bind) [kind = "address and port", default = "\"127.0.0.1:8080\""],
        /// Worker threads; 0 means one per core.
        pub workers: Option<NonZeroUsize> = with(|section, key| NonZeroUsize::new(section.integer_or(key, 0..=1024, 0)))
            [unit = "threads"],
        /// Time that an idle client connection is kept. Longer than the 60 s of most load balancers, so that the
        /// gateway does not close a connection while a request arrives on it.
        pub keep_alive: Duration = duration_or(Duration::ZERO..=DAY, 75 * SECOND),
        /// Client connections per worker; more connections wait in the queue of the operating system.
        pub max_connections: usize = integer_or(1..=1_000_000, 25_000) [unit = "connections"],
        /// Time after SIGTERM in which the port still accepts connections and readiness answers `draining`, so that
        /// load balancers can stop sending requests first.
        pub drain_notice: Duration = duration_or(Duration::ZERO..=HOUR, Duration::ZERO),
        /// While `bind` is on loopback, the `Host` of a request must be `localhost` or a loopback address, with any
        /// port; other requests get 421. This keeps web pages from calling the gateway through a domain name that
        /// resolves to this machine. Additional accepted hosts, such as the one that a proxy on this machine keeps.
        pub hosts: Hosts = with(Hosts::read) [allowed = "names without a port"],
        /// Whether `POST /completions` is served, the deprecated API that continues a text, by endpoints with
        /// `legacy_completions`. Takes effect after a restart.
        pub legacy_completions: bool = flag_or(false),
        /// Whether the routes are also mounted at `/v1`, in addition to `/api/v1` and `/api`.
        pub mount_v1: bool = flag_or(true),
    }
}

impl ServerConfig {
    /// Whether only this machine can reach the server.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.bind)
    }
}

fn bind(section: &Section<'_>, key: &'static str) -> SocketAddr {
    section.filled(key).and_then(|_| socket_address(section, key)).unwrap_or(DEFAULT_BIND)
}

/// The address and port of `key`, also with the name `localhost`.
pub(super) fn socket_address(section: &Section<'_>, key: &'static str) -> Option<SocketAddr> {
    let text = section.text(key)?;
    let port_of_localhost = || text.strip_prefix("localhost:")?.parse().ok();
    let address = text.parse().ok().or_else(|| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port_of_localhost()?))));
    if address.is_none() {
        let allowed = "an address and a port, such as \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::1]:8080\"";
        section.fault(key, "is not an address", allowed);
    }
    address
}

/// Whether only this machine can reach the address.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

settings! {
    /// Calls from browsers. All keys need a restart.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CorsConfig read(section) {
        /// Origins that browsers may call from; empty: CORS is off.
        pub allowed_origins: Vec<String> = with(origins)
            [allowed = "origins such as `https://app.example.com`, or `*`"],
        /// Time that a browser may cache a preflight answer.
        pub max_age: Duration = duration_or(Duration::ZERO..=DAY, 600 * SECOND),
    }
}

impl CorsConfig {
    /// Whether CORS headers are sent at all.
    pub fn is_on(&self) -> bool {
        !self.allowed_origins.is_empty()
    }
}

fn origins(section: &Section<'_>, key: &'static str) -> Vec<String> {
    let items = section.texts(key, 256).unwrap_or_default();
    for item in items.iter().filter(|item| item.text != "*" && !is_origin(item.text)) {
        item.fault("is not an origin", "\"*\", or scheme, host and port, such as \"https://app.example.com\"");
    }
    items.iter().map(|item| item.text.to_owned()).collect()
}

/// Scheme, host and port without a path, as browsers write the `Origin` header.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b'*' | b'@' | b'?' | b'#'))
    })
}

settings! {
    /// Metrics for Prometheus.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MetricsConfig read(section) {
        /// Whether `/metrics` is served: without a key on loopback, else with the scope `read`.
        pub enabled: bool = flag_or(true),
    }
}
