//! Forms of the console that issue and change keys, accounts and teams: what they change, and who cannot.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::{ADMIN_KEY, Browser, token},
    folder::Folder,
    harness::{Reply, TestGateway},
};

const USER_KEY: &str = "sk-user-0123456789abcdef-0123";
const CONFIG: &str = "[[keys]]\nname = \"boss\"\nenv = \"BOSS_KEY\"\nscopes = [\"admin\", \"inference\", \"read\"]\n\
                      [[keys]]\nname = \"web/shop\"\nenv = \"USER_KEY\"\naccount = \"shop\"\nspend_limit = \"5\"\nrequests_per_minute = 90\n\
                      [[teams]]\nname = \"sales\"\nspend_limit = \"50\"\n\
                      [[accounts]]\nname = \"shop\"\nteam = \"sales\"\nspend_limit = \"20\"\nspend_reset = \"daily\"\n";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

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

async fn api(gateway: &TestGateway, path: &str) -> Value {
    let authorization = format!("Bearer {ADMIN_KEY}");
    gateway.admin().call(Method::GET, path, &[("authorization", &authorization)], None).await.expect(200)
}

async fn patch(gateway: &TestGateway, path: &str, members: Value) -> Reply {
    let authorization = format!("Bearer {ADMIN_KEY}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    gateway.admin().call(Method::PATCH, path, &headers, Some(members.to_string().into_bytes())).await
}

/// The status of `GET /key` with this key.
async fn status_of(gateway: &TestGateway, key: &str) -> u16 {
    let authorization = format!("Bearer {key}");
    gateway.call(Method::GET, "/api/v1/key", &[("authorization", &authorization)], None).await.status
}

/// The token of a session's forms, as the beginning of one.
async fn form(browser: &Browser) -> String {
    format!("token={}", token(&browser.page("/console/keys").await))
}

/// Issues a key on its page. Returns its text.
async fn issue(browser: &Browser, fields: &str) -> String {
    let reply = browser.post("/console/new/key", &format!("{}&{fields}", form(browser).await)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    text_on(&reply.text())
}

/// The text of a key that a page shows.
#[track_caller]
fn text_on(page: &str) -> String {
    let (_, rest) = page.split_once("sk-pointsman-v1-").unwrap_or_else(|| panic!("no key: {page}"));
    format!("sk-pointsman-v1-{}", rest.split(['<', '"']).next().unwrap())
}

/// The value of a hidden field.
#[track_caller]
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) =
        page.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split('"').next().unwrap().replace(' ', "+")
}

