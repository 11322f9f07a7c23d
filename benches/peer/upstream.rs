//! A provider that always says the same: 1 KB of JSON, or a stream of 100 chunks of 287 bytes, or the texts of that stream
//! as events of the Messages API; 1 KB of JSON of the Gemini API to a request of that.
//!
//! What it says is built once, but for the moment at which a chunk is written, which stands in its text. Which answer is
//! asked for stands at the start of the body, where the load generator and the gateway put it, or at its end, where others do.

use std::{
    fmt::Write,
    io,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval},
};

use crate::{
    Failure,
    http::{Connection, find},
    question::{BURST_MODEL, HELD_MODEL, MESSAGES_MODEL, STREAMED},
    say,
};

/// Chunks of a stream that carry text; two more events follow, usage and the end.
pub(crate) const CHUNKS: u64 = 100;
/// Bytes of one of them with its framing: `data: `, JSON, two line feeds.
const CHUNK_BYTES: usize = 287;
const ANSWER_BYTES: usize = 1024;
/// What the text of each chunk begins with, before the nanoseconds since 1970 at which it was written.
pub(crate) const STAMP: &str = "at=";
/// Digits of that moment.
pub(crate) const STAMP_DIGITS: usize = 19;
/// How far into a request, from its start and from its end, the upstream looks for what is asked.
const LOOKED_AT: usize = 256;
/// What only requests of the Gemini API have.
const GEMINI_REQUEST: &str = r#""contents":["#;

const HEAD: &str = "HTTP/1.1 200 OK\r\n";
const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const CHUNK_START: &str = r#"data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1763629500,"model":"bench-1","system_fingerprint":"fp_0123456789""#;
const USAGE: &str = r#"{"prompt_tokens":200,"completion_tokens":100,"total_tokens":300}"#;

/// Everything the upstream ever says.
pub(crate) struct Script {
    answer: Vec<u8>,
    gemini_answer: Vec<u8>,
    events: Vec<Event>,
    /// The same stream in the Messages API.
    messages: Vec<Event>,
    pause: Duration,
}

/// One event of a stream, framed as one HTTP chunk.
struct Event {
    bytes: Vec<u8>,
    /// Where the digits of its stamp begin, if it has one.
    stamp: Option<usize>,
}

impl Event {
    fn framed(event: &str) -> Event {
        let bytes = format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
        let stamp = find(&bytes, STAMP.as_bytes()).map(|start| start + STAMP.len());
        Event { bytes, stamp }
    }

    /// Its bytes in `scratch`, stamped with the present moment.
    fn stamped<'a>(&self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clone_from(&self.bytes);
        if let Some(digits) = self.stamp.and_then(|start| scratch.get_mut(start..start + STAMP_DIGITS)) {
            let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            digits.copy_from_slice(format!("{moment:0STAMP_DIGITS$}").as_bytes());
        }
        scratch
    }
}

/// Serves until it is killed.
pub(crate) async fn serve(pause: Duration) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let script = Rc::new(Script::new(pause)?);
    say(&format!("listening on {}", listener.local_addr()?))?;
    let tasks = tokio::task::LocalSet::new();
    let accept = async {
        loop {
            let (socket, _) = listener.accept().await?;
            let script = Rc::clone(&script);
            // A client that leaves in the middle of a stream is its own affair.
            tokio::task::spawn_local(async move { drop(answer_all(socket, &script).await) });
        }
    };
    tasks.run_until(accept).await
}

