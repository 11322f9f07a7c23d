//! Authentication of callers: `[auth]`. The keys are in [`super::keys`].

use super::{section::Section, server::ServerConfig};

/// The key that works without configuration, on loopback only. It is public, so it never has the scope `admin`.
pub const DEVELOPMENT_KEY: &str = "sk-pointsman-development";

/// How callers authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// With an API key.
    #[default]
    Keys,
    /// Without a key: every caller is the owner `anonymous`. On loopback only, and never on the admin listener.
    None,
}

/// `[auth]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// How callers authenticate.
    pub mode: AuthMode,
    /// Whether the model list is shown without a key.
    pub public_catalog: bool,
    /// Whether [`DEVELOPMENT_KEY`] works.
    pub development_key_enabled: bool,
}

impl AuthConfig {
    pub(super) fn read(section: &Section<'_>, server: &ServerConfig) -> AuthConfig {
        let modes = [("keys", AuthMode::Keys), ("none", AuthMode::None)];
        let auth = AuthConfig {
            mode: section.choice_or("mode", &modes, AuthMode::Keys),
            public_catalog: section.flag_or("public_catalog", true),
            development_key_enabled: section.flag_or("development_key_enabled", true),
        };
        if auth.mode == AuthMode::Keys && auth.development_key_enabled && !server.is_loopback() {
            let wrong =
                format!("the development key is public and works on loopback only, but server.bind is {}", server.bind);
            let allowed = "development_key_enabled = false and a key of your own in [[keys]] (make one with \
                           'pointsman keygen'), or a loopback address in server.bind";
            section.fault("development_key_enabled", wrong, allowed);
        }
        if auth.mode == AuthMode::None && !server.is_loopback() {
            let wrong = format!("callers would need no key, but server.bind is {}", server.bind);
            let allowed = "mode = \"keys\" with keys of your own in [[keys]] (make one with 'pointsman keygen'), or a \
                           loopback address in server.bind";
            section.fault("mode", wrong, allowed);
        }
        auth
    }
}
