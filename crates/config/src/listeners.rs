//! Where a gateway with this configuration listens, for commands that ask the gateway beside them.
//!
//! Whatever else is wrong with the file does not matter: a gateway goes on with the configuration that it read, and the file may
//! have changed since.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use super::{
    AdminConfig, Environment, Fault, Identity, ServerConfig, Surroundings, complete, fault::Faults, files::Files,
    origin::Origin, section::Section, server::is_loopback, tree,
};

/// The addresses of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// `server.bind`.
    pub server: SocketAddr,
    /// `admin.bind`; `None` without a listener.
    pub admin: Option<SocketAddr>,
    /// Whether there is a certificate for the server.
    pub has_tls: bool,
    /// The certificate, if its files can be read.
    pub identity: Option<Identity>,
}

impl Listeners {
    /// Reads the addresses from the file at `path` and the environment as a start of the gateway does.
    ///
    /// # Errors
    /// The file cannot be read, or an address in it.
    pub fn read(path: Option<&Path>, environment: &Environment) -> Result<Listeners, Vec<Fault>> {
        let origin = Origin::new(path, environment);
        let (text, name) = origin.text()?;
        let (faults, files) = (Faults::default(), Files::default());
        let tree = tree::read(&text, &name, &faults);
        if !faults.is_empty() {
            return Err(faults.into_sorted());
        }
        let tree = complete(tree, environment, &faults);
        let directory = origin.directory();
        let surroundings = Surroundings { directory, environment, files: &files };
        let listeners = Section::root(&tree, &faults, |root| {
            let (has_tls, (server, tls)) =
                root.section("server", |section| (section.has("tls"), super::read_server(section, &surroundings)));
            let admin = root.section("admin", |section| AdminConfig::read_bind(section, "bind"));
            let ServerConfig { bind: server, .. } = server;
            Listeners { server, admin, has_tls, identity: tls.flatten().map(|tls| tls.identity) }
        });
        let mut faults = faults.into_sorted();
        faults.retain(|fault| ["server.bind", "admin.bind"].contains(&&*fault.key));
        if faults.is_empty() { Ok(listeners) } else { Err(faults) }
    }

    /// The URLs under which this machine reaches the server, the likelier first. None if the system chose the port.
    pub fn server_urls(&self) -> Vec<String> {
        urls(self.server, self.has_tls)
    }

    /// The same of the admin listener, which speaks TLS outside of loopback only. None without one.
    pub fn admin_urls(&self) -> Vec<String> {
        self.admin.map_or_else(Vec::new, |admin| urls(admin, self.has_tls && !is_loopback(admin)))
    }
}

fn urls(address: SocketAddr, has_tls: bool) -> Vec<String> {
    let hosts: &[IpAddr] = match address.ip() {
        _ if address.port() == 0 => &[],
        IpAddr::V4(ip) if ip.is_unspecified() => &[IpAddr::V4(Ipv4Addr::LOCALHOST)],
        // It hears IPv4 too, and there may be no IPv6 loopback.
        IpAddr::V6(ip) if ip.is_unspecified() => &[IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)],
        ip => &[ip],
    };
    let scheme = if has_tls { "https" } else { "http" };
    hosts.iter().map(|host| format!("{scheme}://{}", SocketAddr::new(*host, address.port()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_asked_on_loopback_and_other_faults_of_the_file_do_not_matter() {
        let folder = std::env::temp_dir().join(format!("pointsman-listeners-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("config.toml");
        let urls = |text: &str, variables: &[(&str, &str)]| {
            std::fs::write(&path, text).unwrap();
            let environment: Environment = variables.iter().copied().collect();
            let listeners = Listeners::read(Some(&path), &environment).map_err(|faults| faults[0].to_string())?;
            Ok::<_, String>((listeners.server_urls(), listeners.admin_urls().pop()))
        };
        let of = |server: &[&str], admin: Option<&str>| {
            let server = server.iter().map(|url| (*url).to_owned()).collect();
            Ok((server, admin.map(str::to_owned)))
        };
        let admin = Some("http://127.0.0.1:8081");
        assert_eq!(urls("[server]\nbind = \"0.0.0.0:9\"\nnonsense = 1\n", &[]), of(&["http://127.0.0.1:9"], admin));
        let both = of(&["http://[::1]:9", "http://127.0.0.1:9"], None);
        assert_eq!(urls("[server]\nbind = \"[::]:9\"\n[admin]\nbind = \"\"\n", &[]), both);
        let variable = [("POINTSMAN__SERVER__BIND", "10.1.2.3:9")];
        assert_eq!(urls("[server]\nbind = \"0.0.0.0:8\"\n", &variable), of(&["http://10.1.2.3:9"], admin));
        let with_tls = "[server]\n[server.tls]\ncertificate = \"none.pem\"\nkey = \"none.key\"\n";
        assert_eq!(urls(with_tls, &[]), of(&["https://127.0.0.1:8080"], admin));
        let outside = format!("{with_tls}[admin]\nbind = \"0.0.0.0:9\"\n");
        assert_eq!(urls(&outside, &[]), of(&["https://127.0.0.1:8080"], Some("https://127.0.0.1:9")));
        assert_eq!(urls("[server]\nbind = \"127.0.0.1:0\"\n", &[]), of(&[], admin));
        let fault = urls("[server]\nbind = \"here\"\n", &[]).unwrap_err();
        assert!(fault.contains("server.bind"), "{fault}");
        assert!(urls("[server\n", &[]).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
