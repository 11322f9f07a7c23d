//! Whether the gateway can serve: the checks, and the one word they amount to.

use serde::Serialize;

use crate::base::load_reading::LoadReading;

/// What was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checks {
    /// Models that can be served; `None` when the catalog's owner did not answer. Without any, nothing can be
    /// answered, and the check fails.
    pub(crate) models: Option<usize>,
    /// Whether the owner of the statistics answered.
    pub(crate) health_answers: bool,
    /// Providers that are on and not shut. That there is none fails no check: to take every replica out of service
    /// because the providers are down would only make it worse.
    pub(crate) providers_available: usize,
    pub(crate) providers_configured: usize,
    /// Whether the router of every worker answered.
    pub(crate) routers_answer: bool,
    /// Records held; `None` when the ledger did not answer.
    pub(crate) records: Option<usize>,
    /// Inference calls in progress.
    pub(crate) in_flight: u32,
    /// What else is carried. A gateway that turns calls away is ready all the same: taken out of service it would only
    /// push its load on the others, and the next moment it has room again.
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
    /// Said where nobody can be called at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Why that is no reason to be taken out of service.
const NOBODY: &str = "No provider can be called at the moment, so calls fail or wait. The gateway is ready all the same: \
                      others would not reach them either, and it finds out by itself when they are back.";

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
    /// What `checks` amount to; a gateway that was asked to stop is never ready.
    pub(crate) fn new(draining: bool, checks: Checks) -> ReadinessBody {
        let body = ChecksBody {
            catalog: CatalogCheck {
                ok: checks.models.is_some_and(|models| models > 0),
                models: checks.models.unwrap_or_default(),
            },
            providers: ProvidersCheck {
                ok: checks.health_answers,
                available: checks.providers_available,
                configured: checks.providers_configured,
                note: (checks.providers_available == 0).then_some(NOBODY),
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
        let good = body.catalog.ok && body.providers.ok && body.router.ok && body.ledger.ok;
        let status = match (draining, good) {
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

    const GOOD: Checks = Checks {
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

    fn json(draining: bool, checks: Checks) -> String {
        serde_json::to_string(&ReadinessBody::new(draining, checks)).unwrap()
    }

    #[test]
    fn with_every_actor_answering_the_gateway_is_ready_even_while_it_sheds_load() {
        let expected = concat!(
            r#"{"status":"ready","checks":{"catalog":{"ok":true,"models":12},"#,
            r#""providers":{"ok":true,"available":3,"configured":4},"#,
            r#""router":{"ok":true},"ledger":{"ok":true,"records":120},"#,
            r#""load":{"shedding":true,"in_flight":3,"buffered_bytes":96,"connections":7}}}"#,
        );
        assert_eq!(json(false, GOOD), expected);
    }

    #[test]
    fn one_silent_actor_or_a_shutdown_makes_it_unready() {
        let unready = [
            Checks { models: None, ..GOOD },
            Checks { health_answers: false, ..GOOD },
            Checks { routers_answer: false, ..GOOD },
            Checks { records: None, ..GOOD },
        ];
        let nobody = json(false, Checks { providers_available: 0, ..GOOD });
        assert!(nobody.starts_with(r#"{"status":"ready""#) && nobody.contains(NOBODY), "{nobody}");
        for checks in unready {
            assert!(json(false, checks).starts_with(r#"{"status":"not_ready""#), "{checks:?}");
        }
        assert!(json(true, GOOD).starts_with(r#"{"status":"draining""#));
    }
}
