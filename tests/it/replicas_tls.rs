//! Gateways whose PostgreSQL and Redis speak TLS: with certificates that a file vouches for, and with others.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{chat, world},
    patience::eventually,
    replicas::store_is,
    scripted::Upstream,
    stores::{self, Certificate, PASSWORD, Store},
    world::{World, saying},
};

/// An authority that nobody knows but who reads its file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: Folder,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new();
        folder.put("ca.pem", &issuer.pem());
        Authority { issuer, folder }
    }

    /// A certificate for a server of this name or address.
    fn certificate(&self, name: &str) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        Certificate { chain: certificate.pem(), key: key.serialize_pem() }
    }

    fn stores(&self, name: &str) -> Option<(Store, Store)> {
        stores::postgres_with_tls(&self.certificate(name)).zip(stores::redis_with_tls(&self.certificate(name)))
    }
}

/// A gateway with both stores, which trusts what the file of this authority vouches for.
fn gateway_of(upstream: &Upstream, folder: &Folder, urls: [&str; 2], trusted: Option<&Authority>) -> World {
    let ca_file = trusted.map(|authority| format!("ca_file = {:?}\n", authority.folder.at("ca.pem")));
    let ca_file = ca_file.unwrap_or_default();
    let stores =
        format!("[shared.postgres]\nurl_env = \"POSTGRES\"\n{ca_file}[shared.redis]\nurl_env = \"REDIS\"\n{ca_file}");
    world(upstream, folder).with(&stores).variable("POSTGRES", urls[0]).variable("REDIS", urls[1])
}

/// Waits until both stores have refused a connection in the middle of its handshake, and says that calls go on.
async fn goes_on_without(gateway: &TestGateway, postgres: &Store, redis: &Store) {
    for store in [postgres, redis] {
        let log = async || store.log();
        eventually("the client breaks the handshake off", log, |log| log.contains(" alert ")).await;
    }
    for store in ["postgres", "redis"] {
        store_is(gateway, store, "away").await;
    }
    chat(gateway, KEY, json!({"max_tokens": 5})).await.expect(200);
}

#[actix_web::test]
async fn records_and_leases_travel_encrypted_to_stores_that_the_ca_file_vouches_for() {
    let authority = Authority::new();
    let Some((postgres, redis)) = authority.stores("127.0.0.1") else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let urls = [postgres.url().replace("require", "verify-full"), redis.url()];
    let world = gateway_of(&upstream, &folder, [&urls[0], &urls[1]], Some(&authority));
    let gateway = world.start().await;
    for store in ["postgres", "redis"] {
        store_is(&gateway, store, "ok").await;
    }
    chat(&gateway, KEY, json!({"max_tokens": 5})).await.expect(200);
    let stored = async || postgres.ask("select count(*) from pointsman_records").unwrap_or_default();
    eventually("the record is in PostgreSQL", stored, |count| count == "1").await;
    let connections =
        "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'pointsman'";
    assert_eq!(postgres.ask(connections).unwrap(), "t");
    let health = gateway.get("/health").await.text();
    assert!(!health.contains(PASSWORD), "{health}");
}

#[actix_web::test]
async fn a_store_whose_certificate_nobody_vouches_for_is_away_and_calls_go_on() {
    let (known, unknown) = (Authority::new(), Authority::new());
    let Some((postgres, redis)) = unknown.stores("127.0.0.1") else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = gateway_of(&upstream, &folder, [&postgres.url(), &redis.url()], Some(&known)).start().await;
    goes_on_without(&gateway, &postgres, &redis).await;
    assert_eq!(postgres.ask("select to_regclass('pointsman_records') is null").unwrap(), "t", "nothing was sent");
}

#[actix_web::test]
async fn a_certificate_for_another_name_is_refused_also_where_encryption_is_only_preferred() {
    let authority = Authority::new();
    let Some((postgres, redis)) = authority.stores("store.example") else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let preferred = postgres.url().replace("require", "prefer");
    let gateway = gateway_of(&upstream, &folder, [&preferred, &redis.url()], Some(&authority)).start().await;
    goes_on_without(&gateway, &postgres, &redis).await;
}

#[actix_web::test]
async fn a_postgres_without_encryption_is_not_used_where_encryption_is_required() {
    let Some(postgres) = stores::postgres() else { return };
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let required = postgres.url().replace("disable", "require");
    let world =
        world(&upstream, &folder).with("[shared.postgres]\nurl_env = \"POSTGRES\"").variable("POSTGRES", &required);
    let gateway = world.start().await;
    let tried = async || gateway.get("/metrics").await.text();
    let outage = "pointsman_shared_store_outages_total{store=\"postgres\"} 1";
    eventually("it was tried", tried, |metrics| metrics.contains(outage)).await;
    store_is(&gateway, "postgres", "away").await;
    chat(&gateway, KEY, json!({"max_tokens": 5})).await.expect(200);
    assert_eq!(postgres.ask("select to_regclass('pointsman_records') is null").unwrap(), "t", "nothing was sent");
}
