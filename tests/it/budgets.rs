//! Spending limits, the ceiling of a request, limits of tokens, and the free pool.
//!
//! The model costs a cent per token. `ask` has a prompt of some tokens; the answer has 12 and 5, which cost $0.17.

use actix_web::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{Reply, TestGateway},
    issued_keys::{ADMIN, call, chat, issue, world},
    scripted::{Gate, Script, Upstream},
    world::{Model, always, and, answer, ask, error_of, http, saying, stream_of},
};

async fn key_of(gateway: &TestGateway, key: &str) -> Value {
    call(gateway, Method::GET, "/api/v1/key", key, None).await.expect(200)["data"].take()
}

#[actix_web::test]
async fn two_hundred_concurrent_requests_on_a_budget_for_a_hundred_never_overspend() {
    // Worst case and actual cost of each request: 12 prompt tokens as counted, 5 of output, a dollar per output token.
    let usage = json!({ "prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13 });
    let body = answer(json!({ "role": "assistant", "content": "x" }), usage);
    let upstream = Upstream::start([Script::answering(http(200, &body))]);
    let folder = Folder::new();
    let world = world(&upstream, &folder).model(&Model::new("acme/unit").at("acme", "0", "1"));
    let gateway = world.start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": 100 })).await;
    let request = and(ask("acme/unit"), json!({ "max_tokens": 1 }));
    let send = || call(&gateway, Method::POST, "/api/v1/chat/completions", &text, Some(request.clone()));
    let replies = join_all((0..200).map(|_| send())).await;
    let served = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(upstream.bodies().len(), served);
    assert!(replies.iter().all(|reply| [200, 402].contains(&reply.status)));
    let key = key_of(&gateway, &text).await;
    assert_eq!(key["usage"], json!(served));
    assert!(served <= 100, "{served}");
    // What the concurrent ones left unreserved can still be spent, to the last cent and no further.
    for _ in served..100 {
        send().await.expect(200);
    }
    let error = error_of(&send().await, 402);
    assert_eq!(
        (&error["metadata"]["reason"], &error["metadata"]["budget"]["remaining"]),
        (&json!("key_limit"), &json!(0))
    );
    assert_eq!(key_of(&gateway, &text).await["usage"], json!(100));
    // The limit is looked at before the body.
    let bearer = format!("Bearer {text}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
    error_of(&gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(b"{".to_vec())).await, 402);
}

#[actix_web::test]
async fn a_fallback_after_a_failure_that_cost_nothing_needs_no_second_reservation() {
    let (broken, good, folder) = (always(503, &json!({})), saying("Hello"), Folder::new());
    let world = world(&broken, &folder).provider("bolt", good.address());
    let model = Model::new("acme/both").at("acme", "0.01", "0.01").at("bolt", "0.0101", "0.0101");
    let gateway = world.model(&model).start().await;
    // Enough for one attempt, not for two.
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": 0.2 })).await;
    let served = chat(&gateway, &text, json!({ "model": "acme/both", "max_tokens": 5 })).await;
    assert_eq!((served.header("x-route-provider"), broken.bodies().len()), (Some("Bolt"), 1), "{}", served.text());
}

#[actix_web::test]
async fn a_402_says_what_is_left_what_was_needed_and_when_the_limit_starts_again() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": "0.50", "limit_reset": "daily" })).await;
    let reply = chat(&gateway, &text, json!({ "max_tokens": 1000 })).await;
    let error = error_of(&reply, 402);
    let budget = &error["metadata"]["budget"];
    assert_eq!(
        (&error["type"], &error["metadata"]["error_type"]),
        (&json!("insufficient_quota"), &json!("payment_required"))
    );
    assert_eq!((&budget["limit"], &budget["remaining"]), (&json!(0.5), &json!(0.5)));
    assert!(budget["needed"].as_f64().unwrap() > 10.0, "{budget}");
    assert!(budget["resets_at"].as_str().unwrap().ends_with("T00:00:00Z"), "{budget}");
    assert!(upstream.bodies().is_empty(), "nothing is sent that may not be paid");
    chat(&gateway, &text, json!({ "max_tokens": 5 })).await.expect(200);
    assert_eq!(key_of(&gateway, &text).await["limit_remaining"], json!(0.33));
}

#[actix_web::test]
async fn without_max_tokens_the_longest_answer_is_reserved_or_the_configured_assumption() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let world = world(&upstream, &folder);
    let gateway = world.start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": 2 })).await;
    // The model's context of 100,000 tokens at a cent each.
    error_of(&chat(&gateway, &text, json!({})).await, 402);
    world.clone().with("[limits]\nassumed_output_tokens = 100").take_over(&gateway).await;
    chat(&gateway, &text, json!({})).await.expect(200);
}

