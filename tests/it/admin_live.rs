//! The live feed of a running gateway.

use std::time::Duration;

use actix_web::{error::PayloadError, http::Method, rt::time::timeout};
use futures_util::{StreamExt as _, stream::LocalBoxStream};
use serde_json::Value;

use crate::{
    generation_lists::{ADMIN, Stage, admin, chat},
    harness::{KEY, TestGateway},
    world::{ask, error_of},
};

const PATIENCE: Duration = Duration::from_secs(15);

/// One open stream of events.
pub(crate) struct Feed {
    frames: LocalBoxStream<'static, Result<bytes::Bytes, PayloadError>>,
    text: String,
}

impl Feed {
    pub(crate) async fn open(gateway: &TestGateway, headers: &[(&str, &str)]) -> Feed {
        Feed::open_at(&gateway.admin(), headers).await
    }

    /// The same of a listener for administration.
    pub(crate) async fn open_at(admin: &TestGateway, headers: &[(&str, &str)]) -> Feed {
        let mut request = awc::Client::builder().timeout(PATIENCE).finish().get(admin.url("/api/v1/admin/live"));
        request = request.insert_header(("authorization", format!("Bearer {ADMIN}")));
        for header in headers {
            request = request.insert_header(*header);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers().get("content-type").unwrap(), "text/event-stream; charset=utf-8");
        Feed { frames: answer.boxed_local(), text: String::new() }
    }

    /// Reads until an event of this kind is complete, and gives its number and body; `None` if the stream ends before.
    pub(crate) async fn next(&mut self, kind: &str) -> Option<(Option<u64>, Value)> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                if field("event") == Some(kind) {
                    let id = field("id").map(|id| id.parse().unwrap());
                    return Some((id, serde_json::from_str(field("data").unwrap()).unwrap()));
                }
            }
            let read = timeout(PATIENCE, self.frames.next()).await.expect("something within the time")?;
            self.text.push_str(std::str::from_utf8(&read.ok()?).unwrap());
        }
    }
}

#[actix_web::test]
async fn a_call_is_told_once_and_again_to_a_subscriber_that_missed_it() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    chat(&gateway, KEY, &ask("acme/dear")).await.expect(200);
    let mut feed = Feed::open(&gateway, &[]).await;
    let (number, tick) = feed.next("tick").await.unwrap();
    assert_eq!((number, &tick["code"], &tick["hour"]["ok"]), (None, &"all_well".into(), &1.into()), "{tick}");
    assert!(tick["hour"]["cost"].as_f64().unwrap() > 0.0, "{tick}");

    let answer = chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    let (number, row) = feed.next("generation").await.unwrap();
    assert_eq!((&row["id"], &row["key"]), (&answer["id"], &"test".into()), "the first is not told: {row}");
    let listed = admin(&gateway, "generations?limit=1").await.expect(200);
    assert_eq!(row["model"], listed["data"][0]["model"]);

    let before = (number.unwrap() - 1).to_string();
    let mut returning = Feed::open(&gateway, &[("last-event-id", &before)]).await;
    assert_eq!(returning.next("generation").await.unwrap().1["id"], answer["id"]);
}

#[actix_web::test]
async fn the_33rd_subscriber_is_refused_and_finds_room_when_another_leaves() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    let mut feeds = Vec::new();
    for _ in 0..32 {
        feeds.push(Feed::open(&gateway, &[]).await);
    }
    for feed in &mut feeds {
        assert!(feed.next("tick").await.is_some());
    }
    let refused = admin(&gateway, "live").await;
    assert_eq!(refused.header("retry-after"), Some("30"));
    let error = error_of(&refused, 503);
    assert!(error["message"].as_str().unwrap().contains("live streams"), "{error}");
    feeds.clear();
    let limit = std::time::Instant::now() + PATIENCE;
    loop {
        let request = awc::Client::default().get(gateway.admin().url("/api/v1/admin/live"));
        let answer = request.insert_header(("authorization", format!("Bearer {ADMIN}"))).send().await.unwrap();
        if answer.status() == 200 {
            break;
        }
        assert!(std::time::Instant::now() < limit, "no room");
        actix_web::rt::time::sleep(Duration::from_millis(100)).await;
    }
}

#[actix_web::test]
async fn a_stream_ends_when_the_gateway_begins_to_stop() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    let mut feed = Feed::open(&gateway, &[]).await;
    assert!(feed.next("tick").await.is_some());
    let started = std::time::Instant::now();
    let (end, ()) = futures_util::future::join(
        async {
            while feed.next("tick").await.is_some() {}
            started.elapsed()
        },
        gateway.stop(),
    )
    .await;
    assert!(end < Duration::from_secs(20), "{end:?}");
}

#[actix_web::test]
async fn a_stream_is_for_administrators_only() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    let bearer = format!("Bearer {KEY}");
    let refused = gateway.admin().call(Method::GET, "/api/v1/admin/live", &[("authorization", &bearer)], None).await;
    assert_eq!(error_of(&refused, 403)["metadata"]["reason"], "scope");
}

#[actix_web::test]
async fn a_stream_ends_soon_after_its_key_is_disabled() {
    const BOSS: &str = "sk-boss-0a1b2c3d4e5f6a7b8c";
    let stage = Stage::new();
    let boss = "[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]";
    let world = stage.world().with(boss).variable("BOSS", BOSS).variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    let gateway = world.start().await;
    let mut feed = Feed::open(&gateway, &[]).await;
    assert!(feed.next("tick").await.is_some());
    let bearer = format!("Bearer {BOSS}");
    let disable = "/api/v1/admin/keys/admin/disable";
    gateway.admin().call(Method::POST, disable, &[("authorization", &bearer)], None).await.expect(200);
    let disabled = std::time::Instant::now();
    while feed.next("tick").await.is_some() {}
    assert!(disabled.elapsed() < Duration::from_secs(10), "{:?}", disabled.elapsed());
}
