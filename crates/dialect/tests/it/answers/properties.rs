//! What holds for every stream there could be.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::{context, run, setting};

/// One delta of a valid stream: some text, some thought, or a piece of a call.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Thought(String),
    Call { index: usize, arguments: String },
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let text = "[a-zé你😀 \"\\\\\n\u{1}]{0,6}";
    let piece = prop_oneof![
        4 => text.prop_map(Piece::Text),
        1 => text.prop_map(Piece::Thought),
        2 => (0_usize..3, text).prop_map(|(index, arguments)| Piece::Call { index, arguments }),
    ];
    prop::collection::vec(piece, 0..12)
}

/// How an upstream writes its events.
#[derive(Debug, Clone, Copy)]
struct Habits {
    line_end: &'static str,
    space: bool,
    comments: bool,
    choices_first: bool,
    escapes_unicode: bool,
    done: bool,
    /// Whether every delta names the role.
    role: bool,
    /// The creation time each chunk names; none means another one in each.
    created: Option<u32>,
}

fn habits() -> impl Strategy<Value = Habits> {
    let line_end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    (line_end, any::<[bool; 6]>()).prop_map(
        |(line_end, [space, comments, choices_first, escapes_unicode, done, role])| Habits {
            line_end,
            space,
            comments,
            choices_first,
            escapes_unicode,
            done,
            role,
            created: Some(5),
        },
    )
}

fn event(place: usize, delta: &Value, finish: Option<&str>, habits: Habits) -> String {
    let mut delta = delta.clone();
    if habits.role {
        delta["role"] = json!("assistant");
    }
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]).to_string();
    let created = habits.created.map_or(place, |created| created as usize);
    let names = format!("\"id\":\"chatcmpl-1\",\"model\":\"m\",\"created\":{created},\"tier\":[1]");
    let mut data = if habits.choices_first {
        format!("{{\"choices\":{choices},{names}}}")
    } else {
        format!("{{{names},\"choices\":{choices}}}")
    };
    if habits.escapes_unicode {
        let escape =
            |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
        data = data.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect();
    }
    let comment = if habits.comments { format!(": ping{0}{0}", habits.line_end) } else { String::new() };
    format!("{comment}data:{}{data}{1}{1}", if habits.space { " " } else { "" }, habits.line_end)
}

fn stream_of(pieces: &[Piece], habits: Habits) -> String {
    let mut known = [false; 3];
    let mut stream = event(0, &json!({"role": "assistant", "content": ""}), None, habits);
    for (place, piece) in pieces.iter().enumerate() {
        let delta = match piece {
            Piece::Text(text) => json!({"content": text}),
            Piece::Thought(text) => json!({"reasoning": text}),
            Piece::Call { index, arguments } if known[*index] => {
                json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
            }
            Piece::Call { index, arguments } => {
                known[*index] = true;
                let function = json!({"name": format!("f{index}"), "arguments": arguments});
                json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "type": "function", "function": function}]})
            }
        };
        stream += &event(place + 1, &delta, None, habits);
    }
    stream += &event(pieces.len() + 1, &json!({}), Some("stop"), habits);
    if habits.done { stream + &format!("data: [DONE]{0}{0}", habits.line_end) } else { stream }
}

/// What a client puts together from our chunks: text, thoughts, and the arguments of each call by name.
fn collected(out: &[u8]) -> (String, String, Vec<(String, String)>) {
    let text = std::str::from_utf8(out).expect("UTF-8");
    let (mut content, mut thoughts, mut calls) = (String::new(), String::new(), Vec::new());
    for data in text.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: {")) {
        let chunk: Value = serde_json::from_str(&format!("{{{data}")).expect("JSON");
        let Some(delta) = chunk.pointer("/choices/0/delta") else { continue };
        content += delta.get("content").and_then(Value::as_str).unwrap_or_default();
        thoughts += delta.get("reasoning").and_then(Value::as_str).unwrap_or_default();
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let index = call.get("index").and_then(Value::as_u64).expect("an index") as usize;
            let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
            if index == calls.len() {
                let name = call.pointer("/function/name").and_then(Value::as_str).expect("a name comes first");
                calls.push((name.to_owned(), String::new()));
            }
            calls[index].1 += arguments;
        }
    }
    (content, thoughts, calls)
}

fn expected(pieces: &[Piece]) -> (String, String, Vec<(String, String)>) {
    let (mut content, mut thoughts) = (String::new(), String::new());
    let mut calls: Vec<(String, String)> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => content += text,
            Piece::Thought(text) => thoughts += text,
            Piece::Call { index, arguments } => {
                let name = format!("f{index}");
                match calls.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, all)) => *all += arguments,
                    None => calls.push((name, arguments.clone())),
                }
            }
        }
    }
    // A call without arguments gets an empty object.
    let is_empty = |arguments: &String| arguments.trim().is_empty() || arguments.trim() == "null";
    for (_, arguments) in calls.iter_mut().filter(|(_, arguments)| is_empty(arguments)) {
        *arguments = "{}".to_owned();
    }
    (content, thoughts, calls)
}

fn cut<'a>(stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).chain([0, stream.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn a_valid_stream_arrives_complete_however_it_is_split(
        pieces in pieces(),
        habits in habits(),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let stream = stream_of(&pieces, habits);
        let whole = run([stream.as_bytes()], setting(b""));
        prop_assert_eq!(&whole.fault, &None);
        prop_assert_eq!(collected(&whole.out), expected(&pieces));
        let split = run(cut(stream.as_bytes(), &cuts), setting(b""));
        prop_assert_eq!(split.out, whole.out);
        prop_assert_eq!(split.outcome, whole.outcome);
    }

    #[test]
    fn what_is_remembered_of_earlier_chunks_changes_nothing(pieces in pieces(), habits in habits()) {
        let remembered = run([stream_of(&pieces, habits).as_bytes()], setting(b""));
        let changing = Habits { created: None, ..habits };
        let read_anew = run([stream_of(&pieces, changing).as_bytes()], setting(b""));
        prop_assert_eq!(String::from_utf8_lossy(&remembered.out), String::from_utf8_lossy(&read_anew.out));
        prop_assert_eq!(remembered.outcome, read_anew.outcome);
    }

    #[test]
    fn a_valid_stream_cut_before_its_finish_is_never_taken_for_whole(
        pieces in pieces(),
        habits in habits(),
        cut in any::<prop::sample::Index>(),
    ) {
        let stream = stream_of(&pieces, habits);
        let finish = stream.rfind("\"stop\"").expect("a finish");
        let kept = stream.as_bytes().get(..cut.index(finish)).expect("a beginning");
        prop_assert!(run([kept], setting(b"")).fault.is_some());
    }

    #[test]
    fn arbitrary_bytes_never_surprise(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let whole = run([bytes.as_slice()], setting(b""));
        prop_assert_eq!(run(cut(&bytes, &cuts), setting(b"")).out, whole.out);
        let _ = pointsman_dialect::rewrite_answer(&bytes.into(), &context());
    }

    #[test]
    fn a_damaged_stream_never_surprises(
        pieces in pieces(),
        habits in habits(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut stream = stream_of(&pieces, habits).into_bytes();
        for (place, byte) in damage {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        let run = run([stream.as_slice()], setting(b""));
        prop_assert!(run.out.ends_with(b"data: [DONE]\n\n"));
        for event in String::from_utf8(run.out).expect("UTF-8").split_terminator("\n\n") {
            let data = event.strip_prefix("data: ").expect("a data line");
            prop_assert!(data == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok(), "{}", data);
        }
    }
}
