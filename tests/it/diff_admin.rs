//! `/admin/diff`: a comparison as a job of the gateway.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    generation_lists::{ADMIN, CALLER, Stage, admin, one_of_each},
    harness::{Reply, TestGateway},
    patience::eventually,
    process,
    world::{Model, World},
};

pub(crate) async fn call(gateway: &TestGateway, key: &str, method: Method, path: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = body.map(|body| body.to_string().into_bytes());
    gateway.admin().call(method, &format!("/api/v1/admin/{path}"), &headers, body).await
}

async fn begin(gateway: &TestGateway, body: Value) -> Reply {
    call(gateway, ADMIN, Method::POST, "diff", Some(body)).await
}

/// A job of this kind, once it has ended.
pub(crate) async fn ended(gateway: &TestGateway, kind: &str, body: &Value) -> Value {
    let begun = call(gateway, ADMIN, Method::POST, kind, Some(body.clone())).await.expect(202);
    let path = format!("{kind}/{}", begun["data"]["id"].as_str().unwrap());
    let shown = async || admin(gateway, &path).await.expect(200)["data"].take();
    eventually("it ends", shown, |data| data["state"] != "running").await
}

/// The same, once its records are in the database, a few seconds after they were made.
pub(crate) async fn ended_with_records(gateway: &TestGateway, kind: &str, body: &Value) -> Value {
    let ended = async || ended(gateway, kind, body).await;
    eventually("it reads the records", ended, |data| data["report"]["self_tested"] == 4).await
}

#[actix_web::test]
async fn a_comparison_is_begun_shown_and_cancelled_by_its_id() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    // The same configuration, as far as decisions depend on it.
    let same = json!({"config": stage.world().toml(), "limits": ["spend > +5%"]});
    let data = ended_with_records(&gateway, "diff", &same).await;
    assert_eq!(
        (&data["state"], &data["report"]["changed"], &data["why"]),
        (&json!("done"), &json!(0), &json!(null)),
        "{data:#}"
    );
    assert_eq!(data["report"]["verdict"], "no_answer", "four decisions are too few to judge a limit by");
    let id = data["id"].as_str().unwrap();
    let cancelled = call(&gateway, ADMIN, Method::DELETE, &format!("diff/{id}"), None).await.expect(200);
    assert_eq!(cancelled["data"]["state"], "done", "it had ended");
    admin(&gateway, "diff/diff-0").await.expect(404);
}

#[actix_web::test]
async fn what_cannot_be_compared_is_refused_and_only_administrators_compare() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for (body, param) in [
        (json!({"config": "[routing]\nexploration = -1"}), "config"),
        (json!({"config": "", "since": "yesterday"}), "since"),
        (json!({"config": "", "limits": ["joy > 1%"]}), "limits"),
    ] {
        let refused = begin(&gateway, body).await.expect(400);
        assert_eq!(refused["error"]["param"], param, "{refused}");
    }
    begin(&gateway, json!({"konfig": ""})).await.expect(400);
    let denied = call(&gateway, CALLER, Method::POST, "diff", Some(json!({"config": ""}))).await;
    assert!([401, 403].contains(&denied.status), "{}", denied.status);
}

