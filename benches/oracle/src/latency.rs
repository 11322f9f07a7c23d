//! Whether latency targets are held on measured latencies, and what that costs against a clairvoyant.
//!
//! A target is held in a window of five minutes, the shortest that the product reports, if no more first tokens are late than its
//! percentile allows. A request without an answer is late. The clairvoyant knows how every endpoint behaves in every part of the run
//! and sends everything to the best by objective of those that hold the target alone, in 95 % of windows.

use pointsman_domain::{Objective, Percentile, Preference, RoutingPolicy};
use pointsman_routing::stats::WINDOWS;

use crate::{
    engine::{self, Run},
    loss::losses,
    measured::{Ladder, MeasuredSet, RATE, SECONDS},
    rule::Rule,
    rules::{Holder, Targeted},
    sheet::Sheet,
};

/// Share of windows in which a target is to be held.
pub const LEAST_HELD: f64 = 0.95;
/// Most cost, relative to the clairvoyant's.
pub const MOST_COST: f64 = 1.10;
/// The targets of each set, by the beginning of its name.
const TARGETS: [(&str, [Target; 5]); 2] = [
    (
        "LLMPerf",
        [
            (Percentile::P50, 0.25),
            (Percentile::P50, 0.55),
            (Percentile::P95, 0.4),
            (Percentile::P95, 0.6),
            (Percentile::P95, 0.8),
        ],
    ),
    (
        "ComputeSDK",
        [
            (Percentile::P50, 0.6),
            (Percentile::P50, 0.8),
            (Percentile::P95, 1.2),
            (Percentile::P95, 2.0),
            (Percentile::P95, 3.0),
        ],
    ),
];

/// A percentile and its bound in seconds.
pub type Target = (Percentile, f64);

/// What came of runs under one target.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Verdict {
    /// Windows.
    pub windows: usize,
    /// Held by Pointsman.
    pub held: usize,
    /// Runs of which it did not hold the first window, in which it knows nothing yet.
    pub first_lost: usize,
    /// Held by the clairvoyant.
    pub clairvoyant_held: usize,
    /// Requests.
    pub requests: usize,
    /// Late first tokens of Pointsman.
    pub late: usize,
    /// Dollars of Pointsman; under `balanced` its loss in time and dollars.
    pub cost: f64,
    /// The same of the clairvoyant.
    pub clairvoyant_cost: f64,
}

impl Verdict {
    /// Share of windows held.
    #[must_use]
    pub fn held_share(&self) -> f64 {
        self.held as f64 / self.windows.max(1) as f64
    }

    /// Cost relative to the clairvoyant's.
    #[must_use]
    pub fn relative_cost(&self) -> f64 {
        self.cost / self.clairvoyant_cost
    }

    /// Whether it is as it is to be.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.held_share() >= LEAST_HELD && self.relative_cost() <= MOST_COST
    }

    fn add(&mut self, other: &Verdict) {
        self.windows += other.windows;
        self.held += other.held;
        self.first_lost += other.first_lost;
        self.clairvoyant_held += other.clairvoyant_held;
        self.requests += other.requests;
        self.late += other.late;
        self.cost += other.cost;
        self.clairvoyant_cost += other.clairvoyant_cost;
    }
}

/// What is asked of a set.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// The target.
    pub target: Target,
    /// The objective.
    pub objective: Objective,
    /// The prices.
    pub ladder: Ladder,
}

/// One run; `None` if no endpoint holds the target alone in some part of the time, so that nobody can.
#[must_use]
pub fn judge(set: &MeasuredSet, question: &Question, seed: u64, policy: &RoutingPolicy) -> Option<Verdict> {
    let Question { target, objective, ladder } = *question;
    let world = set.world(ladder, objective, seed);
    let mut holder = Holder::new(&world, 1.0 - most_late(target.0), target.1, objective);
    if !holder.is_able() {
        return None;
    }
    let mut targeted = Targeted::new(&world, policy.clone(), preference(target), objective);
    let [own, best] = [&mut targeted as &mut dyn Rule, &mut holder].map(|rule| engine::run(&world, rule));
    let windows = late_by_window(&own, target);
    let allowed = |window: &&[usize; 2]| window[0] as f64 <= target.0.missable() * window[1] as f64;
    let lost = |run: &Run| match objective {
        Objective::Cheapest => run.served.iter().map(|served| served.cost).sum::<f64>(),
        _ => losses(&world, &run.served)[objective as usize].0,
    };
    Some(Verdict {
        windows: windows.len(),
        held: windows.iter().filter(allowed).count(),
        first_lost: windows.iter().take(1).filter(|window| !allowed(window)).count(),
        clairvoyant_held: late_by_window(&best, target).iter().filter(allowed).count(),
        requests: own.served.len(),
        late: windows.iter().map(|window| window[0]).sum(),
        cost: lost(&own),
        clairvoyant_cost: lost(&best),
    })
}

