//! The real binary while its configuration changes: SIGHUP, certificates, hundreds of streams, and the end of it all.

use std::fs;

use serde_json::json;

use crate::{
    harness::{KEY, preamble},
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Gate, Upstream},
    world::{Model, World, and, ask, held_stream, provider_key, saying},
};

const STREAMS: usize = 200;

fn world(upstream: &Upstream) -> World {
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
}

/// A file that is read again on request alone.
fn file(world: &World) -> ConfigFile {
    ConfigFile::new(&format!("{}\n[reload]\nwatch = false\n{}", preamble(), world.toml()))
}

fn start(file: &ConfigFile) -> Process {
    let acme = provider_key("acme");
    Process::start(&["serve", "--config", file.path()], &[("TEST_KEY", KEY), ("ACME_KEY", &acme)])
}

#[actix_web::test]
async fn sighup_brings_the_new_configuration_into_force_and_the_log_names_every_fault_of_a_broken_one() {
    let upstream = saying("Hello");
    let file = file(&world(&upstream));
    let good = fs::read_to_string(file.path()).unwrap();
    let process = start(&file);

    fs::write(file.path(), "[limits]\nmax_n = 0\ncolour = 1\n").unwrap();
    process.signal("HUP");
    for line in ["version 1 stays in force", ":2:9: limits.max_n: 0 is out of range", ":3:1: limits.colour"] {
        process.says(line, 1).await;
    }
    process.gateway().chat(&ask("acme/small")).await.expect(200);

    fs::write(file.path(), format!("{good}\n[limits]\nmax_n = 3\n[cors]\nallowed_origins = [\"*\"]\n")).unwrap();
    process.signal("HUP");
    process.says("configuration 2 is in force (signal)", 1).await;
    process.says("cors.allowed_origins is [] until a restart; the configuration says [\"*\"]", 1).await;
    assert_eq!(process.gateway().chat(&ask("acme/small")).await.expect(200)["system_fingerprint"], "fp_2");
}

#[actix_web::test]
async fn two_hundred_streams_run_through_reloads_and_the_end_of_the_process() {
    let gate = Gate::new();
    let upstream = Upstream::start(vec![held_stream(&["one ", "two "], &gate); STREAMS]);
    let file = file(&world(&upstream));
    let good = fs::read_to_string(file.path()).unwrap();
    let mut process = start(&file);
    let gateway = process.gateway();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut client = RawClient::chat(&gateway, &and(ask("acme/small"), json!({"stream": true}))).await;
        client.until("one ").await;
        streams.push(client);
    }

    for round in 1..=3 {
        fs::write(file.path(), "[[[").unwrap();
        process.signal("HUP");
        process.says("the new configuration is refused", round).await;
        fs::write(file.path(), format!("{good}\n[limits]\nmax_n = {round}\n")).unwrap();
        process.signal("HUP");
        process.says(&format!("configuration {} is in force", round + 1), 1).await;
    }
    process.signal("TERM");
    process.says("draining", 1).await;
    gate.open();

    for client in &mut streams {
        let rest = client.until("data: [DONE]\n\n").await;
        assert!(rest.contains("two ") && rest.contains("fp_1") && !rest.contains("\"error\""), "{rest}");
    }
    assert_eq!(process.end().await.code(), Some(0));
    let log = process.stderr();
    for secret in [KEY, &provider_key("acme")] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[actix_web::test]
async fn the_places_at_a_provider_are_shown_as_they_are_taken() {
    let gate = Gate::new();
    let upstream = Upstream::start([held_stream(&["one "], &gate)]);
    let gateway = world(&upstream).start().await;
    let mut running = RawClient::chat(&gateway, &and(ask("acme/small"), json!({"stream": true}))).await;
    running.until("one ").await;

    let text = gateway.get("/metrics").await.text();
    assert!(text.contains("pointsman_provider_places_taken{provider=\"acme\"} 1\n"), "{text}");
    assert!(text.contains("pointsman_provider_places{provider=\"acme\"} 256\n"), "{text}");
    gate.open();
    running.until("data: [DONE]\n\n").await;
}
