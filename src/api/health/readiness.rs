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
pub(crate) struct ReadinessBody {
    status: &'static str,
    checks: ChecksBody,
}

#[derive(Serialize)]
struct ChecksBody {
    catalog: CatalogCheck,
    providers: ProvidersCheck,
    router: RouterCheck,
    ledger: LedgerCheck,
    load: LoadCheck,
}

#[derive(Serialize)]
struct CatalogCheck {
    ok: bool,
    models: usize,
}

#[derive(Serialize)]
struct ProvidersCheck {
    ok: bool,
    available: usize,
    configured: usize,
    /// Present while no provider is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Explains why the gateway stays ready while no provider is available.
const NO_PROVIDER: &str = "No provider is available, so calls fail or wait. The gateway stays ready: other replicas would \
                           not reach the providers either, and it probes them until they are back.";

#[derive(Serialize)]
struct RouterCheck {
    ok: bool,
}

#[derive(Serialize)]
struct LedgerCheck {
    ok: bool,
    records: usize,
}

#[derive(Serialize)]
struct LoadCheck {
    shedding: bool,
    in_flight: u32,
    buffered_bytes: usize,
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
