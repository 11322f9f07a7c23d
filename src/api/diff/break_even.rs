//! When the cascade of an alias costs less than asking its second model alone: arithmetic of the prices in the configuration.
//!
//! The first answer is paid always, the second one where the first is broken. So a call costs `first + (1 - accepted) × second`, which is
//! less than `second` as long as a larger share than `first / second` is accepted.

use chrono::NaiveDate;
use pointsman_domain::{
    Alias, Cascade, Catalog, Endpoint, Model, Provider, Resolved, Target, Usage, Usd, grouped, shown_dollars,
};
use pointsman_routing::explain::{Acceptance, Acceptances};

/// The calls that are priced: a common size, four tokens of the prompt to one of the answer.
const CALLS: u64 = 1_000;
const PROMPT_TOKENS: u64 = 1_000;
const ANSWER_TOKENS: u64 = 250;

/// A line for each alias with a cascade that is `wanted`, under a line that says what was priced. Empty without any.
pub(crate) fn lines(
    catalog: &Catalog,
    acceptances: &Acceptances,
    today: NaiveDate,
    wanted: impl Fn(&str) -> bool,
) -> Vec<String> {
    let cascades = catalog.aliases.iter().filter_map(|alias| Some((alias, alias.cascade.as_deref()?)));
    let wanted = cascades.filter(|(alias, _)| wanted(&alias.id));
    let line = |(alias, cascade): (&Alias, &Cascade)| {
        line((catalog, today), (alias, cascade), acceptances.of(&alias.id, cascade))
    };
    let mut lines: Vec<String> = wanted.map(line).collect();
    if !lines.is_empty() {
        lines.insert(
            0,
            format!(
                "Cascades ({CALLS} calls of {PROMPT_TOKENS} + {ANSWER_TOKENS} tokens at the cheapest endpoints of both)"
            ),
        );
    }
    lines
}

fn line(
    (catalog, today): (&Catalog, NaiveDate),
    (alias, cascade): (&Alias, &Cascade),
    recorded: Option<Acceptance>,
) -> String {
    // The second answer is never asked of the model that gave the first.
    let costs = cheapest(catalog, models_of_alias(catalog, alias, today)).and_then(|(first, answered)| {
        let others = models_called(catalog, &cascade.to, today).into_iter().filter(|model| model.id != answered.id);
        Some((first, cheapest(catalog, others)?.0))
    });
    let text = match costs {
        None => "prices are not known, or nothing can be called".to_owned(),
        Some((first, second)) if second.is_zero() || first >= second => {
            format!("never pays: {} against {}", shown_dollars(first), shown_dollars(second))
        }
        Some((first, second)) => {
            let percent = (first.times(100).femto() + second.femto() / 2) / second.femto().max(1);
            format!(
                "at {0} against {1} this pays as long as more than {percent} % are accepted: {0} + (1 - accepted) x {1}; {2}",
                shown_dollars(first),
                shown_dollars(second),
                now(first, second, recorded)
            )
        }
    };
    format!("{} -> {}: {text}", alias.id, cascade.to)
}

/// How many answers are accepted now, and what that comes to.
fn now(first: Usd, second: Usd, recorded: Option<Acceptance>) -> String {
    let Some(recorded) = recorded else {
        return "how many are accepted is not known, for no recorded answer was judged by these signals".to_owned();
    };
    let (answers, escalated) = (i128::from(recorded.answers.max(1)), i128::from(recorded.escalated));
    let both = Usd::from_femto(first.femto() + second.femto().saturating_mul(escalated) / answers);
    let (of, accepted) = (grouped(u128::from(recorded.answers)), recorded.accepted() * 100.0);
    let now = format!("now {accepted:.1} % of {of} recorded answers, which comes to {}", shown_dollars(both));
    match recorded.escalated {
        0 => now,
        _ => format!("{now}; {:.1} % wait {:.2} s longer", 100.0 - accepted, recorded.seconds()),
    }
}

/// The models that an alias itself stands for: those of its ladder, else those that its lists let in.
fn models_of_alias<'c>(catalog: &'c Catalog, alias: &Alias, today: NaiveDate) -> Vec<&'c Model> {
    let ladder = alias.split.as_ref().map(|split| &*split.ladder).unwrap_or_default();
    if ladder.is_empty() {
        return listed(catalog, alias);
    }
    ladder.iter().flat_map(|name| models_called(catalog, name, today)).collect()
}

/// The models that a name stands for. An alias that another one leads to divides nothing.
fn models_called<'c>(catalog: &'c Catalog, name: &str, today: NaiveDate) -> Vec<&'c Model> {
    match catalog.resolve(name, today) {
        Resolved::Found(Target::Model(position)) => catalog.model(position).into_iter().collect(),
        Resolved::Found(Target::Alias(position)) => {
            catalog.alias(position).map(|alias| listed(catalog, alias)).unwrap_or_default()
        }
        Resolved::Retired(_) | Resolved::Unknown => Vec::new(),
    }
}

fn listed<'c>(catalog: &'c Catalog, alias: &Alias) -> Vec<&'c Model> {
    catalog.models.iter().filter(|model| alias.lists(model)).collect()
}

/// The cost of the calls at the cheapest endpoint of these models that can be called, and its model; `None` where no price is known.
fn cheapest<'c>(catalog: &'c Catalog, models: impl IntoIterator<Item = &'c Model>) -> Option<(Usd, &'c Model)> {
    let is_callable =
        |endpoint: &Endpoint| !endpoint.disabled && catalog.provider_of(endpoint).is_some_and(Provider::is_on);
    let usage = Usage { prompt_tokens: PROMPT_TOKENS, completion_tokens: ANSWER_TOKENS, ..Usage::default() };
    let endpoints = models.into_iter().flat_map(|model| catalog.endpoints_of(model)).map(|(_, endpoint)| endpoint);
    let cost =
        |endpoint: &'c Endpoint| Some((endpoint.cost(&usage)?.total().times(CALLS), catalog.model_of(endpoint)?));
    endpoints.filter(|endpoint| is_callable(endpoint)).filter_map(cost).min_by_key(|(cost, _)| *cost)
}
