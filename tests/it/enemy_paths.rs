//! Tricks with paths and methods.

use crate::enemy::{Attack, PATH, check};

/// A request for a page, without a key.
fn get<'a>(path: &'a str, expected: &'a [u16]) -> Attack<'a> {
    (path, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"), expected)
}

#[actix_web::test]
async fn path_tricks_reach_nothing_that_needs_a_key() {
    check(&[
        get("/api/v1/../v1/key", &[404]),
        get("/api/v1/./key", &[404]),
        get("/api/v1/models/../key", &[404]),
        get("/api/v1/models/%2e%2e/key", &[404]),
        get("/api/v1/%6bey", &[401]),
        get("/api%2Fv1%2Fkey", &[404]),
        get("/api/v1/key;x=1", &[404]),
        get("/api/v1/key%00", &[404]),
        get("/API/V1/KEY", &[404]),
        get("//api//v1//key//", &[401]),
        get("/api/v1/key?key=sk-test-0123456789abcdef", &[401]),
        get("/api/v1/images/files/..%2f..%2fetc%2fpasswd", &[404]),
        get("/api/v1/images/files/%00", &[404]),
        get("http://other.example/api/v1/key", &[421]),
        get("http://localhost/api/v1/key", &[401]),
        get("file:///etc/passwd", &[400]),
        get("/etc/passwd", &[404]),
        get("/\\..\\..\\etc\\passwd", &[404]),
        get("/api/v1/health/providers/..%2f..", &[401]),
    ])
    .await;
}

#[actix_web::test]
async fn paths_that_are_none_are_a_client_error() {
    check(&[
        get("/%", &[404]),
        get("/%zz", &[404]),
        get("*", &[404]),
        get("/api/v1/model//", &[404]),
        get("/api/v1/models/%ff%fe", &[404]),
        get("/api/v1/models/acme%2F..%2Fsmall", &[404]),
        get("/api/v1/models/a/b/c/d/endpoints", &[404]),
        get("/api/v1/models?limit=%ff", &[400]),
        get("/api/v1/models?%", &[200]),
    ])
    .await;
}

/// A method at a path, with a body that is none.
fn method<'a>(method: &'a str, path: &str, expected: &'a [u16]) -> Attack<'a> {
    (method, format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"), expected)
}

#[actix_web::test]
async fn methods_that_nobody_answers() {
    check(&[
        method("GET", PATH, &[405]),
        method("PUT", PATH, &[405]),
        method("DELETE", PATH, &[405]),
        method("PATCH", PATH, &[405]),
        method("TRACE", PATH, &[405]),
        method("CONNECT", "other.example:443", &[421]),
        method("CONNECT", "localhost:443", &[404]),
        method("PROPFIND", PATH, &[405]),
        method("get", PATH, &[405]),
        method("POST", "/api/v1/models", &[405]),
        method("POST", "/health", &[405]),
        method("POST", PATH, &[401]),
    ])
    .await;
}

/// Nobody's business but the server's: no page, and no CORS without configuration.
#[actix_web::test]
async fn options() {
    let preflight = format!(
        "OPTIONS {PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\norigin: https://evil.example\r\n\
         access-control-request-method: POST\r\n\r\n"
    );
    check(&[
        method("OPTIONS", "*", &[404]),
        method("OPTIONS", PATH, &[405]),
        method("OPTIONS", "/nowhere", &[404]),
        ("a preflight while CORS is off", preflight, &[405]),
    ])
    .await;
}
