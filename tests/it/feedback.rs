//! Ratings of answers: who may send one, what it counts for, and that nothing of what a client says is kept but numbers and names.

use std::{fs, path::Path};

use actix_web::http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{Reply, TestGateway},
    ledger_durable,
    patience::eventually,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, answer, ask, error_of, saying},
};

const PRICE: &str = "0.000001";
const OTHER: &str = "sk-other-0a1b2c3d4e5f6a7b";
const ADMIN: &str = "sk-admin-0a1b2c3d4e5f6a7b";
const QUALITY: &str = "/api/v1/health/quality";

/// Two models, the second of which takes over from the first.
fn world(first: &Upstream, second: &Upstream, folder: &Folder) -> World {
    World::new()
        .provider("acme", first.address())
        .provider("bolt", second.address())
        .model(&Model::new("acme/small").at("acme", PRICE, PRICE))
        .model(&Model::new("acme/large").at("bolt", PRICE, PRICE))
        .with("[[keys]]\nname = \"other\"\nenv = \"OTHER\"\nrequests_per_minute = 4\n")
        .with("[[keys]]\nname = \"chief\"\nenv = \"CHIEF\"\nscopes = [\"admin\"]\n")
        .with("[feedback.labels]\nresolved = 1\nhalf = 0.5\n")
        .with(&format!("[ledger]\ndata_dir = {:?}\n", folder.at("data").to_str().unwrap()))
        .variable("OTHER", OTHER)
        .variable("CHIEF", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
}

async fn start(folder: &Folder) -> (TestGateway, [Upstream; 2]) {
    let upstreams = [saying("a"), saying("b")];
    (world(&upstreams[0], &upstreams[1], folder).start().await, upstreams)
}

async fn answered(gateway: &TestGateway) -> String {
    gateway.chat(&ask("acme/small")).await.expect(200)["id"].as_str().unwrap().to_owned()
}

fn path(id: &str) -> String {
    format!("/api/v1/generations/{id}/feedback")
}

async fn rate(gateway: &TestGateway, id: &str, rating: Value) -> Value {
    gateway.post(&path(id), &rating).await.expect(202)
}

async fn call(gateway: &TestGateway, key: &str, method: Method, path: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    gateway.call(method, path, &headers, body.map(|body| body.to_string().into_bytes())).await
}

async fn withdraw(gateway: &TestGateway, path: &str) -> Value {
    gateway.call(Method::DELETE, path, &[], None).await.expect(200)
}

async fn quality(gateway: &TestGateway) -> Value {
    gateway.get(QUALITY).await.expect(200)["data"].take()
}

/// What is known of a model.
async fn quality_of(gateway: &TestGateway, model: &str) -> Value {
    let known = quality(gateway).await;
    known.as_array().unwrap().iter().find(|known| known["model"] == model).cloned().unwrap_or_default()
}

fn counted() -> Value {
    json!({"recorded": true, "counted": true, "why": null})
}

#[actix_web::test]
async fn a_rating_counts_once_a_later_value_replaces_it_and_withdrawn_it_leaves_nothing() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let id = answered(&gateway).await;
    assert_eq!(quality(&gateway).await, json!([]));
    let first = json!({"value": true, "idempotency_key": "one"});
    for _ in 0..2 {
        assert_eq!(rate(&gateway, &id, first.clone()).await, counted());
    }
    let known = quality_of(&gateway, "acme/small").await;
    assert_eq!((&known["task"], &known["ratings"], &known["score"]), (&json!("general"), &json!(1), &json!(null)));
    let accepted = known["quality"]["mean"].as_f64().unwrap();
    rate(&gateway, &id, json!({"value": false, "idempotency_key": "two"})).await;
    let uncounted = json!({"recorded": true, "counted": false,
        "why": "its idempotency key was sent before, and this is not the rating that holds"});
    assert_eq!(rate(&gateway, &id, first.clone()).await, uncounted, "it was replaced");
    let known = quality_of(&gateway, "acme/small").await;
    assert_eq!(known["ratings"], 1);
    assert!(known["quality"]["mean"].as_f64().unwrap() < accepted, "the late repetition changes nothing: {known}");
    let shown = gateway.get(&path(&id)).await.expect(200);
    assert_eq!(shown["data"].as_array().unwrap().len(), 1);
    let rating = &shown["data"][0];
    assert_eq!((&rating["name"], &rating["source"], &rating["value"]), (&json!("accepted"), &json!("user"), &json!(0)));
    let explained = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
    assert_eq!(explained["ratings"], shown["data"]);
    assert_eq!(withdraw(&gateway, &path(&id)).await["withdrawn"], 1);
    assert_eq!(rate(&gateway, &id, first.clone()).await, uncounted, "it was withdrawn");
    assert_eq!(quality(&gateway).await, json!([]));
    assert_eq!(gateway.get(&path(&id)).await.expect(200)["data"], json!([]));
    assert_eq!(rate(&gateway, &id, json!({"value": true})).await, counted());
    assert_eq!(rate(&gateway, &id, first).await, counted(), "the same holds again");
}

