//! The answer of a comparison as JSON.

use std::{borrow::Cow, collections::BTreeMap};

use pointsman_domain::EndpointId;
use pointsman_ledger::traffic::Exported;
use pointsman_routing::explain::diff::{
    Answerable, Change, Estimate, Example, Grade, LEAST_CLUSTERS, Load, LoadAdjusted, Moved, Nearness, Tally,
};
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    answered::{loses_calls, no_answer, verdict},
    configuration::ComparedConfiguration,
    limit::{Limit, Verdict},
    recorded::ExplorationBody,
    run::{Compared, DiffRequest},
};
use crate::api::models::measurements::rfc_3339;

/// Most moves and causes that are listed.
const MOST_LISTED: usize = 20;
/// Share of the spending at other prices than recorded from which on it is warned of.
const MUCH_REPRICED: f64 = 0.2;
/// Smaller effects of load on a figure, as shares of it, are not shown ...
const LEAST_EFFECT: f64 = 0.0005;
/// ... nor fewer added requests in flight.
const LEAST_LOAD: f64 = 0.05;
/// Age of an export, in days, from which on it is warned of.
const OLD_DAYS: i64 = 30;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

view! {
    /// What another configuration would have chosen for recorded traffic.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct DiffReport {
        pub(crate) fn new(compared: &Compared, request: &DiffRequest, now_ms: i64) {
            let tally = &compared.tally;
            let (estimates, bounds) = (tally.estimates(), tally.spend_bounds());
            let loses_calls = loses_calls(tally);
            let limit = |limit: &Limit| {
                let verdict = match loses_calls && limit.is_of_served() {
                    true => Verdict::Unknown,
                    false => limit.verdict(&estimates, bounds, request.strict),
                };
                (verdict, LimitBody { limit: limit.text.clone(), verdict: verdict.as_str().into() })
            };
            let (verdicts, limits): (Vec<Verdict>, Vec<LimitBody>) = request.limits.iter().map(limit).unzip();
            let no_answer = no_answer(tally, &verdicts);
            let digest = |compared: &ComparedConfiguration| compared.sha256.clone();
            let (moves, other_moves) = moves(compared);
            let changes = |is_covered: bool| {
                let covered = |change: &&Change| (change.answerable != Answerable::AfterChoice) == is_covered;
                compared.changes.iter().filter(covered).map(ChangeBody::new).collect()
            };
        }

        /// `kept`: every limit is kept, or there is none; `broken`: one is broken; `no_answer`: less than 90 % of the decisions are
        /// answered, or a limit cannot be judged.
        #[cfg_attr(test, schemars(with = "String"))]
        pub verdict: Cow<'static, str> = verdict(tally, &verdicts).into(),
        /// Why there is no answer, or a limit is not judged; `null` without a reason.
        #[serde(default)]
        pub no_answer: Option<String> = no_answer,
        /// The configuration before; `as recorded` if it is that of each decision.
        pub before: String =
            request.before.as_ref().map_or_else(|| "as recorded".to_owned(), |before| before.name.clone()),
        /// SHA-256 of its text; `null` if it is that of each decision.
        #[serde(default)]
        pub before_sha256: Option<String> = request.before.as_ref().and_then(digest),
        /// The configuration after.
        pub after: String = request.after.name.clone(),
        /// SHA-256 of its text; `null` if it was given as changes, or has no file.
        #[serde(default)]
        pub after_sha256: Option<String> = digest(&request.after),
        /// Decisions that came out of their records bit for bit as they were made: all of them, or there is no report.
        pub self_tested: u64 = compared.self_tested,
        pub records: RecordsBody = RecordsBody::new(compared, request),
        /// Keys that differ and change decisions.
        pub changes: Vec<ChangeBody> = changes(true),
        /// Keys that differ and change only what happens after a choice: nothing here tells their effect.
        pub not_covered: Vec<ChangeBody> = changes(false),
        /// What a higher `routing.explore.share` costs and tells, by the records; `null` if it is not higher.
        #[serde(default)]
        pub exploration: Option<ExplorationBody> = compared.exploration.clone(),
        /// When the second answers of cascades that change pay, and how many first answers the records show as accepted.
        #[serde(default)]
        pub cascades: Vec<String> = compared.cascades.clone(),
        pub answerable: AnswerableBody = AnswerableBody::new(tally),
        /// Whether partial answers are left out of all figures.
        #[serde(default)]
        pub exact_only: bool = request.exact_only,
        /// Endpoints that could be the choice and were never measured, those of the most decisions first; at most 20.
        #[serde(default)]
        pub never_measured: Vec<NeverMeasuredBody> = never_measured(compared),
        /// How near an open loop comes to the records; `null` if single decisions answer everything.
        #[serde(default)]
        pub open_loop: Option<OpenLoopBody> = compared.open_loop.as_ref().map(OpenLoopBody::new),
        /// Decisions with another choice.
        pub changed: u64 = tally.moved,
        /// Decisions for which no endpoint is left, before and after.
        pub unserved: [u64; 2] = tally.unserved,
        /// Figures before and after.
        pub figures: Vec<FigureBody> =
            estimates.iter().map(|estimate| FigureBody::new(estimate, compared.open_loop.is_some())).collect(),
        /// What the moves do to the load of endpoints, and so to the figures; `null` without moves, and in an open loop.
        #[serde(default)]
        pub load: Option<LoadBody> =
            compared.load.as_ref().map(|load| LoadBody::new(load, &estimates, &compared.names)),
        /// Why figures have no intervals; `null` if they have.
        pub no_interval: Option<String> = no_interval(tally),
        /// Least and highest change of spending, as shares, if every uncertain choice were the cheapest possible and answered at once, or
        /// the dearest possible with all attempts after it; `null` if all choices are certain.
        pub spend_bounds: Option<[f64; 2]> = bounds.filter(is_bounded),
        /// The tokens of moved decisions at the list prices of both choices; `null` without any.
        pub repriced: Option<RepricedBody> = RepricedBody::new(tally),
        /// What moved decisions, the most frequent first.
        pub causes: Vec<CauseBody> = causes(compared),
        /// From where to where, the most frequent first; at most 20. Decisions that stay and cost something else are among them.
        pub moves: Vec<MoveBody> = moves,
        /// All further moves together; `null` without any.
        #[serde(default)]
        pub other_moves: Option<OtherMovesBody> = other_moves,
        /// The decisions that change the cost most.
        pub examples: Vec<ExampleBody> =
            tally.examples.iter().map(|example| ExampleBody::new(example, &compared.names)).collect(),
        pub limits: Vec<LimitBody> = limits,
        /// What to know before the figures are believed.
        pub warnings: Vec<String> = warnings(compared, now_ms),
    }
}