#[actix_web::test]
async fn a_key_is_issued_with_its_limits_and_shown_once_and_the_audit_log_says_by_whom() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let fields = "name=ci+bot&account=blue&team=sales&scopes=inference&scopes=read&limit=2.50&limit_reset=daily\
                  &requests_per_minute=60&expires_at=2099-01-01T08:30&allowed_models=meadow/*,+lantern/free&objective=cheapest";
    let text = issue(&browser, fields).await;
    assert_eq!(status_of(&gateway, &text).await, 200);

    let issued = &api(&gateway, "/api/v1/keys").await["data"][0];
    let expected = json!({
        "name": "ci bot", "account": "blue", "scopes": ["inference", "read"], "limit": 2.5, "limit_reset": "daily",
        "requests_per_minute": 60, "tokens_per_minute": null, "expires_at": "2099-01-01T08:30:00.000Z",
        "allowed_models": ["meadow/*", "lantern/free"], "objective": "cheapest", "created_by": "boss",
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&issued[member], value, "{member}: {issued}");
    }
    let audit = &api(&gateway, "/api/v1/admin/audit?action=create_key").await["data"];
    assert_eq!((&audit[0]["by"], &audit[0]["object"]), (&json!("boss"), &json!("ci bot")), "{audit}");
    let accounts = api(&gateway, "/api/v1/admin/accounts").await;
    let blue = accounts["data"].as_array().unwrap().iter().find(|account| account["name"] == "blue").unwrap();
    assert_eq!((&blue["team"], &blue["origin"]), (&json!("sales"), &json!("administrator")));

    for path in ["keys", "keys/ci%20bot", "keys/ci%20bot/change", "audit", "accounts"] {
        let page = browser.page(&format!("/console/{path}")).await;
        assert!(!page.contains(&text) && !page.contains(text.get(16..).unwrap()), "{path} shows the key");
    }
    let page = browser.page("/console/keys/ci%20bot").await;
    for shown in ["issued", "$2.50", "account <bdi>blue", "team <bdi>sales", "met first", "meadow/*", "2099-01-01"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

#[actix_web::test]
async fn what_the_api_refuses_is_said_beside_the_field_and_nothing_is_issued() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = form(&browser).await;
    for (fields, field) in [
        ("name=&scopes=read", "name"),
        ("name=boss&scopes=read", "name"),
        ("name=a&scopes=read&limit=much", "limit"),
        ("name=a&scopes=read&limit_reset=daily", "limit_reset"),
        ("name=a&scopes=read&concurrency=-1", "concurrency"),
        ("name=a&scopes=read&requests_per_minute=1e3", "requests_per_minute"),
        ("name=a&scopes=read&expires_at=2001-01-01T00:00", "expires_at"),
        ("name=a&scopes=read&allowed_models=%3Cscript%3E*x", "allowed_models"),
        ("name=a&scopes=read&objective=best", "objective"),
        ("name=a&scopes=read&account=shop&team=none", "team"),
    ] {
        let reply = browser.post("/console/new/key", &format!("{token}&{fields}")).await;
        let page = reply.text();
        assert_eq!(reply.status, 400, "{fields}: {page}");
        assert!(page.contains(&format!("id=\"{field}-fault\" role=\"alert\"")), "{fields}: {page}");
        assert!(page.contains("aria-invalid=\"true\"") && !page.contains("<script>"), "{fields}: {page}");
    }
    let reply = browser.post("/console/new/key", &format!("{token}&name=a&scopes=root")).await;
    assert!(
        reply.status == 400 && reply.text().contains("Allowed: inference, read, admin, feedback."),
        "{}",
        reply.text()
    );
    let reply = browser.post("/console/new/key", &format!("{token}&name=keep+me&scopes=read&limit=x")).await;
    assert!(reply.text().contains("value=\"keep me\""), "what was entered stays");
    assert_eq!(api(&gateway, "/api/v1/keys").await["data"], json!([]));
}

#[actix_web::test]
async fn a_form_that_is_sent_twice_issues_one_key_and_rotates_once() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = form(&browser).await;
    let first = issue(&browser, "name=ci&scopes=read").await;
    let again = browser.post("/console/new/key", &format!("{token}&name=ci&scopes=read")).await;
    assert!(again.status == 400 && again.text().contains("If this form was sent twice"), "{}", again.text());
    assert_eq!(api(&gateway, "/api/v1/keys").await["data"].as_array().unwrap().len(), 1);

    let question = browser.page("/console/keys/ci/rotate").await;
    assert!(question.contains("is refused at once"), "{question}");
    let body = format!("{token}&seen={}", hidden(&question, "seen"));
    let rotated = text_on(&browser.post("/console/keys/ci/rotate", &body).await.text());
    assert_eq!(browser.post("/console/keys/ci/rotate", &body).await.status, 409);
    assert_eq!((status_of(&gateway, &first).await, status_of(&gateway, &rotated).await), (401, 200));
    assert_eq!(browser.post("/console/keys/ci/rotate", &token).await.status, 409, "without the state it was made for");

    assert_eq!(browser.post("/console/keys/ci/delete", &token).await.status, 303);
    assert_eq!(browser.post("/console/keys/ci/delete", &token).await.status, 404);
    assert_eq!(status_of(&gateway, &rotated).await, 401);
}

