//! Shadow policies: other configurations that choose for the same requests and call nobody.

use std::path::Path;

use pointsman_config::{Config, Environment};
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    patience::eventually,
    scripted::Upstream,
    world::{Model, World, and, ask, saying},
};

/// A dear and a cheap provider of one model, and the shadows of `toml`. Seeds are those of every run.
fn world(upstreams: &[Upstream; 2], toml: &str) -> World {
    let world = World::new().provider("dear", upstreams[0].address()).provider("cheap", upstreams[1].address());
    let model = Model::new("acme/a").at("dear", "0.000009", "0.000009").at("cheap", "0.000001", "0.000001");
    let seeded = world.model(&model).variable("POINTSMAN__ROUTING__SEED", "7");
    let seeded = seeded.variable("POINTSMAN__ROUTING__INSTANCE_ID", "1");
    seeded.variable("POINTSMAN__ROUTING__OBJECTIVE", "cheapest").with(toml)
}

fn upstreams() -> [Upstream; 2] {
    [saying("dear"), saying("cheap")]
}

/// How often a request is repeated until a worker that is in time lets a shadow decide it.
pub(crate) const TRIES: usize = 20;

async fn explained(gateway: &TestGateway, chat: &Value) -> Value {
    let reply = gateway.chat(chat).await;
    reply.expect(200);
    let id = reply.header("x-generation-id").unwrap().to_owned();
    gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200)
}

/// Requests that a shadow watched: those that it decided, and those that it left out because the worker was behind.
fn watched(shadow: &Value) -> u64 {
    ["decisions", "skipped"].map(|count| shadow[count].as_u64().unwrap()).iter().sum()
}

const SAME: &str = "[[shadow]]\nname = \"same\"\n";
const WITHOUT_CHEAP: &str = "[[shadow]]\nname = \"no-cheap\"\n[shadow.overrides]\nproviders.cheap.enabled = false\n";

