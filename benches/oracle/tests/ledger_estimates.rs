//! What a ledger says of another policy, in worlds in which that policy ran, too.

#[cfg(test)]
mod tests {
    use pointsman_domain::Objective;
    use pointsman_oracle::{
        ledger_estimates::{Judged, TARGETS, judge},
        request::Aim,
        rules::policy,
        scenario::Scenario,
        world::World,
    };

    fn judged(scenario: Scenario, (_, weight_of_time): (&str, f64)) -> Judged {
        let world = World::draw(scenario, Aim::All(Objective::Balanced), 1);
        judge(&world, &policy(), weight_of_time).unwrap()
    }

    #[test]
    fn the_mean_weight_is_one_within_three_standard_errors_in_every_scenario() {
        for scenario in Scenario::ALL {
            let errors = judged(scenario, TARGETS[0]).weight_errors();
            assert!(errors < 3.0, "{}: {errors}", scenario.name());
        }
    }
}