view! {
    /// The records behind the report.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct RecordsBody {
        fn new(compared: &Compared, request: &DiffRequest) {
            let at = |at: usize| compared.window_ms.and_then(|window| window.get(at).copied()).map(rfc_3339);
        }

        /// When the oldest was admitted. RFC 3339, UTC.
        pub from: Option<String> = at(0),
        /// When the latest was admitted. RFC 3339, UTC.
        pub until: Option<String> = at(1),
        /// Number of records that a sample was drawn from; `null` if all were taken.
        #[serde(default)]
        pub sampled_from: Option<u64> = request.wanted.sample.map(|sample| sample.drawn_from),
        /// What an export says of itself; `null` for a ledger.
        #[serde(default)]
        pub exported: Option<ExportBody> = compared.exported.as_ref().map(ExportBody::new),
        /// Records that cannot be read.
        pub unreadable: u64 = compared.unreadable,
        /// Records of another version of the algorithm, which are left out.
        pub other_algorithm: u64 = compared.other_algorithm,
        /// Groups of records that depend on each other (a session, or a key within five minutes); `null` above 100,000.
        pub clusters: Option<usize> = compared.tally.clusters(),
    }
}

view! {
    /// An export.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct ExportBody {
        fn new(exported: &Exported) {}

        /// When it was written. RFC 3339, UTC.
        pub written_at: String = rfc_3339(exported.written_ms),
        /// Its records.
        pub records: u64 = exported.records,
        /// Number of records that they were drawn from.
        pub drawn_from: u64 = exported.drawn_from,
        /// SHA-256 of its content, as the export printed it.
        pub sha256: String = exported.sha256.clone(),
    }
}

/// An endpoint of which nothing is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct NeverMeasuredBody {
    /// The endpoint.
    pub endpoint: String,
    /// Decisions that have no answer because it could be the choice.
    pub decisions: u64,
}

/// One difference of the configurations.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ChangeBody {
    /// The key, or what it is about.
    pub key: String,
    /// Value before, where it is short.
    pub before: Option<String>,
    /// Value after.
    pub after: Option<String>,
}

