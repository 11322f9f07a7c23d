//! The query of a second answer, which a cascade asks for.

use pointsman_config::Config;
use pointsman_domain::{Catalog, Decision, Model, ModelPattern, Query, Source, Sourced, Target, Usd};

use super::{of_alias, weights};

/// What was asked of `decision`, now of `to` alone, but not of the model of the answer before, and for at most `max_cost`.
/// The settings of an alias go before those of the alias that was asked first.
pub fn of_second_answer(
    decision: &Decision,
    (catalog, config): (&Catalog, &Config),
    (to, answered): (Target, &Model),
    max_cost: Option<Usd>,
) -> Box<Query> {
    let mut query = decision.query();
    (query.targets, query.split) = (vec![to], None);
    let routing = query.routing_mut();
    routing.blocked.push(ModelPattern::Exact(answered.id.to_string()));
    routing.unexplored = true;
    if let (Some(ceiling), Some(left)) = (&mut routing.max_cost, max_cost) {
        ceiling.value = left;
    }
    if let Target::Alias(position) = to
        && let Some(alias) = catalog.alias(position)
    {
        prefer(alias.weights, &mut routing.weights);
        prefer(alias.preferred_max_latency, &mut routing.preferred_max_latency);
        prefer(alias.preferred_min_throughput, &mut routing.preferred_min_throughput);
        prefer(alias.min_quality, &mut routing.min_quality);
        prefer(alias.quality_unknown, &mut routing.quality_unknown);
        let mut objective = Some(query.objective);
        prefer(alias.objective, &mut objective);
        query.objective = objective.unwrap_or(query.objective);
        query.weights = weights(&query.routing, config);
    }
    Box::new(query)
}

/// Sets what an alias says, if the request does not say it itself.
fn prefer<T: Copy>(of_this_alias: Option<T>, value: &mut Option<Sourced<T>>) {
    if value.is_none_or(|value| value.source >= Source::Alias) {
        *value = of_alias(of_this_alias).or(*value);
    }
}
