//! JSON of the moves of circuit breakers, and of their phases in the last hour.

use pointsman_base::clock;
use pointsman_domain::FailureCause;
use serde::Serialize;

use crate::{
    api::models::measurements::Clocks,
    state::{
        breaker_history::{BreakerMove, Phase, Subject, circuit_of},
        gateway::GatewayView,
    },
};

/// The last hour of one breaker that moved within it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct BreakerBody {
    /// Id of the model whose endpoint the breaker guards; `null` for the breaker of the whole provider.
    pub(crate) model: Option<String>,
    /// What state it was in, oldest first.
    pub(crate) phases: Vec<PhaseBody>,
}

view! {
    /// A state and how long it lasted.
    pub(crate) struct PhaseBody {
        fn new(phase: &Phase, clocks: Clocks) {}

        #[cfg_attr(test, schemars(with = "crate::base::words::Circuit"))]
        pub(crate) circuit: &'static str = phase.circuit.as_str(),
        /// Beginning of the phase: at the earliest an hour ago, or when the process started. RFC 3339, UTC, with
        /// milliseconds.
        pub(crate) from: String = clocks.format(phase.from),
        /// End of the phase, or now. RFC 3339, UTC, with milliseconds.
        pub(crate) until: String = clocks.format(phase.until),
        /// Where the phase lies: seconds before now.
        #[serde(skip)]
        pub(crate) ago: (f64, f64) = (clocks.now.seconds_since(phase.from), clocks.now.seconds_since(phase.until)),
    }
}

impl BreakerBody {
    /// The breakers of a provider now.
    pub(crate) fn of_provider(worker: &GatewayView, slug: &str, clocks: Clocks) -> Vec<BreakerBody> {
        let all = worker.shared.records.breaker_history.phases(slug, clock::started(), clocks.now);
        let body = |(Subject { model, .. }, phases): (Subject, Vec<Phase>)| BreakerBody {
            model: model.map(|model| model.to_string()),
            phases: phases.iter().map(|phase| PhaseBody::new(phase, clocks)).collect(),
        };
        all.into_iter().map(body).collect()
    }
}

view! {
    /// One move, for the live feed.
    pub(crate) struct MoveBody {
        pub(crate) fn new(subject: &Subject, BreakerMove { at, change, cause, .. }: &BreakerMove, clocks: Clocks) {
            let shut = change.to.until().filter(|until| until > at);
        }

        at: String = clocks.format(*at),
        provider_slug: String = subject.provider.to_string(),
        /// `null` for the breaker of the whole provider.
        model: Option<String> = subject.model.as_deref().map(str::to_owned),
        from: &'static str = circuit_of(change.from).as_str(),
        to: &'static str = circuit_of(change.to).as_str(),
        /// When a probe is allowed, or the cooldown ends.
        until: Option<String> = shut.map(|until| clocks.format(until)),
        /// Kind of the failure that caused it; `null` after a successful probe.
        error_type: Option<&'static str> = cause.map(|cause| cause.kind.as_str()),
        status: Option<u16> = cause.and_then(|FailureCause { status, .. }| status),
    }
}
