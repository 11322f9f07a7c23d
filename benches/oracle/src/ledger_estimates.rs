//! Whether estimates from ledgers hold in simulated worlds: Pointsman runs through a world and explores one request in a hundred, its
//! records are asked what other weights would have come to, and with these it runs through the same world.

use std::sync::Arc;

use pointsman_domain::{Objective, RoutingPolicy, Weights};
use pointsman_routing::explain::{
    diff::{Calibration, Comparison, LoadSample, Side},
    estimate::{Estimated, Measure, Position, Sample, estimators::Point},
};

use crate::{
    regret::{generations, means},
    request::Aim,
    rules::{exploring, logged},
    scenario::Scenario,
    sheet::Sheet,
    traffic::Traffic,
    world::World,
};

/// Share of requests that explore.
const EXPLORED: f64 = 0.01;
/// Weight of time under the other policies, by what their traffic is: nearly the same, and much of it elsewhere.
pub const TARGETS: [(&str, f64); 2] = [("weight of time 0.45", 0.45), ("weight of time 0.05", 0.05)];
/// Figures that are estimated, beside their positions among the means of a run.
const FIGURES: [Measure; 3] = [Measure::Spend, Measure::Failures, Measure::Total];

/// What a ledger says of another policy, and the truth.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Mean of all weights; it must be 1, less the unsupported share.
    pub mean_weight: Point,
    /// The unsupported share.
    pub unsupported: f64,
    /// How many times its traffic the endpoint carries that grows most.
    pub factor: f64,
    /// Dollars, failures and seconds: the estimate, and the figure of the run under the other policy.
    pub figures: Vec<(Estimated, f64)>,
}

impl Judged {
    /// By how many standard errors the mean weight is off.
    #[must_use]
    pub fn weight_errors(&self) -> f64 {
        let off = (self.mean_weight.value - (1.0 - self.unsupported)).abs();
        if off > 1e-9 { off / self.mean_weight.error } else { 0.0 }
    }
}

/// Whether an estimate of the figure itself holds the truth; one that is refused counts as its doubly robust estimate.
#[must_use]
pub fn holds(estimated: &Estimated, truth: f64) -> Option<bool> {
    let [least, most] = match estimated.interval {
        Some(change) if estimated.measure.is_absolute() => change.map(|change| estimated.before + change),
        Some(change) => change.map(|change| estimated.before * (1.0 + change)),
        None => estimated.others.as_ref()?.doubly_robust.interval(),
    };
    Some((least..=most).contains(&truth))
}

/// Asks the ledger of one run. `None` if nothing was recorded.
#[must_use]
pub fn judge(world: &World, policy: &RoutingPolicy, weight_of_time: f64) -> Option<Judged> {
    let other = Weights { latency: weight_of_time, cost: 1.0 - weight_of_time, quality: 0.0 };
    let other = RoutingPolicy { balanced: other, ..policy.clone() };
    let own = exploring(world, policy.clone(), EXPLORED);
    let truth = means(&logged(world, other.clone()).run);
    let after = Side { catalog: Arc::clone(&own.catalog), policy: Arc::new(other), objective: None };
    let comparison = Arc::new(Comparison::new(&own.catalog, &own.policy, None, &after));
    let (mut sample, mut load, mut calibration) = (Sample::default(), LoadSample::default(), Calibration::default());
    let records = generations(&own);
    records.iter().for_each(|(_, record)| calibration.add(record));
    for (id, record) in &records {
        let position = Position { draw: *id as u64, cluster: *id as u64 };
        sample.observe(&comparison, record, &calibration, position);
        load.add(record, &comparison, position.draw, position.cluster);
    }
    sample.sort();
    let adjusted = load.adjusted(&calibration, records.len() as u64, || true);
    adjusted.iter().filter(|load| load.is_settled()).for_each(|load| sample.shifts.adjust(&load.loads));
    let diagnostics = sample.diagnostics();
    let estimates = sample.estimates(|_| String::new());
    let figure = |(at, measure): (usize, &Measure)| {
        let estimated = estimates.iter().find(|estimate| estimate.measure == *measure)?;
        Some((estimated.clone(), truth[at]))
    };
    (!records.is_empty()).then(|| Judged {
        mean_weight: diagnostics.mean_weight,
        unsupported: diagnostics.unsupported,
        factor: sample.shifts.growing(sample.len()).first().map_or(1.0, |shift| shift.factor),
        figures: FIGURES.iter().enumerate().filter_map(figure).collect(),
    })
}

/// The table over these scenarios and seeds.
#[must_use]
pub fn sheet(scenarios: &[Scenario], seeds: &[u64], policy: &RoutingPolicy) -> Sheet {
    let title =
        format!("Estimates from simulated ledgers against runs under the other policy, {} runs each", seeds.len());
    let header = [
        "scenario, target, figure",
        "most traffic, times",
        "mean weight off by at most, se",
        "refused",
        "told ones hold the truth",
        "refused rightly",
    ];
    let mut sheet = Sheet::new(title, header);
    for (scenario, (target, weight)) in scenarios.iter().flat_map(|scenario| TARGETS.map(|target| (scenario, target))) {
        let world = |seed: &u64| World::with(Traffic::Poisson, *scenario, Aim::All(Objective::Balanced), *seed);
        let judged: Vec<Judged> = seeds.iter().filter_map(|seed| judge(&world(seed), policy, weight)).collect();
        let most = |of: &dyn Fn(&Judged) -> f64| judged.iter().map(of).fold(0.0, f64::max);
        for measure in FIGURES {
            let of = judged.iter().flat_map(|one| &one.figures).filter(|(one, _)| one.measure == measure);
            let (refused, told): (Vec<_>, Vec<_>) = of.partition(|(one, _)| !one.refusals.is_empty());
            let held = |of: &[&(Estimated, f64)]| {
                let held: Vec<bool> = of.iter().filter_map(|(estimated, truth)| holds(estimated, *truth)).collect();
                (held.iter().filter(|held| **held).count(), held.len())
            };
            let (all, ((right, said), (harmless, withheld))) =
                (refused.len() + told.len(), (held(&told), held(&refused)));
            sheet.row([
                format!("{}, {target}, {}", scenario.name(), measure.as_str()),
                format!("{:.1}", most(&|one| one.factor)),
                format!("{:.1}", most(&Judged::weight_errors)),
                format!("{} of {all}", refused.len()),
                format!("{right} of {said}"),
                format!("{} of {withheld}", withheld - harmless),
            ]);
        }
    }
    sheet
}
