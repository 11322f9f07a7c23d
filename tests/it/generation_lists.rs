//! Lists of generations from the durable ledger: pages, filters, whose records, and a restart.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, Reply, TestGateway},
    patience::eventually,
    process::{ConfigFile, Process},
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, column, error_of, provider_key, refusal, saying, stream_of},
};

const OTHER: &str = "sk-other-0a1b2c3d4e5f6a7b";
pub(crate) const ADMIN: &str = "sk-admin-0a1b2c3d4e5f6a7b";
pub(crate) const CALLER: &str = "sk-caller-0a1b2c3d4e5f6a7";
/// Text of the upstream's answers.
const ANSWER: &str = "Over the hills.";

/// A gateway with a ledger in a directory of its own, a provider that answers and one that fails.
pub(crate) struct Stage {
    folder: Folder,
    good: Upstream,
    flaky: Upstream,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let flaky = Upstream::start([Script::answering(refusal(500))]);
        Stage { folder: Folder::new(), good: saying(ANSWER), flaky }
    }

    /// With three more keys: an ordinary one, an administrator's, and one that may only call.
    pub(crate) fn world(&self) -> World {
        let keys = [("other", "[\"inference\", \"read\"]"), ("admin", "[\"admin\"]"), ("caller", "[\"inference\"]")];
        let keys = keys.map(|(name, scopes)| {
            format!("[[keys]]\nname = \"{name}\"\nenv = \"{}\"\nscopes = {scopes}\n", name.to_uppercase())
        });
        World::new()
            .provider("good", self.good.address())
            .provider("flaky", self.flaky.address())
            .model(&Model::new("acme/small").at("good", "0.000001", "0.000001"))
            .model(&Model::new("acme/dear").at("good", "0.0001", "0.0001"))
            .model(&Model::new("acme/saved").at("flaky", "0.000001", "0.000001").at("good", "0.000001", "0.000001"))
            .model(&Model::new("acme/broken").at("flaky", "0.000001", "0.000001"))
            .with(&keys.concat())
            .with(&format!("[ledger]\ndata_dir = {:?}", self.folder.at("data").to_str().unwrap()))
            .variable("OTHER", OTHER)
            .variable("ADMIN", ADMIN)
            .variable("CALLER", CALLER)
    }

    /// Directory of the ledger.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.folder.at("data")
    }

    pub(crate) async fn gateway(&self) -> TestGateway {
        self.world().variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0").start().await
    }
}

pub(crate) async fn get(gateway: &TestGateway, key: &str, path: &str) -> Reply {
    gateway.call(Method::GET, path, &[("authorization", &format!("Bearer {key}"))], None).await
}

pub(crate) async fn admin(gateway: &TestGateway, path: &str) -> Reply {
    get(&gateway.admin(), ADMIN, &format!("/api/v1/admin/{path}")).await
}

/// A call, and the millisecond after it: lists are in order of milliseconds.
pub(crate) async fn chat(gateway: &TestGateway, key: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = Some(body.to_string().into_bytes());
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, body).await;
    actix_web::rt::time::sleep(Duration::from_millis(2)).await;
    reply
}

/// One generation of each kind: plain, dear, saved by the second provider, failed.
pub(crate) async fn one_of_each(gateway: &TestGateway) {
    chat(gateway, KEY, &ask("acme/small")).await.expect(200);
    chat(gateway, KEY, &ask("acme/dear")).await.expect(200);
    let order = json!({"provider": {"order": ["flaky", "good"]}});
    chat(gateway, KEY, &and(ask("acme/saved"), order)).await.expect(200);
    assert!(chat(gateway, KEY, &ask("acme/broken")).await.status >= 500);
}

async fn list(gateway: &TestGateway, query: &str) -> Value {
    gateway.get(&format!("/api/v1/generations{query}")).await.expect(200)
}

fn requested(page: &Value) -> Vec<&str> {
    column(&page["data"], "requested_model")
}

#[actix_web::test]
async fn own_generations_are_listed_newest_first_in_pages_that_new_arrivals_do_not_shift() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let answer = chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
        ids.insert(0, answer["id"].as_str().unwrap().to_owned());
        chat(&gateway, OTHER, &ask("acme/small")).await.expect(200);
    }
    assert_eq!(column(&list(&gateway, "").await["data"], "id"), ids);

    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&gateway, &format!("?limit=2&after={after}")).await;
        seen.extend(column(&page["data"], "id").into_iter().map(str::to_owned));
        chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ids);
}

