//! What the console promises about files, load, money and foreign records.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use actix_web::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    admin_live::Feed,
    console_login::{Browser, token},
    folder::Folder,
    generation_lists::ADMIN,
    harness::{KEY, Reply, TestGateway, UNOPTIMISED},
    openapi::admin_address,
    patience::{eventually, takes_less_than},
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{Model, World, always, answer, ask, saying, stream_of},
};

/// Keys that are no administrators: name, text, scopes.
const OWNERS: [(&str, &str); 4] = [
    ("ANNE", "sk-anne-0a1b2c3d4e5f6a7b"),
    ("BERT", "sk-bert-0a1b2c3d4e5f6a7b"),
    ("CARL", "sk-carl-0a1b2c3d4e5f6a7b"),
    ("DORA", "sk-dora-0a1b2c3d4e5f6a7b"),
];
/// An administrator who may call as well, once a minute.
const BOSS: &str = "sk-boss-0a1b2c3d4e5f6a7b8c";

/// One model, an administrator, one who may call, and the owners, with a ledger in this folder.
fn world(upstream: &Upstream, folder: &Folder) -> World {
    let mut world = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000002"))
        .model(&Model::new("acme/large").at("acme", "0.00001", "0.00002"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]")
        .with("[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\", \"inference\", \"read\"]\nrequests_per_minute = 1")
        .with(&format!("[ledger]\ndata_dir = {:?}", folder.at("data").to_str().unwrap()))
        .variable("ADMIN", ADMIN)
        .variable("BOSS", BOSS)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    for (name, text) in OWNERS {
        let key = format!("[[keys]]\nname = \"{name}\"\nenv = \"{name}\"\nscopes = [\"inference\", \"read\"]");
        world = world.with(&key).variable(name, text);
    }
    world
}

async fn call(gateway: &TestGateway, key: &str, method: Method, path: &str, body: Option<&Value>) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    gateway.call(method, path, &headers, body.map(|body| body.to_string().into_bytes())).await
}

async fn get(gateway: &TestGateway, key: &str, path: &str) -> Reply {
    call(gateway, key, Method::GET, path, None).await
}

/// The id of a call's generation.
async fn chat(gateway: &TestGateway, key: &str, model: &str) -> String {
    let reply = call(gateway, key, Method::POST, "/api/v1/chat/completions", Some(&ask(model))).await;
    reply.expect(200)["id"].as_str().unwrap().to_owned()
}

