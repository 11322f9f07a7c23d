//! A record without anything that names who asked, from where and for what.

use std::sync::Arc;

use pointsman_domain::{Decision, ExclusionDetail, Generation, GenerationId, NativeFeature};
use pointsman_routing::split::another_place;

/// The record with what decisions and figures need: no ids, keys, accounts, teams, sessions, tags, addresses, user agents, and no
/// words of the client but routing parameters.
pub(super) fn stripped(generation: &Generation) -> Generation {
    let decision = &*generation.decision;
    Generation {
        id: GenerationId::new(0, [0; 3]),
        owner: 0,
        key: 0,
        team: None,
        request_id: "".into(),
        requested_model: requested(generation),
        decision: Arc::new(stripped_decision(decision)),
        upstream_id: None,
        native_finish_reason: None,
        dropped_parameters: Vec::new(),
        emulated_parameters: Vec::new(),
        external_user: None,
        session_id: None,
        tags: Vec::new(),
        trace: None,
        user_agent: None,
        http_referer: None,
        origin: None,
        trace_parent: None,
        served: None,
        shadows: Vec::new(),
        ..generation.clone()
    }
}

/// The first model or alias by its name in the catalog, not in the client's spelling.
fn requested(generation: &Generation) -> Arc<str> {
    let first = generation.decision.request.targets.first();
    first.and_then(|target| generation.catalog.target_id(*target)).unwrap_or_default().into()
}

fn stripped_decision(decision: &Decision) -> Decision {
    let mut decision = decision.clone();
    if let Some(taken) = decision.split.as_mut().map(Arc::make_mut) {
        // The place of a user or session is the same in all its records.
        taken.place = another_place(taken, decision.tick.0);
    }
    let needs = &mut decision.request.needs;
    needs.native = needs.native.take().map(|native| NativeFeature { field: "".into(), ..native });
    needs.lost.iter_mut().for_each(|lost| lost.name = "".into());
    for excluded in &mut decision.excluded {
        if let ExclusionDetail::Lacks(name) = &mut excluded.detail {
            *name = "".into();
        }
    }
    decision
}