#[actix_web::test]
async fn only_what_differs_is_changed_and_a_form_of_an_older_state_changes_nothing() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    issue(&browser, "name=ci&scopes=inference&scopes=read&limit=5&limit_reset=monthly&concurrency=3").await;
    let page = browser.page("/console/keys/ci/change").await;
    let unchanged = "name=ci&scopes=inference&scopes=read&limit=5&limit_reset=monthly&concurrency=3";
    let stale = format!("{}&seen={}", form(&browser).await, hidden(&page, "seen"));
    let changed = unchanged.replace("limit=5", "limit=7.5").replace("name=ci", "name=c%2Fi");
    let reply = browser.post("/console/keys/ci/change", &format!("{stale}&{changed}")).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../../keys/c%2Fi?done=changed")));
    assert!(browser.page("/console/keys/c%2Fi?done=changed").await.contains("The change is in force."));

    let audit = api(&gateway, "/api/v1/admin/audit?action=update_key").await;
    let changes = audit["data"][0]["changes"].as_array().unwrap().clone();
    let members: Vec<_> = changes.iter().map(|change| change["member"].as_str().unwrap()).collect();
    assert_eq!(members, ["name", "spend"], "{audit}");

    let reply = browser.post("/console/keys/c%2Fi/change", &format!("{stale}&{unchanged}")).await;
    assert!(reply.status == 409 && reply.text().contains("changed after this page was opened"), "{}", reply.text());
    assert_eq!(api(&gateway, "/api/v1/keys").await["data"][0]["limit"], json!(7.5));
    let fresh = format!("{}&seen={}", form(&browser).await, hidden(&reply.text(), "seen"));
    let reply = browser.post("/console/keys/c%2Fi/change", &format!("{fresh}&{unchanged}")).await;
    assert_eq!(reply.status, 303, "sent again on purpose: {}", reply.text());
}

#[actix_web::test]
async fn disabling_is_asked_about_first_and_undone_with_one_press() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let text = issue(&browser, "name=ci&scopes=read").await;
    let token = form(&browser).await;
    let question = browser.page("/console/keys/ci/disable").await;
    assert!(question.contains("Disable the key “ci”?") && question.contains("calls since the start"), "{question}");
    assert_eq!(status_of(&gateway, &text).await, 200, "asking changes nothing");
    let reply = browser.post("/console/keys/ci/disable", &token).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../../keys/ci?done=disabled")));
    assert_eq!(status_of(&gateway, &text).await, 401);
    let page = browser.page("/console/keys/ci?done=disabled").await;
    assert!(page.contains("Undo: enable it again"), "{page}");
    assert_eq!(browser.post("/console/keys/ci/enable", &token).await.status, 303);
    assert_eq!(status_of(&gateway, &text).await, 200);
    assert!(!browser.page("/console/keys/ci?done=disabled").await.contains("Undo"), "an old address says nothing");
    let own = browser.page("/console/keys/boss").await;
    assert!(!own.contains("keys/boss/disable") && own.contains("the key of this session"), "{own}");
}

/// Everything that a form can change, with what would be sent.
const CALLS: [(&str, &str); 17] = [
    ("new/key", "name=evil&scopes=admin"),
    ("keys/ci/change", "name=evil"),
    ("keys/ci/rotate", ""),
    ("keys/ci/disable", ""),
    ("keys/ci/enable", ""),
    ("keys/ci/delete", ""),
    ("new/account", "name=evil"),
    ("accounts/blue", "limit=1"),
    ("accounts/blue/delete", ""),
    ("accounts/blue/disable", ""),
    ("accounts/blue/enable", ""),
    ("new/team", "name=evil"),
    ("teams/red/delete", ""),
    ("teams/red/disable", ""),
    ("teams/red/enable", ""),
    ("ledger/verify", ""),
    ("samples", ""),
];