view! {
    /// How far the records answer.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct AnswerableBody {
        fn new(tally: &Tally) {
            let of = |grade| tally.grades.get(&grade).copied().unwrap_or_default();
        }

        /// All decisions.
        pub decisions: u64 = tally.decisions,
        /// The choice follows from the record.
        pub exact: u64 = of(Grade::Exact),
        /// An endpoint that the record leaves out could be the choice, or change a median.
        pub partial: u64 = of(Grade::Partial),
        /// The choices before and after follow from statistics and breakers in which the recorded attempts happened again.
        pub open_loop: u64 = of(Grade::OpenLoop),
        /// An endpoint could be the choice that was never measured.
        pub none: u64 = of(Grade::None),
    }
}

view! {
    /// The self test of an open loop: the recorded attempts under the constants that were running.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct OpenLoopBody {
        fn new(nearness: &Nearness) {}

        /// Attempts that happened again.
        pub attempts: u64 = nearness.attempts,
        /// Attempts that are left out, because their record does not hold the figures of their endpoint.
        pub left_out: u64 = nearness.unplaced,
        /// Share of the decisions that come to the recorded choice.
        pub same_choices: f64 = nearness.alike_share(),
        /// Share of the decisions whose recorded choice has estimates of its own again; the others keep what was recorded.
        pub estimated: f64 = nearness.estimated_share(),
        /// Mean difference of the predicted time to the first token from the recorded one, as a share.
        pub first_token_off: f64 = nearness.times_apart(),
        /// Mean difference of the predicted probability of failure.
        pub failures_off: f64 = nearness.failures_apart(),
    }
}

/// One figure before and after.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct FigureBody {
    /// `spend` (dollars per 1,000 requests), `first_token_p50`, `first_token_p95`, `total_p50` (seconds), `failures` (share).
    #[cfg_attr(test, schemars(with = "String"))]
    pub figure: Cow<'static, str>,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Change as a share of the figure before; of failures the difference of the shares. `null` if there was nothing before.
    #[serde(deserialize_with = "unbounded")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub delta: f64,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// `predicted`: by the model of the gateway, corrected by what was measured. `open_loop`: the same, on both sides with statistics
    /// in which the recorded attempts happened again. `modelled`: with the load that the moves bring about.
    #[cfg_attr(test, schemars(with = "String"))]
    pub how: Cow<'static, str>,
}

view! {
    /// Figures with the requests in flight that the moves add to endpoints and take from them: by Little's law, to first order.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct LoadBody {
        /// `exact`: the figures of all decisions.
        fn new(load: &LoadAdjusted, exact: &[Estimate], names: &BTreeMap<EndpointId, String>) {
            let changes = |(plain, adjusted): &(&Estimate, &Estimate)| {
                (adjusted.after - plain.after).abs() > LEAST_EFFECT * plain.after.abs()
            };
            let adjusted = |plain: &&Estimate| load.adjusted.iter().find(|adjusted| adjusted.metric == plain.metric);
            let figures = load.plain.iter().filter_map(|plain| Some((plain, adjusted(&plain)?))).filter(changes);
            let figure = |(plain, adjusted): (&Estimate, &Estimate)| {
                let exact = exact.iter().find(|exact| exact.metric == plain.metric)?;
                Some(FigureBody::modelled(exact, adjusted.after, plain.after))
            };
            let endpoint = |load: &Load| {
                let [before, after] = load.in_flight;
                if after - before < LEAST_LOAD {
                    return None;
                }
                Some(EndpointLoadBody { endpoint: names.get(&load.endpoint)?.clone(), before, after, knee: load.knee })
            };
        }

        /// Decisions that it was computed from.
        pub decisions: u64 = load.decisions,
        /// How often they were made again until shares stood still; at most five times.
        pub rounds: u32 = load.rounds,
        /// By how much the share of an endpoint still moved in the last round, at most.
        pub last_move: f64 = load.last_move,
        /// The figures that the load changes by 0.05 % or more.
        pub figures: Vec<FigureBody> = figures.filter_map(figure).collect(),
        /// The endpoints that get 0.05 or more requests in flight more, the fullest first.
        pub endpoints: Vec<EndpointLoadBody> = load.loads.iter().filter_map(endpoint).take(MOST_LISTED).collect(),
    }
}

/// Mean load of an endpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EndpointLoadBody {
    /// The endpoint.
    pub endpoint: String,
    /// Requests in flight as recorded.
    pub before: f64,
    /// Requests in flight after the change.
    pub after: f64,
    /// Requests in flight from which on it slows down.
    pub knee: f64,
}

