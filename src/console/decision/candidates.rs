//! Candidates as bars of their score terms, and predictions against what happened.

use maud::{Markup, html};

use crate::{
    api::{
        decisions::{
            explain_view::ExplainBody,
            route_view::{ActualBody, CandidateBody, EndpointNames, PredictionBody},
        },
        models::parameters_view::PreferenceBody,
        number::Figure,
    },
    console::{
        decision::why_not,
        format,
        layout::data_table,
        svg::{self, Caption, Segment, Whisker},
        words,
    },
};

/// Classes of the terms of a score, in their order.
const TERMS: [&str; 5] = ["t1", "t2", "t3", "t4", "t5"];
/// The column of the scores ends at this many times the greater one of choice and runner-up, so that those two compare.
const SCORE_TIMES: f64 = 1.5;
/// A whisker ends at this many times the best one, so that one bad candidate does not flatten all others.
const MOST_TIMES: f64 = 6.0;

/// All candidates, the best score first.
pub(super) fn section(body: &ExplainBody<'_>) -> Markup {
    html! {
        h2 { "Candidates " span.muted { (body.candidates_total) } }
        @if body.candidates.is_empty() {
            p.empty { "No endpoint was left to choose from. The reasons are below." }
        } @else {
            @let wanted = body.parameters.preferred_max_latency.as_ref().map(|target| &target.preference.value);
            (ranking(&body.candidates, body.candidates_total, wanted, why_not::ask_why_not))
        }
    }
}