#[actix_web::test]
async fn foreign_and_unknown_ids_are_one_404_and_ids_of_more_than_a_week_ago_one_410() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let id = answered(&gateway).await;
    let (beginning, last) = id.split_at(id.len() - 1);
    let unknown = format!("{beginning}{}", if last == "A" { "B" } else { "A" });
    for (method, body) in [(Method::GET, None), (Method::DELETE, None), (Method::POST, Some(json!({"value": true})))] {
        let mut seen = Vec::new();
        for id in [&id, &unknown] {
            let reply = call(&gateway, OTHER, method.clone(), &path(id), body.clone()).await;
            let mut error = error_of(&reply, 404);
            error["metadata"]["request_id"].take();
            seen.push(error);
        }
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0]["metadata"]["reason"], "generation_not_found");
    }
    let old = format!("gen-1000000000-{}", "a".repeat(22));
    let late = error_of(&gateway.post(&path(&old), &json!({"value": true})).await, 410);
    assert_eq!(late["metadata"]["reason"], "feedback_too_late");
    assert_eq!(gateway.post(&path("nonsense"), &json!({"value": true})).await.status, 404);
    let by_chief = call(&gateway, ADMIN, Method::POST, &path(&id), Some(json!({"value": true}))).await;
    assert_eq!(by_chief.expect(202), counted());
}

#[actix_web::test]
async fn free_text_is_refused_by_name_and_is_kept_nowhere() {
    const CANARY: &str = "Zyzzogeton-tells-a-secret";
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let id = answered(&gateway).await;
    for (rating, param) in [
        (json!({"value": true, "comment": CANARY}), json!("comment")),
        (json!({"value": true, CANARY: 1}), json!(CANARY)),
        (json!({"value": true, "what was wrong?": CANARY}), json!("")),
        (json!({"value": CANARY}), json!("value")),
        (json!({"value": true, "name": format!("{CANARY} {CANARY}")}), json!("name")),
        (json!({"value": true, "source": CANARY}), json!("source")),
        (json!([CANARY]), json!(null)),
    ] {
        let error = error_of(&gateway.post(&path(&id), &rating).await, 400);
        if param != "" {
            assert_eq!(error["param"], param, "{rating}");
        }
        let in_batch = json!([{"generation_id": id, "value": true}, rating]);
        error_of(&gateway.post("/api/v1/feedback", &in_batch).await, 400);
    }
    rate(&gateway, &id, json!({"value": true, "idempotency_key": CANARY})).await;
    let shown = [
        gateway.get(&path(&id)).await.text(),
        gateway.get("/metrics").await.text(),
        gateway.get(QUALITY).await.text(),
        gateway.get(&format!("/api/v1/generation?id={id}")).await.text(),
    ];
    assert!(shown.iter().all(|text| !text.contains(CANARY)), "{shown:?}");
    gateway.stop().await;
    drop(gateway);
    let files = files_of(&folder.at("data"));
    assert!(files.iter().any(|(name, _)| name == "ledger.db"));
    for (name, bytes) in files {
        let found = bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes());
        assert!(!found, "{name}");
    }
}

fn files_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_of(&entry.path())),
            false => files.push((entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())),
        }
    }
    files
}

