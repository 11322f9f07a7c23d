//! The console's pages: they show what the API says, escape what they are given, and link relatively.

use std::collections::BTreeSet;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::{Browser, token},
    folder::Folder,
    harness::{KEY, TestGateway},
};

const ADMIN_KEY: &str = "sk-boss-0123456789abcdef";
const EVIL: &str = "<script>alert('x')</script>\"\u{202e}";
/// A key whose name is markup.
const KEYS: &str = "[[keys]]\nname = \"<img src=x onerror=alert(1)>\"\nenv = \"BOSS_KEY\"\nscopes = [\"admin\", \"inference\", \"read\"]\n";

/// A gateway with simulated providers that answer at once, and a ledger in this folder.
async fn start(folder: &Folder) -> TestGateway {
    start_with(folder, &[]).await
}

/// The same with further variables.
async fn start_with(folder: &Folder, further: &[(&str, &str)]) -> TestGateway {
    let ledger = folder.at("ledger").to_str().unwrap().to_owned();
    let mut environment: Vec<(String, String)> = [
        ("BOSS_KEY", ADMIN_KEY),
        ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
        ("POINTSMAN__SIMULATION__MODE", "on"),
        ("POINTSMAN__LEDGER__DATA_DIR", ledger.as_str()),
        ("POINTSMAN__LEDGER__DURABILITY", "group"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    for slug in ["SIM_SWIFT", "SIM_THRIFT", "SIM_FLAKY", "SIM_GRATIS"] {
        for (key, value) in [
            ("TTFT", "1ms"),
            ("TOKENS_PER_SECOND", "10000"),
            ("ERROR_RATE", "0"),
            ("HANG_RATE", "0"),
            ("TRUNCATE_RATE", "0"),
        ] {
            environment.push((format!("POINTSMAN__SIMULATION__PROVIDERS__{slug}__{key}"), value.to_owned()));
        }
    }
    let environment = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let environment: Vec<(&str, &str)> = environment.chain(further.iter().copied()).collect();
    TestGateway::start_with(KEYS, &environment).await
}

async fn chat(gateway: &TestGateway, body: Value) -> String {
    let authorization = format!("Bearer {ADMIN_KEY}");
    let headers =
        [("authorization", authorization.as_str()), ("content-type", "application/json"), ("user-agent", EVIL_AGENT)];
    let body = body.to_string().into_bytes();
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
    reply.header("x-generation-id").map(str::to_owned).unwrap_or_default()
}

const EVIL_AGENT: &str = "<script>agent</script>";

fn question(model: &str) -> Value {
    json!({ "model": model, "max_tokens": 16, "messages": [{ "role": "user", "content": "secret words of a prompt" }] })
}

async fn json_of(gateway: &TestGateway, path: &str) -> Value {
    let authorization = format!("Bearer {ADMIN_KEY}");
    let from = if path.contains("/admin/") { gateway.admin() } else { TestGateway::at(gateway.address) };
    from.call(Method::GET, path, &[("authorization", &authorization)], None).await.expect(200)
}

/// Every exact value on a page.
fn values(page: &str) -> BTreeSet<String> {
    page.split("data-v=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Nothing on the page is run but the script, and nothing leads elsewhere.
#[track_caller]
fn check_markup(path: &str, page: &str) {
    let tags: Vec<&str> = page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect();
    for tag in &tags {
        let is_script = tag.starts_with("script");
        assert!(!is_script || tag.contains("src=\""), "{path}: <{tag}>");
        assert!(!tag.contains(" style=") && !tag.contains("javascript:"), "{path}: <{tag}>");
        // Without what stands between quotation marks.
        let names = tag.split('"').step_by(2).flat_map(str::split_whitespace).skip(1);
        assert!(names.into_iter().all(|name| !name.starts_with("on")), "{path}: <{tag}>");
        for name in ["href=\"", "src=\"", "action=\""] {
            let Some((_, link)) = tag.split_once(name) else { continue };
            assert!(!link.starts_with('/') && !link.split('"').next().unwrap().contains(':'), "{path}: <{tag}>");
        }
    }
    assert!(page.len() < 110_000, "{path}: {} bytes", page.len());
    for secret in [ADMIN_KEY, KEY, "127.0.0.1", "secret words of a prompt"] {
        assert!(!page.contains(secret), "{path} shows {secret}");
    }
}

#[actix_web::test]
async fn every_page_escapes_names_and_links_relatively_and_shows_no_secret() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let id = chat(&gateway, question("auto")).await;
    chat(&gateway, question(EVIL)).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let escaped = "&lt;img src=x onerror=alert(1)&gt;";
    let key = "keys/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E";
    for path in [
        "",
        "decisions",
        "providers",
        "about",
        &format!("decisions/{id}?raw=true&replay=true&why_not=sim-swift"),
        "keys",
        key,
        &format!("{key}/change"),
        &format!("{key}/disable"),
        "new/key",
        "accounts",
        "audit",
        "ledger",
    ] {
        let page = browser.page(&format!("/console/{path}")).await;
        check_markup(path, &page);
        assert!(page.contains(escaped), "{path} names the key of the session");
    }
    let evil: String = "%3Cscript%3Ealert(1)%3C/script%3E".to_owned();
    for path in [
        format!("decisions?model={evil}&provider=%22%3E{evil}"),
        format!("decisions/{id}?why_not={evil}"),
        format!("decisions/{evil}"),
        format!("decisions?{evil}={evil}"),
        format!("decisions?after={evil}"),
        evil.clone(),
    ] {
        let reply = browser.get(&format!("/console/{path}")).await;
        check_markup(&path, &reply.text());
        assert!([200, 400, 404].contains(&reply.status), "{path}: {}", reply.status);
        assert!(!reply.text().contains("<script>alert"), "{path}");
    }
    let page = browser.get("/console/decisions?no_such=1").await;
    assert_eq!(page.status, 400, "the list refuses what the API refuses");
    assert!(page.text().contains("Unknown parameter"), "{}", page.text());
}

/// Every number of the candidates is an exact value on the page.
#[track_caller]
fn numbers_are_shown(explained: &Value, shown: &BTreeSet<String>) {
    let shown: Vec<f64> = shown.iter().filter_map(|text| text.parse().ok()).collect();
    // Readers of JSON may be off by the last bit.
    let has = |value: &Value| {
        let Some(number) = value.as_f64() else { return assert!(value.is_null(), "{value}") };
        let is_it = |shown: &f64| (shown - number).abs() <= 1e-12 * number.abs();
        assert!(shown.iter().any(is_it), "{number} is not on the page: {shown:?}");
    };
    let candidates = explained["candidates"].as_array().unwrap();
    assert!(!candidates.is_empty());
    for candidate in candidates {
        has(&candidate["score"]);
        candidate["score_terms"].as_array().unwrap().iter().for_each(|term| has(&term["value"]));
        let predicted = &candidate["predicted"];
        for value in [
            &candidate["selection_probability"],
            &predicted["ttft_ms"]["p50"],
            &predicted["ttft_ms"]["p95"],
            &predicted["total_ms"]["p50"],
            &predicted["total_ms"]["p95"],
            &predicted["cost"],
            &predicted["throughput_tps"],
            &predicted["failure_probability"],
        ] {
            has(value);
        }
    }
}

/// The bars of all scores have one scale: within the 0.4 % that are a pixel of a column of 250, unless they are cut off.
#[track_caller]
fn bars_are_proportional(page: &str) -> usize {
    let mut bars = Vec::new();
    for bar in page.split("<svg class=\"score\"").skip(1) {
        let bar = bar.split("</svg>").next().unwrap();
        for part in bar.split("<rect ").skip(1).filter(|_| !bar.contains("class=\"cut\"")) {
            let of = |name: &str| -> f64 {
                let (_, rest) = part.split_once(&format!("{name}=\"")).unwrap();
                rest.split('"').next().unwrap().trim_end_matches('%').parse().unwrap()
            };
            bars.push((of(" width"), of("data-v")));
        }
    }
    let Some((width, value)) = bars.iter().copied().max_by(|one, two| one.1.total_cmp(&two.1)) else { return 0 };
    for (other, shown) in &bars {
        let expected = if value > 0.0 { shown / value * width } else { 0.0 };
        assert!((other - expected).abs() <= 0.4, "{other} % for {shown}, {width} % for {value}");
    }
    bars.len()
}

#[actix_web::test]
async fn for_500_random_generations_the_page_has_the_numbers_of_explain_and_bars_of_one_scale() {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let mut rng = StdRng::seed_from_u64(26);
    let mut bars = 0;
    for _ in 0..500 {
        let model = ["auto", "meadow/small", "meadow/large", "harbor/code"][rng.random_range(0..4)];
        let objective = ["cheapest", "fastest", "reliable", "balanced"][rng.random_range(0..4)];
        let words = "word ".repeat(rng.random_range(1..300));
        let body = json!({
            "model": model, "objective": objective, "max_tokens": rng.random_range(1..40),
            "messages": [{ "role": "user", "content": words }],
        });
        let id = chat(&gateway, body).await;
        let explained = json_of(&gateway, &format!("/api/v1/route/explain?generation_id={id}")).await;
        let page = browser.page(&format!("/console/decisions/{id}")).await;
        numbers_are_shown(&explained, &values(&page));
        bars += bars_are_proportional(&page);
    }
    assert!(bars > 1_000, "{bars}");
}

#[actix_web::test]
async fn the_numbers_of_a_decision_are_those_of_explain() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    for objective in ["cheapest", "fastest", "reliable", "balanced"] {
        let mut body = question("auto");
        body["metadata"] = json!({ "objective": objective });
        let id = chat(&gateway, body).await;
        let explained = json_of(&gateway, &format!("/api/v1/route/explain?generation_id={id}")).await;
        let page = browser.page(&format!("/console/decisions/{id}")).await;
        let (summary, reason) =
            (explained["summary"].as_str().unwrap(), explained["decision_reason"].as_str().unwrap());
        assert!(summary.split_whitespace().count() <= 25 && page.contains(&format!("<strong>{summary}</strong>")));
        for clause in reason.trim_end_matches('.').split("; ").flat_map(|clause| clause.split(". ")) {
            assert!(page.to_lowercase().contains(&clause.to_lowercase()), "{clause}: {reason}");
        }
        // Who asked, and the neighbours.
        assert!(
            page.contains("?key=%3Cimg%20src") && page.contains(explained["request_id"].as_str().unwrap()),
            "{page}"
        );
        let shown = values(&page);
        numbers_are_shown(&explained, &shown);
        // Money is exact to its last digit.
        let text = gateway
            .call(
                Method::GET,
                &format!("/api/v1/route/explain?generation_id={id}"),
                &[("authorization", &format!("Bearer {ADMIN_KEY}"))],
                None,
            )
            .await
            .text();
        let (_, cost) = text.split_once("\"ledger_cost\":").unwrap();
        let cost = cost.split([',', '}']).next().unwrap();
        assert!(shown.contains(cost), "{cost}");
    }
}

#[actix_web::test]
async fn a_rescued_decision_shows_both_attempts_in_their_order_in_the_list_and_in_the_waterfall() {
    let folder = Folder::new();
    let gateway = start_with(&folder, &[("POINTSMAN__SIMULATION__PROVIDERS__SIM_FLAKY__ERROR_RATE", "1")]).await;
    let mut body = question("meadow/small");
    body["provider"] = json!({ "order": ["sim-flaky"] });
    let id = chat(&gateway, body).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let list = browser.page("/console/decisions").await;
    let (_, chain) = list.split_once("class=\"chain\"").unwrap();
    let chain = chain.split_once("</td>").unwrap().0;
    let (failed, served) = (chain.find('✗').unwrap(), chain.find('✓').unwrap());
    assert!(chain.find("sim-flaky").unwrap() < failed && failed < served, "{chain}");
    assert!(list.contains(">rescued<"), "{list}");

    let page = browser.page(&format!("/console/decisions/{id}")).await;
    let explained = json_of(&gateway, &format!("/api/v1/route/explain?generation_id={id}")).await;
    let lanes: Vec<&str> = page.split("class=\"lane\" role=\"img\"").skip(1).collect();
    let attempts = explained["attempts"].as_array().unwrap();
    assert_eq!((lanes.len(), attempts.len()), (2, 2));
    for (lane, attempt) in lanes.iter().zip(attempts) {
        let lane = lane.split_once("</svg>").unwrap().0;
        let model = format!("{} on {}", attempt["model"].as_str().unwrap(), attempt["provider_name"].as_str().unwrap());
        assert!(lane.contains(&model), "{lane}");
        let number = |name: &str| -> Vec<f64> {
            lane.split(name).skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
        };
        let end = number("data-end=\"").into_iter().fold(0.0, f64::max);
        let expected = attempt["started_ms"].as_u64().unwrap() + attempt["duration_ms"].as_u64().unwrap();
        assert!((end - expected as f64).abs() <= 1.0, "{end} {attempt}");
    }
}

#[actix_web::test]
async fn a_decision_leads_to_the_ones_beside_it_and_its_whole_question_into_the_playground() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let asked = json!({ "objective": "cheapest", "max_cost": 0.5, "provider": { "ignore": ["sim-gratis"] } });
        let mut body = question("auto");
        body.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
        ids.push(chat(&gateway, body).await);
    }
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page(&format!("/console/decisions/{}", ids[1])).await;
    for (relation, id) in [("prev", &ids[0]), ("next", &ids[2])] {
        assert!(
            page.contains(&format!("<a rel=\"{relation}\" href=\"../decisions/{id}\">")),
            "{relation} {id}: {page}"
        );
    }
    let first = browser.page(&format!("/console/decisions/{}", ids[0])).await;
    assert!(!first.contains("rel=\"prev\"") && first.contains("rel=\"next\""));
    let last = browser.page(&format!("/console/decisions/{}", ids[2])).await;
    assert!(last.contains("rel=\"prev\"") && !last.contains("rel=\"next\""));

    let (_, link) = page.split_once("href=\"../try?").unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let playground = browser.page(&format!("/console/try?{link}")).await;
    assert!(playground.contains("cheapest: ") && playground.contains("value=\"16\""), "{playground}");
    let further = playground.split_once("name=\"further\"").unwrap().1.split_once("</textarea>").unwrap().0;
    assert!(further.contains("max_cost") && further.contains("sim-gratis"), "{further}");
    assert!(!playground.contains("This request would be refused"), "{playground}");
}

