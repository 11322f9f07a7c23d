//! Publishes what ratings say: to the statistics, which decisions read.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use pointsman_actors::provider_health::AdoptEvidence;
use pointsman_ledger::generations::GenerationStore;

use crate::state::{feedback::today, gateway::Shared};

/// Time between two looks for ratings that came.
const INTERVAL: Duration = Duration::from_secs(1);

/// Publishes what ratings say, once a second at most, until the gateway is dropped. Needs a durable ledger.
pub fn start(shared: &Arc<Shared>) {
    let Some(ledger) = shared.records.ledger.clone() else { return };
    actix_rt::spawn(publish(Arc::downgrade(shared), ledger));
}

async fn publish(shared: Weak<Shared>, ledger: Arc<GenerationStore>) {
    let (mut day, mut share) = (today(), None);
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let now = today();
        let is_new_day = std::mem::replace(&mut day, now) != now;
        let most_share = shared.setup.load().config.feedback.max_share;
        let is_new_share = share.replace(most_share) != Some(most_share);
        let (is_outdated, is_changed) = shared.records.feedback.take_changes();
        let anew = is_outdated || is_new_day;
        if anew || is_changed || is_new_share {
            let (of, ledger) = (Arc::clone(&shared), Arc::clone(&ledger));
            let publish = move || {
                let evidence = of.records.feedback.publish(&ledger, most_share, anew);
                AdoptEvidence::new(evidence, Arc::clone(&of.setup.load().catalog))
            };
            if let Ok(adopt) = actix_rt::task::spawn_blocking(publish).await {
                shared.actors.control.health().do_send(adopt);
            }
        }
        drop(shared);
        actix_rt::time::sleep(INTERVAL).await;
    }
}