/// Candidates as bars, of `total` in all, and a table with the same numbers. The best score stands first; badges tell the
/// choice, what would be called next, and what would miss the `wanted` latency.
///
/// `ask` adds to the name of an endpoint that was not chosen.
pub(in crate::console) fn ranking(
    candidates: &[CandidateBody<'_>],
    total: usize,
    wanted: Option<&PreferenceBody>,
    ask: fn(&EndpointNames<'_>) -> Markup,
) -> Markup {
    let Some(first) = candidates.first() else { return Markup::default() };
    let names: Vec<&str> = first.score_terms.iter().map(|term| term.name).collect();
    let scale = Scale { score: score_scale(candidates), ms: longest(candidates) };
    let mut by_score: Vec<&CandidateBody<'_>> = candidates.iter().collect();
    by_score.sort_by(|one, other| one.score.value().total_cmp(&other.score.value()));
    let unit = unit(first.score_unit);
    let omitted = total.saturating_sub(candidates.len());
    let was_called = candidates.iter().any(|candidate| candidate.actual.is_some());
    html! {
        ul.legend {
            @for (class, name) in TERMS.iter().zip(&names) { li { (swatch(class)) (words::spaced(name)) } }
            li { "score in " (unit) ": the lowest wins" }
            @if candidates.iter().any(|candidate| candidate.score.value() > scale.score) {
                li { "a bar with a notch is longer than its column, which is made for the choice and the next best" }
            }
            li { (svg::whisker_key()) "predicted median to 95th percentile" }
            @if was_called { li { (svg::dot_key()) "what happened" } }
        }
        (data_table("Candidates by score, with its terms",
            html! {
                th scope="col" title="Place in the order in which endpoints are called" { "#" }
                th scope="col" { "Endpoint" }
                th.wide scope="col" { "Score" }
                th.r scope="col" { (unit) }
                th.r scope="col" title="Share of equal requests that would choose it" { "Chance" }
                th.mid scope="col" { "First token" }
                th.r scope="col" { "Expected cost" }
                th.r scope="col" { "Failure" }
                @if was_called { th scope="col" { "Then" } }
            },
            html! { @for candidate in by_score { (row(candidate, &scale, (wanted, was_called), ask)) } }))
        @if omitted > 0 {
            p.muted { (omitted) " more ranked behind these." @if was_called { " They could not have been called; the record holds only their names." } }
        }
        details.twin { summary { "The same as numbers" } (numbers(candidates, &names)) }
    }
}

/// Where the columns of bars and whiskers end.
struct Scale {
    score: f64,
    ms: f64,
}

fn row(
    candidate: &CandidateBody<'_>,
    scale: &Scale,
    (wanted, was_called): (Option<&PreferenceBody>, bool),
    ask: fn(&EndpointNames<'_>) -> Markup,
) -> Markup {
    let predicted = &candidate.predicted;
    let name = super::endpoint_text(&candidate.endpoint);
    html! {
        tr.chosen[candidate.selected] data-row {
            td.r { (candidate.rank) }
            th.endpoint scope="row" {
                (endpoint(&candidate.endpoint))
                @if !candidate.selected { (ask(&candidate.endpoint)) }
                @if candidate.selected { " " span.tag.info { "chosen" } }
                @if candidate.rank == 2 { " " span.tag { "next if it fails" } }
                @if candidate.role != "candidate" { " " span.tag.warn { (candidate.role) } }
                @if let Some(tier) = &candidate.tier {
                    @if let Some(order) = tier.provider_order { " " span.tag title="The provider's place in provider.order of the request" { "order " (order) } }
                    @if tier.preference_grade.is_some_and(|grade| grade > 0) { " " (would_miss(predicted, wanted)) }
                }
            }
            td.wide { (score_bar(candidate, &name, scale.score)) }
            td.r { (score(candidate.score, candidate.score_unit)) }
            td.r { (format::share(candidate.selection_probability.map(Figure::value))) }
            td.mid {
                (svg::whisker(
                    Caption { title: &format!("First token of {name}"), description: &first_token_sentence(candidate) },
                    Whisker {
                        p50: predicted.ttft_ms.p50.value(),
                        p95: predicted.ttft_ms.p95.value(),
                        actual: candidate.actual.as_ref().and_then(|actual| actual.ttft_ms).map(|ms| ms as f64),
                    },
                    scale.ms,
                ))
            }
            td.r { (format::estimate(predicted.cost.map(Figure::value))) }
            td.r { (format::share(Some(predicted.failure_probability.value()))) }
            @if was_called { td.t { (outcome(candidate.actual.as_ref())) } }
        }
    }
}

/// `would miss 0.8 s (expected 1.9 s)`
fn would_miss(predicted: &PredictionBody, wanted: Option<&PreferenceBody>) -> Markup {
    let missed = wanted.and_then(|wanted| {
        wanted.bounds().find_map(|(percentile, bound)| {
            let ttft = &predicted.ttft_ms;
            let expected = if percentile == "p50" { ttft.p50.value() } else { ttft.p95.value() };
            (expected > 1e3 * bound).then_some((1e3 * bound, expected))
        })
    });
    html! {
        span.tag.warn {
            @if let Some((bound, expected)) = missed {
                "would miss " (format::duration(bound)) " (expected " (format::duration(expected)) ")"
            } @else { "would miss the wanted speed" }
        }
    }
}

fn score_bar(candidate: &CandidateBody<'_>, name: &str, most: f64) -> Markup {
    let titles: Vec<String> = candidate
        .score_terms
        .iter()
        .map(|term| format!("{} {}", words::spaced(term.name), score_text(term.value.value(), candidate.score_unit)))
        .collect();
    let parts = candidate.score_terms.iter().zip(TERMS).zip(&titles);
    let segments: Vec<Segment<'_>> =
        parts.map(|((term, class), title)| Segment { class, value: term.value.value(), title }).collect();
    svg::bar(Caption { title: &format!("Score of {name}"), description: &titles.join(", ") }, &segments, most)
}

fn outcome(actual: Option<&ActualBody<'_>>) -> Markup {
    let Some(actual) = actual else { return format::none() };
    let (class, sign) = words::outcome(actual.outcome);
    html! { span.(class) { (sign) " " (words::spaced(actual.outcome)) } }
}

/// Predictions against outcomes of the candidates that were called.
pub(super) fn tried(body: &ExplainBody<'_>) -> Markup {
    let called: Vec<(&EndpointNames<'_>, &PredictionBody, &ActualBody<'_>)> =
        body.candidates
            .iter()
            .filter_map(|candidate| Some((&candidate.endpoint, &candidate.predicted, candidate.actual.as_ref()?)))
            .chain(body.excluded.iter().filter_map(|excluded| {
                Some((&excluded.endpoint, excluded.predicted.as_ref()?, excluded.actual.as_ref()?))
            }))
            .collect();
    html! {
        h2 { "Predicted against actual" }
        @if called.is_empty() {
            p.empty { "No endpoint was called." }
        } @else {
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Predictions of the decision beside what the called endpoints did" }
                    thead {
                        tr {
                            th scope="col" rowspan="2" { "Endpoint" }
                            th.group scope="colgroup" colspan="3" { "First token" }
                            th.group scope="colgroup" colspan="3" { "Whole answer" }
                            th.group scope="colgroup" colspan="2" { "Tokens/s" }
                            th.group scope="colgroup" colspan="2" { "Cost" }
                        }
                        tr {
                            th.r scope="col" { "p50" } th.r scope="col" { "p95" } th.r scope="col" { "actual" }
                            th.r scope="col" title="For an answer of the actual length" { "at this length" } th.r scope="col" { "p95" } th.r scope="col" { "actual" }
                            th.r scope="col" { "predicted" } th.r scope="col" { "actual" }
                            th.r scope="col" { "expected" } th.r scope="col" { "actual" }
                        }
                    }
                    tbody {
                        @for (names, predicted, actual) in called {
                            tr {
                                th.endpoint scope="row" { (endpoint(names)) }
                                td.r { (millis(predicted.ttft_ms.p50)) }
                                td.r { (millis(predicted.ttft_ms.p95)) }
                                td.r { (against(actual.ttft_ms.map(|ms| ms as f64), predicted.ttft_ms.p95.value())) }
                                td.r { (format::millis(actual.predicted_total_ms.map(Figure::value))) }
                                td.r { (millis(predicted.total_ms.p95)) }
                                td.r { (format::millis(Some(actual.total_ms as f64))) }
                                td.r { (format::figure(Some(predicted.throughput_tps.value()), 1)) }
                                td.r { (format::figure(actual.throughput_tps.map(Figure::value), 1)) }
                                td.r { (format::estimate(predicted.cost.map(Figure::value))) }
                                td.r { (format::money(actual.cost.map(|cost| cost.0))) }
                            }
                        }
                    }
                }
            }
            @if !body.streamed { p.muted { "The answer was not streamed, so its first token is not known." } }
        }
    }
}

/// A time, marked if it is above what was predicted for 95 of 100 requests.
fn against(actual: Option<f64>, p95: f64) -> Markup {
    let is_late = actual.is_some_and(|actual| actual > p95);
    html! {
        span.warn[is_late] title=[is_late.then_some("Slower than the predicted 95th percentile")] {
            (format::millis(actual)) @if is_late { " ▲" }
        }
    }
}

fn numbers(candidates: &[CandidateBody<'_>], names: &[&str]) -> Markup {
    html! {
        div.scroll.hide-caption tabindex="0" {
            table.numbers {
                caption { "Numbers of all candidates" }
                thead {
                    tr {
                        th scope="col" { "#" } th scope="col" { "Endpoint" }
                        @for name in names { th.r scope="col" { (words::spaced(name)) } }
                        th.r scope="col" { "score" }
                        th.r scope="col" { "first token p50" } th.r scope="col" { "p95" }
                        th.r scope="col" { "whole p50" } th.r scope="col" { "p95" }
                        th.r scope="col" { "tokens/s" } th.r scope="col" { "cost 10–90 %" }
                        th scope="col" { "health" } th.r scope="col" { "samples" } th.r scope="col" { "in flight" }
                    }
                }
                tbody {
                    @for candidate in candidates {
                        @let predicted = &candidate.predicted;
                        tr {
                            td.r { (candidate.rank) } th.endpoint scope="row" { (endpoint(&candidate.endpoint)) }
                            @for term in &candidate.score_terms { td.r { (score(term.value, candidate.score_unit)) } }
                            td.r { (score(candidate.score, candidate.score_unit)) }
                            td.r { (millis(predicted.ttft_ms.p50)) } td.r { (millis(predicted.ttft_ms.p95)) }
                            td.r { (millis(predicted.total_ms.p50)) } td.r { (millis(predicted.total_ms.p95)) }
                            td.r { (format::figure(Some(predicted.throughput_tps.value()), 1)) }
                            td.r {
                                @if let Some(range) = &predicted.cost_range {
                                    (format::estimate(Some(range.low.value()))) " – " (format::estimate(Some(range.high.value())))
                                } @else { (format::none()) }
                            }
                            td.t { span.tag.(words::condition(candidate.health.state)) { (candidate.health.state) } }
                            td.r { (format::count(candidate.health.samples)) @if !predicted.measured { " " span.muted title="Nothing was measured here yet: these are assumptions" { "assumed" } } }
                            td.r { (candidate.health.in_flight) }
                        }
                    }
                }
            }
        }
    }
}

/// The names of an endpoint: `model` on `provider`.
pub(super) fn endpoint(names: &EndpointNames<'_>) -> Markup {
    html! {
        @if let Some(model) = names.model { (format::name(model, 56)) } @else { span.muted { "removed since" } }
        @if let Some(provider) = names.provider_name { " " span.at { "on " (format::name(provider, 32)) } }
    }
}

fn millis(value: Figure) -> Markup {
    format::millis(Some(value.value()))
}

fn score(value: Figure, unit: &str) -> Markup {
    let value = value.value();
    html! { data.num value=(value) data-v=(value) { (score_text(value, unit)) } }
}

fn score_text(value: f64, unit: &str) -> String {
    match unit {
        "usd" => format::estimated_dollars(value),
        "s" => format::duration(value * 1e3),
        "probability" => format::percent(value),
        _ => format!("{value:.3}"),
    }
}

fn unit(unit: &str) -> &str {
    match unit {
        "usd" => "dollars",
        "s" => "seconds",
        "probability" => "probability of failure",
        _ => "times the median",
    }
}

fn first_token_sentence(candidate: &CandidateBody<'_>) -> String {
    let predicted = &candidate.predicted.ttft_ms;
    let (p50, p95) = (format::duration(predicted.p50.value()), format::duration(predicted.p95.value()));
    let actual = candidate.actual.as_ref().and_then(|actual| actual.ttft_ms);
    let actual = actual.map_or_else(String::new, |ms| format!(", actual {}", format::duration(ms as f64)));
    format!("predicted {p50}, 95th percentile {p95}{actual}")
}

/// Where the column of the scores ends: the longer bar of choice and runner-up takes two thirds of it.
fn score_scale(candidates: &[CandidateBody<'_>]) -> f64 {
    let score = |candidate: &CandidateBody<'_>| candidate.score.value();
    let scores = || candidates.iter().map(score).filter(|score| score.is_finite() && *score > 0.0);
    let chosen = candidates.iter().filter(|candidate| candidate.selected).map(score);
    let runner_up = candidates.iter().filter(|candidate| !candidate.selected).map(score).min_by(f64::total_cmp);
    let compared = chosen.chain(runner_up).filter(|score| score.is_finite()).fold(0.0, f64::max);
    let most = scores().fold(0.0, f64::max);
    // Both are free: the best one that is not.
    let compared = if compared > 0.0 { compared } else { scores().fold(most, f64::min) };
    most.min(SCORE_TIMES * compared)
}

/// The width of the scale of first tokens, with every outcome on it.
fn longest(candidates: &[CandidateBody<'_>]) -> f64 {
    let outcomes = candidates.iter().filter_map(|candidate| candidate.actual.as_ref()?.ttft_ms);
    let least = outcomes.map(|ms| ms as f64 * 1.05).fold(0.0, f64::max);
    limit(candidates.iter().map(|candidate| candidate.predicted.ttft_ms.p95.value()), least)
}

/// The greatest value, at most [`MOST_TIMES`] the smallest positive one and at least `least`.
fn limit(values: impl Iterator<Item = f64> + Clone, least: f64) -> f64 {
    let finite = || values.clone().filter(|value| value.is_finite() && *value > 0.0);
    let (most, best) = (finite().fold(0.0, f64::max), finite().fold(f64::INFINITY, f64::min));
    most.min(best * MOST_TIMES).max(least)
}

fn swatch(class: &str) -> Markup {
    html! { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(class) width="12" height="12" rx="2" {} } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{
        decisions::route_view::{CatalogView, candidates},
        route_samples::decision,
        samples::catalog,
    };

    /// Rows of candidates with these scores in the order of their ranks.
    fn shown<T>(scores: &[f64], unit: &'static str, check: impl FnOnce(&[CandidateBody<'_>]) -> T) -> T {
        let catalog = catalog();
        let mut decision = decision(&catalog);
        let first = decision.candidates[0].clone();
        decision.candidates.resize(scores.len(), first);
        let mut bodies = candidates(&decision, CatalogView(&catalog), scores.len());
        for (n, (body, score)) in bodies.iter_mut().zip(scores).enumerate() {
            (body.rank, body.selected) = (n + 1, n == 0);
            (body.score, body.score_unit) = (Figure::significant(*score), unit);
        }
        check(&bodies)
    }

    fn page(scores: &[f64], unit: &'static str) -> String {
        shown(scores, unit, |bodies| ranking(bodies, scores.len(), None, |_| Markup::default()).into_string())
    }

    #[test]
    fn the_scale_is_made_for_choice_and_runner_up_also_if_one_candidate_is_free() {
        for (scores, scale) in [
            (&[0.000_07, 0.000_28, 0.9, 0.000_000_831][..], 0.000_105),
            (&[0.2, 0.21, 0.22], 0.22),
            (&[0.0, 0.001, 0.5], 0.001_5),
            (&[0.0, 0.0, 0.004, 0.5], 0.006),
            (&[0.0, 0.0], 0.0),
            (&[0.3], 0.3),
            // The choice was preferred for another reason than its score.
            (&[0.9, 0.1, 3.0], 1.35),
        ] {
            let found = shown(scores, "usd", score_scale);
            assert!((found - scale).abs() < 1e-12, "{scores:?}: {found}");
        }
    }

    #[test]
    fn rows_stand_by_score_with_badges_for_the_choice_and_the_next_call() {
        let page = page(&[0.3, 0.9, 0.2], "s");
        let rows: Vec<&str> = page.split("data-row").skip(1).collect();
        let has = |row: &str| (row.contains(">chosen<"), row.contains(">next if it fails<"));
        assert_eq!(rows.iter().map(|row| has(row)).collect::<Vec<_>>(), [(false, false), (true, false), (false, true)]);
        assert!(rows[1].contains(">300 ms<") && page.contains("score in seconds"), "{page}");
    }

    #[test]
    fn a_missed_preference_is_said_in_seconds_and_not_as_a_grade() {
        let catalog = catalog();
        let mut decision = decision(&catalog);
        std::sync::Arc::make_mut(&mut decision.parameters).preferred_max_latency = Some(pointsman_domain::Sourced {
            value: pointsman_domain::Preference { p95: Some(0.4), ..Default::default() },
            source: pointsman_domain::Source::Alias,
        });
        let parameters = crate::api::models::parameters_view::ParametersBody::new(&decision);
        let bodies = candidates(&decision, CatalogView(&catalog), 1);
        let wanted = parameters.preferred_max_latency.as_ref().map(|target| &target.preference.value);
        let shown = would_miss(&bodies[0].predicted, wanted).into_string();
        assert!(shown.contains("would miss 400 ms (expected 510 ms)"), "{shown}");
        assert!(would_miss(&bodies[0].predicted, None).into_string().contains("would miss the wanted speed"));
    }
}
