//! `/metrics`: which series there are, from when on, how many, and what they add up to.

use std::{collections::BTreeSet, fmt::Write as _, time::Instant};

use actix_web::http::Method;
use futures_util::join;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    patience::eventually,
    scrape::Scrape,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, completion, http, refusal, saying, stream_of},
};

/// An upstream that always fails, one that answers, and a model at both: the failing one is cheaper.
async fn rescue() -> (TestGateway, World, [Upstream; 2]) {
    let upstreams = [
        Upstream::start([Script::new().repeat(Script::answering(refusal(500)))]),
        Upstream::start([Script::answering(stream_of(&["one", "two"]))]),
    ];
    let model = Model::new("acme/small").at("ill", "0.000001", "0.000001").at("well", "0.000002", "0.000002");
    let world =
        World::new().provider("ill", upstreams[0].address()).provider("well", upstreams[1].address()).model(&model);
    (world.start().await, world, upstreams)
}

#[actix_web::test]
async fn every_series_of_an_endpoint_a_provider_and_a_key_is_there_with_0_before_the_first_call() {
    let (gateway, _, _upstreams) = rescue().await;
    let scrape = Scrape::of(&gateway).await;
    let endpoint = |provider| [("provider", provider), ("model", "acme/small")];
    for provider in ["ill", "well"] {
        for name in [
            "circuit_open",
            "endpoint_silent",
            "cost_usd_total",
            "tokens_total",
            "upstream_attempts_total",
            "breaker_moves_total",
            "ttft_seconds_count",
            "generation_seconds_count",
            "time_per_output_token_seconds_count",
        ] {
            assert_eq!(scrape.sum(name, &endpoint(provider)), 0.0, "{name}");
        }
        assert_eq!(scrape.sum("circuit_open", &[("provider", provider), ("model", "")]), 0.0);
    }
    for result in ["ok", "rescued", "failed", "cancelled", "truncated"] {
        assert_eq!(scrape.sum("generations_total", &[("result", result)]), 0.0);
    }
    for (name, label, value) in [
        ("hedges_total", "outcome", "won"),
        ("attempts_withheld_total", "budget", "hedge"),
        ("shed_requests_total", "reason", "in_flight"),
        ("excluded_total", "reason", "data_policy"),
        ("decisions_total", "code", "provider_fallback"),
        ("request_ttft_seconds_count", "objective", "cheapest"),
        ("request_seconds_count", "result", "rescued"),
        ("key_requests_total", "key", "test"),
        ("key_cost_usd_total", "key", "other"),
    ] {
        assert_eq!(scrape.sum(name, &[(label, value)]), 0.0, "{name}");
    }
    for name in
        ["dropped_events_total", "dropped_records_total", "panics_total", "explored_total", "decision_seconds_count"]
    {
        assert_eq!(scrape.sum(name, &[]), 0.0, "{name}");
    }
    assert!(scrape.sum("concurrency_limit", &[]) > 0.0);
}

#[actix_web::test]
async fn scrapes_at_the_same_time_miss_no_endpoint_while_breakers_move() {
    let ill = Upstream::start([Script::new().repeat(Script::answering(refusal(500)))]);
    let well = saying("Left.");
    let models: Vec<String> = (0..6).map(|n| format!("acme/m{n}")).collect();
    let world = World::new().with("[routing.breaker]\nconsecutive = 1\nbase = \"50ms\"\n");
    let world = world.provider("ill", ill.address()).provider("well", well.address());
    let world = models.iter().fold(world, |world, name| {
        world.model(&Model::new(name).at("ill", "0.000001", "0.000001").at("well", "0.000002", "0.000002"))
    });
    let gateway = world.start().await;
    let endpoints = |scrape: &Scrape| -> BTreeSet<(String, String)> {
        let samples = &scrape.families["pointsman_circuit_open"].samples;
        samples.iter().map(|(_, labels, _)| (labels["provider"].clone(), labels["model"].clone())).collect()
    };
    let expected = endpoints(&Scrape::of(&gateway).await);
    let of_models = |provider: &str| models.iter().all(|model| expected.contains(&(provider.into(), model.into())));
    assert!(of_models("ill") && of_models("well"), "{expected:?}");
    let storm = async {
        for model in models.iter().cycle().take(90) {
            gateway.chat(&ask(model)).await;
        }
    };
    let watch = async || {
        for _ in 0..40 {
            assert_eq!(endpoints(&Scrape::of(&gateway).await), expected);
        }
    };
    join!(storm, watch(), watch());
    let moves = Scrape::of(&gateway).await.sum("breaker_moves_total", &[]);
    assert!(moves > 12.0, "{moves}");
}

