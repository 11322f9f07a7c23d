//! Hosts that a loopback listener accepts: `hosts` in `[server]` and in `[admin]`.
//!
//! Protection against DNS rebinding: a web page can let its own domain name resolve to 127.0.0.1, but the browser still
//! sends that name in `Host`. A loopback listener accepts `localhost`, loopback addresses and the hosts of this list.

use std::net::{IpAddr, Ipv6Addr};

use super::section::{Item, Section};

/// Longest list of hosts.
const MAX_HOSTS: usize = 256;

/// The configured hosts. `localhost` and loopback addresses are always accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Host>);

/// A host without its port.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// In canonical form: `::ffff:127.0.0.1` is `127.0.0.1`.
    Address(IpAddr),
    /// In lower case, without a final dot.
    Name(String),
}

impl Hosts {
    pub(super) fn read(section: &Section<'_>, key: &'static str) -> Hosts {
        let items = section.texts(key, MAX_HOSTS).unwrap_or_default();
        Hosts(items.iter().filter_map(listed).collect())
    }

    /// Whether a request may name this host: the value of its `Host` header, or the authority of its target.
    pub fn admit(&self, written: &str) -> bool {
        let Some(host) = without_port(written.trim_matches([' ', '\t'])).and_then(Host::parse) else { return false };
        host.is_this_machine() || self.0.contains(&host)
    }
}

/// The host of an item in the list. A port is a fault, because it would have no effect.
fn listed(item: &Item<'_>) -> Option<Host> {
    let bare = item.text.parse::<Ipv6Addr>().map(IpAddr::from).ok().map(Host::address);
    let host = bare.or_else(|| Host::parse(item.text));
    if host.is_none() {
        let allowed =
            "a host name or an address without scheme, port, path and wildcard, such as \"gateway.example.com\"";
        item.fault("is not a host", allowed);
    }
    host
}

/// The part before the port. `None` when the port is malformed.
fn without_port(written: &str) -> Option<&str> {
    let start = if written.starts_with('[') { written.rfind(']')? } else { 0 };
    let colon = written.get(start..)?.find(':').map(|at| start + at);
    let Some(colon) = colon else { return Some(written) };
    let (host, port) = written.split_at_checked(colon)?;
    let digits = port.strip_prefix(':')?;
    (digits.is_empty() || (digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok())).then_some(host)
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Host::address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if let Ok(IpAddr::V4(address)) = name.parse() {
            return Some(Host::address(address.into()));
        }
        let label = |label: &str| !label.is_empty() && label.bytes().all(is_in_names);
        (name.len() <= 253 && name.split('.').all(label)).then(|| Host::Name(name.to_ascii_lowercase()))
    }

    fn address(address: IpAddr) -> Host {
        Host::Address(address.to_canonical())
    }

    fn is_this_machine(&self) -> bool {
        match self {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
    }
}

const fn is_in_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(listed: &[&str], host: &str, admitted: bool) {
        let parse = |text: &&str| Host::parse(text).unwrap();
        let hosts = Hosts(listed.iter().map(parse).collect());
        assert_eq!(hosts.admit(host), admitted, "{host:?} with {listed:?}");
    }

    #[test]
    fn this_machine_is_admitted_under_its_own_names_with_any_port() {
        for host in [
            "localhost",
            "LocalHost",
            "localhost.",
            "localhost:8080",
            "localhost:",
            "LOCALHOST.:80",
            "127.0.0.1",
            "127.0.0.1:65535",
            "127.8.9.10:1",
            "127.0.0.1.",
            "[::1]",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]:8080",
            "[::ffff:127.0.0.1]:8080",
            " localhost\t",
        ] {
            check(&[], host, true);
        }
    }

    #[test]
    fn every_other_host_is_refused_and_so_is_what_only_looks_like_this_machine() {
        for host in [
            "",
            " ",
            ".",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "evil.localhost",
            "localhost..",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io:8080",
            "127.1",
            "0177.0.0.1",
            "2130706433",
            "0x7f000001",
            "0.0.0.0:8080",
            "192.168.0.1",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:8080:1",
            "[::1%25lo]",
            "[::]",
            "[fe80::1]",
            "localhost:80a",
            "localhost:99999",
            "localhost:80:80",
            "localhost@evil.example",
            "evil.example@localhost",
            "localhost/evil",
            "localhost,evil.example",
            "http://localhost",
            "\u{212a}localhost",
        ] {
            check(&[], host, false);
        }
    }

    #[test]
    fn a_listed_host_is_admitted_whatever_its_case_port_and_last_dot_and_no_host_below_it() {
        let listed = ["Gateway.Example.com", "192.168.0.1", "[fd00::1]"];
        for host in
            ["gateway.example.com", "GATEWAY.example.COM.:443", "192.168.0.1:8080", "[FD00:0::1]:1", "localhost"]
        {
            check(&listed, host, true);
        }
        for host in ["a.gateway.example.com", "example.com", "192.168.0.2", "[fd00::2]"] {
            check(&listed, host, false);
        }
    }
}