#[actix_web::test]
async fn no_console_route_writes_a_configuration_file_and_its_page_shows_file_and_line_of_each_value_that_is_set() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n\n[limits]\nmax_n = 4\n\
                [[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n";
    let file = ConfigFile::new(text);
    let environment =
        [("ADMIN", ADMIN), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"), ("POINTSMAN__LIMITS__CONCURRENCY", "99")];
    let process = Process::start(&["serve", "--config", file.path()], &environment);
    let browser = Browser::logged_in_at(admin_address(&process), ADMIN).await;
    let before = fs::metadata(file.path()).unwrap().modified().unwrap();

    let page = browser.page("/console/config").await;
    let rows: Vec<&str> = page.split("<tr data-row>").skip(1).collect();
    let set_in = |key: &str| {
        let row = rows
            .iter()
            .find(|row| row.contains(&format!("<bdi>{key}</bdi>")))
            .unwrap_or_else(|| panic!("{key}: {page}"));
        (*row).to_owned()
    };
    for (key, line) in
        [("server.bind", 2), ("simulation.mode", 4), ("limits.max_n", 7), ("keys[&quot;admin&quot;].scopes", 11)]
    {
        assert!(set_in(key).contains(&format!(":{line}</bdi>")), "{}", set_in(key));
    }
    assert!(
        set_in("limits.concurrency").contains("POINTSMAN__LIMITS__CONCURRENCY"),
        "{}",
        set_in("limits.concurrency")
    );
    assert!(!page.contains("models[") && !page.contains("timeouts.total"), "what is not set is not listed");
    let status = get(&admin_address(&process), ADMIN, "/api/v1/admin/status").await.expect(200);
    let settings = status["data"]["config"]["settings"].as_array().unwrap();
    assert_eq!((settings[0]["key"].as_str(), settings[0]["line"].as_u64()), (Some("server.bind"), Some(2)));
    assert_eq!(status["data"]["config"]["settings_total"], settings.len());

    let form = format!("token={}&model=meadow/small&prompt=Hi", token(&page));
    for path in [
        "config/reload",
        "keys/admin/disable",
        "keys/admin/enable",
        "keys/nobody/disable",
        "try",
        "try/send",
        "config",
        "login",
        "logout",
    ] {
        browser.post(&format!("/console/{path}"), &form).await;
    }
    assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
    assert_eq!(fs::metadata(file.path()).unwrap().modified().unwrap(), before);
}

#[actix_web::test]
async fn hostile_names_appear_escaped_and_cut_wherever_they_come_from() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let evil = "<script>alert('x')</script>\\\"\u{202e}";
    let gateway = world(&upstream, &folder)
        .with(&format!(
            "[[keys]]\nname = \"{}\"\nenv = \"EVIL\"",
            evil.replace('\\', "\\\\").replace('"', "\\\"").replace("\\\\\\\"", "'")
        ))
        .variable("EVIL", "sk-evil-0a1b2c3d4e5f6a7b")
        .start()
        .await;
    let mut ids = Vec::new();
    let headers: [Vec<u8>; 4] = [
        format!("user-agent: {evil}\r\nx-request-id: {evil}\r\nx-title: {evil}\r\n").into_bytes(),
        format!("referer: {}\r\nx-title: {}\r\n", "r".repeat(10_000), "\"><img src=x onerror=alert(1)>".repeat(300))
            .into_bytes(),
        [b"user-agent: ".as_slice(), b"\xff\xfe<script>alert(2)</script>\x80", b"\r\n"].concat(),
        b"x-session-id: <script>alert(3)</script>\r\n".to_vec(),
    ];
    for lines in headers {
        let mut body = ask("acme/small");
        body["user"] = json!("<script>alert(4)</script>");
        body["metadata"] = json!({"<script>alert(5)</script>": "\"><script>alert(6)</script>"});
        let body = body.to_string();
        let head = format!(
            "POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sk-evil-0a1b2c3d4e5f6a7b\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        let mut client = RawClient::connect(gateway.address).await;
        assert!(client.say([head.as_bytes(), &lines, b"\r\n", body.as_bytes()].concat()).await);
        let answer = client.until("HTTP/1.1 ").await + &client.exactly(3).await;
        if answer.ends_with("200") {
            client.until("Hello").await;
            ids.push(client.generation());
        }
    }
    assert!(ids.len() >= 2, "{ids:?}");
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let mut paths = vec![
        "/console/".to_owned(),
        "/console/decisions".to_owned(),
        "/console/keys".to_owned(),
        "/console/providers".to_owned(),
    ];
    paths.extend(ids.iter().map(|id| format!("/console/decisions/{id}?raw=true")));
    for path in paths {
        let page = browser.page(&path).await;
        for hostile in ["<script>alert", "<img src=x"] {
            assert!(!page.contains(hostile), "{path} holds {hostile}");
        }
        // The values of fields are exact; what is read shows no mark that turns the writing round.
        let text: String = page.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text).collect();
        assert!(!text.contains('\u{202e}'), "{path}: {text}");
        assert!(page.len() < 110_000, "{path}: {} bytes", page.len());
    }
    let keys = browser.page("/console/keys").await;
    assert!(keys.contains("&lt;script&gt;alert"), "{keys}");
}

#[actix_web::test]
async fn sigterm_ends_live_streams_at_once_and_32_of_them_do_not_prolong_the_drain() {
    let drained = async |streams: usize| {
        let folder = Folder::new();
        let data = folder.at("data").display().to_string();
        let file = ConfigFile::new(
            "[server]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n[timeouts]\ndrain_grace = \"60s\"\n\
             [[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n",
        );
        let environment = [
            ("ADMIN", ADMIN),
            ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
            ("POINTSMAN__LEDGER__DATA_DIR", data.as_str()),
        ];
        let mut process = Process::start(&["serve", "--config", file.path()], &environment);
        let admin = admin_address(&process);
        let mut feeds = Vec::new();
        for _ in 0..streams {
            feeds.push(Feed::open_at(&admin, &[]).await);
        }
        join_all(feeds.iter_mut().map(|feed| feed.next("tick"))).await;
        let told = Instant::now();
        process.signal("TERM");
        join_all(feeds.iter_mut().map(async |feed| while feed.next("tick").await.is_some() {})).await;
        let ended = told.elapsed();
        assert!(process.end().await.success());
        (ended, told.elapsed())
    };
    let (_, without) = drained(0).await;
    let (ended, with) = drained(32).await;
    assert!(ended < Duration::from_secs(20), "the streams end after {ended:?}");
    assert!(with < without + Duration::from_secs(20), "{with:?}, without streams {without:?}");
}

/// What a page costs is bounded by its size: 50 records unless asked for more, and never more than 200.
#[actix_web::test]
async fn pages_of_decisions_neither_repeat_nor_skip_while_records_arrive_and_have_200_records_at_most() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let mut before = Vec::new();
    for _ in 0..25 {
        before.push(chat(&gateway, OWNERS[0].1, "acme/small").await);
    }
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let (mut seen, mut path) = (Vec::new(), "decisions?limit=7".to_owned());
    loop {
        let page = browser.page(&format!("/console/{path}")).await;
        let ids = page.split("href=\"decisions/").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        seen.extend(ids.collect::<Vec<String>>());
        chat(&gateway, OWNERS[1].1, "acme/small").await;
        let Some((before, _)) = page.split_once("\">Older</a>") else { break };
        path = before.rsplit("href=\"").next().unwrap().replace("&amp;", "&");
    }
    let mut unique = seen.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), seen.len(), "no row twice");
    // Those of one millisecond have no order among them, so only the set is compared.
    before.sort_unstable();
    assert_eq!(unique, before, "none left out");
    assert_eq!(browser.get("/console/decisions?limit=201").await.status, 400);
}