/// Tokens as they were, at other list prices.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RepricedBody {
    /// Moved decisions behind it.
    pub decisions: u64,
    /// US dollars at the choices before.
    pub before_usd: f64,
    /// US dollars at the choices after. Another model may write more or less.
    pub after_usd: f64,
}

/// What moved decisions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CauseBody {
    /// The smallest set of changes that moves them; empty if none was found.
    pub changes: Vec<String>,
    /// Moved decisions.
    pub decisions: u64,
    /// Change of their cost, US dollars.
    pub cost_usd: f64,
}

/// Decisions that move alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct MoveBody {
    /// The choice before; `null` if no endpoint could serve.
    pub from: Option<String>,
    /// The choice after.
    pub to: Option<String>,
    /// Their number.
    pub decisions: u64,
    /// Change of their cost, US dollars.
    pub cost_usd: f64,
}

/// Moves that are not listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct OtherMovesBody {
    /// Their number.
    pub moves: usize,
    /// Their decisions.
    pub decisions: u64,
    /// Change of the cost of these, US dollars.
    pub cost_usd: f64,
}

view! {
    /// One moved decision.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct ExampleBody {
        fn new(example: &Example, names: &BTreeMap<EndpointId, String>) {
            let name = |id: Option<EndpointId>| id.and_then(|id| names.get(&id).cloned());
            let [from, to] = example.scores();
        }

        /// Id of the generation; of an export `#` and its number.
        pub record: String = example.name.clone(),
        /// Objective.
        #[cfg_attr(test, schemars(with = "String"))]
        pub objective: Cow<'static, str> = example.objective.into(),
        /// The choice before.
        pub from: Option<String> = name(example.from),
        /// Its score.
        pub from_score: Option<f64> = Some(from).filter(|score| score.is_finite()),
        /// The choice after.
        pub to: Option<String> = name(example.to),
        /// Its score under the configuration after.
        pub to_score: Option<f64> = Some(to).filter(|score| score.is_finite()),
        /// Change of the expected cost, US dollars.
        pub cost_usd: f64 = dollars(i128::from(example.cost)),
        /// Change of the time to the first token, seconds.
        pub first_token_s: f64 = example.first_token as f64 / 1e9,
    }
}

/// A limit and its verdict.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct LimitBody {
    /// As it was written.
    pub limit: String,
    /// `kept`, `broken`, or `unknown` without such a figure.
    #[cfg_attr(test, schemars(with = "String"))]
    pub verdict: Cow<'static, str>,
}

impl DiffReport {
    /// Exit code of the command line.
    pub(crate) fn exit_code(&self) -> u8 {
        match &*self.verdict {
            "kept" => 0,
            "broken" => 1,
            _ => 2,
        }
    }
}

fn no_interval(tally: &Tally) -> Option<String> {
    let clusters = tally.clusters().filter(|clusters| *clusters < LEAST_CLUSTERS)?;
    let groups = match clusters {
        1 => "one group: all of them depend on each other (a session, or a key within five minutes)".to_owned(),
        _ => format!("{clusters} groups that do not depend on each other (sessions, or keys within five minutes)"),
    };
    Some(format!("the records form {groups}, and an interval needs {LEAST_CLUSTERS} groups"))
}

fn warnings(compared: &Compared, now_ms: i64) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(exported) = &compared.exported {
        let age = now_ms.saturating_sub(exported.written_ms) / DAY_MS;
        if age > OLD_DAYS {
            warnings.push(format!("the export is {age} days old: write a new one"));
        }
    }
    if !compared.assumed_on.is_empty() {
        let keys: Vec<&str> = compared.assumed_on.iter().map(String::as_str).collect();
        let keys = keys.join(", ");
        warnings.push(format!("the keys of {keys} are not on this machine; these providers count as on, as recorded"));
    }
    if compared.other_algorithm > 0 {
        let count = compared.other_algorithm;
        warnings.push(format!("{count} records were made by another version of the algorithm and are left out"));
    }
    if compared.unreadable > 0 {
        warnings.push(format!("{} records cannot be read and are left out", compared.unreadable));
    }
    let (much, spent) = (compared.tally.priced_otherwise as f64, compared.tally.cost[0] as f64);
    if much > MUCH_REPRICED * spent {
        warnings.push(format!(
            "{:.1} % of the spending before is at other prices than when it was recorded: take newer records",
            100.0 * much / spent
        ));
    }
    if compared.tally.unserved[1] > compared.tally.unserved[0] {
        let more = compared.tally.unserved[1] - compared.tally.unserved[0];
        warnings.push(format!("{more} more decisions would have no endpoint: they count as failed and cost nothing"));
    }
    warnings
}

