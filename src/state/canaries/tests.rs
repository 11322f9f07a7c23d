use pointsman_domain::{Alias, Guardrail, ParameterNames, StickyBy};

use super::*;

const FAILURE: Ended = Ended { failed: true, spend: 0.0, first_token: None };

fn canary(name: &str) -> Canary {
    let guardrail = Guardrail { failures: Some(0.01), ..Guardrail::default() };
    Canary { share: 0.5, names: vec![name.to_owned()], guardrail }
}

fn split(canary: Option<Canary>) -> Arc<AliasSplit> {
    let ladder = vec!["acme/a".to_owned()];
    Arc::new(AliasSplit { sticky: StickyBy::Request, ladder, rules: Vec::new(), canary, shares: Vec::new() })
}

fn alias(name: &str, split: Option<Arc<AliasSplit>>) -> Alias {
    Alias {
        id: name.to_owned(),
        free_only: false,
        objective: None,
        task: None,
        weights: None,
        preferred_max_latency: None,
        preferred_min_throughput: None,
        min_quality: None,
        quality_unknown: None,
        spend_pace: None,
        allowed: Vec::new(),
        blocked: Vec::new(),
        split,
        cascade: None,
        description: String::new(),
    }
}

fn catalog(version: u64, aliases: Vec<Alias>) -> Catalog {
    Catalog::new(version, Vec::new(), Vec::new(), Vec::new(), aliases, &[], ParameterNames::default()).unwrap()
}

/// The catalog of this version, whose only alias divides its requests so.
fn with(version: u64, canary: Option<Canary>) -> Catalog {
    catalog(version, vec![alias("chat", Some(split(canary)))])
}

/// Ends a request of the alias at `position` of the catalog.
fn end(canaries: &Canaries, catalog: &Catalog, position: u32, part: SplitPart) {
    let split = catalog.alias(position).and_then(|alias| alias.split.clone()).unwrap();
    let requested = vec![Target::Alias(position)];
    let (sticky, place, canary_stopped) = (StickyBy::Request, 0, false);
    let taken = TakenSplit { requested, alias: position, split, sticky, place, canary_stopped, part, probability: 0.5 };
    canaries.ended(catalog, &taken, FAILURE);
}

/// Requests of the canary of the first alias in the report, and of the others.
fn counted(canaries: &Canaries, catalog: &Catalog) -> Option<(u64, u64)> {
    let evidence = canaries.report(catalog).into_iter().next()?.1.trial?.evidence;
    Some((evidence.canary.requests, evidence.others.requests))
}

#[test]
fn requests_from_before_a_reload_do_not_end_the_trial_that_it_began() {
    let canaries = Canaries::open(1, None);
    let (before, after) = (with(1, Some(canary("acme/old"))), with(2, Some(canary("acme/new"))));
    end(&canaries, &before, 0, SplitPart::Canary);
    for _ in 0..3 {
        end(&canaries, &after, 0, SplitPart::Canary);
        end(&canaries, &before, 0, SplitPart::Canary);
        end(&canaries, &before, 0, SplitPart::Own);
        end(&canaries, &after, 0, SplitPart::Own);
    }
    assert_eq!(counted(&canaries, &after), Some((3, 3)));
    assert_eq!(canaries.report(&after)[0].1.trial.as_ref().unwrap().canary, canary("acme/new"));
}

#[test]
fn requests_from_before_a_reload_count_for_a_canary_that_it_left_as_it_was() {
    let canaries = Canaries::open(1, None);
    let (before, after) = (with(1, Some(canary("acme/b"))), with(2, Some(canary("acme/b"))));
    end(&canaries, &before, 0, SplitPart::Canary);
    end(&canaries, &after, 0, SplitPart::Own);
    end(&canaries, &before, 0, SplitPart::Canary);
    assert_eq!(counted(&canaries, &after), Some((2, 1)));
}

#[test]
fn a_request_counts_for_the_alias_of_its_own_catalog() {
    let canaries = Canaries::open(1, None);
    let divided = |name| alias(name, Some(split(Some(canary("acme/b")))));
    let before = catalog(1, vec![divided("chat"), divided("code")]);
    let after = catalog(2, vec![divided("code"), divided("chat")]);
    end(&canaries, &before, 0, SplitPart::Canary);
    end(&canaries, &after, 0, SplitPart::Canary);
    end(&canaries, &before, 0, SplitPart::Canary);
    let requests: Vec<(String, u64)> =
        canaries.report(&after).into_iter().map(|(name, alias)| (name, alias.parts[0].1)).collect();
    assert_eq!(requests, [("chat".to_owned(), 2), ("code".to_owned(), 1)]);
}

#[test]
fn what_the_newest_catalog_does_not_divide_is_forgotten() {
    let canaries = Canaries::open(1, None);
    let before = with(1, Some(canary("acme/b")));
    [SplitPart::Canary, SplitPart::Own].into_iter().for_each(|part| end(&canaries, &before, 0, part));
    let without_canary = with(2, None);
    let kept = canaries.report(&without_canary);
    assert_eq!((kept[0].1.parts.as_slice(), kept[0].1.trial.is_some()), (&[(SplitPart::Own, 1)][..], false));
    let undivided = catalog(3, vec![alias("chat", None)]);
    assert!(canaries.report(&undivided).is_empty());
    end(&canaries, &before, 0, SplitPart::Canary);
    assert!(canaries.report(&undivided).is_empty(), "by a request from before");
}

#[test]
fn canaries_that_fall_back_at_once_are_all_in_the_file() {
    let directory = std::env::temp_dir().join(format!("pointsman-canaries-{}", std::process::id()));
    let canaries = Canaries::open(1, Some(&directory));
    let names: Vec<String> = (0..32).map(|n| format!("chat-{n}")).collect();
    let writers: Vec<_> = names.iter().filter_map(|name| canaries.stop(line(name, &canary("acme/b")))).collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let restarted = Canaries::open(1, Some(&directory));
    std::fs::remove_dir_all(&directory).unwrap();
    let lost: Vec<_> = names.iter().filter(|name| !restarted.has_stopped(name, &canary("acme/b"))).collect();
    assert!(lost.is_empty(), "{lost:?}");
}