/// What the machine itself adds, busy as it is, shows in a page that asks nobody.
#[actix_web::test]
async fn under_load_with_20_tabs_open_pages_answer_within_half_a_second_or_say_that_they_are_busy() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let mut tabs = Vec::new();
    for _ in 0..20 {
        tabs.push(Feed::open(&gateway, &[]).await);
    }
    let (address, is_over) = (gateway.address, Arc::new(AtomicBool::new(false)));
    let callers = {
        let is_over = Arc::clone(&is_over);
        let load = async move || {
            let gateway = TestGateway::at(address);
            while !is_over.load(Ordering::Relaxed) {
                join_all((0..16).map(|_| chat(&gateway, OWNERS[0].1, "acme/small"))).await;
            }
        };
        thread::spawn(move || actix_web::rt::System::new().block_on(load()))
    };
    let admin = gateway.admin();
    for path in ["", "decisions", "spend", "providers", "models", "keys"] {
        let read = async || {
            let started = Instant::now();
            admin.get("/health/live").await;
            let alone = started.elapsed();
            let reply = browser.get(&format!("/console/{path}")).await;
            let is_busy = reply.status == 503 && reply.header("retry-after").is_some();
            assert!(reply.status == 200 || is_busy, "{path}: {} {}", reply.status, reply.text());
            started.elapsed().saturating_sub(2 * alone)
        };
        takes_less_than(Duration::from_millis(500) * UNOPTIMISED, path, read).await;
    }
    is_over.store(true, Ordering::Relaxed);
    callers.join().unwrap();
}

