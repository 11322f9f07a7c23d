//! Keys that administrators issue: what they may set, what is shown, and what changes with a rotation or a revocation.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::http::Method;
use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    directory::Directory,
    generations::{GenerationStore, LedgerBounds},
    settings::Settings,
};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, Reply, TestGateway},
    patience::PATIENCE,
    scripted::Upstream,
    world::{Model, World, and, ask, error_of, saying},
};

pub(crate) const ADMIN: &str = "sk-admin-0a1b2c3d4e5f";

/// One model at ten dollars per thousand tokens, an administrator, and a durable ledger in `folder`.
pub(crate) fn world(upstream: &Upstream, folder: &Folder) -> World {
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.01", "0.01"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
        .variable("POINTSMAN__LEDGER__DATA_DIR", folder.at("data").to_str().unwrap())
}

pub(crate) async fn call(gateway: &TestGateway, method: Method, path: &str, key: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    gateway.call(method, path, &headers, body.map(|body| body.to_string().into_bytes())).await
}

/// Issues a key: its text, and its data.
pub(crate) async fn issue(gateway: &TestGateway, members: Value) -> (String, Value) {
    let mut issued = call(gateway, Method::POST, "/api/v1/keys", ADMIN, Some(members)).await.expect(201);
    (issued["key"].as_str().unwrap().to_owned(), issued["data"].take())
}

pub(crate) async fn chat(gateway: &TestGateway, key: &str, more: Value) -> Reply {
    call(gateway, Method::POST, "/api/v1/chat/completions", key, Some(and(ask("acme/small"), more))).await
}

#[actix_web::test]
async fn an_issued_key_works_at_once_and_its_text_is_shown_only_once() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (text, data) = issue(&gateway, json!({ "name": "ci", "limit": 5, "limit_reset": "monthly" })).await;
    assert!(text.starts_with("sk-pointsman-v1-") && text.len() == 16 + 64, "{text}");
    let ends = (text.get(..10).unwrap(), text.get(text.len() - 4..).unwrap());
    assert_eq!(data["label"], json!(format!("{}...{}", ends.0, ends.1)));
    for member in [
        "hash",
        "name",
        "label",
        "disabled",
        "limit",
        "limit_remaining",
        "limit_reset",
        "usage",
        "usage_daily",
        "usage_weekly",
        "usage_monthly",
        "byok_usage",
        "byok_usage_daily",
        "byok_usage_weekly",
        "byok_usage_monthly",
        "include_byok_in_limit",
        "created_at",
        "updated_at",
        "last_used_at",
        "expires_at",
        "creator_user_id",
        "external_user",
    ] {
        assert!(data.get(member).is_some(), "{member}: {data}");
    }
    assert!(data["workspace_id"].is_string());
    chat(&gateway, &text, json!({"max_tokens": 5})).await.expect(200);

    let hash = data["hash"].as_str().unwrap();
    let shown = call(&gateway, Method::GET, &format!("/api/v1/keys/{hash}"), ADMIN, None).await;
    let listed = call(&gateway, Method::GET, "/api/v1/keys", ADMIN, None).await;
    let admin = call(&gateway.admin(), Method::GET, "/api/v1/admin/keys", ADMIN, None).await;
    let file = std::fs::read_to_string(folder.at("data").join("accounts.log")).unwrap();
    assert_eq!(shown.json()["data"]["usage"], json!(0.17));
    assert_eq!(listed.json()["data"].as_array().unwrap().len(), 1);
    for shown in [shown.text(), listed.text(), admin.text(), file] {
        assert!(!shown.contains(&text), "{shown}");
    }
    let own = call(&gateway, Method::GET, "/api/v1/key", &text, None).await.expect(200);
    let own = &own["data"];
    assert_eq!(
        (&own["label"], &own["limit"], &own["limit_remaining"], &own["limit_reset"], &own["usage"]),
        (&json!("ci"), &json!(5), &json!(4.83), &json!("monthly"), &json!(0.17))
    );
}

