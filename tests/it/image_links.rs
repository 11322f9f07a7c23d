//! Links in the answers of image providers, where the client asked for bytes: which are followed, and what comes of
//! those that are not.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::{Script, Upstream},
};

const WEBP: &[u8] = b"RIFF\x04\0\0\0WEBPVP8 of a signal box";
const SECRET: &str = "painters-own-secret";

/// An answer whose head announces the length of `body`.
fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    [format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n").as_bytes(), body].concat()
}

/// A provider that links to what a host of images holds. Both listen at the same port of different addresses, since
/// no other port would be called.
struct Painter {
    images: Upstream,
    upstream: Upstream,
}

impl Painter {
    /// The host of images does as `script` says; the provider's answer holds what `elements` makes of the host's address.
    fn start(script: Script, elements: impl FnOnce(&str) -> Value) -> Painter {
        let images = Upstream::start_at("127.0.0.1:0".parse().unwrap(), [script]);
        let answer = json!({"created": 1, "data": elements(&images.url(""))});
        let beside = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 3), images.address().port()));
        let answer = Script::answering(http("200 OK", "content-type: application/json\r\n", &bytes_of(&answer)));
        Painter { images, upstream: Upstream::start_at(beside, [answer]) }
    }

    /// One link, to a host that does as `script` says.
    fn linking(script: Script) -> Painter {
        Painter::start(script, |host| json!([{"url": format!("{host}/made/1?sig=a%2Fb")}]))
    }

    /// A gateway before it; `listed` are the hosts its images may come from.
    async fn gateway(&self, listed: &[&str], more: &str) -> TestGateway {
        let (url, listed) = (self.upstream.url("/v1"), json!(listed));
        let config = format!(
            "{more}\n[providers.painter]\nbase_url = \"{url}\"\napi_key_env = \"PAINTER_KEY\"\n\
             headers = {{ x-title = \"ours\" }}\nimage_hosts = {listed}\n{}",
            canvas(&["painter"])
        );
        TestGateway::start_with(&config, &[("PAINTER_KEY", SECRET)]).await
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn canvas(providers: &[&str]) -> String {
    let endpoint = |slug: &&str| format!("[[models.endpoints]]\nprovider = \"{slug}\"\nupstream_model = \"c\"\n");
    let model = "[[models]]\nid = \"acme/canvas\"\noutput_modalities = [\"image\"]\ncontext_length = 4000\n\
                 pricing = { prompt = \"0\", completion = \"0\", image = \"0.04\" }\n";
    [model.to_owned(), providers.iter().map(endpoint).collect()].concat()
}

async fn draw(gateway: &TestGateway) -> Reply {
    let body = json!({"model": "acme/canvas", "prompt": "A signal box", "provider": {"order": ["painter", "second"]}});
    gateway.post("/api/v1/images/generations", &body).await
}

/// A link that cannot be followed fails its attempt, and nothing of it is passed on.
async fn refused(painter: &Painter, gateway: &TestGateway, what: &str) {
    let reply = draw(gateway).await;
    assert!(!reply.text().contains("127.0.0."), "{what}: {}", reply.text());
    assert_eq!(reply.status, 502, "{what}: {}", reply.text());
    let error = &reply.json()["error"]["metadata"];
    assert_eq!(error["error_type"], "provider_unavailable", "{what}");
    let is_limit = ["unlisted", "twice 700 bytes", "an announced length over the limit"];
    let code = if is_limit.contains(&what) { "gateway_limit" } else { "malformed" };
    assert_eq!(error["previous_errors"][0]["code"], code, "{what}: {error}");
    assert_eq!(painter.upstream.log().requests.len(), 1, "{what}");
}

#[actix_web::test]
async fn a_linked_image_comes_back_as_bytes_of_the_kind_that_they_are() {
    let image = Script::new().request().send(http("200 OK", "content-type: image/png\r\n", WEBP));
    let painter = Painter::linking(image);
    let gateway = painter.gateway(&["127.0.0.1"], "").await;
    let drawn = draw(&gateway).await.expect(200);
    assert_eq!(drawn["data"], json!([{"b64_json": BASE64_STANDARD.encode(WEBP), "media_type": "image/webp"}]));
    assert_eq!(drawn["usage"]["cost"], 0.04);
}

#[actix_web::test]
async fn the_host_of_images_learns_nothing_but_the_link() {
    let painter = Painter::linking(Script::new().request().send(http("200 OK", "", WEBP)));
    let gateway = painter.gateway(&["127.0.0.1"], "").await;
    draw(&gateway).await.expect(200);
    let asked = painter.images.requests().remove(0).to_lowercase();
    assert!(asked.starts_with("get /made/1?sig=a%2fb http/1.1\r\n"), "{asked}");
    let mut names: Vec<&str> = asked.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "connection", "host", "user-agent"]);
    assert!(asked.contains(&format!("host: {}\r\n", painter.images.address())), "{asked}");
    let told = painter.upstream.requests().remove(0);
    assert!(told.contains(SECRET) && !asked.contains(SECRET), "the provider is told our key, its images are not");
}