/// True share of late first tokens with which 95 % of windows have no more of them than the percentile allows.
fn most_late(percentile: Percentile) -> f64 {
    let allowed = percentile.missable();
    allowed - 1.645 * (allowed * (1.0 - allowed) / (RATE * WINDOWS[0].as_secs_f64())).sqrt()
}

/// Late requests and all requests of each window.
fn late_by_window(run: &Run, (_, bound): Target) -> Vec<[usize; 2]> {
    let length = WINDOWS[0].as_secs_f64();
    let mut windows = vec![[0, 0]; (SECONDS / length) as usize];
    for served in &run.served {
        let is_late = !served.answered || served.first_token.is_none_or(|time| time > bound);
        if let Some([late, all]) = windows.get_mut((served.at / length) as usize) {
            *late += usize::from(is_late);
            *all += 1;
        }
    }
    windows
}

fn preference((percentile, bound): Target) -> Preference {
    let mut preference = Preference::default();
    let place = match percentile {
        Percentile::P50 => &mut preference.p50,
        Percentile::P75 => &mut preference.p75,
        Percentile::P90 => &mut preference.p90,
        Percentile::P95 => &mut preference.p95,
        Percentile::P99 => &mut preference.p99,
    };
    *place = Some(bound);
    preference
}

/// The sums of all targets of each set and of all sets, then every target, then those that nobody can hold.
#[must_use]
pub fn sheets(sets: &[MeasuredSet], seeds: &[u64], policy: &RoutingPolicy) -> [Sheet; 3] {
    let header = [
        "",
        "prices",
        "objective",
        "windows held",
        "lost, first of a run",
        "clairvoyant's",
        "late",
        "cost to the clairvoyant's",
        "reached",
    ];
    let title =
        format!("Latency targets on measured calls: {} runs of an hour for each target and price ladder", seeds.len());
    let mut sums = Sheet::new(title, header);
    let mut each = Sheet::new("Each target", header);
    let mut unable = Sheet::new("Targets that no endpoint holds alone all the time, so they are left out", [""]);
    for objective in [Objective::Cheapest, Objective::Balanced] {
        let mut total = Sum::default();
        for set in sets {
            let mut sum = Sum::default();
            for (name, question) in questions(set, objective) {
                let mut verdict = Verdict::default();
                let runs = seeds.iter().filter_map(|seed| judge(set, &question, *seed, policy));
                runs.for_each(|run| verdict.add(&run));
                if verdict.windows > 0 {
                    sum.add(&Sum { verdict, reached: usize::from(verdict.is_reached()), targets: 1 });
                    let reached = if verdict.is_reached() { "yes" } else { "no" };
                    each.row(row(&name, question.ladder.name(), objective, &verdict, reached));
                } else if objective == Objective::Cheapest && question.ladder == Ladder::Drawn {
                    unable.row([name]);
                }
            }
            sums.row(sum.row(&set.name, objective));
            total.add(&sum);
        }
        sums.row(total.row("all", objective));
    }
    [sums, each, unable]
}

/// The targets of a set, each with both ladders of prices, and what they are called.
fn questions(set: &MeasuredSet, objective: Objective) -> impl Iterator<Item = (String, Question)> {
    let targets = TARGETS.iter().filter(move |(name, _)| set.name.starts_with(name)).flat_map(|(_, targets)| *targets);
    let named = move |target: Target| (format!("{}, {} {} s", set.name, target.0.as_str(), target.1), target);
    targets.map(named).flat_map(move |(name, target)| {
        Ladder::ALL.map(|ladder| (name.clone(), Question { target, objective, ladder }))
    })
}

/// Verdicts on several targets.
#[derive(Default)]
struct Sum {
    verdict: Verdict,
    reached: usize,
    targets: usize,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.verdict.add(&other.verdict);
        self.reached += other.reached;
        self.targets += other.targets;
    }

    fn row(&self, name: &str, objective: Objective) -> [String; 9] {
        let reached = format!("{} of {}", self.reached, self.targets);
        row(name, "both", objective, &self.verdict, &reached)
    }
}

fn row(name: &str, prices: &str, objective: Objective, verdict: &Verdict, reached: &str) -> [String; 9] {
    let percent = |part: usize, whole: usize| format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64);
    [
        name.to_owned(),
        prices.to_owned(),
        objective.as_str().to_owned(),
        percent(verdict.held, verdict.windows),
        format!("{}, {}", verdict.windows - verdict.held, verdict.first_lost),
        percent(verdict.clairvoyant_held, verdict.windows),
        percent(verdict.late, verdict.requests),
        format!("{:.3}", verdict.relative_cost()),
        reached.to_owned(),
    ]
}