#[actix_web::test]
async fn what_only_grows_is_a_counter_and_every_family_has_help() {
    let (gateway, _, _upstreams) = rescue().await;
    gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    let scrape = Scrape::of(&gateway).await;
    assert!(scrape.families.len() > 45, "{}", scrape.families.len());
    for (name, family) in &scrape.families {
        assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name} is a {}", family.kind);
        assert!(!family.help.is_empty(), "{name} has no help");
        assert!(!name.ends_with("_ms") && !name.contains("_millis"), "{name} is not in a base unit");
        assert!(family.kind != "histogram" || name.ends_with("_seconds"), "{name}");
    }
}

#[actix_web::test]
async fn a_rescued_stream_counts_once_as_rescued_and_its_first_token_includes_the_failed_attempt() {
    let (gateway, _, _upstreams) = rescue().await;
    let reply = gateway.chat(&and(ask("acme/small"), json!({"stream": true, "service_tier": "auto"}))).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let ended = async || Scrape::of(&gateway).await.sum("generations_total", &[]);
    eventually("the end of the stream", ended, |count| *count == 1.0).await;
    let scrape = Scrape::of(&gateway).await;
    assert_eq!(scrape.sum("generations_total", &[("result", "rescued")]), 1.0);
    assert_eq!(scrape.sum("request_seconds_count", &[("result", "rescued"), ("streamed", "true")]), 1.0);
    assert_eq!(scrape.sum("upstream_attempts_total", &[("provider", "ill"), ("outcome", "server")]), 1.0);
    assert_eq!(scrape.sum("upstream_attempts_total", &[("provider", "well"), ("outcome", "ok")]), 1.0);
    assert_eq!(scrape.sum("ttft_seconds_count", &[("provider", "well")]), 1.0);
    assert_eq!(scrape.sum("ttft_seconds_count", &[("provider", "ill")]), 0.0);
    assert_eq!(scrape.sum("request_ttft_seconds_count", &[]), 1.0);
    assert_eq!(scrape.sum("decisions_total", &[("code", "provider_fallback")]), 1.0);
    assert_eq!(scrape.sum("decision_seconds_count", &[]), 1.0);
    assert_eq!(scrape.sum("key_requests_total", &[("key", "test"), ("status_class", "2xx")]), 1.0);
}

#[actix_web::test]
async fn a_plain_answer_has_a_duration_and_no_time_to_first_token() {
    let upstream = saying("This way.");
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let scrape = Scrape::of(&gateway).await;
    assert_eq!(scrape.sum("ttft_seconds_count", &[]), 0.0);
    assert_eq!(scrape.sum("request_ttft_seconds_count", &[]), 0.0);
    assert_eq!(scrape.sum("generation_seconds_count", &[("streamed", "false")]), 1.0);
    assert_eq!(scrape.sum("generation_seconds_count", &[("streamed", "true")]), 0.0);
    assert_eq!(scrape.sum("tokens_total", &[("provider", "acme"), ("model", "acme/small"), ("kind", "prompt")]), 12.0);
    assert_eq!(scrape.sum("generations_total", &[("result", "ok")]), 1.0);
}

#[actix_web::test]
async fn costs_by_endpoint_and_by_key_add_up_to_the_ledger() {
    let (one, two) = (saying("One."), saying("Two."));
    let models = [
        Model::new("acme/small").at("acme", "0.00001", "0.00003"),
        Model::new("beta/large").at("beta", "0.0007", "0.0011"),
    ];
    let world = World::new().provider("acme", one.address()).provider("beta", two.address());
    let gateway = world.model(&models[0]).model(&models[1]).start().await;
    let mut spent = 0.0;
    for model in ["acme/small", "beta/large", "acme/small"] {
        spent += gateway.chat(&ask(model)).await.expect(200)["usage"]["cost"].as_f64().unwrap();
    }
    let scrape = Scrape::of(&gateway).await;
    let total = scrape.sum("cost_usd_total", &[]);
    assert!((total - spent).abs() < 1e-9 * spent && spent > 0.0, "{total} instead of {spent}");
    let ledger = gateway.get("/api/v1/key").await.expect(200)["data"]["usage"].as_f64().unwrap();
    assert!((total - ledger).abs() < 1e-9 * ledger, "{total} instead of {ledger}");
    assert!((scrape.sum("key_cost_usd_total", &[("key", "test")]) - spent).abs() < 1e-9 * spent);
    assert!(
        scrape.sum("cost_usd_total", &[("provider", "beta")]) > scrape.sum("cost_usd_total", &[("provider", "acme")])
    );
}

