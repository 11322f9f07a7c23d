//! Divided aliases: ladders, rules on tags, shares, and canaries that fall back.

use std::{collections::BTreeSet, path::Path};

use pointsman_config::{Config, Environment};
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{Model, World, always, and, ask, saying},
};

const PRICE: &str = "0.000001";

/// The same with providers of its own, which are not called.
async fn gateway_of(toml: &str) -> TestGateway {
    gateway(toml, &all_well()).await
}

/// Three models, each at a provider of its own, and the aliases of `toml`.
async fn gateway(toml: &str, upstreams: &[Upstream; 3]) -> TestGateway {
    let world = World::new().provider("first", upstreams[0].address()).provider("second", upstreams[1].address());
    let world = world.provider("third", upstreams[2].address());
    let world = world.model(&Model::new("acme/a").at("first", PRICE, PRICE));
    let world = world.model(&Model::new("acme/b").at("second", PRICE, PRICE));
    world.model(&Model::new("acme/c").at("third", PRICE, PRICE)).with(toml).start().await
}

fn all_well() -> [Upstream; 3] {
    [saying("a"), saying("b"), saying("c")]
}

fn calls(upstreams: &[Upstream; 3]) -> [usize; 3] {
    [0, 1, 2].map(|at| upstreams[at].bodies().len())
}

fn in_session(session: &str) -> Value {
    and(ask("service/chat"), json!({"session_id": session}))
}

async fn explained(gateway: &TestGateway, chat: &Value) -> Value {
    let reply = gateway.chat(chat).await;
    reply.expect(200);
    let id = reply.header("x-generation-id").unwrap().to_owned();
    gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200)
}

const SHARES: &str = r#"
[[aliases]]
name = "chat"
ladder = ["acme/a"]
[[aliases.shares]]
weight = 0.4
use = ["acme/b"]
"#;

#[actix_web::test]
async fn shares_send_each_conversation_to_one_part_and_keep_it_there() {
    let upstreams = all_well();
    let gateway = gateway(SHARES, &upstreams).await;
    let mut parts = BTreeSet::new();
    for n in 0..24 {
        let session = in_session(&format!("session-{n}"));
        let (first, again) = (explained(&gateway, &session).await, explained(&gateway, &session).await);
        let part = first["split"]["part"].as_str().unwrap().to_owned();
        let model = if part == "own" { "acme/a" } else { "acme/b" };
        assert_eq!((&first["model"], &again["model"]), (&json!(model), &json!(model)), "{part}");
        assert_eq!(first["router"], "service/chat");
        assert_eq!((&first["split"]["sticky"], &first["split"]["part"]), (&json!("session"), &again["split"]["part"]));
        parts.insert(part);
    }
    assert_eq!(parts.into_iter().collect::<Vec<_>>(), ["own", "share 1"]);
    assert_eq!(calls(&upstreams)[2], 0);
}

#[actix_web::test]
async fn the_probability_of_a_part_is_shown_counted_and_replayed() {
    the_probability_of_a_part(SHARES, 0.4).await;
    let canary = CANARY.replace("sticky = \"request\"\n", "").replace("share = 0.5", "share = 0.3");
    the_probability_of_a_part(&canary, 0.3).await;
}

