//! Empty lists of the console whose reason is that records are gone, or that there was no turn to read them.

use pointsman_domain::{Generation, GenerationId};

use crate::{
    analyses::hold_turn_of,
    console_login::Browser,
    folder::Folder,
    harness::TestGateway,
    issued_keys::{ADMIN, generation_of, world, write},
    patience::eventually,
    world::saying,
};

#[actix_web::test]
async fn a_list_whose_records_have_aged_out_says_so_and_not_that_there_never_was_a_call() {
    const DAYS: i64 = 86_400_000;
    let (upstream, folder, old) = (saying("Hello"), Folder::new(), Folder::new());
    let generation = generation_of(&world(&upstream, &folder).start().await).await;
    let created_ms = generation.created_ms - 40 * DAYS;
    let id = GenerationId::new(created_ms as u64 / 1_000, [1, 2, 3]);
    write(&old, &[Generation { id, created_ms, ..generation }]);
    let browser = Browser::logged_in(&world(&upstream, &old).start().await, ADMIN).await;
    let list = async || browser.page("/console/decisions").await;
    let page = eventually("retention was there", list, |page| page.contains("No decision is kept any more.")).await;
    assert!(page.contains("Records from before ") && !page.contains("No decisions yet"), "{page}");
    let filtered = browser.page("/console/decisions?q=acme").await;
    assert!(filtered.contains("No decision passes these filters.") && filtered.contains("Records from before "));
}

#[actix_web::test]
async fn a_list_that_gets_no_turn_is_refused_with_the_reason_and_no_empty_list_is_shown() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway: TestGateway = world(&upstream, &folder).with("[limits]\nkey_analyses = 1").start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let held = hold_turn_of(&gateway, "admin").await;
    for page in ["/console/decisions", "/console/spend"] {
        let busy = browser.get(page).await;
        assert_eq!((busy.status, busy.header("content-type")), (429, Some("text/html; charset=utf-8")), "{page}");
        assert!(busy.header("retry-after").is_some(), "{page}");
        let text = busy.text();
        assert!(
            text.contains("at the same time: the limit is 1 (limits.key_analyses)")
                && !text.contains("class=\"empty\""),
            "{text}"
        );
    }
    held.end().await;
    assert!(browser.page("/console/decisions").await.contains("No decisions yet"));
}
