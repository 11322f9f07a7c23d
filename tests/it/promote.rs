//! `pointsman promote` and `POST /admin/shadows/{name}/promote`: from a shadow to the lines of a canary.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    generation_lists::{ADMIN, CALLER, Stage, admin},
    harness::{Reply, TestGateway},
    process,
    shadows::TRIES,
    world::{World, ask},
};

const WATCHED: &str = "[[aliases]]\nname = \"quick\"\nallowed_models = [\"acme/small\", \"acme/dear\"]\n[[shadow]]\nname = \"thrifty\"\n\
                       where = { alias = \"service/quick\" }\n[shadow.overrides]\nrouting.objective = \"cheapest\"\n\
                       [[shadow]]\nname = \"all\"\n";

fn world(stage: &Stage) -> World {
    stage.world().with(WATCHED).variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
}

async fn promote(gateway: &TestGateway, key: &str, name: &str, body: Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let path = format!("/api/v1/admin/shadows/{name}/promote");
    gateway.admin().call(Method::POST, &path, &headers, Some(body.to_string().into_bytes())).await
}

async fn fingerprint(gateway: &TestGateway) -> String {
    let shown = gateway.get("/api/v1/health/shadows").await.expect(200);
    shown["data"][0]["fingerprint"].as_str().unwrap().to_owned()
}