#[actix_web::test]
async fn a_row_tells_what_happened_and_costs_what_the_explanation_says_and_has_no_text_of_prompt_or_answer() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let reply = gateway.get("/api/v1/generations").await;
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let page = reply.expect(200);
    assert_eq!(requested(&page), ["acme/broken", "acme/saved", "acme/dear", "acme/small"]);
    let (broken, saved, plain) = (&page["data"][0], &page["data"][1], &page["data"][3]);
    assert_eq!(
        (&broken["status"], &broken["model"], &broken["rescued"]),
        (&"failed".into(), &Value::Null, &false.into())
    );
    assert_eq!(
        (&saved["status"], &saved["rescued"], &saved["hedged"]),
        (&"completed".into(), &true.into(), &false.into())
    );
    assert_eq!(saved["provider_slug"], "good");
    assert_eq!(column(&saved["chain"], "provider_slug").last(), Some(&"good"));
    assert_eq!(column(&saved["chain"], "provider_slug").first(), Some(&"flaky"));
    assert_ne!(saved["chain"][0]["outcome"], "completed");
    assert_eq!(
        (&plain["key"], &plain["prompt_tokens"], &plain["completion_tokens"]),
        (&"test".into(), &12.into(), &5.into())
    );
    assert!(reply.text().contains(r#""cost":0.000017,"#), "{}", reply.text());
    assert!(plain["total_ms"].as_u64() >= plain["ttft_ms"].as_u64() && plain["ttft_ms"].is_u64(), "{plain}");
    let explained =
        gateway.get(&format!("/api/v1/route/explain?id={}", plain["id"].as_str().unwrap())).await.expect(200);
    for (row, explanation) in [("cost", "ledger_cost"), ("created_at", "created_at"), ("objective", "objective")] {
        assert_eq!(plain[row], explained[explanation], "{row}");
    }
    for private in ["Which way?", ANSWER, KEY, &provider_key("good"), "private-name"] {
        assert!(!reply.text().contains(private), "{private}");
    }
}

#[actix_web::test]
async fn filters_select_by_model_provider_status_event_time_and_cost() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let all = list(&gateway, "").await;
    let dear_at = all["data"][2]["created_at"].as_str().unwrap().to_owned();
    let everything = ["acme/broken", "acme/saved", "acme/dear", "acme/small"];
    let before = ["acme/small"];
    let since = ["acme/broken", "acme/saved", "acme/dear"];
    let cases: [(&str, &[&str]); 20] = [
        ("model=acme/small", &["acme/small"]),
        ("model=acme/small,%20acme/saved", &["acme/saved", "acme/small"]),
        ("model=acme/none", &[]),
        ("provider=good", &["acme/saved", "acme/dear", "acme/small"]),
        ("provider=flaky", &[]),
        ("status=failed", &["acme/broken"]),
        ("status=failed,completed", &everything),
        ("rescued=true", &["acme/saved"]),
        ("rescued=false", &["acme/broken", "acme/dear", "acme/small"]),
        ("hedged=true", &[]),
        ("explored=false&hedged=false", &everything),
        ("min_cost=0.0017", &["acme/dear"]),
        ("min_cost=0.000017", &["acme/saved", "acme/dear", "acme/small"]),
        ("min_cost=0.000017000000001", &["acme/dear"]),
        ("min_ttft_ms=600000", &[]),
        ("min_ttft_ms=0&since=&model=", &["acme/saved", "acme/dear", "acme/small"]),
        ("until=2020-01-01", &[]),
        ("q=SAV", &["acme/saved"]),
        ("q=goo&status=completed", &["acme/saved", "acme/dear", "acme/small"]),
        ("q=nowhere", &[]),
    ];
    for (query, expected) in cases {
        assert_eq!(requested(&list(&gateway, &format!("?{query}")).await), expected, "{query}");
    }
    assert_eq!(requested(&list(&gateway, &format!("?since={dear_at}")).await), since);
    assert_eq!(requested(&list(&gateway, &format!("?until={dear_at}")).await), before);
}