#[actix_web::test]
async fn the_budgets_of_account_and_team_bind_all_their_keys() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let admin = gateway.admin();
    let put = async |path: &str, body: Value| {
        call(&admin, Method::PUT, &format!("/api/v1/admin/{path}"), ADMIN, Some(body)).await.expect(200)
    };
    put("teams/lab", json!({ "limit": 1 })).await;
    put("accounts/blue", json!({ "limit": 0.4, "team": "lab" })).await;
    put("accounts/red", json!({ "team": "lab" })).await;
    let (blue_1, _) = issue(&gateway, json!({ "name": "b1", "account": "blue" })).await;
    let (blue_2, _) = issue(&gateway, json!({ "name": "b2", "account": "blue" })).await;
    let (red, _) = issue(&gateway, json!({ "name": "r", "account": "red" })).await;
    let small = || json!({ "max_tokens": 5 });
    chat(&gateway, &blue_1, small()).await.expect(200);
    let reason = |reply: &Reply| error_of(reply, 402)["metadata"]["reason"].clone();
    assert_eq!(reason(&chat(&gateway, &blue_2, json!({ "max_tokens": 30 })).await), "account_limit");
    chat(&gateway, &red, small()).await.expect(200);
    assert_eq!(reason(&chat(&gateway, &red, json!({ "max_tokens": 90 })).await), "team_limit");
    // $0.66 of the team is left, and the account has $0.23.
    let teams = call(&admin, Method::GET, "/api/v1/admin/teams", ADMIN, None).await.expect(200);
    assert_eq!((&teams["data"][0]["usage"], &teams["data"][0]["limit_remaining"]), (&json!(0.34), &json!(0.66)));
    let missing = call(&admin, Method::PUT, "/api/v1/admin/accounts/x", ADMIN, Some(json!({ "team": "none" }))).await;
    assert_eq!(error_of(&missing, 400)["param"], "team");

    // A key without a limit of its own meets that of its account or team first, and is told whose it is.
    let effective = async |key: &str| key_of(&gateway, key).await["effective_limit"].clone();
    let of_blue = effective(&blue_2).await;
    assert_eq!(
        (&of_blue["holder"], &of_blue["name"], &of_blue["limit"]),
        (&json!("account"), &json!("blue"), &json!(0.4))
    );
    let of_red = effective(&red).await;
    assert_eq!(
        (&of_red["holder"], &of_red["name"], &of_red["remaining"]),
        (&json!("team"), &json!("lab"), &json!(0.66))
    );
    let keys = call(&admin, Method::GET, "/api/v1/admin/keys/r", ADMIN, None).await.expect(200);
    assert_eq!(keys["data"]["effective_limit"], of_red);

    // Refusals are counted by reason, and a spent budget is what the verdict says first.
    let status = call(&admin, Method::GET, "/api/v1/admin/status", ADMIN, None).await.expect(200);
    let refused = status["data"]["refused"].as_array().unwrap();
    assert!(refused.contains(&json!({"reason": "team_limit", "count": 1})), "{refused:?}");
    let verdict =
        async || call(&admin, Method::GET, "/api/v1/admin/verdict", ADMIN, None).await.expect(200)["data"].take();
    assert!(!verdict().await["notices"].to_string().contains("budget_"));
    put("teams/lab", json!({ "limit": 0.36 })).await;
    let near = verdict().await["notices"].to_string();
    assert!(near.contains("budget_near") && near.contains("team lab ($0.36 in all)"), "{near}");
    put("teams/lab", json!({ "limit": 0.34 })).await;
    let spent = verdict().await;
    assert_eq!((&spent["severity"], &spent["code"]), (&json!("critical"), &json!("budget_spent")), "{spent}");
}