#[actix_web::test]
async fn only_administrators_issue_keys_and_nothing_is_issued_that_could_not_be_kept() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (text, data) = issue(&gateway, json!({ "name": "ci" })).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    for key in [KEY, &text] {
        for (method, path) in [
            (Method::GET, "/api/v1/keys"),
            (Method::POST, "/api/v1/keys"),
            (Method::GET, &path),
            (Method::PATCH, &path),
            (Method::DELETE, &path),
            (Method::POST, &format!("{path}/rotate")),
        ] {
            error_of(&call(&gateway, method, path, key, Some(json!({ "name": "x" }))).await, 403);
        }
    }
    let memory = world(&upstream, &folder).variable("POINTSMAN__LEDGER__DURABILITY", "off").start().await;
    let refused = call(&memory, Method::POST, "/api/v1/keys", ADMIN, Some(json!({ "name": "x" }))).await;
    assert_eq!(error_of(&refused, 404)["metadata"]["reason"], "no_durable_ledger");
}

#[actix_web::test]
async fn an_impossible_member_is_refused_by_its_name() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    issue(&gateway, json!({ "name": "ci" })).await;
    for (members, param) in [
        (json!({}), "name"),
        (json!({ "name": "" }), "name"),
        (json!({ "name": "ci" }), "name"),
        (json!({ "name": "test" }), "name"),
        (json!({ "name": "x", "limit": -1 }), "limit"),
        (json!({ "name": "x", "limit": 1e300 }), "limit"),
        (json!({ "name": "x", "limit": "much" }), "limit"),
        (json!({ "name": "x", "limit": 1, "limit_reset": "hourly" }), "limit_reset"),
        (json!({ "name": "x", "limit_reset": "daily" }), "limit_reset"),
        (json!({ "name": "x", "scopes": ["root"] }), "scopes"),
        (json!({ "name": "x", "scopes": [] }), "scopes"),
        (json!({ "name": "x", "expires_at": "2020-01-01" }), "expires_at"),
        (json!({ "name": "x", "requests_per_minute": -1 }), "requests_per_minute"),
        (json!({ "name": "x", "tokens_per_minute": 99_999_999_999_u64 }), "tokens_per_minute"),
        (json!({ "name": "x", "concurrency": 1.5 }), "concurrency"),
        (json!({ "name": "x", "allowed_models": ["a*b"] }), "allowed_models"),
        (json!({ "name": "x", "objective": "best" }), "objective"),
        (json!({ "name": "x", "task": "poems" }), "task"),
        (json!({ "name": "x", "task": ["code"] }), "task"),
        (json!({ "name": "x", "min_quality": 1.5 }), "min_quality"),
        (json!({ "name": "x", "min_quality": { "p50": 0.7 } }), "min_quality"),
        (json!({ "name": "x", "quality_unknown": "perhaps" }), "quality_unknown"),
        (json!({ "name": "x", "aliases": { "": "acme/small" } }), "aliases"),
        (json!({ "name": "x", "limt": 1 }), "limt"),
    ] {
        let error = error_of(&call(&gateway, Method::POST, "/api/v1/keys", ADMIN, Some(members.clone())).await, 400);
        assert_eq!(error["param"], param, "{members}: {error}");
    }
    for body in ["[]", "nonsense"] {
        let headers = [("authorization", format!("Bearer {ADMIN}")), ("content-type", "application/json".to_owned())];
        let headers = [(headers[0].0, headers[0].1.as_str()), (headers[1].0, headers[1].1.as_str())];
        error_of(&gateway.call(Method::POST, "/api/v1/keys", &headers, Some(body.into())).await, 400);
    }
    assert_eq!(call(&gateway, Method::GET, "/api/v1/keys/0123456789abcdef", ADMIN, None).await.status, 404);
    assert_eq!(call(&gateway, Method::DELETE, "/api/v1/keys/x", ADMIN, None).await.status, 404);
}

