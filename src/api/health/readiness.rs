//! Readiness: the checks and the resulting status.

use serde::Serialize;

use crate::base::load_reading::LoadReading;

/// Results of the checks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checks {
    /// Models that can be served; `None` if the catalog actor did not answer. The check fails without any.
    pub(crate) models: Option<usize>,
    /// Whether the statistics actor answered.
    pub(crate) health_answers: bool,
    /// Enabled providers that are not down. Zero fails no check: taking all replicas out of service while the providers
    /// are down would only make the outage worse.
    pub(crate) providers_available: usize,
    pub(crate) providers_configured: usize,
    /// Whether the router of every worker answered.
    pub(crate) routers_answer: bool,
    /// Records in the ledger; `None` if the ledger did not answer.
    pub(crate) records: Option<usize>,
    /// Inference calls in progress.
    pub(crate) in_flight: u32,
    /// Load of the gateway. A gateway that sheds load stays ready: taking it out of service would only move its load to
    /// the other replicas.
    pub(crate) load: LoadReading,
}

/// The answer of the readiness page.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct ReadinessBody {
    /// `ready` with the status 200; `not_ready` if a check fails and `draining` while the process stops, both with 503.
    #[cfg_attr(test, schemars(extend("enum" = ["ready", "not_ready", "draining"])))]
    status: &'static str,
    /// Each check and the figures behind it.
    checks: ChecksBody,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ChecksBody {
    catalog: CatalogCheck,
    providers: ProvidersCheck,
    router: RouterCheck,
    ledger: LedgerCheck,
    /// Load of the gateway; none of it fails a check.
    load: LoadCheck,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct CatalogCheck {
    /// Whether the actor of the catalog answers and at least one model can be served.
    ok: bool,
    /// Models that can be served: not retired, with an enabled endpoint. 0 if the actor does not answer.
    models: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ProvidersCheck {
    /// Whether the actor of the statistics answers. It says nothing of the providers themselves.
    ok: bool,
    /// Enabled providers that are not down. 0 fails no check: other replicas would not reach the providers either.
    available: usize,
    /// All providers of the configuration, those included that are off.
    configured: usize,
    /// Why the gateway is ready nevertheless; only while `available` is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Explains why the gateway stays ready while no provider is available.
const NO_PROVIDER: &str = "No provider is available, so calls fail or wait. The gateway stays ready: other replicas would \
                           not reach the providers either, and it probes them until they are back.";

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct RouterCheck {
    /// Whether the routing of every worker answers.
    ok: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct LedgerCheck {
    /// Whether the actor of the records answers.
    ok: bool,
    /// Records in memory, which are the latest ones; 0 if the actor does not answer.
    records: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct LoadCheck {
    /// Whether a call was refused in the last few seconds because a limit of the gateway was reached. It fails no
    /// check.
    shedding: bool,
    /// Calls in progress that count against the limits: for generations, previews and counts of tokens.
    in_flight: u32,
    /// Bytes of requests and answers that are in memory now.
    buffered_bytes: usize,
    /// Open connections of clients.
    connections: usize,
}

impl ReadinessBody {
    /// The readiness for `checks`; a draining gateway is never ready.
    pub(crate) fn new(is_draining: bool, checks: Checks) -> ReadinessBody {
        let body = ChecksBody {
            catalog: CatalogCheck {
                ok: checks.models.is_some_and(|models| models > 0),
                models: checks.models.unwrap_or_default(),
            },
            providers: ProvidersCheck {
                ok: checks.health_answers,
                available: checks.providers_available,
                configured: checks.providers_configured,
                note: (checks.providers_available == 0).then_some(NO_PROVIDER),
            },
            router: RouterCheck { ok: checks.routers_answer },
            ledger: LedgerCheck { ok: checks.records.is_some(), records: checks.records.unwrap_or_default() },
            load: LoadCheck {
                shedding: checks.load.shedding,
                in_flight: checks.in_flight,
                buffered_bytes: checks.load.buffered_bytes,
                connections: checks.load.connections,
            },
        };
        let is_healthy = body.catalog.ok && body.providers.ok && body.router.ok && body.ledger.ok;
        let status = match (is_draining, is_healthy) {
            (true, _) => "draining",
            (false, true) => "ready",
            (false, false) => "not_ready",
        };
        ReadinessBody { status, checks: body }
    }

    /// Whether requests can be served.
    pub(crate) fn is_ready(&self) -> bool {
        self.status == "ready"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::load_reading::ShedReason;

    const HEALTHY: Checks = Checks {
        models: Some(12),
        health_answers: true,
        providers_available: 3,
        providers_configured: 4,
        routers_answer: true,
        records: Some(120),
        in_flight: 3,
        load: LoadReading {
            buffered_bytes: 96,
            connections: 7,
            shed: [(ShedReason::InFlight, 1), (ShedReason::RequestRate, 0), (ShedReason::BufferedBytes, 0)],
            shedding: true,
        },
    };

    fn json(is_draining: bool, checks: Checks) -> String {
        serde_json::to_string(&ReadinessBody::new(is_draining, checks)).unwrap()
    }

    #[test]
    fn the_gateway_is_ready_while_all_actors_answer_even_if_it_sheds_load() {
        let expected = concat!(
            r#"{"status":"ready","checks":{"catalog":{"ok":true,"models":12},"#,
            r#""providers":{"ok":true,"available":3,"configured":4},"#,
            r#""router":{"ok":true},"ledger":{"ok":true,"records":120},"#,
            r#""load":{"shedding":true,"in_flight":3,"buffered_bytes":96,"connections":7}}}"#,
        );
        assert_eq!(json(false, HEALTHY), expected);
    }

    #[test]
    fn the_gateway_is_not_ready_if_an_actor_is_silent_or_while_draining_but_stays_ready_without_providers() {
        let unready = [
            Checks { models: None, ..HEALTHY },
            Checks { health_answers: false, ..HEALTHY },
            Checks { routers_answer: false, ..HEALTHY },
            Checks { records: None, ..HEALTHY },
        ];
        let no_provider = json(false, Checks { providers_available: 0, ..HEALTHY });
        assert!(no_provider.starts_with(r#"{"status":"ready""#) && no_provider.contains(NO_PROVIDER), "{no_provider}");
        for checks in unready {
            assert!(json(false, checks).starts_with(r#"{"status":"not_ready""#), "{checks:?}");
        }
        assert!(json(true, HEALTHY).starts_with(r#"{"status":"draining""#));
    }
}