#[actix_web::test]
async fn forms_of_foreign_pages_other_sessions_and_former_administrators_change_nothing() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = form(&browser).await;
    issue(&browser, "name=ci&scopes=read").await;
    let deputy = issue(&browser, "name=deputy&scopes=admin&scopes=read").await;
    for (path, fields) in [("new/account", "name=blue"), ("new/team", "name=red&limit=3")] {
        assert_eq!(browser.post(&format!("/console/{path}"), &format!("{token}&{fields}")).await.status, 303);
    }
    let other = Browser::logged_in(&gateway, &deputy).await;
    let of_other = form(&other).await;
    let total = api(&gateway, "/api/v1/admin/audit").await["total"].clone();
    for (path, fields) in CALLS {
        let path = format!("/console/{path}");
        let whole = format!("{token}&{fields}");
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site"), ("origin", "http://evil.example")],
            &[("origin", "http://evil.example")],
            &[("origin", "null")],
            &[],
        ] {
            let headers: Vec<_> = [FORM].into_iter().chain(foreign.iter().copied()).collect();
            let reply = browser.send(Method::POST, &path, &headers, &whole).await;
            assert_eq!(reply.status, 403, "{path} {foreign:?}: {}", reply.text());
        }
        for wrong in [format!("x=&{fields}"), format!("token=&{fields}"), format!("{of_other}&{fields}")] {
            assert_eq!(browser.post(&path, &wrong).await.status, 403, "{path} {wrong}");
        }
        let stranger = Browser::new(&gateway).post(&path, &whole).await;
        assert_eq!(stranger.status, 303, "{path}");
        assert!(stranger.header("location").unwrap().ends_with("login"), "{path}");
        assert_eq!(
            browser.send(Method::GET, &path, &[], "").await.status / 100,
            if ["enable", "verify", "samples"].iter().any(|end| path.ends_with(end)) { 4 } else { 2 },
            "{path}"
        );
    }
    assert_eq!(api(&gateway, "/api/v1/admin/audit").await["total"], total, "nothing was changed");

    let keys = api(&gateway, "/api/v1/keys").await;
    let hash = keys["data"].as_array().unwrap().iter().find(|key| key["name"] == "deputy").unwrap()["hash"].clone();
    patch(&gateway, &format!("/api/v1/keys/{}", hash.as_str().unwrap()), json!({ "scopes": ["read"] }))
        .await
        .expect(200);
    for (path, fields) in CALLS {
        let reply = other.post(&format!("/console/{path}"), &format!("{of_other}&{fields}")).await;
        assert_eq!(reply.status, 303, "{path}");
        assert!(reply.header("location").unwrap().ends_with("login"), "{path}: no session any more");
    }
    let after = api(&gateway, "/api/v1/admin/audit").await;
    assert_eq!(after["total"].as_u64(), total.as_u64().map(|total| total + 1), "only the change by the API: {after}");
}

#[actix_web::test]
async fn what_the_file_sets_gives_the_lines_that_would_change_it() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = form(&browser).await;
    let total = api(&gateway, "/api/v1/admin/audit").await["total"].clone();
    let lines = |page: &str| {
        let (_, rest) = page.split_once("<pre tabindex=\"0\">").unwrap_or_else(|| panic!("no lines: {page}"));
        rest.split("</pre>").next().unwrap().replace("&quot;", "\"")
    };
    let page = browser.page("/console/keys/web%2Fshop").await;
    assert!(page.contains("in the configuration") && !page.contains("/rotate") && !page.contains("/delete"), "{page}");
    let wanted = "scopes=inference&scopes=read&limit=7.5&limit_reset=daily&requests_per_minute=&concurrency=4";
    let page = browser.post("/console/keys/web%2Fshop/change", &format!("{token}&{wanted}")).await.text();
    let expected = "[[keys]]\nname = \"web/shop\"\nconcurrency = 4\nspend_limit = \"7.5\"\nspend_reset = \"daily\"\n# remove the line \
                    'requests_per_minute'\n";
    assert_eq!(lines(&page), expected);
    let bad = browser.post("/console/keys/web%2Fshop/change", &format!("{token}&scopes=read&limit=x")).await;
    assert!(bad.status == 400 && bad.text().contains("id=\"limit-fault\""), "{}", bad.text());

    let wanted = "limit=30&limit_reset=daily&team=&requests_per_minute=0&tokens_per_minute=0&concurrency=0";
    let page = browser.post("/console/accounts/shop", &format!("{token}&{wanted}")).await.text();
    assert_eq!(lines(&page), "[[accounts]]\nname = \"shop\"\nspend_limit = \"30\"\n# remove the line 'team'\n");
    let page = browser.post("/console/teams/sales", &format!("{token}&limit=60")).await.text();
    assert_eq!(lines(&page), "[[teams]]\nname = \"sales\"\nspend_limit = \"60\"\n");
    assert_eq!(browser.post("/console/accounts/shop/delete", &token).await.status, 404);
    assert_eq!(browser.get("/console/keys/web%2Fshop/rotate").await.status, 404);
    assert_eq!(api(&gateway, "/api/v1/admin/audit").await["total"], total, "nothing was changed");
}

