//! Has shadow policies decide a request once its first attempt is on its way.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

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
        let shadows = worker.setup.shadows.iter().flat_map(|shadows| shadows.iter()).zip(&worker.setup.config.shadows);
        let watching = shadows.filter(|(shadow, _)| shadow.watches(&asked.query, asked.seed, now_ms));
        decide_all(
            watching,
            || clock::now() - since > MOST_LAG,
            |(shadow, _)| shadow.decide(&asked, &tags, serves),
            |choice| into.borrow_mut().push(choice),
            |(_, config)| worker.shared.records.shadows.skipped(&config.name),
        );
    });
    chosen
}

/// Has each shadow decide, unless it is late by then. One that panics is skipped, too, and the others decide all the same.
fn decide_all<S, C>(
    shadows: impl Iterator<Item = S>,
    is_late: impl Fn() -> bool,
    decide: impl Fn(&S) -> C,
    mut chosen: impl FnMut(C),
    mut skipped: impl FnMut(S),
) {
    for shadow in shadows {
        let decided = if is_late() { None } else { catch_unwind(AssertUnwindSafe(|| decide(&shadow))).ok() };
        match decided {
            Some(choice) => chosen(choice),
            None => skipped(shadow),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The choices of three shadows of which some panic, and those that were skipped. `late_from`: the time of the first that comes too
    /// late, where each decision takes one.
    fn decided(late_from: u32, panics: &[&str]) -> (Vec<&'static str>, Vec<&'static str>) {
        let (now, mut chosen, mut skipped) = (Cell::new(0), Vec::new(), Vec::new());
        let decide = |name: &&'static str| {
            now.set(now.get() + 1);
            assert!(!panics.contains(name), "on purpose");
            *name
        };
        let shadows = ["a", "b", "c"].into_iter();
        decide_all(shadows, || now.get() >= late_from, decide, |it| chosen.push(it), |it| skipped.push(it));
        (chosen, skipped)
    }

    #[test]
    fn a_shadow_that_panics_or_comes_too_late_is_skipped_and_the_others_decide() {
        assert_eq!(decided(9, &[]), (vec!["a", "b", "c"], vec![]));
        assert_eq!(decided(9, &["b"]), (vec!["a", "c"], vec!["b"]));
        assert_eq!(decided(9, &["a", "b", "c"]), (vec![], vec!["a", "b", "c"]));
        assert_eq!(decided(0, &[]), (vec![], vec!["a", "b", "c"]), "the worker is behind");
        assert_eq!(decided(1, &[]), (vec!["a"], vec!["b", "c"]), "the first one is slow");
    }
}
