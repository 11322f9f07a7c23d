//! Pages of the console about models, keys, predictions, targets and the configuration.

use serde_json::json;

use crate::{
    console_login::{ADMIN_KEY, Browser, token},
    folder::Folder,
    harness::TestGateway,
    patience::eventually,
};

const USER_KEY: &str = "sk-user-0123456789abcdef-0123";
const CONFIG: &str = "[[keys]]\nname = \"boss\"\nenv = \"BOSS_KEY\"\nscopes = [\"admin\", \"inference\", \"read\"]\n\
                      [[keys]]\nname = \"team/a b\"\nenv = \"USER_KEY\"\nspend_limit = \"5\"\n\
                      [[aliases]]\nname = \"quick\"\nallowed_models = [\"meadow/*\"]\npreferred_max_latency = { p90 = 2.5 }\n";

async fn start(folder: &Folder) -> TestGateway {
    let ledger = folder.at("ledger").to_str().unwrap().to_owned();
    let environment = [
        ("BOSS_KEY", ADMIN_KEY),
        ("USER_KEY", USER_KEY),
        ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
        ("POINTSMAN__SIMULATION__MODE", "on"),
        ("POINTSMAN__LEDGER__DATA_DIR", &ledger),
        ("POINTSMAN__LEDGER__DURABILITY", "group"),
    ];
    TestGateway::start_with(CONFIG, &environment).await
}

async fn ask(gateway: &TestGateway, key: &str) -> u16 {
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let body = json!({"model": "service/quick", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]});
    let body = Some(body.to_string().into_bytes());
    gateway.call(actix_web::http::Method::POST, "/api/v1/chat/completions", &headers, body).await.status
}

#[actix_web::test]
async fn a_key_is_disabled_and_enabled_and_only_with_the_token_of_the_session() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page("/console/keys").await;
    assert!(page.contains("href=\"keys/team%2Fa%20b/disable\"") && !page.contains("keys/boss/disable"), "{page}");
    assert!(page.contains("of <data class=\"num\" value=\"5\""), "{page}");
    let path = "/console/keys/team%2Fa%20b";
    assert_eq!(browser.post(&format!("{path}/disable"), "token=wrong").await.status, 403);
    assert_eq!(ask(&gateway, USER_KEY).await, 200);

    let question = browser.page(&format!("{path}/disable")).await;
    assert_eq!(ask(&gateway, USER_KEY).await, 200, "asking changes nothing");
    let token = format!("token={}", token(&question));
    let reply = browser.post(&format!("{path}/disable"), &token).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../../keys/team%2Fa%20b?done=disabled")));
    assert_eq!(ask(&gateway, USER_KEY).await, 401);
    assert!(browser.page("/console/keys").await.contains("action=\"keys/team%2Fa%20b/enable\""));
    assert_eq!(browser.post(&format!("{path}/enable"), &token).await.status, 303);
    assert_eq!(ask(&gateway, USER_KEY).await, 200);
    assert_eq!(browser.post("/console/keys/boss/disable", &token).await.status, 400, "nobody locks himself out");
    assert_eq!(browser.post("/console/keys/nobody/disable", &token).await.status, 404);
}

#[actix_web::test]
async fn prices_are_shown_per_million_tokens_and_a_sample_is_added_up() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let listed = gateway.get("/api/v1/models/meadow/small/endpoints").await.expect(200);
    let prices = listed["data"]["endpoints"].as_array().unwrap().iter();
    let prices: Vec<f64> =
        prices.map(|endpoint| endpoint["pricing"]["prompt"].as_str().unwrap().parse().unwrap()).collect();
    let page = browser.page("/console/models?q=meadow/small&prompt=1000000&completion=0").await;
    assert!(page.contains("meadow/small") && !page.contains("meadow/large"), "{page}");
    let rows: Vec<&str> = page.split("<tr data-row").skip(1).take(prices.len()).collect();
    for (row, price) in rows.iter().zip(&prices) {
        let amounts =
            row.split("data-v=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        let same = amounts.filter(|amount| (amount - price * 1e6).abs() < 1e-9).count();
        // The sample of a million prompt tokens costs the price per million.
        assert!(if *price == 0.0 { row.contains("free") } else { same >= 2 }, "{price}: {row}");
    }
    assert_eq!(rows.len(), prices.len());
    assert!(page.contains("quick"), "aliases are listed");
    assert!(browser.page("/console/models?q=no-such-model").await.contains("No model has"));
}

