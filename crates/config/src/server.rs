//! The listener and its HTTP settings: `[server]`, `[cors]` and `[metrics]`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

use super::{
    hosts::Hosts,
    quantity::{DAY, HOUR},
    section::Section,
};

/// The address when the configuration sets none.
const DEFAULT_BIND: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Address to listen on; port 0 lets the system choose.
    pub bind: SocketAddr,
    /// Worker threads; `None` means one per core.
    pub workers: Option<NonZeroUsize>,
    /// Time that an idle client connection is kept.
    pub keep_alive: Duration,
    /// Limit of client connections per worker. More connections wait in the queue of the operating system.
    pub max_connections: usize,
    /// Time after SIGTERM in which the listener stays open and readiness answers `draining`.
    pub drain_notice: Duration,
    /// Whether the routes are also mounted at `/v1`.
    pub mount_v1: bool,
    /// Whether the deprecated `/completions` is served.
    pub legacy_completions: bool,
    /// Hosts accepted on loopback in addition to those of this machine.
    pub hosts: Hosts,
}

impl ServerConfig {
    pub(super) fn read(section: &Section<'_>) -> ServerConfig {
        ServerConfig {
            bind: section.filled("bind").and_then(|_| socket_address(section, "bind")).unwrap_or(DEFAULT_BIND),
            workers: NonZeroUsize::new(section.integer_or("workers", 0..=1024, 0)),
            keep_alive: section.duration_or("keep_alive", Duration::ZERO..=DAY, Duration::from_secs(75)),
            max_connections: section.integer_or("max_connections", 1..=1_000_000, 25_000),
            drain_notice: section.duration_or("drain_notice", Duration::ZERO..=HOUR, Duration::ZERO),
            mount_v1: section.flag_or("mount_v1", true),
            legacy_completions: section.flag_or("legacy_completions", false),
            hosts: Hosts::read(section),
        }
    }

    /// Whether only this machine can reach the server.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.bind)
    }
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

/// `[cors]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsConfig {
    /// Origins that browsers may call from; `*` alone means any, an empty list switches CORS off.
    pub allowed_origins: Vec<String>,
    /// Time that a browser may cache a preflight answer.
    pub max_age: Duration,
}

impl CorsConfig {
    pub(super) fn read(section: &Section<'_>) -> CorsConfig {
        let origins = section.texts("allowed_origins", 256).map(|items| {
            let good = |text: &str| text == "*" || is_origin(text);
            for item in items.iter().filter(|item| !good(item.text)) {
                item.fault("is not an origin", "\"*\", or scheme, host and port, such as \"https://app.example.com\"");
            }
            items.iter().map(|item| item.text.to_owned()).collect()
        });
        CorsConfig {
            allowed_origins: origins.unwrap_or_default(),
            max_age: section.duration_or("max_age", Duration::ZERO..=DAY, Duration::from_secs(600)),
        }
    }

    /// Whether CORS headers are sent at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.allowed_origins.is_empty()
    }
}

/// Scheme, host and port without a path, as browsers write the `Origin` header.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b'*' | b'@' | b'?' | b'#'))
    })
}

/// `[metrics]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Whether `/metrics` is served: without a key while bound to loopback, else with scope `read`.
    pub enabled: bool,
}

impl MetricsConfig {
    pub(super) fn read(section: &Section<'_>) -> MetricsConfig {
        MetricsConfig { enabled: section.flag_or("enabled", true) }
    }
}
