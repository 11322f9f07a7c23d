//! Check of the `Host` header against the allowed hosts of the listener: protection against DNS rebinding, in which a
//! web page lets its own host name resolve to this machine.
//!
//! Applies to the gateway's own listeners while they are bound to loopback. Elsewhere, and in a host application, any
//! `Host` is allowed. [`pointsman_config::Hosts`] holds the allowed hosts.

use actix_web::{
    dev::ServiceRequest,
    http::{Version, header},
};
use pointsman_config::{Config, Hosts};

use crate::base::error::ApiError;

/// The gateway's own listener that serves the request, set as application data. Absent in a host application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// Listener of the API.
    Public,
    /// Listener for administration.
    Admin,
}

impl Listener {
    /// The configuration key of the allowed hosts and the hosts; `None` if every host is allowed.
    fn hosts(self, config: &Config) -> Option<(&'static str, &Hosts)> {
        match self {
            Listener::Public => config.server.is_loopback().then_some(("server.hosts", &config.server.hosts)),
            Listener::Admin => config.admin.is_loopback().then_some(("admin.hosts", &config.admin.hosts)),
        }
    }
}

/// Refuses a request for a host that the listener does not allow.
///
/// # Errors
/// 421 Misdirected Request.
pub(crate) fn check(request: &ServiceRequest, config: Option<&Config>) -> Result<(), ApiError> {
    let listener = request.app_data::<Listener>().copied();
    let Some((key, hosts)) = listener.zip(config).and_then(|(listener, config)| listener.hosts(config)) else {
        return Ok(());
    };
    if names_allowed_hosts_only(request, hosts) { Ok(()) } else { Err(ApiError::misdirected(key)) }
}

/// Checks every `Host` header and the authority of the request target. Only HTTP/1.0 may omit `Host`: some health checks
/// do, browsers never do.
fn names_allowed_hosts_only(request: &ServiceRequest, hosts: &Hosts) -> bool {
    let target_is_allowed = request.uri().authority().is_none_or(|authority| hosts.admit(authority.as_str()));
    let mut named = request.headers().get_all(header::HOST).peekable();
    if named.peek().is_none() {
        return target_is_allowed && request.version() <= Version::HTTP_10;
    }
    target_is_allowed && named.all(|host| host.to_str().is_ok_and(|host| hosts.admit(host)))
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

    fn is_allowed(toml: &str, listener: Listener, request: TestRequest) -> bool {
        check(&request.app_data(listener).to_srv_request(), Some(&config(toml))).is_ok()
    }

    #[test]
    fn each_listener_has_its_own_list_of_allowed_hosts() {
        let toml = "[server]\nhosts = [\"front.example\"]\n[admin]\nhosts = [\"back.example\"]";
        let from = |host: &str| TestRequest::get().insert_header(("host", host));
        assert!(is_allowed(toml, Listener::Public, from("front.example")));
        assert!(!is_allowed(toml, Listener::Public, from("back.example")));
        assert!(is_allowed(toml, Listener::Admin, from("back.example:8081")));
        assert!(!is_allowed(toml, Listener::Admin, from("front.example")));
    }

    #[test]
    fn beyond_loopback_and_in_a_host_application_every_host_is_allowed() {
        let open = "[server]\nbind = \"0.0.0.0:8080\"\n[auth]\ndevelopment_key_enabled = false";
        let foreign = || TestRequest::get().insert_header(("host", "gateway.example"));
        assert!(is_allowed(open, Listener::Public, foreign()));
        assert!(!is_allowed(open, Listener::Admin, foreign()), "the listener for administration is on loopback");
        assert!(check(&foreign().to_srv_request(), Some(&config(""))).is_ok());
    }

    #[test]
    fn only_http_1_0_may_omit_the_host() {
        assert!(is_allowed("", Listener::Public, TestRequest::get().version(Version::HTTP_10)));
        assert!(!is_allowed("", Listener::Public, TestRequest::get().version(Version::HTTP_11)));
        let named = TestRequest::get().version(Version::HTTP_10).insert_header(("host", "evil.example"));
        assert!(!is_allowed("", Listener::Public, named));
    }

    #[test]
    fn all_host_headers_and_the_host_in_the_target_are_checked() {
        let both = TestRequest::get().append_header(("host", "localhost")).append_header(("host", "evil.example"));
        assert!(!is_allowed("", Listener::Public, both));
        let target = |uri: &str| TestRequest::get().uri(uri).insert_header(("host", "localhost"));
        assert!(!is_allowed("", Listener::Public, target("http://evil.example/health")));
        assert!(is_allowed("", Listener::Public, target("http://127.0.0.1:8080/health")));
    }
}
