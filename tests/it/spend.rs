//! What was spent, by whom, on what and why more than before: from the API, the console and the command line.

use actix_web::http::Method;
use pointsman::access::holders::{account_number, key_number};
use pointsman_domain::{CostBreakdown, Generation, GenerationId, Usage, Usd};
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    harness::{Reply, TestGateway},
    issued_keys::{ADMIN, call, generation_of, world, write},
    process::run,
    scripted::Upstream,
    world::{World, error_of, saying},
};

const DAY_MS: i64 = 86_400_000;
const WEBSHOP: &str = "sk-webshop-0a1b2c3d4e5f";

/// Two teams with an account and a key each.
fn teams(upstream: &Upstream, folder: &Folder) -> World {
    world(upstream, folder)
        .with(
            "[[keys]]\nname = \"webshop-prod\"\nenv = \"WEBSHOP\"\naccount = \"webshop\"\n\
             [[accounts]]\nname = \"webshop\"\nteam = \"product\"\n\
             [[accounts]]\nname = \"nightly\"\nteam = \"science\"\n\
             [[teams]]\nname = \"product\"\n[[teams]]\nname = \"science\"",
        )
        .variable("WEBSHOP", WEBSHOP)
}

/// A call of a key, so many days ago, with answers of this length.
fn call_of(
    template: &Generation,
    days_ago: i64,
    n: u64,
    (team, account, key): (&str, &str, &str),
    output: u64,
) -> Generation {
    let midnight = template.created_ms - template.created_ms.rem_euclid(DAY_MS);
    let price = |nanos: u64, tokens: u64| Usd::from_femto(i128::from(nanos) * 1_000_000).times(tokens);
    let created_ms = midnight - days_ago * DAY_MS + n as i64 * 1_000;
    Generation {
        id: GenerationId::new(created_ms as u64 / 1_000, [n, days_ago as u64, key_number(key)]),
        created_ms,
        owner: account_number(account),
        key: key_number(key),
        team: Some(team.into()),
        usage: Usage { prompt_tokens: 1_000, completion_tokens: output, ..Usage::default() },
        cost: Some(CostBreakdown {
            prompt: price(1_000, 1_000),
            completion: price(2_000, output),
            ..CostBreakdown::default()
        }),
        ..template.clone()
    }
}

/// A gateway whose ledger has two weeks of calls: of the team `product` ten a day with short answers, then twenty with longer
/// ones; of the team `science` one a day.
async fn two_weeks(upstream: &Upstream, folder: &Folder) -> TestGateway {
    let template = generation_of(&world(upstream, &Folder::new()).start().await).await;
    let webshop = ("product", "webshop", "webshop-prod");
    let nightly = ("science", "nightly", "nightly-batch");
    let mut calls = Vec::new();
    for day in 1..13 {
        let (count, output) = if day < 7 { (20, 150) } else { (10, 100) };
        calls.extend((0..count).map(|n| call_of(&template, day, n, webshop, output)));
        calls.push(call_of(&template, day, 99, nightly, 100));
    }
    write(folder, &calls);
    teams(upstream, folder).start().await
}

async fn admin(gateway: &TestGateway, path: &str) -> Reply {
    call(&gateway.admin(), Method::GET, &format!("/api/v1/admin/{path}"), ADMIN, None).await
}

/// Beginning of the day so many days ago.
fn midnight(days: i64) -> i64 {
    let now = pointsman_base::clock::unix_millis();
    now - now.rem_euclid(DAY_MS) - days * DAY_MS
}

/// The same as a parameter.
fn since(days: i64) -> String {
    format!("since={}", midnight(days))
}

