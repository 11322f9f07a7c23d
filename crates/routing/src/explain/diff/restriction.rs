//! What keeps requests from endpoints that could serve them, by the will of the caller, the key or the alias; and a request without it.

use std::sync::Arc;

use pointsman_domain::{Alias, Catalog, DataCollection, Decision, PriceCeiling, Query, Target};

pointsman_domain::named! {
    /// A kind of restriction, by the names of its parameters.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Restriction {
        /// Providers to try first.
        Order = "provider.order",
        /// Providers that may serve alone, or never.
        Providers = "provider.only and provider.ignore",
        /// What providers do with prompts.
        Data = "provider.data_collection and provider.zdr",
        /// Precision of the weights.
        Quantizations = "provider.quantizations",
        /// Models that may serve alone, or never: of the request, its key and its alias.
        Models = "allowed_models and blocked_models",
        /// The highest price and cost.
        Prices = "max_price, max_cost and max_cost_per_1k_tokens",
        /// The least quality.
        Quality = "min_quality",
        /// Bounds behind which endpoints rank last.
        Preferences = "preferred_max_latency and preferred_min_throughput",
    }
}

impl Restriction {
    /// Whether it holds for the request of a decision.
    pub(in crate::explain) fn restricts(self, decision: &Decision, catalog: &Catalog) -> bool {
        let (routing, request) = (&decision.parameters, &decision.request);
        let provider = &routing.provider;
        let has_lists = |target: &Target| match target {
            Target::Alias(at) => catalog.alias(*at).is_some_and(has_lists),
            Target::Model(_) => false,
        };
        match self {
            Restriction::Order => !provider.order.is_empty(),
            Restriction::Providers => !provider.only.is_empty() || !provider.ignore.is_empty(),
            Restriction::Data => provider.zero_data_retention || provider.data_collection == DataCollection::Deny,
            Restriction::Quantizations => !provider.quantizations.is_empty(),
            Restriction::Models => {
                let of_key = !request.key_allowed.is_empty() || !request.key_blocked.is_empty();
                let of_request = !routing.allowed.is_empty() || !routing.blocked.is_empty();
                of_key || of_request || request.targets.iter().any(has_lists)
            }
            Restriction::Prices => {
                let has_cost = routing.max_cost.is_some() || routing.max_cost_per_1k_tokens.is_some();
                has_cost || provider.max_price != PriceCeiling::default()
            }
            Restriction::Quality => routing.min_quality.is_some(),
            Restriction::Preferences => {
                routing.preferred_max_latency.is_some() || routing.preferred_min_throughput.is_some()
            }
        }
    }

    /// Takes it from a request.
    pub(super) fn lift(self, query: &mut Query) {
        if self == Restriction::Models {
            (query.key_allowed, query.key_blocked) = (Vec::new(), Vec::new());
        }
        let routing = query.routing_mut();
        let provider = &mut routing.provider;
        match self {
            Restriction::Order => provider.order = Vec::new(),
            Restriction::Providers => (provider.only, provider.ignore) = (Vec::new(), Vec::new()),
            Restriction::Data => {
                (provider.zero_data_retention, provider.data_collection) = (false, DataCollection::Allow);
            }
            Restriction::Quantizations => provider.quantizations = Vec::new(),
            Restriction::Models => (routing.allowed, routing.blocked) = (Vec::new(), Vec::new()),
            Restriction::Prices => {
                provider.max_price = PriceCeiling::default();
                (routing.max_cost, routing.max_cost_per_1k_tokens) = (None, None);
            }
            Restriction::Quality => routing.min_quality = None,
            Restriction::Preferences => {
                (routing.preferred_max_latency, routing.preferred_min_throughput) = (None, None);
            }
        }
    }
}

fn has_lists(alias: &Alias) -> bool {
    !alias.allowed.is_empty() || !alias.blocked.is_empty()
}

/// The catalog with aliases that list no models, if that is lifted.
pub(super) fn without_lists(catalog: &Arc<Catalog>, lifted: &[Restriction]) -> Arc<Catalog> {
    if !lifted.contains(&Restriction::Models) || !catalog.aliases.iter().any(has_lists) {
        return Arc::clone(catalog);
    }
    let mut catalog = Catalog::clone(catalog);
    for alias in &mut catalog.aliases {
        (alias.allowed, alias.blocked) = (Vec::new(), Vec::new());
    }
    Arc::new(catalog)
}