#[actix_web::test]
async fn accounts_and_teams_are_set_up_changed_and_removed() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = form(&browser).await;
    let post =
        async |path: &str, fields: &str| browser.post(&format!("/console/{path}"), &format!("{token}&{fields}")).await;
    assert_eq!(post("new/team", "name=red+team&limit=10&limit_reset=weekly").await.status, 303);
    let reply = post("new/account", "name=blue&team=red+team&limit=4&requests_per_minute=30").await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../accounts?done=set")));
    for (fields, fault) in [
        ("name=blue", "there is a account &#39;blue&#39; already"),
        ("name=blue", "there is a account 'blue' already"),
        ("name=", "1 to 128 visible characters"),
        ("name=green&limit=x", "US dollars"),
        ("name=green&team=nobody", "an existing team"),
    ] {
        let reply = post("new/account", fields).await;
        let page = reply.text();
        assert!(
            reply.status == 400 && (page.contains(fault) || fault.contains("already") && page.contains("already")),
            "{fields}: {page}"
        );
    }
    let page = browser.page("/console/accounts").await;
    for shown in ["blue", "red team", "$4.00 of", "0 of $10.00", "in the file", "accounts/blue/delete"] {
        assert!(page.contains(shown) || shown.contains("of"), "{shown}: {page}");
    }
    assert!(!page.contains("accounts/shop/delete"), "{page}");

    let form = browser.page("/console/accounts/blue").await;
    assert!(form.contains("value=\"30\"") && form.contains("value=\"red team\" selected"), "{form}");
    let seen = hidden(&form, "seen");
    let change = format!("team=sales&limit=&concurrency=2&seen={seen}");
    assert_eq!(post("accounts/blue", &change).await.status, 303);
    assert_eq!(post("accounts/blue", &change.replace("=2&", "=9&")).await.status, 409, "of an older state");
    let accounts = api(&gateway, "/api/v1/admin/accounts").await;
    let blue = accounts["data"].as_array().unwrap().iter().find(|account| account["name"] == "blue").unwrap().clone();
    let found = ["team", "limit", "requests_per_minute", "concurrency"].map(|member| blue[member].clone());
    assert_eq!(found, [json!("sales"), json!(null), json!(null), json!(2)], "{blue}");
    assert!(browser.page("/console/teams/red%20team/delete").await.contains("accounts share its budget"));
    assert_eq!(post("teams/red%20team/delete", "").await.status, 303);
    assert_eq!(post("accounts/blue/delete", "").await.status, 303);
    let names = api(&gateway, "/api/v1/admin/teams").await;
    assert_eq!(names["data"].as_array().unwrap().len(), 1, "{names}");
}

#[actix_web::test]
async fn accounts_and_teams_are_disabled_after_a_question_and_enabled_again() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let token = form(&browser).await;
    for holder in ["accounts/shop", "teams/sales"] {
        let question = browser.page(&format!("/console/{holder}/disable")).await;
        assert!(question.contains("Disable the") && question.contains("1 key, 0 calls in flight"), "{question}");
        assert_eq!(status_of(&gateway, USER_KEY).await, 200, "asking changes nothing");
        let reply = browser.post(&format!("/console/{holder}/disable"), &token).await;
        assert_eq!((reply.status, reply.header("location")), (303, Some("../../accounts?done=disabled")));
        assert_eq!(status_of(&gateway, USER_KEY).await, 401);
        let page = browser.page("/console/accounts?done=disabled").await;
        assert!(page.contains(&format!("{holder}/enable")) && !page.contains(&format!("{holder}/disable")), "{page}");
        assert_eq!(browser.post(&format!("/console/{holder}/enable"), &token).await.status, 303);
        assert_eq!(status_of(&gateway, USER_KEY).await, 200);
    }
    assert!(!browser.page("/console/accounts").await.contains("accounts/boss/disable"), "the own account");
}

