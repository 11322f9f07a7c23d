//! The admin listener: `[admin]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    auth::{AuthConfig, AuthMode},
    hosts::Hosts,
    section::Section,
    server::{ServerConfig, is_loopback, socket_address},
};

/// `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Address of the listener; `None` means that there is no admin listener.
    pub bind: Option<SocketAddr>,
    /// Hosts accepted on loopback in addition to those of this machine.
    pub hosts: Hosts,
    /// Whether keys of administrators may be sent unencrypted over a network.
    pub allow_plain_http: bool,
}

/// Transport of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Tls,
}

impl AdminConfig {
    /// The address when the configuration names none.
    pub const DEFAULT_BIND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

    pub(super) fn read(
        section: &Section<'_>,
        server: &ServerConfig,
        auth: &AuthConfig,
        transport: Transport,
    ) -> AdminConfig {
        let hosts = Hosts::read(section);
        let allow_plain_http = section.flag_or("allow_plain_http", false);
        let bind = match section.text("bind") {
            None => Some(AdminConfig::DEFAULT_BIND),
            Some("") => None,
            Some(_) => socket_address(section, "bind"),
        };
        let Some(bind) = bind else { return AdminConfig { bind, hosts, allow_plain_http } };
        if bind == server.bind && bind.port() != 0 {
            section.fault("bind", "is the address of server.bind too", "an address of its own, or \"\" for none");
        }
        if !is_loopback(bind) && auth.mode == AuthMode::Keys && auth.development_key_enabled {
            let wrong = format!("the development key is public and works on loopback only, but this is {bind}");
            let allowed = "auth.development_key_enabled = false and a key of your own with the scope admin, or a \
                           loopback address";
            section.fault("bind", wrong, allowed);
        }
        if !is_loopback(bind) && transport == Transport::Plain && !allow_plain_http {
            let wrong = format!("keys with the scope admin would be sent to {bind} unencrypted");
            let allowed = "a certificate in [server.tls], a loopback address, or admin.allow_plain_http = true on a \
                           trusted network";
            section.fault("bind", wrong, allowed);
        }
        AdminConfig { bind: Some(bind), hosts, allow_plain_http }
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.bind.is_none_or(is_loopback)
    }

    /// Whether it has the default address. Then the start does not fail if the address is in use.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.bind == Some(AdminConfig::DEFAULT_BIND)
    }
}
