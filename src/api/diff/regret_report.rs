//! Regret as JSON: the total of each alias and objective, its parts with the knob of each, and the endpoints alone.

use std::{borrow::Cow, collections::BTreeMap};

use pointsman_domain::{EndpointId, Objective};
use pointsman_routing::explain::{
    diff::LEAST_CLUSTERS,
    estimate::Finding,
    regret::{Fixed, LEAST_GROUP, Regret, RegretFigure, Restricted, Yardstick},
};
use serde::{Deserialize, Serialize};

use super::{
    regret_run::RegretReview,
    text::{percent, short, signed},
};
use crate::api::models::measurements::rfc_3339;

/// What recorded decisions came to beyond better ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RegretReport {
    /// `answered`: there are figures for the alias and objective with most requests, though the total may be refused, see
    /// `refusals`; `refused`: there are none.
    #[cfg_attr(test, schemars(with = "String"))]
    pub verdict: Cow<'static, str>,
    /// Decisions that came out of their records bit for bit as they were made: all of them, or there is no report.
    pub self_tested: u64,
    /// Those with most requests first, each with its days behind it.
    pub groups: Vec<GroupBody>,
    /// What to know before the figures are believed.
    pub warnings: Vec<String>,
}

/// Requests of one alias and objective.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct GroupBody {
    /// `null`: requests for fixed models.
    pub alias: Option<String>,
    #[cfg_attr(test, schemars(with = "String"))]
    pub objective: Cow<'static, str>,
    /// `null`: all days.
    pub day: Option<String>,
    pub requests: usize,
    /// Groups of requests that depend on each other (a session, or a key within five minutes).
    pub clusters: usize,
    /// When the oldest was admitted. RFC 3339, UTC.
    pub from: String,
    /// When the latest was admitted.
    pub until: String,
    /// Why there are no figures; `null` if there are.
    pub refusal: Option<String>,
    /// Means as they were.
    pub before: MeansBody,
    /// The total, and the parts that sum to it. Empty if refused.
    pub parts: Vec<PartBody>,
    /// Why the figures of the total, of ignorance and of the rest are `null` though there are others: endpoints that could not
    /// carry what would move to them.
    pub refusals: Vec<String>,
    /// What each restriction alone costs. They do not sum up: one may stand behind another.
    pub restrictions: Vec<RestrictionBody>,
    /// The best endpoint alone; `null` if refused.
    pub fixed: Option<FixedBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct MeansBody {
    /// Dollars per 1,000 requests.
    pub spend: Option<f64>,
    /// Share of requests.
    pub failures: Option<f64>,
    /// Seconds to the end of an answer.
    pub seconds: Option<f64>,
}

/// What the requests came to beyond a better way to decide.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PartBody {
    /// `total`, `exploration`, `restrictions`, `ignorance` or `rest`.
    #[cfg_attr(test, schemars(with = "String"))]
    pub part: Cow<'static, str>,
    /// `exact`: it follows from the records; `partial`: for some requests they do not tell it all; `estimated`: from outcomes.
    #[cfg_attr(test, schemars(with = "String"))]
    pub grade: Cow<'static, str>,
    /// Share of the requests of which the records do not tell it all.
    pub uncertain: f64,
    /// What changes it; `null` for the total and the rest.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub knob: Option<Cow<'static, str>>,
    pub figures: DifferencesBody,
    pub sentence: String,
}

/// Dollars per 1,000 requests, share of failures and seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct DifferencesBody {
    pub spend: Option<DifferenceBody>,
    pub failures: Option<DifferenceBody>,
    pub seconds: Option<DifferenceBody>,
}

/// More than the better way came to; negative: less.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct DifferenceBody {
    pub value: f64,
    pub interval: [f64; 2],
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RestrictionBody {
    /// Its parameters.
    #[cfg_attr(test, schemars(with = "String"))]
    pub restriction: Cow<'static, str>,
    /// Requests that it holds for.
    pub requests: usize,
    pub figures: DifferencesBody,
}