#[actix_web::test]
async fn a_rating_counts_for_who_served_and_that_of_a_judge_apart() {
    let folder = Folder::new();
    let upstreams = [always(500, &json!({"error": {"message": "no"}})), saying("b")];
    let gateway = world(&upstreams[0], &upstreams[1], &folder).start().await;
    let mut chat = ask("acme/small");
    chat["models"] = json!(["acme/large"]);
    let id = gateway.chat(&chat).await.expect(200)["id"].as_str().unwrap().to_owned();
    assert_eq!(rate(&gateway, &id, json!({"value": "half", "source": "program"})).await, counted());
    assert_eq!(quality_of(&gateway, "acme/small").await, json!(null), "it served nothing");
    let known = quality_of(&gateway, "acme/large").await;
    assert_eq!((&known["ratings"], &known["judged"]), (&json!(1), &json!(null)));
    let judged = rate(&gateway, &id, json!({"value": 0, "source": "judge"})).await;
    assert_eq!((&judged["recorded"], &judged["counted"]), (&json!(true), &json!(false)));
    let after = quality_of(&gateway, "acme/large").await;
    assert_eq!((&after["quality"], &after["ratings"]), (&known["quality"], &json!(1)));
    assert_eq!(after["judged"]["ratings"], 1);
    let other_name = rate(&gateway, &id, json!({"name": "thumbs", "value": "resolved"})).await;
    assert_eq!(other_name["counted"], false);
    let by_user = rate(&gateway, &id, json!({"value": true})).await;
    assert_eq!(by_user, counted());
    let program = rate(&gateway, &id, json!({"value": 0, "source": "program"})).await;
    assert_eq!(program["counted"], false, "a user has rated it: {program}");
    assert_eq!(quality_of(&gateway, "acme/large").await["ratings"], 1, "an answer counts once");
    withdraw(&gateway, &format!("{}?source=user", path(&id))).await;
    assert_eq!(quality_of(&gateway, "acme/large").await["ratings"], 1, "that of the program counts again");
}

#[actix_web::test]
async fn an_answer_takes_ten_ratings_and_a_call_counts_towards_the_limit_of_the_key() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let id = answered(&gateway).await;
    for at in 0..10 {
        rate(&gateway, &id, json!({"value": f64::from(at) / 10.0})).await;
    }
    rate(&gateway, &id, json!({"value": 0.9})).await;
    let error = error_of(&gateway.post(&path(&id), &json!({"value": 0.95})).await, 429);
    assert_eq!(error["metadata"]["reason"], "too_many_ratings");
    assert_eq!(gateway.get(&path(&id)).await.expect(200)["data"][0]["value"], 0.9);
    let body = |method: &Method| (method == Method::POST).then(|| json!({"value": true}));
    let called = async |method: Method| call(&gateway, OTHER, method.clone(), &path(&id), body(&method)).await.status;
    for method in [Method::POST, Method::DELETE, Method::POST, Method::DELETE] {
        assert_eq!(called(method).await, 404);
    }
    for (method, status) in [(Method::POST, 429), (Method::DELETE, 429), (Method::GET, 404)] {
        assert_eq!(called(method).await, status);
    }
}

#[actix_web::test]
async fn a_batch_tells_of_each_rating_what_became_of_it() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let ids = [answered(&gateway).await, answered(&gateway).await];
    let old = format!("gen-1000000000-{}", "a".repeat(22));
    let batch = json!([
        {"generation_id": ids[0], "value": true},
        {"generation_id": "gen-unknown", "value": true},
        {"generation_id": ids[1], "value": false, "weight": 0.5},
        {"generation_id": old, "value": false},
        {"generation_id": ids[0], "value": false},
    ]);
    let rated = gateway.post("/api/v1/feedback", &batch).await.expect(202)["data"].take();
    let why: Vec<&Value> = rated.as_array().unwrap().iter().map(|rated| &rated["why"]).collect();
    assert_eq!(json!(why), json!([null, "generation_not_found", null, "feedback_too_late", null]));
    let known = quality_of(&gateway, "acme/small").await;
    assert_eq!((&known["ratings"], &known["quality"]["ratings"]), (&json!(2), &json!(1.5)));
    let missing = error_of(&gateway.post("/api/v1/feedback", &json!([{"value": true}])).await, 400);
    assert_eq!(missing["param"], "[0].generation_id");
    let many = vec![json!({"generation_id": ids[0], "value": true}); 1_001];
    error_of(&gateway.post("/api/v1/feedback", &json!(many)).await, 400);
    error_of(&gateway.post("/api/v1/feedback", &json!({"value": true})).await, 400);
}

