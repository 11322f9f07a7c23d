//! The console's door: login, sessions, forms of foreign pages, security headers.

use actix_web::http::Method;
use serde_json::json;

use crate::harness::{Reply, TestGateway};

pub const ADMIN_KEY: &str = "sk-boss-0123456789abcdef";
/// The policy, literally.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
/// A browser sends no key.
const NO_KEY: (&str, &str) = ("authorization", "");
const CONFIG: &str = "[[keys]]\nname = \"boss\"\nenv = \"BOSS_KEY\"\nscopes = [\"admin\"]\n";

const ENVIRONMENT: [(&str, &str); 2] = [("BOSS_KEY", ADMIN_KEY), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")];

/// A browser at the console of a gateway.
pub struct Browser {
    admin: TestGateway,
    cookie: String,
}

impl Browser {
    pub fn new(gateway: &TestGateway) -> Browser {
        Browser { admin: gateway.admin(), cookie: String::new() }
    }

    /// A browser that is logged in with this key.
    pub async fn logged_in(gateway: &TestGateway, key: &str) -> Browser {
        Browser::logged_in_at(gateway.admin(), key).await
    }

    /// The same at a listener for administration.
    pub async fn logged_in_at(admin: TestGateway, key: &str) -> Browser {
        let mut browser = Browser { admin, cookie: String::new() };
        let reply = browser.log_in(key).await;
        assert_eq!((reply.status, reply.header("location")), (303, Some("./")), "{}", reply.text());
        browser.cookie = cookie(&reply);
        browser
    }

    pub async fn log_in(&self, key: &str) -> Reply {
        self.send(Method::POST, "/console/login", &[SAME, FORM], &format!("key={key}")).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    /// Sends a form as a page of the console does.
    pub async fn post(&self, path: &str, body: &str) -> Reply {
        self.send(Method::POST, path, &[SAME, FORM], body).await
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut all = vec![NO_KEY, ("cookie", self.cookie.as_str())];
        all.extend(headers);
        let body = (!body.is_empty()).then(|| body.as_bytes().to_vec());
        self.admin.call(method, path, &all, body).await
    }

    /// A page that must be there.
    pub async fn page(&self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text()
    }
}

fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {}", reply.text()));
    set.split(';').next().unwrap().to_owned()
}

/// The token of the forms on a page.
pub fn token(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

async fn start() -> TestGateway {
    TestGateway::start_with(CONFIG, &ENVIRONMENT).await
}

#[actix_web::test]
async fn an_administrator_logs_in_sees_pages_and_logs_out() {
    let gateway = start().await;
    let stranger = Browser::new(&gateway);
    for (path, login) in [
        ("/console/", "login"),
        ("/console/about", "login"),
        ("/console/no/such", "../login"),
        ("/console//about", "../login"),
    ] {
        let reply = stranger.get(path).await;
        assert_eq!((reply.status, reply.header("location")), (303, Some(login)), "{path}");
    }
    assert_eq!(stranger.get("/console").await.header("location"), Some("console/"));

    let reply = stranger.log_in(ADMIN_KEY).await;
    let set = reply.header("set-cookie").unwrap().to_owned();
    assert!(set.starts_with("pointsman_console=") && set.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{set}");

    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page("/console/about").await;
    assert!(page.contains(env!("CARGO_PKG_VERSION")), "{page}");
    assert!(!page.contains(ADMIN_KEY), "the key never goes back");

    // Another login in the same browser ends the session before it.
    assert_eq!(browser.log_in(ADMIN_KEY).await.status, 303);
    assert_eq!(browser.get("/console/about").await.status, 303);

    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page("/console/about").await;
    let reply = browser.post("/console/logout", &format!("token={}", token(&page))).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("login")));
    assert!(reply.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(browser.get("/console/about").await.status, 303, "the server forgot the session");
}

#[actix_web::test]
async fn only_a_valid_key_with_the_scope_admin_opens_the_console() {
    let gateway = start().await;
    let browser = Browser::new(&gateway);
    for (key, status) in [("sk-wrong-0123456789abcdef", 401), (crate::harness::KEY, 403), ("", 401)] {
        let reply = browser.log_in(key).await;
        assert_eq!(reply.status, status, "{key}");
        assert!(reply.header("set-cookie").is_none() && !reply.text().contains("sk-"), "{}", reply.text());
        assert!(reply.text().contains("role=\"alert\""), "{}", reply.text());
    }
    // Nothing but the form of a login is read.
    let get = browser.get(&format!("/console/login?key={ADMIN_KEY}")).await;
    assert_eq!((get.status, get.header("allow"), get.header("set-cookie")), (405, Some("POST"), None));
    assert!(!get.text().contains(ADMIN_KEY));
    let header = format!("Bearer {ADMIN_KEY}");
    let reply = gateway.admin().call(Method::GET, "/console/about", &[("authorization", &header)], None).await;
    assert_eq!(reply.status, 303, "a key in a header opens no page");
}

#[actix_web::test]
async fn after_five_wrong_logins_even_the_right_key_is_not_checked() {
    let gateway = start().await;
    let browser = Browser::new(&gateway);
    for n in 0..5 {
        assert_eq!(browser.log_in("sk-wrong-0123456789abcdef").await.status, 401, "{n}");
    }
    let reply = browser.log_in(ADMIN_KEY).await;
    assert_eq!(reply.status, 429);
    assert!(reply.header("retry-after").is_some() && reply.header("set-cookie").is_none());
}

#[actix_web::test]
async fn forms_of_foreign_pages_and_replayed_forms_change_nothing() {
    let gateway = start().await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let form = format!("token={}", token(&browser.page("/console/about").await));
    for headers in [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "http://evil.example")],
        vec![("origin", "null")],
        vec![],
    ] {
        for (path, body) in [("/console/logout", form.as_str()), ("/console/login", "key=sk-boss-0123456789abcdef")] {
            let headers: Vec<_> = headers.iter().copied().chain([FORM]).collect();
            let reply = browser.send(Method::POST, path, &headers, body).await;
            assert_eq!((reply.status, reply.header("set-cookie")), (403, None), "{path} {headers:?}");
        }
    }
    for body in ["", "token=", "token=0123456789abcdef"] {
        assert!([400, 403].contains(&browser.post("/console/logout", body).await.status), "{body:?}");
    }
    browser.page("/console/about").await;

    // The form of an earlier session.
    let other = Browser::logged_in(&gateway, ADMIN_KEY).await;
    assert_eq!(other.post("/console/logout", &form).await.status, 403);
    other.page("/console/about").await;
    let origin = format!("http://{}", gateway.admin().address);
    let same = [("origin", origin.as_str()), FORM];
    assert_eq!(browser.send(Method::POST, "/console/logout", &same, &form).await.status, 303);
    assert_eq!(browser.post("/console/logout", &form).await.header("location"), Some("login"), "replayed");
}

