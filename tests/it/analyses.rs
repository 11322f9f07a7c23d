//! Previews, explanations and replays beside the calls that are served: what they may take, and what they may not.

use std::sync::mpsc;

use serde_json::json;

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{Model, World, and, ask, error_of, saying},
};

/// Models, and endpoints of each, of a catalog in which one `why_not` takes a debug build a noticeable time.
const MANY: (usize, usize) = (5, 200);

/// A gateway with one worker, one model and these limits.
async fn gateway(limits: &str) -> (TestGateway, Upstream) {
    let upstream = saying("x");
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000002");
    let world = World::new().with(limits).provider("acme", upstream.address()).model(&model);
    (world.start().await, upstream)
}

/// Keeps the turn of a key until told otherwise.
pub(crate) struct Held {
    release: mpsc::Sender<()>,
    done: actix_web::rt::task::JoinHandle<()>,
}

async fn hold_turn(gateway: &TestGateway) -> Held {
    hold_turn_of(gateway, "test").await
}

pub(crate) async fn hold_turn_of(gateway: &TestGateway, key: &str) -> Held {
    let owner = gateway.inner().setup().keys.named(key).expect("this key").owner;
    let (release, released) = mpsc::channel();
    let (begin, mut begun) = tokio::sync::mpsc::channel(1);
    let shared = gateway.inner().shared().clone();
    let done = actix_web::rt::spawn(async move {
        let wait = move || {
            begin.blocking_send(()).expect("somebody waits for it");
            released.recv().expect("it is held until it is released");
        };
        shared.access.analyses.run(owner, 1, wait).await.expect("nobody else is there");
    });
    begun.recv().await.expect("it begins");
    Held { release, done }
}

impl Held {
    pub(crate) async fn end(self) {
        self.release.send(()).expect("it is held");
        self.done.await.expect("it ends");
    }
}

#[actix_web::test]
async fn a_key_over_its_previews_at_a_time_gets_429_and_its_calls_go_on() {
    let (gateway, _upstream) = gateway("[limits]\nkey_analyses = 1\n").await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let held = hold_turn(&gateway).await;
    let refused = [
        gateway.post("/api/v1/route/preview", &ask("acme/small")).await,
        gateway.get(&format!("/api/v1/route/explain?generation_id={id}&why_not=acme")).await,
        gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await,
    ];
    for reply in refused {
        assert_eq!(reply.header("retry-after"), Some("1"));
        let error = error_of(&reply, 429);
        assert_eq!(
            (&error["type"], &error["metadata"]["reason"]),
            (&json!("rate_limit_error"), &json!("gateway_analyses"))
        );
    }
    gateway.chat(&ask("acme/small")).await.expect(200);
    held.end().await;
    gateway.post("/api/v1/route/preview", &ask("acme/small")).await.expect(200);
    gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await.expect(200);
}

#[actix_web::test]
async fn a_preview_waits_for_the_one_before_it_and_not_for_ever() {
    let (gateway, _upstream) = gateway("").await;
    let held = hold_turn(&gateway).await;
    let refused = gateway.post("/api/v1/route/preview", &ask("acme/small")).await;
    assert_eq!(error_of(&refused, 503)["metadata"]["reason"], "overloaded");
    assert!(refused.header("retry-after").is_some());
    let body = ask("acme/small");
    let waiting = gateway.post("/api/v1/route/preview", &body);
    let (answered, ()) = tokio::join!(waiting, held.end());
    answered.expect(200);
}

#[actix_web::test]
async fn a_preview_that_takes_long_holds_up_nobody_on_its_worker() {
    let upstream = saying("x");
    let (models, twins) = MANY;
    let model = |number: usize| {
        let head = format!("[[models]]\nid = \"acme/m{number}\"\ncontext_length = 100000");
        let twin = |twin| {
            format!("\n[[models.endpoints]]\nprovider = \"acme\"\nupstream_model = \"m\"\nvariant = \"v{twin}\"")
        };
        let pricing = "pricing = { prompt = \"0.000001\", completion = \"0.000001\" }";
        format!("{head}\n{pricing}{}", (0..twins).map(twin).collect::<String>())
    };
    let world = World::new().provider("acme", upstream.address());
    let gateway = (0..models).fold(world, |world, number| world.with(&model(number))).start().await;
    let body = and(ask("auto"), json!({"objective": "balanced", "why_not": "acme/m1@acme/v7"}));
    let mut preview = std::pin::pin!(gateway.post("/api/v1/route/preview", &body));
    let mut answered = 0;
    let reply = loop {
        tokio::select! {
            ended = &mut preview => break ended,
            live = gateway.get("/health/live") => { live.expect(200); }
        }
        answered += 1;
    };
    assert_eq!(reply.expect(200)["why_not"]["verdict"], "lost");
    // One may be answered before the preview begins, and one as it ends.
    assert!(answered > 2, "{answered} calls were answered during the preview");
}
