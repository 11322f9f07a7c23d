//! The same transport over TLS, in front of a server with a certificate of its own authority.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use pointsman_transport::{Connection, Redactor, TlsFault, TransportLimits, UpstreamClient, client_config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};

use crate::{
    folder::Folder,
    scripted::{Gate, Script, Upstream},
    upstream_calls::{ok, outcome, plain, streamed, timed},
};

/// An authority nobody knows but who reads its file, and a server it vouches for.
pub(crate) struct Authority {
    pub(crate) ca_file: PathBuf,
    pub(crate) server: Arc<ServerConfig>,
    _folder: Folder,
}

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();

    let folder = Folder::new();
    folder.put("ca.pem", &issuer.pem());
    let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Authority { ca_file: folder.at("ca.pem"), server: Arc::new(server), _folder: folder }
}

fn client(base_url: &str, ca_file: Option<&Path>) -> UpstreamClient {
    let connection = Connection::new(base_url).unwrap();
    let tls = client_config(ca_file).unwrap();
    UpstreamClient::new(&connection, &tls, TransportLimits::default(), Arc::new(Redactor::default()))
}

fn url(upstream: &Upstream) -> String {
    format!("https://localhost:{}/v1", upstream.address().port())
}

#[actix_web::test]
async fn linked_images_are_fetched_over_tls_from_the_provider_itself() {
    let authority = authority();
    let image = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nimage";
    let upstream = Upstream::start_tls(Arc::clone(&authority.server), [Script::new().request().send(image)]);
    let client = client(&url(&upstream), Some(&authority.ca_file));
    let link = format!("https://localhost:{}/1.png", upstream.address().port());
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    assert_eq!(client.fetch_image(&link, deadline, 5).await.unwrap(), "image");
    assert!(client.fetch_image(&link.replace("https", "http"), deadline, 5).await.is_err(), "never in clear");
    assert_eq!(upstream.requests().len(), 1);
}

#[actix_web::test]
async fn a_server_vouched_for_by_the_ca_file_is_called_and_its_connection_used_again() {
    let authority = authority();
    let upstream = Upstream::start_tls(Arc::clone(&authority.server), [Script::answering(ok("hello"))]);
    let client = client(&url(&upstream), Some(&authority.ca_file));
    for round in 0..5 {
        let (answer, phases) = timed(&client, plain("{}")).await;
        assert_eq!(phases.tls.is_some(), round == 0, "only the first one shakes hands");
        assert_eq!(answer.body.collect().await.unwrap(), "hello");
    }
    assert_eq!(upstream.connections(), 1);
    let host = format!("\r\nhost: localhost:{}\r\n", upstream.address().port());
    assert!(upstream.requests()[0].contains(&host), "{}", upstream.requests()[0]);
}

#[actix_web::test]
async fn an_address_is_verified_like_a_name() {
    let authority = authority();
    let upstream = Upstream::start_tls(Arc::clone(&authority.server), [Script::answering(ok("hello"))]);
    let client = client(&format!("https://{}", upstream.address()), Some(&authority.ca_file));
    assert_eq!(outcome(&client, plain("{}")).await, "hello");
}

#[actix_web::test]
async fn a_server_nobody_vouches_for_is_refused_before_it_sees_the_request() {
    let authority = authority();
    let upstream = Upstream::start_tls(Arc::clone(&authority.server), [Script::answering(ok("hello"))]);
    assert_eq!(outcome(&client(&url(&upstream), None), plain("{}")).await, "tls");
    assert!(upstream.requests().is_empty());
}

#[actix_web::test]
async fn a_server_vouched_for_under_another_name_is_refused() {
    let authority = authority();
    let (address, server) = ("127.0.0.2:0".parse().unwrap(), Arc::clone(&authority.server));
    let upstream = Upstream::start_tls_at(address, server, [Script::answering(ok("hello"))]);
    let other = format!("https://{}/v1", upstream.address());
    assert_eq!(outcome(&client(&other, Some(&authority.ca_file)), plain("{}")).await, "tls");
    assert!(upstream.requests().is_empty());
}

/// An upstream at localhost that answers a handshake in plain HTTP.
fn speaking_no_tls() -> Upstream {
    let refusal = Script::new().send("HTTP/1.1 400 Bad Request\r\n\r\n").fin();
    Upstream::start_at("127.0.0.1:0".parse().unwrap(), [refusal])
}

