//! Hears what other replicas admitted, and their advice about endpoints.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::StreamExt as _;
use pointsman_base::clock;

use super::{connection::Server, usage};
use crate::{
    access::registry::Registry,
    state::replicas::{HealthPort, status::StoreStatus},
};

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(500);

/// Hears a channel for as long as the process runs.
pub struct Listener {
    server: Server,
    channel: String,
    run: u64,
    registry: Arc<Registry>,
    status: Arc<StoreStatus>,
    health: Arc<OnceLock<HealthPort>>,
}

impl Listener {
    /// A listener that has not connected yet. `run` tells own messages from those of others.
    pub fn new(
        server: Server,
        channel: String,
        run: u64,
        registry: Arc<Registry>,
        (status, health): (Arc<StoreStatus>, Arc<OnceLock<HealthPort>>),
    ) -> Listener {
        Listener { server, channel, run, registry, status, health }
    }

    /// Hears. The state of Redis is told by the other connection.
    pub async fn run(self) {
        loop {
            match self.server.listen(&self.channel).await {
                Ok(mut heard) => {
                    self.status.takes_command("subscribe");
                    let mut messages = heard.on_message();
                    while let Some(message) = messages.next().await {
                        if let Ok(text) = message.get_payload::<String>() {
                            usage::charge(self.run, &text, &self.registry.holders);
                            if let Some(health) = self.health.get() {
                                let believed = usage::advise(self.run, clock::unix_millis(), &text, health);
                                believed.into_iter().for_each(|is_believed| self.status.count_hint(is_believed));
                            }
                        }
                    }
                }
                Err(fault) if fault.is_refusal() => {
                    let missing = "rate limits and hints of health of other replicas are not heard";
                    self.status.refuses_command("subscribe", missing, &fault);
                }
                Err(fault) => log::debug!("usage of other replicas is not heard: {fault}"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}