#[actix_web::test]
async fn names_that_clients_send_never_become_series() {
    let upstream = saying("This way.");
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    let flood = async |round: usize| {
        for n in 0..20 {
            let stranger = format!("stranger-{round}-{n}");
            gateway.chat(&ask(&format!("{stranger}/model"))).await;
            let more = json!({"user": stranger, "session_id": stranger, "metadata": {"team": stranger}});
            gateway.chat(&and(ask("acme/small"), more)).await.expect(200);
            gateway.get(&format!("/{stranger}")).await.expect(404);
            let bearer = format!("Bearer sk-{stranger}");
            let headers =
                [("authorization", bearer.as_str()), ("user-agent", stranger.as_str()), ("x-request-id", &stranger)];
            gateway.call(Method::GET, "/api/v1/key", &headers, None).await.expect(401);
        }
    };
    flood(0).await;
    // The page counts itself when it was answered.
    Scrape::of(&gateway).await;
    let before = Scrape::of(&gateway).await.series();
    flood(1).await;
    let after = Scrape::of(&gateway).await.series();
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(!after.iter().any(|series| series.contains("stranger")), "{after:?}");
}

#[actix_web::test]
async fn a_hundred_endpoints_stay_below_a_megabyte_and_a_reload_removes_those_that_left() {
    let upstream = saying("This way.");
    let mut world = World::new();
    for provider in 0..10 {
        world = world.provider(&format!("provider{provider}"), upstream.address());
    }
    for model in 0..10 {
        let mut entry = Model::new(&format!("maker/model-{model}"));
        for provider in 0..10 {
            entry = entry.at(&format!("provider{provider}"), "0.000001", "0.000001");
        }
        world = world.model(&entry);
    }
    let world = world;
    let gateway = world.start().await;
    assert_eq!(Scrape::of(&gateway).await.family("circuit_open").samples.len(), 110);
    for (model, provider) in (0..10).flat_map(|model| (0..10).map(move |provider| (model, provider))) {
        let only = json!({"provider": {"only": [format!("provider{provider}")]}});
        gateway.chat(&and(ask(&format!("maker/model-{model}")), only)).await.expect(200);
    }
    let bytes = Scrape::of(&gateway).await.bytes;
    assert!(bytes < 900_000, "{bytes} bytes");

    let model = Model::new("maker/model-3").at("provider7", "0.000001", "0.000001").at("newcomer", "0.1", "0.1");
    let small = World::new().provider("provider7", upstream.address()).provider("newcomer", upstream.address());
    small.model(&model).take_over(&gateway).await;
    let scrape = Scrape::of(&gateway).await;
    for (name, family) in &scrape.families {
        let gone: Vec<&str> = family
            .values("provider")
            .into_iter()
            .filter(|provider| !["provider7", "newcomer", "none"].contains(provider))
            .collect();
        assert!(gone.is_empty(), "{name} still has {gone:?}");
    }
    assert_eq!(scrape.sum("circuit_open", &[("provider", "newcomer"), ("model", "maker/model-3")]), 0.0);
    assert_eq!(scrape.family("circuit_open").samples.len(), 4);
}

#[actix_web::test]
async fn a_scrape_of_a_hundred_endpoints_takes_milliseconds() {
    let upstream = saying("This way.");
    let mut model = Model::new("maker/model");
    let mut world = World::new();
    for provider in 0..100 {
        let slug = format!("provider{provider}");
        world = world.provider(&slug, upstream.address());
        model = model.at(&slug, "0.000001", "0.000001");
    }
    let gateway = world.model(&model).start().await;
    let took = async || {
        let began = Instant::now();
        gateway.get("/metrics").await;
        began.elapsed().as_millis()
    };
    // Not optimised and beside other tests: the figure of a released binary is below 20 ms.
    eventually("a quick scrape", took, |millis| *millis < 200).await;
}