#[actix_web::test]
async fn a_body_of_an_administrator_that_names_a_member_twice_is_refused_and_changes_nothing() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (_, data) = issue(&gateway, json!({ "name": "ci", "limit": 5 })).await;
    let admin = gateway.admin();
    let key = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    let at = |rest: &str| format!("/api/v1/admin/{rest}");
    for (method, path, body, param) in [
        (Method::PATCH, key.clone(), r#"{"limit":1,"limit":null}"#, "limit"),
        (Method::PATCH, key.clone(), r#"{"limit":1,"l\u0069mit":2}"#, "limit"),
        (Method::PATCH, key.clone(), r#"{"aliases":{"a":"acme/small","a":"acme/large"}}"#, "aliases.a"),
        (Method::POST, "/api/v1/keys".to_owned(), r#"{"name":"a","name":"b"}"#, "name"),
        (Method::POST, "/api/v1/route/explain".to_owned(), r#"{"id":"gen-1","id":"gen-2"}"#, "id"),
        (Method::PUT, at("accounts/a"), r#"{"limit":1,"limit":2}"#, "limit"),
        (Method::PUT, at("teams/a"), r#"{"limit":1,"limit_reset":"daily","limit":2}"#, "limit"),
    ] {
        let gateway = if path.contains("/admin/") { &admin } else { &gateway };
        let headers = [("authorization", &*format!("Bearer {ADMIN}")), ("content-type", "application/json")];
        let reply = gateway.call(method, &path, &headers, Some(body.as_bytes().to_vec())).await;
        let error = error_of(&reply, 400);
        assert_eq!(
            (&error["param"], &error["message"]),
            (&json!(param), &json!(format!("'{param}' is given twice."))),
            "{path}"
        );
    }
    let unchanged = call(&gateway, Method::GET, &key, ADMIN, None).await.expect(200);
    assert_eq!(unchanged["data"]["limit"], 5);
}

#[actix_web::test]
async fn a_rotated_key_keeps_its_records_and_its_budget_and_the_old_text_is_refused() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (old, data) = issue(&gateway, json!({ "name": "ci", "limit": 1 })).await;
    let id = chat(&gateway, &old, json!({"max_tokens": 5})).await.expect(200)["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/keys/{}/rotate", data["hash"].as_str().unwrap());
    let rotated = call(&gateway, Method::POST, &path, ADMIN, None).await.expect(200);
    let new = rotated["key"].as_str().unwrap();
    assert_eq!((&rotated["data"]["hash"], &rotated["data"]["account"]), (&data["hash"], &data["account"]));
    assert_eq!(error_of(&chat(&gateway, &old, json!({})).await, 401)["metadata"]["reason"], "invalid_key");
    let record = call(&gateway, Method::GET, &format!("/api/v1/generation?id={id}"), new, None).await.expect(200);
    assert_eq!(record["data"]["id"], json!(id));
    let key = call(&gateway, Method::GET, "/api/v1/key", new, None).await.expect(200);
    assert_eq!((&key["data"]["usage"], &key["data"]["limit_remaining"]), (&json!(0.17), &json!(0.83)));
}

#[actix_web::test]
async fn keys_of_one_account_share_records_and_foreign_records_look_like_unknown_ones() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (one, _) = issue(&gateway, json!({ "name": "one", "account": "blue" })).await;
    let (two, _) = issue(&gateway, json!({ "name": "two", "account": "blue" })).await;
    let (foreign, _) = issue(&gateway, json!({ "name": "three" })).await;
    let id = chat(&gateway, &one, json!({"max_tokens": 5})).await.expect(200)["id"].as_str().unwrap().to_owned();
    let get = async |key: &str, id: &str| {
        call(&gateway, Method::GET, &format!("/api/v1/generation?id={id}"), key, None).await
    };
    get(&two, &id).await.expect(200);
    let listed = call(&gateway, Method::GET, "/api/v1/generations", &two, None).await.expect(200);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["key"]), (&json!(id), &json!("one")), "{listed}");
    let without_id = |reply: &Reply| {
        let mut body = error_of(reply, 404);
        body["metadata"]["request_id"].take();
        body
    };
    let unknown = get(&foreign, "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").await;
    assert_eq!(without_id(&get(&foreign, &id).await), without_id(&unknown));
    let credits = call(&gateway, Method::GET, "/api/v1/credits", &two, None).await.expect(200);
    assert_eq!(credits["data"]["total_usage"], json!(0.17));
}

#[actix_web::test]
async fn a_disabled_or_revoked_key_is_refused_from_the_next_request_on() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (text, data) = issue(&gateway, json!({ "name": "ci" })).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    let patch = async |members: Value| call(&gateway, Method::PATCH, &path, ADMIN, Some(members)).await.expect(200);
    for _ in 0..20 {
        assert_eq!(patch(json!({ "disabled": true })).await["data"]["disabled"], true);
        assert_eq!(error_of(&chat(&gateway, &text, json!({})).await, 401)["metadata"]["reason"], "disabled_key");
        patch(json!({ "disabled": false })).await;
        chat(&gateway, &text, json!({})).await.expect(200);
    }
    let listed = async |query: &str| {
        let path = format!("/api/v1/keys{query}");
        call(&gateway, Method::GET, &path, ADMIN, None).await.expect(200)["data"].as_array().unwrap().len()
    };
    patch(json!({ "disabled": true })).await;
    assert_eq!((listed("").await, listed("?include_disabled=true").await), (0, 1));
    assert_eq!(listed("?include_disabled=true&offset=1").await, 0);
    let revoked = call(&gateway, Method::DELETE, &path, ADMIN, None).await.expect(200);
    assert_eq!(revoked, json!({ "deleted": true }));
    assert_eq!(error_of(&chat(&gateway, &text, json!({})).await, 401)["metadata"]["reason"], "invalid_key");
    assert_eq!(call(&gateway, Method::DELETE, &path, ADMIN, None).await.status, 404);
}

#[actix_web::test]
async fn an_administrator_key_neither_disables_nor_revokes_itself_nor_takes_its_own_scope() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (boss, data) = issue(&gateway, json!({ "name": "boss", "scopes": ["admin"] })).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    for members in [json!({ "disabled": true }), json!({ "scopes": ["read"] }), json!({ "expires_at": "2020-01-01" })] {
        let member = members.as_object().unwrap().keys().next().unwrap().clone();
        let error = error_of(&call(&gateway, Method::PATCH, &path, &boss, Some(members)).await, 400);
        assert_eq!(error["param"], *member, "{error}");
    }
    let more = Some(json!({ "scopes": ["read", "admin"], "disabled": false }));
    call(&gateway, Method::PATCH, &path, &boss, more).await.expect(200);
    error_of(&call(&gateway, Method::DELETE, &path, &boss, None).await, 400);
    call(&gateway, Method::GET, &path, &boss, None).await.expect(200);
}