#[actix_web::test]
async fn two_keys_in_a_race_spend_no_more_than_the_account_that_they_share_has() {
    let usage = json!({ "prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13 });
    let body = answer(json!({ "role": "assistant", "content": "x" }), usage);
    let (upstream, folder) = (Upstream::start([Script::answering(http(200, &body))]), Folder::new());
    let world = world(&upstream, &folder).model(&Model::new("acme/unit").at("acme", "0", "1"));
    let gateway = world.start().await;
    let put = Some(json!({ "limit": 20 }));
    call(&gateway.admin(), Method::PUT, "/api/v1/admin/accounts/blue", ADMIN, put).await.expect(200);
    let mut keys = Vec::new();
    for name in ["b1", "b2"] {
        // Either may spend more than the account has.
        keys.push(issue(&gateway, json!({ "name": name, "account": "blue", "limit": 30 })).await.0);
    }
    let request = and(ask("acme/unit"), json!({ "max_tokens": 1 }));
    let send = |key| call(&gateway, Method::POST, "/api/v1/chat/completions", key, Some(request.clone()));
    let replies = join_all((0..60).map(|turn| send(&keys[turn % 2]))).await;
    let served = replies.iter().filter(|reply| reply.status == 200).count();
    assert!(served <= 20 && served == upstream.bodies().len(), "{served}");
    assert!(replies.iter().all(|reply| [200, 402].contains(&reply.status)));
    for turn in served..20 {
        send(&keys[turn % 2]).await.expect(200);
    }
    for key in &keys {
        assert_eq!(error_of(&send(key).await, 402)["metadata"]["reason"], "account_limit");
    }
    let spent =
        [key_of(&gateway, &keys[0]).await["usage"].as_f64(), key_of(&gateway, &keys[1]).await["usage"].as_f64()];
    assert_eq!(spent.iter().map(|spent| spent.unwrap()).sum::<f64>(), 20.0);
}

#[actix_web::test]
async fn what_fails_or_is_given_up_gives_its_reservation_back() {
    let (gate, folder) = (Gate::new(), Folder::new());
    let waiting = Script::new().request().wait(&gate).send(http(503, &json!({}))).fin();
    let upstream = Upstream::start([waiting]);
    let gateway = world(&upstream, &folder).start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": 0.5 })).await;
    let first = chat(&gateway, &text, json!({ "max_tokens": 30 }));
    let check = async {
        crate::patience::until("it is called", || !upstream.requests().is_empty()).await;
        let remaining = key_of(&gateway, &text).await["limit_remaining"].as_f64().unwrap();
        assert!(remaining < 0.2, "{remaining}");
        error_of(&chat(&gateway, &text, json!({ "max_tokens": 30 })).await, 402);
        gate.open();
    };
    let (reply, ()) = futures_util::future::join(first, check).await;
    assert!(reply.status >= 500, "{}", reply.text());
    assert_eq!(key_of(&gateway, &text).await["limit_remaining"], json!(0.5));
}

#[actix_web::test]
async fn images_are_admitted_by_the_same_budget() {
    let body = json!({ "created": 1, "data": [{ "b64_json": "eA==" }, { "b64_json": "eA==" }] });
    let upstream = Upstream::start([Script::answering(http(200, &body))]);
    let folder = Folder::new();
    let model = Model::new("acme/paint").taking(&[]).with("output_modalities = [\"image\"]");
    let model = model.priced("acme", "prompt = \"0\", completion = \"0\", image = \"0.4\"");
    let gateway = world(&upstream, &folder).model(&model).start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": 1 })).await;
    let draw = async |n: u32| {
        let request = json!({ "model": "acme/paint", "prompt": "x", "n": n });
        call(&gateway, Method::POST, "/api/v1/images/generations", &text, Some(request)).await
    };
    error_of(&draw(3).await, 402);
    assert!(upstream.requests().is_empty());
    draw(2).await.expect(200);
    assert_eq!(key_of(&gateway, &text).await["usage"], json!(0.8));
    error_of(&draw(1).await, 402);
}

#[actix_web::test]
async fn an_endpoint_of_unknown_price_serves_no_key_with_a_spending_limit() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let toml = "[[models]]\nid = \"acme/odd\"\ncontext_length = 1000\nsupported_parameters = [\"max_tokens\"]\n\
                endpoints = [{ provider = \"acme\", upstream_model = \"odd\", pricing = \"unknown\" }]";
    let gateway = world(&upstream, &folder).with(toml).start().await;
    let (limited, _) = issue(&gateway, json!({ "name": "a", "limit": 100 })).await;
    let (free, _) = issue(&gateway, json!({ "name": "b" })).await;
    let refused = chat(&gateway, &limited, json!({ "model": "acme/odd" })).await;
    assert_eq!(error_of(&refused, 402)["metadata"]["reason"], "price_unknown");
    chat(&gateway, &free, json!({ "model": "acme/odd" })).await.expect(200);
}

#[actix_web::test]
async fn max_cost_lowers_the_limit_of_tokens_that_the_provider_is_sent() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let short = Model::new("acme/short").at("acme", "0.01", "0.01").with("context_length = 1000");
    let unlimited = Model::new("acme/unlimited").taking(&["temperature"]).at("acme", "0.01", "0.01");
    let gateway = world(&upstream, &folder).model(&short).model(&unlimited).start().await;
    let sent = async |more: Value| {
        gateway.chat(&and(ask("acme/small"), more)).await.expect(200);
        upstream.last_body()["max_tokens"].clone()
    };
    let prompt = {
        let preview = gateway.post("/api/v1/route/preview", &ask("acme/small")).await.expect(200);
        preview["estimate"]["prompt_tokens"].as_u64().unwrap()
    };
    // A dollar is a hundred tokens, the prompt included.
    assert_eq!(sent(json!({ "max_cost": 30 })).await, json!(3000 - prompt));
    assert_eq!(sent(json!({ "max_cost": 30, "max_tokens": 7 })).await, json!(7));
    assert_eq!(sent(json!({ "max_cost": 1_000_000 })).await, json!(null), "no answer can cost that much");
    // The prompt is an estimate: if it counts less, an answer may be longer than what the estimate leaves of the context.
    let ceiling = 10.0 + prompt as f64 / 200.0;
    assert_eq!(sent(json!({ "model": "acme/short", "max_cost": ceiling })).await, json!(1000 - prompt));
    assert_eq!(sent(json!({ "model": "acme/short", "max_cost": 20 })).await, json!(null));
    let before = upstream.bodies().len();
    let headers = [("x-max-cost", "0.05"), ("content-type", "application/json")];
    let body = and(ask("acme/small"), json!({ "max_tokens": 1 })).to_string().into_bytes();
    let refused = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.clone())).await;
    assert!([402, 404].contains(&refused.status), "{}", refused.text());
    assert_eq!(upstream.bodies().len(), before);
    let unlimited = and(ask("acme/unlimited"), json!({ "max_cost": 30 }));
    let refused = error_of(&gateway.chat(&unlimited).await, 402);
    assert!(refused["message"].as_str().unwrap().contains("takes a limit of output tokens"), "{refused}");
    for wrong in ["-1", "much", "1e9", "NaN"] {
        let headers = [("x-max-cost", wrong), ("content-type", "application/json")];
        let refused = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.clone())).await;
        assert_eq!(error_of(&refused, 400)["param"], "x-max-cost", "{wrong}");
    }
}