#[actix_web::test]
async fn a_first_token_later_than_its_target_or_its_prediction_is_found_by_filters() {
    let gate = Gate::new();
    gate.open();
    let answer = Script::new().request().wait(&gate).send(stream_of(&["on", "wards"]));
    let tardy = Upstream::start([Script::new().repeat(answer)]);
    let stage = Stage::new();
    let model = Model::new("acme/tardy").at("tardy", "0.000001", "0.000001");
    let world = stage.world().provider("tardy", tardy.address()).model(&model);
    let gateway = world.variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0").start().await;
    let request = |more: Value| and(and(ask("acme/tardy"), json!({"stream": true})), more);
    for _ in 0..6 {
        assert_eq!(chat(&gateway, KEY, &request(json!({}))).await.status, 200);
    }
    let preview = async || gateway.post("/api/v1/route/preview", &request(json!({}))).await.expect(200);
    let is_measured =
        |seen: &Value| seen["candidates"][0]["predicted"]["ttft_ms"]["p95"].as_f64().is_some_and(|p95| p95 < 800.0);
    eventually("quick first tokens are expected", preview, is_measured).await;

    let kept = json!({"preferred_max_latency": 60});
    assert_eq!(chat(&gateway, KEY, &request(kept.clone())).await.status, 200);
    let missed = json!({"preferred_max_latency": {"p95": 0.5}});
    for more in [missed, kept] {
        gate.close();
        let body = request(more);
        let late = async {
            actix_web::rt::time::sleep(Duration::from_millis(1_200)).await;
            gate.open();
        };
        let (reply, ()) = futures_util::future::join(chat(&gateway, KEY, &body), late).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    let all = list(&gateway, "").await;
    let flags = |name: &str| all["data"].as_array().unwrap().iter().map(|row| row[name] == true).collect::<Vec<_>>();
    assert_eq!(flags("missed_target")[..3], [false, true, false], "{all}");
    assert_eq!(flags("slower_than_predicted")[..2], [true, true], "{all}");
    let ids = column(&all["data"], "id");
    let found = list(&gateway, "?missed_target=true").await;
    assert_eq!(column(&found["data"], "id"), ids[1..2]);
    let found = list(&gateway, "?slower_than_predicted=true").await;
    assert_eq!(column(&found["data"], "id")[..2], ids[..2]);
    let found = list(&gateway, "?missed_target=false&slower_than_predicted=false").await;
    let others = column(&found["data"], "id");
    assert!(!others.is_empty() && others.iter().all(|id| !ids[..2].contains(id)), "{found}");
}

#[actix_web::test]
async fn administrators_list_the_generations_of_all_keys_and_others_only_their_own() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for key in [KEY, OTHER, KEY] {
        chat(&gateway, key, &ask("acme/small")).await.expect(200);
    }
    let all = admin(&gateway, "generations").await.expect(200);
    assert_eq!(column(&all["data"], "key"), ["test", "other", "test"]);
    let of_other = admin(&gateway, "generations?key=other").await.expect(200);
    assert_eq!(column(&of_other["data"], "key"), ["other"]);
    let keys = admin(&gateway, "keys/other").await.expect(200);
    let by_owner = format!("generations?owner={}", keys["data"]["owner"].as_str().unwrap());
    assert_eq!(admin(&gateway, &by_owner).await.expect(200), of_other);
    let own = get(&gateway, OTHER, "/api/v1/generations").await.expect(200);
    assert_eq!(own["data"], of_other["data"]);
    // An administrator's own list on the main listener is its own.
    assert_eq!(get(&gateway, ADMIN, "/api/v1/generations").await.expect(200)["data"], json!([]));

    for key in ["test", "other"] {
        let error = error_of(&gateway.get(&format!("/api/v1/generations?key={key}")).await, 400);
        assert_eq!(error["param"], "key", "an ordinary key cannot name another");
    }
    assert_eq!(error_of(&get(&gateway, CALLER, "/api/v1/generations").await, 403)["metadata"]["reason"], "scope");
    let refused = get(&gateway.admin(), KEY, "/api/v1/admin/generations").await;
    assert_eq!(error_of(&refused, 403)["metadata"]["reason"], "scope");
}

#[actix_web::test]
async fn a_cut_or_foreign_cursor_and_every_bad_value_is_a_400_that_names_the_parameter() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for key in [KEY, KEY, OTHER, OTHER] {
        chat(&gateway, key, &ask("acme/small")).await.expect(200);
    }
    let own = list(&gateway, "?limit=1").await["next"].as_str().unwrap().to_owned();
    let of_other = get(&gateway, OTHER, "/api/v1/generations?limit=1").await.expect(200);
    let of_all = admin(&gateway, "generations?limit=1").await.expect(200);
    let (cut, late) = (own.get(..own.len() - 1).unwrap(), own.get(1..).unwrap());
    let huge = own.repeat(100);
    let cursors = [cut, late, "5", &huge, "%00", of_other["next"].as_str().unwrap(), of_all["next"].as_str().unwrap()];
    for cursor in cursors {
        let reply = gateway.get(&format!("/api/v1/generations?after={cursor}")).await;
        assert_eq!(error_of(&reply, 400)["param"], "after", "{cursor}");
    }
    assert_eq!(error_of(&admin(&gateway, &format!("generations?after={own}")).await, 400)["param"], "after");
    for (param, value) in [
        ("limit", "0"),
        ("limit", "201"),
        ("limit", "many"),
        ("since", "yesterday"),
        ("until", "2026-13-01"),
        ("until", "-5"),
        ("status", "running"),
        ("rescued", "yes"),
        ("hedged", "1"),
        ("explored", "maybe"),
        ("min_ttft_ms", "-1"),
        ("min_cost", "-0.1"),
        ("modle", "acme/small"),
        ("key", "nobody"),
        ("owner", "12"),
    ] {
        let error = error_of(&admin(&gateway, &format!("generations?{param}={value}")).await, 400);
        assert_eq!(error["param"], param, "{value}");
    }
    let backwards = gateway.get("/api/v1/generations?since=2026-02-01&until=2026-01-01").await;
    assert_eq!(error_of(&backwards, 400)["param"], "until");
}