#[actix_web::test]
async fn keys_beyond_two_hundred_share_a_series() {
    let upstream = saying("This way.");
    let mut keys = String::new();
    for n in 0..250 {
        let digest = format!("{n:064x}");
        let _ = writeln!(keys, "[[keys]]\nname = \"team-{n}\"\nsha256 = \"{digest}\"");
    }
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).with(&keys).start().await;
    let scrape = Scrape::of(&gateway).await;
    for name in ["key_requests_total", "key_cost_usd_total"] {
        let names = scrape.family(name).values("key");
        assert_eq!(names.len(), 201, "{name}");
        assert!(names.contains("other") && names.contains("team-0") && !names.contains("team-249"), "{names:?}");
    }
}

#[actix_web::test]
async fn a_breaker_that_opens_shows_as_gauge_and_as_move() {
    let upstream = Upstream::start([Script::new().repeat(Script::answering(refusal(500)))]);
    let model = Model::new("acme/small").at("ill", "0.000001", "0.000001");
    let world = World::new().with("[routing.breaker]\nconsecutive = 2\nbase = \"60s\"\n");
    let gateway = world.provider("ill", upstream.address()).model(&model).start().await;
    for _ in 0..4 {
        gateway.chat(&ask("acme/small")).await;
    }
    let scrape = Scrape::of(&gateway).await;
    let endpoint = [("provider", "ill"), ("model", "acme/small")];
    assert_eq!(scrape.sum("circuit_open", &endpoint), 1.0);
    let moves = [("provider", "ill"), ("model", "acme/small"), ("to", "open")];
    assert_eq!(scrape.sum("breaker_moves_total", &moves), 1.0);
    assert!(scrape.sum("generations_total", &[("result", "failed")]) >= 2.0);
}

/// A gateway that shows every family, after calls of every kind.
pub(crate) async fn full_gateway(folder: &Folder) -> (TestGateway, Vec<Upstream>) {
    let upstreams = vec![
        always(500, &json!({})),
        Upstream::start([Script::answering(stream_of(&["one", "two"]))]),
        saying("This way."),
        Upstream::start([Script::answering(http(200, &priced_answer()))]),
    ];
    let dated = |provider: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"x\", usd_per_million = {{ prompt = \"1\", completion = \"2\", \
             source = \"a list\", date = \"2026-01\" }} }}"
        )
    };
    let model = format!(
        "[[models]]\nid = \"acme/dated\"\ncontext_length = 100000\nendpoints = [{}]\n[[aliases]]\nname = \"quick\"\n\
         objective = \"cheapest\"\npreferred_max_latency = {{ p95 = 2 }}\n[aliases.canary]\nshare = 0.01\nuse = [\"acme/small\"]\n\
         max_failures = 0.5\n[[keys]]\nname = \"team\"\nsha256 = \"{:064x}\"\n\
         spend_limit = \"5\"\n[[accounts]]\nname = \"webshop\"\nspend_limit = \"20\"\nteam = \"product\"\n\
         [[teams]]\nname = \"product\"\nspend_limit = \"30\"\n[routing.memory]\npath = {:?}\nsave_interval = \"100ms\"\n",
        dated("plain"),
        7,
        folder.at("routing.json")
    );
    let small = Model::new("acme/small").at("ill", "0.000001", "0.000001").at("streams", "0.000002", "0.000002");
    let world = World::new()
        .provider("ill", upstreams[0].address())
        .provider("streams", upstreams[1].address())
        .provider("plain", upstreams[2].address())
        .provider("priced", upstreams[3].address())
        .model(&small)
        .model(&Model::new("acme/priced").at("priced", "0.000001", "0.000001"))
        .with(&model)
        // A store that is never reached: its families are there, and no call notices it.
        .with("[shared.postgres]\nurl_env = \"POSTGRES\"")
        .with("[[shadow]]\nname = \"same\"")
        .with("[[aliases]]\nname = \"paced\"\nobjective = \"balanced\"\nweights = { quality = 1 }\nspend_pace = \"1\"")
        .with("[[alerts]]\nname = \"ops\"\nurl = \"http://127.0.0.1:1/hook\"\nevents = []")
        .variable("POSTGRES", "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
        .variable("POINTSMAN__LEDGER__DURABILITY", "group")
        .variable("POINTSMAN__LEDGER__DATA_DIR", folder.at("data").to_str().unwrap());
    let gateway = world.start().await;
    gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    gateway.chat(&and(ask("service/quick"), json!({"stream": true}))).await;
    gateway.chat(&ask("acme/dated")).await.expect(200);
    gateway.chat(&ask("service/paced")).await.expect(200);
    gateway.chat(&ask("acme/priced")).await.expect(200);
    let rated = gateway.chat(&ask("acme/priced")).await.expect(200)["id"].as_str().unwrap().to_owned();
    gateway.post(&format!("/api/v1/generations/{rated}/feedback"), &json!({"value": true})).await.expect(202);
    let all = async || Scrape::of(&gateway).await;
    let is_full = |scrape: &Scrape| {
        [
            "prediction_within_p95",
            "prediction_failure_brier",
            "slo_burn_rate",
            "spend_pace_ratio",
            "routing_memory_writes_total",
            "quality_mean",
        ]
        .iter()
        .all(|name| scrape.families.contains_key(&format!("pointsman_{name}")))
            && scrape.family("prediction_within_p95").values("of").contains("ttft")
    };
    let shown = async || {
        // What is predicted is compared from the third call of an endpoint on.
        gateway.chat(&ask("acme/priced")).await.expect(200);
        gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
        let scrape = all().await;
        (is_full(&scrape), scrape.families.into_keys().collect::<Vec<_>>())
    };
    eventually("every family", shown, |(full, _)| *full).await;
    (gateway, upstreams)
}