#[actix_web::test]
async fn without_subscribers_nothing_is_rendered_and_with_32_once_a_second() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let renderings = async || {
        let text = gateway.get("/metrics").await.text();
        let line = text.lines().find_map(|line| line.strip_prefix("pointsman_live_renderings_total "));
        line.unwrap_or_else(|| panic!("{text}")).parse::<u64>().unwrap()
    };
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    browser.page("/console/").await;
    chat(&gateway, OWNERS[0].1, "acme/small").await;
    assert_eq!(renderings().await, 0, "pages and calls render no feed");

    let mut feeds = Vec::new();
    for _ in 0..32 {
        feeds.push(Feed::open(&gateway, &[]).await);
    }
    let (started, before) = (Instant::now(), renderings().await);
    for _ in 0..3 {
        let ticks = join_all(feeds.iter_mut().map(|feed| feed.next("tick"))).await;
        assert!(ticks.iter().all(Option::is_some));
    }
    let (seconds, rendered) = (started.elapsed().as_secs(), renderings().await - before);
    assert!(rendered >= 2 && rendered <= seconds + 2, "{rendered} renderings in {seconds} s for 32 subscribers");
    feeds.clear();
    let twice = async || {
        let first = renderings().await;
        actix_web::rt::time::sleep(Duration::from_millis(1_300)).await;
        (first, renderings().await)
    };
    eventually("the rendering ends with the last subscriber", twice, |(first, second)| first == second).await;
}

/// A browser sorts them (`tests/console`). A cost of which nothing is known, none, an estimate, an exact one, and a failure
/// without cost.
#[actix_web::test]
async fn costs_that_are_unknown_zero_estimated_exact_and_not_applicable_look_different_in_the_list() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 500});
    let message = json!({"role": "assistant", "content": "Over the hills"});
    let (exact, silent) = (always(200, &answer(message.clone(), usage)), always(200, &answer(message, Value::Null)));
    let (folder, broken) = (Folder::new(), always(500, &json!({})));
    let gateway = world(&exact, &folder)
        .provider("silent", silent.address())
        .provider("broken", broken.address())
        .model(&Model::new("acme/broken").at("broken", "0.000001", "0.000002"))
        .model(&Model::new("acme/free").at("acme", "0", "0"))
        .model(&Model::new("acme/guess").at("silent", "0.000001", "0.000002"))
        .with(
            "[[models]]\nid = \"acme/dark\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\"]\n\
             endpoints = [{ provider = \"acme\", upstream_model = \"dark\", pricing = \"unknown\" }]",
        )
        .start()
        .await;
    for model in ["acme/small", "acme/free", "acme/guess", "acme/dark"] {
        chat(&gateway, OWNERS[0].1, model).await;
    }
    let failed = call(&gateway, OWNERS[0].1, Method::POST, "/api/v1/chat/completions", Some(&ask("acme/broken"))).await;
    assert!(failed.status >= 500);
    let page = Browser::logged_in(&gateway, ADMIN).await.page("/console/decisions").await;
    let cost = |model: &str| {
        let row = page.split("<tr data-row").find(|row| row.contains(&format!("<bdi>{model}</bdi>"))).unwrap();
        row.rsplit("<td").nth(1).unwrap().to_owned()
    };
    let (exact, free, guess, dark) = (cost("acme/small"), cost("acme/free"), cost("acme/guess"), cost("acme/dark"));
    assert!(exact.contains(">$0.00200<") && !exact.contains("est."), "{exact}");
    assert!(free.contains(">$0<") && !free.contains("unknown"), "{free}");
    assert!(guess.contains(">$0.0000") && guess.contains(">est.<"), "{guess}");
    assert!(dark.contains("class=\"unknown\"") && !dark.contains('$'), "{dark}");
    let failed = cost("acme/broken");
    assert!(failed.contains("cost nothing\">–<") && !failed.contains('$'), "{failed}");
}