#[actix_web::test]
async fn one_command_says_what_a_team_spent_each_day_on_what_and_why_more_than_last_week() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = two_weeks(&upstream, &folder).await;
    let url = gateway.admin().url("");
    let spend = async |arguments: &str| {
        let arguments: Vec<String> = format!("spend {arguments} --url {url}").split(' ').map(str::to_owned).collect();
        // On a thread of its own: the gateway lives on this one.
        actix_web::rt::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = run(&arguments, &[("POINTSMAN_ADMIN_KEY", ADMIN), ("TZ", "UTC")]);
            (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        })
        .await
        .unwrap()
    };
    let (code, said) = spend("--by day,model --team product --since 7d --explain").await;
    assert_eq!(code, Some(0), "{said}");
    let row = said.lines().find(|line| line.starts_with("acme/small")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(row.matches("0.0260").count(), 6, "each day: {said}");
    assert!(row.ends_with("0.156"), "{said}");
    let why = "Spend rose by $0.0840 (+117 %): $0.0720 from more requests, $0.0120 from longer answers.";
    assert!(said.contains(why), "{said}");
    assert!(said.contains("more requests   +0.0720\n") && said.contains("Together        +0.0840\n"), "{said}");

    let (_, by_team) = spend("--by team").await;
    let lines: Vec<Vec<&str>> = by_team.lines().map(|line| line.split_whitespace().collect()).collect();
    let of = |name: &str| lines.iter().find(|line| line.first() == Some(&name)).unwrap_or_else(|| panic!("{by_team}"));
    assert_eq!(of("product")[5..], ["0.156", "95.6%", "0.0720", "+117%"], "{by_team}");
    assert_eq!(of("science")[1..], ["6", "0", "6000", "600", "0.00720", "4.4%", "0.00720", "+0%"], "{by_team}");
    let (_, csv) = spend("--by account,key --csv").await;
    assert!(csv.starts_with("team,account,owner,key,key_id,requests,"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().starts_with("product,webshop,"), "{csv}");
    let (_, page) = spend("--by team --json").await;
    assert_eq!(serde_json::from_str::<Value>(&page).unwrap()["data"][0]["team"], "product");
    for (arguments, what) in [
        ("--by colour", "Unknown value 'colour' in 'group_by'"),
        ("--team prodct", "Did you mean 'product'?"),
        ("--since tomorrow", "'since' must be a time"),
        ("--csv --json", "cannot be used with"),
        ("--by team --key-env NOWHERE", "the variable NOWHERE is not set"),
    ] {
        let (code, said) = spend(arguments).await;
        assert!(code == Some(2) && said.contains(what), "{arguments}: {said}");
    }
    let url = gateway.url("");
    let other = actix_web::rt::task::spawn_blocking(move || {
        let output = run(&["spend", "--url", &url], &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
        let own = run(&["spend", "--own", "--url", &url], &[("POINTSMAN_API_KEY", WEBSHOP), ("TZ", "UTC")]);
        [output, own].map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    });
    let [wrong, own] = other.await.unwrap();
    assert!(wrong.contains("--url must be the admin address (admin.bind)"), "{wrong}");
    assert!(own.contains("acme/small") && own.contains("0.156"), "{own}");
}

#[actix_web::test]
async fn rows_are_told_apart_by_any_names_and_totals_say_what_changed() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = two_weeks(&upstream, &folder).await;
    let page = admin(&gateway, &format!("activity?group_by=team&{}", since(6))).await.expect(200);
    let rows = page["data"].as_array().unwrap();
    assert_eq!((&rows[0]["team"], &rows[1]["team"], rows.len()), (&json!("product"), &json!("science"), 2), "{page}");
    assert_eq!((&rows[0]["cost"], &rows[0]["cost_before"]), (&json!(0.156), &json!(0.072)));
    assert_eq!(page["totals"]["requests"], json!({"value": 126, "before": 66, "change": 60}));
    assert_eq!(page["totals"]["cost"], json!({"value": 0.1632, "before": 0.0792, "change": 0.084}));
    assert!(rows[0].get("model").is_none() && page.get("group").is_none(), "{page}");

    let by_key = admin(&gateway, &format!("activity?group_by=key&{}", since(6))).await.expect(200);
    let row = &by_key["data"][0];
    assert_eq!(
        (&row["key"], &row["account"], &row["team"]),
        (&json!("webshop-prod"), &json!("webshop"), &json!("product"))
    );
    let gone = &by_key["data"][1];
    assert_eq!((&gone["key"], &gone["account"]), (&Value::Null, &json!("nightly")), "its key is not configured");
    assert_eq!(gone["key_id"], format!("{:016x}", key_number("nightly-batch")));

    let path = format!("activity?group_by=day,objective,task,alias,provider&team=product&{}", since(12));
    let daily = admin(&gateway, &path).await.expect(200);
    assert_eq!(daily["data"].as_array().unwrap().len(), 12, "{daily}");
    assert!(daily["data"][0]["objective"].is_string() && daily["data"][0]["alias"].is_null(), "{daily}");
    for (filters, requests) in [
        ("key=webshop-prod", 120),
        ("key=nightly-batch", 6),
        ("account=nightly,webshop", 126),
        ("team=product&model=acme/small", 120),
        ("team=science&account=webshop", 0),
        ("objective=fastest", 0),
    ] {
        let page = admin(&gateway, &format!("activity?group_by=day&{filters}&{}", since(6))).await.expect(200);
        assert_eq!(page["totals"]["requests"]["value"], requests, "{filters}");
    }
    for (filters, param, message) in [
        (
            "team=prodct",
            "team",
            "Neither the configuration nor the ledger knows the team 'prodct'. Did you mean 'product'?",
        ),
        ("key=webshop", "key", "Neither the configuration nor the ledger knows the key 'webshop'."),
        ("model=acme/smal", "model", "Did you mean 'acme/small'?"),
        ("owner=webshop", "owner", "'owner' must be the 16 hexadecimal digits"),
        ("tema=product", "tema", "Unknown parameter 'tema'. Did you mean 'team'?"),
    ] {
        let error = error_of(&admin(&gateway, &format!("activity?group_by=day&{filters}")).await, 400);
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    }
    let csv = admin(&gateway, &format!("activity.csv?group_by=team,day&{}", since(6))).await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    assert!(csv.text().starts_with("date,start,team,requests,") && csv.text().lines().count() == 13, "{}", csv.text());

    let own = async |path: &str| call(&gateway, Method::GET, &format!("/api/v1/{path}"), WEBSHOP, None).await;
    let page = own(&format!("activity?group_by=account&{}", since(6))).await.expect(200);
    assert_eq!((page["data"].as_array().unwrap().len(), &page["data"][0]["account"]), (1, &json!("webshop")));
    let error = error_of(&own("activity?group_by=day&team=science").await, 400);
    assert!(!error["message"].as_str().unwrap().contains("science'?"), "other teams are not told: {error}");
    let change = own(&format!("activity/explain?{}", since(6))).await.expect(200);
    assert_eq!(change["parts"][0], json!({"cause": "requests", "text": "more requests", "change": 0.072}));
    let path = format!("activity/explain?{}&until={}&compare_to={}", since(3), midnight(0), midnight(12));
    let earlier = admin(&gateway, &path).await.expect(200);
    assert_eq!(earlier["requests_before"], 33);
}

#[actix_web::test]
async fn the_page_shows_who_spent_what_and_leads_to_the_decisions_behind_each_number() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = two_weeks(&upstream, &folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/spend").await;
    assert!(page.contains("Spend rose by $0.0840 (+106 %)"), "{page}");
    for part in
        ["id=\"plot-spend\"", "Explain this bill", "Download as CSV", ">product<", "95.6 %", "+117 %", "data-days"]
    {
        assert!(page.contains(part), "no {part}: {page}");
    }
    let row = page.split("<tr data-row").nth(1).unwrap();
    let address = row.split("href=\"").nth(2).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert!(address.starts_with("decisions?team=product&since="), "{address}");
    let decisions = browser.page(&format!("/console/{address}")).await;
    assert!(!decisions.contains("role=\"alert\"") && decisions.contains("value=\"product\""), "{decisions}");
    assert!(browser.page("/console/spend?by=model&team=product&range=30d").await.contains(">acme/small<"));
    let csv = browser.get("/console/spend.csv?by=team").await.text();
    assert!(csv.starts_with("team,requests,"), "{csv}");
    let refused = browser.get("/console/spend?team=prodct").await;
    assert!(refused.status == 400 && refused.text().contains("Did you mean"), "{}", refused.text());
    let moved = browser.get("/console/activity?group=hour&key=webshop-prod").await;
    assert_eq!((moved.status, moved.header("location")), (303, Some("spend?key=webshop-prod")));
}

/// With the last day in it, in the zone of the address, and as CSV.
#[actix_web::test]
async fn days_of_ones_own_choosing_are_summed_and_downloaded() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = two_weeks(&upstream, &folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let day = |days: i64| chrono::DateTime::from_timestamp_millis(midnight(days)).unwrap().format("%F").to_string();
    let query = format!("by=team&from={}&to={}", day(8), day(7));
    let page = browser.page(&format!("/console/spend?{query}")).await;
    let (_, sum) = page.split_once("All together").unwrap();
    assert!(sum.contains("data-v=\"22\"") && page.contains(&format!("value=\"{}\"", day(8))), "{page}");
    assert!(!page.contains("aria-current=\"true\""), "no preset is chosen: {page}");
    let csv = browser.get(&format!("/console/spend.csv?{query}")).await.text();
    assert!(csv.contains("product,20,") && csv.contains("science,2,"), "{csv}");
    // All calls are in the first minutes of a day in UTC: an hour to the west they are of the day before.
    let west = browser.page(&format!("/console/spend?{query}&tz_offset_minutes=-60")).await;
    let (_, sum) = west.split_once("All together").unwrap();
    assert!(sum.contains("data-v=\"32\""), "of the days 7 and 6: {west}");
    let odd = browser.get("/console/spend?from=yesterday&to=today").await;
    assert!(odd.status == 400 && odd.text().contains("'since'"), "{}", odd.text());
}

#[actix_web::test]
async fn lists_take_the_names_that_sums_are_told_apart_by() {
    let (folder, upstream) = (Folder::new(), saying("Hello"));
    let gateway = teams(&upstream, &folder).start().await;
    let body = crate::world::ask("acme/small");
    call(&gateway, Method::POST, "/api/v1/chat/completions", WEBSHOP, Some(body)).await.expect(200);
    for (filter, count) in [
        ("team=product", 1),
        ("team=science", 0),
        ("account=webshop", 1),
        ("key=webshop-prod", 1),
        ("objective=balanced", 1),
        ("task=code", 0),
        ("alias=none/such", 0),
    ] {
        let page = admin(&gateway, &format!("generations?{filter}")).await.expect(200);
        assert_eq!(page["data"].as_array().unwrap().len(), count, "{filter}");
    }
    let error = error_of(&admin(&gateway, "generations?account=webshp").await, 400);
    assert!(error["message"].as_str().unwrap().contains("Did you mean 'webshop'?"), "{error}");
}
