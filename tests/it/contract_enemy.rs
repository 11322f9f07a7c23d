//! Hostile requests. Whatever a client sends, the answer is an error of the one shape, never a 5xx, and the gateway
//! serves the next caller as before.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, TestGateway},
    scripted::Upstream,
    world::{Model, World, ask, completion, error_of, one_model, raw, saying},
};

const PATH: &str = "/api/v1/chat/completions";

/// The status of each answer in a raw byte stream.
fn statuses(answer: &str) -> Vec<&str> {
    answer.split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.get(..3)).collect()
}

fn head(more: &str) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n{more}\r\n"
    )
}

async fn serves_as_before(gateway: &TestGateway) {
    gateway.chat(&ask("acme/small")).await.expect(200);
}

/// Every body must be refused with 400 for `reason`, on chat and in the preview.
async fn refused(cases: &[(Vec<u8>, &str)]) {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for (body, reason) in cases {
        for path in [PATH, "/api/v1/route/preview"] {
            let headers = [("content-type", "application/json")];
            let reply = gateway.call(Method::POST, path, &headers, Some(body.clone())).await;
            let error = error_of(&reply, 400);
            assert_eq!(
                error["metadata"]["reason"],
                *reason,
                "{}: {error}",
                String::from_utf8_lossy(&body[..body.len().min(200)])
            );
        }
    }
    assert_eq!(upstream.connections(), 0);
    serves_as_before(&gateway).await;
}

fn with(member: &str) -> Vec<u8> {
    format!("{{\"model\": \"acme/small\", \"messages\": [{{\"role\": \"user\", \"content\": \"x\"}}], {member}}}")
        .into_bytes()
}

#[actix_web::test]
async fn what_is_not_json_is_refused_wherever_it_hides() {
    refused(&[
        (Vec::new(), "invalid_json"),
        (b" \n\t ".to_vec(), "invalid_json"),
        (with("\"temperature\": NaN"), "invalid_json"),
        (with("\"temperature\": Infinity"), "invalid_json"),
        (with("\"temperature\": -"), "invalid_json"),
        (with("\"temperature\": 01"), "invalid_json"),
        (with("\"temperature\": 1."), "invalid_json"),
        (with("\"novelty\": 'x'"), "invalid_json"),
        (with("\"novelty\": \"\x01\""), "invalid_json"),
        (with("\"novelty\": \"\\ud800\""), "invalid_json"),
        (with("\"novelty\": \"\\x\""), "invalid_json"),
        (with("\"novelty\": tru"), "invalid_json"),
        (with("\"novelty\": [1,]"), "invalid_json"),
        (with("\"novelty\": {\"a\" 1}"), "invalid_json"),
        (with("// a comment\n\"novelty\": 1"), "invalid_json"),
        ([with("\"novelty\": 1"), b"{}".to_vec()].concat(), "invalid_json"),
    ])
    .await;
}

#[actix_web::test]
async fn invalid_utf8_is_refused_wherever_it_stands() {
    let mut in_text = with("\"novelty\": \"?\"");
    let place = in_text.iter().position(|b| *b == b'?').unwrap();
    in_text[place] = 0xff;
    let mut in_key = with("\"no?elty\": 1");
    let place = in_key.iter().position(|b| *b == b'?').unwrap();
    in_key[place] = 0xc0;
    let mut in_content = ask("acme/small").to_string().into_bytes();
    let place = in_content.iter().position(|b| *b == b'?').unwrap();
    in_content[place] = 0xfe;
    refused(&[(in_text, "invalid_json"), (in_key, "invalid_json"), (in_content, "invalid_json")]).await;
}

#[actix_web::test]
async fn deep_nesting_is_refused_without_a_crash() {
    let deep = |open: &str, close: &str, depth: usize| {
        with(&format!("\"novelty\": {}1{}", open.repeat(depth), close.repeat(depth)))
    };
    let unclosed = format!("{{\"model\": {}", "[".repeat(200_000));
    let (gateway, upstream) = one_model(&completion("x")).await;
    for body in [deep("[", "]", 100), deep("{\"a\":", "}", 100), deep("[", "]", 100_000), unclosed.into_bytes()] {
        let headers = [("content-type", "application/json")];
        error_of(&gateway.call(Method::POST, PATH, &headers, Some(body)).await, 400);
    }
    assert_eq!(upstream.connections(), 0);
    serves_as_before(&gateway).await;
}

