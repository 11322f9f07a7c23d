//! An upstream played byte by byte over real sockets.
//!
//! A test writes down what each accepted connection does (read a request, send these bytes, in these pieces, pause,
//! reset) and afterwards asks what arrived. Nothing here knows HTTP beyond finding the end of a request. Plain threads
//! and blocking sockets, so that no runtime can reorder what a script says.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::net::TcpSocket;

use crate::patience::PATIENCE;

/// What one accepted connection does, step by step. After the last step it stays open until the client closes.
#[derive(Clone, Default)]
pub(crate) struct Script(Vec<Step>);

#[derive(Clone)]
enum Step {
    Request,
    Head,
    Send(Vec<u8>),
    Trickle { bytes: Vec<u8>, piece: usize, gap: Duration },
    Pause(Duration),
    Wait(Gate),
    Open(Gate),
    Fin,
    Close,
    Reset,
    Repeat(Script),
}

impl Script {
    /// A script without steps: accepts and hangs.
    pub(crate) fn new() -> Script {
        Script::default()
    }

    /// The usual upstream: answers every request on the connection with the same bytes.
    pub(crate) fn answering(bytes: impl Into<Vec<u8>>) -> Script {
        Script::new().repeat(Script::new().request().send(bytes))
    }

    /// Reads one whole request, its announced body included.
    pub(crate) fn request(self) -> Script {
        self.step(Step::Request)
    }

    /// Reads a request's head and leaves the body in the socket.
    pub(crate) fn head(self) -> Script {
        self.step(Step::Head)
    }

    /// Sends these bytes in one write.
    pub(crate) fn send(self, bytes: impl Into<Vec<u8>>) -> Script {
        self.step(Step::Send(bytes.into()))
    }

    /// Sends these bytes in pieces of `piece` bytes with a gap between any two.
    pub(crate) fn trickle(self, bytes: impl Into<Vec<u8>>, piece: usize, gap: Duration) -> Script {
        self.step(Step::Trickle { bytes: bytes.into(), piece, gap })
    }

    /// Does nothing for a while.
    pub(crate) fn pause(self, time: Duration) -> Script {
        self.step(Step::Pause(time))
    }

    /// Does nothing until the test opens the gate.
    pub(crate) fn wait(self, gate: &Gate) -> Script {
        self.step(Step::Wait(gate.clone()))
    }

    /// Opens a gate that another script, or the test, may be waiting at.
    pub(crate) fn open(self, gate: &Gate) -> Script {
        self.step(Step::Open(gate.clone()))
    }

    /// Closes in an orderly way, and ends the script.
    pub(crate) fn fin(self) -> Script {
        self.step(Step::Fin)
    }

    /// Drops the socket as it is, and ends the script: with unread bytes in it the client sees a reset.
    pub(crate) fn close(self) -> Script {
        self.step(Step::Close)
    }

    /// Closes with a reset, and ends the script.
    pub(crate) fn reset(self) -> Script {
        self.step(Step::Reset)
    }

    /// Plays `script` again and again until the client closes.
    pub(crate) fn repeat(self, script: Script) -> Script {
        self.step(Step::Repeat(script))
    }

    /// Goes on with the steps of `script`.
    pub(crate) fn then(mut self, script: &Script) -> Script {
        self.0.extend_from_slice(&script.0);
        self
    }

    fn step(mut self, step: Step) -> Script {
        self.0.push(step);
        self
    }
}

/// Holds a script back until the test says go.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub(crate) fn new() -> Gate {
        Gate::default()
    }

    /// Lets everybody pass, now and later.
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Holds back again whoever comes next.
    pub(crate) fn close(&self) {
        *self.0.0.lock().unwrap() = false;
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    /// Keeps this thread until it is open.
    pub(crate) fn pass(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(closed, PATIENCE, |open| !*open).unwrap());
    }
}

