//! Hears what other replicas admitted.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{connection::Server, usage};
use crate::access::registry::Registry;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(500);

/// Hears a channel for as long as the process runs.
pub struct Listener {
    server: Server,
    channel: String,
    run: u64,
    registry: Arc<Registry>,
}

impl Listener {
    /// A listener that has not connected yet. `run` tells own messages from those of others.
    #[must_use]
    pub fn new(server: Server, channel: String, run: u64, registry: Arc<Registry>) -> Listener {
        Listener { server, channel, run, registry }
    }

    /// Hears. The state of Redis is told by the other connection.
    pub async fn run(self) {
        loop {
            match self.server.listen(&self.channel).await {
                Ok(mut heard) => {
                    let mut messages = heard.on_message();
                    while let Some(message) = messages.next().await {
                        if let Ok(text) = message.get_payload::<String>() {
                            usage::charge(self.run, &text, &self.registry.holders);
                        }
                    }
                }
                Err(fault) => log::debug!("usage of other replicas is not heard: {fault}"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}
