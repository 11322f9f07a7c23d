//! What simulated ledgers say of another policy.

#[cfg(test)]
mod tests {
    use pointsman_domain::{Objective, RoutingPolicy};
    use pointsman_oracle::{ledger::sample, request::Aim, rules::policy, scenario::Scenario, shift, world::World};

    /// One of so many requests: their probabilities take most of the time.
    const EVERY: usize = 10;

    #[test]
    fn the_mean_weight_is_one_in_every_kind_of_trouble() {
        let other = RoutingPolicy { exploration: 0.2, ..policy() };
        for scenario in Scenario::ALL {
            let world = World::draw(scenario, Aim::All(Objective::Balanced), 1);
            let diagnostics = sample(&world, [&policy(), &other], EVERY).diagnostics();
            let weight = diagnostics.mean_weight;
            let name = scenario.name();
            assert!(diagnostics.effective > 200.0 && weight.error < 0.1, "{name}: {diagnostics:?}");
            assert!((weight.value - 1.0).abs() <= 3.0 * weight.error + 1e-9, "{name}: {diagnostics:?}");
        }
    }

    #[test]
    fn times_are_refused_where_a_limited_endpoint_would_get_five_times_its_traffic_and_told_where_it_hardly_grows() {
        let [little, much] = shift::judge(Scenario::Limited, 4);
        let (little, much) = (little.unwrap(), much.unwrap());
        assert!(much.is_refused_for_shift(), "{:?}", much.estimated.refusals);
        assert!(little.estimated.refusals.is_empty() && little.covers() == Some(true), "{little:?}");
    }
}
