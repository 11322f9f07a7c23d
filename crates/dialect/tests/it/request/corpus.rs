//! Bodies that once were, or well could be, somebody's trouble. Each finding becomes a file.
//!
//! The first word of a file's name says what must come of it: `bad` is refused, `good` is passed on as
//! JSON, `any` need only not break anything.

use std::{fs, path::Path};

use pointsman_dialect::{ChatPurpose, ChatRequest, RequestLimits};

use super::world::catalog;

#[test]
fn every_body_of_the_corpus_comes_out_as_its_name_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/requests");
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        check(&name, &fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen >= 30, "only {seen} bodies");
}

fn check(name: &str, body: &[u8]) {
    let catalog = catalog();
    let parsed = ChatRequest::parse(body.to_vec().into(), ChatPurpose::Chat, &RequestLimits::default());
    match (name.split('-').next(), &parsed) {
        (Some("bad"), Err(invalid)) => assert!(!invalid.message.is_empty(), "{name}"),
        (Some("good"), Ok(_)) | (Some("any"), _) => {}
        _ => panic!("{name}: {:?}", parsed.err()),
    }
    for endpoint in parsed.iter().flat_map(|_| &catalog.endpoints) {
        let outgoing = parsed.as_ref().unwrap().upstream_body(&catalog, endpoint);
        let sent: serde_json::Value = serde_json::from_slice(&outgoing.bytes).expect(name);
        assert_eq!(sent["model"], *endpoint.upstream_model, "{name}");
    }
}