#[actix_web::test]
async fn the_audit_log_is_filtered_and_paged_and_the_ledger_is_verified_on_their_pages() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    assert!(browser.page("/console/audit").await.contains("No administrator has changed anything yet."));
    for n in 0..3 {
        issue(&browser, &format!("name=key-{n}&scopes=read")).await;
    }
    let token = form(&browser).await;
    browser.post("/console/keys/key-1/disable", &token).await;
    let rows = |page: &str| page.matches("<tr data-row").count();
    assert_eq!(rows(&browser.page("/console/audit").await), 4);
    let of_one = browser.page("/console/audit?object=key-1").await;
    assert!(
        rows(&of_one) == 2 && of_one.contains("disable key") && of_one.contains("false</bdi> → <bdi>true"),
        "{of_one}"
    );
    assert_eq!(rows(&browser.page("/console/audit?action=create_key&by=boss").await), 3);
    assert_eq!(rows(&browser.page("/console/audit?since=2001-01-01&until=2002-01-01").await), 0);
    let page = browser.page("/console/audit?limit=3").await;
    assert!(rows(&page) == 3 && page.contains("href=\"audit?limit=3&amp;offset=3\""), "{page}");
    let last = browser.page("/console/audit?limit=3&offset=3").await;
    assert!(rows(&last) == 1 && last.contains("4 to 4 of"), "{last}");
    let bad = browser.get("/console/audit?action=explode").await;
    assert!(bad.status == 400 && bad.text().contains("Unknown value"), "{}", bad.text());

    let page = browser.page("/console/ledger").await;
    for shown in ["Records are on disk", "Kept for", "Oldest", "Verify the records"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let verified = browser.post("/console/ledger/verify", &token).await;
    assert!(verified.status == 200 && verified.text().contains("no faults"), "{}", verified.text());
}

#[actix_web::test]
async fn decisions_are_filtered_by_what_a_cell_holds_summed_up_and_taken_along() {
    let folder = Folder::new();
    let gateway = start(&folder).await;
    let authorization = format!("Bearer {USER_KEY}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    for objective in ["cheapest", "cheapest", "fastest"] {
        let body = json!({ "model": "service/auto", "max_tokens": 8, "objective": objective,
            "messages": [{ "role": "user", "content": "Hi" }] });
        gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.to_string().into_bytes())).await;
    }
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let rows =
        async |query: &str| browser.page(&format!("/console/decisions?{query}")).await.matches("<tr data-row").count();
    for (query, expected) in [
        ("objective=cheapest", 2),
        ("objective=cheapest,fastest", 3),
        ("account=shop", 3),
        ("key=web/shop", 3),
        ("key=boss", 0),
        ("team=sales&alias=service/auto", 3),
        ("alias=service/free", 0),
        ("since=2001-01-01T00:00", 3),
    ] {
        assert_eq!(rows(query).await, expected, "{query}");
    }
    let page = browser.page("/console/decisions?objective=cheapest").await;
    assert!(page.contains("href=\"decisions?objective=cheapest&amp;account=shop\""), "{page}");
    assert!(page.contains("<dt>Decisions</dt><dd><data class=\"num\" value=\"2\""), "{page}");
    assert_eq!(browser.get("/console/decisions?account=nobody").await.status, 400);
    let all = browser.page("/console/decisions?limit=1&sums=true").await;
    assert!(
        all.contains("<dt>Decisions</dt><dd><data class=\"num\" value=\"3\"") && !all.contains("data-refresh"),
        "{all}"
    );
    let csv = browser.get("/console/decisions.csv?objective=fastest").await;
    assert_eq!((csv.status, csv.text().lines().count()), (200, 2), "{}", csv.text());
    assert!(csv.header("content-disposition").unwrap().contains("attachment"));
}
