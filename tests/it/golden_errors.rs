//! Golden files of refusals: what each client gets when a provider of each dialect refuses its request. The cases stand with
//! those of requests and answers; their README tells how one is added.

use std::{fs, path::Path};

use actix_web::http::Method;
use expect_test::expect_file;
use serde_json::{Value, json};

use crate::{
    dialect_pairs::{DOORS, gateway},
    harness::Reply,
    scripted::{Script, Upstream},
    world::http_with,
};

const ENDING: &str = ".error.json";
/// Headers that tell a client whether and when to come again.
const TOLD: [&str; 2] = ["retry-after", "x-should-retry"];

#[actix_web::test]
async fn refusals_reach_every_client_as_the_golden_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/dialect/tests/golden");
    let mut cases = 0;
    for file in fs::read_dir(root.join("providers")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let Some((_, dialect)) = name.strip_suffix(ENDING).and_then(|name| name.split_once('.')) else { continue };
        let refusal: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
        cases += 1;
        for door in DOORS {
            let maker = Upstream::start([Script::answering(answer(&refusal))]);
            let gateway = gateway(dialect, &maker, None).await;
            let body = Some(door.request().to_string().into_bytes());
            let headers = [("content-type", "application/json"), ("x-request-id", "golden")];
            let reply = gateway.call(Method::POST, door.path(), &headers, body).await;
            expect_file![root.join(door.name()).join(&name)].assert_eq(&shown(&reply));
        }
    }
    assert!(cases > 0);
}

/// The answer of the provider.
fn answer(refusal: &Value) -> String {
    let headers = refusal["headers"].as_object().into_iter().flatten();
    let headers: String = headers.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap())).collect();
    http_with(refusal["status"].as_u64().unwrap() as u16, &headers, &refusal["body"])
}

/// What the client is told, laid out.
fn shown(reply: &Reply) -> String {
    let headers: Value = TOLD.iter().filter_map(|name| Some((*name, json!(reply.header(name)?)))).collect();
    let shown = format!("{:#}\n", json!({"status": reply.status, "headers": headers, "body": reply.json()}));
    shown.replace(reply.header("x-generation-id").unwrap(), "gen-1")
}
