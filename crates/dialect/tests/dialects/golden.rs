//! Golden files: what a provider of each dialect is sent for a client's request, and what the client gets for its answer.
//! `tests/golden/README.md` tells how a case is added.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{
    ChatRequest, ChatStream, OutgoingBody, StreamError, StreamOptions, chat_body, chat_path, rewrite_whole,
};
use pointsman_domain::{Capability, Catalog, Dialect, Endpoint};
use serde_json::{Value, json};

use crate::{
    upstream::framed,
    world::{catalog_of, context, of_chat, of_messages, of_responses},
};

/// Sizes of the reads that each stream is split into, apart from one read of everything.
const SPLITS: [usize; 7] = [1, 2, 3, 7, 16, 61, 256];
/// How files end that the tests of whole servers write: what a client gets when a provider refuses its request.
const ERROR: &str = ".error.json";
/// Longest line of a file with JSON, unless one value is longer.
const WIDTH: usize = 120;

#[test]
fn requests_and_answers_are_those_of_the_golden_files() {
    let (mut catalog, mut golden) = (catalog_of(model), Golden::default());
    // Unless the configuration says otherwise, no provider keeps responses.
    catalog.endpoints.iter_mut().for_each(|endpoint| endpoint.lacks = endpoint.lacks.with(Capability::KeptResponses));
    for client in ["chat", "messages", "responses"] {
        for (case, request) in requests_of(client) {
            for endpoint in &catalog.endpoints {
                let name = format!("{client}/{case}.{}.request.json", endpoint.dialect.as_str());
                golden.check(&name, &sent(&request, &catalog, endpoint));
            }
        }
        for (case, form, dialect, said) in answers() {
            let request = request_of(client, &case).or_else(|| request_of(client, "plain")).unwrap();
            let endpoint = catalog.endpoints.iter().find(|endpoint| endpoint.dialect == dialect).unwrap();
            let outgoing = chat_body(&request, &catalog, endpoint, None).unwrap();
            let name = format!("{client}/{case}.{}.client.{form}", dialect.as_str());
            match &*form {
                "json" => golden.check(&name, &(laid_out(&whole(&request, &outgoing, said), 0) + "\n")),
                _ => golden.check(&name, &streamed(&request, &outgoing, dialect, &said)),
            }
        }
    }
    golden.finish();
}

