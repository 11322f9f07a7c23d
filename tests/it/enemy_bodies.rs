//! Hostile bodies. Whatever a client sends, the answer is an error of the one shape, never a 5xx, and the gateway
//! serves the next caller as before.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    enemy::{PATH, check, good_body, head, serves_as_before},
    harness::TestGateway,
    raw_client::RawClient,
    scripted::Upstream,
    world::{Model, World, ask, completion, error_of, one_model, saying},
};

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

/// A length that is not the truth: what is behind it is no part of the body, what is missing is waited for.
#[actix_web::test]
async fn a_body_longer_or_shorter_than_it_says() {
    let body = good_body();
    let says = |length: usize| format!("{}{body}", head(&format!("content-length: {length}\r\n")));
    check(&[
        ("longer by a line feed", format!("{}\n", says(body.len())), &[200]),
        ("cut inside", says(body.len() - 1), &[400, 400]),
        ("announced as empty", says(0), &[400, 400]),
        ("not announced at all", format!("{}{body}", head("")), &[400, 400]),
    ])
    .await;
    let (gateway, upstream) = one_model(&completion("x")).await;
    let mut client = RawClient::connect(gateway.address).await;
    client.say(says(body.len() + 1)).await;
    client.shut_down_writing().await;
    let said = client.rest().await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_body_exactly_at_the_limit_is_served_and_one_byte_over_it_is_not() {
    let upstream = saying("x");
    let world = World::new().with("[limits]\nmax_body = 2048").provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    let padded = |length: usize| format!("{}{}", good_body(), " ".repeat(length - good_body().len()));
    for (length, status) in [(2048, 200), (2049, 413)] {
        let body = padded(length);
        for framed in [
            format!("{}{body}", head(&format!("content-length: {length}\r\n"))),
            format!("{}{length:x}\r\n{body}\r\n0\r\n\r\n", head("transfer-encoding: chunked\r\n")),
        ] {
            let mut client = RawClient::connect(gateway.address).await;
            client.say(framed).await;
            client.until(&format!("HTTP/1.1 {status}")).await;
        }
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[actix_web::test]
async fn control_characters_in_a_model_name_are_refused_and_never_repeated_as_they_are() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for name in ["acme/small\u{0}", "acme/\r\nx-injected: 1", "\u{1b}[31macme/small", "acme/small\u{202e}", "\u{7f}"] {
        let mut request = ask("acme/small");
        request["model"] = json!(name);
        let reply = gateway.chat(&request).await;
        assert!(matches!(reply.status, 400 | 404), "{name:?}: {}", reply.text());
        error_of(&reply, reply.status);
        assert!(reply.header("x-injected").is_none());
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
    assert_eq!(upstream.connections(), 0);
}

/// Nothing a client writes chooses where its request goes, or with whose key.
#[actix_web::test]
async fn fields_that_try_to_choose_an_upstream_address() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let elsewhere = saying("elsewhere");
    let address = format!("http://{}/v1", elsewhere.address());
    for field in [
        json!({"base_url": address, "api_base": address, "url": address, "endpoint": address, "proxy": address}),
        json!({"api_key": "sk-mine-0123456789abcdef", "authorization": "Bearer sk-mine"}),
        json!({"extra_headers": {"host": "elsewhere", "authorization": "Bearer sk-mine"}}),
        json!({"extra_body": {"base_url": address, "extra_headers": {"host": "elsewhere"}}}),
        json!({"extra_query": {"to": address}, "metadata": {"base_url": address}}),
        json!({"provider": {"base_url": address, "url": address, "api_key": "sk-mine"}}),
        json!({"provider_policy": {"base_url": address}, "route": "fallback"}),
    ] {
        let reply = gateway.chat(&crate::world::and(ask("acme/small"), field.clone())).await;
        assert!(matches!(reply.status, 200 | 400), "{field}: {}", reply.text());
    }
    for field in [json!({"provider": {"only": [address]}}), json!({"model": address}), json!({"models": [address]})] {
        let reply = gateway.chat(&crate::world::and(ask("acme/small"), field.clone())).await;
        assert!(matches!(reply.status, 400 | 404), "{field}: {}", reply.text());
    }
    let body = good_body();
    let length = format!("content-length: {}\r\n", body.len());
    for header in ["x-forwarded-host: elsewhere", "x-original-url: /x", "forwarded: host=elsewhere", "x-base-url: x"] {
        let mut client = RawClient::connect(gateway.address).await;
        client.say(format!("{}{body}", head(&format!("{length}{header}\r\n")))).await;
        client.until("HTTP/1.1 200").await;
    }
    assert_eq!(elsewhere.connections(), 0, "a client chose where its request went");
    for request in upstream.requests() {
        let (head, _) = request.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        assert!(head.contains("bearer sk-upstream-acme-5ec2e7") && !head.contains("sk-mine"), "{head}");
        assert!(!head.contains("elsewhere") && !head.contains("x-original-url"), "{head}");
    }
}
