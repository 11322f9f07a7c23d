//! Where the gateway is administered: `[admin]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    auth::{AuthConfig, AuthMode},
    section::Section,
    server::{ServerConfig, is_loopback, socket_address},
};

/// `[admin]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminConfig {
    /// Address of the listener; `None` means there is none.
    pub bind: Option<SocketAddr>,
}

impl AdminConfig {
    /// The address when the configuration names none.
    pub const DEFAULT_BIND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

    pub(super) fn read(section: &Section<'_>, server: &ServerConfig, auth: &AuthConfig) -> AdminConfig {
        let bind = match section.text("bind") {
            None => Some(AdminConfig::DEFAULT_BIND),
            Some("") => None,
            Some(_) => socket_address(section, "bind"),
        };
        let Some(bind) = bind else { return AdminConfig { bind } };
        if bind == server.bind && bind.port() != 0 {
            section.fault("bind", "is the address of server.bind too", "an address of its own, or \"\" for none");
        }
        if !is_loopback(bind) && auth.mode == AuthMode::Keys && auth.development_key_enabled {
            let wrong = format!("the public development key may administrate, but this is {bind}");
            let allowed = "auth.development_key_enabled = false and a key of your own with the scope admin, or a \
                           loopback address";
            section.fault("bind", wrong, allowed);
        }
        AdminConfig { bind: Some(bind) }
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.bind.is_none_or(is_loopback)
    }

    /// Whether it is where nobody chose it to be: then it is no fault if somebody else is there already.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.bind == Some(AdminConfig::DEFAULT_BIND)
    }
}