impl ChangeBody {
    fn new(change: &Change) -> ChangeBody {
        let [before, after] = change.values.clone().map_or([None, None], |values| values.map(Some));
        ChangeBody { key: change.key.clone(), before, after }
    }
}

impl FigureBody {
    fn new(estimate: &Estimate, is_open: bool) -> FigureBody {
        let Estimate { metric, before, after, delta, interval } = *estimate;
        let how = if is_open { "open_loop" } else { "predicted" };
        let interval = interval.filter(is_bounded);
        FigureBody { figure: metric.as_str().into(), before, after, delta, interval, how: how.into() }
    }

    /// A figure times what the load made of it in a part of the decisions.
    fn modelled(exact: &Estimate, with_load: f64, without: f64) -> FigureBody {
        let after = if without > 0.0 { exact.after * with_load / without } else { with_load };
        let delta = match exact.before {
            before if exact.metric.is_absolute() => after - before,
            before if before > 0.0 => after / before - 1.0,
            _ => 0.0,
        };
        let figure = exact.metric.as_str().into();
        FigureBody { figure, before: exact.before, after, delta, interval: None, how: "modelled".into() }
    }
}

impl RepricedBody {
    fn new(tally: &Tally) -> Option<RepricedBody> {
        let (decisions, [before, after]) = tally.repriced;
        (decisions > 0).then(|| RepricedBody { decisions, before_usd: dollars(before), after_usd: dollars(after) })
    }
}

/// Several changes at once are not told apart in an open loop.
fn causes(compared: &Compared) -> Vec<CauseBody> {
    let deciding = compared.changes.iter().filter(|change| change.answerable != Answerable::AfterChoice);
    if compared.open_loop.is_some() && deciding.count() > 1 {
        return Vec::new();
    }
    let cause = |(bits, moved): (&u64, &Moved)| {
        let changes = compared.changes.iter().enumerate().filter(|(bit, _)| *bit < 64 && bits >> bit & 1 == 1);
        CauseBody {
            changes: changes.map(|(_, change)| change.key.clone()).collect(),
            decisions: moved.decisions,
            cost_usd: dollars(moved.cost),
        }
    };
    let mut causes: Vec<CauseBody> = compared.tally.reasons.iter().map(cause).collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.decisions));
    causes.truncate(MOST_LISTED);
    causes
}

fn never_measured(compared: &Compared) -> Vec<NeverMeasuredBody> {
    let of = |(endpoint, decisions): (&EndpointId, &u64)| {
        Some(NeverMeasuredBody { endpoint: compared.names.get(endpoint)?.clone(), decisions: *decisions })
    };
    let mut never: Vec<NeverMeasuredBody> = compared.tally.unmeasured.iter().filter_map(of).collect();
    never.sort_by(|one, other| other.decisions.cmp(&one.decisions).then_with(|| one.endpoint.cmp(&other.endpoint)));
    never.truncate(MOST_LISTED);
    never
}

/// The most frequent ones, and all others together.
fn moves(compared: &Compared) -> (Vec<MoveBody>, Option<OtherMovesBody>) {
    let name = |id: &Option<EndpointId>| id.and_then(|id| compared.names.get(&id).cloned());
    let of = |((from, to), moved): (&(Option<EndpointId>, Option<EndpointId>), &Moved)| MoveBody {
        from: name(from),
        to: name(to),
        decisions: moved.decisions,
        cost_usd: dollars(moved.cost),
    };
    let mut moves: Vec<MoveBody> = compared.tally.moves.iter().map(of).collect();
    moves.sort_by(|one, other| {
        other.decisions.cmp(&one.decisions).then_with(|| (&one.from, &one.to).cmp(&(&other.from, &other.to)))
    });
    let others = moves.split_off(MOST_LISTED.min(moves.len()));
    let others = (!others.is_empty()).then(|| OtherMovesBody {
        moves: others.len(),
        decisions: others.iter().map(|one| one.decisions).sum(),
        cost_usd: others.iter().map(|one| one.cost_usd).sum(),
    });
    (moves, others)
}

fn is_bounded(ends: &[f64; 2]) -> bool {
    ends.iter().all(|end| end.is_finite())
}

/// JSON has `null` for a growth from nothing.
fn unbounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

fn dollars(picodollars: i128) -> f64 {
    picodollars as f64 / 1e12
}
