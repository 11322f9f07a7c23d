//! `pointsman regret`, with the real binary, on records that a gateway made.

use std::{path::Path, process::Output};

use serde_json::Value;

use crate::{
    diff_command::{recorded, store, stored},
    estimate_command::many,
    folder::Folder,
    ledger_durable::environment,
    process,
};

fn regret(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let environment = environment(&data.display().to_string());
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let all: Vec<&str> = ["regret"].into_iter().chain(arguments.iter().copied()).collect();
    let Output { status, stdout, stderr } = process::run(&all, &pairs);
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[actix_web::test]
async fn few_records_are_refused_with_a_remedy_and_many_give_parts_that_sum_to_the_total() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let (code, text, said) = regret(&data, &[]);
    assert_eq!(code, 2, "{text} {said}");
    assert!(text.contains("40 of 40 decisions identical"), "{text}");
    assert!(text.contains("Refused: 10 requests") && text.contains("Take a longer --since"), "{text}");

    let ledger = folder.at("many");
    store(&ledger, &many(&stored(&data), 30));
    let path = ledger.to_str().unwrap();
    let (code, text, said) = regret(&data, &["--ledger", path, "--by", "day"]);
    assert_eq!(code, 0, "{text} {said}");
    for sentence in
        ["routing.exploration", "routing.expert.half_life", "95 % interval", "Not covered: ", "no key sets it"]
    {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
    let (_, json, _) = regret(&data, &["--ledger", path, "--json", "--threads", "1"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let groups = report["groups"].as_array().unwrap();
    assert_eq!((&report["verdict"], groups.len()), (&Value::from("answered"), 4), "{report:#}");
    for group in groups {
        for figure in ["spend", "failures", "seconds"] {
            let value = |part: &Value| part["figures"][figure]["value"].as_f64().unwrap();
            let parts = group["parts"].as_array().unwrap();
            let sum: f64 = parts[1..].iter().map(value).sum();
            assert!((sum - value(&parts[0])).abs() < 1e-9, "{figure}: {group:#}");
        }
        assert_eq!(group["parts"][1]["grade"], "exact", "{group:#}");
    }
    assert_eq!(
        regret(&data, &["--ledger", path, "--json", "--threads", "8"]).1,
        json,
        "whatever the number of threads"
    );
}

#[actix_web::test]
async fn a_record_that_does_not_come_out_as_it_was_made_ends_the_review_and_wrong_use_says_where_help_is() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let mut generations = many(&stored(&data), 1);
    let changed = std::sync::Arc::make_mut(&mut generations[0]);
    std::sync::Arc::make_mut(&mut changed.decision).candidates[0].score += 1.0;
    let ledger = folder.at("changed");
    store(&ledger, &generations);
    let (code, text, said) = regret(&data, &["--ledger", ledger.to_str().unwrap()]);
    assert!(code == 3 && said.contains("self test failed: 1 of 40"), "{code} {text} {said}");
    let (code, _, said) = regret(&data, &["--since", "2001-01-01", "--until", "2001-01-02"]);
    assert!(code == 2 && said.contains("there is nothing to compare"), "{code} {said}");
    for wrong in [&["--by", "moon"][..], &["--where", "moon=full"], &["--ledger"]] {
        let (code, _, said) = regret(&data, wrong);
        assert!(code == 64 && said.ends_with("see 'pointsman regret --help'\n"), "{wrong:?}: {code} {said}");
    }
}