#[actix_web::test]
async fn ratings_go_with_the_record_of_their_answer() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let id = answered(&gateway).await;
    rate(&gateway, &id, json!({"value": true})).await;
    let admin = gateway.admin();
    let deleted = call(&admin, ADMIN, Method::DELETE, "/api/v1/admin/ledger/records?older_than_secs=0", None).await;
    assert_eq!(deleted.expect(200)["deleted"], 1);
    eventually("no ratings are left", async || quality(&gateway).await, |known| *known == json!([])).await;
    assert_eq!(gateway.post(&path(&id), &json!({"value": true})).await.status, 404);
}

#[actix_web::test]
async fn a_kill_loses_no_rating_and_a_damaged_one_is_left_out_with_a_warning() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let mut process = ledger_durable::start(&data);
    let gateway = process.gateway();
    let ids = ledger_durable::answered(&gateway, 8).await;
    for (at, id) in ids.iter().enumerate() {
        rate(&gateway, id, json!({"value": at % 4 > 0})).await;
    }
    let before = eventually(
        "answers are counted",
        async || quality(&gateway).await,
        |known| known[0]["rating_rate"] != json!(null),
    );
    let before = before.await;
    process.signal("KILL");
    process.end().await;
    let mut process = ledger_durable::start(&data);
    let gateway = process.gateway();
    eventually("the same is known", async || quality(&gateway).await, |known| *known == before).await;
    process.signal("KILL");
    process.end().await;
    let database = Connection::open(folder.at("data").join("ledger.db")).unwrap();
    database.execute("update ratings set task = 'nonsense' where generation = ?1", [&ids[0]]).unwrap();
    database.execute("update ratings set value = -5 where generation = ?1", [&ids[1]]).unwrap();
    drop(database);
    let process = ledger_durable::start(&data);
    assert_eq!(quality(&process.gateway()).await[0]["ratings"], 6);
    process.says("2 ratings in the ledger cannot be read", 1).await;
    assert_eq!(ledger_durable::answered(&process.gateway(), 1).await.len(), 1, "requests are served all the same");
}

#[actix_web::test]
async fn the_next_request_may_reject_an_answer_of_its_account_and_never_fails_for_it() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let [id, other] = [answered(&gateway).await, answered(&gateway).await];
    let ask_again = async |key: Option<&str>, metadata: Value| {
        let body = and(ask("acme/small"), json!({"metadata": metadata}));
        match key {
            Some(key) => call(&gateway, key, Method::POST, "/api/v1/chat/completions", Some(body)).await.expect(200),
            None => gateway.chat(&body).await.expect(200),
        }
    };
    for of_nothing in [
        json!({"previous_generation_id": "gen-1700000000-aaaaaaaaaaaaaaaaaaaa", "rejected": true}),
        json!({"previous_generation_id": {"id": 7}, "rejected": true}),
        json!({"previous_generation_id": id, "rejected": false}),
        json!({"previous_generation_id": id}),
        json!({"rejected": true}),
    ] {
        ask_again(None, of_nothing).await;
    }
    ask_again(Some(OTHER), json!({"previous_generation_id": other, "rejected": true})).await;
    ask_again(None, json!({"previous_generation_id": id, "rejected": true})).await;
    let rated = async || quality_of(&gateway, "acme/small").await["ratings"].clone();
    eventually("it is rated", rated, |ratings| *ratings == 1).await;
    let shown = gateway.get(&path(&id)).await.expect(200)["data"].take();
    assert_eq!((&shown[0]["source"], &shown[0]["value"]), (&json!("user"), &json!(0)), "{shown}");
    assert_eq!(gateway.get(&path(&other)).await.expect(200)["data"], json!([]), "of another account");
}

#[actix_web::test]
async fn without_a_ledger_on_disk_there_are_no_ratings() {
    let gateway = TestGateway::simulated().await;
    let reply = gateway.chat(&ask("meadow/small")).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let error = error_of(&gateway.post(&path(&id), &json!({"value": true})).await, 404);
    assert_eq!(error["metadata"]["reason"], "no_durable_ledger");
    assert_eq!(quality(&gateway).await, json!([]));
}

