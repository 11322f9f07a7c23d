//! Settings that only a restart can change.
//!
//! A reload keeps these settings as they are in force, so that code that reads them sees the actual values. Each
//! difference is reported as a [`PendingRestart`].

use std::fmt::{self, Debug};

use chrono::Utc;

use super::{Config, auth::AuthMode};

/// A setting that waits for a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRestart {
    /// The key with its path.
    pub key: &'static str,
    /// The value in force.
    pub in_force: String,
    /// The value in the new configuration.
    pub wanted: String,
}

impl fmt::Display for PendingRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PendingRestart { key, in_force, wanted } = self;
        write!(f, "{key} is {in_force} until a restart; the configuration says {wanted}")
    }
}

impl Config {
    /// Sets all restart-only settings to those of `running`, and returns the settings that wait for a restart.
    ///
    /// # Errors
    /// One sentence for each change that would be safe only after a restart, or that needs confirmation.
    pub fn keep_restart_settings(&mut self, running: &Config) -> Result<Vec<PendingRestart>, Vec<String>> {
        let pending = self.pin(running);
        let mut refused = self.unsafe_on_addresses();
        refused.extend(self.widening_since(running, Utc::now()));
        if refused.is_empty() { Ok(pending) } else { Err(refused) }
    }

    /// Settings that are unsafe on the addresses in force. Call it after the addresses are pinned.
    fn unsafe_on_addresses(&self) -> Vec<String> {
        const ELSEWHERE: &str = "until a restart the gateway also listens on other addresses (server.bind, admin.bind)";
        let mut refused = Vec::new();
        if !self.server.is_loopback() && self.auth.mode == AuthMode::None {
            refused.push(format!("auth.mode: \"none\" is for loopback only, but {ELSEWHERE}"));
        }
        let reachable = !self.server.is_loopback() || !self.admin.is_loopback();
        if reachable && self.accepts_public_key(Utc::now()) {
            let public = "the development key is public and works on loopback only";
            refused.push(format!("auth.development_key_enabled: {public}, but {ELSEWHERE}"));
        }
        refused
    }

    /// Sets all restart-only settings to those of `running`.
    fn pin(&mut self, running: &Config) -> Vec<PendingRestart> {
        let mut pins = PendingSettings::default();
        let (server, old) = (&mut self.server, &running.server);
        pins.keep("server.bind", &mut server.bind, &old.bind);
        pins.keep("server.workers", &mut server.workers, &old.workers);
        pins.keep("server.keep_alive", &mut server.keep_alive, &old.keep_alive);
        pins.keep("server.max_connections", &mut server.max_connections, &old.max_connections);
        pins.keep("server.mount_v1", &mut server.mount_v1, &old.mount_v1);
        pins.keep("server.legacy_completions", &mut server.legacy_completions, &old.legacy_completions);
        if self.tls.is_some() != running.tls.is_some() {
            let shown = |config: &Config| if config.tls.is_some() { "on" } else { "off" }.to_owned();
            pins.0.push(PendingRestart { key: "server.tls", in_force: shown(running), wanted: shown(self) });
            self.tls = running.tls.clone();
        }
        pins.keep("admin.bind", &mut self.admin.bind, &running.admin.bind);
        let (timeouts, old) = (&mut self.timeouts, &running.timeouts);
        pins.keep("timeouts.client_header", &mut timeouts.client_header, &old.client_header);
        pins.keep("timeouts.drain_grace", &mut timeouts.drain_grace, &old.drain_grace);
        pins.keep("cors.allowed_origins", &mut self.cors.allowed_origins, &running.cors.allowed_origins);
        pins.keep("cors.max_age", &mut self.cors.max_age, &running.cors.max_age);
        pins.keep("routing.seed", &mut self.routing.seed, &running.routing.seed);
        pins.keep("routing.instance_id", &mut self.routing.instance_id, &running.routing.instance_id);
        let (memory, old) = (&mut self.routing.memory, &running.routing.memory);
        pins.keep("routing.memory.path", &mut memory.path, &old.path);
        pins.keep("routing.memory.save_interval", &mut memory.save_interval, &old.save_interval);
        let (ledger, old) = (&mut self.ledger, &running.ledger);
        pins.keep("ledger.data_dir", &mut ledger.data_dir, &old.data_dir);
        pins.keep("ledger.durability", &mut ledger.durability, &old.durability);
        pins.keep("ledger.max_size", &mut ledger.max_bytes, &old.max_bytes);
        pins.keep("shared", &mut self.shared, &running.shared);
        pins.keep("images.url_ttl", &mut self.images.url_ttl, &running.images.url_ttl);
        pins.keep("images.capacity", &mut self.images.max_bytes, &running.images.max_bytes);
        let (traces, old) = (&mut self.traces, &running.traces);
        pins.keep("traces.endpoint", &mut traces.collector, &old.collector);
        pins.keep("traces.ca_file", &mut traces.ca_file, &old.ca_file);
        pins.keep("traces.sample_ratio", &mut traces.sample_ratio, &old.sample_ratio);
        pins.keep("traces.slow", &mut traces.slow, &old.slow);
        traces.batches = old.batches;
        pins.keep("reload.watch", &mut self.reload.watch, &running.reload.watch);
        pins.0
    }
}

#[derive(Default)]
struct PendingSettings(Vec<PendingRestart>);

impl PendingSettings {
    fn keep<T: Clone + PartialEq + Debug>(&mut self, key: &'static str, wanted: &mut T, in_force: &T) {
        if wanted != in_force {
            let shown = |value: &T| format!("{value:?}");
            self.0.push(PendingRestart { key, in_force: shown(in_force), wanted: shown(wanted) });
            *wanted = in_force.clone();
        }
    }
}
