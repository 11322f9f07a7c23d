//! One copy of the fast cells, as a decision reads them.

use crate::domain::{Catalog, Circuit, FailureCause, Tick};

use super::{gate::Gate, quota::TokensLeft};

/// How an endpoint stands right now. The default is an endpoint nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveEndpoint {
    /// Requests in flight.
    pub in_flight: u32,
    /// Whether its unanswered requests have waited so long that it answers none of them.
    pub silent: bool,
    /// Whether requests pass. Its provider's gate stands beside it.
    pub gate: Gate,
    /// When a paced endpoint takes the next request, if not at once.
    pub due: Option<Tick>,
    /// Tokens it takes until a date, if it said so.
    pub tokens: Option<TokensLeft>,
    /// Failures in a row.
    pub failures: u32,
    /// The last failure that counted.
    pub last: Option<FailureCause>,
    /// Whether it was ever called.
    pub used: bool,
}

impl LiveEndpoint {
    /// An endpoint nobody uses.
    pub const UNUSED: LiveEndpoint = LiveEndpoint {
        in_flight: 0,
        silent: false,
        gate: Gate::Passing,
        due: None,
        tokens: None,
        failures: 0,
        last: None,
        used: false,
    };
}

/// How a provider stands right now.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveProvider {
    /// Whether requests pass.
    pub gate: Gate,
    /// Refusals in a row.
    pub failures: u32,
    /// The last failure that counted.
    pub last: Option<FailureCause>,
}

impl LiveProvider {
    /// A provider nobody uses.
    pub const UNUSED: LiveProvider = LiveProvider { gate: Gate::Passing, failures: 0, last: None };
}

/// One copy of the fast cells, by position in the catalog. Cells it does not hold count as unused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LiveView {
    /// One per endpoint.
    pub endpoints: Vec<LiveEndpoint>,
    /// One per provider.
    pub providers: Vec<LiveProvider>,
}

/// What an endpoint or provider shows to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveStatus {
    /// Closed, open or half-open.
    pub circuit: Circuit,
    /// When an open circuit may be probed.
    pub open_until: Option<Tick>,
    /// When a cooldown ends.
    pub cooldown_until: Option<Tick>,
    /// Whether our account or model name there is wrong.
    pub config_fault: bool,
    /// Whether its unanswered requests say that it answers nobody, though nothing shut its circuit yet.
    pub silent: bool,
    /// Requests in flight.
    pub in_flight: u32,
}

impl LiveView {
    /// The cell of an endpoint.
    #[must_use]
    pub fn endpoint(&self, index: u32) -> &LiveEndpoint {
        self.endpoints.get(index as usize).unwrap_or(&LiveEndpoint::UNUSED)
    }

    /// The cell of a provider.
    #[must_use]
    pub fn provider(&self, index: u32) -> &LiveProvider {
        self.providers.get(index as usize).unwrap_or(&LiveProvider::UNUSED)
    }

    /// What an endpoint shows; its provider's gate counts too.
    #[must_use]
    pub fn standing(&self, catalog: &Catalog, index: u32) -> LiveStatus {
        let cell = self.endpoint(index);
        let provider = catalog.endpoint(index).map_or(Gate::Passing, |endpoint| self.provider(endpoint.provider).gate);
        LiveStatus::new(cell.gate.and(provider), cell.silent, cell.in_flight)
    }

    /// What a provider shows: its own gate, or the mildest one when every endpoint that was ever called is shut; and
    /// silence, when all of them are silent.
    #[must_use]
    pub fn provider_standing(&self, catalog: &Catalog, provider: u32) -> LiveStatus {
        let of_provider = (0_u32..).zip(&catalog.endpoints).filter(|(_, endpoint)| endpoint.provider == provider);
        let cells: Vec<_> = of_provider.map(|(index, _)| self.endpoint(index)).filter(|cell| cell.used).collect();
        let in_flight = cells.iter().map(|cell| cell.in_flight).sum();
        let mildest = cells.iter().map(|cell| cell.gate).reduce(|a, b| if a.and(b) == a { b } else { a });
        let silent = !cells.is_empty() && cells.iter().all(|cell| cell.silent);
        LiveStatus::new(self.provider(provider).gate.and(mildest.unwrap_or_default()), silent, in_flight)
    }
}

impl LiveStatus {
    fn new(gate: Gate, silent: bool, in_flight: u32) -> LiveStatus {
        let shut = gate.until();
        LiveStatus {
            circuit: gate.circuit(),
            open_until: shut.filter(|_| gate.circuit() == Circuit::Open),
            cooldown_until: shut.filter(|_| matches!(gate, Gate::Cooling { .. })),
            config_fault: matches!(gate, Gate::ConfigFault { .. }),
            silent,
            in_flight,
        }
    }
}