#[actix_web::test]
async fn a_stream_that_ignores_its_limit_is_cut_off_before_it_passes_the_ceiling() {
    let words: Vec<String> = (0..400).map(|n| format!("word{n:04} ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let folder = Folder::new();
    let upstream = Upstream::start([Script::new().request().send(stream_of(&words)).fin()]);
    let gateway = world(&upstream, &folder).start().await;
    let request = and(ask("acme/small"), json!({ "stream": true, "max_tokens": 4000, "max_cost": 5 }));
    let reply = gateway.chat(&request).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let events = reply.events();
    let finishes: Vec<_> = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(finishes, ["length"]);
    assert!(reply.text().ends_with("data: [DONE]\n\n"));
    let cost = events.iter().find_map(|event| event["usage"]["cost"].as_f64()).expect("usage");
    assert!(cost <= 5.0 && cost > 4.0, "{cost}");
    let id = events[0]["id"].as_str().unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!((&record["data"]["finish_reason"], &record["data"]["cancelled"]), (&json!("length"), &json!(false)));
    assert_eq!(record["data"]["total_cost"].as_f64(), Some(cost));
}

#[actix_web::test]
async fn tokens_per_minute_are_taken_by_estimate_and_corrected_and_a_429_names_a_true_wait() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "tokens_per_minute": 600 })).await;
    let first = chat(&gateway, &text, json!({ "max_tokens": 5 })).await;
    first.expect(200);
    assert_eq!(first.header("x-ratelimit-limit-tokens"), Some("600"));
    let remaining: u32 = first.header("x-ratelimit-remaining-tokens").unwrap().parse().unwrap();
    assert!((500..600).contains(&remaining), "{remaining}");
    let words = "word ".repeat(200);
    let long = json!({ "messages": [{ "role": "user", "content": words }], "max_tokens": 5 });
    let mut refused = None;
    for _ in 0..3 {
        let reply = chat(&gateway, &text, long.clone()).await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
    }
    // Each was estimated at hundreds of tokens and corrected to the 17 that the provider counted, so none is refused.
    assert!(refused.is_none());
    let (small, _) = issue(&gateway, json!({ "name": "small", "tokens_per_minute": 20 })).await;
    chat(&gateway, &small, json!({ "max_tokens": 5 })).await.expect(200);
    let reply = chat(&gateway, &small, json!({ "max_tokens": 5 })).await;
    let error = error_of(&reply, 429);
    assert_eq!(error["metadata"]["reason"], "gateway_tokens");
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(reply.header("x-ratelimit-limit-tokens"), Some("20"));
}

