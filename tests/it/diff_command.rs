//! `pointsman diff` and `pointsman ledger export --strip`, with the real binary, on records that a gateway made.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Output,
    sync::Arc,
    time::Duration,
};

use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    generations::{GenerationStore, LedgerBounds},
    page::Query,
    queue::Bounds,
    traffic::{Traffic, TrafficRecord, Wanted},
};
use serde_json::{Value, json};

use crate::{
    estimate_command::many,
    folder::Folder,
    harness::{KEY, TestGateway},
    ledger_commands::ledger,
    ledger_durable::environment,
    process::{self, Process},
};

/// What names a caller. None of it may leave the gateway.
const CANARIES: [&str; 8] = [
    "canary-user",
    "canary-session",
    "canary-tag",
    "canary-agent",
    "https://canary.example/page",
    "canary-title",
    "canary-request",
    "canary-trace",
];

/// Forty calls in many sessions, recorded by a gateway that has ended.
pub(crate) async fn recorded(data: &Path) {
    recorded_under(data, &[]).await;
}

/// The same by a gateway with these settings beside its own.
pub(crate) async fn recorded_under(data: &Path, settings: &[(&str, &str)]) {
    let environment = environment(&data.display().to_string());
    let mut pairs: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    pairs.extend(settings);
    let mut process = Process::start(&["serve"], &pairs);
    calls(&process.gateway(), 40).await;
    process.signal("TERM");
    process.end().await;
}

