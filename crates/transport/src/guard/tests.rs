//! Runs the guard on a scripted socket.

use std::collections::VecDeque;

use futures_util::task::noop_waker_ref;
use proptest::prelude::*;

use super::*;
use crate::keep_alive::KeepAlive;

/// Next behaviour of the socket.
#[derive(Clone)]
enum Turn {
    Bytes(Vec<u8>),
    Wait,
    Reset,
}

/// A socket that returns the reads of a list and then its end, and whose writes are scripted.
#[derive(Default)]
struct List {
    reads: VecDeque<Turn>,
    writes: VecDeque<Turn>,
    unread: bool,
}

impl Wire for List {
    fn has_unread(&self) -> bool {
        self.unread
    }
}

impl AsyncRead for List {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.reads.pop_front() {
            None => Poll::Ready(Ok(())),
            Some(Turn::Wait) => Poll::Pending,
            Some(Turn::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Turn::Bytes(bytes)) => {
                let (now, later) = bytes.split_at(bytes.len().min(buf.remaining()));
                buf.put_slice(now);
                if !later.is_empty() {
                    self.reads.push_front(Turn::Bytes(later.to_vec()));
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for List {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.writes.pop_front() {
            Some(Turn::Wait) => Poll::Pending,
            Some(Turn::Reset) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            _ => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn guard(reads: impl IntoIterator<Item = Turn>) -> Guard<List> {
    let list = List { reads: reads.into_iter().collect(), ..List::default() };
    Guard::new(Rc::new(ManagedSocket::new(list, KeepAlive::LONG)))
}

fn bytes(text: &str) -> Turn {
    Turn::Bytes(text.as_bytes().to_vec())
}

fn context() -> Context<'static> {
    Context::from_waker(noop_waker_ref())
}

fn write(guard: &mut Guard<List>) -> Poll<io::Result<usize>> {
    Pin::new(guard).poll_write(&mut context(), b"POST")
}

/// Whether the connection was silent since its last exchange.
fn silent(guard: &mut Guard<List>) -> Poll<bool> {
    guard.poll_silent(&mut context())
}

/// Status and content that pass, and how the answer ends.
fn drain(guard: &mut Guard<List>) -> (String, &'static str) {
    let (mut all, mut cx) = (String::new(), context());
    let end = |error: &io::Error| Fault::of(error).map_or("io", |fault| fault.kind().as_str());
    while matches!(guard.phase, Phase::Head) {
        match guard.poll_head(&mut cx) {
            Poll::Ready(Ok((status, _))) => all = format!("{} ", status.as_u16()),
            Poll::Ready(Err(error)) => return (all, end(&error)),
            Poll::Pending => {}
        }
    }
    loop {
        match guard.poll_content(&mut cx) {
            Poll::Ready(Some(Ok(bytes))) => all.push_str(&String::from_utf8_lossy(&bytes)),
            Poll::Ready(Some(Err(error))) => return (all, end(&error)),
            Poll::Ready(None) => return (all, if guard.is_open() { "open" } else { "end" }),
            Poll::Pending => {}
        }
    }
}

/// Checks an exchange whose answer arrives in these pieces, and the silence behind it. A piece of one space is a pause.
#[track_caller]
fn check(pieces: &[&str], expected: &str, end: &'static str) {
    let turns = pieces.iter().map(|piece| if *piece == " " { Turn::Wait } else { bytes(piece) });
    let mut guard = guard(turns.chain([Turn::Wait]));
    assert!(write(&mut guard).is_ready());
    let (passed, mut ends) = drain(&mut guard);
    if ends == "open" && silent(&mut guard) != Poll::Ready(true) {
        ends = "end";
    }
    assert_eq!((&*passed, ends), (expected, end));
}

const OK5: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[test]
fn a_regular_answer_passes_and_the_connection_stays_open() {
    let whole = format!("{OK5}hello");
    check(&[&whole], "200 hello", "open");
    check(&[OK5, "hello"], "200 hello", "open");
    check(&[OK5, " ", "he", " ", "llo"], "200 hello", "open");
    check(&["HTTP/1.1 200 OK\r\ncontent", " ", "-length: 5\r\n\r\nhel", "lo"], "200 hello", "open");
    let chunked = format!("{CHUNKED}5\r\nhello\r\n0\r\n\r\n");
    check(&[&chunked], "200 hello", "open");
    check(&[CHUNKED, "5\r", "\nhell", "o\r\n0\r\n\r", "\n"], "200 hello", "open");
}

#[test]
fn a_connection_holds_no_buffer_while_nothing_arrives() {
    let begun = format!("{CHUNKED}5\r\nhello\r\n");
    let mut guard = guard([bytes(&begun), Turn::Wait, bytes("3\r\nyou\r\n0\r\n\r\n")]);
    assert!(write(&mut guard).is_ready());
    let mut cx = context();
    assert!(guard.poll_head(&mut cx).is_ready());
    let Poll::Ready(Some(Ok(hello))) = guard.poll_content(&mut cx) else { panic!("no content") };
    assert!(guard.poll_content(&mut cx).is_pending() && hello.is_unique(), "within an answer");
    let Poll::Ready(Some(Ok(you))) = guard.poll_content(&mut cx) else { panic!("no content") };
    assert!(matches!(guard.poll_content(&mut cx), Poll::Ready(None)) && guard.is_open());
    assert!(you.is_unique(), "between two");
}

#[test]
fn interim_heads_are_dropped() {
    let whole = format!("{OK5}hello");
    let early = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    check(&["HTTP/1.1 100 Continue\r\n\r\n", &whole], "200 hello", "open");
    check(&[&format!("HTTP/1.1 102 Processing\r\n\r\n{whole}")], "200 hello", "open");
    check(
        &[early, " ", early, "HTTP/1.1 100 C\r", "\n\r\nHTTP/1", ".1 200 OK\r\ncontent-length: 5\r\n\r\nhello"],
        "200 hello",
        "open",
    );
    check(&[&early.repeat(8), &whole], "200 hello", "open");
    check(&[&early.repeat(9), &whole], "", "malformed");
}

#[test]
fn bytes_after_the_body_are_cut_off_and_end_the_connection() {
    let whole = format!("{OK5}hello");
    check(&[&whole, "HTTP/1.1 200 OK\r\n"], "200 hello", "end");
    check(&[&whole, "HTTP/1.1 100 Continue\r\n\r\n"], "200 hello", "end");
    check(&[&format!("{whole}HTTP/1.1 200 OK\r\n\r\n")], "200 hello", "end");
    check(&[&format!("{CHUNKED}0\r\n\r\nx")], "200 ", "end");
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let mut guard = guard([bytes("HTTP/1.1 200 OK\r\n\r\nhello"), bytes(" you")]);
    assert!(write(&mut guard).is_ready());
    assert_eq!(drain(&mut guard), ("200 hello you".to_owned(), "end"));

    let mut guard = self::guard([bytes("HTTP/1.1 200"), bytes(" OK\r\n\r\nhello"), Turn::Reset]);
    assert!(write(&mut guard).is_ready());
    assert_eq!(drain(&mut guard), ("200 hello".to_owned(), "io"));
}

#[test]
fn an_early_end_is_an_error_wherever_it_comes() {
    let check = |pieces: &[&str], expected: &str, end: &'static str| {
        let mut guard = guard(pieces.iter().map(|piece| bytes(piece)));
        assert!(write(&mut guard).is_ready());
        assert_eq!(drain(&mut guard), (expected.to_owned(), end));
        assert_ne!(drain(&mut guard).1, "end", "it stays an error when it is asked again");
    };
    check(&[], "", "reset");
    check(&["HTTP/1.1 200 OK\r\n"], "", "reset");
    check(&["HTTP/1.1 100 Continue\r\n\r\n"], "", "reset");
    check(&[OK5, "hell"], "200 hell", "truncated");
    check(&[CHUNKED, "5\r\nhello\r\n"], "200 hello", "truncated");
    check(&[CHUNKED, "5\r\nhel"], "200 hel", "truncated");
    check(&[CHUNKED, "0\r\n"], "200 ", "truncated");
}

#[test]
fn what_breaks_a_rule_does_not_pass() {
    check(&["HTTP/1.1 101 Switching Protocols\r\n\r\n"], "", "unexpected_status");
    check(&["HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello"], "", "malformed");
    check(&["HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-", "encoding: chunked\r\n\r\n"], "", "malformed");
    check(&["220 smtp.example ESMTP\r\n"], "", "malformed");
    check(&[&"x".repeat(5_000)], "", "malformed");
    check(&["HTTP/1.1 200 OK\r\n", &format!("x: {}", "y".repeat(70_000))], "", "malformed");
    check(&[CHUNKED, "5\r\nhello!"], "200 ", "malformed");
    // Another provider can no longer answer.
    check(&[CHUNKED, "5\r\nhello\r\n3", "\r\nyou!"], "200 helloyou", "malformed");
}

#[test]
fn a_second_exchange_needs_a_silent_connection() {
    let answer = || bytes(&format!("{OK5}hello"));
    let exchange = |guard: &mut Guard<List>| {
        assert!(write(guard).is_ready());
        assert_eq!(drain(guard), ("200 hello".to_owned(), "open"));
    };

    let mut clean = guard([answer(), Turn::Wait, answer()]);
    exchange(&mut clean);
    assert_eq!(silent(&mut clean), Poll::Ready(true));
    exchange(&mut clean);

    for stray in [bytes("x"), bytes("HTTP/1.1 200 OK\r\n\r\n"), Turn::Reset] {
        let mut dirty = guard([answer(), stray]);
        exchange(&mut dirty);
        assert_eq!(silent(&mut dirty), Poll::Ready(false));
        assert!(!dirty.is_open());
    }
}

#[test]
fn it_is_not_known_yet_while_the_kernel_holds_bytes_the_runtime_has_not_seen() {
    let mut guard = guard([bytes(&format!("{OK5}hello")), Turn::Wait, bytes("stray")]);
    assert!(write(&mut guard).is_ready());
    drain(&mut guard);
    guard.socket.stream().as_mut().unwrap().unread = true;

    assert_eq!(silent(&mut guard), Poll::Pending);
    assert_eq!(silent(&mut guard), Poll::Ready(false));
}

#[test]
fn a_refusal_that_comes_while_the_request_is_written_is_kept() {
    let refusal = "HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";
    for blocked in [Turn::Reset, Turn::Wait] {
        let mut guard = guard([bytes(refusal)]);
        guard.socket.stream().as_mut().unwrap().writes = [bytes(""), blocked].into();
        assert!(matches!(write(&mut guard), Poll::Ready(Ok(4))));
        assert!(matches!(write(&mut guard), Poll::Ready(Ok(4))), "the rest is swallowed");
        assert!(matches!(write(&mut guard), Poll::Ready(Ok(4))), "however much there is");
        assert_eq!(drain(&mut guard), ("413 no".to_owned(), "end"), "and the connection is not used again");
    }
}

#[test]
fn a_write_that_fails_without_a_refusal_fails() {
    for reads in [vec![], vec![Turn::Wait], vec![bytes(&format!("{OK5}hello"))], vec![bytes("junk\r\n")]] {
        let mut guard = guard(reads);
        guard.socket.stream().as_mut().unwrap().writes = [Turn::Reset].into();
        assert!(matches!(write(&mut guard), Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
    }
}

#[test]
fn a_failed_write_waits_for_the_refusal_the_kernel_already_has() {
    let mut guard = guard([Turn::Wait, bytes("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")]);
    if let Some(wire) = guard.socket.stream().as_mut() {
        (wire.writes, wire.unread) = ([Turn::Reset].into(), true);
    }
    assert!(write(&mut guard).is_pending());
    assert!(matches!(write(&mut guard), Poll::Ready(Ok(4))));
    assert_eq!(drain(&mut guard), ("413 ".to_owned(), "end"));
}

#[test]
fn an_early_answer_that_is_no_refusal_waits_until_the_request_is_written() {
    let mut guard = guard([bytes(&format!("{OK5}hello"))]);
    guard.socket.stream().as_mut().unwrap().writes = [Turn::Wait, bytes("")].into();
    assert!(write(&mut guard).is_pending());
    assert!(matches!(write(&mut guard), Poll::Ready(Ok(4))));
    assert_eq!(drain(&mut guard), ("200 hello".to_owned(), "open"));
}

#[test]
fn an_upstream_that_closes_without_reading_the_request_is_a_failure() {
    let mut guard = guard([]);
    guard.socket.stream().as_mut().unwrap().writes = [Turn::Wait].into();
    assert!(matches!(write(&mut guard), Poll::Ready(Err(error)) if Fault::of(&error) == Some(Fault::NoAnswer)));
}

#[test]
fn a_head_that_arrives_byte_by_byte_is_not_parsed_for_each_byte() {
    let head = format!("HTTP/1.1 200 OK\r\n{}", format!("x: {}\r\n", "y".repeat(600)).repeat(90));
    let turns = head.bytes().flat_map(|byte| [Turn::Bytes(vec![byte]), Turn::Wait]).collect::<Vec<_>>();
    let mut guard = guard(turns);
    assert!(write(&mut guard).is_ready());
    let started = std::time::Instant::now();
    assert_eq!(drain(&mut guard), (String::new(), "reset"));
    // Parsing it for each byte takes far longer.
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}

proptest! {
    #[test]
    fn any_split_shows_the_same_answer(
        interim in 0usize..4,
        body in prop::collection::vec("[a-z]{1,30}", 0..6),
        cuts in prop::collection::vec(1usize..60, 1..40),
    ) {
        let mut answer = CHUNKED.to_owned();
        for chunk in &body {
            answer.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
        }
        answer.push_str("0\r\n\r\n");
        let wire = "HTTP/1.1 100 Continue\r\n\r\n".repeat(interim) + &answer;
        let (mut turns, mut rest, mut cuts) = (Vec::new(), wire.as_str(), cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            turns.push(bytes(piece));
            rest = later;
        }

        let mut guard = guard(turns);
        prop_assert!(write(&mut guard).is_ready());
        prop_assert_eq!(drain(&mut guard), (format!("200 {}", body.concat()), "open"));
    }

    #[test]
    fn no_bytes_cause_a_panic(wire in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..50) {
        let mut guard = guard(wire.chunks(cut).map(|piece| Turn::Bytes(piece.to_vec())));
        prop_assert!(write(&mut guard).is_ready());
        drain(&mut guard);
    }
}
