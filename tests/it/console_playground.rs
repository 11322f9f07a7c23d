//! The playground of the console: decisions side by side, and a request that is sent on purpose.

use serde_json::Value;

use crate::{
    console_login::{ADMIN_KEY, Browser, token},
    folder::Folder,
    harness::TestGateway,
};

const OWNER_KEY: &str = "sk-owner-0123456789abcdef-01";
const CONFIG: &str = "[[keys]]\nname = \"boss\"\nenv = \"BOSS_KEY\"\nscopes = [\"admin\"]\n\
                      [[keys]]\nname = \"owner\"\nenv = \"OWNER_KEY\"\nscopes = [\"admin\", \"inference\", \"read\"]\n";

async fn start(folder: &Folder) -> TestGateway {
    let ledger = folder.at("ledger").to_str().unwrap().to_owned();
    let environment = [
        ("BOSS_KEY", ADMIN_KEY),
        ("OWNER_KEY", OWNER_KEY),
        ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
        ("POINTSMAN__SIMULATION__MODE", "on"),
        ("POINTSMAN__LEDGER__DATA_DIR", &ledger),
        ("POINTSMAN__LEDGER__DURABILITY", "group"),
    ];
    TestGateway::start_with(CONFIG, &environment).await
}

/// The decision that a page shows under this headline.
fn under<'p>(page: &'p str, headline: &str) -> &'p str {
    let (_, section) = page.split_once(&format!("<h2>{headline}</h2>")).unwrap_or_else(|| panic!("{headline}: {page}"));
    section.split_once("</section>").unwrap().0
}

#[actix_web::test]
async fn two_decisions_stand_side_by_side_and_nothing_is_sent() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page("/console/try").await;
    assert!(under(&page, "As asked").contains("balanced: "), "{page}");
    assert!(!page.contains("<h2>What if</h2>") && !page.contains("data-send-button"), "{page}");
    assert!(page.contains("Sending needs a key that has the scope"), "{page}");

    let form = format!("token={}&model=meadow/small&objective=cheapest&prompt=Hello", token(&page));
    let outage = format!("{form}&if_endpoint=meadow/small@sim-thrift&if_circuit=open");
    let page = browser.post("/console/try", &outage).await.text();
    let (asked, what_if) = (under(&page, "As asked"), under(&page, "What if"));
    assert!(asked.contains("cheapest: meadow/small on Thrift (simulated)."), "{asked}");
    assert!(!what_if.contains("cheapest: meadow/small on Thrift (simulated)."), "{what_if}");
    assert!(page.contains("The choice would be meadow/small on "), "{page}");
    assert!(page.contains("selected value=\"open\"") || page.contains("value=\"open\" selected"), "{page}");

    let homeless = browser.post("/console/try", &format!("{form}&if_circuit=open")).await.text();
    assert!(
        homeless.contains("those of one endpoint: choose it") && !homeless.contains("<h2>What if</h2>"),
        "{homeless}"
    );
    assert!(!page.contains("choose it, or they change nothing"), "{page}");

    let weighed = browser.post("/console/try", &format!("{form}&if_quality=0.5")).await.text();
    assert!(weighed.contains("<h2>What if</h2>") && weighed.contains("name=\"if_quality\" value=\"0.5\""), "{weighed}");

    let sized = format!("token={}&model=meadow/small&prompt_tokens=2000", token(&page));
    assert!(browser.post("/console/try", &sized).await.text().contains("$"), "a prompt given by its size has a price");
    let records = browser.page("/console/decisions").await;
    assert!(!records.contains("decisions/gen-"), "{records}");
}

#[actix_web::test]
async fn what_would_be_refused_is_said_on_the_page() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = token(&browser.page("/console/try").await).to_owned();
    let refused = async |fields: &str| {
        let reply = browser.post("/console/try", &format!("token={token}&prompt=Hi&{fields}")).await;
        assert_eq!(reply.status, 200, "{fields}");
        let page = reply.text();
        page.split_once("This request would be refused: </strong>").unwrap_or_else(|| panic!("{page}")).1.to_owned()
    };
    assert!(refused("model=no/such").await.starts_with("Model 'no/such'"), "{}", refused("model=no/such").await);
    assert!(refused("model=meadow/small&max_tokens=many").await.contains("max_tokens"));
    let negative = "model=meadow/small&if_endpoint=meadow/small@sim-swift&if_price=-1";
    assert!(refused(negative).await.contains("price"));
    assert_eq!(browser.post("/console/try", "token=wrong&prompt=Hi").await.status, 403);
    let long = format!("token={token}&prompt={}", "x".repeat(1_100_000));
    assert_eq!(browser.post("/console/try", &long).await.status, 413);
}

#[actix_web::test]
async fn a_request_is_sent_with_the_key_of_the_session_and_marked_in_its_record() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let boss = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let form = |page: &str| format!("token={}&model=meadow/small&prompt=Hello&max_tokens=16", token(page));
    let denied = boss.post("/console/try/send", &form(&boss.page("/console/try").await)).await;
    assert_eq!(denied.status, 403, "{}", denied.text());

    let owner = Browser::logged_in(&gateway, OWNER_KEY).await;
    let page = owner.page("/console/try").await;
    assert!(page.contains("data-send-button"), "{page}");
    assert_eq!(owner.post("/console/try/send", "token=wrong&prompt=Hi").await.status, 403);
    let reply = owner.post("/console/try/send", &form(&page)).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    let text = reply.text();
    assert!(text.contains("\"content\":") && text.trim_end().ends_with("data: [DONE]"), "{text}");
    let id = reply.header("x-generation-id").unwrap();
    let authorization = format!("Bearer {OWNER_KEY}");
    let path = format!("/api/v1/generation?id={id}");
    let record = gateway.call(actix_web::http::Method::GET, &path, &[("authorization", &authorization)], None).await;
    let record: Value = record.expect(200);
    assert!(record.to_string().contains("\"source\":\"console\""), "{record}");
    assert!(!record.to_string().contains("Hello"), "the text is kept nowhere");
}
