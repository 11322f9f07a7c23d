//! Recorded decisions, made again: by the gateway itself, and by the binary from the page.

use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway},
    process::{ConfigFile, run},
    world::{Model, World, and, ask, error_of, saying},
};

const OTHER_KEY: &str = "sk-other-9876543210fedcba";

/// A gateway with three providers of one model, exploration on, and the id of a generation.
async fn served() -> (TestGateway, Vec<crate::scripted::Upstream>, String) {
    let upstreams = [saying("a"), saying("b"), saying("c")];
    let other = World::default().with("[[keys]]\nname = \"other\"\nenv = \"OTHER\"").variable("OTHER", OTHER_KEY);
    let world = other.provider("acme", upstreams[0].address());
    let world = world.provider("bolt", upstreams[1].address()).provider("crow", upstreams[2].address());
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000002").at("bolt", "0.0000011", "0.0000022");
    let gateway = world.model(&model.at("crow", "0.0000012", "0.000002")).start().await;
    let mut id = String::new();
    for _ in 0..5 {
        let reply = gateway.chat(&and(ask("acme/small"), json!({"objective": "fastest"}))).await;
        reply.expect(200);
        id = reply.header("x-generation-id").unwrap().to_owned();
    }
    (gateway, upstreams.into(), id)
}

async fn page(gateway: &TestGateway, id: &str) -> Reply {
    gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await
}

#[actix_web::test]
async fn a_served_decision_is_made_again_bit_for_bit() {
    let (gateway, _upstreams, id) = served().await;
    let data = page(&gateway, &id).await.expect(200)["data"].take();
    assert_eq!((&data["generation_id"], &data["identical"]), (&json!(id), &json!(true)), "{data}");
    assert_eq!((&data["differences"], &data["lost"]), (&json!([]), &json!([])));
    let recorded = &data["recorded"];
    assert_eq!(recorded["candidates"].as_array().unwrap().len(), 3);
    assert_ne!(recorded["seed"], "0", "served with noise");
    for (recorded, remade) in
        recorded["candidates"].as_array().unwrap().iter().zip(data["recomputed"]["candidates"].as_array().unwrap())
    {
        assert_eq!(recorded["score"], remade["score"]);
        assert!(recorded["inputs"]["intercept"].is_f64());
    }
    let choice = format!("acme/small at {}", recorded["candidates"][0]["provider_slug"].as_str().unwrap());
    assert_eq!(data["recomputed"]["choice"], choice);
    let explained = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
    assert_eq!(recorded["seed"], explained["route_seed"]);
    for path in ["/api/route/replay", "/v1/route/replay"] {
        gateway.get(&format!("{path}?id={id}")).await.expect(200);
    }
}

#[actix_web::test]
async fn a_replay_is_for_the_owner_of_the_generation_only() {
    let (gateway, _upstreams, id) = served().await;
    let missing = error_of(&gateway.get("/api/v1/route/replay").await, 400);
    assert_eq!(missing["param"], "generation_id");
    let path = format!("/api/v1/route/replay?generation_id={id}");
    let other = [("authorization", &*format!("Bearer {OTHER_KEY}"))];
    let foreign = error_of(&gateway.call(actix_web::http::Method::GET, &path, &other, None).await, 404);
    let unknown = error_of(&page(&gateway, "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").await, 404);
    assert_eq!(foreign["message"], unknown["message"]);
    assert_eq!(foreign["metadata"]["reason"], "generation_not_found");
}

#[actix_web::test]
async fn a_reload_takes_nothing_away_from_a_replay() {
    let (gateway, upstreams, id) = served().await;
    let before = page(&gateway, &id).await.expect(200)["data"].take();
    // Another policy, and a catalog in which two of the three providers are gone and the third stands elsewhere.
    let policy = "[routing]\nexploration = 1.5\nexpert.half_life = \"5s\"\nexpert.failure_time = \"900ms\"\nexpert.cheapest_time_value = 0.5";
    let world = World::default().with(policy).provider("dawn", upstreams[0].address());
    let world = world.provider("crow", upstreams[2].address());
    let model = Model::new("acme/small").at("dawn", "0.000009", "0.000009").at("crow", "0.0000012", "0.000002");
    let version = world.model(&Model::new("dawn/first").at("dawn", "0", "0")).model(&model).take_over(&gateway).await;
    assert!(version > 1);
    gateway.chat(&ask("acme/small")).await.expect(200);
    let after = page(&gateway, &id).await.expect(200)["data"].take();
    assert_eq!((&after["identical"], &after["lost"], &after["differences"]), (&json!(true), &json!([]), &json!([])));
    assert_eq!(after["recomputed"]["candidates"][0]["score"], before["recomputed"]["candidates"][0]["score"]);
    assert_eq!(after["recorded"]["policy"], before["recorded"]["policy"]);
    let (code, out, err) = say(&["replay", &id, "--url", &gateway.url("")], &[("POINTSMAN_API_KEY", KEY)]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.ends_with("\nidentical\n"), "{out}");
}

