//! Scores of models and endpoints (`quality`), the least quality that is wanted (`min_quality`), and what is doubtful about both.

use std::{collections::BTreeSet, sync::Arc};

use chrono::{Days, NaiveDate};
use pointsman_domain::{
    Alias, Catalog, Endpoint, Model, Objective, QualityFloor, QualityScore, QualityScores, Resolved, RoutingPolicy,
    Target, Task, UnknownQuality,
};

use super::{described::Words, section::Section, tree::Value};

/// Age from which a score is named by `check`.
const OLD: Days = Days::new(180);
/// Answers that a score may stand for.
const MOST_ANSWERS: u32 = 1_000_000_000;
/// Most models that a warning names.
const NAMED: usize = 5;

/// Where scores come from.
#[derive(Clone, Default)]
struct Origin {
    source: Option<Arc<str>>,
    date: Option<NaiveDate>,
    licence: Option<Arc<str>>,
    /// Whether source and date are given, right or wrong.
    is_given: [bool; 2],
}

/// The scores of a model or endpoint.
pub(super) fn read_scores(section: &Section<'_>) -> QualityScores {
    section.optional("quality", scores).unwrap_or_default()
}

fn scores(section: &Section<'_>) -> QualityScores {
    section.about(
        "How good answers are: for each class of task the share of acceptable answers. An endpoint's scores replace those of \
         its model. [POLICY.md](POLICY.md#quality) explains it.",
    );
    let shared = origin(section);
    let of_class = |task: Task| {
        let words = Words {
            kind: "table",
            absent: "unknown",
            allowed: "`score` (0 to 1), `n` (answers that were judged), `source`, `date`, `licence`",
            ..Words::NONE
        };
        section.describe(
            task.as_str(),
            "Score of this class. Its own `source`, `date` and `licence` go before those above.",
            words,
        );
        section.any(task.as_str())?;
        let score = section.optional(task.as_str(), |class| score(class, &shared))??;
        Some((task, score))
    };
    let scores: QualityScores = Task::ALL.into_iter().filter_map(of_class).collect();
    if scores.is_empty() && section.is_clean() {
        section.absence("general", "is missing, and so is every other class", "a score of at least one class of tasks");
    }
    scores
}

fn origin(section: &Section<'_>) -> Origin {
    keys! { section:
        /// Source of the scores. Scores of different sources are not comparable.
        source = filled() [absent = "required at each class"],
        /// When it was measured.
        date = day() [absent = "required at each class", kind = "date"],
        /// Under which licence the scores may be used.
        licence = filled() [absent = "none"],
    }
    let is_given = ["source", "date"].map(|key| section.has(key));
    Origin { source: source.map(Arc::from), date, licence: licence.map(Arc::from), is_given }
}

fn score(section: &Section<'_>, shared: &Origin) -> Option<QualityScore> {
    let own = origin(section);
    let score = section.number("score", 0.0..=1.0);
    let count = section.integer("n", 1..=MOST_ANSWERS);
    for (key, allowed) in [("score", "the share of acceptable answers, 0 to 1"), ("n", "how many answers were judged")]
    {
        if !section.has(key) {
            section.absence(key, "is missing", allowed);
        }
    }
    let (source, date) = (own.source.or_else(|| shared.source.clone()), own.date.or(shared.date));
    let ([own_source, own_date], [shared_source, shared_date]) = (own.is_given, shared.is_given);
    if !(own_source || shared_source) {
        section.absence("source", "is missing, here and at 'quality'", "who measured it, such as \"own-eval\"");
    }
    if !(own_date || shared_date) {
        section.absence("date", "is missing, here and at 'quality'", "when it was measured, such as 2026-11-02");
    }
    let licence = own.licence.or_else(|| shared.licence.clone());
    Some(QualityScore { score: score?, count: count?, source: source?, date: date?, licence })
}

/// `min_quality`: a number for the mean, or `{ p10 = 0.7 }` for the lower tenth.
pub(super) fn floor(section: &Section<'_>, key: &'static str) -> Option<QualityFloor> {
    const SHARE: std::ops::RangeInclusive<f64> = 0.0..=1.0;
    match section.any(key)? {
        Value::Table(_) => {
            let tenth = section.optional(key, |floor| {
                if !floor.has("p10") {
                    floor.absence("p10", "is missing", "the least lower tenth of the quality, 0 to 1");
                }
                floor.number("p10", SHARE)
            })??;
            Some(QualityFloor::Tenth(tenth))
        }
        Value::Number(_) | Value::Integer(_) => section.number(key, SHARE).map(QualityFloor::Mean),
        _ => {
            section.fault(
                key,
                "is not a quality",
                "a number from 0 to 1 (of the mean), or a table such as { p10 = 0.7 }",
            );
            None
        }
    }
}

/// What an operator should know about the scores of a catalog on this day.
pub fn quality_warnings(
    catalog: &Catalog,
    policy: &RoutingPolicy,
    objective: Objective,
    today: NaiveDate,
) -> Vec<String> {
    let old = Task::ALL.into_iter().flat_map(|task| old_scores(catalog, task, today));
    let mixed = Task::ALL.into_iter().filter_map(|task| mixed_sources(catalog, task));
    let missing = catalog.aliases.iter().filter_map(|alias| models_without_score(catalog, policy, objective, alias));
    let vain = catalog.aliases.iter().filter_map(|alias| cascade_in_vain(catalog, alias, today));
    old.chain(mixed).chain(missing).chain(vain).collect()
}