#[actix_web::test]
async fn every_answer_has_the_security_headers_and_only_files_with_a_digest_are_kept() {
    let gateway = start().await;
    let stranger = Browser::new(&gateway);
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let page = browser.page("/console/about").await;
    let (_, rest) = page.split_once("assets/").unwrap();
    let hash = rest.split('/').next().unwrap();
    let evil = stranger.send(Method::GET, "/console/login", &[("host", "evil.example")], "").await;
    assert_eq!(evil.status, 421);
    for reply in [
        stranger.get("/console").await,
        stranger.get("/console/").await,
        stranger.get("/console/login").await,
        stranger.get("/console/assets/0/console.js").await,
        stranger.log_in("").await,
        browser.get("/console/about").await,
        browser.get("/console/no-such").await,
        browser.send(Method::DELETE, "/console/about", &[SAME], "").await,
        browser.get(&format!("/console/assets/{hash}/console.css")).await,
        evil,
    ] {
        assert_eq!(reply.header("content-security-policy"), Some(POLICY), "{}", reply.text());
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.header("cross-origin-opener-policy"), Some("same-origin"));
        let is_file = reply.header("content-type").is_some_and(|kind| kind.starts_with("text/css"));
        let kept = if is_file { "public, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(reply.header("cache-control"), Some(kept), "{}", reply.text());
    }
    assert_eq!(browser.get("/console/no-such").await.status, 404);
    assert_eq!(browser.send(Method::DELETE, "/console/about", &[SAME], "").await.status, 405);
}

#[actix_web::test]
async fn the_session_ends_with_its_key() {
    let gateway = start().await;
    let browser = Browser::logged_in(&gateway, ADMIN_KEY).await;
    browser.page("/console/about").await;
    // The administrator's key is another one now.
    gateway.adopt(CONFIG, &[("BOSS_KEY", "sk-next-0123456789abcdef"), ENVIRONMENT[1]]).await;
    assert_eq!(browser.get("/console/about").await.header("location"), Some("login"));
    gateway.adopt(CONFIG, &ENVIRONMENT).await;
    assert_eq!(browser.get("/console/about").await.status, 303, "the session does not come back");
}

#[actix_web::test]
async fn a_key_that_is_disabled_or_expired_opens_nothing_any_more() {
    let second = "[[keys]]\nname = \"second\"\nenv = \"SECOND_KEY\"\nscopes = [\"admin\"]\n";
    let environment = [ENVIRONMENT[0], ENVIRONMENT[1], ("SECOND_KEY", "sk-second-0123456789abcdef")];
    let gateway = TestGateway::start_with(&format!("{CONFIG}{second}"), &environment).await;
    let browser = Browser::logged_in(&gateway, "sk-second-0123456789abcdef").await;
    browser.page("/console/about").await;
    let header = format!("Bearer {ADMIN_KEY}");
    let path = "/api/v1/admin/keys/second/disable";
    let disabled = gateway.admin().call(Method::POST, path, &[("authorization", &header)], None).await;
    assert_eq!(disabled.status, 200, "{}", disabled.text());
    assert_eq!(browser.get("/console/about").await.header("location"), Some("login"));
    assert_eq!(browser.log_in("sk-second-0123456789abcdef").await.status, 401);

    let boss = Browser::logged_in(&gateway, ADMIN_KEY).await;
    let expired = CONFIG.replace("scopes", "expires_at = 2020-01-01\nscopes");
    gateway.adopt(&format!("{expired}{second}"), &environment).await;
    assert_eq!(boss.get("/console/about").await.header("location"), Some("login"));
}

#[actix_web::test]
async fn the_console_is_on_the_admin_listener_only_and_can_be_switched_off() {
    let gateway = start().await;
    for path in ["/console", "/console/", "/console/login"] {
        assert_eq!(gateway.get(path).await.status, 404, "{path}");
    }
    gateway.adopt(&format!("{CONFIG}[console]\nenabled = false\n"), &ENVIRONMENT).await;
    let reply = Browser::new(&gateway).get("/console/login").await;
    assert_eq!(reply.expect(404)["error"]["metadata"]["reason"], json!("unknown_path"));
}
