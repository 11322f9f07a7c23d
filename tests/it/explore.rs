//! `[routing.explore]`: choices that are drawn at random to learn from.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::{ADMIN, call, issue},
    process::{self, ConfigFile},
    scripted::Upstream,
    world::{Model, World, and, ask, saying},
};

const SHARE: &str = "[routing.explore]\nshare = 0.5\nobjectives = [\"cheapest\"]\nmax_extra_cost = 1.0\n";

async fn explained(gateway: &TestGateway, body: Value) -> (Value, String) {
    let reply = gateway.chat(&body).await;
    reply.expect(200);
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let reason = reply.header("x-route-reason").unwrap().to_owned();
    (gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200), reason)
}

#[actix_web::test]
async fn a_share_of_the_requests_that_want_it_is_explored_told_and_replayed() {
    let upstreams = [saying("a"), saying("b")];
    let world = World::default().provider("acme", upstreams[0].address()).provider("bolt", upstreams[1].address());
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000002").at("bolt", "0.000002", "0.000004");
    let gateway = world.model(&model).with(SHARE).start().await;
    let cheapest = || and(ask("acme/small"), json!({ "objective": "cheapest" }));
    let mut explored = 0;
    for _ in 0..30 {
        let (page, reason) = explained(&gateway, cheapest()).await;
        assert_eq!(
            (&page["exploration_share"], page["safe_set"].as_array().unwrap().len()),
            (&json!(0.5), 2),
            "{page:#}"
        );
        let is_explored = page["explored"] == true;
        explored += u32::from(is_explored);
        assert_eq!(reason == "exploration", is_explored, "{reason}");
        let said = page["decision_reason"].as_str().unwrap().contains("drawn at random from 2 endpoints");
        assert_eq!(said, is_explored, "{}", page["decision_reason"]);
        let id = page["generation_id"].as_str().unwrap();
        let replay = gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await.expect(200);
        assert_eq!(replay["data"]["identical"], true, "{replay:#}");
    }
    assert!((1..=18).contains(&explored), "half of the draws choose the other one: {explored} of 30");
    for unwanted in [
        json!({ "provider": { "explore": false } }),
        json!({ "provider": { "allow_fallbacks": false } }),
        json!({ "provider": { "order": ["acme"] } }),
        json!({ "objective": "fastest" }),
    ] {
        let (page, _) = explained(&gateway, and(cheapest(), unwanted.clone())).await;
        assert_eq!(page["exploration_share"], 0.0, "{unwanted}");
    }
}

/// A model at two providers, one of them twice as dear.
fn at_two_prices(upstreams: &[Upstream; 2]) -> World {
    let world = World::new().provider("acme", upstreams[0].address()).provider("bolt", upstreams[1].address());
    world.model(&Model::new("acme/small").at("acme", "0.000001", "0.000002").at("bolt", "0.000002", "0.000004"))
}

#[actix_web::test]
async fn a_key_that_opts_out_is_never_explored_whether_configured_or_issued() {
    const SHY: &str = "sk-shy-0a1b2c3d4e5f6a7b";
    let (upstreams, folder) = ([saying("a"), saying("b")], Folder::new());
    let gateway = at_two_prices(&upstreams)
        .with(SHARE)
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]")
        .with("[[keys]]\nname = \"shy\"\nenv = \"SHY\"\nexplore = false")
        .variable("ADMIN", ADMIN)
        .variable("SHY", SHY)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
        .variable("POINTSMAN__LEDGER__DATA_DIR", folder.at("data").to_str().unwrap())
        .start()
        .await;
    let share = async |key: &str| {
        let body = and(ask("acme/small"), json!({ "objective": "cheapest" }));
        let reply = call(&gateway, Method::POST, "/api/v1/chat/completions", key, Some(body)).await;
        reply.expect(200);
        let id = reply.header("x-generation-id").unwrap();
        let page = call(&gateway, Method::GET, &format!("/api/v1/route/explain?id={id}"), key, None).await.expect(200);
        page["exploration_share"].as_f64().unwrap()
    };
    let (issued, data) = issue(&gateway, json!({ "name": "ci", "explore": false })).await;
    assert_eq!((&data["explore"], share(SHY).await, share(&issued).await), (&json!(false), 0.0, 0.0));
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    let wrong = call(&gateway, Method::PATCH, &path, ADMIN, Some(json!({ "explore": "no" }))).await.expect(400);
    assert_eq!(wrong["error"]["param"], "explore");
    let changed = call(&gateway, Method::PATCH, &path, ADMIN, Some(json!({ "explore": null }))).await.expect(200);
    assert_eq!((&changed["data"]["explore"], share(&issued).await), (&json!(true), 0.5));
}

#[actix_web::test]
async fn check_and_diff_tell_what_a_share_costs_before_it_is_switched_on() {
    let (upstreams, folder) = ([saying("a"), saying("b")], Folder::new());
    let world = at_two_prices(&upstreams).variable("POINTSMAN__LEDGER__DATA_DIR", folder.at("data").to_str().unwrap());
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let of = |explore: &str| ConfigFile::new(&format!("{}\n[routing.explore]\n{explore}", world.toml()));
    let run = |command: &[&str], file: &ConfigFile| {
        let output = process::run(&[command, &["--config", file.path()]].concat(), &environment);
        String::from_utf8(output.stdout).unwrap()
    };
    let (off, on) = (of("share = 0"), of("share = 0.01\nobjectives = [\"cheapest\"]\nmax_extra_cost = 1.0"));
    let without = run(&["check"], &on);
    assert!(without.contains("what it costs is not known, for there is no record"), "{without}");
    assert!(without.contains("after about 240,000 requests"), "{without}");
    let gateway = world.start().await;
    for n in 0..60 {
        let objective = if n % 3 < 2 { "cheapest" } else { "reliable" };
        gateway.chat(&and(ask("acme/small"), json!({ "objective": objective }))).await.expect(200);
    }
    gateway.stop().await;
    drop(gateway);
    for command in [&["check"][..], &["diff"]] {
        assert!(!run(command, &off).contains("routing.explore.share"), "{command:?}");
    }
    // Two of three requests may be drawn, and half of the draws cost twice as much.
    for command in [&["check"][..], &["diff"], &["diff", "--markdown"]] {
        let page = run(command, &on);
        for said in [
            "routing.explore.share = 0.01: +$0.0",
            " per 1,000 requests (+0.",
            ", by 60 recorded requests. 0.7 % of the requests are drawn, from 2.0 endpoints each",
            " It buys the cost of another choice to ± 4 % after about ",
        ] {
            assert!(page.contains(said), "{command:?}: {said} in {page}");
        }
    }
    let report: Value = serde_json::from_str(&run(&["diff", "--json"], &on)).unwrap();
    let explored = &report["exploration"];
    assert_eq!((&explored["before"], &explored["after"]), (&json!(0.0), &json!(0.01)));
    let price = &explored["price"];
    assert_eq!((&price["requests"], &price["drawable"]), (&json!(60), &json!(40)));
    assert_eq!(price["spend_per_day"], json!(null), "they cover less than an hour");
    assert!(price["spend"].as_f64().unwrap() > 0.0, "{price}");
    let same = process::run(&["diff", "--config", on.path(), "--against", on.path()], &environment);
    assert!(!String::from_utf8(same.stdout).unwrap().contains("routing.explore.share"), "it is no higher than before");
}