async fn answer_all(socket: TcpStream, script: &Script) -> io::Result<()> {
    let mut connection = Connection::new(socket)?;
    let mut body = Vec::new();
    while let Some(head) = connection.request_head().await? {
        connection.body(&head, &mut body).await?;
        if !script.answer_one(&mut connection, &body).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// One event after the other, each with a write of its own, as a model makes them.
async fn tell(connection: &mut Connection, events: &[Event], pause: Duration) -> io::Result<()> {
    let mut scratch = Vec::new();
    let mut clock = interval(pause.max(Duration::from_micros(1)));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock.reset();
    connection.socket.write_all(STREAM_HEAD.as_bytes()).await?;
    for (number, event) in events.iter().enumerate() {
        // Not before the first one: timers are up to a millisecond late.
        if number > 0 && !pause.is_zero() {
            clock.tick().await;
        }
        connection.socket.write_all(event.stamped(&mut scratch)).await?;
    }
    connection.socket.write_all(b"0\r\n\r\n").await
}

/// The first event, then silence until the other side goes away.
async fn hold(connection: &mut Connection, script: &Script) -> io::Result<()> {
    connection.socket.write_all(STREAM_HEAD.as_bytes()).await?;
    if let Some(event) = script.events.first() {
        connection.socket.write_all(&event.bytes).await?;
    }
    connection.request_head().await.map(drop)
}

impl Script {
    pub(crate) fn new(pause: Duration) -> Result<Script, Failure> {
        let (answer, gemini_answer) = (answer()?, gemini_answer()?);
        Ok(Script { answer, gemini_answer, events: events()?, messages: messages()?, pause })
    }

    /// Answers one request; false when the connection has nothing more to say.
    pub(crate) async fn answer_one(&self, connection: &mut Connection, body: &[u8]) -> io::Result<bool> {
        let (start, rest) = body.split_at(body.len().min(LOOKED_AT));
        let end = rest.get(rest.len().saturating_sub(LOOKED_AT)..).unwrap_or_default();
        let asked = |wanted: &str| [start, end].iter().any(|part| find(part, wanted.as_bytes()).is_some());
        if asked(HELD_MODEL) {
            hold(connection, self).await?;
            return Ok(false);
        }
        if asked(STREAMED) {
            let events = if asked(MESSAGES_MODEL) { &self.messages } else { &self.events };
            let pause = if asked(BURST_MODEL) { Duration::ZERO } else { self.pause };
            tell(connection, events, pause).await?;
        } else {
            let answer = if asked(GEMINI_REQUEST) { &self.gemini_answer } else { &self.answer };
            connection.socket.write_all(answer).await?;
        }
        Ok(true)
    }
}

fn answer() -> Result<Vec<u8>, Failure> {
    whole(|text| {
        format!(
            r#"{{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1763629500,"model":"bench-1","system_fingerprint":"fp_0123456789","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],"usage":{USAGE}}}"#
        )
    })
}

fn gemini_answer() -> Result<Vec<u8>, Failure> {
    whole(|text| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}},"finishReason":"STOP","index":0}}],"usageMetadata":{{"promptTokenCount":200,"candidatesTokenCount":100,"totalTokenCount":300}},"modelVersion":"bench-gemini","responseId":"0123456789abcdef"}}"#
        )
    })
}

/// An answer in one piece, with the body that `frame` makes of a text.
fn whole(frame: impl Fn(&str) -> String) -> Result<Vec<u8>, Failure> {
    let body = padded(ANSWER_BYTES, frame)?;
    Ok(format!("{HEAD}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn events() -> Result<Vec<Event>, Failure> {
    let mut events = Vec::new();
    for number in 1..=CHUNKS {
        events.push(padded(CHUNK_BYTES, |text| chunk(number, &stampable(text)))?);
    }
    events.push(format!("{CHUNK_START},\"choices\":[],\"usage\":{USAGE}}}\n\n"));
    events.push("data: [DONE]\n\n".to_owned());
    Ok(events.iter().map(|event| Event::framed(event)).collect())
}

fn chunk(number: u64, text: &str) -> String {
    let role = if number == 1 { r#""role":"assistant","# } else { "" };
    let finish = if number == CHUNKS { r#""stop""# } else { "null" };
    format!(
        r#"{CHUNK_START},"choices":[{{"index":0,"delta":{{{role}"content":"{text}"}},"logprobs":null,"finish_reason":{finish}}}]}}{end}"#,
        end = "\n\n"
    )
}

/// The texts of [`events`], as the Messages API tells them.
fn messages() -> Result<Vec<Event>, Failure> {
    let event = |name: &str, members: &str| format!("event: {name}\ndata: {{\"type\":\"{name}\"{members}}}\n\n");
    let mut events = vec![
        event(
            "message_start",
            r#","message":{"id":"msg_0123456789abcdef","type":"message","role":"assistant","model":"bench-messages","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":200,"output_tokens":1}}"#,
        ),
        event("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#),
    ];
    for number in 1..=CHUNKS {
        let length = CHUNK_BYTES.checked_sub(chunk(number, "").len()).ok_or("a frame is longer than its message")?;
        let delta = |text: &str| format!(r#","index":0,"delta":{{"type":"text_delta","text":"{text}"}}"#);
        let bytes = event("content_block_delta", &delta("")).len() + length;
        events.push(padded(bytes, |text| event("content_block_delta", &delta(&stampable(text))))?);
    }
    events.push(event("content_block_stop", r#","index":0"#));
    let usage = r#","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":100}"#;
    events.push(event("message_delta", usage));
    events.push(event("message_stop", ""));
    Ok(events.iter().map(|event| Event::framed(event)).collect())
}

/// A text with room for its stamp.
fn stampable(text: &str) -> String {
    format!("{STAMP}{:0STAMP_DIGITS$} {text}", 0)
}

/// What `frame` makes of a text that is just long enough for `bytes` in all.
fn padded(bytes: usize, frame: impl Fn(&str) -> String) -> Result<String, Failure> {
    let room = bytes.checked_sub(frame("").len()).ok_or("a frame is longer than its message")?;
    let mut text = String::new();
    while text.len() < room {
        write!(text, "word{} ", text.len())?;
    }
    text.truncate(room);
    Ok(frame(&text))
}