#[actix_web::test]
async fn a_request_over_its_tokens_per_minute_is_served_after_the_time_that_it_was_told() {
    // Ten tokens a second: one answer uses up the whole minute and some tokens more.
    let usage = json!({ "prompt_tokens": 595, "completion_tokens": 5, "total_tokens": 600 });
    let body = answer(json!({ "role": "assistant", "content": "x" }), usage);
    let upstream = Upstream::start([Script::answering(http(200, &body))]);
    let folder = Folder::new();
    let gateway = world(&upstream, &folder).start().await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "tokens_per_minute": 600 })).await;
    chat(&gateway, &text, json!({ "max_tokens": 5 })).await.expect(200);
    let refused = chat(&gateway, &text, json!({ "max_tokens": 5 })).await;
    assert_eq!(error_of(&refused, 429)["metadata"]["reason"], "gateway_tokens");
    let wait = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&wait), "{wait}");
    actix_web::rt::time::sleep(std::time::Duration::from_secs(wait)).await;
    chat(&gateway, &text, json!({ "max_tokens": 5 })).await.expect(200);
}

#[actix_web::test]
async fn a_call_that_another_limit_refuses_gives_its_request_back() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let limit = async |requests: u32, tokens: u32| {
        let limits = json!({ "requests_per_minute": requests, "tokens_per_minute": tokens });
        let admin = gateway.admin();
        call(&admin, Method::PUT, "/api/v1/admin/accounts/blue", ADMIN, Some(limits)).await.expect(200);
    };
    limit(1, 0).await;
    let (other, _) = issue(&gateway, json!({ "name": "other", "account": "blue" })).await;
    let (text, _) = issue(&gateway, json!({ "name": "ci", "account": "blue", "requests_per_minute": 1 })).await;
    let small = || json!({ "max_tokens": 5 });
    chat(&gateway, &other, small()).await.expect(200);
    let refused = chat(&gateway, &text, small()).await;
    assert_eq!(error_of(&refused, 429)["metadata"]["reason"], "gateway_requests");
    // The tokens are looked at after the route is known.
    limit(0, 20).await;
    chat(&gateway, &other, small()).await.expect(200);
    let refused = chat(&gateway, &text, small()).await;
    assert_eq!(error_of(&refused, 429)["metadata"]["reason"], "gateway_tokens");
    limit(0, 0).await;
    chat(&gateway, &text, small()).await.expect(200);
    error_of(&chat(&gateway, &text, small()).await, 429);
}

#[actix_web::test]
async fn limits_of_an_account_count_all_its_keys_together() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let accounts = "[[accounts]]\nname = \"blue\"\nrequests_per_minute = 2";
    let gateway = world(&upstream, &folder).with(accounts).start().await;
    let (one, _) = issue(&gateway, json!({ "name": "one", "account": "blue" })).await;
    let (two, _) = issue(&gateway, json!({ "name": "two", "account": "blue" })).await;
    chat(&gateway, &one, json!({})).await.expect(200);
    chat(&gateway, &two, json!({})).await.expect(200);
    let refused = chat(&gateway, &one, json!({})).await;
    assert_eq!(error_of(&refused, 429)["metadata"]["reason"], "gateway_requests");
    let configured = call(&gateway.admin(), Method::PUT, "/api/v1/admin/accounts/blue", ADMIN, Some(json!({}))).await;
    assert!(error_of(&configured, 400)["message"].as_str().unwrap().contains("configuration"));
}

#[actix_web::test]
async fn the_free_pool_has_a_limit_of_its_own() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let world = world(&upstream, &folder).model(&Model::new("acme/gratis").at("acme", "0", "0"));
    let led = "[[aliases]]\nname = \"team\"\nladder = [\"service/free\"]\n[limits]\nfree_requests_per_minute = 1";
    let gateway = world.with(led).start().await;
    gateway.chat(&ask("service/free")).await.expect(200);
    for name in ["service/free", "service/team"] {
        let refused = gateway.chat(&ask(name)).await;
        assert_eq!(error_of(&refused, 429)["metadata"]["reason"], "free_pool", "{name}");
    }
    gateway.chat(&ask("acme/small")).await.expect(200);
}