#[actix_web::test]
async fn targets_predictions_and_configuration_say_what_the_api_says() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    assert!(browser.page("/console/calibration").await.contains("nothing was predicted"));
    // The first call of an endpoint predicts nothing that could be compared; which one is called is left to the routing.
    let after_a_call = async || {
        assert_eq!(ask(&gateway, USER_KEY).await, 200);
        browser.page("/console/calibration").await
    };
    eventually("calls are on the page", after_a_call, |page| page.contains("meadow/")).await;
    let targets = browser.page("/console/targets").await;
    assert!(targets.contains("quick") && targets.contains("2.5") && targets.contains("p90"), "{targets}");

    let page = browser.page("/console/config").await;
    assert!(page.contains("Version in force"), "{page}");
    let token = format!("token={}", token(&page));
    assert_eq!(browser.post("/console/config/reload", "token=").await.status, 403);
    let reply = browser.post("/console/config/reload", &token).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../config")));
    let page = browser.page("/console/config").await;
    assert!(page.contains("Last reload"), "{page}");
    for path in ["models", "keys", "keys/boss", "accounts", "audit", "ledger", "calibration", "targets", "config"] {
        let page = browser.page(&format!("/console/{path}")).await;
        for secret in [ADMIN_KEY, USER_KEY] {
            assert!(!page.contains(secret), "{path}");
        }
        assert!(page.len() < 110_000, "{path}: {} bytes", page.len());
        assert!(!page.contains(" style=") && page.matches("<h1").count() == 1, "{path}");
    }
}

#[actix_web::test]
async fn the_page_what_if_compares_recorded_calls_under_changed_keys() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page("/console/what-if").await;
    assert!(page.contains("# &quot;routing.exploration&quot; = 0"), "{page}");
    let token = token(&page).to_owned();
    let compared = async |fields: &str| {
        let begun = browser.post("/console/what-if", &format!("token={token}&{fields}")).await;
        assert_eq!(begun.status, 303, "{}", begun.text());
        let location = begun.header("location").unwrap();
        assert!(location.starts_with("what-if?id=diff-") && location.len() < 64, "nothing else: {location}");
        let place = format!("/console/{location}");
        let shown = async || browser.page(&place).await;
        eventually("it ends", shown, |page| !page.contains("data-refresh")).await
    };
    let empty = compared("objective=fastest&since=24").await;
    assert!(empty.contains("the ledger is empty"), "{empty}");
    for _ in 0..3 {
        assert_eq!(ask(&gateway, USER_KEY).await, 200);
    }
    let fields = "objective=cheapest&cost=0.9&changes=%23+a+note%0A%5Brouting%5D%0Aexploration+%3D+0.25&limits=spend+%3E+%2B5%25";
    let is_read = |page: &String| page.contains("3 of 3 decisions identical");
    let page = eventually("the records are in the database", async || compared(fields).await, is_read).await;
    for shown in ["routing.exploration", "routing.balanced", "routing.objective", "first token p50, s", "[routing]"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(page.contains("The limits cannot be judged."), "{page}");
    let note = "x".repeat(12_000);
    let page = compared(&format!("latency=0.25&changes=%23+{note}%0A%22routing.exploration%22+%3D+0.25")).await;
    assert!(page.contains("3 of 3 decisions identical"), "{page}");
    assert!(page.contains(&note) && page.contains("value=\"0.25\""), "what was entered is on the page");
    let gone = browser.page("/console/what-if?id=diff-0").await;
    assert!(gone.contains("no longer kept") && !gone.contains(&note), "{gone}");
    for (fields, said) in [
        ("changes=rooting+%3D+1", "rooting"),
        ("changes=%5B", "changes:1:"),
        ("latency=much", "routing.balanced.latency"),
        ("limits=joy", "failures &gt; +0.2pp"),
    ] {
        let refused = browser.post("/console/what-if", &format!("token={token}&{fields}")).await;
        assert_eq!(refused.status, 400, "{fields}");
        assert!(refused.text().contains(said), "{fields}: {}", refused.text());
    }
}
