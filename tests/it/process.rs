//! The built binary as a process of its own: started, listened to, told to stop.

use std::{
    io::{BufRead, BufReader, Read},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use crate::{
    folder::Folder,
    harness::{NO_ADMIN, NO_LEDGER, TestGateway},
    patience::{eventually, on_this_thread},
};

/// Where a server listens before it has said so.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A configuration file that goes with the test.
pub(crate) struct ConfigFile {
    path: PathBuf,
    _folder: Folder,
}

impl ConfigFile {
    /// Writes one in a directory of its own.
    pub(crate) fn new(text: &str) -> ConfigFile {
        let folder = Folder::new();
        folder.put("config.toml", text);
        ConfigFile { path: folder.at("config.toml"), _folder: folder }
    }

    /// Its path, for the command line.
    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// The binary with these arguments and nothing else in its environment.
fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    // No `config.toml` of this repository in its way.
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).args(arguments).env_clear();
    command.envs([NO_ADMIN, NO_LEDGER]).envs(environment.iter().copied());
    command
}

/// Runs the binary to its end.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    command(arguments, environment).stdin(Stdio::null()).output().unwrap()
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// Where it says it listens.
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a server and waits until it has greeted.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        Process::launch(command(arguments, environment))
    }

    /// The same, with at most so many descriptors open.
    pub(crate) fn start_with_descriptors(most: u32, arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        let mut shell = Command::new("sh");
        let line = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_pointsman")]).args(arguments);
        shell.current_dir(env!("CARGO_TARGET_TMPDIR")).env_clear().envs([NO_LEDGER]).envs(environment.iter().copied());
        Process::launch(shell)
    }

    /// The same, with a log that nobody reads.
    pub(crate) fn start_unread(arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        Process::launch_with(command(arguments, environment), false)
    }

    fn launch(command: Command) -> Process {
        Process::launch_with(command, true)
    }

    fn launch_with(mut command: Command, reads_log: bool) -> Process {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let mut readers = vec![collect(child.stdout.take().unwrap(), &stdout)];
        // What is not read stays open with the child.
        readers.extend(child.stderr.take_if(|_| reads_log).map(|log| collect(log, &stderr)));
        let mut process = Process { child, stdout, stderr, readers, address: NOWHERE };
        let greeting = || {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended with {ended:?}: {}{}", process.stdout(), process.stderr());
            greeted(&process.stdout())
        };
        process.address = on_this_thread("it greets", greeting);
        process
    }

    /// The gateway in it.
    pub(crate) fn gateway(&self) -> TestGateway {
        TestGateway::at(self.address)
    }

    /// What it has written to standard output.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// What was read so far of what it has written to standard error; see [`Process::says`].
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until its log holds this so often.
    pub(crate) async fn says(&self, wanted: &str, times: usize) {
        eventually(wanted, async || self.stderr(), |log| log.matches(wanted).count() >= times).await;
    }

    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        // `kill` is built into every shell; a program of that name need not be there.
        let line = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }

    /// Waits until it has so many descriptors open, as the kernel lists them.
    pub(crate) async fn has_opened(&self, descriptors: usize) {
        eventually("its descriptors are used up", async || self.open_descriptors(), |open| *open >= descriptors).await;
    }

    /// How many descriptors it has open.
    pub(crate) fn open_descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Waits for its end, and for the last of what it wrote.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let (child, said) = (&mut self.child, &self.stderr);
        let look = async || child.try_wait().unwrap().ok_or_else(|| said.lock().unwrap().clone());
        let status = eventually("it ends", look, Result::is_ok).await.unwrap();
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(from: impl Read + Send + 'static, into: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}

/// The address in a whole greeting: its last line ends the curl command.
fn greeted(said: &str) -> Option<SocketAddr> {
    said.lines()
        .any(|line| line.trim_start().starts_with("-d '{") || line.starts_with("No provider serves"))
        .then_some(())?;
    let base = said.lines().find_map(|line| line.trim().strip_prefix("Base address"))?;
    let base = base.trim().strip_suffix("/api/v1")?;
    base.strip_prefix("http://").or_else(|| base.strip_prefix("https://"))?.parse().ok()
}