async fn the_probability_of_a_part(toml: &str, share: f64) {
    let upstreams = all_well();
    let gateway = gateway(toml, &upstreams).await;
    for n in 0..8 {
        let chat = in_session(&format!("session-{n}"));
        let shown = explained(&gateway, &chat).await;
        let (part, split) = (shown["split"]["part"].as_str().unwrap(), &shown["split"]);
        assert_eq!(explained(&gateway, &chat).await["split"]["part"], part, "it stays");
        let expected = if part == "own" { 1.0 - share } else { share };
        let probability = |value: &Value| value["probability"].as_f64().unwrap();
        assert!((probability(split) - expected).abs() < 1e-4, "{split}");
        assert_eq!(split["parts"].as_array().unwrap().iter().map(probability).sum::<f64>(), 1.0);
        let of_candidates: f64 = shown["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["selection_probability"].as_f64())
            .sum();
        assert!((of_candidates - expected).abs() < 1e-3, "{of_candidates}");
        let reason = shown["decision_reason"].as_str().unwrap();
        assert!(reason.contains(" of service/chat, which gets ") && reason.contains("by session"), "{reason}");
        let id = shown["generation_id"].as_str().unwrap();
        let replay = gateway.get(&format!("/api/v1/route/replay?id={id}")).await.expect(200)["data"].take();
        assert_eq!(
            (&replay["identical"], &replay["recorded"]["split"]["part"]),
            (&json!(true), &json!(part)),
            "{replay}"
        );
    }
}

#[actix_web::test]
async fn a_preview_shows_the_part_that_a_call_of_the_session_falls_to_and_the_likeliest_without_one() {
    let upstreams = all_well();
    let gateway = gateway(SHARES, &upstreams).await;
    for n in 0..8 {
        let chat = in_session(&format!("session-{n}"));
        let preview = gateway.post("/api/v1/route/preview", &chat).await.expect(200);
        assert_eq!(preview["split"]["part"], explained(&gateway, &chat).await["split"]["part"]);
    }
    let toml = SHARES.replace("name = \"chat\"", "name = \"chat\"\nsticky = \"request\"");
    let drawn = gateway_of(&toml).await;
    let preview = drawn.post("/api/v1/route/preview", &ask("service/chat")).await.expect(200);
    assert_eq!((&preview["split"]["part"], &preview["split"]["sticky"]), (&json!("own"), &json!("request")));
    assert_eq!(preview["candidates"][0]["model"], "acme/a");
}

#[actix_web::test]
async fn users_and_keys_stay_together_where_the_alias_says_so() {
    for (sticky, chat) in [("user", and(ask("service/chat"), json!({"user": "u-1"}))), ("key", ask("service/chat"))] {
        let upstreams = all_well();
        let toml = SHARES.replace("name = \"chat\"", &format!("name = \"chat\"\nsticky = \"{sticky}\""));
        let gateway = gateway(&toml, &upstreams).await;
        for n in 0..6 {
            // Other conversations of the same user and key.
            let chat = and(chat.clone(), json!({"messages": [{"role": "user", "content": format!("{n}")}]}));
            assert_eq!(explained(&gateway, &chat).await["split"]["sticky"], sticky);
        }
        let used = calls(&upstreams).into_iter().filter(|calls| *calls > 0).count();
        assert_eq!(used, 1, "{sticky}");
    }
}

#[actix_web::test]
async fn the_first_rule_that_the_tags_meet_goes_before_shares() {
    let upstreams = all_well();
    let toml = format!("{SHARES}[[aliases.rules]]\nwhen = {{ tag.plan = \"pro\" }}\nuse = [\"acme/c\"]\n");
    let gateway = gateway(&toml, &upstreams).await;
    for n in 0..4 {
        let chat = and(in_session(&format!("s{n}")), json!({"metadata": {"plan": "pro", "team": "x"}}));
        let shown = explained(&gateway, &chat).await;
        assert_eq!((&shown["model"], &shown["split"]["part"]), (&json!("acme/c"), &json!("rule 1")));
        assert_eq!(shown["split"]["probability"], 1);
    }
    gateway.chat(&and(in_session("s0"), json!({"metadata": {"plan": "free"}}))).await.expect(200);
    assert_eq!(calls(&upstreams)[2], 4);
}

#[actix_web::test]
async fn a_ladder_is_tried_in_its_order() {
    let upstreams = [always(500, &json!({})), saying("b"), saying("c")];
    let toml = "[[aliases]]\nname = \"chat\"\nladder = [\"acme/a\", \"acme/b\", \"acme/c\"]";
    let gateway = gateway(toml, &upstreams).await;
    let shown = explained(&gateway, &ask("service/chat")).await;
    let tried: Vec<&str> =
        shown["attempts"].as_array().unwrap().iter().map(|attempt| attempt["model"].as_str().unwrap()).collect();
    assert_eq!(tried, ["acme/a", "acme/b"]);
    assert_eq!(calls(&upstreams), [1, 1, 0]);
}

#[actix_web::test]
async fn a_part_may_be_an_alias_whose_settings_go_before_those_of_the_divided_one() {
    let upstreams = all_well();
    let toml = "[[aliases]]\nname = \"other\"\nobjective = \"cheapest\"\nallowed_models = [\"acme/c\"]\n[[aliases]]\nname = \"chat\"\n\
                objective = \"fastest\"\n[[aliases.shares]]\nweight = 1.0\nuse = [\"service/other\"]";
    let gateway = gateway(toml, &upstreams).await;
    let shown = explained(&gateway, &ask("service/chat")).await;
    assert_eq!((&shown["model"], &shown["objective"]), (&json!("acme/c"), &json!("cheapest")));
    assert_eq!(shown["router"], "service/chat", "the alias that was asked for");
}

const CANARY: &str = r#"
[[aliases]]
name = "chat"
ladder = ["acme/a"]
sticky = "request"
[aliases.canary]
share = 0.5
use = ["acme/b"]
max_failures = 0.01
"#;

#[actix_web::test]
async fn a_canary_that_fails_falls_back_by_itself_and_stays_so() {
    let upstreams = [saying("a"), always(500, &json!({})), saying("c")];
    let gateway = gateway(CANARY, &upstreams).await;
    let splits = async || gateway.get("/api/v1/health/splits").await.expect(200)["data"][0].take();
    for _ in 0..400 {
        gateway.chat(&ask("service/chat")).await;
        if splits().await["canary"]["serves"] == false {
            break;
        }
    }
    let fallen = splits().await;
    let canary = &fallen["canary"];
    assert_eq!((&canary["serves"], &canary["exceeded"]), (&json!(false), &json!("max_failures")), "{fallen}");
    assert!(canary["fell_back_at"].is_string());
    let before = upstreams[1].bodies().len();
    for _ in 0..40 {
        let shown = explained(&gateway, &ask("service/chat")).await;
        let split = &shown["split"];
        assert_eq!(
            (&split["part"], &split["probability"], &split["canary_stopped"]),
            (&json!("own"), &json!(1), &json!(true))
        );
    }
    assert_eq!(upstreams[1].bodies().len(), before, "the canary is not called any more");
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_canary_serves{alias=\"service/chat\"} 0"), "{metrics}");
    // A reload that leaves the canary as it is does not start it again.
    let world = World::new().provider("first", upstreams[0].address()).provider("second", upstreams[1].address());
    let world = world.provider("third", upstreams[2].address()).model(&Model::new("acme/a").at("first", PRICE, PRICE));
    let world = world.model(&Model::new("acme/b").at("second", PRICE, PRICE)).with("[routing.sticky]\nttl = \"6m\"");
    world.with(CANARY).take_over(&gateway).await;
    for _ in 0..10 {
        gateway.chat(&ask("service/chat")).await.expect(200);
    }
    assert_eq!(upstreams[1].bodies().len(), before);
}