#[actix_web::test]
async fn images_that_came_as_bytes_and_links_keep_their_order() {
    let painter = Painter::start(
        Script::new().request().send(http("200 OK", "", WEBP)),
        |host| json!([{"b64_json": "iVBORw0KGgo="}, {"url": format!("{host}/2")}, {"b64_json": "/9j/AAAA"}]),
    );
    let gateway = painter.gateway(&["127.0.0.1"], "").await;
    let drawn = draw(&gateway).await.expect(200);
    let kinds: Vec<_> = drawn["data"].as_array().unwrap().iter().map(|image| image["media_type"].clone()).collect();
    assert_eq!(kinds, ["image/png", "image/webp", "image/jpeg"]);
}

#[actix_web::test]
async fn a_link_to_a_host_that_is_not_listed_is_not_followed() {
    let painter = Painter::linking(Script::answering(http("200 OK", "", WEBP)));
    let gateway = painter.gateway(&["cdn.example"], "").await;
    refused(&painter, &gateway, "unlisted").await;
    assert_eq!(painter.images.connections(), 0);
}

#[actix_web::test]
async fn the_next_provider_takes_over_from_one_whose_link_is_not_followed() {
    let painter = Painter::linking(Script::new());
    let png = json!({"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}]});
    let second = Upstream::start([Script::answering(http("200 OK", "", &bytes_of(&png)))]);
    let provider = |slug: &str, url: String| format!("[providers.{slug}]\nbase_url = \"{url}\"\n");
    let config = [
        provider("painter", painter.upstream.url("/v1")),
        provider("second", second.url("/v1")),
        canvas(&["painter", "second"]),
    ];
    let gateway = TestGateway::start(&config.concat()).await;
    let reply = draw(&gateway).await;
    assert_eq!(reply.header("x-route-attempts"), Some("2"), "{}", reply.text());
    assert_eq!(reply.expect(200)["data"][0]["b64_json"], "iVBORw0KGgo=");
    assert_eq!(painter.images.connections(), 0);
}

#[actix_web::test]
async fn only_a_whole_regular_image_will_do() {
    let large = [WEBP, &[0; 2000]].concat();
    let chunked = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7ff\r\n".as_slice(), &large].concat();
    let cut = http("200 OK", "", &large[..900]);
    for (what, answer) in [
        ("a redirect", http("302 Found", "location: /made/2\r\n", b"")),
        ("another redirect", http("307 Temporary Redirect", "location: http://127.0.0.2/\r\n", b"")),
        ("an error", http("404 Not Found", "", WEBP)),
        ("a part", http("206 Partial Content", "", WEBP)),
        ("an announced length over the limit", http("200 OK", "", &large)),
        ("chunks over the limit", chunked),
        ("a body that breaks off", cut[..cut.len() - 1].to_vec()),
        ("an encoded body", http("200 OK", "content-encoding: gzip\r\n", WEBP)),
        ("a web page", http("200 OK", "content-type: image/png\r\n", b"<html>no such image</html>")),
        ("nothing", http("200 OK", "", b"")),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec()),
    ] {
        let painter = Painter::linking(Script::new().request().send(answer).fin());
        let gateway = painter.gateway(&["127.0.0.1"], "[images]\nmax_image = 1024").await;
        refused(&painter, &gateway, what).await;
        assert_eq!(painter.images.connections(), 1, "{what}: asked once, and nothing else");
    }
}

#[actix_web::test]
async fn a_host_that_sends_nothing_is_waited_for_no_longer_than_the_request_may_take() {
    let painter = Painter::linking(Script::new().request());
    let gateway = painter.gateway(&["127.0.0.1"], "[timeouts]\ntotal = \"1s\"").await;
    refused(&painter, &gateway, "silence").await;
    assert!(painter.images.eventually(Duration::from_secs(5), |log| !log.closed.is_empty()).await);
    gateway.stop().await;
}

#[actix_web::test]
async fn more_links_than_images_can_be_asked_for_are_not_followed() {
    let painter = Painter::start(Script::answering(http("200 OK", "", WEBP)), |host| {
        (0..11).map(|n| json!({"url": format!("{host}/{n}")})).collect()
    });
    let gateway = painter.gateway(&["127.0.0.1"], "").await;
    refused(&painter, &gateway, "eleven links").await;
    assert_eq!(painter.images.connections(), 0);
}

#[actix_web::test]
async fn images_that_are_too_large_together_are_refused() {
    let painter = Painter::start(
        Script::answering(http("200 OK", "", &[WEBP, &[0; 700]].concat())),
        |host| json!([{"url": format!("{host}/1")}, {"url": format!("{host}/2")}]),
    );
    let bounds = "[images]\nmax_image = 1024\n[limits]\nupstream_body = 1024";
    let gateway = painter.gateway(&["127.0.0.1"], bounds).await;
    refused(&painter, &gateway, "twice 700 bytes").await;
}
