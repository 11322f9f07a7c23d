//! The short version of the table, with thresholds: routing that got worse fails here.
//!
//! Fixed seeds, virtual time: what comes out is the same everywhere. The figures in benches/oracle/SIMULATION.md come from more
//! seeds, none of which anything was tuned on.

#![cfg(test)]

use pointsman_domain::Objective;
use pointsman_oracle::{
    engine, improvement, oracle, replay,
    request::Aim,
    rules::{Kind, Without, policy},
    scenario::Scenario,
    table::{self, Cell, Plan, mean_and_worst},
    traffic::{Hour, Pace, Traffic},
    world::World,
};

/// Trouble of different kinds: late answers, no answers, refused ones, and too many at once.
const SCENARIOS: [Scenario; 4] = [Scenario::Slowdown, Scenario::Limited, Scenario::Hang, Scenario::Queueing];
const SEED: u64 = 1;

/// Objective, highest mean and highest worst regret.
const THRESHOLDS: [(Objective, f64, f64); 4] = [
    (Objective::Fastest, 0.10, 0.22),
    (Objective::Cheapest, 0.02, 0.07),
    (Objective::Reliable, 0.10, 0.17),
    (Objective::Balanced, 0.055, 0.095),
];

/// Highest regret in a scenario with the requests of a real hour.
const TRACE_LIMIT: f64 = 0.16;

fn plan(aims: &[Aim], scenarios: &[Scenario], rules: &[Kind]) -> Plan {
    Plan {
        scenarios: scenarios.to_vec(),
        aims: aims.to_vec(),
        seeds: vec![SEED],
        traffic: Traffic::Poisson,
        rules: rules.to_vec(),
        policy: policy(),
    }
}

fn aims() -> [Aim; 4] {
    THRESHOLDS.map(|(objective, ..)| Aim::All(objective))
}

/// What is above its threshold.
fn faults(cells: &[Cell], kind: Kind) -> Vec<String> {
    let above = |(objective, mean_limit, worst_limit): (Objective, f64, f64)| {
        let (mean, worst) = mean_and_worst(cells.iter().filter(|cell| cell.aim == Aim::All(objective)), kind)?;
        (mean > mean_limit || worst > worst_limit).then(|| format!("{}: {mean:.3} / {worst:.3}", objective.as_str()))
    };
    THRESHOLDS.into_iter().filter_map(above).collect()
}

#[test]
fn regret_stays_low_and_no_failure_is_shown_while_an_endpoint_is_healthy() {
    let cells = table::run(&plan(&aims(), &SCENARIOS, &[Kind::Pointsman]));
    assert_eq!(faults(&cells, Kind::Pointsman), Vec::<String>::new());
    assert!(cells.iter().all(|cell| cell.regret(2) > -0.005), "the oracle is beaten");
    let avoidable: usize = cells.iter().map(|cell| cell.entry(Kind::Pointsman).unwrap().figures.avoidable).sum();
    assert_eq!(avoidable, 0, "failures shown while a healthy endpoint was there");
}

#[test]
fn the_thresholds_notice_routing_that_does_not_see_its_own_load() {
    let blind = Kind::Crippled(Without::Load);
    let aims = [Aim::All(Objective::Fastest), Aim::All(Objective::Balanced)];
    let cells = table::run(&plan(&aims, &[Scenario::Queueing], &[blind]));
    assert_eq!(faults(&cells, blind).len(), 2, "{:?}", faults(&cells, blind));
}

#[test]
fn nobody_beats_the_oracle() {
    // Pointsman itself is held against it by the thresholds above.
    let is_anchor = |kind: &Kind| matches!(kind, Kind::Oracle | Kind::Random | Kind::Pointsman);
    let rules: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| !is_anchor(kind)).collect();
    let cells = table::run(&plan(&aims(), &[Scenario::Queueing, Scenario::Flapping], &rules));
    for cell in &cells {
        for (position, entry) in cell.entries.iter().enumerate().skip(1) {
            // It does not know how the dice will fall: a rule that chooses alike may fall a little better.
            let regret = cell.regret(position);
            assert!(regret > -0.005, "{} {} {}: {regret}", cell.scenario.name(), cell.aim.name(), entry.kind.name());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let world = |seed: u64| World::draw(Scenario::Brownout, Aim::Mixed, seed);
    let run = |world: &World| engine::run(world, &mut *Kind::Pointsman.rule(world, &policy()));
    assert_eq!(run(&world(SEED)), run(&world(SEED)));
    assert_eq!(oracle::run(&world(SEED)), oracle::run(&world(SEED)));
    assert_ne!(world(SEED).requests, world(SEED + 1).requests);
}

#[test]
fn recorded_decisions_come_out_the_same_bit_for_bit() {
    let plan = plan(&[Aim::Mixed], &[Scenario::Hang, Scenario::Limited, Scenario::Errors, Scenario::Queueing], &[]);
    let replayed = replay::run(&plan, 10_000).unwrap();
    assert_eq!((replayed.decisions, replayed.identical), (10_000, 10_000));
}

#[test]
fn on_real_traffic_regret_stays_low_and_no_failure_is_shown_while_an_endpoint_is_healthy() {
    for traffic in [Traffic::Trace(Hour::Conversation, Pace::Scenario), Traffic::Trace(Hour::Code, Pace::Real)] {
        let aims = [Aim::All(Objective::Fastest), Aim::All(Objective::Balanced)];
        let plan = Plan { traffic, ..plan(&aims, &[Scenario::Slowdown, Scenario::Hang], &[Kind::Pointsman]) };
        let cells = table::run(&plan);
        for cell in &cells {
            let regret = cell.regret(2);
            let what = format!("{}, {}, {}: {regret}", traffic.name(), cell.scenario.name(), cell.aim.name());
            assert!((-0.005..TRACE_LIMIT).contains(&regret), "{what}");
            assert_eq!(cell.entry(Kind::Pointsman).unwrap().figures.avoidable, 0, "{what}");
        }
    }
}

#[test]
fn changes_by_seed_have_the_change_of_regret_as_their_mean() {
    let rules = [Kind::Pointsman, Kind::Crippled(Without::Exploration)];
    let plan = Plan { seeds: vec![1, 2], ..plan(&[Aim::Mixed], &[Scenario::Waves], &rules) };
    let cell = &table::run(&plan)[0];
    let changes = cell.changes(2, 3);
    let mean = changes.iter().sum::<f64>() / 2.0;
    assert!(changes.len() == 2 && (mean - (cell.regret(3) - cell.regret(2))).abs() < 1e-9, "{changes:?}");
    assert!(mean.abs() > 1e-6, "nothing was taken away");
}

#[test]
fn an_endpoint_that_became_five_times_faster_is_used_within_ten_half_lives() {
    let used = |seed| improvement::half_lives(Objective::Fastest, 1.0, 4, seed, &policy());
    let used: Vec<Option<usize>> = (1..41).map(used).collect();
    let shares = [5, 10].map(|after| improvement::unused(&used, after));
    assert!(shares[0] <= 0.2 && shares[1] <= 0.05, "still unused after five and ten half-lives: {shares:?}");
}