#[actix_web::test]
async fn a_canary_that_is_as_good_stays_at_its_share_and_is_not_promoted() {
    let upstreams = all_well();
    let gateway = gateway(&CANARY.replace("0.5", "0.25"), &upstreams).await;
    for _ in 0..300 {
        gateway.chat(&ask("service/chat")).await.expect(200);
    }
    let calls = calls(&upstreams);
    // Three standard errors of 300 draws are 22.5.
    assert!((calls[1] as f64 - 75.0).abs() < 22.5, "{calls:?}");
    let shown = gateway.get("/api/v1/health/splits").await.expect(200)["data"][0].take();
    assert_eq!((&shown["canary"]["serves"], &shown["canary"]["share"]), (&json!(true), &json!(0.25)));
    assert_eq!(shown["canary"]["canary"]["requests"], calls[1]);
}

#[actix_web::test]
async fn what_a_client_gets_refused_for_its_own_request_counts_for_no_part() {
    let upstreams = all_well();
    let gateway = gateway(CANARY, &upstreams).await;
    let unpaid = and(ask("service/chat"), json!({"provider": {"max_price": {"prompt": 0}}}));
    for _ in 0..160 {
        gateway.chat(&unpaid).await.expect(404);
        gateway.chat(&ask("service/chat")).await.expect(200);
    }
    let shown = gateway.get("/api/v1/health/splits").await.expect(200)["data"][0].take();
    let canary = &shown["canary"];
    let requests = ["canary", "others"].map(|of| canary[of]["requests"].as_u64().unwrap());
    assert_eq!((&canary["serves"], requests[0] + requests[1]), (&json!(true), 160), "{shown}");
    assert_eq!((&canary["canary"]["failures"], &canary["others"]["failures"]), (&json!(0), &json!(0)));
}

#[actix_web::test]
async fn an_alias_that_divides_no_more_is_shown_no_more() {
    let upstreams = all_well();
    let gateway = gateway(CANARY, &upstreams).await;
    gateway.chat(&ask("service/chat")).await.expect(200);
    assert!(gateway.get("/metrics").await.text().contains("pointsman_split_requests{alias=\"service/chat\""));
    let world = World::new().provider("first", upstreams[0].address());
    let world = world.model(&Model::new("acme/a").at("first", PRICE, PRICE));
    world.with("[[aliases]]\nname = \"chat\"").take_over(&gateway).await;
    assert_eq!(gateway.get("/api/v1/health/splits").await.expect(200)["data"], json!([]));
    assert!(!gateway.get("/metrics").await.text().contains("service/chat\",part"));
}

#[actix_web::test]
async fn a_divided_alias_is_no_model_of_embeddings() {
    let upstreams = all_well();
    let gateway = gateway("[[aliases]]\nname = \"chat\"\nladder = [\"acme/a\"]", &upstreams).await;
    let reply = gateway.post("/api/v1/embeddings", &json!({"model": "service/chat", "input": "Hi"})).await;
    assert_eq!(reply.status, 400, "{}", reply.text());
}