/// What has happened so far.
#[derive(Clone, Default)]
pub(crate) struct Log {
    /// Connections accepted.
    pub(crate) connections: usize,
    /// Requests as they arrived, head and body, in order of arrival over all connections.
    pub(crate) requests: Vec<Vec<u8>>,
    /// When a client closed a connection that the script had left open.
    pub(crate) closed: Vec<Instant>,
    /// Connections that the script has ended so that the client can see it.
    pub(crate) ended: usize,
}

/// A running upstream on a loopback port.
pub(crate) struct Upstream {
    address: SocketAddr,
    log: Arc<Mutex<Log>>,
    is_closed: Arc<AtomicBool>,
}

impl Drop for Upstream {
    /// Wakes the thread that listens, which then ends.
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
    }
}

impl Upstream {
    /// Starts listening; the n-th connection plays the n-th script, later ones the last. Not at 127.0.0.1, where a client
    /// of another test may still call a port whose listener is gone: connections are counted here.
    pub(crate) fn start(scripts: impl IntoIterator<Item = Script>) -> Upstream {
        Upstream::start_at("127.0.0.2:0".parse().unwrap(), scripts)
    }

    /// The same at an address of the test's choice.
    pub(crate) fn start_at(address: SocketAddr, scripts: impl IntoIterator<Item = Script>) -> Upstream {
        Upstream::listen(address, scripts, None)
    }

    /// The same behind TLS, at 127.0.0.1, for which its certificate is.
    pub(crate) fn start_tls(config: Arc<ServerConfig>, scripts: impl IntoIterator<Item = Script>) -> Upstream {
        Upstream::start_tls_at("127.0.0.1:0".parse().unwrap(), config, scripts)
    }

    /// The same behind TLS at an address of the test's choice.
    pub(crate) fn start_tls_at(
        address: SocketAddr,
        config: Arc<ServerConfig>,
        scripts: impl IntoIterator<Item = Script>,
    ) -> Upstream {
        Upstream::listen(address, scripts, Some(config))
    }

    fn listen(
        address: SocketAddr,
        scripts: impl IntoIterator<Item = Script>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Upstream {
        let scripts: Vec<Script> = scripts.into_iter().collect();
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Log::default()));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (shared, closed) = (Arc::clone(&log), Arc::clone(&is_closed));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if closed.load(Ordering::Acquire) {
                    return;
                }
                let number = {
                    let mut log = shared.lock().unwrap();
                    log.connections += 1;
                    log.connections - 1
                };
                let script = scripts.get(number).or(scripts.last()).cloned().unwrap_or_default();
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                thread::spawn(move || Connection::open(stream, tls, shared).play_all(&script));
            }
        });
        Upstream { address, log, is_closed }
    }

    /// Where it listens, until the process ends.
    pub(crate) fn keep(self) -> SocketAddr {
        let address = self.address;
        std::mem::forget(self);
        address
    }

    /// Where it listens, until this is dropped.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://`, its address and port, and `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What has happened so far.
    pub(crate) fn log(&self) -> Log {
        self.log.lock().unwrap().clone()
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.log().connections
    }

    /// Requests received so far, as text.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.log().requests.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// Waits until the log looks as wanted; says whether it did in time.
    pub(crate) async fn eventually(&self, limit: Duration, wanted: impl Fn(&Log) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while !wanted(&self.log()) {
            if Instant::now() > deadline {
                return false;
            }
            actix_web::rt::time::sleep(Duration::from_millis(1)).await;
        }
        true
    }
}

/// A port on which nobody listens, now or later: it is taken until the process ends, or a test beside this one might get it.
pub(crate) fn refused_address() -> SocketAddr {
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    Box::leak(Box::new(taken)).local_addr().unwrap()
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Socket {
    fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(tls) => &tls.sock,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(tcp) => tcp.read(buffer),
            Socket::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(tcp) => tcp.write(bytes),
            Socket::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Plain(tcp) => tcp.flush(),
            Socket::Tls(tls) => tls.flush(),
        }
    }
}

