//! PostgreSQL, PgBouncer and Redis of Debian's packages, started on free ports, killed and brought back.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use tokio::net::TcpSocket;

/// Longest wait for a store to start.
const START: Duration = Duration::from_secs(60);

/// A store in a folder of its own.
pub(crate) struct Store {
    kind: Kind,
    folder: PathBuf,
    port: u16,
    /// Speaks TLS only, and asks for [`PASSWORD`].
    has_tls: bool,
    _reserved: TcpSocket,
    child: Option<Child>,
}

/// Password of stores with TLS.
pub(crate) const PASSWORD: &str = "store-5ec2e7";

/// A certificate in PEM, and its key.
pub(crate) struct Certificate {
    pub(crate) chain: String,
    pub(crate) key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Postgres,
    Pgbouncer,
    Redis,
}

/// Where Debian puts PgBouncer.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// Where Debian puts the programs of PostgreSQL.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.sort();
    found.into_iter().rev().find(|programs| programs.join("initdb").exists())
}

fn is_installed(kind: Kind) -> bool {
    let found = match kind {
        Kind::Postgres => postgres_programs().is_some(),
        Kind::Pgbouncer => Path::new(PGBOUNCER).exists(),
        Kind::Redis => Path::new("/usr/bin/redis-server").exists(),
    };
    assert!(found || std::env::var_os("CI").is_none(), "{kind:?} is not installed: see .ci/run");
    if !found {
        eprintln!("skipped: {kind:?} is not installed (apt-get install postgresql pgbouncer redis-server)");
    }
    found
}

/// A running PostgreSQL, or `None` where it is not installed.
pub(crate) fn postgres() -> Option<Store> {
    Store::start_new(Kind::Postgres, None)
}

/// A PgBouncer in front of a PostgreSQL without TLS, with two connections to it and these settings, or `None` where it is not
/// installed.
pub(crate) fn pgbouncer(postgres: &Store, settings: &str) -> Option<Store> {
    let mut store = Store::prepare(Kind::Pgbouncer, None)?;
    let (port, behind) = (store.port, postgres.port);
    put_private(&store.folder.join("users"), "\"pointsman\" \"\"\n");
    let file = format!(
        "[databases]\n* = host=127.0.0.1 port={behind}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = users\ndefault_pool_size = 2\n{settings}\n"
    );
    put_private(&store.folder.join("pgbouncer.ini"), &file);
    give_away(&store.folder);
    store.start();
    Some(store)
}

/// A running Redis that keeps its data, or `None` where it is not installed.
pub(crate) fn redis() -> Option<Store> {
    Store::start_new(Kind::Redis, None)
}

/// A PostgreSQL that takes only connections with TLS and a password, and shows this certificate.
pub(crate) fn postgres_with_tls(certificate: &Certificate) -> Option<Store> {
    Store::start_new(Kind::Postgres, Some(certificate))
}

/// A Redis that takes only connections with TLS and a password, and shows this certificate.
pub(crate) fn redis_with_tls(certificate: &Certificate) -> Option<Store> {
    Store::start_new(Kind::Redis, Some(certificate))
}

/// A port for a store, held as long as the socket lives: no listener of another test gets it while the store is down. The
/// store itself can listen on it, because both sides set `SO_REUSEADDR`.
fn reserved_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// The program, as a user that is not root: PostgreSQL refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

/// A file that only its owner may read, as PostgreSQL demands of keys.
fn put_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Gives a folder to the user of the programs, for a root that gives its rights up.
fn give_away(folder: &Path) {
    let _ = Command::new("chown").args(["-R", "postgres:postgres"]).arg(folder).stderr(Stdio::null()).status();
}

