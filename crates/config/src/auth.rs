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

settings! {
    /// Authentication of callers.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AuthConfig read(section) {
        /// `keys`: every call needs a key, except public ones. `none`: no call needs a key, and every caller is the
        /// owner `anonymous`; on loopback only. The admin listener always needs a key.
        pub mode: AuthMode = choice_or(&[("keys", AuthMode::Keys), ("none", AuthMode::None)], AuthMode::Keys),
        /// Whether the lists of models and providers are served without a key.
        pub public_catalog: bool = flag_or(true),
        /// Whether the key `sk-pointsman-development` works, with the scopes `inference` and `read`, never `admin`. It
        /// is public, so it is accepted on loopback only, and the server does not start on any other address while it
        /// is enabled.
        pub development_key_enabled: bool = flag_or(true),
    }
}

impl AuthConfig {
    pub(super) fn checked(self, section: &Section<'_>, server: &ServerConfig) -> AuthConfig {
        if self.mode == AuthMode::Keys && self.development_key_enabled && !server.is_loopback() {
            let wrong =
                format!("the development key is public and works on loopback only, but server.bind is {}", server.bind);
            let allowed = "development_key_enabled = false and a key of your own in [[keys]] (make one with \
                           'pointsman keygen'), or a loopback address in server.bind";
            section.fault("development_key_enabled", wrong, allowed);
        }
        if self.mode == AuthMode::None && !server.is_loopback() {
            let wrong = format!("callers would need no key, but server.bind is {}", server.bind);
            let allowed = "mode = \"keys\" with keys of your own in [[keys]] (make one with 'pointsman keygen'), or a \
                           loopback address in server.bind";
            section.fault("mode", wrong, allowed);
        }
        self
    }
}
