//! A client that sees every byte as it comes: for tests of when something is sent, and of hanging up.

use std::{net::SocketAddr, time::Duration};

use actix_web::http::Method;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    documented,
    harness::{KEY, TestGateway},
    patience::PATIENCE,
};

/// How much is kept of what was sent: more than a request line.
const MOST_SAID: usize = 1024;

/// One connection to a gateway.
pub(crate) struct RawClient {
    socket: TcpStream,
    /// The beginning of what was sent.
    said: Vec<u8>,
    received: Vec<u8>,
    /// Up to where [`RawClient::until`] has looked.
    seen: usize,
}

impl RawClient {
    /// Connects and says nothing yet.
    pub(crate) async fn connect(address: SocketAddr) -> RawClient {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        RawClient { socket, said: Vec::new(), received: Vec::new(), seen: 0 }
    }

    /// Connects with a receive buffer of about so many bytes: what is not read stays with the gateway.
    pub(crate) async fn connect_with_window(address: SocketAddr, bytes: u32) -> RawClient {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        let socket = socket.connect(address).await.unwrap();
        RawClient { socket, said: Vec::new(), received: Vec::new(), seen: 0 }
    }

    /// Sends these bytes; says whether the gateway still takes them.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref();
        let room = MOST_SAID.saturating_sub(self.said.len());
        self.said.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.socket.write_all(bytes).await.is_ok()
    }

    /// Sends these bytes in pieces with a gap between any two, until all are out or something is answered.
    pub(crate) async fn trickle(&mut self, bytes: impl AsRef<[u8]>, piece: usize, gap: Duration) -> bool {
        for part in bytes.as_ref().chunks(piece) {
            if !self.say(part).await || self.hears_within(gap).await {
                return false;
            }
        }
        true
    }

    /// The statuses of all answers so far, interim ones included.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.text().split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
    }

    /// Connects and sends one chat request; nothing is read yet.
    pub(crate) async fn chat(gateway: &TestGateway, body: &Value) -> RawClient {
        RawClient::send(gateway, "/api/v1/chat/completions", "", body).await
    }

    /// The same with further header lines, each ending in CRLF.
    pub(crate) async fn send(gateway: &TestGateway, path: &str, headers: &str, body: &Value) -> RawClient {
        let mut client = RawClient::connect(gateway.address).await;
        assert!(client.say(call(path, KEY, headers, body)).await);
        client
    }

    /// Sends one chat request.
    pub(crate) async fn ask(&mut self, body: &Value) {
        self.ask_with(KEY, body).await;
    }

    /// Sends one chat request with that key.
    pub(crate) async fn ask_with(&mut self, key: &str, body: &Value) {
        assert!(self.say(call("/api/v1/chat/completions", key, "", body)).await);
    }

    /// Reads on until `wanted` comes, and gives everything from the last call's find up to its end.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        loop {
            let new = self.received.get(self.seen..).unwrap_or_default();
            if let Some(at) = find(new, wanted.as_bytes()) {
                let end = self.seen + at + wanted.len();
                let found = String::from_utf8_lossy(&self.received[self.seen..end]).into_owned();
                self.seen = end;
                return found;
            }
            assert!(self.read().await, "the connection ended before {wanted:?}: {}", self.text());
        }
    }

    /// Reads on until so many bytes came behind the last find, and gives them.
    pub(crate) async fn exactly(&mut self, length: usize) -> String {
        let end = self.seen + length;
        while self.received.len() < end {
            assert!(self.read().await, "the connection ended: {}", self.text());
        }
        let found = String::from_utf8_lossy(&self.received[self.seen..end]).into_owned();
        self.seen = end;
        found
    }

    /// Reads on until the gateway closes the connection, and gives everything it ever sent.
    pub(crate) async fn rest(&mut self) -> String {
        while self.read().await {}
        self.text()
    }

    /// Whether something new comes within `time`.
    pub(crate) async fn hears_within(&mut self, time: Duration) -> bool {
        timeout(time, self.socket.readable()).await.is_ok()
    }

    /// Everything received so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// The generation's id, once the head is here.
    pub(crate) fn generation(&self) -> String {
        let text = self.text();
        let id = text.split("x-generation-id: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        id.unwrap_or_else(|| panic!("no generation id: {text}")).to_owned()
    }

    /// Says that nothing more will be sent, and goes on listening.
    pub(crate) async fn shut_down_writing(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// Leaves with a FIN.
    pub(crate) fn hang_up(self) {
        drop(self);
    }

    /// Leaves with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Makes the receive window small, so that a client that does not read is felt soon.
    pub(crate) fn with_small_window(self) -> RawClient {
        socket2::SockRef::from(&self.socket).set_recv_buffer_size(4096).unwrap();
        self
    }

    /// Whether the gateway's end of the connection still exists, as the kernel lists it.
    pub(crate) fn has_a_peer(&self) -> bool {
        let port = |address: std::net::SocketAddr| format!(":{:04X} ", address.port());
        let ends = format!(
            "{}{}",
            port(self.socket.peer_addr().unwrap()),
            format_args!("0100007F{}", port(self.socket.local_addr().unwrap()))
        );
        std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&ends)
    }

    async fn read(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = timeout(PATIENCE, self.socket.read(&mut buffer)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing came for {PATIENCE:?} after {}", self.text()));
        let bytes = &buffer[..read.unwrap_or(0)];
        self.received.extend_from_slice(bytes);
        !bytes.is_empty()
    }
}

/// The first answer is compared with its description, if it came whole and with its length.
impl Drop for RawClient {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let (said, received) = (String::from_utf8_lossy(&self.said), String::from_utf8_lossy(&self.received));
            let _: Option<()> = check_first(&said, &received);
        }
    }
}

fn check_first(said: &str, received: &str) -> Option<()> {
    let mut line = said.lines().next()?.split(' ');
    let (method, path) = (Method::from_bytes(line.next()?.as_bytes()).ok()?, line.next()?);
    let (head, body) = received.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let body = body.get(..header("content-length: ")?.parse().ok()?)?;
    let is_json = header("content-type: ")?.starts_with("application/json");
    is_json.then(|| documented::check(&method, path, status, body.as_bytes()))
}

/// The bytes of a call with further header lines, each ending in CRLF.
fn call(path: &str, key: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
