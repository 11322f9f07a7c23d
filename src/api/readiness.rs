//! Whether the gateway can serve: the checks, and the one word they amount to.

use serde::Serialize;

/// What was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checks {
    /// Models that can be served; `None` when the catalog's owner did not answer. Without any, nothing can be
    /// answered, and the check fails.
    pub(crate) models: Option<usize>,
    /// Whether the owner of the statistics answered.
    pub(crate) health_answers: bool,
    /// Providers that are on and not shut.
    pub(crate) providers_available: usize,
    pub(crate) providers_configured: usize,
    /// Whether the router of every worker answered.
    pub(crate) routers_answer: bool,
    /// Inference calls in progress.
    pub(crate) in_flight: u32,
    /// Most of them; `None` without a limit.
    pub(crate) in_flight_limit: Option<u32>,
    /// Records held; `None` when the ledger did not answer.
    pub(crate) records: Option<usize>,
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
    capacity: CapacityCheck,
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
}

#[derive(Serialize)]
struct RouterCheck {
    ok: bool,
}

/// Whether another call would be let in. Does not count towards readiness: a full gateway refuses at once and says so,
/// and a load balancer that takes it away sends its share to others that are as full.
#[derive(Serialize)]
struct CapacityCheck {
    ok: bool,
    in_flight: u32,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct LedgerCheck {
    ok: bool,
    records: usize,
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
            },
            router: RouterCheck { ok: checks.routers_answer },
            ledger: LedgerCheck { ok: checks.records.is_some(), records: checks.records.unwrap_or_default() },
            capacity: CapacityCheck {
                ok: checks.in_flight_limit.is_none_or(|limit| checks.in_flight < limit),
                in_flight: checks.in_flight,
                limit: checks.in_flight_limit,
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

    const GOOD: Checks = Checks {
        models: Some(12),
        health_answers: true,
        providers_available: 3,
        providers_configured: 4,
        routers_answer: true,
        in_flight: 3,
        in_flight_limit: Some(4),
        records: Some(120),
    };

    fn json(draining: bool, checks: Checks) -> String {
        serde_json::to_string(&ReadinessBody::new(draining, checks)).unwrap()
    }

    #[test]
    fn with_every_actor_answering_the_gateway_is_ready() {
        let expected = concat!(
            r#"{"status":"ready","checks":{"catalog":{"ok":true,"models":12},"#,
            r#""providers":{"ok":true,"available":3,"configured":4},"#,
            r#""router":{"ok":true},"ledger":{"ok":true,"records":120},"#,
            r#""capacity":{"ok":true,"in_flight":3,"limit":4}}}"#,
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
        for checks in unready {
            assert!(json(false, checks).starts_with(r#"{"status":"not_ready""#), "{checks:?}");
        }
        let full = json(false, Checks { in_flight: 4, ..GOOD });
        assert!(full.contains(r#""status":"ready""#) && full.contains(r#""capacity":{"ok":false"#), "{full}");
        assert!(json(true, GOOD).starts_with(r#"{"status":"draining""#));
    }
}