#[actix_web::test]
async fn administrators_get_the_list_as_csv_with_the_same_filters_and_go_on_at_its_cursor() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    chat(&gateway, OTHER, &ask("acme/small")).await.expect(200);
    let whole = admin(&gateway, "generations.csv").await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    assert!(whole.header("content-type").unwrap().starts_with("text/csv"));
    assert_eq!((whole.header("x-next-cursor"), whole.header("cache-control")), (None, Some("no-store")));
    let text = whole.text();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(
        lines[0].starts_with("id,created_at,key,account,team,requested_model,") && !text.contains("Which way?"),
        "{text}"
    );
    let listed = admin(&gateway, "generations").await.expect(200);
    let cost = lines[0].split(',').position(|name| name == "cost").unwrap();
    for (line, row) in lines[1..].iter().zip(listed["data"].as_array().unwrap()) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), lines[0].split(',').count(), "{line}");
        for (at, name) in [(0, "id"), (1, "created_at"), (2, "key"), (5, "requested_model"), (11, "status")] {
            assert_eq!(cells[at], row[name], "{line}");
        }
        assert_eq!(cells[cost].parse::<f64>().unwrap(), row["cost"].as_f64().unwrap(), "{line}");
    }
    assert!(lines[3].contains(",flaky:") && lines[3].contains(" > good:completed,"), "{}", lines[3]);

    let failed = admin(&gateway, "generations.csv?status=failed&key=test").await.text();
    assert_eq!(failed.split_terminator("\r\n").collect::<Vec<_>>(), [lines[0], lines[2]]);
    let first = admin(&gateway, "generations.csv?limit=2").await;
    assert_eq!(first.text().split_terminator("\r\n").collect::<Vec<_>>(), lines[..3]);
    let rest = format!("generations.csv?after={}", first.header("x-next-cursor").unwrap());
    let rest = admin(&gateway, &rest).await.text();
    assert_eq!(rest.split_terminator("\r\n").skip(1).collect::<Vec<_>>(), lines[3..]);

    assert_eq!(error_of(&admin(&gateway, "generations.csv?limit=10001").await, 400)["param"], "limit");
    let refused = get(&gateway.admin(), KEY, "/api/v1/admin/generations.csv").await;
    assert_eq!(error_of(&refused, 403)["metadata"]["reason"], "scope");
}

#[actix_web::test]
async fn a_gateway_with_records_in_memory_only_says_that_it_cannot_list_them() {
    let upstream = saying(ANSWER);
    let world = World::new().provider("good", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("good", "0", "0")).start().await;
    chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    let error = error_of(&gateway.get("/api/v1/generations").await, 404);
    assert_eq!(error["metadata"]["reason"], "no_durable_ledger");
    assert!(error["message"].as_str().unwrap().contains("ledger.data_dir"), "{error}");
}

#[actix_web::test]
async fn after_a_restart_on_the_same_directory_the_list_its_cursors_and_the_activity_go_on() {
    let stage = Stage::new();
    let text = format!("{}{}", crate::harness::preamble(), stage.world().toml());
    let config = ConfigFile::new(&text);
    let world = stage.world();
    let mut environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    environment.push(("TEST_KEY", KEY));
    environment.push(("POINTSMAN__LEDGER__DURABILITY", "group"));
    let start = || Process::start(&["serve", "--config", config.path()], &environment);

    let mut first = start();
    one_of_each(&first.gateway()).await;
    let before = list(&first.gateway(), "").await;
    let page = list(&first.gateway(), "?limit=2").await;
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0), "{}", first.stderr());

    let second = start();
    chat(&second.gateway(), KEY, &ask("acme/small")).await.expect(200);
    let after = list(&second.gateway(), "").await;
    assert_eq!(after["data"].as_array().unwrap()[1..], before["data"].as_array().unwrap()[..]);
    let rest = list(&second.gateway(), &format!("?limit=2&after={}", page["next"].as_str().unwrap())).await;
    assert_eq!(requested(&rest), ["acme/dear", "acme/small"]);
    let activity = second.gateway().get("/api/v1/activity").await.expect(200);
    let requests = activity["data"].as_array().unwrap().iter().map(|row| row["requests"].as_u64().unwrap());
    assert_eq!(requests.sum::<u64>(), 5, "{activity}");
}
