//! Small cases of the golden files: many in a file, each a request or an answer of a few lines.
//! `tests/golden/README.md` tells how a case is added.

use std::fs;

use bytes::Bytes;
use pointsman_dialect::{ChatPurpose, ChatRequest, OutgoingBody, RequestLimits, chat_body};
use pointsman_domain::{Capability, Catalog, Dialect, Endpoint};
use serde_json::Value;

use crate::{
    golden::{Golden, compact, elements, files, root, streamed, whole},
    world::{catalog_taking, of_messages, of_responses},
};

/// What every chunk and answer of chat begins with, and other members that say nothing here.
const EVERYWHERE: [(&str, &str); 5] = [
    (r#""id":"gen-1763629500-BAAAAAAACAAAAAAADAAAAA","object":"chat.completion.chunk","#, ""),
    (r#""id":"gen-1763629500-BAAAAAAACAAAAAAADAAAAA","object":"chat.completion","#, ""),
    (r#""created":1763629500,"model":"acme/m","provider":"Acme","#, ""),
    (r#""system_fingerprint":"fp","#, ""),
    (r#","finish_reason":null,"native_finish_reason":null,"logprobs":null"#, ""),
];

#[test]
fn small_cases_are_as_their_files_say() {
    let mut golden = Golden::default();
    for name in files("small") {
        let [client, dialect, ..] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let dialect = Dialect::ALL.into_iter().find(|known| known.as_str() == dialect).unwrap();
        let name = format!("small/{name}");
        let text = fs::read_to_string(root().join(&name)).unwrap();
        golden.check(&name, &Pair { client, dialect }.written(&text));
    }
    golden.tell(10);
}

/// A client and the dialect of the endpoint.
#[derive(Clone, Copy)]
struct Pair<'a> {
    client: &'a str,
    dialect: Dialect,
}

impl Pair<'_> {
    /// The file with what follows from each case below it. Lines that begin with two spaces are such.
    fn written(self, text: &str) -> String {
        let given: Vec<&str> = text.lines().filter(|line| !line.starts_with("  ")).collect();
        let mut out = String::new();
        for case in given.chunk_by(|line, next| line.starts_with("< ") && next.starts_with("< ")) {
            let follows = match case[0].split_once(' ') {
                Some(("?", asked)) => self.sent(asked),
                Some(("<=", said)) => self.answer(&[said], true),
                Some(("<", _)) => {
                    self.answer(&case.iter().map(|line| line.trim_start_matches("< ")).collect::<Vec<_>>(), false)
                }
                _ => Vec::new(),
            };
            case.iter().for_each(|line| out += &format!("{line}\n"));
            follows.iter().for_each(|line| out += &format!("  {line}\n"));
        }
        out
    }

    /// What the endpoint is sent for a model and members of a request, where it differs from what it is sent for a bare one,
    /// which has no members.
    fn sent(self, asked: &str) -> Vec<String> {
        let (model, members) = asked.split_once(' ').unwrap();
        let (bare, asked) = match (self.outgoing(model, "{}"), self.outgoing(model, members)) {
            (Ok((_, bare)), Ok((_, asked))) => (bare, asked),
            (_, refused) => return vec![format!("refused: {}", refused.unwrap_err())],
        };
        let (before, body) = (text(&bare), text(&asked));
        let before = if members == "{}" { Vec::new() } else { elements(&before) };
        let members = elements(&body);
        let differs = members.iter().filter(|member| !before.contains(member));
        let differs: Vec<String> = differs.map(|(name, value)| format!("{name}{value}")).collect();
        let given: Vec<String> = members.iter().map(|(name, _)| plain(name)).collect();
        let absent = before.iter().map(|(name, _)| plain(name)).filter(|name| !given.contains(name));
        let lists = [
            ("without: ", absent.collect::<Vec<_>>().join(", ")),
            ("dropped: ", asked.dropped.join(", ")),
            ("emulated: ", asked.emulated.join(", ")),
            (
                "headers: ",
                asked.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", "),
            ),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        [format!("{{{}}}", differs.join(","))]
            .into_iter()
            .chain(lists.map(|(name, list)| format!("{name}{list}")))
            .collect()
    }

    /// What the client gets for the events of a stream, or for a whole answer.
    fn answer(self, said: &[&str], is_whole: bool) -> Vec<String> {
        let (request, outgoing) = self.outgoing("m", if is_whole { "{}" } else { r#"{"stream":true}"# }).unwrap();
        let got = match is_whole {
            true => format!("data: {}", whole(&request, &outgoing, said[0].to_owned())),
            false => streamed(
                &request,
                &outgoing,
                self.dialect,
                &said.iter().map(|data| self.event(data)).collect::<String>(),
            ),
        };
        let got = EVERYWHERE.iter().fold(got, |got, (from, to)| got.replace(from, to));
        got.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// An event of a stream as it stands in larger cases.
    fn event(self, data: &str) -> String {
        match self.dialect {
            Dialect::Anthropic | Dialect::Responses => {
                let data = compact(data);
                let kind = elements(&data).into_iter().find(|(name, _)| *name == "\"type\":").unwrap().1;
                format!("event: {}\ndata: {data}\n\n", plain(kind))
            }
            Dialect::Converse => {
                let [(kind, value)] = elements(data)[..] else { panic!("{data}") };
                format!("event: {}\ndata: {value}\n\n", plain(kind))
            }
            _ => format!("data: {data}\n\n"),
        }
    }

    /// The request with these members, and what the endpoint of the model is sent.
    fn outgoing(self, model: &str, members: &str) -> Result<(Box<ChatRequest>, OutgoingBody), String> {
        let given: Value = serde_json::from_str(members).unwrap_or_else(|error| panic!("{error}: {members}"));
        let given = given.as_object().unwrap();
        let bare = match self.client {
            "responses" => [("input", r#""Hi""#), ("model", r#""acme/m""#)],
            _ => [("messages", r#"[{"role":"user","content":"Hi"}]"#), ("model", r#""acme/m""#)],
        };
        let bare = bare.into_iter().filter(|(name, _)| !given.contains_key(*name));
        let bare = bare.map(|(name, value)| format!("\"{name}\":{value}"));
        let limit =
            (self.client == "messages" && !given.contains_key("max_tokens")).then(|| r#""max_tokens":64"#.to_owned());
        let given_text = members.strip_prefix('{').unwrap().strip_suffix('}').unwrap().to_owned();
        let all: Vec<String> = bare.chain(limit).chain([given_text]).filter(|text| !text.is_empty()).collect();
        let body = format!("{{{}}}", all.join(","));
        let request = match self.client {
            "messages" => of_messages(&body),
            "responses" => of_responses(&body),
            _ => ChatRequest::parse(Bytes::from(body), ChatPurpose::Chat, &RequestLimits::default())
                .map_err(|invalid| format!("{}: {}", invalid.param.as_deref().unwrap_or_default(), invalid.message))?,
        };
        // Every endpoint takes every parameter: what becomes of it is the dialect's choice.
        let catalog: Catalog = catalog_taking(given.keys().map(String::as_str), |_| "m");
        let endpoint = catalog.endpoints.iter().find(|endpoint| endpoint.dialect == self.dialect).unwrap();
        let mut endpoint = Endpoint { upstream_model: model.into(), ..endpoint.clone() };
        endpoint.limits.context_length = 1_000_000;
        // Unless the configuration says otherwise, no provider keeps responses.
        endpoint.lacks = endpoint.lacks.with(Capability::KeptResponses);
        let outgoing = chat_body(&request, &catalog, &endpoint, None).unwrap();
        Ok((request, outgoing))
    }
}

/// The body that is sent, byte for byte.
fn text(outgoing: &OutgoingBody) -> String {
    String::from_utf8(outgoing.bytes.to_vec()).unwrap()
}

/// A quoted name, with its colon or without, as a word.
fn plain(quoted: &str) -> String {
    quoted.replace(['"', ':', ' '], "")
}