/// The faults of these lines under an alias, in a configuration with the models `acme/a` and `acme/b`.
fn faults(lines: &str) -> Vec<String> {
    let toml = format!(
        "[[aliases]]\nname = \"chat\"\n{lines}\n[[aliases]]\nname = \"divided\"\nladder = [\"acme/a\"]\n\
         [providers.acme]\nbase_url = \"https://api.acme.example/v1\"\n\
         [[models]]\nid = \"acme/a\"\ncontext_length = 1000\npricing = {{ prompt = \"0\", completion = \"0\" }}\n\
         endpoints = [{{ provider = \"acme\", upstream_model = \"a\" }}]\n\
         [[models]]\nid = \"acme/b\"\ncontext_length = 1000\npricing = {{ prompt = \"0\", completion = \"0\" }}\n\
         endpoints = [{{ provider = \"acme\", upstream_model = \"b\" }}]\n"
    );
    match Config::parse(&toml, "f", Path::new("/nowhere"), &Environment::default()) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_fault_of_a_division_names_its_line_column_and_what_to_do() {
    let share = |line: &str| format!("[[aliases.shares]]\n{line}");
    let canary = |line: &str| format!("[aliases.canary]\n{line}");
    let cases = [
        (
            share("weight = 0\nuse = [\"acme/b\"]"),
            "f:4:10: aliases[0].shares[0].weight: 0 is out of range; allowed: a number from 0.0001 to 1",
        ),
        (
            share("use = [\"acme/b\"]"),
            "f:3:1: aliases[0].shares[0].weight: is missing; allowed: a share of the requests from 0.0001 to 1, such as 0.05 for 5 %",
        ),
        (
            format!("{}\n{}", share("weight = 0.7\nuse = [\"acme/a\"]"), share("weight = 0.5\nuse = [\"acme/b\"]")),
            "f:3:1: aliases[0].shares: have weights that add up to 1.2; allowed: at most 1 together; what is left of it stays with the alias itself",
        ),
        (
            share("weight = 0.5\nuse = [\"acme/bb\"]"),
            "f:5:8: aliases[0].shares[0].use[0]: 'acme/bb' is neither a model nor an alias, did you mean 'acme/b'?",
        ),
        (
            share("weight = 0.5\nuse = []"),
            "f:5:7: aliases[0].shares[0].use: is empty; allowed: models and aliases in the order in which they are tried",
        ),
        (
            share("weight = 0.5\nuse = [\"service/divided\"]"),
            "f:5:8: aliases[0].shares[0].use[0]: 'service/divided' is an alias that divides its requests itself; allowed: models, and aliases without ladder, rules, shares and canary",
        ),
        (
            canary("share = 0.05\nuse = [\"acme/b\"]"),
            "f:3:1: aliases[0].canary.max_failures: is missing, and so is every other guardrail; allowed: by how much it may be worse before it falls back: 'max_failures = 0.005'",
        ),
        (
            canary("share = 0\nuse = [\"acme/b\"]\nmax_spend = 0.1"),
            "f:4:9: aliases[0].canary.share: 0 is out of range; allowed: a number from 0.0001 to 1",
        ),
        (
            canary("share = 0.75\nuse = [\"acme/b\"]\nmax_spend = 0.1"),
            "f:4:9: aliases[0].canary.share: 0.75 is more than half of the requests; allowed: from 0.0001 to 0.5; to give it more, make what is on trial the 'ladder' of the alias and the old one the canary",
        ),
        (
            "[[aliases.rules]]\nuse = [\"acme/b\"]".to_owned(),
            "f:3:1: aliases[0].rules[0].when: names no tag; allowed: a tag of the request's metadata and its value, such as { tag.plan = \"pro\" }",
        ),
        (
            "[[aliases.rules]]\nwhen = { plan = \"pro\" }\nuse = [\"acme/b\"]".to_owned(),
            "f:4:10: aliases[0].rules[0].when.plan: unknown key; allowed: tag",
        ),
        (
            "ladder = [\"acme/c\"]\nfree_only = true".to_owned(),
            "f:2:8: aliases[0].name: is an alias of free models, which must not lead elsewhere; allowed: no ladder, rules, shares, canary and cascade for it",
        ),
        ("ladder = [\"acme/c\"]".to_owned(), "f:3:11: aliases[0].ladder[0]: 'acme/c' is neither a model nor an alias"),
    ];
    let missed: Vec<_> = cases
        .iter()
        .map(|(lines, expected)| (faults(lines), expected))
        .filter(|(faults, expected)| !faults.iter().any(|fault| fault.starts_with(*expected)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(
        faults(&format!(
            "{}\n{}",
            share("weight = 1.0\nuse = [\"acme/a\"]"),
            canary("share = 0.01\nuse = [\"acme/b\"]\nmax_ttft = 0.2")
        ))
        .is_empty()
    );
}
