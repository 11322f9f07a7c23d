//! Going over from one configuration to another while requests run.
//!
//! Everything that can go wrong is tried out beside what runs; then one pointer is swapped. Requests that came before
//! end under the setup they began with, requests that come after begin under the new one, and none sees two.

use std::{fmt, sync::Arc, time::Duration};

use pointsman_actors::{catalog::ReplaceCatalog, provider_health::Adopt};

use crate::{config::Config, gateway::Shared, server::StartError, setup::Draft};

/// How long the owner of the statistics may take to go over to another catalog.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why another configuration was not taken over. The one in force goes on.
#[derive(Debug)]
pub enum AdoptError {
    /// It cannot be put to work.
    Impossible(StartError),
    /// The owner of the statistics did not answer.
    Silent,
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdoptError::Impossible(error) => error.fmt(f),
            AdoptError::Silent => f.write_str("the owner of the statistics did not answer; try again"),
        }
    }
}

impl std::error::Error for AdoptError {}

/// Takes over `config`, and gives the version it is in force under. To be called by one at a time.
///
/// # Errors
/// See [`AdoptError`]; nothing has changed then.
pub(crate) async fn adopt(shared: &Shared, config: Config) -> Result<u64, AdoptError> {
    let before = shared.setup.load_full();
    let version = before.version + 1;
    let beside = Arc::clone(&before);
    // Reads certificates and starts simulated providers: not on a thread that serves.
    let drafted = actix_rt::task::spawn_blocking(move || Draft::new(config, version, Some(&beside))).await;
    let draft = drafted.map_err(|_| AdoptError::Silent)?.map_err(AdoptError::Impossible)?;
    let (catalog, policy) = (Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
    let question = Adopt { catalog: Arc::clone(&catalog), policy, live: draft.live(&before) };
    let published = shared.control.health().send(question).timeout(ADOPT_TIMEOUT).await;
    let published = published.map_err(|_| AdoptError::Silent)?;
    shared.setup.store(Arc::new(draft.adopt(published, Some(&before))));
    shared.control.catalog().do_send(ReplaceCatalog(catalog));
    Ok(version)
}
