//! Whether the regret that a ledger tells is the regret that there is: Pointsman runs through a world, its records are reviewed, and
//! it runs through the same world again, as a clairvoyant that knows the truth of every moment and decides alike.
//!
//! The report's total compares with choices that know the next minute. Both are means per request, in the figure that the objective
//! is about.

use pointsman_domain::{Generation, Objective, RoutingPolicy};
use pointsman_routing::explain::{
    estimate::Position,
    regret::{Hindsight, Regret, RegretFigure, Regrets, Timeline, Yardstick},
};

use crate::{
    engine::{self, Run},
    ledger::generations,
    request::Aim,
    rules::{Kind, Logged, Without, logged},
    scenario::Scenario,
    sheet::Sheet,
    traffic::Traffic,
    world::World,
};

/// Names of the figures, and what they are multiplied by to be shown.
const FIGURES: [(&str, f64); 3] = [("$/1k requests", 1_000.0), ("failures, %", 100.0), ("ms", 1_000.0)];

/// The report on one run, and the truth.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What the ledger tells.
    pub report: Regret,
    /// Dollars, failures and seconds beyond those of a run that decides alike and knows the truth of every moment.
    pub truth: [f64; 3],
}

/// The figures that an objective is about: dollars, failures or seconds.
#[must_use]
pub const fn own_figures(objective: Objective) -> &'static [usize] {
    match objective {
        Objective::Cheapest => &[0],
        Objective::Reliable => &[1],
        Objective::Fastest => &[2],
        Objective::Balanced => &[0, 2],
    }
}

/// Reviews a run of Pointsman, and compares it with that of the clairvoyant. `None` if nothing was recorded.
#[must_use]
pub fn judge(world: &World, policy: &RoutingPolicy) -> Option<Judged> {
    let logged = logged(world, policy.clone());
    let generations = generations(&logged);
    let report = report(&logged, &generations)?;
    let informed = engine::run(world, &mut *Kind::Crippled(Without::Ignorance).rule(world, policy));
    let [own, best] = [means(&logged.run), means(&informed)];
    Some(Judged { report, truth: [0, 1, 2].map(|figure| own[figure] - best[figure]) })
}

fn report(logged: &Logged, generations: &[(usize, Generation)]) -> Option<Regret> {
    let hindsight = Hindsight::new(&logged.catalog, &logged.policy);
    let mut timeline = Timeline::default();
    for (id, generation) in generations {
        timeline.add(generation, *id as u64);
    }
    let mut regrets = Regrets::default();
    for (id, generation) in generations {
        let position = Position { draw: *id as u64, cluster: *id as u64 };
        _ = regrets.observe(&hindsight, generation, &timeline, position);
    }
    regrets.groups(false).into_iter().next()
}

/// Mean dollars, share of failures, and mean seconds of answers.
pub(crate) fn means(run: &Run) -> [f64; 3] {
    let (all, answered) = (run.served.len() as f64, run.served.iter().filter(|served| served.answered));
    let answers = answered.clone().count() as f64;
    let dollars: f64 = run.served.iter().map(|served| served.cost).sum();
    [dollars / all, 1.0 - answers / all, answered.map(|served| served.seconds).sum::<f64>() / answers]
}

/// The table over all worlds of these scenarios and seeds, each objective alone.
#[must_use]
pub fn sheet(scenarios: &[Scenario], aims: &[Aim], seeds: &[u64], policy: &RoutingPolicy) -> Sheet {
    let title = format!("Reported regret against that of the clairvoyant, {} runs each", seeds.len());
    let header = [
        "objective, scenario",
        "figure",
        "as it was",
        "true",
        "reported",
        "reported ÷ true",
        "interval",
        "covered",
        "refused",
        "exploration",
        "ignorance",
        "rest",
    ];
    let mut sheet = Sheet::new(title, header);
    // Requests of mixed objectives have regrets of several kinds.
    let single = aims.iter().filter_map(|aim| if let Aim::All(objective) = aim { Some(*objective) } else { None });
    for objective in single {
        let mut all = Vec::new();
        for scenario in scenarios {
            let world = |seed: &u64| World::with(Traffic::Poisson, *scenario, Aim::All(objective), *seed);
            let judged: Vec<Judged> = seeds.iter().filter_map(|seed| judge(&world(seed), policy)).collect();
            for figure in own_figures(objective) {
                sheet.row(row(&judged, *figure, format!("{}, {}", objective.as_str(), scenario.name())));
            }
            all.extend(judged);
        }
        for figure in own_figures(objective) {
            sheet.row(row(&all, *figure, format!("{}, all", objective.as_str())));
        }
    }
    sheet
}

fn row(judged: &[Judged], figure: usize, name: String) -> Vec<String> {
    let (unit, scale) = FIGURES[figure];
    let part = |one: &Judged, yardstick: Yardstick| one.report.part(yardstick)[figure];
    let all = judged.len().max(1) as f64;
    let judged: Vec<&Judged> = judged.iter().filter(|one| part(one, Yardstick::Total).is_some()).collect();
    let runs = judged.len() as f64;
    let mean = |of: &dyn Fn(&Judged) -> f64| judged.iter().map(|one| of(one)).sum::<f64>() / runs;
    let value = |yardstick: Yardstick| mean(&|one| part(one, yardstick).map_or(f64::NAN, |figure| figure.value));
    let (truth, total) = (mean(&|one| one.truth[figure]), value(Yardstick::Total));
    let end = |at: usize| mean(&|one| part(one, Yardstick::Total).map_or(f64::NAN, |total| total.interval[at]));
    let covers = |one: &Judged| part(one, Yardstick::Total).is_some_and(|total| covers(&total, one.truth[figure]));
    let shown = |value: f64| format!("{:.4}", value * scale);
    vec![
        name,
        unit.to_owned(),
        shown(mean(&|one| one.report.before[figure].unwrap_or(f64::NAN))),
        shown(truth),
        shown(total),
        format!("{:.2}", total / truth),
        format!("{} to {}", shown(end(0)), shown(end(1))),
        format!("{:.0} %", 100.0 * mean(&|one| f64::from(u8::from(covers(one))))),
        format!("{:.0} %", 100.0 * (1.0 - runs / all)),
        shown(value(Yardstick::Exploration)),
        shown(value(Yardstick::Ignorance)),
        shown(value(Yardstick::Rest)),
    ]
}

/// Whether the interval holds the truth.
#[must_use]
pub fn covers(figure: &RegretFigure, truth: f64) -> bool {
    (figure.interval[0]..=figure.interval[1]).contains(&truth)
}
