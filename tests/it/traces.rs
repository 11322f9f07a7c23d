//! Spans of generations, as an OpenTelemetry collector gets them over a real socket.

use std::time::Duration;

use actix_web::http::Method;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value as Is,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    harness::{KEY, Reply, TestGateway},
    patience::eventually,
    scrape::Scrape,
    scripted::{Gate, Script, Upstream, refused_address},
    world::{Model, World, always, and, ask, completion, http, provider_key, refusal, saying, stream_of},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// An upstream that takes spans.
fn collector() -> Upstream {
    Upstream::start([Script::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")])
}

/// This world with its spans sent to `address`, each batch at once.
fn traced(world: World, address: std::net::SocketAddr, more: &str) -> World {
    let section = format!("[traces]\nendpoint = \"http://{address}\"\n{more}\n");
    world.with(&section).variable("OTEL_BSP_SCHEDULE_DELAY", "1")
}

/// `acme/small` at `first` and, dearer, at `second`.
fn two(first: &Upstream, second: &Upstream) -> World {
    let model = Model::new("acme/small").at("first", "0.000001", "0.000001").at("second", "0.000002", "0.000002");
    World::new().provider("first", first.address()).provider("second", second.address()).model(&model)
}

/// What the collector got, request by request.
fn received(collector: &Upstream) -> Vec<ExportTraceServiceRequest> {
    let requests = collector.log().requests;
    let bodies = requests.iter().map(|request| {
        let end = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let (head, body) = request.split_at(end + 4);
        assert!(head.starts_with(b"POST /v1/traces HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(head));
        ExportTraceServiceRequest::decode(body).unwrap()
    });
    bodies.collect()
}

fn spans(collector: &Upstream) -> Vec<Span> {
    let all = received(collector).into_iter().flat_map(|request| request.resource_spans);
    all.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

/// Waits for so many spans.
async fn arrived(collector: &Upstream, number: usize) -> Vec<Span> {
    eventually("the spans arrive", async || spans(collector), |spans| spans.len() >= number).await
}

/// An attribute of a span, as JSON.
fn attribute(span: &Span, key: &str) -> Value {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
    value.map_or(Value::Null, json_of)
}

fn json_of(value: &Is) -> Value {
    match value {
        Is::StringValue(text) => json!(text),
        Is::BoolValue(flag) => json!(flag),
        Is::IntValue(number) => json!(number),
        Is::DoubleValue(number) => json!(number),
        Is::ArrayValue(array) => array.values.iter().filter_map(|item| item.value.as_ref()).map(json_of).collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(span: &Span, expected: &Value) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(attribute(span, key), *value, "{key} of {}", span.name);
    }
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A chat with a `traceparent`.
async fn chat_in_trace(gateway: &TestGateway, body: &Value, flags: &str) -> Reply {
    let parent = format!("00-{TRACE}-{CALLER}-{flags}");
    let headers = [("content-type", "application/json"), ("traceparent", parent.as_str())];
    gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.to_string().into_bytes())).await
}

#[actix_web::test]
async fn a_generation_is_one_span_in_its_clients_trace_with_an_attempt_as_each_child() {
    let collector = collector();
    let (ill, well) = (always(500, &json!({})), Upstream::start([Script::answering(stream_of(&["one", "two"]))]));
    let gateway = traced(two(&ill, &well), collector.address(), "").start().await;
    let body = and(ask("acme/small"), json!({"stream": true, "objective": "cheapest"}));
    let reply = chat_in_trace(&gateway, &body, "01").await;
    assert_eq!(reply.content(), "onetwo");
    let spans = arrived(&collector, 3).await;
    let [root, failed, served] = &spans[..] else { panic!("{spans:#?}") };

    assert_eq!((root.name.as_str(), root.kind()), ("chat acme/small", SpanKind::Server));
    assert_eq!(hex(&root.parent_span_id), CALLER);
    check(
        root,
        &json!({
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "second", "gen_ai.request.model": "acme/small",
            "gen_ai.response.model": "acme/small", "gen_ai.response.id": reply.header("x-generation-id"),
            "gen_ai.response.finish_reasons": ["stop"], "gen_ai.request.stream": true,
            "pointsman.request_id": reply.header("x-request-id"), "pointsman.status": "completed",
            "pointsman.key": "test", "pointsman.account": "test", "pointsman.team": null,
            "pointsman.rescued": true, "pointsman.hedged": false, "pointsman.attempts": 2,
            "pointsman.decision.objective": "cheapest", "error.type": null,
        }),
    );
    assert!(attribute(root, "gen_ai.usage.output_tokens").as_i64().unwrap() > 0);
    assert!(attribute(root, "gen_ai.response.time_to_first_chunk").as_f64().unwrap() >= 0.0);
    assert!(!is_error(root));

    for (attempt, n) in [(failed, 1), (served, 2)] {
        assert_eq!((attempt.name.as_str(), attempt.kind()), ("POST", SpanKind::Client));
        assert_eq!(attempt.parent_span_id, root.span_id);
        assert!(root.start_time_unix_nano <= attempt.start_time_unix_nano, "{spans:#?}");
        assert!(attempt.start_time_unix_nano <= attempt.end_time_unix_nano, "{spans:#?}");
        assert!(attempt.end_time_unix_nano <= root.end_time_unix_nano, "{spans:#?}");
        check(attempt, &json!({"pointsman.attempt.n": n, "pointsman.model": "acme/small"}));
    }
    check(failed, &json!({"pointsman.provider": "first", "http.response.status_code": 500}));
    assert!(is_error(failed) && attribute(failed, "error.type").is_string());
    check(served, &json!({"pointsman.provider": "second", "http.request.resend_count": 1, "error.type": null}));
    assert!(!is_error(served) && served.events.iter().any(|event| event.name == "first_token"));
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
}

#[actix_web::test]
async fn spans_name_the_service_and_hold_no_prompt_answer_or_key() {
    let (collector, well) = (collector(), saying("Left, by the secret gate."));
    let world = traced(two(&well, &well), collector.address(), "sample_ratio = 1");
    let gateway = world.start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    arrived(&collector, 2).await;
    let resource = received(&collector)[0].resource_spans[0].resource.clone().unwrap();
    let of = |key: &str| {
        let found = resource.attributes.iter().find(|attribute| attribute.key == key);
        found.and_then(|attribute| Some(json_of(attribute.value.as_ref()?.value.as_ref()?)))
    };
    assert_eq!(of("service.name"), Some(json!("pointsman")));
    assert!(of("service.version").is_some() && of("service.instance.id").is_some());
    let all = collector.requests().concat();
    for secret in ["Which way?", "secret gate", KEY, &provider_key("first"), &provider_key("second")] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[actix_web::test]
async fn a_span_says_how_an_answer_was_broken_and_no_name_of_its_schema() {
    let (collector, weak, strong) = (collector(), saying("{\"canary\": \"1\"}"), saying("{}"));
    let model = |name: &str| Model::new(name).taking(&["response_format", "structured_outputs"]);
    let world = World::new()
        .provider("first", weak.address())
        .provider("second", strong.address())
        .model(&model("acme/weak").at("first", "0.000001", "0.000001"))
        .model(&model("acme/strong").at("second", "0.000002", "0.000002"))
        .with("[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/weak\"]\ncascade = { to = \"acme/strong\" }");
    let gateway = traced(world, collector.address(), "sample_ratio = 1").start().await;
    let schema = json!({"type": "object", "properties": {"canary": {"type": "number"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "s", "schema": schema}});
    gateway.chat(&and(ask("service/chat"), json!({"response_format": format}))).await.expect(200);
    let spans = arrived(&collector, 3).await;
    check(&spans[1], &json!({"pointsman.attempt.cause": "schema", "pointsman.model": "acme/weak"}));
    check(&spans[2], &json!({"pointsman.attempt.cause": null, "pointsman.attempt.reason": "cascade"}));
    assert!(!collector.requests().concat().contains("canary"));
}

#[actix_web::test]
async fn a_share_of_zero_keeps_what_failed_fell_back_was_slow_or_is_wanted_by_its_client() {
    let collector = collector();
    let (ill, well) = (always(500, &json!({})), saying("Left."));
    let quiet = "sample_ratio = 0";
    let healthy = traced(two(&well, &well), collector.address(), quiet).start().await;
    healthy.chat(&ask("acme/small")).await.expect(200);
    chat_in_trace(&healthy, &ask("acme/small"), "00").await.expect(200);
    chat_in_trace(&healthy, &ask("acme/small"), "01").await.expect(200);
    assert_eq!(arrived(&collector, 2).await.len(), 2);

    let failing = traced(two(&ill, &ill), collector.address(), quiet).start().await;
    assert!(failing.chat(&ask("acme/small")).await.status >= 500);
    let spans = arrived(&collector, 4).await;
    assert!(is_error(&spans[2]) && attribute(&spans[2], "error.type").is_string(), "{spans:#?}");
    check(&spans[2], &json!({"pointsman.status": "failed"}));

    let slow = Upstream::start([Script::new()
        .request()
        .pause(std::time::Duration::from_millis(20))
        .send(http(200, &crate::world::completion("Late.")))]);
    let patient = traced(two(&slow, &well), collector.address(), "sample_ratio = 0\nslow = \"20ms\"").start().await;
    patient.chat(&and(ask("acme/small"), json!({"provider": {"only": ["first"]}}))).await.expect(200);
    let spans = eventually(
        "the slow one arrives",
        async || self::spans(&collector),
        |all| all.iter().filter(|span| span.kind() == SpanKind::Server).count() == 3,
    );
    assert!(!is_error(spans.await.iter().rfind(|span| span.kind() == SpanKind::Server).unwrap()));
}

#[actix_web::test]
async fn attempts_that_raced_each_other_are_spans_side_by_side() {
    let (collector, gate) = (collector(), Gate::new());
    let slow = Upstream::start([Script::new().request().wait(&gate).send(refusal(500))]);
    // Spans have whole milliseconds.
    let right = Script::new().request().pause(Duration::from_millis(5)).send(http(200, &completion("Right.")));
    let quick = Upstream::start([right]);
    let model = Model::new("acme/small").at("slow", "0.000001", "0.000001").at("quick", "0.000002", "0.000002");
    let world = World::default()
        .with(
            "[routing]\nexploration = 0\nexpert.prior_ttft = \"20ms\"\nexpert.prior_time_per_token = \"10us\"\n\
             [routing.hedge]\nobjectives = [\"fastest\"]\nbudget = 1.0",
        )
        .provider("slow", slow.address())
        .provider("quick", quick.address())
        .model(&model);
    let gateway = traced(world, collector.address(), "sample_ratio = 0").start().await;
    let order = json!({"objective": "fastest", "provider": {"order": ["slow", "quick"]}});
    gateway.chat(&and(ask("acme/small"), order)).await.expect(200);
    gate.open();
    let spans = arrived(&collector, 3).await;
    let [root, lost, won] = &spans[..] else { panic!("{spans:#?}") };
    check(root, &json!({"pointsman.hedged": true, "pointsman.status": "completed"}));
    check(lost, &json!({"pointsman.provider": "slow"}));
    check(won, &json!({"pointsman.provider": "quick"}));
    assert!(won.start_time_unix_nano < lost.end_time_unix_nano, "{spans:#?}");
    assert!(!is_error(lost), "one that was given up did not fail: {spans:#?}");
}

#[actix_web::test]
async fn a_collector_that_is_away_costs_only_spans_which_are_counted() {
    let well = saying("Left.");
    let gateway = traced(two(&well, &well), refused_address(), "sample_ratio = 1").start().await;
    for _ in 0..3 {
        gateway.chat(&ask("acme/small")).await.expect(200);
    }
    let lost = [("reason", "collector")];
    let dropped = async || Scrape::of(&gateway).await.sum("spans_dropped_total", &lost);
    eventually("they are counted", dropped, |dropped| *dropped == 6.0).await;
    assert_eq!(Scrape::of(&gateway).await.sum("spans_sent_total", &[]), 0.0);
}

#[actix_web::test]
async fn a_collector_that_never_answers_fills_a_bounded_queue_and_holds_up_nobody() {
    let (hanging, well) = (Upstream::start([Script::new()]), saying("Left."));
    let world = traced(two(&well, &well), hanging.address(), "sample_ratio = 1");
    let world = world.variable("OTEL_BSP_MAX_QUEUE_SIZE", "2").variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1");
    let gateway = world.start().await;
    let full = async || {
        gateway.chat(&ask("acme/small")).await.expect(200);
        Scrape::of(&gateway).await.sum("spans_dropped_total", &[("reason", "queue_full")])
    };
    eventually("the queue is full", full, |dropped| *dropped >= 2.0).await;
}

#[actix_web::test]
async fn a_collector_that_is_overloaded_or_talks_nonsense_costs_only_spans_which_are_counted() {
    for answer in [
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy",
        "HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\nshort",
        "SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let (ill, well) = (Upstream::start([Script::answering(answer)]), saying("Left."));
        let world = traced(two(&well, &well), ill.address(), "sample_ratio = 1");
        let world = world.variable("OTEL_BSP_MAX_QUEUE_SIZE", "2").variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1");
        let gateway = world.start().await;
        let lost = async || {
            gateway.chat(&ask("acme/small")).await.expect(200);
            Scrape::of(&gateway).await.sum("spans_dropped_total", &[])
        };
        eventually(format!("spans are lost: {answer}"), lost, |lost| *lost >= 4.0).await;
        assert!(!ill.requests().is_empty(), "the collector was asked: {answer}");
        assert_eq!(Scrape::of(&gateway).await.sum("spans_sent_total", &[]), 0.0, "{answer}");
    }
}

#[actix_web::test]
async fn a_provider_gets_a_traceparent_only_where_that_is_configured() {
    let (collector, first, second) = (collector(), always(500, &json!({})), saying("Left."));
    let model = Model::new("acme/small").at("first", "0.000001", "0.000001").at("second", "0.000002", "0.000002");
    let world = World::new()
        .provider("first", first.address())
        .provider_with("second", second.address(), "forward_traceparent = true")
        .model(&model);
    let gateway = traced(world.clone(), collector.address(), "").start().await;
    let cheapest = and(ask("acme/small"), json!({"objective": "cheapest"}));
    chat_in_trace(&gateway, &cheapest, "01").await.expect(200);
    let spans = arrived(&collector, 3).await;
    let sent = |upstream: &Upstream| upstream.requests().last().unwrap().to_ascii_lowercase();
    assert!(!sent(&first).contains("traceparent"));
    let expected = format!("traceparent: 00-{TRACE}-{}-01\r\n", hex(&spans[2].span_id));
    assert!(sent(&second).contains(&expected), "{expected} in {}", sent(&second));

    let untraced = world.start().await;
    chat_in_trace(&untraced, &cheapest, "01").await.expect(200);
    let own = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    assert!(sent(&second).contains(&own), "without traces, the client's own: {}", sent(&second));
}

#[actix_web::test]
async fn what_waits_at_the_end_is_still_sent() {
    let (collector, well) = (collector(), saying("Left."));
    let world = traced(two(&well, &well), collector.address(), "sample_ratio = 1");
    let gateway = world.variable("OTEL_BSP_SCHEDULE_DELAY", "3600000").start().await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let id = reply.header("x-generation-id").unwrap();
    // Its record has left the worker once it is found.
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(spans(&collector).len(), 0);
    gateway.stop().await;
    assert_eq!(arrived(&collector, 2).await.len(), 2);
}

#[actix_web::test]
async fn the_record_keeps_the_trace_and_the_page_of_the_decision_links_to_it() {
    const ADMIN: &str = "sk-boss-0123456789abcdef";
    let (collector, well, folder) = (collector(), saying("Kept."), Folder::new());
    let world = two(&well, &well)
        .with(&format!("[ledger]\ndata_dir = {:?}", folder.at("ledger")))
        .with("[console]\ntrace_url = \"https://tempo.example.com/trace/{trace_id}?from=pointsman\"")
        .with("[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]")
        .variable("BOSS", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    let gateway = traced(world, collector.address(), "sample_ratio = 0").start().await;
    let reply = chat_in_trace(&gateway, &ask("acme/small"), "01").await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let spans = arrived(&collector, 2).await;
    // Ended generations are on disk: their records are read from there.
    let own = gateway.chat(&ask("acme/small")).await;
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let expected = json!({
        "trace_id": TRACE, "parent_span_id": CALLER, "span_id": hex(&spans[0].span_id), "sampled": true,
    });
    assert_eq!(explained["trace_context"], expected);
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(record["data"]["route"]["trace_context"], expected);
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page(&format!("/console/decisions/{id}")).await;
    assert!(page.contains(&format!("href=\"https://tempo.example.com/trace/{TRACE}?from=pointsman\"")), "{page}");

    let id = own.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    assert_eq!(explained["trace_context"], Value::Null, "it was not kept, so that there is no trace of it");
    assert!(!browser.page(&format!("/console/decisions/{id}")).await.contains("https://tempo.example.com/"));
}

#[actix_web::test]
async fn without_traces_a_record_has_only_what_its_client_sent() {
    let well = saying("Here.");
    let gateway = two(&well, &well).start().await;
    let explained = async |reply: Reply| {
        let id = reply.header("x-generation-id").unwrap();
        gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200)["trace_context"].take()
    };
    let expected = json!({"trace_id": TRACE, "parent_span_id": CALLER, "span_id": null, "sampled": false});
    assert_eq!(explained(chat_in_trace(&gateway, &ask("acme/small"), "00").await).await, expected);
    assert_eq!(explained(gateway.chat(&ask("acme/small")).await).await, Value::Null);
}