#[actix_web::test]
async fn duplicate_keys_are_refused_at_every_level_the_gateway_reads() {
    let twice = |member: &str| with(&format!("{member}, {member}"));
    let message = |inner: &str| format!("{{\"model\": \"acme/small\", \"messages\": [{{{inner}}}]}}").into_bytes();
    let (gateway, upstream) = one_model(&completion("x")).await;
    for body in [
        twice("\"temperature\": 1"),
        twice("\"novelty\": 1"),
        with("\"model\": \"acme/small\""),
        with("\"mo\\u0064el\": \"acme/small\""),
        with("\"metadata\": {\"objective\": \"cheapest\", \"objective\": \"fastest\"}"),
        with("\"extra_body\": {\"a\": 1, \"a\": 2}"),
        with("\"provider\": {\"only\": [\"acme\"], \"only\": [\"bolt\"]}"),
        message("\"role\": \"user\", \"content\": \"x\", \"role\": \"system\""),
        message("\"role\": \"user\", \"content\": \"x\", \"content\": \"y\""),
    ] {
        let headers = [("content-type", "application/json")];
        let reply = gateway.call(Method::POST, PATH, &headers, Some(body.clone())).await;
        assert_eq!(reply.status, 400, "{}: {}", String::from_utf8_lossy(&body), reply.text());
        error_of(&reply, 400);
    }
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn numbers_out_of_range_and_of_the_wrong_type_are_refused_by_name() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for (member, value) in [
        ("temperature", json!(2.1)),
        ("temperature", json!(-0.1)),
        ("temperature", json!("1")),
        ("top_p", json!(1.5)),
        ("top_k", json!(-1)),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(-5)),
        ("max_tokens", json!(1.5)),
        ("max_tokens", json!(1e300)),
        ("max_completion_tokens", json!(0)),
        ("n", json!(0)),
        ("n", json!(9)),
        ("frequency_penalty", json!(3)),
        ("repetition_penalty", json!(0)),
        ("top_logprobs", json!(21)),
        ("seed", json!(1e30)),
        ("stop", json!(vec!["a"; 17])),
        ("stop", json!([""])),
        ("stream", json!("true")),
        ("user", json!("x".repeat(257))),
        ("models", json!(vec!["acme/small"; 33])),
        ("max_cost_per_1k_tokens", json!(0)),
        ("max_cost_per_1k_tokens", json!("much")),
        ("top_n", json!(0)),
        ("top_n", json!(101)),
    ] {
        let mut request = ask("acme/small");
        request[member] = value.clone();
        let error = error_of(&gateway.chat(&request).await, 400);
        let param = error["param"].as_str().unwrap_or_default();
        assert!(param.starts_with(member), "{member} {value}: {error}");
    }
    assert_eq!(upstream.connections(), 0);
    let mut lenient = ask("acme/small");
    lenient["max_tokens"] = json!(100.0);
    lenient["temperature"] = Value::Null;
    gateway.chat(&lenient).await.expect(200);
    assert_eq!(upstream.last_body()["max_tokens"].as_f64(), Some(100.0));
}

#[actix_web::test]
async fn a_request_with_two_lengths_or_a_length_and_chunks_does_not_smuggle_a_second_one() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let smuggled =
        format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-length: 2\r\n\r\n{{}}");
    for framing in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "content-length: 4\r\ncontent-length: 5\r\n",
        "content-length: +4\r\n",
        "content-length: -1\r\n",
        "content-length: 4, 4\r\n",
        "content-length: 0x4\r\n",
        "content-length: 99999999999999999999999\r\n",
        "transfer-encoding: identity\r\ncontent-length: 4\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
    ] {
        let answer = raw(gateway.address, format!("{}0\r\n\r\n{smuggled}", head(framing))).await;
        let statuses = statuses(&answer);
        assert!(statuses.len() == 1 && statuses[0].starts_with('4'), "{framing}: {answer}");
    }
    assert_eq!(upstream.connections(), 0);
    serves_as_before(&gateway).await;
}

#[actix_web::test]
async fn broken_chunks_are_a_client_error() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for body in ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}XX0\r\n\r\n", "ffffffffffffffffff\r\n{}", "-2\r\n{}\r\n0\r\n\r\n"] {
        let answer = raw(gateway.address, format!("{}{body}", head("transfer-encoding: chunked\r\n"))).await;
        let statuses = statuses(&answer);
        assert!(statuses.len() == 1 && statuses[0].starts_with('4'), "{body}: {answer}");
    }
    assert_eq!(upstream.connections(), 0);
    serves_as_before(&gateway).await;
}

#[actix_web::test]
async fn huge_or_malformed_heads_are_refused() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let many: String = (0..500).map(|n| format!("x-h{n}: 1\r\n")).collect();
    for more in [
        format!("x-big: {}\r\n", "a".repeat(200_000)),
        many,
        "x-bad\u{1}: 1\r\n".to_owned(),
        "no colon here\r\n".to_owned(),
        " folded: 1\r\n".to_owned(),
        "x-nul: a\0b\r\n".to_owned(),
    ] {
        let answer = raw(gateway.address, head(&format!("{more}content-length: 2\r\n"))).await;
        let statuses = statuses(&answer);
        assert!(statuses.len() == 1 && statuses[0].starts_with('4'), "{:.60}: {answer}", more);
    }
    for line in [
        "GET\r\n\r\n",
        "G@T / HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET / HTTP/9.9\r\nhost: x\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02",
    ] {
        let answer = raw(gateway.address, line).await;
        let statuses = statuses(&answer);
        assert!(statuses.len() == 1 && statuses[0].starts_with('4'), "{line:?}: {answer}");
    }
    assert_eq!(upstream.connections(), 0);
    serves_as_before(&gateway).await;
}