#[actix_web::test]
async fn why_not_and_replay_answer_on_the_page() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let id = chat(&gateway, question("auto")).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let plain = browser.page(&format!("/console/decisions/{id}")).await;
    assert!(!plain.contains("Identical, bit for bit"));
    let asked = browser.page(&format!("/console/decisions/{id}?why_not=sim-thrift&replay=true")).await;
    let path = format!("/api/v1/route/explain?generation_id={id}&why_not=sim-thrift");
    let sentence = json_of(&gateway, &path).await["why_not"]["sentence"].as_str().unwrap().to_owned();
    assert!(asked.contains(&sentence), "{sentence}");
    assert!(asked.contains("Identical, bit for bit"));
    assert_eq!(browser.get("/console/decisions/gen-0-unknown").await.status, 404);
}

#[actix_web::test]
async fn the_list_has_the_rows_of_the_api_in_its_order_and_pages_by_cursor() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let empty = browser.page("/console/decisions").await;
    assert!(empty.contains("No decisions yet"), "{empty}");
    for _ in 0..5 {
        chat(&gateway, question("auto")).await;
    }
    let links = |page: &str| -> Vec<String> {
        page.split("href=\"decisions/").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let listed = json_of(&gateway, "/api/v1/admin/generations").await;
    let ids: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(links(&browser.page("/console/decisions").await), ids);

    let mut seen = Vec::new();
    let mut path = "decisions?limit=2".to_owned();
    for _ in 0..3 {
        let page = browser.page(&format!("/console/{path}")).await;
        seen.extend(links(&page));
        let Some((_, next)) = page.split_once("rel=\"next\" href=\"") else { break };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(seen, ids);
    let filtered = browser.page("/console/decisions?model=no%2Fsuch").await;
    assert!(filtered.contains("No decision passes these filters"), "{filtered}");
    let found = browser.page("/console/decisions?q=sim-").await;
    assert!(links(&found) == ids && found.contains("name=\"q\" value=\"sim-\""), "{found}");
    assert!(links(&browser.page("/console/decisions?q=no-such-name").await).is_empty());
    let found = browser.get(&format!("/console/decisions?id={}", ids[0])).await;
    assert_eq!((found.status, found.header("location")), (303, Some(format!("decisions/{}", ids[0]).as_str())));
}

#[actix_web::test]
async fn without_a_ledger_on_disk_the_pages_say_so_and_a_decision_is_found_by_its_id() {
    let gateway = TestGateway::start_with(
        KEYS,
        &[
            ("BOSS_KEY", ADMIN_KEY),
            ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
            ("POINTSMAN__SIMULATION__MODE", "on"),
            crate::harness::NO_LEDGER,
        ],
    )
    .await;
    let id = chat(&gateway, question("auto")).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    assert!(browser.page("/console/decisions").await.contains("keeps records in memory only"));
    assert!(browser.page("/console/").await.contains("Records are kept in memory only."));
    assert!(browser.page(&format!("/console/decisions/{id}")).await.contains("Candidates"));
}

#[actix_web::test]
async fn the_overview_and_the_board_show_the_measurements_of_the_api() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    for _ in 0..3 {
        chat(&gateway, question("auto")).await;
    }
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let (overview, board) = (browser.page("/console/").await, browser.page("/console/providers").await);
    let verdict = json_of(&gateway, "/api/v1/admin/verdict").await;
    assert!(overview.contains(verdict["data"]["sentence"].as_str().unwrap()), "{verdict}");
    let series = json_of(&gateway, "/api/v1/admin/series").await;
    let sum = |name: &str| {
        series["series"][0][name].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum("ok") + sum("rescued") + sum("failed"), 3, "{series}");
    assert!(overview.contains("Requests a minute <span class=\"muted\">3 in all</span>"), "{overview}");
    assert!(overview.contains("No call is running."), "{overview}");
    let measured = json_of(&gateway, "/api/v1/models/stats").await;
    for endpoint in measured["data"].as_array().unwrap() {
        let model = endpoint["model"].as_str().unwrap();
        assert!(overview.contains(model) && board.contains(model), "{model}");
    }
    let called = measured["data"].as_array().unwrap().iter().find(|endpoint| endpoint["requests"] != 0).unwrap();
    assert!(values(&overview).contains(&called["requests"].to_string()));
    let providers = json_of(&gateway, "/api/v1/health/providers").await;
    for provider in providers["data"].as_array().unwrap() {
        assert!(board.contains(provider["name"].as_str().unwrap()), "{provider}");
    }
    assert!(board.contains("OPENAI_API_KEY is not set") == providers.to_string().contains("OPENAI_API_KEY is not set"));
}

#[actix_web::test]
async fn a_page_that_refreshes_itself_keeps_no_session_alive_and_log_out_ends_it() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let fetched = browser.send(Method::GET, "/console/", &[("sec-fetch-dest", "empty")], "").await;
    assert_eq!(fetched.status, 200);
    let form = format!("token={}", token(&fetched.text()));
    assert_eq!(browser.post("/console/logout", &form).await.status, 303);
    assert_eq!(browser.send(Method::GET, "/console/", &[("sec-fetch-dest", "empty")], "").await.status, 303);
}
