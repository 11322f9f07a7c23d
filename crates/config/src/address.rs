//! The base URL of a provider.

use std::fmt;

use http::Uri;
use rustls::pki_types::ServerName;

/// A URL with the scheme `http` or `https`, a host, and a path that the API's paths are appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    tls: bool,
    host: String,
    port: u16,
}

/// Why a text is not a base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseUrlFault(&'static str);

impl fmt::Display for BaseUrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl BaseUrl {
    /// Description of a base URL, for messages.
    pub const SHAPE: &'static str = "a URL such as \"https://api.example.com/v1\"";

    /// Parses a URL.
    ///
    /// # Errors
    /// When it has no scheme or host, or has a user, a password or a fragment.
    pub fn parse(text: &str) -> Result<BaseUrl, BaseUrlFault> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(BaseUrlFault("needs a scheme, such as https://"));
        };
        let tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(BaseUrlFault("has a scheme other than http and https")),
        };
        if rest.contains('#') {
            return Err(BaseUrlFault("has a fragment"));
        }
        let uri: Uri = text.parse().map_err(|_| BaseUrlFault("is not a URL"))?;
        let authority = uri.authority().ok_or(BaseUrlFault("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(BaseUrlFault("has a user or a password"));
        }
        let host = authority.host();
        if ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']')).is_err() {
            return Err(BaseUrlFault("has no valid host"));
        }
        let shown = authority.as_str();
        let named_port = shown.strip_prefix(host).is_some_and(|rest| !rest.is_empty());
        let port = match authority.port_u16() {
            Some(0) => return Err(BaseUrlFault("has the port 0")),
            None if named_port => return Err(BaseUrlFault("has a port that is not a number from 1 to 65535")),
            port => port.unwrap_or(if tls { 443 } else { 80 }),
        };
        let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
        let text = format!("{scheme}://{authority}{}{query}", uri.path().trim_end_matches('/'));
        Ok(BaseUrl { text, tls, host: host.to_owned(), port })
    }

    /// The URL, without a slash at the end of its path. Its query is sent with every call.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path, without a slash at its end.
    pub fn path(&self) -> &str {
        let address = self.text.split('?').next().unwrap_or_default();
        address.split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..))).unwrap_or_default()
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host; an IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; the default port of the scheme if the URL has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether Google's own models at Vertex AI are below it.
    pub fn is_of_google_at_vertex(&self) -> bool {
        self.text.split('?').next().is_some_and(|address| address.ends_with("/publishers/google"))
    }

    /// Whether the host is `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = BaseUrl::parse(text).map_or_else(|fault| fault.to_string(), |url| url.to_string());
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn base_urls_lose_the_slash_at_their_end() {
        check("https://api.example.com/v1/", "https://api.example.com/v1");
        check("https://api.example.com:443/v1", "https://api.example.com:443/v1");
        check("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1");
        check("http://[::1]:8000/", "http://[::1]:8000");
        check("https://example.com/openai/?version=2", "https://example.com/openai?version=2");
    }

    #[test]
    fn without_a_port_the_default_port_of_the_scheme_is_used() {
        for (text, port) in [("https://h/v1", 443), ("http://h", 80), ("http://h:8000", 8000), ("http://[::1]", 80)] {
            assert_eq!(BaseUrl::parse(text).map(|url| url.port()), Ok(port), "{text}");
        }
    }

    #[test]
    fn an_invalid_base_url_is_refused_with_the_reason() {
        check("api.example.com/v1", "needs a scheme, such as https://");
        check("ftp://example.com", "has a scheme other than http and https");
        check("https://me:secret@example.com/v1", "has a user or a password");
        check("https://example.com/v1#part", "has a fragment");
        check("https://-._/v1", "has no valid host");
        check("https://", "is not a URL");
        check("https://exa mple.com", "is not a URL");
        check("https://example.com:0/v1", "has the port 0");
        check("https://example.com:99999/v1", "has a port that is not a number from 1 to 65535");
    }

    #[test]
    fn loopback_is_detected_by_name_and_by_address() {
        for (text, loopback) in [
            ("http://localhost:1/v1", true),
            ("http://[::1]:1/v1", true),
            ("http://127.3.2.1/v1", true),
            ("http://10.0.0.1/v1", false),
        ] {
            assert_eq!(BaseUrl::parse(text).is_ok_and(|url| url.is_loopback()), loopback, "{text}");
        }
    }
}
