//! Has shadow policies decide a request once its first attempt is on its way.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use pointsman_base::clock;
use pointsman_domain::{Generation, ShadowChoice};
use pointsman_routing::explain::diff::Asked;

use crate::state::gateway::Worker;

/// How far a worker may be behind: beyond it shadows do not decide.
const MOST_LAG: Duration = Duration::from_millis(5);

/// What shadows have chosen so far.
pub type Chosen = Rc<RefCell<Vec<ShadowChoice>>>;

/// Decides in a task of this worker: it runs when the request waits for its provider. The decision of `record` is the one that
/// serves.
pub fn decide_later(worker: &Worker, asked: Arc<Asked>, record: &Generation) -> Chosen {
    let chosen = Chosen::default();
    let (into, since, now_ms) = (Rc::clone(&chosen), clock::now(), record.created_ms);
    let (worker, tags) = (worker.clone(), record.tags.clone());
    let serves = record.decision.plan().next().map(|first| first.index);
    actix_rt::spawn(async move {
        let is_late = clock::now() - since > MOST_LAG;
        let shadows = worker.setup.shadows.iter().flat_map(|shadows| shadows.iter());
        for (shadow, config) in shadows.zip(&worker.setup.config.shadows) {
            if !shadow.watches(&asked.query, asked.seed, now_ms) {
                continue;
            }
            if is_late {
                worker.shared.records.shadows.skipped(&config.name);
            } else {
                into.borrow_mut().push(shadow.decide(&asked, &tags, serves));
            }
        }
    });
    chosen
}