/// The scores of a class, each with the model that it is of.
fn scores_of(catalog: &Catalog, task: Task) -> impl Iterator<Item = (&Model, &QualityScore)> {
    let of_models = catalog.models.iter().map(|model| (Some(model), &model.quality));
    let of_endpoints = catalog.endpoints.iter().map(|endpoint| (catalog.model_of(endpoint), &endpoint.quality));
    of_models.chain(of_endpoints).filter_map(move |(model, scores)| Some((model?, scores.get(task)?)))
}

/// One warning for each source whose scores of a class are old.
fn old_scores(catalog: &Catalog, task: Task, today: NaiveDate) -> Vec<String> {
    let limit = today.checked_sub_days(OLD).unwrap_or(NaiveDate::MIN);
    let old = || scores_of(catalog, task).filter(|(_, score)| score.date < limit);
    let sources: BTreeSet<&str> = old().map(|(_, score)| &*score.source).collect();
    let warning = |source: &str| {
        let of_source = || old().filter(|(_, score)| &*score.source == source);
        let oldest = of_source().map(|(_, score)| score.date).min()?;
        let models = listed(of_source().map(|(model, _)| model.id.as_str()));
        Some(format!(
            "scores of '{source}' for {} are older than 180 days (since {oldest}): {models}; measure them again, or leave them out",
            task.as_str()
        ))
    };
    sources.into_iter().filter_map(warning).collect()
}

fn mixed_sources(catalog: &Catalog, task: Task) -> Option<String> {
    let sources: BTreeSet<&str> = scores_of(catalog, task).map(|(_, score)| &*score.source).collect();
    (sources.len() > 1).then(|| {
        let sources: Vec<String> = sources.iter().map(|source| format!("'{source}'")).collect();
        format!(
            "scores for {} come from several sources, which are not comparable: {}; use one source for each class",
            task.as_str(),
            sources.join(", ")
        )
    })
}

/// For an alias that uses quality and names its class: the models that have no score for it. Else those without any score.
fn models_without_score(
    catalog: &Catalog,
    policy: &RoutingPolicy,
    objective: Objective,
    alias: &Alias,
) -> Option<String> {
    let weights = alias.weights.unwrap_or(policy.balanced);
    let counts = match alias.objective.unwrap_or(objective) {
        Objective::Balanced => weights.quality > 0.0,
        Objective::Cheapest => policy.per_accepted,
        Objective::Fastest | Objective::Reliable => false,
    };
    if !counts && alias.min_quality.is_none() {
        return None;
    }
    let lacks = |endpoint: &Endpoint, model: &Model| match alias.task {
        Some(task) => catalog.quality_score(endpoint, task).is_none(),
        None => endpoint.quality.is_empty() && model.quality.is_empty(),
    };
    let without = catalog.models.iter().filter(|model| {
        let mut served = catalog.endpoints_of(model).filter(|(_, endpoint)| !endpoint.disabled);
        alias.lists(model) && served.any(|(_, endpoint)| lacks(endpoint, model))
    });
    let models: Vec<&str> = without.map(|model| model.id.as_str()).collect();
    let class = alias.task.map_or(String::new(), |task| format!(" for {}", task.as_str()));
    let what = match (alias.min_quality, alias.quality_unknown) {
        (Some(_), None | Some(UnknownQuality::Exclude)) => "it excludes them as quality_unknown",
        _ => "they count with the lowest known quality",
    };
    (!models.is_empty()).then(|| {
        format!(
            "alias '{}' uses quality, and there is no score{class} of: {}; {what}",
            alias.id,
            listed(models.into_iter())
        )
    })
}

/// For a cascade of an alias with a class: that no model of its second answers is good enough by its score.
fn cascade_in_vain(catalog: &Catalog, alias: &Alias, today: NaiveDate) -> Option<String> {
    let (cascade, task) = (alias.cascade.as_ref()?, alias.task?);
    let Resolved::Found(to) = catalog.resolve(&cascade.to, today) else { return None };
    let second = if let Target::Alias(position) = to { catalog.alias(position) } else { None };
    let own = |of: &Alias| (of.min_quality, of.quality_unknown);
    let (floor, unknown) = second.map_or((None, None), own);
    let floor = floor.or(alias.min_quality)?;
    let allows_unknown = unknown.or(alias.quality_unknown) == Some(UnknownQuality::Allow);
    // The lower tenth is below the mean.
    let (QualityFloor::Mean(least) | QualityFloor::Tenth(least)) = floor;
    let may_serve = |(_, endpoint): (u32, &Endpoint)| {
        let score = catalog.quality_score(endpoint, task);
        !endpoint.disabled && score.map_or(allows_unknown, |score| score.score >= least)
    };
    let mut models = catalog.models.iter().filter(|model| match second {
        Some(second) => second.lists(model),
        None => Some(model.id.as_str()) == catalog.target_id(to),
    });
    let is_vain = !models.any(|model| catalog.endpoints_of(model).any(may_serve));
    is_vain.then(|| {
        format!(
            "alias '{}': its cascade is in vain, for by their scores min_quality ({least}) excludes every model of '{}' for {}; lower \
             it, or name another model",
            alias.id,
            cascade.to,
            task.as_str()
        )
    })
}

/// The first names, each once, and how many more there are.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: BTreeSet<&str> = names.collect();
    let first: Vec<&str> = names.iter().copied().take(NAMED).collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
