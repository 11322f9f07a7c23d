//! `[routing.explore]`: choices that are drawn at random to learn from.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    world::{Model, World, and, ask, saying},
};

const SHARE: &str = "[routing.explore]\nshare = 0.5\nobjectives = [\"cheapest\"]\nmax_extra_cost = 1.0\n";

async fn explained(gateway: &TestGateway, body: Value) -> (Value, String) {
    let reply = gateway.chat(&body).await;
    reply.expect(200);
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let reason = reply.header("x-route-reason").unwrap().to_owned();
    (gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200), reason)
}

#[actix_web::test]
async fn a_share_of_the_requests_that_want_it_is_explored_told_and_replayed() {
    let upstreams = [saying("a"), saying("b")];
    let world = World::default().provider("acme", upstreams[0].address()).provider("bolt", upstreams[1].address());
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000002").at("bolt", "0.000002", "0.000004");
    let gateway = world.model(&model).with(SHARE).start().await;
    let cheapest = || and(ask("acme/small"), json!({ "objective": "cheapest" }));
    let mut explored = 0;
    for _ in 0..30 {
        let (page, reason) = explained(&gateway, cheapest()).await;
        assert_eq!(
            (&page["exploration_share"], page["safe_set"].as_array().unwrap().len()),
            (&json!(0.5), 2),
            "{page:#}"
        );
        let is_explored = page["explored"] == true;
        explored += u32::from(is_explored);
        assert_eq!(reason == "exploration", is_explored, "{reason}");
        let said = page["decision_reason"].as_str().unwrap().contains("drawn at random from 2 endpoints");
        assert_eq!(said, is_explored, "{}", page["decision_reason"]);
        let id = page["generation_id"].as_str().unwrap();
        let replay = gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await.expect(200);
        assert_eq!(replay["data"]["identical"], true, "{replay:#}");
    }
    assert!((1..=18).contains(&explored), "half of the draws choose the other one: {explored} of 30");
    for unwanted in [
        json!({ "provider": { "explore": false } }),
        json!({ "provider": { "allow_fallbacks": false } }),
        json!({ "provider": { "order": ["acme"] } }),
        json!({ "objective": "fastest" }),
    ] {
        let (page, _) = explained(&gateway, and(cheapest(), unwanted.clone())).await;
        assert_eq!(page["exploration_share"], 0.0, "{unwanted}");
    }
}