/// Names of the checks that are not met.
fn unmet(page: &Value) -> Vec<&str> {
    let checks = page["data"]["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["ok"] == false).map(|check| check["check"].as_str().unwrap()).collect()
}

/// Decisions of the first shadow, after chats of its alias until it has decided one: a worker that is behind leaves it out.
async fn decisions(gateway: &TestGateway) -> u64 {
    for _ in 0..TRIES {
        gateway.chat(&ask("service/quick")).await.expect(200);
        let shown = gateway.get("/api/v1/health/shadows").await.expect(200);
        match shown["data"][0]["decisions"].as_u64() {
            Some(0) => {}
            decided => return decided.unwrap(),
        }
    }
    panic!("no decision of a shadow in {TRIES} requests");
}

async fn promotions(gateway: &TestGateway) -> Value {
    admin(gateway, "audit?action=promote_shadow").await.expect(200)["data"].take()
}

#[actix_web::test]
async fn the_page_about_shadows_says_what_each_would_choose_and_which_limits_it_keeps() {
    let stage = Stage::new();
    let gateway = world(&stage).start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/shadows").await;
    assert!(page.contains("It has decided no request") && page.contains("nothing is known yet"), "{page}");
    decisions(&gateway).await;
    let page = browser.page("/console/shadows").await;
    let expect = fingerprint(&gateway).await;
    for said in ["thrifty", "It agrees in ", "and 10,000 are needed", "not kept", "first_token", expect.as_str()] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let plain = stage.world().variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0").start().await;
    let page = Browser::logged_in(&plain, ADMIN).await.page("/console/shadows").await;
    assert!(page.contains("There is no shadow.") && page.contains("[[shadow]]"), "{page}");
}

#[actix_web::test]
async fn little_evidence_is_refused_until_a_reason_overrides_it_and_the_lines_then_start_the_canary() {
    let stage = Stage::new();
    let gateway = world(&stage).start().await;
    for _ in 0..5 {
        gateway.chat(&ask("service/quick")).await.expect(200);
    }
    decisions(&gateway).await;
    let expect = fingerprint(&gateway).await;
    let asked = json!({"share": 0.4, "expect": expect, "max_spend": 9});
    let refused = promote(&gateway, ADMIN, "thrifty", asked.clone()).await.expect(200);
    assert_eq!((&refused["data"]["verdict"], &refused["data"]["lines"]), (&json!("refused"), &Value::Null));
    assert_eq!(unmet(&refused), ["window"], "{refused:#}");

    let with = |name: &str, value: Value| {
        let mut body = asked.clone();
        body[name] = value;
        body
    };
    let mut other = with("override", json!("a friday"));
    other["expect"] = json!("000000000000");
    let other = promote(&gateway, ADMIN, "thrifty", other).await.expect(200);
    assert_eq!((&other["data"]["verdict"], &unmet(&other)[..]), (&json!("refused"), &["fingerprint", "window"][..]));
    let everything = json!({"share": 0.4, "expect": "", "override": "a friday"});
    let everything = promote(&gateway, ADMIN, "all", everything).await.expect(200);
    assert!(unmet(&everything).contains(&"canary"), "{everything:#}");
    assert_eq!(promotions(&gateway).await, json!([]), "what is refused is no act");

    let allowed = promote(&gateway, ADMIN, "thrifty", with("override", json!("a friday"))).await.expect(200);
    assert_eq!(allowed["data"]["verdict"], "overridden", "{allowed:#}");
    let acts = promotions(&gateway).await;
    let changes = acts[0]["changes"].as_array().unwrap();
    let change = |member: &str| changes.iter().find(|change| change["member"] == member).unwrap()["to"].clone();
    assert_eq!((&acts[0]["by"], &acts[0]["object"]), (&json!("admin"), &json!("thrifty")));
    assert_eq!((change("reason"), change("overridden")), (json!("a friday"), json!(["window"])));
    assert_eq!((change("alias"), change("fingerprint")), (json!("service/quick"), json!(expect)));

    assert!(gateway.get("/api/v1/health/splits").await.expect(200)["data"].as_array().unwrap().is_empty());
    let lines = allowed["data"]["lines"].as_str().unwrap();
    world(&stage).with(lines).take_over(&gateway).await;
    for _ in 0..40 {
        gateway.chat(&ask("service/quick")).await.expect(200);
    }
    let splits = gateway.get("/api/v1/health/splits").await.expect(200);
    let canary = &splits["data"][0]["canary"];
    assert_eq!((&splits["data"][0]["alias"], &canary["share"]), (&json!("service/quick"), &json!(0.4)), "{splits:#}");
    assert!(canary["canary"]["requests"].as_u64() > Some(0) && canary["serves"] == true, "{splits:#}");
    let again = promote(&gateway, ADMIN, "thrifty", asked).await.expect(200);
    assert!(unmet(&again).contains(&"canary"), "it has one: {again:#}");
}

#[actix_web::test]
async fn a_shadow_of_the_default_objective_is_refused_while_an_issued_key_has_an_objective() {
    let stage = Stage::new();
    let gateway = world(&stage).start().await;
    let asked = json!({"share": 0.4, "expect": fingerprint(&gateway).await});
    let without = promote(&gateway, ADMIN, "thrifty", asked.clone()).await.expect(200);
    assert!(!unmet(&without).contains(&"canary"), "{without:#}");
    let bearer = format!("Bearer {ADMIN}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let key = json!({"name": "hasty", "objective": "fastest"}).to_string().into_bytes();
    gateway.call(Method::POST, "/api/v1/keys", &headers, Some(key)).await.expect(201);
    let with = promote(&gateway, ADMIN, "thrifty", asked).await.expect(200);
    let checks = with["data"]["checks"].as_array().unwrap();
    let canary = checks.iter().find(|check| check["check"] == "canary").unwrap();
    let sentence = canary["sentence"].as_str().unwrap();
    assert!(canary["ok"] == false && sentence.contains("keys with an objective of their own"), "{with:#}");
}

#[actix_web::test]
async fn what_makes_no_sense_is_refused_by_name_and_only_administrators_promote() {
    let stage = Stage::new();
    let gateway = world(&stage).start().await;
    for (body, param) in [
        (json!({"share": 1, "expect": "a"}), "share"),
        (json!({"share": 0, "expect": "a"}), "share"),
        (json!({"share": 0.1, "expect": "a", "max_ttft": -1}), "max_ttft"),
        (json!({"share": 0.1, "expect": "a", "override": ""}), "override"),
    ] {
        let refused = promote(&gateway, ADMIN, "thrifty", body).await.expect(400);
        assert_eq!(refused["error"]["param"], param, "{refused}");
    }
    for body in [json!({"share": 0.1}), json!({"share": null, "expect": "a"}), json!([])] {
        promote(&gateway, ADMIN, "thrifty", body).await.expect(400);
    }
    promote(&gateway, ADMIN, "nobody", json!({"share": 0.1, "expect": "a"})).await.expect(404);
    let denied = promote(&gateway, CALLER, "thrifty", json!({"share": 0.1, "expect": "a"})).await;
    assert!([401, 403].contains(&denied.status), "{}", denied.status);
}

#[actix_web::test]
async fn the_command_prints_the_checks_and_the_lines_and_its_exit_code_says_which() {
    let stage = Stage::new();
    let gateway = world(&stage).start().await;
    let decided = decisions(&gateway).await;
    let (expect, url) = (fingerprint(&gateway).await, gateway.admin().url(""));
    let asked = async |arguments: &[&str]| {
        let all: Vec<String> = ["promote"].iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        let run = move || {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let output = process::run(&all, &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
        };
        actix_web::web::block(run).await.unwrap()
    };
    let own = ["thrifty", "--share", "0.05", "--expect", &expect, "--max-spend", "9", "--url", &url];
    let (code, out, _) = asked(&own).await;
    assert!(code == 1 && out.starts_with("refused: thrifty (routing.objective = \"cheapest\")"), "{code} {out}");
    let window = format!("  NO  window       0.0 h and {decided} decisions");
    assert!(out.contains(&window) && !out.contains("[aliases.canary]"), "{out}");
    let (code, out, _) = asked(&[&own[..], &["--override", "a friday"]].concat()).await;
    assert!(code == 0 && out.contains("[aliases.canary]\nshare = 0.05\nuse = [\"service/quick-thrifty\"]"), "{out}");
    let (code, out, _) = asked(&[&own[..], &["--json"]].concat()).await;
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()["data"]["verdict"].clone()), (1, json!("refused")));
    let endless = [&own[..], &["--max-ttft", "inf"]].concat();
    let elsewhere = ["thrifty", "--share", "0.05", "--expect", "a", "--url", "http://127.0.0.1:1"];
    for (arguments, code, said) in [
        (&["nobody", "--share", "0.05", "--expect", "a", "--url", &url][..], 2, "no such shadow"),
        (&["thrifty", "--share", "0.7", "--expect", "a", "--url", &url], 2, "from 0.0001 to 0.5"),
        (&["thrifty", "--share", "nan", "--expect", "a", "--url", &url], 2, "needs a finite number"),
        (&endless[..], 2, "needs a finite number"),
        (&["thrifty", "--share", "0.05", "--url", &url], 2, "--expect <FINGERPRINT>"),
        (&elsewhere, 4, "nothing listens at http://127.0.0.1:1"),
    ] {
        let (is, _, error) = asked(arguments).await;
        assert!(is == code && error.contains(said), "{arguments:?}: {is} {error}");
    }
}

#[actix_web::test]
async fn the_page_of_a_decision_shows_what_shadows_would_have_chosen() {
    let stage = Stage::new();
    let gateway = world(&stage).start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    // A worker that is behind leaves a shadow out.
    let shown = async |model: &str, shadow: &str| {
        for _ in 0..TRIES {
            let answer = gateway.chat(&ask(model)).await.expect(200);
            let page = browser.page(&format!("/console/decisions/{}", answer["id"].as_str().unwrap())).await;
            let section = page.split_once("<h2 id=\"shadows\">");
            if section.is_some_and(|(_, section)| section.contains(shadow)) {
                return page;
            }
        }
        panic!("no page of {model} with the shadow {shadow} in {TRIES} requests");
    };
    let page = shown("service/quick", "thrifty").await;
    let (_, section) = page.split_once("<h2 id=\"shadows\">").unwrap_or_else(|| panic!("{page}"));
    assert!(section.contains("thrifty") && section.contains("the same"), "{section}");
    let page = shown("acme/small", "all").await;
    assert!(!page.contains("thrifty"), "it watches one alias only: {page}");
}