/// The script ended this connection, or the client did.
struct Over;

struct Connection {
    socket: Socket,
    log: Arc<Mutex<Log>>,
    /// Bytes read beyond what a step wanted.
    unread: Vec<u8>,
}

impl Connection {
    fn open(tcp: TcpStream, tls: Option<Arc<ServerConfig>>, log: Arc<Mutex<Log>>) -> Connection {
        // Each step is to leave as its own segment.
        tcp.set_nodelay(true).unwrap();
        let socket = match tls {
            None => Socket::Plain(tcp),
            Some(config) => {
                let session = ServerConnection::new(config).unwrap();
                Socket::Tls(Box::new(StreamOwned::new(session, tcp)))
            }
        };
        Connection { socket, log, unread: Vec::new() }
    }

    fn play_all(mut self, script: &Script) {
        if self.play(script).is_ok() {
            self.hold();
        }
        let log = Arc::clone(&self.log);
        drop(self);
        log.lock().unwrap().ended += 1;
    }

    fn play(&mut self, script: &Script) -> Result<(), Over> {
        for step in &script.0 {
            match step {
                Step::Request => self.read_request(true)?,
                Step::Head => self.read_request(false)?,
                Step::Send(bytes) => self.send(bytes)?,
                Step::Trickle { bytes, piece, gap } => {
                    for part in bytes.chunks(*piece) {
                        self.send(part)?;
                        thread::sleep(*gap);
                    }
                }
                Step::Pause(time) => thread::sleep(*time),
                Step::Wait(gate) => gate.pass(),
                Step::Open(gate) => gate.open(),
                Step::Fin => return self.finish(),
                Step::Close => return Err(Over),
                Step::Reset => return self.reset(),
                Step::Repeat(script) => loop {
                    self.play(script)?;
                },
            }
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Over> {
        self.socket.write_all(bytes).and_then(|()| self.socket.flush()).map_err(|_| self.note_close())
    }

    fn read_request(&mut self, whole: bool) -> Result<(), Over> {
        let head = loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                break end + 4;
            }
            self.fill()?;
        };
        let mut length = head;
        if whole {
            length += announced_length(&self.unread[..head]);
            while self.unread.len() < length {
                self.fill()?;
            }
        }
        let request = self.unread.drain(..length).collect();
        self.log.lock().unwrap().requests.push(request);
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Over> {
        let mut buffer = [0; 64 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(0) | Err(_) => Err(self.note_close()),
            Ok(read) => {
                self.unread.extend_from_slice(&buffer[..read]);
                Ok(())
            }
        }
    }

    /// Waits for the client to close. Whatever still arrives counts as a request nobody expected.
    fn hold(&mut self) {
        while self.fill().is_ok() {}
        if !self.unread.is_empty() {
            let unexpected = std::mem::take(&mut self.unread);
            self.log.lock().unwrap().requests.push(unexpected);
        }
    }

    fn finish(&mut self) -> Result<(), Over> {
        if let Socket::Tls(tls) = &mut self.socket {
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
        let _ = self.socket.tcp().shutdown(Shutdown::Write);
        self.log.lock().unwrap().ended += 1;
        // A close with unread bytes would turn into a reset: take them first, until the client closes too.
        let _ = self.socket.tcp().set_read_timeout(Some(PATIENCE));
        while self.fill().is_ok() {}
        Err(Over)
    }

    fn reset(&mut self) -> Result<(), Over> {
        socket2::SockRef::from(self.socket.tcp()).set_linger(Some(Duration::ZERO)).unwrap();
        Err(Over)
    }

    fn note_close(&self) -> Over {
        self.log.lock().unwrap().closed.push(Instant::now());
        Over
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn announced_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.map_or(0, |value| value.trim().parse().unwrap())
}
