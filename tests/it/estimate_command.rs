//! `pointsman estimate` and `pointsman diff --estimate`, with the real binary, on records that a gateway made.

use std::{path::Path, process::Output, sync::Arc};

use pointsman_domain::{Generation, GenerationId, Objective};
use rusqlite::Connection;
use serde_json::Value;

use crate::{
    diff_command::{diff, recorded, store, stored},
    folder::Folder,
    ledger_durable::environment,
    process,
};

fn estimate(data: &Path, arguments: &[&str], changes: &[(&str, &str)]) -> (i32, String, String) {
    let environment = environment(&data.display().to_string());
    let mut pairs: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    pairs.extend(changes);
    let all: Vec<&str> = ["estimate"].into_iter().chain(arguments.iter().copied()).collect();
    let Output { status, stdout, stderr } = process::run(&all, &pairs);
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Each record so many times, with ids and sessions of their own.
pub(crate) fn many(generations: &[Arc<Generation>], times: u64) -> Vec<Arc<Generation>> {
    let copy = |(n, generation): (u64, &Arc<Generation>)| {
        let id = GenerationId::new(generation.created_ms as u64 / 1000, [n << 32, 2, 3]);
        Arc::new(Generation { id, session_id: Some(format!("session-{n}")), ..(**generation).clone() })
    };
    (0..).zip(generations.iter().cycle().take(generations.len() * times as usize)).map(copy).collect()
}

#[actix_web::test]
async fn few_records_are_refused_with_a_remedy_and_many_give_figures_with_what_is_not_covered() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let (code, text, said) = estimate(&data, &[], &[]);
    assert_eq!(code, 2, "{text} {said}");
    assert!(text.contains("Refused, spending under") && text.contains("take a longer --since"), "{text}");

    let ledger = folder.at("many");
    store(&ledger, &many(&stored(&data), 30));
    let path = ledger.to_str().unwrap();
    let (code, text, said) = estimate(&data, &["--ledger", path], &[]);
    assert_eq!(code, 0, "{text} {said}");
    assert!(
        text.contains("Had these requests been decided by") && text.contains("Not covered: requests that"),
        "{text}"
    );
    assert!(text.contains("effective 1200 of 1200") && text.contains("mean weight 1.000 ± 0.000"), "{text}");
    let (_, json, _) = estimate(&data, &["--ledger", path, "--json", "--threads", "1"], &[]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let figures = report["samples"][0]["figures"].as_array().unwrap();
    assert_eq!((&report["verdict"], figures.len()), (&Value::from("answered"), 5), "{report:#}");
    for figure in figures {
        let change = figure["change"].as_f64().unwrap();
        let [least, most] = [0, 1].map(|end| figure["interval"][end].as_f64().unwrap_or_default());
        assert!(change.abs() < 1e-9 && least.abs() < 1e-9 && most.abs() < 1e-9, "the same configuration: {figure:#}");
    }
    assert_eq!(figures[1]["bound"]["kind"], "at_most", "no request failed: {figures:#?}");
    assert_eq!(estimate(&data, &["--ledger", path, "--json", "--threads", "16"], &[]).1, json);
    let (code, both, _) = diff(&data, &["--ledger", path, "--estimate"], &[]);
    assert!(code == 0 && both.contains("limits") == text.contains("limits"), "{both}");
    assert!(both.contains("answerable") && both.contains("Had these requests been decided by"), "{both}");
}

#[actix_web::test]
async fn the_share_of_accepted_answers_is_estimated_from_ratings_and_its_refusal_is_no_exit_code() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let ledger = folder.at("many");
    let generations = many(&stored(&data), 30);
    store(&ledger, &generations);
    let database = Connection::open(ledger.join("ledger.db")).unwrap();
    let rate = |numbers: std::ops::Range<usize>, source: &str, value: fn(usize) -> i64| {
        for (n, one) in generations[numbers.clone()].iter().enumerate() {
            let insert = "insert into ratings values (?1, (select count(*) from ratings where generation = ?1), ?3, 'm', 1, \
                          'general', 'accepted', ?2, 1, ?3, ?4, 1000000, 0, null)";
            database.execute(insert, (one.id.as_str(), source, one.created_ms, value(n))).unwrap();
        }
    };
    let acceptance = || {
        let (code, json, said) = estimate(&data, &["--ledger", ledger.to_str().unwrap(), "--json"], &[]);
        assert_eq!(code, 0, "{json} {said}");
        let report: Value = serde_json::from_str(&json).unwrap();
        report["samples"][0]["figures"].as_array().unwrap().iter().find(|one| one["figure"] == "acceptance").cloned()
    };
    assert_eq!(acceptance(), None, "nothing is rated");
    rate(0..9, "user", |_| 1_000_000);
    let few = acceptance().unwrap();
    assert!(few["refusals"][0].as_str().unwrap().contains("worth 9 requests") && few["change"].is_null(), "{few:#}");
    rate(9..900, "program", |n| if n % 4 == 0 { 0 } else { 1_000_000 });
    rate(0..900, "judge", |_| 0);
    let many = acceptance().unwrap();
    assert_eq!((&many["requests"], &many["refusals"]), (&Value::from(900), &serde_json::json!([])), "{many:#}");
    assert!((many["before"].as_f64().unwrap() - 0.7522).abs() < 1e-3 && many["interval"].is_array(), "{many:#}");
    assert!(many["sentence"].as_str().unwrap().contains("accepted answers +0.00 points"), "{many:#}");
    let text = estimate(&data, &["--ledger", ledger.to_str().unwrap()], &[]).1;
    assert!(text.contains("accepted of rated, %") && text.contains("75.0 % of the answers are rated"), "{text}");
}

#[actix_web::test]
async fn records_of_several_configurations_are_not_mixed() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    // A key that counts under `cheapest` alone, so that the others come out as they were made.
    let mut generations = stored(&data);
    generations.retain(|one| one.decision.objective.value != Objective::Cheapest);
    let mut generations = many(&generations, 30);
    for generation in generations.iter_mut().take(300) {
        let generation = Arc::make_mut(generation);
        Arc::make_mut(&mut generation.policy).cheapest_time_value = 0.5;
    }
    let ledger = folder.at("two");
    store(&ledger, &generations);
    let (code, text, said) = estimate(&data, &["--ledger", ledger.to_str().unwrap()], &[]);
    assert!(text.contains("made under 2 configurations that decide differently"), "{text} {said}");
    assert!(text.contains("600 requests") && text.contains("300 requests") && code == 0, "{text}");
    let (code, _, said) = estimate(&data, &["--ledger", ledger.to_str().unwrap(), "--since", "tomorrow"], &[]);
    assert!(code == 64 && said.ends_with("; see 'pointsman estimate --help'\n"), "{said}");
}