/// The files of an empty PostgreSQL. One for TLS refuses connections without it.
fn make_database(folder: &Path, has_tls: bool) {
    let mut initdb = unprivileged(&postgres_programs().unwrap().join("initdb"));
    initdb.args(["--no-sync", "-U", "pointsman", "-E", "UTF8", "--locale=C", "-D"]).arg(folder.join("data"));
    match has_tls {
        true => initdb.args(["-A", "scram-sha-256", "--pwfile", "password"]),
        false => initdb.args(["-A", "trust"]),
    };
    let made = initdb.current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    if has_tls {
        fs::write(folder.join("data/pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    }
}

impl Store {
    fn start_new(kind: Kind, certificate: Option<&Certificate>) -> Option<Store> {
        let mut store = Store::prepare(kind, certificate)?;
        store.start();
        Some(store)
    }

    /// A store with its port and its files, which does not run.
    fn prepare(kind: Kind, certificate: Option<&Certificate>) -> Option<Store> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !is_installed(kind) {
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pointsman-{kind:?}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        if let Some(certificate) = certificate {
            put_private(&folder.join("server.pem"), &certificate.chain);
            put_private(&folder.join("server.key"), &certificate.key);
            put_private(&folder.join("password"), PASSWORD);
        }
        if kind == Kind::Postgres {
            give_away(&folder);
            make_database(&folder, certificate.is_some());
        }
        let reserved = reserved_port();
        let port = reserved.local_addr().unwrap().port();
        Some(Store { kind, folder, port, has_tls: certificate.is_some(), _reserved: reserved, child: None })
    }

    /// Brings it back, on its port and with its data, and waits until it answers.
    pub(crate) fn start(&mut self) {
        let begun = Instant::now();
        while !self.try_start() {
            assert!(begun.elapsed() < START, "{:?} does not start: {}", self.kind, self.log());
        }
    }

    fn try_start(&mut self) -> bool {
        let log = || fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut command = unprivileged(&postgres_programs().unwrap().join("postgres"));
                command.arg("-D").arg(self.folder.join("data")).args(["-p", &self.port.to_string()]);
                for setting in
                    ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=30"]
                {
                    command.args(["-c", setting]);
                }
                if self.has_tls {
                    for setting in ["ssl=on", "ssl_cert_file=../server.pem", "ssl_key_file=../server.key"] {
                        command.args(["-c", setting]);
                    }
                }
                command
            }
            Kind::Pgbouncer => {
                let mut command = unprivileged(Path::new(PGBOUNCER));
                command.arg("pgbouncer.ini");
                command
            }
            Kind::Redis => {
                let mut command = Command::new("/usr/bin/redis-server");
                let port = self.port.to_string();
                if self.has_tls {
                    command.args([
                        "--port",
                        "0",
                        "--tls-port",
                        &port,
                        "--tls-auth-clients",
                        "no",
                        "--requirepass",
                        PASSWORD,
                    ]);
                    command.args([
                        "--tls-cert-file",
                        "server.pem",
                        "--tls-key-file",
                        "server.key",
                        "--loglevel",
                        "verbose",
                    ]);
                    command.args(["--tls-ca-cert-file", "server.pem"]);
                } else {
                    command.args(["--port", &port]);
                }
                command.args(["--bind", "127.0.0.1", "--appendonly", "yes", "--save", "", "--dir"]).arg(&self.folder);
                command
            }
        };
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log()).stderr(log()).process_group(0);
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() && begun.elapsed() < START {
            if self.answers() {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    fn answers(&self) -> bool {
        match self.kind {
            Kind::Postgres | Kind::Pgbouncer => self.ask("select 1").as_deref() == Some("1"),
            Kind::Redis => self.ask("ping").as_deref() == Some("PONG"),
        }
    }

    /// The answer to a question, as psql and redis-cli print it.
    pub(crate) fn ask(&self, question: &str) -> Option<String> {
        let port = self.port.to_string();
        let mut command = match self.kind {
            Kind::Postgres | Kind::Pgbouncer => {
                let mut command = Command::new(postgres_programs()?.join("psql"));
                command.env("PGPASSWORD", PASSWORD).args([
                    "-h",
                    "127.0.0.1",
                    "-p",
                    &port,
                    "-U",
                    "pointsman",
                    "-d",
                    "postgres",
                    "-At",
                    "-c",
                    question,
                ]);
                command
            }
            Kind::Redis => {
                let mut command = Command::new("redis-cli");
                if self.has_tls {
                    command.args(["--tls", "--insecure", "--no-auth-warning", "-a", PASSWORD]);
                }
                command.args(["-p", &port]).args(question.split(' '));
                command
            }
        };
        let output = command.stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// What it wrote to its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills it without a word to its clients. PostgreSQL's processes are a group of their own.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let line = format!("kill -KILL -{}", child.id());
        let _ = Command::new("sh").args(["-c", &line]).stderr(Stdio::null()).status();
        let _ = child.wait();
    }

    /// Kills it and takes its data away.
    pub(crate) fn wipe(&mut self) {
        self.kill();
        assert_eq!(self.kind, Kind::Redis);
        let _ = fs::remove_dir_all(self.folder.join("appendonlydir"));
    }

    /// Its address, for the configuration.
    pub(crate) fn url(&self) -> String {
        match self.kind {
            Kind::Postgres if self.has_tls => {
                format!("postgres://pointsman:{PASSWORD}@127.0.0.1:{}/postgres?sslmode=require", self.port)
            }
            Kind::Postgres | Kind::Pgbouncer => {
                format!("postgres://pointsman@127.0.0.1:{}/postgres?sslmode=disable", self.port)
            }
            Kind::Redis if self.has_tls => format!("rediss://:{PASSWORD}@127.0.0.1:{}/0", self.port),
            Kind::Redis => format!("redis://127.0.0.1:{}/0", self.port),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
