//! The admin listener: `[admin]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    auth::{AuthConfig, AuthMode},
    hosts::Hosts,
    section::Section,
    server::{ServerConfig, is_loopback, socket_address},
};

settings! {
    /// The admin listener: reload, keys, ledger and full health below `/api/v1/admin`, for keys with the scope `admin`;
    /// also `/health` and `/metrics`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AdminConfig read(section) {
        /// Address of the listener; `""` means no listener. If the default address is in use, the gateway starts
        /// without it; if any other address is in use, the start fails. On loopback, while no key has the scope
        /// `admin`, each start generates such a key and prints it once; it is valid until the process ends.
        pub bind: Option<SocketAddr> = with(AdminConfig::read_bind)
            [kind = "address and port", default = "\"127.0.0.1:8081\""],
        /// As `server.hosts`, for this listener.
        pub hosts: Hosts = with(Hosts::read) [allowed = "names without a port"],
        /// Outside of loopback this listener needs `[server.tls]`. `true` allows plain HTTP, for trusted networks.
        pub allow_plain_http: bool = flag_or(false),
    }
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

    pub(super) fn read_bind(section: &Section<'_>, key: &'static str) -> Option<SocketAddr> {
        match section.text(key) {
            None => Some(AdminConfig::DEFAULT_BIND),
            Some("") => None,
            Some(_) => socket_address(section, key),
        }
    }

    pub(super) fn checked(
        self,
        section: &Section<'_>,
        server: &ServerConfig,
        auth: &AuthConfig,
        transport: Transport,
    ) -> AdminConfig {
        let Some(bind) = self.bind else { return self };
        if bind == server.bind && bind.port() != 0 {
            section.fault("bind", "is the address of server.bind too", "an address of its own, or \"\" for none");
        }
        if !is_loopback(bind) && auth.mode == AuthMode::Keys && auth.development_key_enabled {
            let wrong = format!("the development key is public and works on loopback only, but this is {bind}");
            let allowed = "auth.development_key_enabled = false and a key of your own with the scope admin, or a \
                           loopback address";
            section.fault("bind", wrong, allowed);
        }
        if !is_loopback(bind) && transport == Transport::Plain && !self.allow_plain_http {
            let wrong = format!("keys with the scope admin would be sent to {bind} unencrypted");
            let allowed = "a certificate in [server.tls], a loopback address, or admin.allow_plain_http = true on a \
                           trusted network";
            section.fault("bind", wrong, allowed);
        }
        self
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.bind.is_none_or(is_loopback)
    }

    /// Whether it has the default address. Then the start does not fail if the address is in use.
    pub fn is_default(&self) -> bool {
        self.bind == Some(AdminConfig::DEFAULT_BIND)
    }
}