/// Every request at one endpoint first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct FixedBody {
    /// The best of those that were compared; `null` if there is none.
    pub endpoint: Option<String>,
    /// How many were compared. The intervals allow for having chosen the best of them.
    pub compared: usize,
    pub figures: Option<DifferencesBody>,
    pub sentence: String,
    /// Why some of its figures are refused.
    pub refusals: Vec<String>,
    /// Endpoints that could not be compared, and why.
    pub refused: BTreeMap<String, String>,
}

impl RegretReport {
    pub(crate) fn new(reviewed: &RegretReview) -> RegretReport {
        let body = |regret| GroupBody::new(regret, &reviewed.names);
        let groups: Vec<GroupBody> = reviewed.regrets.iter().map(body).collect();
        let is_answered = groups.first().is_some_and(|first| first.refusal.is_none());
        RegretReport {
            verdict: if is_answered { "answered" } else { "refused" }.into(),
            self_tested: reviewed.self_tested,
            groups,
            warnings: warnings(reviewed),
        }
    }

    /// Exit code of the command line.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.verdict == "answered" { 0 } else { 2 }
    }
}

fn warnings(reviewed: &RegretReview) -> Vec<String> {
    let left_out = |count: u64, why: &str| (count > 0).then(|| format!("{count} records {why} and are left out"));
    let all = [
        left_out(reviewed.unserved, "are of requests that no endpoint could serve"),
        left_out(reviewed.other_algorithm, "were made by another version of the algorithm"),
        left_out(reviewed.unreadable, "cannot be read"),
    ];
    all.into_iter().flatten().collect()
}

impl GroupBody {
    fn new(regret: &Regret, names: &BTreeMap<EndpointId, String>) -> GroupBody {
        let [from, until] = regret.window_ms.map(rfc_3339);
        let [spend, failures, seconds] = regret.before;
        let day = |day: i64| rfc_3339(day).chars().take(DAY).collect();
        let is_enough = regret.is_enough();
        let why = |(id, finding): &(EndpointId, Finding)| why(finding, &name(names, *id));
        let refusals: Vec<String> = regret.refusals.iter().filter(|_| is_enough).map(why).collect();
        GroupBody {
            alias: regret.group.alias.as_deref().map(str::to_owned),
            objective: regret.group.objective.as_str().into(),
            day: regret.group.day_ms.map(day),
            requests: regret.requests,
            clusters: regret.clusters,
            from,
            until,
            refusal: (!is_enough).then(|| refusal(regret)),
            before: MeansBody { spend: spend.map(|spend| spend * PER), failures, seconds },
            parts: Yardstick::ALL
                .into_iter()
                .filter(|_| is_enough)
                .map(|one| PartBody::new(one, regret, &refusals))
                .collect(),
            refusals,
            restrictions: regret.restricted.iter().filter(|_| is_enough).map(RestrictionBody::new).collect(),
            fixed: is_enough.then(|| FixedBody::new(&regret.fixed, regret.group.objective, names)),
        }
    }
}

/// Characters of a date.
const DAY: usize = 10;
/// Requests that dollars are shown for.
const PER: f64 = 1_000.0;

fn refusal(regret: &Regret) -> String {
    format!(
        "Refused: {} requests in {} groups that do not depend on each other (sessions, or keys within five minutes); {LEAST_GROUP} \
         requests in {LEAST_CLUSTERS} groups are needed. Take a longer --since, or leave out --sample.",
        regret.requests, regret.clusters
    )
}