#[actix_web::test]
async fn ratings_move_the_quality_that_decisions_read_and_nothing_where_none_is_asked_for() {
    let folder = Folder::new();
    let upstream = saying("a");
    let score = "quality = { source = \"own-eval\", date = 2026-11-02, general = { score = 0.9, n = 20 } }";
    let gateway = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", PRICE, PRICE).with(score))
        .with(&format!("[ledger]\ndata_dir = {:?}\n", folder.at("data").to_str().unwrap()))
        .start()
        .await;
    let good_enough = and(ask("acme/small"), json!({"min_quality": 0.8}));
    gateway.chat(&good_enough).await.expect(200);
    let mut batch = Vec::new();
    for _ in 0..40 {
        batch.push(json!({"generation_id": answered(&gateway).await, "value": false}));
    }
    gateway.post("/api/v1/feedback", &json!(batch)).await.expect(202);
    let known = quality_of(&gateway, "acme/small").await;
    // Of 20 answers of the score 18 were good, of the 40 none.
    assert_eq!((&known["quality"]["mean"], &known["score"]["score"]), (&json!(0.3), &json!(0.9)));
    let refused = async || gateway.chat(&good_enough).await.status;
    eventually("the endpoint is not good enough any more", refused, |status| *status == 404).await;
    let error = error_of(&gateway.chat(&good_enough).await, 404);
    assert_eq!(error["availability"]["excluded_by"], json!(["quality_below"]));
    gateway.chat(&ask("acme/small")).await.expect(200);
}

#[actix_web::test]
async fn an_account_that_rates_all_answers_of_one_model_and_none_of_another_moves_neither() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let mut batch = Vec::new();
    for _ in 0..20 {
        gateway.chat(&ask("acme/large")).await.expect(200);
        batch.push(json!({"generation_id": answered(&gateway).await, "value": false}));
    }
    gateway.post("/api/v1/feedback", &json!(batch)).await.expect(202);
    let known = async || quality_of(&gateway, "acme/small").await;
    eventually("its ratings are shown only", known, |known| known["selective"] == json!(true)).await;
}

#[actix_web::test]
async fn answers_from_before_anybody_rated_make_no_model_selective() {
    let folder = Folder::new();
    let (gateway, _upstreams) = start(&folder).await;
    let mut ids = Vec::new();
    for (small, large) in [(5, 100), (60, 60)] {
        ids.clear();
        for (model, count) in [("acme/small", small), ("acme/large", large)] {
            for _ in 0..count {
                let answer = gateway.chat(&ask(model)).await.expect(200);
                ids.push(json!({"generation_id": answer["id"], "value": true}));
            }
        }
    }
    gateway.post("/api/v1/feedback", &json!(ids)).await.expect(202);
    for model in ["acme/small", "acme/large"] {
        let known = async || quality_of(&gateway, model).await;
        let known = eventually("answers are counted", known, |known| known["rating_rate"] != json!(null)).await;
        assert_eq!((known["rating_rate"].as_f64(), &known["selective"]), (Some(1.0), &json!(false)), "{known}");
    }
}

#[actix_web::test]
async fn a_key_may_do_nothing_but_rate_the_answers_of_its_account() {
    const RATER: &str = "sk-rater-0a1b2c3d4e5f6a7b";
    const READER: &str = "sk-reader-0a1b2c3d4e5f6a7b";
    let folder = Folder::new();
    let upstreams = [saying("a"), saying("b")];
    let key = |name: &str, scope: &str| {
        let variable = name.to_uppercase();
        format!("[[keys]]\nname = \"{name}\"\nenv = \"{variable}\"\naccount = \"test\"\nscopes = [\"{scope}\"]\n")
    };
    let world = world(&upstreams[0], &upstreams[1], &folder).with(&key("rater", "feedback"));
    let world = world.with(&key("reader", "read")).variable("RATER", RATER).variable("READER", READER);
    let gateway = world.start().await;
    let id = answered(&gateway).await;
    let good = || Some(json!({"value": true}));
    let by_rater = async |method, path: &str, body| call(&gateway, RATER, method, path, body).await;
    assert_eq!(by_rater(Method::POST, &path(&id), good()).await.expect(202), counted());
    assert_eq!(by_rater(Method::GET, &path(&id), None).await.expect(200)["data"][0]["value"], 1);
    assert_eq!(by_rater(Method::DELETE, &path(&id), None).await.expect(200)["withdrawn"], 1);
    error_of(&by_rater(Method::POST, "/api/v1/chat/completions", Some(ask("acme/small"))).await, 403);
    error_of(&by_rater(Method::GET, &format!("/api/v1/generation?id={id}"), None).await, 403);
    let refused = error_of(&call(&gateway, READER, Method::POST, &path(&id), good()).await, 403);
    assert_eq!(refused["metadata"]["reason"], "scope");
}