fn priced_answer() -> Value {
    let mut answer = completion("This way.");
    answer["usage"]["cost"] = json!(0.001);
    answer
}

const PAGE: &str = include_str!("../../docs/METRICS.md");

/// The rows of the table in docs/METRICS.md: name, type, labels, help. The bound stands behind them and is for people.
fn documented() -> Vec<[String; 4]> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `p"));
    let cells =
        rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect::<Vec<_>>());
    cells.map(|cells| [0, 1, 2, 4].map(|at| cells.get(at).cloned().unwrap_or_default())).collect()
}

#[actix_web::test]
async fn docs_metrics_md_lists_exactly_the_families_of_a_running_gateway() {
    let folder = Folder::new();
    let (gateway, _upstreams) = full_gateway(&folder).await;
    let scrape = Scrape::of(&gateway).await;
    let shown: Vec<[String; 4]> = scrape
        .families
        .iter()
        .map(|(name, family)| {
            let labels: Vec<&str> = family.labels().into_iter().collect();
            let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
            [format!("`{name}`"), family.kind.clone(), labels, family.help.replace('|', "\\|")]
        })
        .collect();
    let mut documented = documented();
    documented.sort();
    let missing: Vec<_> = shown.iter().filter(|row| !documented.contains(row)).collect();
    let gone: Vec<_> = documented.iter().filter(|row| !shown.contains(row)).collect();
    let rows = |rows: &[&[String; 4]]| {
        rows.iter()
            .map(|[name, kind, labels, help]| format!("| {name} | {kind} | {labels} | BOUND | {help} |"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (missing, gone) = (rows(&missing), rows(&gone));
    assert!(missing.is_empty() && gone.is_empty(), "not in docs/METRICS.md:\n{missing}\nonly there:\n{gone}");
    // Also a bound for each.
    assert!(PAGE.lines().filter(|line| line.starts_with("| `p")).all(|row| row.split(" | ").count() == 5));
}

#[actix_web::test]
async fn dated_prices_have_an_age_and_limited_keys_a_budget() {
    let folder = Folder::new();
    let (gateway, _upstreams) = full_gateway(&folder).await;
    let scrape = Scrape::of(&gateway).await;
    assert!(scrape.sum("price_age_seconds", &[("provider", "plain")]) > 86_400.0);
    assert_eq!(scrape.family("price_age_seconds").values("provider").len(), 1, "prices without a date have no age");
    assert_eq!(scrape.sum("key_budget_usd", &[("key", "team")]), 5.0);
    assert_eq!(scrape.sum("key_budget_left_usd", &[("key", "team")]), 5.0);
    assert_eq!(scrape.sum("account_budget_usd", &[("account", "webshop")]), 20.0);
    assert_eq!(scrape.sum("team_budget_left_usd", &[("team", "product")]), 30.0);
    let process = &scrape.families["process_resident_memory_bytes"];
    assert!(process.samples[0].2 > 1e6);
}