async fn calls(gateway: &TestGateway, count: usize) {
    for n in 0..count {
        let objective = ["balanced", "fastest", "cheapest", "reliable"][n % 4];
        let body = json!({
            "model": "meadow/small", "stream": n % 2 == 0, "max_tokens": 8, "objective": objective,
            "user": "canary-user", "session_id": format!("canary-session-{n}"), "metadata": {"canary-tag": "canary-tag"},
            "trace": {"id": "canary-trace"}, "messages": [{ "role": "user", "content": "Which way?" }],
        });
        let bearer = format!("Bearer {KEY}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("user-agent", "canary-agent"),
            ("http-referer", "https://canary.example/page"),
            ("x-title", "canary-title"),
            ("x-request-id", "canary-request"),
        ];
        let body = Some(body.to_string().into_bytes());
        let reply = gateway.call(actix_web::http::Method::POST, "/api/v1/chat/completions", &headers, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}

/// The command with the configuration of the gateway and these changes of it.
pub(crate) fn diff(data: &Path, arguments: &[&str], changes: &[(&str, &str)]) -> (i32, String, String) {
    let environment = environment(&data.display().to_string());
    let mut pairs: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    pairs.extend(changes);
    let all: Vec<&str> = ["diff"].into_iter().chain(arguments.iter().copied()).collect();
    let Output { status, stdout, stderr } = process::run(&all, &pairs);
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn report(data: &Path, arguments: &[&str], changes: &[(&str, &str)]) -> Value {
    let arguments: Vec<&str> = ["--json"].into_iter().chain(arguments.iter().copied()).collect();
    let (code, out, said) = diff(data, &arguments, changes);
    assert!(code <= 1, "{code} {out} {said}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// What `pointsman diff` answers for each record under these settings: the choices before and after.
fn moves(data: &Path, settings: &[(&str, &str)]) -> HashMap<String, [Value; 2]> {
    let mut made = report(data, &["--examples", "40"], settings);
    assert_eq!(made["answerable"]["exact"], 40, "{made:#}");
    let examples = made["examples"].as_array_mut().unwrap().iter_mut();
    let moved =
        examples.map(|one| (one["record"].as_str().unwrap().to_owned(), ["from", "to"].map(|at| one[at].take())));
    moved.collect()
}

#[actix_web::test]
async fn every_exact_answer_is_what_the_gateway_decided_under_the_other_configuration_when_it_served() {
    // The shadows decide inside the gateway, on its own statistics and seeds; the command has nothing but the ledger.
    let shadows = "[{ name = \"fast\", overrides = { routing = { balanced = { cost = 0 } } } }, \
                   { name = \"time\", overrides = { routing = { expert = { cheapest_time_value = 1000, reliable_time_share = 10 } } } }]";
    let time = [
        ("POINTSMAN__ROUTING__EXPERT__CHEAPEST_TIME_VALUE", "1000"),
        ("POINTSMAN__ROUTING__EXPERT__RELIABLE_TIME_SHARE", "10"),
    ];
    let others = [("fast", &[FASTEST][..]), ("time", &time)];
    let folder = Folder::new();
    let data = folder.at("data");
    recorded_under(
        &data,
        &[("POINTSMAN__SHADOW", shadows), ("POINTSMAN__SIMULATION__PROVIDERS__SIM_FLAKY__ERROR_RATE", "0.5")],
    )
    .await;
    let generations = stored(&data);
    let (mut compared, mut moved) = (0, 0);
    for (name, settings) in others {
        let answers = moves(&data, settings);
        for generation in &generations {
            let Some(shadow) = generation.shadows.iter().find(|shadow| &*shadow.shadow == name) else { continue };
            let named = |index: u32| {
                let endpoint = generation.catalog.endpoint(index).unwrap();
                let (model, provider) =
                    (generation.catalog.model_of(endpoint).unwrap(), generation.catalog.provider_of(endpoint).unwrap());
                json!(format!("{} at {}", model.id, provider.slug))
            };
            let own = generation.decision.candidates.first().map(|first| named(first.index));
            let expected = [own, shadow.choice.map(named)].map(|choice| choice.unwrap_or_default());
            let same = [expected[0].clone(), expected[0].clone()];
            assert_eq!(answers.get(generation.id.as_str()).unwrap_or(&same), &expected, "{name} {}", generation.id);
            (compared, moved) = (compared + 1, moved + usize::from(expected[0] != expected[1]));
        }
    }
    assert!(compared >= 20 && moved >= 5, "{compared} compared, {moved} moved");
}

/// Only the time counts, at any price.
const FASTEST: (&str, &str) = ("POINTSMAN__ROUTING__BALANCED__COST", "0");

#[actix_web::test]
async fn the_running_configuration_changes_nothing_and_another_one_is_compared_with_exit_codes_for_its_limits() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;

    let same = report(&data, &[], &[]);
    assert_eq!((&same["self_tested"], &same["changed"], &same["verdict"]), (&json!(40), &json!(0), &json!("kept")));
    assert_eq!(same["answerable"], json!({"decisions": 40, "exact": 40, "partial": 0, "open_loop": 0, "none": 0}));
    assert_eq!((&same["changes"], &same["moves"]), (&json!([]), &json!([])), "{same:#}");
    assert_eq!(same["warnings"], json!([]));
    assert!(same["figures"].as_array().unwrap().iter().all(|figure| figure["delta"] == 0.0), "{same:#}");
    assert_eq!(same["records"]["clusters"], 40, "a session each");

    let other = report(&data, &["--examples", "2"], &[FASTEST]);
    assert_eq!(other["changes"][0]["key"], "routing.balanced", "{other:#}");
    assert_eq!(other["causes"].as_array().unwrap().len(), usize::from(other["changed"] != 0), "{other:#}");
    let total: u64 = other["moves"].as_array().unwrap().iter().map(|one| one["decisions"].as_u64().unwrap()).sum();
    assert!(total >= other["changed"].as_u64().unwrap(), "{other:#}");

    for (limit, strict, expected) in [
        ("spend > +1000%", false, 0),
        ("spend > -100%", false, 1),
        ("spend > -100%", true, 1),
        ("failures > +99pp", true, 0),
    ] {
        let mut arguments = vec!["--fail-if", limit];
        arguments.extend(strict.then_some("--strict"));
        let (code, out, said) = diff(&data, &arguments, &[FASTEST]);
        assert_eq!(code, expected, "{limit}: {out} {said}");
    }
    // Without an interval nothing is sure.
    let few = ["--fail-if", "first_token_p50 > +900%", "--where", "objective=balanced"];
    let (code, out, _) = diff(&data, &few, &[FASTEST]);
    assert_eq!(code, 2, "ten decisions are too few to judge a limit by: {out}");
    assert!(out.contains("judged by 30 decisions or more, and there are 10"), "{out}");
    assert!(out.contains("an interval needs 30"), "{out}");
    assert_eq!(report(&data, &["--where", "objective=balanced"], &[])["answerable"]["decisions"], 10);
    let (code, _, said) = diff(&data, &["--where", "alias=service/auto objective=balanced"], &[]);
    assert!(code == 2 && said.contains("no record meets the conditions"), "{said}");
}

#[actix_web::test]
async fn the_output_is_the_same_for_any_number_of_threads_and_on_repetition() {
    let folder = Folder::new();
    let (data, ledger) = (folder.at("data"), folder.at("many"));
    recorded(&data).await;
    // More than one block for each thread.
    store(&ledger, &many(&stored(&data), 150));
    let with = |form: &[&str], threads: &str| {
        let place = ledger.to_str().unwrap();
        let common = ["--ledger", place, "--threads", threads, "--until", "2100-01-01", "--examples", "9"];
        diff(&data, &[form, &common].concat(), &[FASTEST])
    };
    for form in [&["--json"][..], &[], &["--markdown"], &["--json", "--estimate"]] {
        let first = with(form, "1");
        assert!(first.1.contains("6000") || first.1.contains("6,000"), "{}", first.1);
        // Estimates take a while.
        let again: &[&str] = if form.contains(&"--estimate") { &["16"] } else { &["1", "2", "16"] };
        for threads in again {
            assert_eq!(with(form, threads), first, "{form:?} {threads}");
        }
    }
}

/// Every file of a directory with its content.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut all: Vec<_> = files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect();
    all.sort();
    all
}

#[actix_web::test]
async fn a_comparison_changes_nothing_in_the_directory_that_it_reads() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let before = contents(&data);
    for arguments in [&["--estimate"][..], &["--open-loop"], &["--fail-if", "spend > -100%"]] {
        diff(&data, arguments, &[FASTEST]);
    }
    let names = |all: &[(PathBuf, Vec<u8>)]| all.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    let after = contents(&data);
    assert!(before.len() > 1 && before == after, "{:?} {:?}", names(&before), names(&after));
}

#[actix_web::test]
async fn keys_that_need_an_open_loop_are_named_and_refused_and_the_label_stands_in_every_form() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let breaker = ("POINTSMAN__ROUTING__BREAKER__CONSECUTIVE", "9");
    let (code, _, said) = diff(&data, &[], &[breaker]);
    assert_eq!(code, 2);
    assert!(said.contains("routing.breaker.consecutive 3 → 9") && said.contains("--open-loop"), "{said}");
    let (_, text, _) = diff(&data, &[], &[]);
    let (_, markdown, _) = diff(&data, &["--markdown"], &[]);
    assert!(
        text.contains("self test       40 of 40 decisions identical") && text.contains("open loop 0.0 %"),
        "{text}"
    );
    assert!(markdown.contains("### Routing: limits kept") && markdown.contains("open loop 0.0 %"), "{markdown}");
    assert!(markdown.contains("| spend, $/1k requests |"), "{markdown}");
    assert_eq!(report(&data, &[], &[])["answerable"]["open_loop"], 0);
}

#[actix_web::test]
async fn an_open_loop_answers_keys_that_work_over_time_says_how_near_it_is_and_is_marked_in_every_form() {
    let folder = Folder::new();
    let data = folder.at("data");
    // So far apart that a busy machine changes no order: between equals, noise would choose.
    let apart = [
        ("POINTSMAN__SIMULATION__PROVIDERS__SIM_SWIFT__TTFT", "20ms"),
        ("POINTSMAN__SIMULATION__PROVIDERS__SIM_THRIFT__TTFT", "60ms"),
        ("POINTSMAN__SIMULATION__PROVIDERS__SIM_FLAKY__TTFT", "150ms"),
        ("POINTSMAN__SIMULATION__PROVIDERS__SIM_GRATIS__TTFT", "300ms"),
    ];
    recorded_under(&data, &apart).await;
    let half_life = ("POINTSMAN__ROUTING__EXPERT__HALF_LIFE", "5s");
    let looped = report(&data, &["--open-loop"], &[half_life]);
    assert_eq!(looped["answerable"], json!({"decisions": 40, "exact": 0, "partial": 0, "open_loop": 40, "none": 0}));
    assert_eq!(looped["changes"][0]["key"], "routing.expert.half_life", "{looped:#}");
    let near = &looped["open_loop"];
    assert!(near["same_choices"].as_f64().unwrap() >= 0.8 && near["attempts"].as_u64().unwrap() >= 40, "{near:#}");
    assert!(looped["figures"].as_array().unwrap().iter().all(|figure| figure["how"] == "open_loop"), "{looped:#}");
    for form in [&["--open-loop"][..], &["--open-loop", "--markdown"]] {
        let (code, text, said) = diff(&data, form, &[half_life]);
        assert_eq!(code, 0, "{said}");
        assert!(text.contains("recorded attempts happened again") && text.contains("open loop, calibrated"), "{text}");
    }
    // No attempt failed, so a breaker that bears more would have changed nothing.
    let breaker = report(&data, &["--open-loop"], &[("POINTSMAN__ROUTING__BREAKER__CONSECUTIVE", "9")]);
    let said = (&breaker["answerable"]["open_loop"], &breaker["changed"], &breaker["changes"][0]["key"]);
    assert_eq!(said, (&json!(40), &json!(0), &json!("routing.breaker.consecutive")), "{breaker:#}");
    let narrowed = report(&data, &["--open-loop", "--where", "objective=fastest"], &[half_life]);
    let decisions = &narrowed["answerable"]["decisions"];
    assert_eq!((decisions, &narrowed["open_loop"]["attempts"]), (&json!(10), &near["attempts"]), "all attempts count");
    // Without such a key it is an ordinary comparison.
    let exact = report(&data, &["--open-loop"], &[FASTEST]);
    assert_eq!((&exact["answerable"]["exact"], &exact["open_loop"]), (&json!(40), &json!(null)));
    let ttl = ("POINTSMAN__ROUTING__STICKY__TTL", "5s");
    let (code, _, said) = diff(&data, &["--open-loop"], &[ttl]);
    assert!(code == 2 && said.contains("records do not tell which others would have been kept"), "{said}");
}

#[actix_web::test]
async fn a_running_gateways_records_are_compared_beside_it() {
    let folder = Folder::new();
    let data = folder.at("data");
    let environment = environment(&data.display().to_string());
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let process = Process::start(&["serve"], &pairs);
    calls(&process.gateway(), 4).await;
    let compared = async || diff(&data, &["--json"], &[]);
    let has_all = |(_, out, _): &(i32, String, String)| out.contains("\"self_tested\": 4,");
    crate::patience::eventually("the records are in the database", compared, has_all).await;
    calls(&process.gateway(), 1).await;
}

#[test]
fn wrong_use_and_what_is_no_ledger_are_told_in_a_sentence() {
    let folder = Folder::new();
    let data = folder.at("data");
    for arguments in [
        &["--fail-if", "joy > +5%"][..],
        &["--fail-if", "spend"],
        &["--since", "tomorrow"],
        &["--where", "colour=red"],
        &["--json", "--markdown"],
        &["--threads", "many"],
        &["--nonsense"],
        &["--ledger", "x", "--where", "key"],
    ] {
        let (code, out, said) = diff(&data, arguments, &[]);
        assert!([64, 2].contains(&code) && out.is_empty(), "{arguments:?} {code} {said}");
        let is_unread = arguments.contains(&"--where") || arguments.contains(&"--since");
        assert!(code == 64 || is_unread, "{arguments:?}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
    let (code, _, said) = diff(&data, &[], &[]);
    assert!(code == 2 && said.contains("there is no ledger in") && said.contains("--ledger"), "{said}");
    std::fs::create_dir_all(&data).unwrap();
    let foreign = data.join("notes.txt");
    std::fs::write(&foreign, "These are notes, and no ledger.").unwrap();
    let (code, _, said) = diff(&data, &["--ledger", foreign.to_str().unwrap()], &[]);
    assert!(code == 2 && said.contains("neither a ledger nor an export of one"), "{said}");
    let other = data.join("other.db");
    let created = rusqlite::Connection::open(&other).unwrap().execute_batch("create table notes (text text)");
    created.unwrap();
    let (code, _, said) = diff(&data, &["--ledger", other.to_str().unwrap()], &[]);
    assert!(code == 2 && said.contains("neither a ledger nor an export of one"), "{said}");
    let (code, _, said) = diff(&data, &[], &[("POINTSMAN__ROUTING__EXPLORATION", "lots")]);
    assert!(code == 2 && said.to_lowercase().contains("exploration"), "{said}");
    for also in ["--estimate", "--against=x.toml"] {
        let (code, _, said) = diff(&data, &["--open-loop", also], &[]);
        assert!(code == 64 && said.contains("--open-loop"), "{said}");
    }
}

/// A ledger of its own with these records.
pub(crate) fn store(path: &Path, generations: &[Arc<Generation>]) {
    let queue = Bounds { items: 65_536, bytes: 64 << 20 };
    let bounds = LedgerBounds { max_age: Duration::from_secs(86_400), max_bytes: 1 << 30, sync: false, queue };
    let store = GenerationStore::open(path, bounds).unwrap();
    let mut recorder = store.recorder(0);
    for generation in generations {
        drop(recorder.record(generation, None));
    }
    recorder.write();
    store.entries().flush(std::time::Instant::now() + Duration::from_secs(60)).unwrap();
}

pub(crate) fn stored(path: &Path) -> Vec<Arc<Generation>> {
    let store = GenerationStore::inspect(path).unwrap();
    let query = Query { limit: 1000, blocks: usize::MAX, ..Query::default() };
    store.page(&query).unwrap().generations
}

#[actix_web::test]
async fn a_decision_that_does_not_come_out_as_it_was_made_ends_the_comparison_and_an_older_algorithm_is_named() {
    let folder = Folder::new();
    let data = folder.at("data");
    recorded(&data).await;
    let mut generations = stored(&data);
    let with = |generations: &[Arc<Generation>], name: &str| {
        let path = folder.at(name);
        store(&path, generations);
        diff(&data, &["--ledger", path.to_str().unwrap()], &[])
    };
    let decision = Arc::make_mut(&mut Arc::make_mut(&mut generations[7]).decision);
    decision.candidates[0].score *= 1.0 + f64::EPSILON;
    let (code, out, said) = with(&generations, "changed");
    assert_eq!((code, out.as_str()), (3, ""), "{said}");
    assert!(said.contains("self test failed: 1 of 40") && said.contains(generations[7].id.as_str()), "{said}");
    for generation in &mut generations {
        Arc::make_mut(&mut Arc::make_mut(generation).decision).algorithm = 0;
    }
    let (code, _, said) = with(&generations, "older");
    assert!(code == 2 && said.contains("all 40 records were made by another version"), "{said}");
    let (code, _, said) = with(&[], "empty");
    assert!(code == 2 && said.contains("the ledger is empty"), "{said}");
}

#[actix_web::test]
async fn a_stripped_export_names_nobody_and_compares_as_its_ledger_does() {
    let folder = Folder::new();
    let (data, file) = (folder.at("data"), folder.at("traffic.pmx"));
    recorded(&data).await;
    let (path, out) = (data.display().to_string(), file.display().to_string());
    let (code, said, _) = ledger(&["export", "--strip", "--out", &out, "--data-dir", &path], &[]);
    assert!(code == 0 && said.contains("40 of 40 records") && said.contains("SHA-256"), "{said}");

    let read = |path: &Path| {
        let traffic = Traffic::open(path).unwrap();
        let take = |found: &mut Vec<(String, String)>, record: TrafficRecord| {
            found.push((record.generation.id.as_str().to_owned(), format!("{:?}", record.generation)));
        };
        let never = std::sync::atomic::AtomicBool::new(false);
        traffic.fold(&Wanted::default(), 1, &never, Vec::new, take).unwrap().0.concat()
    };
    let (told, named) = (read(&file), read(&data));
    assert_eq!((told.len(), named.len()), (40, 40));
    for canary in CANARIES {
        assert!(named.iter().any(|(_, record)| record.contains(canary)), "the ledger itself has '{canary}'");
        let found = told.iter().find(|(_, record)| record.contains(canary));
        assert!(found.is_none(), "{canary} in {found:?}");
    }
    let nobody = GenerationId::new(0, [0; 3]);
    assert!(told.iter().all(|(id, _)| id == nobody.as_str()) && named.iter().all(|(id, _)| id != nobody.as_str()));
    let raw = std::fs::read(&file).unwrap();

    let numbers = |mut report: Value| {
        let examples = report["examples"].as_array_mut().unwrap();
        examples.iter_mut().for_each(|example| drop(example["record"].take()));
        // Of equal changes the name decides.
        examples.sort_by_key(Value::to_string);
        report
    };
    let of_ledger = numbers(report(&data, &["--examples", "40"], &[FASTEST]));
    let of_export = numbers(report(&data, &["--examples", "40", "--ledger", &out], &[FASTEST]));
    assert_eq!(of_ledger, of_export);
    assert_eq!(report(&data, &["--ledger", &out, "--where", "key=key-1"], &[])["answerable"]["decisions"], 40);

    let mut cut = raw;
    cut.truncate(cut.len() - 40);
    std::fs::write(&file, cut).unwrap();
    let (code, _, said) = diff(&data, &["--ledger", &out], &[]);
    assert!(code == 2 && said.contains("cut off or was changed"), "{said}");
}