#[actix_web::test]
async fn a_key_has_lists_an_objective_and_aliases_of_its_own() {
    let (upstream, other, folder) = (saying("Hello"), saying("Hello"), Folder::new());
    let world = world(&upstream, &folder)
        .provider("bolt", other.address())
        .model(&Model::new("acme/large").at("acme", "0.01", "0.01").at("bolt", "0.02", "0.02"));
    let gateway = world.start().await;
    let members = json!({ "name": "ci", "blocked_models": ["acme/small"], "allowed_providers": ["bolt"],
                          "objective": "reliable", "aliases": { "fast": "acme/large" } });
    let (text, _) = issue(&gateway, members).await;
    let refused = chat(&gateway, &text, json!({})).await;
    assert_eq!(error_of(&refused, 403)["metadata"]["reason"], "model_not_allowed_for_key");
    let served = chat(&gateway, &text, json!({ "model": "fast" })).await;
    let body = served.expect(200);
    assert_eq!((&body["model"], &body["provider"]), (&json!("acme/large"), &json!("Bolt")));
    let id = body["id"].as_str().unwrap();
    let explained = call(&gateway, Method::GET, &format!("/api/v1/route/explain?id={id}"), &text, None).await;
    assert_eq!(explained.expect(200)["objective"], "reliable");
    assert_eq!(
        gateway.chat(&and(ask("fast"), json!({}))).await.status,
        404,
        "an alias of one key means nothing to others"
    );
}

#[actix_web::test]
async fn keys_of_a_disabled_account_or_team_are_refused_by_its_name_until_it_is_enabled() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let shop = "[[teams]]\nname = \"sales\"\n[[accounts]]\nname = \"shop\"\nteam = \"sales\"";
    let gateway = world(&upstream, &folder).with(shop).start().await;
    let admin = gateway.admin();
    let (text, _) = issue(&gateway, json!({ "name": "ci", "account": "shop" })).await;
    let switch = async |path: &str| call(&admin, Method::POST, &format!("/api/v1/admin/{path}"), ADMIN, None).await;
    let state = async || {
        let key = call(&admin, Method::GET, "/api/v1/admin/keys/ci", ADMIN, None).await.expect(200);
        key["data"]["state"].as_str().unwrap().to_owned()
    };
    for (holder, reason, sentence) in [
        ("accounts/shop", "disabled_account", "The account 'shop' of this API key is disabled."),
        ("teams/sales", "disabled_team", "The team 'sales' of this API key is disabled."),
    ] {
        assert_eq!(
            (chat(&gateway, &text, json!({"max_tokens": 5})).await.status, state().await.as_str()),
            (200, "active")
        );
        let listed = switch(&format!("{holder}/disable")).await.expect(200);
        assert_eq!(listed["data"].as_array().unwrap().iter().filter(|one| one["disabled"] == true).count(), 1);
        let error = error_of(&chat(&gateway, &text, json!({})).await, 401);
        assert_eq!((&error["metadata"]["reason"], &error["message"]), (&json!(reason), &json!(sentence)));
        assert_eq!(state().await, reason);
        switch(&format!("{holder}/enable")).await.expect(200);
    }
    chat(&gateway, &text, json!({"max_tokens": 5})).await.expect(200);
    assert_eq!(switch("accounts/nobody/disable").await.status, 404);
    let own = error_of(&switch("accounts/admin/disable").await, 400);
    assert_eq!(own["message"], "A key cannot disable its own account: use another key with the scope admin.");
}

