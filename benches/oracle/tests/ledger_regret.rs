//! The regret that a ledger tells, against worlds in which a clairvoyant ran, too.

#[cfg(test)]
mod tests {
    use pointsman_domain::Objective;
    use pointsman_oracle::{
        regret::{Judged, covers, judge},
        request::Aim,
        rules::policy,
        scenario::Scenario,
        world::World,
    };
    use pointsman_routing::explain::regret::Yardstick;

    /// The report and the truth for `cheapest`.
    fn judged(scenario: Scenario, seed: u64) -> Judged {
        judge(&World::draw(scenario, Aim::All(Objective::Cheapest), seed), &policy()).unwrap()
    }

    #[test]
    fn what_a_ledger_tells_is_near_the_regret_against_the_clairvoyant_and_its_parts_sum_to_it() {
        for (scenario, seed) in [(Scenario::Slowdown, 3), (Scenario::Waves, 1)] {
            let Judged { report, truth } = judged(scenario, seed);
            let dollars = |yardstick: Yardstick| report.part(yardstick)[0].unwrap().value;
            let total = dollars(Yardstick::Total);
            let parts = [Yardstick::Exploration, Yardstick::Restrictions, Yardstick::Ignorance, Yardstick::Rest];
            let sum: f64 = parts.into_iter().map(dollars).sum();
            assert!((sum - total).abs() < 1e-12 && report.requests > 5_000, "{sum} {total}");
            assert!((total / truth[0] - 1.0).abs() < 0.2, "{total} instead of {}", truth[0]);
        }
    }

    #[test]
    fn an_endpoint_that_goes_up_and_down_is_not_taken_for_one_that_could_have_been_used_all_the_time() {
        for seed in [3, 4] {
            let Judged { report, truth: [dollars, ..] } = judged(Scenario::Flapping, seed);
            let total = report.part(Yardstick::Total)[0].unwrap();
            assert!(covers(&total, dollars) && total.value < 1.5 * dollars, "{total:?} instead of {dollars}");
        }
    }
}
