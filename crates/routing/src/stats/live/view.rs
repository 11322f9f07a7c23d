//! Copy of the live state, as a decision reads it.

use std::time::Duration;

use pointsman_domain::{Catalog, Circuit, FailureCause, Tick};

use super::{breaker::RefusedSince, gate::Gate, quota::TokensLeft};

/// Live state of an endpoint. The default is an unused endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveEndpoint {
    /// Requests in flight.
    pub in_flight: u32,
    /// Whether the endpoint is silent: its unanswered requests have waited improbably long.
    pub silent: bool,
    /// Whether requests pass. The provider has a gate of its own.
    pub gate: Gate,
    /// When a paced endpoint accepts the next request; `None` means at once.
    pub due: Option<Tick>,
    /// Tokens left in the endpoint's announced quota.
    pub tokens: Option<TokensLeft>,
    /// Consecutive failures.
    pub failures: u32,
    /// Last counted failure.
    pub last: Option<FailureCause>,
    /// The wait that was told for the cooldown, if it was longer than any that is heeded.
    pub told: Option<Duration>,
    /// What the provider refuses, until a success.
    pub refused: Option<RefusedSince>,
    /// Whether the requests of several callers are called wrong in the same words, without a success in between.
    pub all_mistaken: bool,
    /// Whether the endpoint was ever called.
    pub used: bool,
}

/// Live state of a provider. The default is an unused provider.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LiveProvider {
    /// Whether requests pass.
    pub gate: Gate,
    /// Consecutive refused connections and account faults.
    pub failures: u32,
    /// Last counted failure.
    pub last: Option<FailureCause>,
    /// What the provider refuses, until a success.
    pub refused: Option<RefusedSince>,
}

/// Copy of the live state by position in the catalog. Missing entries count as unused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LiveView {
    /// One per endpoint.
    pub endpoints: Vec<LiveEndpoint>,
    /// One per provider.
    pub providers: Vec<LiveProvider>,
}

/// Public status of an endpoint or provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveStatus {
    /// Closed, open or half-open.
    pub circuit: Circuit,
    /// When an open circuit may be probed.
    pub open_until: Option<Tick>,
    /// When a cooldown ends.
    pub cooldown_until: Option<Tick>,
    /// The wait that was told for it, if it was longer than any that is heeded.
    pub told: Option<Duration>,
    /// Whether the account or the model name is wrong there.
    pub config_fault: bool,
    /// Whether the endpoint is silent although its circuit is still closed.
    pub silent: bool,
    /// Requests in flight.
    pub in_flight: u32,
}

impl LiveView {
    /// State of an endpoint.
    pub fn endpoint(&self, index: u32) -> LiveEndpoint {
        self.endpoints.get(index as usize).copied().unwrap_or_default()
    }

    /// State of a provider.
    pub fn provider(&self, index: u32) -> LiveProvider {
        self.providers.get(index as usize).copied().unwrap_or_default()
    }

    /// Status of an endpoint, including the gate of its provider.
    pub fn status(&self, catalog: &Catalog, index: u32) -> LiveStatus {
        let cell = self.endpoint(index);
        let provider = catalog.endpoint(index).map_or(Gate::Passing, |endpoint| self.provider(endpoint.provider).gate);
        let status = LiveStatus::new(cell.gate.and(provider), cell.silent, cell.in_flight);
        LiveStatus { told: cell.told.filter(|_| status.cooldown_until.is_some()), ..status }
    }

    /// Status of a provider: its own gate, or the mildest gate of its used endpoints if none of them lets requests
    /// pass. It is silent if all used endpoints are.
    pub fn provider_status(&self, catalog: &Catalog, provider: u32) -> LiveStatus {
        let of_provider = (0_u32..).zip(&catalog.endpoints).filter(|(_, endpoint)| endpoint.provider == provider);
        let cells: Vec<_> = of_provider.map(|(index, _)| self.endpoint(index)).filter(|cell| cell.used).collect();
        let in_flight = cells.iter().map(|cell| cell.in_flight).sum();
        let mildest = cells.iter().map(|cell| cell.gate).reduce(|a, b| if a.and(b) == a { b } else { a });
        let silent = !cells.is_empty() && cells.iter().all(|cell| cell.silent);
        let status = LiveStatus::new(self.provider(provider).gate.and(mildest.unwrap_or_default()), silent, in_flight);
        let told =
            cells.iter().filter(|cell| status.cooldown_until.is_some() && cell.gate.until() == status.cooldown_until);
        LiveStatus { told: told.filter_map(|cell| cell.told).next(), ..status }
    }
}

impl LiveStatus {
    fn new(gate: Gate, silent: bool, in_flight: u32) -> LiveStatus {
        let shut = gate.until();
        LiveStatus {
            circuit: gate.circuit(),
            open_until: shut.filter(|_| gate.circuit() == Circuit::Open),
            cooldown_until: shut.filter(|_| matches!(gate, Gate::Cooling { .. })),
            told: None,
            config_fault: matches!(gate, Gate::ConfigFault { .. }),
            silent,
            in_flight,
        }
    }
}