#[actix_web::test]
async fn the_rating_of_an_escalated_answer_counts_for_the_model_of_the_second_one() {
    let folder = Folder::new();
    let nothing = json!({"role": "assistant", "content": null});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let upstreams = [always(200, &answer(nothing, usage)), saying("b")];
    let alias = "[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/small\"]\ncascade = { to = \"acme/large\" }\n";
    let gateway = world(&upstreams[0], &upstreams[1], &folder).with(alias).start().await;
    let answer = gateway.chat(&ask("service/chat")).await.expect(200);
    assert_eq!(answer["model"], "acme/large", "{answer}");
    rate(&gateway, answer["id"].as_str().unwrap(), json!({"value": true})).await;
    assert_eq!(quality_of(&gateway, "acme/small").await, json!(null), "its answer was shown to nobody");
    assert_eq!(quality_of(&gateway, "acme/large").await["ratings"], 1);
}

#[actix_web::test]
async fn the_rating_of_an_answer_that_a_hedge_won_counts_for_the_model_of_the_hedge() {
    let folder = Folder::new();
    let upstreams = [Upstream::start([Script::new().request()]), saying("b")];
    let gateway = world(&upstreams[0], &upstreams[1], &folder)
        .variable("POINTSMAN__ROUTING__HEDGE__OBJECTIVES", "[\"fastest\"]")
        .variable("POINTSMAN__ROUTING__HEDGE__BUDGET", "1.0")
        .variable("POINTSMAN__ROUTING__EXPERT__PRIOR_TTFT", "20ms")
        .variable("POINTSMAN__ROUTING__EXPERT__PRIOR_TIME_PER_TOKEN", "10us")
        .start()
        .await;
    let order = json!({"order": ["acme", "bolt"]});
    let chat = and(ask("service/auto"), json!({"objective": "fastest", "provider": order}));
    let reply = gateway.chat(&chat).await;
    let answer = reply.expect(200);
    assert_eq!((&answer["model"], reply.header("x-route-attempts")), (&json!("acme/large"), Some("2")));
    rate(&gateway, answer["id"].as_str().unwrap(), json!({"value": true})).await;
    assert_eq!(quality_of(&gateway, "acme/small").await, json!(null), "it was chosen and never answered");
    assert_eq!(quality_of(&gateway, "acme/large").await["ratings"], 1);
}

#[actix_web::test]
async fn ratings_change_no_model_in_the_middle_of_a_conversation_and_that_of_a_new_one() {
    let folder = Folder::new();
    let upstreams = [saying("a"), saying("b")];
    let scored = |id: &str, provider: &str, score: f64| {
        let score = format!(
            "quality = {{ source = \"own-eval\", date = 2026-11-02, general = {{ score = {score}, n = 20 }} }}"
        );
        Model::new(id).at(provider, PRICE, PRICE).with(&score)
    };
    let gateway = World::new()
        .provider("acme", upstreams[0].address())
        .provider("bolt", upstreams[1].address())
        .model(&scored("acme/small", "acme", 0.9))
        .model(&scored("acme/large", "bolt", 0.7))
        .with("[routing.balanced]\nlatency = 0\ncost = 0\nquality = 1\n")
        .with(&format!("[ledger]\ndata_dir = {:?}\n", folder.at("data").to_str().unwrap()))
        .start()
        .await;
    let turn = async |session: &str| {
        // Conversations that begin alike share a cache, and so an endpoint.
        let long = format!("{session}: which way? ").repeat(1000);
        let messages = json!([{"role": "user", "content": long}, {"role": "assistant", "content": "Left."},
            {"role": "user", "content": "Why?"}]);
        let body =
            json!({"model": "service/auto", "objective": "balanced", "session_id": session, "messages": messages});
        gateway.chat(&body).await.expect(200)
    };
    assert_eq!(turn("old").await["model"], "acme/small");
    let mut batch = Vec::new();
    for _ in 0..40 {
        let answer = gateway.chat(&ask("acme/small")).await.expect(200);
        batch.push(json!({"generation_id": answer["id"], "value": false}));
    }
    gateway.post("/api/v1/feedback", &json!(batch)).await.expect(202);
    let mut sessions = 0..;
    let new = async || turn(&format!("new-{}", sessions.next().unwrap())).await["model"].clone();
    eventually("a new conversation goes where answers are better", new, |model| *model == "acme/large").await;
    assert_eq!(turn("old").await["model"], "acme/small");
}