/// The model at an endpoint of each dialect.
fn model(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi => "deepseek-chat",
        Dialect::Anthropic => "claude-sonnet-4-6",
        Dialect::Gemini => "gemini-3-pro",
        Dialect::Responses => "gpt-5.2",
        Dialect::Converse => "amazon.nova-pro-v1:0",
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The files of a directory, by name.
pub(crate) fn files(directory: &str) -> Vec<String> {
    let listed = fs::read_dir(root().join(directory)).unwrap();
    let mut names: Vec<String> = listed.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn requests_of(client: &str) -> Vec<(String, Box<ChatRequest>)> {
    let names = files(client).into_iter().filter(|name| name.matches('.').count() == 1);
    let cases = names.map(|name| name.trim_end_matches(".json").to_owned());
    cases.map(|case| (case.clone(), request_of(client, &case).unwrap())).collect()
}

fn request_of(client: &str, case: &str) -> Option<Box<ChatRequest>> {
    let body = fs::read_to_string(root().join(format!("{client}/{case}.json"))).ok()?;
    Some(match client {
        "chat" => of_chat(&body),
        "messages" => of_messages(&body),
        _ => of_responses(&body),
    })
}

/// Case, form, dialect and text of each answer of a provider.
fn answers() -> impl Iterator<Item = (String, String, Dialect, String)> {
    let answers = files("providers").into_iter().filter(|name| !name.ends_with(ERROR));
    answers.map(|name| {
        let text = fs::read_to_string(root().join("providers").join(&name)).unwrap();
        let [case, dialect, form] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let dialect = Dialect::ALL.into_iter().find(|known| known.as_str() == dialect).unwrap();
        (case.to_owned(), form.to_owned(), dialect, text)
    })
}

/// Path, headers and body of a request, and the client's fields that it does without.
fn sent(request: &ChatRequest, catalog: &Catalog, endpoint: &Endpoint) -> String {
    let outgoing = chat_body(request, catalog, endpoint, None).unwrap();
    let mut told = json!({"path": &*chat_path(request.client.as_deref(), endpoint, request.stream)});
    let members = [
        ("headers", json!(outgoing.headers)),
        ("dropped", json!(outgoing.dropped.iter().map(|name| &**name).collect::<Vec<_>>())),
        ("emulated", json!(outgoing.emulated.iter().map(|name| &**name).collect::<Vec<_>>())),
    ];
    for (name, list) in members.into_iter().filter(|(_, list)| *list != json!([])) {
        told[name] = list;
    }
    let body = std::str::from_utf8(&outgoing.bytes).unwrap();
    serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let told = told.to_string();
    laid_out(&compact(&format!("{},\"body\":{body}}}", told.strip_suffix('}').unwrap())), 0) + "\n"
}

/// The answer of a client to a whole one of a provider, or why there is none.
pub(crate) fn whole(request: &ChatRequest, outgoing: &OutgoingBody, said: String) -> String {
    match rewrite_whole(&Bytes::from(said), outgoing, request.client.as_deref(), &context()) {
        Ok(answer) => compact(std::str::from_utf8(&answer.body).unwrap()),
        Err(fault) => json!({"fault": fault.to_string(), "refused": fault.refused_content}).to_string(),
    }
}

/// The bytes of a stream, which are the same however those of the provider are split.
pub(crate) fn streamed(request: &ChatRequest, outgoing: &OutgoingBody, dialect: Dialect, said: &str) -> String {
    let bytes = match dialect {
        Dialect::Converse => framed(&events(said)),
        _ => said.as_bytes().to_vec(),
    };
    let read = |size: usize| {
        let client = request.client.as_deref();
        let mut stream = ChatStream::between(Some(outgoing), client, context(), StreamOptions::default());
        let mut out = BytesMut::new();
        let mut reads = bytes.chunks(size);
        let read = reads.try_for_each(|read| stream.push(&Bytes::copy_from_slice(read), &mut out).map(drop));
        if let Err(fault) = read.and_then(|()| stream.end(&mut out)) {
            let error = StreamError { message: fault.to_string().into(), ..broken() };
            stream.fail(&error, &mut out);
        }
        String::from_utf8(out.to_vec()).unwrap()
    };
    let all = read(bytes.len().max(1));
    SPLITS.into_iter().for_each(|size| assert_eq!(read(size), all, "in reads of {size} bytes"));
    all
}

fn broken() -> StreamError {
    StreamError {
        code: 502,
        message: "".into(),
        kind: "provider_error",
        error_type: "provider_unavailable",
        reason: None,
        provider_name: None,
        request_id: None,
        previous_errors: None,
        is_final: false,
    }
}

/// Server-sent events as the frames of Amazon that they stand for.
fn events(said: &str) -> Vec<(&str, Value)> {
    let blocks = said.split("\n\n").filter(|block| !block.trim().is_empty());
    blocks
        .map(|block| {
            let (kind, data) = block.split_once('\n').unwrap();
            let data = data.strip_prefix("data: ").unwrap();
            (kind.strip_prefix("event: ").unwrap(), serde_json::from_str(data).unwrap())
        })
        .collect()
}

/// Compares with the files, and tells all differences together.
#[derive(Default)]
pub(crate) struct Golden {
    checked: BTreeSet<String>,
    faults: Vec<String>,
}

impl Golden {
    pub(crate) fn check(&mut self, name: &str, text: &str) {
        let expected = fs::read_to_string(root().join(name)).unwrap_or_default();
        if expected != text && std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(root().join(name), text).unwrap();
        } else if expected != text {
            let differs = expected.lines().zip(text.lines()).find(|(before, now)| before != now);
            let (before, now) = differs.unwrap_or(("(another number of lines)", text));
            self.faults.push(format!("{name}\n  expected: {before}\n  now:      {now}"));
        }
        self.checked.insert(name.to_owned());
    }

    /// Tells the differences, and which written files belong to no case.
    fn finish(mut self) {
        for client in ["chat", "messages", "responses"] {
            let written =
                files(client).into_iter().filter(|name| name.matches('.').count() > 1 && !name.ends_with(ERROR));
            let names = written.map(|name| format!("{client}/{name}"));
            self.faults
                .extend(names.filter(|name| !self.checked.contains(name)).map(|name| format!("{name} is of no case")));
        }
        self.tell(100);
    }

    /// Tells the differences. `at_least`: how many files there are.
    pub(crate) fn tell(self, at_least: usize) {
        assert!(self.faults.is_empty(), "UPDATE_EXPECT=1 writes the files anew:\n{}", self.faults.join("\n"));
        assert!(self.checked.len() >= at_least, "{} files", self.checked.len());
    }
}

/// Places and bytes of a JSON text outside of its strings.
fn outside(json: &str) -> impl Iterator<Item = (usize, u8)> {
    let (mut in_string, mut is_escaped) = (false, false);
    json.bytes().enumerate().filter(move |(_, byte)| {
        let is_quote = *byte == b'"' && !is_escaped;
        is_escaped = in_string && *byte == b'\\' && !is_escaped;
        in_string ^= is_quote;
        !in_string && !is_quote
    })
}

/// JSON without white space between its tokens, which are kept as they are.
pub(crate) fn compact(json: &str) -> String {
    let blank: BTreeSet<usize> =
        outside(json).filter(|(_, byte)| byte.is_ascii_whitespace()).map(|(place, _)| place).collect();
    let kept = json.bytes().enumerate().filter(|(place, _)| !blank.contains(place)).map(|(_, byte)| byte);
    String::from_utf8(kept.collect()).unwrap()
}

/// Compact JSON with a line for each element of what is too long for one line.
fn laid_out(json: &str, depth: usize) -> String {
    let is_list = json.starts_with(['{', '[']);
    if !is_list || json.len() + 2 * depth < WIDTH {
        return json.to_owned();
    }
    let line = |(name, value)| format!("{}{name}{}", "  ".repeat(depth + 1), laid_out(value, depth + 1));
    let lines: Vec<String> = elements(json).into_iter().map(line).collect();
    let (first, last) = (json.get(..1).unwrap(), json.get(json.len() - 1..).unwrap());
    format!("{first}\n{}\n{}{last}", lines.join(",\n"), "  ".repeat(depth))
}

/// What a compact object or list holds: each name with its colon, or nothing, and each value.
pub(crate) fn elements(json: &str) -> Vec<(&str, &str)> {
    let (mut open, mut start, mut colon, mut all) = (0, 1, None, Vec::new());
    for (place, byte) in outside(json) {
        open += i32::from(matches!(byte, b'{' | b'[')) - i32::from(matches!(byte, b'}' | b']'));
        if byte == b':' && open == 1 {
            colon = Some(place + 1);
        }
        if ((byte == b',' && open == 1) || open == 0) && start < place {
            let value = colon.take().unwrap_or(start);
            all.push((json.get(start..value).unwrap(), json.get(value..place).unwrap()));
            start = place + 1;
        }
    }
    all
}
