//! Statuses that are no 200: which fault each is, what the client is told of it, and what never.

use serde_json::{Value, json};

use crate::{
    hostile::{Case, PROVIDER_KEY, Seen, body, check, gateway, ok, saying, status},
    scripted::{Script, Upstream, refused_address},
};

/// An error body in the words of the convention.
fn error(message: &str) -> String {
    json!({"error": {"message": message, "type": "some_error", "code": "some_code"}}).to_string()
}

/// An upstream that always answers with this status line.
fn with_status(line: &str) -> Script {
    saying(&status(line, "", &error("No.")))
}

async fn same(script: &Script, expected: &'static str) {
    check(Case::of(script, expected, expected)).await;
}

#[actix_web::test]
async fn statuses_that_are_no_answer() {
    same(&saying("HTTP/1.1 204 No Content\r\n\r\n"), "502 provider_unavailable | failed | unexpected_status:204").await;
    same(&saying("HTTP/1.1 304 Not Modified\r\n\r\n"), "502 provider_unavailable | failed | unexpected_status:304")
        .await;
    same(&with_status("999 Odd"), "502 provider_unavailable | failed | unexpected_status:999").await;
    same(&with_status("206 Partial Content"), "502 provider_unavailable | failed | unexpected_status:206").await;
}

#[actix_web::test]
async fn the_upstreams_own_breakdowns() {
    same(&with_status("500 Oops"), "502 provider_unavailable | failed | server:500").await;
    same(&with_status("502 Bad Gateway"), "502 provider_unavailable | failed | server:502").await;
    same(&with_status("408 Request Timeout"), "502 provider_unavailable | failed | server:408").await;
    same(&with_status("409 Conflict"), "502 provider_unavailable | failed | server:409").await;
}

#[actix_web::test]
async fn an_upstream_without_room() {
    same(&with_status("503 Service Unavailable"), "503 provider_overloaded | failed | overloaded:503").await;
    same(&with_status("529 Overloaded"), "503 provider_overloaded | failed | overloaded:529").await;
}

/// A refusal whose body never ends, or never comes, is told by its status all the same, and soon.
#[actix_web::test]
async fn a_refusal_without_end() {
    let chunked = |line: &str| format!("HTTP/1.1 {line}\r\ntransfer-encoding: chunked\r\n\r\n");
    let endless = |line: &str| {
        let more = Script::new().send(crate::hostile::chunk(&"x".repeat(60_000)));
        Script::new().request().send(chunked(line)).repeat(more)
    };
    let silent = |line: &str| Script::new().request().send(chunked(line));
    for (line, expected) in [
        ("500 Oops", "502 provider_unavailable | failed | server:500"),
        ("429 Slow", "429 rate_limit_exceeded | failed | rate_limited:429"),
        ("400 Bad Request", "400 invalid_request | failed | bad_request:400"),
    ] {
        let (endless, silent) = (endless(line), silent(line));
        tokio::join!(same(&endless, expected), same(&silent, expected));
    }
}

/// What concerns our own account is never shown as if it were the caller's.
#[actix_web::test]
async fn refusals_of_our_own_account() {
    same(&with_status("401 Unauthorized"), "502 provider_unavailable | failed | auth:401").await;
    same(&with_status("402 Payment Required"), "502 provider_unavailable | failed | auth:402").await;
    same(&with_status("403 Forbidden"), "502 provider_unavailable | failed | forbidden:403").await;
    same(&with_status("404 Not Found"), "502 provider_unavailable | failed | not_found:404").await;
}

