//! Whether a request names a host that its listener answers to: protection against web pages that have their own name
//! point to this machine (DNS rebinding).
//!
//! Checked on listeners of our own while they are on loopback; elsewhere, and in an application of somebody else, `Host`
//! is whatever the way there needs. Which hosts are good is in [`crate::config::Hosts`].

use actix_web::{
    dev::ServiceRequest,
    http::{Version, header},
};

use crate::{
    base::error::ApiError,
    config::{Config, Hosts},
};

/// Which of our own listeners an application stands on, as a piece of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// For callers.
    Public,
    /// For administrators.
    Admin,
}

impl Listener {
    /// The key of the list, and the list; `None` where every host is good.
    fn hosts(self, config: &Config) -> Option<(&'static str, &Hosts)> {
        match self {
            Listener::Public => config.server.is_loopback().then_some(("server.hosts", &config.server.hosts)),
            Listener::Admin => config.admin.is_loopback().then_some(("admin.hosts", &config.admin.hosts)),
        }
    }
}

/// Refuses a request that names a host which its listener does not answer to.
///
/// # Errors
/// 421.
pub(crate) fn check(request: &ServiceRequest, config: Option<&Config>) -> Result<(), ApiError> {
    let listener = request.app_data::<Listener>().copied();
    let Some((key, hosts)) = listener.zip(config).and_then(|(listener, config)| listener.hosts(config)) else {
        return Ok(());
    };
    if names_good_hosts_only(request, hosts) { Ok(()) } else { Err(ApiError::misdirected(key)) }
}

/// The target may name a host as well as the header, and each counts. Only HTTP/1.0 may leave the host out: health
/// checks do, no browser does.
fn names_good_hosts_only(request: &ServiceRequest, hosts: &Hosts) -> bool {
    let target = request.uri().authority().is_none_or(|authority| hosts.admit(authority.as_str()));
    let mut named = request.headers().get_all(header::HOST).peekable();
    if named.peek().is_none() {
        return target && request.version() <= Version::HTTP_10;
    }
    target && named.all(|host| host.to_str().is_ok_and(|host| hosts.admit(host)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use actix_web::test::TestRequest;

    use super::*;

    fn config(toml: &str) -> Config {
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        Config::parse(&format!("[simulation]\nmode = \"off\"\n{toml}"), "test", Path::new("."), &environment).unwrap()
    }

    fn is_good(toml: &str, listener: Listener, request: TestRequest) -> bool {
        check(&request.app_data(listener).to_srv_request(), Some(&config(toml))).is_ok()
    }

    #[test]
    fn each_listener_has_a_list_of_its_own() {
        let toml = "[server]\nhosts = [\"front.example\"]\n[admin]\nhosts = [\"back.example\"]";
        let from = |host: &str| TestRequest::get().insert_header(("host", host));
        assert!(is_good(toml, Listener::Public, from("front.example")));
        assert!(!is_good(toml, Listener::Public, from("back.example")));
        assert!(is_good(toml, Listener::Admin, from("back.example:8081")));
        assert!(!is_good(toml, Listener::Admin, from("front.example")));
    }

    #[test]
    fn beyond_loopback_and_in_an_application_of_somebody_else_every_host_is_good() {
        let open = "[server]\nbind = \"0.0.0.0:8080\"\n[auth]\ndevelopment_key_enabled = false";
        let stranger = || TestRequest::get().insert_header(("host", "gateway.example"));
        assert!(is_good(open, Listener::Public, stranger()));
        assert!(!is_good(open, Listener::Admin, stranger()), "the listener for administration is on loopback");
        assert!(check(&stranger().to_srv_request(), Some(&config(""))).is_ok());
    }

    #[test]
    fn only_http_1_0_may_leave_the_host_out() {
        assert!(is_good("", Listener::Public, TestRequest::get().version(Version::HTTP_10)));
        assert!(!is_good("", Listener::Public, TestRequest::get().version(Version::HTTP_11)));
        let named = TestRequest::get().version(Version::HTTP_10).insert_header(("host", "evil.example"));
        assert!(!is_good("", Listener::Public, named));
    }

    #[test]
    fn every_host_that_is_named_counts_also_the_one_in_the_target() {
        let both = TestRequest::get().append_header(("host", "localhost")).append_header(("host", "evil.example"));
        assert!(!is_good("", Listener::Public, both));
        let target = |uri: &str| TestRequest::get().uri(uri).insert_header(("host", "localhost"));
        assert!(!is_good("", Listener::Public, target("http://evil.example/health")));
        assert!(is_good("", Listener::Public, target("http://127.0.0.1:8080/health")));
    }
}