/// What the binary says about these arguments: exit code, standard output, standard error.
async fn say(arguments: &[&str], environment: &[(&'static str, &'static str)]) -> (Option<i32>, String, String) {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let environment = environment.to_vec();
    // On a thread of its own: the gateway lives on this one.
    let output = actix_web::rt::task::spawn_blocking(move || {
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &environment)
    });
    let output = output.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[actix_web::test]
async fn the_binary_makes_it_again_in_its_own_process() {
    let (gateway, _upstreams, id) = served().await;
    let (code, out, err) = say(&["replay", &id, "--url", &gateway.url("")], &[("POINTSMAN_API_KEY", KEY)]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with(&format!("{id}: fastest, 3 candidates, seed ")), "{out}");
    assert!(out.ends_with("\nidentical\n"), "{out}");
    for base in ["/api/v1", "/api/v1/", "/v1", "/"] {
        let (code, out, err) = say(&["replay", &id, "--url", &gateway.url(base)], &[("POINTSMAN_API_KEY", KEY)]).await;
        assert_eq!((code, err.as_str()), (Some(0), ""), "{base}: {out}");
    }
    let named = ["replay", &id, "--url", &gateway.url(""), "--key-env", "MY_KEY"];
    assert_eq!(say(&named, &[("MY_KEY", KEY)]).await.0, Some(0));
}

#[actix_web::test]
async fn a_saved_page_is_made_again_without_a_gateway_and_what_was_changed_in_it_is_named() {
    let (gateway, _upstreams, id) = served().await;
    // As text: a parser that is off in the last digit would show.
    let body = page(&gateway, &id).await.text();
    let saved = ConfigFile::new(&body);
    assert_eq!(say(&["replay", "--file", saved.path()], &[]).await.0, Some(0));
    assert_eq!(say(&["replay", &id, "--file", saved.path()], &[]).await.0, Some(0));

    let with = |member: &str, value: &str| {
        let (before, rest) = body.split_once(&format!("\"{member}\":")).unwrap();
        let (_, after) = rest.split_once(',').unwrap();
        ConfigFile::new(&format!("{before}\"{member}\":{value},{after}"))
    };
    let (code, out, _) = say(&["replay", "--file", with("intercept", "9.25").path()], &[]).await;
    assert_eq!(code, Some(1));
    for line in ["\ndifferent\n", "  score of acme/small at ", "  choice: recorded acme/small at ", "recomputed "] {
        assert!(out.contains(line), "{line:?} is not in {out}");
    }
    let (code, out, _) = say(&["replay", "--file", with("policy\":{\"version", "999999").path()], &[]).await;
    assert_eq!(code, Some(1));
    assert!(out.contains("  missing: the decision used policy "), "{out}");
}

#[actix_web::test]
async fn what_cannot_be_made_again_says_why() {
    let (gateway, _upstreams, id) = served().await;
    let url = gateway.url("");
    let check = async |arguments: &[&str], environment: &[(&'static str, &'static str)], why: &str| {
        let (code, out, err) = say(arguments, environment).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.contains(why), "{arguments:?}: {err}");
    };
    let unknown = "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv";
    let key = [("POINTSMAN_API_KEY", KEY)];
    check(&["replay", unknown, "--url", &url], &key, "404: No generation with this id").await;
    check(&["replay", &id, "--url", &url], &[("POINTSMAN_API_KEY", "sk-wrong")], "401").await;
    check(&["replay", &id, "--url", &url, "--key-env", "NOWHERE"], &[], "NOWHERE is not set").await;
    check(&["replay", &id, "--url", "https://far.example"], &[], "POINTSMAN_API_KEY is not set").await;
    check(&["replay", &id, "--url", "ftp://x"], &key, "--url needs to begin with").await;
    let (code, out, err) = say(&["replay", &id, "--url", "http://127.0.0.1:1"], &key).await;
    assert_eq!((code, out.as_str()), (Some(4), ""), "{err}");
    assert!(err.contains("nothing listens at http://127.0.0.1:1"), "{err}");
    check(&["replay", "gen-1"], &key, "is not a generation id").await;
    check(&["replay"], &[], "needs the id of a generation").await;
    check(&["replay", "--file", "/nowhere.json"], &[], "/nowhere.json").await;
    let empty: Value = json!({"data": {"generation_id": id, "recorded": {}}});
    let file = ConfigFile::new(&empty.to_string());
    check(&["replay", "--file", file.path()], &[], "missing field `objective`").await;
    check(&["replay", unknown, "--file", file.path()], &[], "missing field").await;
}