#[actix_web::test]
async fn an_administrator_cannot_join_a_disabled_team_and_no_account_leaves_one_by_being_removed() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).with("[[teams]]\nname = \"sales\"").start().await;
    let admin = gateway.admin();
    let (text, _) = issue(&gateway, json!({ "name": "ci", "account": "shop" })).await;
    let at = async |method: Method, path: &str, body: Option<Value>| {
        call(&admin, method, &format!("/api/v1/admin/{path}"), ADMIN, body).await
    };
    let in_sales = || Some(json!({ "team": "sales" }));
    at(Method::POST, "teams/sales/disable", None).await.expect(200);
    let own = error_of(&at(Method::PUT, "accounts/admin", in_sales()).await, 400);
    let told = own["message"].as_str().unwrap();
    assert!(told.starts_with("A key cannot put its own account into the disabled team 'sales'"), "{own}");
    at(Method::PUT, "accounts/shop", in_sales()).await.expect(200);
    let kept = error_of(&at(Method::DELETE, "accounts/shop", None).await, 400);
    let told = kept["message"].as_str().unwrap();
    assert!(told.contains("the account's team 'sales' is disabled: enable it first"), "{kept}");
    assert_eq!(error_of(&chat(&gateway, &text, json!({})).await, 401)["metadata"]["reason"], "disabled_team");
    at(Method::POST, "teams/sales/enable", None).await.expect(200);
    at(Method::PUT, "accounts/admin", in_sales()).await.expect(200);
    at(Method::DELETE, "accounts/shop", None).await.expect(200);
}