#[actix_web::test]
async fn a_shadow_of_the_running_configuration_agrees_always_and_another_one_moves_requests() {
    let upstreams = upstreams();
    let gateway = world(&upstreams, &format!("{SAME}{WITHOUT_CHEAP}")).start().await;
    for n in 0..20 {
        let chat = and(ask(if n % 2 == 0 { "acme/a" } else { "service/auto" }), json!({"max_tokens": n + 1}));
        gateway.chat(&chat).await.expect(200);
    }
    let shown = gateway.get("/api/v1/health/shadows").await.expect(200)["data"].take();
    let (same, other) = (&shown[0], &shown[1]);
    assert_eq!((&same["shadow"], watched(same), &same["agreement"]), (&json!("same"), 20, &json!(1)), "{same}");
    assert_eq!(same["moves"], json!([]), "{same}");
    assert_eq!((watched(other), &other["agreement"]), (20, &json!(0)), "{other}");
    assert_eq!(other["overrides"], "providers.cheap.enabled = false");
    let moved = &other["moves"][0];
    assert_eq!((&moved["from"], &moved["to"]), (&json!("acme/a at cheap"), &json!("acme/a at dear")));
    let cost = |of: &str| other[of]["cost"].as_f64().unwrap();
    assert!(cost("predicted") > 5.0 * cost("serving"), "{other}");
    assert_eq!(upstreams[0].bodies().len(), 0, "nobody is called for a shadow");
    let metrics = gateway.get("/metrics").await.text();
    let decided = format!("shadow_decisions_total{{shadow=\"no-cheap\"}} {}", other["decisions"]);
    for line in ["shadow_agreement_ratio{shadow=\"same\"} 1", &decided] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[actix_web::test]
async fn what_a_shadow_chose_is_in_the_record_and_a_replay_does_not_notice() {
    let upstreams = upstreams();
    let gateway = world(&upstreams, WITHOUT_CHEAP).start().await;
    // A worker that is behind leaves a shadow out.
    let mut shown = explained(&gateway, &ask("acme/a")).await;
    for _ in 1..TRIES {
        if shown.get("shadows").is_some() {
            break;
        }
        shown = explained(&gateway, &ask("acme/a")).await;
    }
    let shadow = &shown["shadows"][0];
    assert_eq!((&shadow["shadow"], &shadow["agrees"]), (&json!("no-cheap"), &json!(false)));
    assert_eq!(shadow["choice"]["provider_slug"], "dear");
    assert_eq!(shadow["score_gap"], json!(null), "it could not have chosen what served");
    let id = shown["generation_id"].as_str().unwrap();
    let replay = gateway.get(&format!("/api/v1/route/replay?id={id}")).await.expect(200)["data"].take();
    assert_eq!(replay["identical"], true, "{replay}");
    let plain = world(&upstreams, "").start().await;
    assert!(explained(&plain, &ask("acme/a")).await.get("shadows").is_none());
}

#[actix_web::test]
async fn requests_are_decided_alike_with_and_without_shadows() {
    let upstreams = upstreams();
    let mut decided = Vec::new();
    for toml in ["", WITHOUT_CHEAP] {
        let limited = world(&upstreams, toml).with("[limits]\nrequests_per_minute = 20\n");
        let gateway = limited.variable("POINTSMAN__ROUTING__EXPLORATION", "0.1").start().await;
        let mut seeds = Vec::new();
        for _ in 0..6 {
            seeds.push(explained(&gateway, &ask("acme/a")).await["route_seed"].take());
        }
        assert_ne!(seeds[0], seeds[1]);
        let reply = gateway.chat(&ask("acme/a")).await;
        let limits =
            ["limit", "remaining"].map(|of| reply.header(&format!("x-ratelimit-{of}-requests")).map(str::to_owned));
        assert!(limits.iter().all(Option::is_some), "{limits:?}");
        let key = gateway.get("/api/v1/key").await.expect(200);
        let health = async || gateway.get("/api/v1/health/providers").await.expect(200).to_string();
        let is_idle = |health: &String| health.contains("\"in_flight\":0") && !health.contains("\"in_flight\":1");
        eventually("nothing is in flight", health, is_idle).await;
        let data = &key["data"];
        decided.push((seeds, limits, [data["usage"].clone(), data["limit_remaining"].clone()]));
    }
    assert_eq!(decided[0], decided[1], "a shadow takes no sequence number, no place in a limit and no money");
    assert_eq!(upstreams[0].bodies().len(), 0);
}

#[actix_web::test]
async fn a_shadow_decides_only_what_it_watches_until_its_end_and_begins_anew_when_it_changes() {
    let upstreams = upstreams();
    let toml = "[[shadow]]\nname = \"auto\"\nwhere = { alias = \"service/auto\" }\n[[shadow]]\nname = \"over\"\nuntil = 2020-01-01\n\
                [[shadow]]\nname = \"fast\"\nwhere = { objective = \"fastest\" }\n[[shadow]]\nname = \"half\"\nshare = 0.5\n";
    let gateway = world(&upstreams, toml).start().await;
    for _ in 0..40 {
        gateway.chat(&ask("acme/a")).await.expect(200);
        gateway.chat(&ask("service/auto")).await.expect(200);
    }
    let shown = async || gateway.get("/api/v1/health/shadows").await.expect(200)["data"].take();
    let before = shown().await;
    let all_watched = |shown: &Value| [0, 1, 2, 3].map(|at| watched(&shown[at]));
    let [auto, over, fast, half] = all_watched(&before);
    assert_eq!((auto, over, fast), (40, 0, 0), "{before}");
    // Four standard errors of 80 draws are 18.
    assert!(half.abs_diff(40) <= 18, "{half}");
    assert_eq!((&before[0]["decides"], &before[1]["decides"]), (&json!(true), &json!(false)));
    let unknown = json!({ "cost": null, "first_token_ms": null, "failure": null });
    assert_eq!((&before[1]["serving"], &before[1]["predicted"]), (&unknown, &unknown), "it has decided nothing");
    world(&upstreams, &toml.replace("share = 0.5", "share = 0.25")).take_over(&gateway).await;
    assert_eq!(all_watched(&shown().await), [40, 0, 0, 0]);
}

#[actix_web::test]
async fn a_shadow_begins_anew_with_another_fingerprint_when_a_reload_changes_the_alias_below_it() {
    let upstreams = upstreams();
    let alias = "[[aliases]]\nname = \"chat\"\n";
    let shadow = "[[shadow]]\nname = \"fast\"\nwhere = { alias = \"service/chat\" }\n[shadow.overrides]\nrouting.objective = \"fastest\"\n";
    let gateway = world(&upstreams, &format!("{alias}{shadow}")).start().await;
    for _ in 0..5 {
        gateway.chat(&ask("service/chat")).await.expect(200);
    }
    let shown = async || gateway.get("/api/v1/health/shadows").await.expect(200)["data"][0].take();
    let before = shown().await;
    assert_eq!(watched(&before), 5, "{before}");
    world(&upstreams, &format!("{alias}{shadow}[limits]\nmax_n = 3\n")).take_over(&gateway).await;
    let same = shown().await;
    assert_eq!((watched(&same), &same["fingerprint"]), (5, &before["fingerprint"]), "{same}");
    world(&upstreams, &format!("{alias}blocked_models = [\"acme/none\"]\n{shadow}")).take_over(&gateway).await;
    let anew = shown().await;
    assert_eq!((watched(&anew), &anew["decisions"]), (0, &json!(0)), "{anew}");
    assert_ne!(anew["fingerprint"], before["fingerprint"]);
}

#[test]
fn what_no_shadow_can_change_is_a_fault_with_its_line() {
    let faults = |toml: &str| {
        let read = Config::parse(toml, "test", Path::new("."), &Environment::default());
        read.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let of = |overrides: &str| format!("[[shadow]]\nname = \"one\"\n[shadow.overrides]\n{overrides}");
    for (toml, said) in [
        (of("routing.pacing = false"), "what works over time"),
        (of("routing.exploration = -1"), "routing.exploration"),
        (of("rooting.exploration = 1"), "rooting"),
        (of("providers.new.base_url = \"http://127.0.0.1:1\""), "adds or removes"),
        (of("limits.max_n = 2"), "which decides nothing"),
        (of("").replace("one", "a name"), "is not a name"),
        ("[[shadow]]\nname = \"a\"\nwhere = { alias = \"nobody\" }".to_owned(), "'nobody' is no alias"),
        ("[[shadow]]\nname = \"a\"\n[[shadow]]\nname = \"a\"".to_owned(), "two entries"),
        ("[[shadow]]\nname = \"a\"\n".repeat(5), "at most 4"),
    ] {
        assert!(faults(&toml).contains(said), "{toml}: {}", faults(&toml));
    }
    assert_eq!(
        faults(&of("routing.objective = \"fastest\"\n\"routing.balanced\" = { latency = 0.9, cost = 0.1 }")),
        ""
    );
}