impl PartBody {
    fn new(yardstick: Yardstick, regret: &Regret, refusals: &[String]) -> PartBody {
        let (uncertain, grade) = match yardstick {
            Yardstick::Exploration => (0.0, None),
            Yardstick::Restrictions => (regret.partial, None),
            Yardstick::Ignorance => (regret.unforeseen, None),
            Yardstick::Total | Yardstick::Rest => (regret.partial.max(regret.unforeseen), Some("estimated")),
        };
        let figures = regret.part(yardstick);
        PartBody {
            part: yardstick.as_str().into(),
            grade: grade.unwrap_or(if uncertain > 0.0 { "partial" } else { "exact" }).into(),
            uncertain,
            knob: knob(yardstick).map(Cow::Borrowed),
            figures: DifferencesBody::new(&figures),
            sentence: sentence(yardstick, uncertain, &said(&figures, regret.group.objective))
                + &refused(yardstick, refusals),
        }
    }
}

const fn knob(yardstick: Yardstick) -> Option<&'static str> {
    match yardstick {
        Yardstick::Exploration => Some("routing.exploration and routing.explore.share"),
        Yardstick::Restrictions => Some("the restrictions of requests, keys and aliases"),
        Yardstick::Ignorance => Some("routing.expert.half_life and routing.breaker"),
        Yardstick::Total | Yardstick::Rest => None,
    }
}

/// Number, interval, knob, and what is not covered.
fn sentence(yardstick: Yardstick, uncertain: f64, said: &str) -> String {
    let uncertain = percent(uncertain);
    match yardstick {
        Yardstick::Total => format!(
            "Compared with choices without chance and restrictions that know the next 60 s, these requests came to {said}. Not \
             covered: what nobody measured, and what moved traffic does to load and caches."
        ),
        Yardstick::Exploration => format!(
            "Exploration cost {said} beyond the choices without chance, by prediction; routing.exploration and \
             routing.explore.share set it. Not covered: what the explored choices taught."
        ),
        Yardstick::Restrictions => format!(
            "Restrictions cost {said} beyond the choices without those of requests, keys and aliases, by prediction. Not \
             covered: whether other answers would have been as good, and {uncertain} of the requests, of which an endpoint that \
             could have been chosen is not recorded."
        ),
        Yardstick::Ignorance => format!(
            "Ignorance cost {said} beyond the choices that know the next 60 s and what attempts before and after came to; \
             routing.expert.half_life sets how fast news count, routing.breaker how long an endpoint is not asked. Not covered: \
             what nobody measured, and endpoints of which no record of these 60 s tells ({uncertain} of the requests have one)."
        ),
        Yardstick::Rest => format!(
            "The rest of the total is {said}: what was measured beyond what was predicted, and what the next 60 s say of the other \
             parts; no key sets it."
        ),
    }
}

/// Why the total is unknown, if it is.
fn refused(yardstick: Yardstick, refusals: &[String]) -> String {
    let all = refusals.iter().filter(|_| yardstick == Yardstick::Total);
    all.map(|why| format!(" Refused, with ignorance and the rest: {why}.")).collect()
}

/// The figures that an objective is about, in words.
fn said(figures: &[Option<RegretFigure>; 3], objective: Objective) -> String {
    let [spend, failures, seconds] = figures;
    let of = |figure: &Option<RegretFigure>, scale: f64, unit: &str| match figure {
        Some(RegretFigure { value, interval: [least, most] }) => {
            let shown = |value: f64| signed_short(value * scale);
            format!("{} {unit} (95 % interval {} to {})", shown(*value), shown(*least), shown(*most))
        }
        None => format!("an unknown number of {unit}"),
    };
    let spend = || of(spend, PER, "$ per 1,000 requests");
    let seconds = || of(seconds, 1.0, "s per answer");
    match objective {
        Objective::Cheapest => spend(),
        Objective::Fastest => seconds(),
        Objective::Reliable => of(failures, 100.0, "points of failures"),
        Objective::Balanced => format!("{} and {}", spend(), seconds()),
    }
}

/// A difference, with its sign.
pub(super) fn signed_short(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    signed(&format!("{sign}{}", short(value)))
}