#[actix_web::test]
async fn every_action_of_an_administrator_is_in_the_audit_log() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let admin = gateway.admin();
    let (_, data) = issue(&gateway, json!({ "name": "ci" })).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    call(&gateway, Method::PATCH, &path, ADMIN, Some(json!({ "limit": 3 }))).await.expect(200);
    call(&gateway, Method::PATCH, &path, ADMIN, Some(json!({ "disabled": true }))).await.expect(200);
    call(&gateway, Method::POST, &format!("{path}/rotate"), ADMIN, None).await.expect(200);
    call(&gateway, Method::DELETE, &path, ADMIN, None).await.expect(200);
    for (method, path, body) in [
        (Method::POST, "/api/v1/admin/keys/test/disable", None),
        (Method::POST, "/api/v1/admin/keys/test/enable", None),
        (Method::PUT, "/api/v1/admin/teams/lab", Some(json!({ "limit": "10" }))),
        (Method::PUT, "/api/v1/admin/accounts/blue", Some(json!({ "team": "lab" }))),
        (Method::POST, "/api/v1/admin/accounts/blue/disable", None),
        (Method::POST, "/api/v1/admin/teams/lab/disable", None),
        (Method::POST, "/api/v1/admin/accounts/blue/enable", None),
        (Method::POST, "/api/v1/admin/teams/lab/enable", None),
        (Method::DELETE, "/api/v1/admin/accounts/blue", None),
        (Method::DELETE, "/api/v1/admin/teams/lab", None),
        (Method::DELETE, "/api/v1/admin/ledger/records?older_than_secs=9", None),
    ] {
        call(&admin, method, path, ADMIN, body).await.expect(200);
    }
    let reply = call(&admin, Method::GET, "/api/v1/admin/audit", ADMIN, None).await;
    let audit = reply.expect(200);
    let lines: Vec<_> = audit["data"].as_array().unwrap().iter().rev().collect();
    let actions: Vec<_> = lines.iter().map(|line| (line["action"].as_str().unwrap(), &line["object"])).collect();
    let (ci, test, blue, lab) = (&json!("ci"), &json!("test"), &json!("blue"), &json!("lab"));
    assert_eq!(
        actions,
        [
            ("create_key", ci),
            ("update_key", ci),
            ("disable_key", ci),
            ("rotate_key", ci),
            ("revoke_key", ci),
            ("disable_key", test),
            ("enable_key", test),
            ("put_team", lab),
            ("put_account", blue),
            ("disable_account", blue),
            ("disable_team", lab),
            ("enable_account", blue),
            ("enable_team", lab),
            ("remove_account", blue),
            ("remove_team", lab),
            ("delete_records", &Value::Null),
        ]
    );
    let changes = |line: usize, member: &str| {
        let changes = lines[line]["changes"].as_array().unwrap();
        let change = changes.iter().find(|change| change["member"] == member);
        change.map(|change| (change["from"].clone(), change["to"].clone()))
    };
    let limit = |amount: &str| json!({ "amount": amount });
    assert_eq!(changes(0, "name"), Some((Value::Null, json!("ci"))));
    assert_eq!(changes(1, "spend"), Some((Value::Null, limit("3"))));
    assert_eq!(lines[1]["changes"].as_array().unwrap().len(), 1, "{}", lines[1]);
    assert_eq!(changes(2, "disabled"), Some((json!(false), json!(true))));
    assert!(changes(3, "label").is_some_and(|(from, to)| from != to), "a rotated key has another label");
    assert_eq!(changes(4, "name"), Some((json!("ci"), Value::Null)));
    assert_eq!(
        (changes(5, "on"), changes(6, "on")),
        (Some((Value::Null, json!(false))), Some((json!(false), Value::Null))),
        "the configuration says again what it is"
    );
    assert_eq!(changes(7, "spend"), Some((Value::Null, limit("10"))));
    assert_eq!(
        (changes(8, "team"), changes(13, "team")),
        (Some((Value::Null, json!("lab"))), Some((json!("lab"), Value::Null)))
    );
    assert_eq!(changes(9, "on"), Some((json!(true), json!(false))), "an account is on unless it is disabled");
    assert!(changes(15, "before_ms").is_some_and(|(_, to)| to.is_i64()));
    assert!(lines.iter().all(|line| !line.to_string().contains("sha256")), "no digest is shown");
    for line in lines {
        assert_eq!((&line["by"], &line["from"]), (&json!("admin"), &json!("127.0.0.1")), "{line}");
        assert!(line["at"].is_string() && line["request_id"].is_string(), "{line}");
    }
    error_of(&call(&admin, Method::GET, "/api/v1/admin/audit", KEY, None).await, 403);
}

/// The stored record of a chat of the test key.
pub(crate) async fn generation_of(gateway: &TestGateway) -> Generation {
    let answer = gateway.chat(&ask("acme/small")).await.expect(200);
    let id = GenerationId::parse(answer["id"].as_str().unwrap()).unwrap();
    gateway.inner().shared().records.ledger.as_ref().unwrap().get(id, |_| true).unwrap().unwrap()
}

#[actix_web::test]
async fn an_issued_key_stops_at_its_time() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let end = chrono::Utc::now() + chrono::TimeDelta::milliseconds(1_500);
    let (text, _) = issue(&gateway, json!({ "name": "ci", "expires_at": end.to_rfc3339() })).await;
    let status = async || chat(&gateway, &text, json!({ "max_tokens": 5 })).await.status;
    assert_eq!(status().await, 200);
    crate::patience::eventually("it expires", status, |status| *status == 401).await;
    assert!(chrono::Utc::now() >= end);
    let refused = error_of(&chat(&gateway, &text, json!({})).await, 401);
    assert_eq!(refused["metadata"]["reason"], "expired_key");
}