#[actix_web::test]
async fn a_head_over_the_configured_limit_is_a_431_with_a_body() {
    let upstream = saying("x");
    let world = World::new().with("[limits]\nmax_header_bytes = 1024").provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    let (large, long) = ("a".repeat(1024), format!("/api/v1/models?q={}", "a".repeat(1024)));
    for path in ["/api/v1/models", PATH, "/health", "/nowhere"] {
        let error = error_of(&gateway.call(Method::GET, path, &[("x-large", &large)], None).await, 431);
        assert_eq!(error["metadata"]["reason"], "headers_too_large");
    }
    error_of(&gateway.call(Method::GET, &long, &[], None).await, 431);
    let fitting = "a".repeat(500);
    assert_eq!(gateway.call(Method::GET, "/api/v1/models", &[("x-fitting", &fitting)], None).await.status, 200);
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn path_tricks_reach_nothing_that_needs_a_key_and_never_fail() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    for path in [
        "/api/v1/../v1/key",
        "/api/v1/./key",
        "/api/v1/models/../key",
        "/api/v1/models/%2e%2e/key",
        "/api/v1/%6bey",
        "/api%2Fv1%2Fkey",
        "/api/v1/key;x=1",
        "/api/v1/key%00",
        "/API/V1/KEY",
        "//api//v1//key//",
        "/api/v1/models/%ff%fe",
        "/api/v1/models/acme%2F..%2Fsmall",
        "/api/v1/models/a/b/c/d/endpoints",
        "/api/v1/images/files/..%2f..%2fetc%2fpasswd",
        "/api/v1/images/files/%00",
        "/api/v1/model//",
        "/%",
        "/%zz",
        "/api/v1/models?limit=%ff",
        "/api/v1/models?%",
        "*",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = raw(gateway.address, request).await;
        let statuses = statuses(&answer);
        assert_eq!(statuses.len(), 1, "{path}: {answer}");
        assert!(statuses[0].starts_with('4') || path.contains("/models"), "{path}: {answer}");
        assert!(!statuses[0].starts_with('5'), "{path}: {answer}");
    }
    let absolute = "GET http://other.example/api/v1/key HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(raw(gateway.address, absolute).await.starts_with("HTTP/1.1 401 "));
    serves_as_before(&gateway).await;
}

#[actix_web::test]
async fn odd_but_lawful_requests_are_served() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let body = ask("acme/small").to_string();
    let length = format!("content-length: {}\r\n", body.len());
    let expecting = format!("{}{body}", head(&format!("{length}expect: 100-continue\r\n")));
    assert_eq!(statuses(&raw(gateway.address, expecting).await).last(), Some(&"200"));
    let upgrading = format!("{}{body}", head(&format!("{length}connection: upgrade\r\nupgrade: h2c\r\n")));
    assert_eq!(statuses(&raw(gateway.address, upgrading).await), ["200"]);
    let pipelined = format!("{}{body}", head(&length)).repeat(3);
    assert_eq!(statuses(&raw(gateway.address, pipelined).await), ["200", "200", "200"]);
    let chunks: String = body.as_bytes().iter().map(|byte| format!("1\r\n{}\r\n", char::from(*byte))).collect();
    let chunked = format!("{}{chunks}0\r\n\r\n", head("transfer-encoding: chunked\r\n"));
    assert_eq!(statuses(&raw(gateway.address, chunked).await), ["200"]);
    let bom = format!("{}\u{feff}{body}", head(&format!("content-length: {}\r\n", body.len() + 3)));
    let answer = raw(gateway.address, bom).await;
    assert!(matches!(statuses(&answer)[..], ["200" | "400"]), "{answer}");
}

#[actix_web::test]
async fn a_body_that_breaks_off_asks_nobody() {
    let (gateway, upstream): (TestGateway, Upstream) = one_model(&completion("x")).await;
    let body = ask("acme/small").to_string();
    let half = format!("{}{}", head(&format!("content-length: {}\r\n", body.len() + 10)), body);
    let socket = std::net::TcpStream::connect(gateway.address).unwrap();
    std::io::Write::write_all(&mut &socket, half.as_bytes()).unwrap();
    drop(socket);
    serves_as_before(&gateway).await;
    assert_eq!(upstream.requests().len(), 1, "only the whole request was served");
}