#[actix_web::test]
async fn the_page_of_models_shows_the_prices_of_longer_prompts_and_the_price_of_a_sample_of_that_length() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let tiers = "prompt = \"0.000001\", completion = \"0.000002\", \
                 tiers = [{ above_prompt_tokens = 200000, prompt = \"0.000003\", completion = \"0.000007\" }]";
    let gateway = world(&upstream, &folder).model(&Model::new("acme/tiered").priced("acme", tiers)).start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    for (prompt, sample) in [(200_000, "0.200002"), (200_001, "0.60001")] {
        let page = browser.page(&format!("/console/models?q=tiered&prompt={prompt}&completion=1")).await;
        let row = page.split("<tr data-row").nth(1).unwrap();
        let (first, longer) = row.split_once("<tr>").unwrap_or_else(|| panic!("{row}"));
        let has = |row: &str, amount: &str| row.contains(&format!("data-v=\"{amount}\""));
        assert!(has(first, "1") && has(first, "2") && !has(first, "7"), "{first}");
        assert!(longer.contains("prompts above") && has(longer, "200000"), "{longer}");
        assert!(has(longer, "3") && has(longer, "7"), "{longer}");
        assert!(has(first, sample), "{prompt}: {first}");
    }
}

/// Its numbers are those of the interface, and its sum is that of its rows.
#[actix_web::test]
async fn the_page_of_spending_shows_the_rows_of_the_api_and_their_sum() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    assert!(browser.page("/console/spend").await.contains("No generation ended in this time."));
    for (owner, model) in [(0, "acme/small"), (0, "acme/small"), (1, "acme/large"), (2, "acme/small")] {
        chat(&gateway, OWNERS[owner].1, model).await;
    }
    for (query, asked) in [
        ("", "group_by=key"),
        ("?by=model&tz_offset_minutes=330", "group_by=model&tz_offset_minutes=330"),
        ("?by=key&key=ANNE", "group_by=key&key=ANNE"),
    ] {
        let listed = get(&gateway.admin(), ADMIN, &format!("/api/v1/admin/activity?{asked}")).await.expect(200);
        let page = browser.page(&format!("/console/spend{query}")).await;
        let rows = listed["data"].as_array().unwrap();
        assert_eq!(page.matches("<tr data-row").count(), rows.len(), "{query}: {page}");
        let requests: u64 = rows.iter().map(|row| row["requests"].as_u64().unwrap()).sum();
        assert_eq!(requests, if query.contains("ANNE") { 2 } else { 4 }, "{query}");
        let (_, sum) = page.split_once("All together").unwrap();
        assert!(sum.contains(&format!("data-v=\"{requests}\"")), "{query}: {sum}");
    }
    let refused = browser.get("/console/spend?by=week").await;
    assert!(refused.status == 400 && refused.text().contains("Allowed: "), "{}", refused.text());
}

#[actix_web::test]
async fn a_key_with_the_scope_read_sees_its_own_generations_spend_and_limits_and_nothing_of_another_key() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let [anne, bert, ..] = OWNERS.map(|(_, key)| key);
    let (own, foreign) = (chat(&gateway, anne, "acme/small").await, chat(&gateway, bert, "acme/large").await);
    let listed = get(&gateway, anne, "/api/v1/generations").await.expect(200);
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["data"][0]["id"]), (1, &json!(own)), "{listed}");
    let key = get(&gateway, anne, "/api/v1/key").await.expect(200);
    let spent = get(&gateway, anne, &format!("/api/v1/generation?id={own}")).await.expect(200);
    assert_eq!(key["data"]["usage"], spent["data"]["total_cost"], "{key}");
    for path in ["generation?id", "route/explain?generation_id", "route/replay?generation_id"] {
        assert_eq!(get(&gateway, anne, &format!("/api/v1/{path}={foreign}")).await.status, 404, "{path}");
    }
    for page in ["generations", "activity", "key", "credits"] {
        let text = get(&gateway, anne, &format!("/api/v1/{page}")).await.text();
        assert!(!text.contains(&foreign) && !text.contains("acme/large") && !text.contains("BERT"), "{page}: {text}");
    }
}