#[actix_web::test]
async fn what_an_account_spent_stays_with_the_team_that_it_was_in_also_after_a_restart() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let teams = async |gateway: &TestGateway| {
        let listed = call(&gateway.admin(), Method::GET, "/api/v1/admin/teams", ADMIN, None).await.expect(200);
        let of = |name: &str| {
            let team = listed["data"].as_array().unwrap().iter().find(|team| team["name"] == name);
            team.unwrap_or_else(|| panic!("{name}: {listed}"))["usage"].clone()
        };
        [of("lab"), of("shop")]
    };
    let spent = [json!(0.17), json!(0.34)];
    {
        let gateway = world(&upstream, &folder).start().await;
        let admin = gateway.admin();
        let put = async |path: &str, body: Value| {
            call(&admin, Method::PUT, &format!("/api/v1/admin/{path}"), ADMIN, Some(body)).await.expect(200)
        };
        let lab = put("teams/lab", json!({ "limit": 1 })).await;
        assert_eq!(lab["data"][0]["limit"], json!(1), "before an account is in it");
        put("teams/shop", json!({})).await;
        let (blue, _) = issue(&gateway, json!({ "name": "b", "account": "blue" })).await;
        let (red, _) = issue(&gateway, json!({ "name": "r", "account": "red" })).await;
        let small = || json!({ "max_tokens": 5 });
        put("accounts/blue", json!({ "team": "lab" })).await;
        chat(&gateway, &blue, small()).await.expect(200);
        put("accounts/blue", json!({ "team": "shop" })).await;
        for key in [&blue, &blue, &red] {
            chat(&gateway, key, small()).await.expect(200);
        }
        // What it spent without a team is no team's.
        put("accounts/red", json!({ "team": "lab" })).await;
        assert_eq!(teams(&gateway).await, spent);
        gateway.stop().await;
    }
    crate::patience::until("the directory is free", || Directory::open(&folder.at("data")).is_ok()).await;
    let gateway = world(&upstream, &folder).start().await;
    assert_eq!(teams(&gateway).await, spent);
}

/// Writes records into the ledger in `folder`, which no gateway uses.
pub(crate) fn write(folder: &Folder, generations: &[Generation]) {
    let bounds = LedgerBounds {
        max_age: Duration::from_secs(86_400),
        max_bytes: 1 << 30,
        sync: false,
        queue: Settings::default().queue,
    };
    let store = Arc::new(GenerationStore::open(&folder.at("data"), bounds).unwrap());
    let mut recorder = store.recorder(1);
    for generation in generations {
        recorder.record(generation, None);
    }
    recorder.write();
    drop(recorder);
    store.entries().flush(Instant::now() + PATIENCE).unwrap();
}

#[actix_web::test]
async fn spending_of_long_ago_stays_counted_although_its_sums_age_out() {
    const DAYS: i64 = 86_400_000;
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let generation = generation_of(&world(&upstream, &folder).start().await).await;
    let old = Folder::new();
    // One of half a year ago, and one on each of so many days after it that the first is not among the latest days.
    let earlier = |day: u64| {
        let created_ms = generation.created_ms - (200 - day as i64) * DAYS;
        let id = GenerationId::new(generation.created_ms as u64 + day, [day, 2, 3]);
        Generation { id, created_ms, ..generation.clone() }
    };
    write(&old, &(0..60).map(earlier).collect::<Vec<_>>());
    for start in 1..4 {
        let gateway = world(&upstream, &old).start().await;
        let key = gateway.get("/api/v1/key").await.expect(200);
        assert_eq!((&key["data"]["usage"], &key["data"]["usage_monthly"]), (&json!(10.2), &json!(0)), "start {start}");
        gateway.stop().await;
        drop(gateway);
        // A gateway in this process lets go of its directory with its last thread.
        crate::patience::until("the directory is free", || Directory::open(&old.at("data")).is_ok()).await;
    }
}

#[actix_web::test]
async fn an_issued_key_may_ask_for_a_least_quality_as_a_key_of_the_configuration_may() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (text, data) = issue(&gateway, json!({ "name": "strict", "min_quality": { "p10": 0.7 } })).await;
    assert_eq!((&data["min_quality"], &data["quality_unknown"]), (&json!({ "p10": 0.7 }), &json!(null)));
    let error = error_of(&chat(&gateway, &text, json!({})).await, 404);
    assert_eq!(error["availability"]["excluded_by"], json!(["quality_unknown"]));
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    for change in [json!({ "quality_unknown": "allow" }), json!({ "quality_unknown": null, "min_quality": null })] {
        call(&gateway, Method::PATCH, &path, ADMIN, Some(change)).await.expect(200);
        chat(&gateway, &text, json!({})).await.expect(200);
    }
}