#[actix_web::test]
async fn changed_keys_and_factors_of_prices_are_compared_with_the_configuration_in_force() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let compared = async |body: Value| ended(&gateway, "diff", &body).await;
    let some = json!({"changes": {"routing.exploration": 0.5, "routing": {"objective": "fastest"}}});
    let data = ended_with_records(&gateway, "diff", &some).await;
    let keys: Vec<&str> =
        data["report"]["changes"].as_array().unwrap().iter().map(|change| change["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["routing.exploration", "routing.objective"], "{data:#}");
    let provider = gateway.get("/api/v1/providers").await.expect(200)["data"][0]["slug"].as_str().unwrap().to_owned();
    let factors = |factor: f64| json!({"price_factors": {(provider.as_str()): factor}});
    assert_eq!(compared(factors(1.0)).await["report"]["changes"], json!([]));
    let dearer = compared(factors(2.0)).await;
    assert_eq!(dearer["report"]["changes"][0]["key"], format!("prices of {provider}"), "{dearer:#}");
    let half_life = json!({"routing.expert.half_life": "5s"});
    let why = async |body: Value| compared(body).await["why"].as_str().unwrap().to_owned();
    let alone = why(json!({"changes": half_life})).await;
    assert!(alone.contains("routing.expert.half_life") && alone.contains("'open_loop' over HTTP"), "{alone}");
    let looped = why(json!({"changes": half_life, "open_loop": true})).await;
    assert!(looped.contains("the records are too few") && looped.contains("--since"), "{looped}");
    for (body, param) in [
        (json!({"changes": {"routing.exploration": -1}}), "changes"),
        (json!({"changes": {"rooting": 1}}), "changes"),
        (json!({"price_factors": {"nobody": 2}}), "price_factors"),
        (json!({"price_factors": {(provider.as_str()): -1}}), "price_factors"),
        (json!({"config": "", "changes": {}}), "config"),
        (json!({}), "config"),
    ] {
        let refused = begin(&gateway, body.clone()).await.expect(400);
        assert_eq!(refused["error"]["param"], param, "{body}: {refused}");
    }
}

#[actix_web::test]
async fn more_changes_than_can_be_told_apart_are_all_listed_and_one_that_moves_a_choice_is_named() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let more = |world: World, at: usize| world.model(&Model::new(&format!("zeta/{at:02}")).at("good", "0", "0"));
    let world = (0..70).fold(stage.world(), more);
    let flaky = "upstream_model = \"flaky-saved\"";
    let config = world.toml().replace(flaky, &format!("{flaky}, disabled = true"));
    let data = ended_with_records(&gateway, "diff", &json!({"config": config})).await;
    assert_eq!(data["report"]["changes"].as_array().unwrap().len(), 71, "{data:#}");
    let causes = &data["report"]["causes"];
    assert_eq!((&causes[0]["changes"], &causes[1]), (&json!(["models.\"acme/saved\""]), &json!(null)), "{data:#}");
}

#[actix_web::test]
async fn the_command_asks_a_running_gateway_and_prints_what_it_would_print_itself() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let folder = Folder::new();
    let config = folder.at("new.toml");
    std::fs::write(&config, stage.world().toml()).unwrap();
    let (config, url) = (config.display().to_string(), gateway.admin().url(""));
    let asked = async |more: &[&'static str], key: &'static str| {
        let (config, url, more) = (config.clone(), url.clone(), more.to_vec());
        let run = move || {
            let all = ["diff", "--config", &config, "--url", &url].into_iter().chain(more);
            let all: Vec<&str> = all.collect();
            let output = process::run(&all, &[("POINTSMAN_ADMIN_KEY", key)]);
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
        };
        actix_web::web::block(run).await.unwrap()
    };
    let is_read = |(_, out, _): &(i32, String, String)| out.contains("4 of 4 decisions identical");
    let (code, out, said) = eventually("it reads the records", async || asked(&[], ADMIN).await, is_read).await;
    assert!(code == 0 && out.contains("first token p50, s"), "{out} {said}");
    let (code, out, _) = asked(&["--json", "--fail-if", "spend > +5%"], ADMIN).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["verdict"], &report["self_tested"]), (2, &json!("no_answer"), &json!(4)));
    let (code, _, said) = asked(&["--where", "alias=nobody"], ADMIN).await;
    assert!(code == 2 && said.contains("there is nothing to compare"), "{code} {said}");
    let (code, _, said) = asked(&["--sample", "3"], ADMIN).await;
    assert!(code == 64 && said.contains("--sample does not go with --url"), "{code} {said}");
    let (_, _, said) = asked(&[], CALLER).await;
    assert!(said.contains("scope 'admin'"), "{said}");
}