/// Redirects are not followed: nobody but the configured provider gets the request and the key.
#[actix_web::test]
async fn a_redirect_to_another_host() {
    let elsewhere = Upstream::start([Script::answering(ok("{}"))]);
    for code in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = format!("location: {}\r\n", elsewhere.url("/chat/completions"));
        let script = saying(&status(code, &location, ""));
        let expected =
            format!("502 provider_unavailable | failed | unexpected_status:{}", code.split(' ').next().unwrap());
        same(&script, expected.leak()).await;
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[actix_web::test]
async fn the_callers_own_mistakes() {
    same(&with_status("400 Bad Request"), "400 invalid_request | failed | bad_request:400").await;
    same(&with_status("405 Method Not Allowed"), "400 invalid_request | failed | bad_request:405").await;
    same(&with_status("413 Too Large"), "413 payload_too_large | failed | too_large:413").await;
    same(&with_status("422 Unprocessable"), "422 unprocessable | failed | unprocessable:422").await;
    let long = saying(&status("400 Bad Request", "", &error("This model's maximum context length is 8192 tokens.")));
    same(&long, "400 context_length_exceeded | failed | context_length:400").await;
}

/// How long a client that got a 429 is told to wait, for each form of the upstream's own wish.
#[actix_web::test]
async fn a_429_in_every_form() {
    let limited = "429 rate_limit_exceeded | failed | rate_limited:429";
    for (header, seconds) in [
        ("", 1..=1),
        ("retry-after: 7\r\n", 7..=7),
        ("retry-after: 0\r\n", 1..=1),
        ("retry-after: 99999999999\r\n", 60..=60),
        ("retry-after: -5\r\n", 1..=1),
        ("retry-after: soon\r\n", 1..=1),
        ("retry-after-ms: 1500\r\n", 2..=2),
        ("retry-after: Fri, 01 Jan 2100 00:00:00 GMT\r\n", 60..=60),
        ("retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 1..=1),
    ] {
        let script = saying(&status("429 Too Many Requests", header, &error("Slow down.")));
        same(&script, limited).await;
        let upstream = Upstream::start([script]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let reply = gateway.chat(&body(false)).await;
        let told: u32 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!(seconds.contains(&told), "{header:?} became {told}");
        assert_eq!(reply.expect(429)["error"]["metadata"]["reason"], "provider");
    }
}

/// A key that an upstream repeats is nobody's to see, wherever it stands.
#[actix_web::test]
async fn our_key_in_an_upstreams_words() {
    for line in ["400 Bad Request", "401 Unauthorized", "413 Too Large", "422 Unprocessable", "500 Oops", "999 Odd"] {
        let script = saying(&status(line, "", &error(&format!("Incorrect API key provided: {PROVIDER_KEY}."))));
        for streamed in [false, true] {
            let upstream = Upstream::start([script.clone()]);
            let gateway = gateway(&[upstream.url("")], "").await;
            let seen = Seen::of(&gateway, gateway.chat(&body(streamed)).await).await;
            seen.is_in_order(streamed);
            for path in ["/api/v1/health/providers", "/metrics", "/api/v1/models"] {
                assert!(!gateway.get(path).await.text().contains(PROVIDER_KEY), "{path}");
            }
        }
    }
}

/// Only for the caller's own mistake are the upstream's words passed on, cleaned.
#[actix_web::test]
async fn whose_words_are_shown() {
    let words = "The prompt mentions \u{7}bells";
    for (line, shown) in
        [("400 Bad Request", true), ("422 Unprocessable", true), ("401 No", false), ("500 Oops", false)]
    {
        let upstream = Upstream::start([saying(&status(line, "", &error(words)))]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let error = gateway.chat(&body(false)).await.json()["error"].take();
        assert_eq!(error["metadata"].get("raw").is_some_and(Value::is_string), shown, "{line}: {error}");
        assert_eq!(error.to_string().contains("bells"), shown, "{line}: {error}");
    }
}

/// What all failures have in common decides the status; each is listed.
#[actix_web::test]
async fn several_endpoints_that_all_fail() {
    let limited = || with_status("429 Too Many Requests");
    for (scripts, expected) in [
        (vec![limited(), limited()], "429 rate_limit_exceeded | failed | rate_limited:429, rate_limited:429"),
        (vec![limited(), with_status("500 Oops")], "502 provider_unavailable | failed | rate_limited:429, server:500"),
        (
            vec![with_status("503 Busy"), with_status("529 Busy")],
            "503 provider_overloaded | failed | overloaded:503, overloaded:529",
        ),
        (
            vec![with_status("500 Oops"), with_status("401 No"), with_status("404 No")],
            "502 provider_unavailable | failed | server:500, auth:401, not_found:404",
        ),
    ] {
        for streamed in [false, true] {
            let upstreams: Vec<Upstream> = scripts.iter().map(|script| Upstream::start([script.clone()])).collect();
            let urls: Vec<String> = upstreams.iter().map(|upstream| upstream.url("")).collect();
            let gateway = gateway(&urls, "").await;
            let reply = gateway.chat(&body(streamed)).await;
            let previous = reply.json()["error"]["metadata"]["previous_errors"].take();
            assert_eq!(previous.as_array().unwrap().len(), scripts.len(), "{previous}");
            let seen = Seen::of(&gateway, reply).await;
            seen.is_in_order(streamed);
            assert_eq!(seen.line(), expected);
        }
    }
}

/// At most three endpoints are tried, however many there are, if the first never answered before.
#[actix_web::test]
async fn no_more_than_three_attempts() {
    let urls: Vec<String> = (0..5).map(|_| format!("http://{}", refused_address())).collect();
    let gateway = gateway(&urls, "").await;
    let seen = Seen::of(&gateway, gateway.chat(&body(true)).await).await;
    assert_eq!(seen.line(), "502 provider_unavailable | failed | connect, connect, connect");
}