/// Only administrators have a session.
#[actix_web::test]
async fn for_random_keys_and_generations_nothing_shows_a_foreign_record_to_who_is_no_administrator() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let mut draws = 35_u64;
    let mut draw = |most: u64| {
        draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draws >> 33) % most
    };
    let mut made: Vec<(usize, String)> = Vec::new();
    for _ in 0..40 {
        let (owner, model) = (draw(4) as usize, if draw(2) == 0 { "acme/small" } else { "acme/large" });
        made.push((owner, chat(&gateway, OWNERS[owner].1, model).await));
    }
    for (owner, (_, key)) in OWNERS.iter().enumerate() {
        let mut texts = Vec::new();
        for path in ["generations?limit=200", "generations?model=acme/large", "activity?group=hour", "key", "credits"] {
            texts.push(get(&gateway, key, &format!("/api/v1/{path}")).await.text());
        }
        for page in
            ["generations", "generations.csv", "running", "live", "series", "activity", "keys", "audit", "status"]
        {
            let refused = get(&gateway.admin(), key, &format!("/api/v1/admin/{page}")).await;
            assert_eq!(refused.status, 403, "{page}");
            texts.push(refused.text());
        }
        let door = Browser::new(&gateway).log_in(key).await;
        assert_ne!(door.status, 303, "no session for a key without the scope admin");
        texts.push(door.text());
        for (other, id) in &made {
            let shown = texts.iter().any(|text| text.contains(id.as_str()));
            assert_eq!(shown, *other == owner, "{id} of {other}, asked by {owner}");
            let status = get(&gateway, key, &format!("/api/v1/generation?id={id}")).await.status;
            assert_eq!(status, if *other == owner { 200 } else { 404 });
        }
    }
    let all = get(&gateway.admin(), ADMIN, "/api/v1/admin/generations?limit=200").await.expect(200);
    assert_eq!(all["data"].as_array().unwrap().len(), made.len());
}

/// That the intervals are right is tested where they are made.
#[actix_web::test]
async fn below_30_attempts_a_prediction_is_grey_without_an_interval_and_from_30_on_it_has_one() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = world(&upstream, &folder).start().await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    // The first calls of an endpoint predict nothing that could be compared.
    let look = async || {
        chat(&gateway, OWNERS[0].1, "acme/small").await;
        browser.page("/console/calibration").await
    };
    let page = eventually("a point", look, |page| page.contains("&quot;ranges&quot;:[null]")).await;
    assert!(page.contains("<tr class=\"none\" data-row>"), "{page}");
    eventually("an interval", look, |page| page.contains("&quot;ranges&quot;:[[0.0,")).await;
}

#[actix_web::test]
async fn sending_from_the_playground_needs_the_scope_is_charged_to_the_key_and_obeys_its_limits_and_a_preview_calls_nobody()
 {
    let (folder, upstream) = (Folder::new(), Upstream::start([Script::answering(stream_of(&["Hello"]))]));
    let gateway = world(&upstream, &folder).start().await;
    let spent =
        async |key: &str| get(&gateway, key, "/api/v1/key").await.expect(200)["data"]["usage"].as_f64().unwrap();
    let boss = Browser::logged_in(&gateway, BOSS).await;
    let form = |page: &str| format!("token={}&model=acme/small&prompt=Hello&max_tokens=16", token(page));
    let page = boss.page("/console/try").await;
    for _ in 0..5 {
        assert_eq!(boss.post("/console/try", &form(&page)).await.status, 200);
    }
    assert_eq!((upstream.requests().len(), spent(BOSS).await), (0, 0.0), "previews call nobody and cost nothing");

    let admin = Browser::logged_in(&gateway, ADMIN).await;
    let denied = admin.post("/console/try/send", &form(&admin.page("/console/try").await)).await;
    assert_eq!((denied.status, upstream.requests().len()), (403, 0), "no scope inference");

    let sent = boss.post("/console/try/send", &form(&page)).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert!(spent(BOSS).await > 0.0 && spent(KEY).await == 0.0, "charged to the key of the session");
    let id = sent.header("x-generation-id").unwrap();
    let record = get(&gateway, BOSS, &format!("/api/v1/generation?id={id}")).await.expect(200);
    assert!(record.to_string().contains("\"source\":\"console\""), "{record}");
    let limited = boss.post("/console/try/send", &form(&page)).await;
    assert_eq!((limited.status, upstream.requests().len()), (429, 1), "once a minute: {}", limited.text());
}