/// In a word that names no host, for clients; the log has the rest.
#[actix_web::test]
async fn why_a_handshake_failed_is_said_in_a_word() {
    let authority = authority();
    let stranger = Upstream::start_tls(Arc::clone(&authority.server), [Script::answering(ok("hello"))]);
    let plain_http = speaking_no_tls();
    for (upstream, cause) in [(&stranger, "tls_unknown_issuer"), (&plain_http, "tls_handshake")] {
        let error = client(&url(upstream), None).send(plain("{}")).await.map(drop).unwrap_err();
        assert_eq!(error.cause, Some(cause), "{error}");
        assert!(error.detail.starts_with(&format!("localhost:{}: {cause}: ", upstream.address().port())), "{error}");
    }
}

#[actix_web::test]
async fn a_server_that_speaks_no_tls_is_refused() {
    let upstream = speaking_no_tls();
    assert_eq!(outcome(&client(&url(&upstream), None), plain("{}")).await, "tls");
}

#[actix_web::test]
async fn the_guard_sees_plain_bytes_under_tls_too() {
    let authority = authority();
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let cases = [
        (Script::new().request().send(format!("{interim}{}", ok("hello"))).request().send(ok("next")), "hello"),
        (Script::new().request().send(chunked).fin(), "truncated after 'hello'"),
        (Script::new().request().send("HTTP/1.1 200 OK\r\n\r\nhello").fin(), "hello"),
        // Without TLS saying that it ends, anybody may have cut it.
        (Script::new().request().send("HTTP/1.1 200 OK\r\n\r\nhello").close(), "truncated after 'hello'"),
        (Script::new().request().send(format!("{}{}", ok("hello"), ok("LEAK"))), "hello"),
        (Script::new().request().fin(), "reset"),
        (Script::new().request().close(), "reset"),
    ];
    for (script, expected) in cases {
        let upstream = Upstream::start_tls(Arc::clone(&authority.server), [script, Script::answering(ok("next"))]);
        let client = client(&url(&upstream), Some(&authority.ca_file));
        assert_eq!(outcome(&client, streamed("{}")).await, expected);
        assert_eq!(outcome(&client, streamed("{}")).await, "next");
    }
}

/// A connection that ended properly, and one that was cut.
#[actix_web::test]
async fn a_close_that_only_the_kernel_knows_of_is_found_under_tls_too() {
    let authority = authority();
    for closing in [Script::fin, Script::close] {
        let late = Gate::new();
        let script = closing(Script::new().request().send(ok("one")).request().send(ok("one")).wait(&late));
        let upstream = Upstream::start_tls(Arc::clone(&authority.server), [script, Script::answering(ok("two"))]);
        let client = client(&url(&upstream), Some(&authority.ca_file));
        for _ in 0..2 {
            assert_eq!(outcome(&client, plain("{}")).await, "one");
        }

        // The thread waits, and the runtime with it.
        late.open();
        while upstream.log().ended == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));

        assert_eq!(outcome(&client, plain("{}")).await, "two");
        assert_eq!((upstream.connections(), upstream.requests().len()), (2, 3), "every request was sent once");
    }
}

#[actix_web::test]
async fn an_early_refusal_is_kept_under_tls_too() {
    let authority = authority();
    let answer = "HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}";
    let early = Script::new().head().send(answer).pause(Duration::from_secs(3));
    let upstream = Upstream::start_tls(Arc::clone(&authority.server), [early]);
    let client = client(&url(&upstream), Some(&authority.ca_file));
    assert_eq!(outcome(&client, plain(vec![b' '; 20 << 20])).await, "too_large 413");
}

#[test]
fn a_ca_file_that_holds_no_authority_is_a_fault_that_names_it() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let missing = directory.join("no-such-file.pem");
    let empty = directory.join(format!("empty-{}.pem", std::process::id()));
    std::fs::write(&empty, "nothing in PEM\n").unwrap();
    for path in [&missing, &empty] {
        let fault = client_config(Some(path)).unwrap_err();
        assert!(matches!(&fault, TlsFault::CaFile(named, _) if named == path), "{fault}");
    }
    let _ = std::fs::remove_file(empty);
}
