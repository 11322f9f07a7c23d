//! A running gateway, asked through its admin listener.

use std::time::Duration;

use actix_web::http::Method;
use bytes::Bytes;
use pointsman_config::Environment;

use super::super::{CommandOutput, admin_place::reached, gateway::ReachedGateway};

/// Pause before a page is asked for again that the gateway had no time for.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a page is asked for.
const TRIES: u32 = 30;

/// The gateway.
pub(super) struct Remote(ReachedGateway);

impl Remote {
    pub(super) fn new(url: &str, key_env: Option<&str>, environment: &Environment) -> Result<Remote, CommandOutput> {
        reached(url, key_env, environment).map(Remote)
    }

    /// The page of the admin interface at `path`. Waits while the gateway is busy.
    pub(super) async fn page(&self, path: &str, timeout: Duration) -> Result<Bytes, CommandOutput> {
        let path = format!("/api/v1/admin/{path}");
        let mut tries = 0;
        loop {
            let (status, body) = self.0.page_within((Method::GET, &path), None, timeout).await?;
            tries += 1;
            match status {
                200 => return Ok(body),
                429 | 503 if tries < TRIES => actix_web::rt::time::sleep(PAUSE).await,
                _ => return Err(self.0.refused_by_admin(status, &body)),
            }
        }
    }
}
