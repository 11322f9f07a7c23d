//! The properties of `fuzz/` over its corpus, those of the dialects' tests, and mutations of both.
//!
//! A mutation is made from a number, so that a failure names what repeats it. `POINTSMAN_FUZZ_SECONDS` makes each
//! property run for so long, and puts what breaks it into `fuzz/artifacts/`.

use std::{
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::fuzz_properties::{Check, TARGETS};

/// Mutations of one property in an ordinary test run.
const MUTATIONS: u64 = 3_000;

/// What mutations put in: what readers of JSON, SSE, HTTP and TOML stumble over.
const WORDS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"0.1",
    b"\\ud800",
    b"\\u0000",
    b"18446744073709551616",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\r\r",
    b" ",
    b"data:",
    b"data: [DONE]\n\n",
    b"event: error\n",
    b": ",
    b"\"error\":{}",
    b"\"usage\":null",
    b"\"choices\":[]",
    b"\"delta\":{}",
    b"\"index\":9",
    b"\"finish_reason\":\"stop\"",
    b"\"content\":\"x\"",
    b"\"tool_calls\":[{}]",
    b"\"model\":\"acme/small\"",
    b"\"messages\":[]",
    b"\"stream\":true",
    b"\"metadata\":{}",
    b"\"extra_body\":{}",
    b"\"provider\":{\"order\":[]}",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 ",
    b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"connection: close\r\n",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b"[[models]]\n",
    b"[providers.a]\n",
    b"[routing]\n",
    b"id = \"a/b\"\n",
    b"= ",
    b"\"\"\"",
    b"{}",
    b"#",
];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The corpus of a property, those of other tests that suit it included.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let others: &[&str] = match target {
        "answer" => &["crates/dialect/tests/corpus/answers", "crates/dialect/tests/corpus/images"],
        "chat_body" => &["crates/dialect/tests/corpus/requests"],
        "anthropic" | "gemini" | "responses" | "sse" | "stream" => &["crates/dialect/tests/corpus/sse"],
        _ => &[],
    };
    let own = format!("fuzz/corpus/{target}");
    let directories = std::iter::once(own.as_str()).chain(others.iter().copied());
    let mut files: Vec<PathBuf> = directories
        .flat_map(|directory| fs::read_dir(root().join(directory)).into_iter().flatten())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "out"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus for {target}");
    let mut corpus: Vec<(String, Vec<u8>)> =
        files.into_iter().map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect();
    if target == "config" {
        corpus.push(("config.toml".to_owned(), fs::read(root().join("config.toml")).unwrap()));
    }
    corpus
}

/// Numbers that look like chance.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) as usize % below.max(1)
    }
}

/// The mutation of that number.
fn mutation(corpus: &[(String, Vec<u8>)], number: u64) -> Vec<u8> {
    let mut dice = Dice(number);
    let mut bytes = corpus[dice.roll(corpus.len())].1.clone();
    // A large file is mutated in a part: else most of the time would go into reading the same again.
    if bytes.len() > 8_000 {
        let start = dice.roll(bytes.len());
        bytes = bytes.split_off(start);
        bytes.truncate(8_000);
    }
    for _ in 0..=dice.roll(6) {
        let at = dice.roll(bytes.len() + 1);
        let end = (at + dice.roll(24)).min(bytes.len());
        match dice.roll(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.roll(8),
            1 if at < bytes.len() => bytes[at] = dice.roll(256) as u8,
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            5 => {
                let other = &corpus[dice.roll(corpus.len())].1;
                let from = dice.roll(other.len());
                let part = other[from..(from + dice.roll(300)).min(other.len())].to_vec();
                drop(bytes.splice(at..end, part));
            }
            _ => drop(bytes.splice(at..at, WORDS[dice.roll(WORDS.len())].iter().copied())),
        }
    }
    bytes
}

fn holds(target: &str, check: Check, what: &str, bytes: &[u8]) {
    if catch_unwind(|| check(bytes)).is_ok() {
        return;
    }
    let directory = root().join("fuzz/artifacts").join(target);
    let file = directory.join(what.replace(['/', ' '], "-"));
    let kept = std::env::var_os("POINTSMAN_FUZZ_SECONDS").is_some()
        && fs::create_dir_all(&directory).and_then(|()| fs::write(&file, bytes)).is_ok();
    let place = if kept { format!(", kept as {}", file.display()) } else { String::new() };
    panic!("{target} does not hold for {what}{place}: {:?}", String::from_utf8_lossy(bytes));
}

fn run(target: &str) {
    let (_, check) = *TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let corpus = corpus(target);
    for (file, bytes) in &corpus {
        holds(target, check, Path::new(file).file_name().unwrap().to_str().unwrap(), bytes);
    }
    let seconds = std::env::var("POINTSMAN_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let (begun, time) = (Instant::now(), seconds.map(Duration::from_secs));
    let first = std::env::var("POINTSMAN_FUZZ_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for number in first.. {
        let over = time.map_or(number >= MUTATIONS, |time| begun.elapsed() >= time);
        if over {
            break;
        }
        holds(target, check, &format!("mutation {number}"), &mutation(&corpus, number));
    }
}

#[test]
fn plain_answers() {
    run("answer");
}

#[test]
fn chat_bodies() {
    run("chat_body");
}

#[test]
fn answers_of_the_messages_api() {
    run("anthropic");
}

#[test]
fn answers_of_the_responses_api() {
    run("responses");
}

#[test]
fn answers_of_the_converse_api() {
    run("converse");
}

#[test]
fn answers_of_the_gemini_api() {
    run("gemini");
}

#[test]
fn configurations() {
    run("config");
}

#[test]
fn upstream_heads() {
    run("guard");
}

#[test]
fn events() {
    run("sse");
}

#[test]
fn streams() {
    run("stream");
}

#[test]
fn responses_bodies() {
    run("responses_body");
}

#[test]
fn messages_bodies() {
    run("messages_body");
}

#[test]
fn completion_bodies() {
    run("completion_body");
}

#[test]
fn embedding_bodies() {
    run("embedding_body");
}
