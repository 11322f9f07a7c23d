//! HTTPS: what is spoken, and certificates that change while requests run.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use chrono::{DateTime, Datelike as _, TimeDelta, Utc};
use pointsman::state::reload::ReloadTrigger;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway, preamble},
    patience::{self, PATIENCE, eventually},
    process::{Process, run},
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, held_stream, provider_key},
};

/// A certificate that vouches for itself, and its key.
pub(crate) struct Pair {
    certificate: CertificateDer<'static>,
    pem: String,
    key: String,
}

fn pair() -> Pair {
    pair_until(Utc::now() + TimeDelta::days(365))
}

fn pair_until(end: DateTime<Utc>) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    certificate.not_after = date_time_ymd(end.year(), end.month().try_into().unwrap(), end.day().try_into().unwrap());
    let certificate = certificate.self_signed(&key).unwrap();
    Pair { certificate: certificate.der().clone(), pem: certificate.pem(), key: key.serialize_pem() }
}

/// Certificate, key and configuration in a directory that goes with the test.
struct Files(Folder);

impl Files {
    fn new(pair: &Pair) -> Files {
        let files = Files(Folder::new());
        files.put(&pair.pem, &pair.key);
        files
    }

    fn put(&self, certificate: &str, key: &str) {
        fs::write(self.0.at("server.pem"), certificate).unwrap();
        fs::write(self.0.at("server.key"), key).unwrap();
        fs::set_permissions(self.0.at("server.key"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn config(&self, world: &World) -> PathBuf {
        let tls = "[server.tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n";
        let text = preamble().replace("[simulation]", &format!("{tls}[simulation]"));
        let path = self.0.at("config.toml");
        fs::write(&path, format!("{text}\n[reload]\ndebounce = \"20ms\"\n{}", world.toml())).unwrap();
        path
    }

    async fn start(&self, world: &World) -> TestGateway {
        let environment: Vec<(&str, &str)> =
            world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        TestGateway::load(&self.config(world), &environment).await
    }
}

pub(crate) fn world(upstream: &Upstream) -> World {
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
}

/// A connection that trusts this certificate only.
pub(crate) async fn connect(
    gateway: &TestGateway,
    pair: &Pair,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(pair.certificate.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let tcp = TcpStream::connect(gateway.address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), tcp).await
}

pub(crate) const ANY: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

pub(crate) async fn send_chat(stream: &mut TlsStream<TcpStream>, streamed: bool) {
    let body = and(ask("acme/small"), json!({"stream": streamed})).to_string();
    let head = format!(
        "POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
}

pub(crate) async fn until(stream: &mut TlsStream<TcpStream>, wanted: &str) -> String {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    let reading = async {
        while !String::from_utf8_lossy(&got).contains(wanted) {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "it ended before {wanted:?}: {}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8_lossy(&got).into_owned()
}

/// A gateway over TLS, and what its clients need to trust it.
pub(crate) struct Encrypted {
    pub(crate) gateway: TestGateway,
    pub(crate) pair: Pair,
    files: Files,
}

impl Encrypted {
    pub(crate) async fn new(world: World) -> Encrypted {
        let pair = pair();
        let files = Files::new(&pair);
        Encrypted { gateway: files.start(&world).await, pair, files }
    }

    pub(crate) async fn client(&self) -> TlsStream<TcpStream> {
        connect(&self.gateway, &self.pair, ANY).await.unwrap()
    }
}

/// A stream whose first word is here, on a connection that trusts this certificate.
async fn running_stream(gateway: &TestGateway, pair: &Pair) -> TlsStream<TcpStream> {
    let mut running = connect(gateway, pair, ANY).await.unwrap();
    send_chat(&mut running, true).await;
    until(&mut running, "one ").await;
    running
}

/// Waits until new connections are shown this certificate.
async fn is_shown(gateway: &TestGateway, pair: &Pair) {
    let connected = async || connect(gateway, pair, ANY).await.map(drop);
    eventually("the new certificate is shown", connected, Result::is_ok).await.unwrap();
}

#[actix_web::test]
async fn tls_1_2_and_1_3_are_spoken_with_http_1_1_and_nothing_in_clear() {
    let upstream = crate::world::saying("Hello");
    let encrypted = Encrypted::new(world(&upstream)).await;
    for version in [&TLS12, &TLS13] {
        let mut stream = connect(&encrypted.gateway, &encrypted.pair, &[version]).await.unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(version.version));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        send_chat(&mut stream, false).await;
        assert!(until(&mut stream, "\"usage\"").await.starts_with("HTTP/1.1 200"));
    }
    let clear = crate::world::raw(encrypted.gateway.address, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(!clear.contains("200"), "{clear}");
}

#[actix_web::test]
async fn a_new_certificate_is_shown_to_new_connections_while_a_stream_runs_on_the_old_one() {
    let gate = Gate::new();
    let upstream = Upstream::start([held_stream(&["one ", "two "], &gate)]);
    let new = pair();
    let Encrypted { gateway, pair: old, files } = Encrypted::new(world(&upstream)).await;
    let mut running = running_stream(&gateway, &old).await;

    // The files are watched: nobody asks for it.
    files.put(&new.pem, &new.key);
    is_shown(&gateway, &new).await;
    assert!(connect(&gateway, &old, ANY).await.is_err(), "the old certificate is no longer shown");

    gate.open();
    let rest = until(&mut running, "data: [DONE]").await;
    assert!(rest.contains("two ") && !rest.contains("\"error\""), "{rest}");
}

#[actix_web::test]
async fn the_binary_changes_its_certificate_at_a_signal_while_a_stream_runs_and_ends_in_order() {
    let gate = Gate::new();
    let upstream = Upstream::start([held_stream(&["one ", "two "], &gate)]);
    let (old, new) = (pair(), pair());
    let files = Files::new(&old);
    let config = files.config(&world(&upstream));
    let acme = provider_key("acme");
    let environment = [("TEST_KEY", KEY), ("ACME_KEY", acme.as_str())];
    let mut process = Process::start(&["serve", "--config", config.to_str().unwrap()], &environment);
    let gateway = process.gateway();
    let mut running = running_stream(&gateway, &old).await;

    files.put(&new.pem, &new.key);
    process.signal("HUP");
    is_shown(&gateway, &new).await;
    process.signal("TERM");
    gate.open();
    let rest = until(&mut running, "data: [DONE]").await;
    assert!(rest.contains("two ") && !rest.contains("\"error\""), "{rest}");
    drop(running);
    assert_eq!(process.end().await.code(), Some(0));
    assert!(!process.stderr().contains("PRIVATE KEY"), "{}", process.stderr());
}

#[actix_web::test]
async fn a_broken_certificate_changes_nothing() {
    let upstream = crate::world::saying("Hello");
    let other = pair();
    let Encrypted { gateway, pair: good, files } = Encrypted::new(world(&upstream)).await;
    for (certificate, key, fault) in [
        ("no certificate", good.key.as_str(), "server.tls.certificate: has no certificate"),
        (&good.pem, "no key", "server.tls.key: has no private key"),
        (&good.pem, &other.key, "server.tls.key: belongs to another certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &good.key, "server.tls."),
    ] {
        files.put(certificate, key);
        let attempt = gateway.inner().reload(ReloadTrigger::Signal).await;
        assert!(attempt.outcome.faults().iter().any(|it| it.contains(fault)), "{fault}: {attempt}");
        assert!(attempt.to_string().contains("config.toml:"), "{attempt}");
        connect(&gateway, &good, ANY).await.unwrap();
    }
    assert_eq!(gateway.inner().setup().version, 1);
}

#[actix_web::test]
async fn a_client_that_reads_nothing_is_dropped_on_tls_too() {
    let endless =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n".repeat(500);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let script = Script::new().request().send(head).repeat(Script::new().send(endless));
    let upstream = Upstream::start([script]);
    let encrypted = Encrypted::new(world(&upstream).with("[timeouts]\nclient_write_stall = \"300ms\"")).await;
    let mut stalled = encrypted.client().await;
    send_chat(&mut stalled, true).await;

    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    patience::until("it is no longer served", || encrypted.gateway.inner().setup().admission.in_flight() == 0).await;
    assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await, "the upstream is let go");
}

/// What `pointsman check` says of what lies in the folder.
fn checked(files: &Files) -> String {
    let path = files.0.at("config.toml");
    fs::write(&path, "[server.tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n").unwrap();
    let output = run(&["check", "--config", path.to_str().unwrap()], &[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_certificate_that_ended_or_soon_will_is_noted() {
    let days = |days| Utc::now() + TimeDelta::days(days);
    for (end, noted) in [(days(-1), Some("ended on")), (days(3), Some("ends on")), (days(30), None)] {
        let files = Files::new(&pair_until(end));
        let text = checked(&files);
        match noted {
            Some(words) => assert!(text.contains(&format!("server.pem {words} {}-", end.year())), "{text}"),
            None => assert!(!text.contains("server.tls.certificate"), "{text}"),
        }
    }
}

#[test]
fn a_key_that_others_may_read_is_noted() {
    let pair = pair();
    let files = Files::new(&pair);
    fs::set_permissions(files.0.at("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let text = checked(&files);
    assert!(text.contains("server.key has mode 0644: others may read it"), "{text}");
    assert!(!text.contains("PRIVATE KEY"), "{text}");
}