impl DifferencesBody {
    fn new([spend, failures, seconds]: &[Option<RegretFigure>; 3]) -> DifferencesBody {
        let body = |figure: &Option<RegretFigure>, scale: f64| {
            figure.map(|RegretFigure { value, interval }| DifferenceBody {
                value: value * scale,
                interval: interval.map(|end| end * scale),
            })
        };
        DifferencesBody { spend: body(spend, PER), failures: body(failures, 1.0), seconds: body(seconds, 1.0) }
    }
}

impl RestrictionBody {
    fn new(restricted: &Restricted) -> RestrictionBody {
        RestrictionBody {
            restriction: restricted.restriction.as_str().into(),
            requests: restricted.requests,
            figures: DifferencesBody::new(&restricted.figures),
        }
    }
}

impl FixedBody {
    fn new(fixed: &Fixed, objective: Objective, names: &BTreeMap<EndpointId, String>) -> FixedBody {
        let name = |id: EndpointId| name(names, id);
        let refused =
            fixed.refused.iter().map(|(endpoint, finding)| (name(*endpoint), why(finding, &name(*endpoint)))).collect();
        let Some(best) = &fixed.best else {
            return FixedBody {
                endpoint: None,
                compared: 0,
                figures: None,
                sentence: "Best endpoint alone: refused, because too little chance went to any. To compare them, set \
                           routing.explore.share, or take a longer --since."
                    .to_owned(),
                refusals: Vec::new(),
                refused,
            };
        };
        let endpoint = name(best.endpoint);
        let refusals = best.refusals.iter().map(|finding| why(finding, &endpoint)).collect();
        let sentence = format!(
            "Best endpoint alone: beyond {endpoint} for every request these came to {}, the best of {} that could be compared \
             ({} could not). Not covered: what all of the traffic would do to it.",
            said(&best.figures, objective),
            fixed.compared,
            fixed.refused.len()
        );
        FixedBody {
            endpoint: Some(endpoint),
            compared: fixed.compared,
            figures: Some(DifferencesBody::new(&best.figures)),
            sentence,
            refusals,
            refused,
        }
    }
}

fn name(names: &BTreeMap<EndpointId, String>, id: EndpointId) -> String {
    names.get(&id).cloned().unwrap_or_else(|| format!("endpoint {:x}", id.0))
}

/// A rule that refuses an endpoint alone: it is the one that would get more traffic.
fn why(finding: &Finding, endpoint: &str) -> String {
    match finding {
        Finding::Shifted { factor, in_flight, .. } => {
            Finding::Shifted { endpoint: endpoint.to_owned(), factor: *factor, in_flight: *in_flight }.to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pointsman_routing::explain::regret::Group;

    use super::*;

    #[test]
    fn a_group_without_a_total_says_why() {
        let crowded = EndpointId(7);
        let finding = Finding::Shifted { endpoint: String::new(), factor: f64::INFINITY, in_flight: [0.0, 4.0, 2.0] };
        let regret = Regret {
            group: Group { alias: None, objective: Objective::Fastest, day_ms: None },
            requests: LEAST_GROUP,
            clusters: LEAST_CLUSTERS,
            window_ms: [0, 1_000],
            before: [None; 3],
            parts: Yardstick::ALL.map(|one| (one, [None; 3])),
            partial: 0.0,
            unforeseen: 0.0,
            restricted: Vec::new(),
            refusals: vec![(crowded, finding)],
            fixed: Fixed { compared: 0, best: None, refused: BTreeMap::new() },
        };
        let names = BTreeMap::from([(crowded, "small at acme".to_owned())]);
        let group = GroupBody::new(&regret, &names);
        let why = "small at acme would carry traffic that it never had, about 4.0 requests in flight instead of 0.0";
        assert!(group.refusals.len() == 1 && group.refusals[0].starts_with(why), "{:?}", group.refusals);
        assert!(group.refusal.is_none() && group.parts[0].sentence.contains(why), "{group:?}");
        let few = GroupBody::new(&Regret { requests: 1, ..regret }, &names);
        assert!(few.refusals.is_empty() && few.refusal.is_some(), "{few:?}");
    }
}
