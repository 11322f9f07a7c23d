//! Recorded decisions made again, against a second gateway that decided the same requests under the other configuration.

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pointsman_domain::{Catalog, RoutingPolicy, Weights};
    use pointsman_oracle::{
        ledger::generations,
        request::Aim,
        rules::{logged_beside, policy},
        scenario::Scenario,
        world::World,
    };
    use pointsman_routing::explain::diff::{Calibration, Comparison, Grade, Side};

    type Change = fn(&mut Catalog, &mut RoutingPolicy);

    const CHANGES: [Change; 5] = [
        |_, policy| policy.balanced = Weights { latency: 0.1, cost: 0.9, quality: 0.0 },
        |_, policy| (policy.cheapest_time_value, policy.exploration) = (10.0 * policy.cheapest_time_value, 0.1),
        |catalog, _| catalog.endpoints[2].disabled = true,
        |catalog, _| {
            let price = catalog.endpoints[0].pricing.take();
            catalog.endpoints[0].pricing = std::mem::replace(&mut catalog.endpoints[5].pricing, price);
        },
        |catalog, policy| {
            catalog.endpoints[1].disabled = true;
            (policy.retry.max_attempts, policy.hot_inflation) = (2, 3.0);
        },
    ];

    /// Decisions, those of them that are answered exactly, and exact ones of which the choice moves.
    fn compared(scenario: Scenario, change: Change) -> [usize; 3] {
        let world = World::draw(scenario, Aim::Mixed, 1);
        let (logged, beside) = logged_beside(&world, policy(), change);
        let beside = beside.unwrap();
        let after = Side { catalog: Arc::clone(&beside.catalog), policy: Arc::clone(&beside.policy), objective: None };
        let comparison = Comparison::new(&logged.catalog, &logged.policy, None, &after);
        let mut choices = beside.choices.iter();
        let mut counts = [0; 3];
        for (request, record) in generations(&logged) {
            let made = comparison.decide(&record, &Calibration::default()).expect("it comes out as it was made");
            let (_, choice) = choices.find(|(id, _)| *id == request).unwrap();
            let is_exact = made.grade == Grade::Exact;
            assert!(!is_exact || made.to == *choice, "{} {request}: {:?}, not {choice:?}", scenario.name(), made.to);
            let is_moved = is_exact && made.from != made.to;
            [true, is_exact, is_moved].into_iter().zip(&mut counts).for_each(|(is, n)| *n += usize::from(is));
        }
        counts
    }

    #[test]
    fn every_exact_answer_is_the_choice_of_a_gateway_that_ran_under_the_other_configuration() {
        let worlds = Scenario::ALL.into_iter().enumerate();
        let counts = worlds.map(|(at, scenario)| compared(scenario, CHANGES[at % CHANGES.len()]));
        let [all, exact, moved] = counts.fold([0; 3], |sums, counts| [0, 1, 2].map(|of: usize| sums[of] + counts[of]));
        assert!(all > 50_000 && 10 * exact > 9 * all && 20 * moved > all, "{exact} of {all} exact, {moved} moved");
    }
}
