//! A client that takes nothing on trust: it checks the grammar of a stream, and that deltas, parts, items and the last event
//! say the same.

use serde_json::Value;

/// A stream that was read to its end.
pub(super) struct StrictClient {
    pub(super) events: Vec<Value>,
    items: Vec<Item>,
}

/// An item as its events built it.
#[derive(Default)]
struct Item {
    id: String,
    kind: String,
    /// Texts of the parts so far, and whether the last one is open.
    parts: Vec<String>,
    is_open: bool,
    /// The whole item, once it is done.
    done: Option<Value>,
}

impl StrictClient {
    #[track_caller]
    pub(super) fn read(stream: &[u8]) -> StrictClient {
        let text = std::str::from_utf8(stream).expect("UTF-8");
        let mut client = StrictClient { events: Vec::new(), items: Vec::new() };
        for block in text.split_terminator("\n\n") {
            if block.starts_with(':') {
                continue;
            }
            let (name, data) = block.split_once('\n').unwrap_or_else(|| panic!("{block}"));
            let name = name.strip_prefix("event: ").unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(data["type"], name);
            assert_eq!(data["sequence_number"], client.events.len(), "numbers without gaps");
            client.event(name.strip_prefix("response.").unwrap(), &data);
            client.events.push(data);
        }
        client.check_end();
        client
    }

    /// The kinds of all events.
    pub(super) fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap()).collect()
    }

    /// The response of the last event.
    pub(super) fn response(&self) -> &Value {
        &self.events.last().unwrap()["response"]
    }

    fn event(&mut self, kind: &str, event: &Value) {
        let place = self.events.len();
        assert!(!self.is_over(), "nothing follows the last event");
        match kind {
            "created" => assert_eq!(place, 0),
            "in_progress" => assert_eq!(place, 1),
            _ => assert!(place >= 2, "{kind} too early"),
        }
        match kind {
            "created" | "in_progress" | "completed" | "incomplete" | "failed" => {
                let status = if kind == "created" { "in_progress" } else { kind };
                assert_eq!(event["response"]["status"], status);
            }
            "output_item.added" => {
                assert_eq!(event["output_index"], self.items.len());
                let item = &event["item"];
                let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
                let (id, kind) = (text("id"), text("type"));
                let prefix = match &*kind {
                    "message" => "msg_",
                    "reasoning" => "rs_",
                    "function_call" => "fc_",
                    "custom_tool_call" => "ctc_",
                    "image_generation_call" => "ig_",
                    other => panic!("{other}"),
                };
                assert!(id.starts_with(prefix), "{id}");
                assert!(text("arguments").is_empty() && text("input").is_empty());
                let is_call = kind.ends_with("tool_call") || kind == "function_call";
                let parts = if is_call { vec![String::new()] } else { Vec::new() };
                self.items.push(Item { id, kind, parts, is_open: is_call, done: None });
            }
            "output_item.done" => {
                let index = event["output_index"].as_u64().unwrap() as usize;
                let item = &mut self.items[index];
                assert!(!item.is_open && item.done.is_none());
                assert_eq!(
                    (&event["item"]["id"], &event["item"]["type"]),
                    (&Value::from(&*item.id), &Value::from(&*item.kind))
                );
                assert_eq!(item.parts, texts(&event["item"]), "the whole item has all texts");
                item.done = Some(event["item"].clone());
            }
            _ => self.item_of(event).event(kind, event),
        }
    }

    fn item_of(&mut self, event: &Value) -> &mut Item {
        let item = &mut self.items[event["output_index"].as_u64().unwrap() as usize];
        assert_eq!(event["item_id"], *item.id);
        assert!(item.done.is_none(), "an item that is done gets nothing more");
        item
    }

    fn is_over(&self) -> bool {
        let last = self.events.last().and_then(|event| event["type"].as_str());
        matches!(last, Some("response.completed" | "response.incomplete" | "response.failed"))
    }

    #[track_caller]
    fn check_end(&self) {
        assert!(self.is_over(), "no last event: {:?}", self.kinds());
        let output = self.response()["output"].as_array().unwrap();
        assert_eq!(output.len(), self.items.len(), "the response has all items");
        for (item, told) in self.items.iter().zip(output) {
            assert_eq!((&told["id"], &told["type"]), (&Value::from(&*item.id), &Value::from(&*item.kind)));
            match &item.done {
                Some(done) => assert_eq!(done, told),
                None => {
                    assert_eq!(self.response()["status"], "failed", "every item is done");
                    assert!(told["status"] == "incomplete" || item.kind == "reasoning", "{told}");
                }
            }
        }
    }
}

impl Item {
    fn event(&mut self, kind: &str, event: &Value) {
        let (name, step) = kind.rsplit_once('.').unwrap();
        let owner = match name {
            "content_part" | "output_text" | "refusal" | "output_text.annotation" => "message",
            "reasoning_summary_part" | "reasoning_summary_text" => "reasoning",
            "function_call_arguments" => "function_call",
            "custom_tool_call_input" => "custom_tool_call",
            other => panic!("{other}"),
        };
        assert_eq!(owner, self.kind, "{kind}");
        let index = ["content_index", "summary_index"].into_iter().find_map(|name| event[name].as_u64()).unwrap_or(0);
        let is_part = name.ends_with("_part");
        if is_part && step == "added" {
            assert!(!self.is_open);
            assert_eq!(index as usize, self.parts.len());
            assert_eq!(text_of(&event["part"]), "");
            self.parts.push(String::new());
            self.is_open = true;
            return;
        }
        assert_eq!(index as usize + 1, self.parts.len(), "{kind}");
        let text = self.parts.last_mut().unwrap();
        match step {
            "delta" => {
                assert!(self.is_open);
                assert!(name != "output_text" || event["logprobs"].is_array());
                text.push_str(event["delta"].as_str().unwrap());
            }
            "done" if is_part => {
                assert_eq!(text_of(&event["part"]), *text);
                self.is_open = false;
            }
            "done" => {
                let member = match name {
                    "refusal" => "refusal",
                    "function_call_arguments" => "arguments",
                    "custom_tool_call_input" => "input",
                    _ => "text",
                };
                assert_eq!(event[member], **text, "{kind}");
                self.is_open &= !matches!(owner, "function_call" | "custom_tool_call");
            }
            "added" => assert!(self.is_open),
            other => panic!("{other}"),
        }
    }
}

fn text_of(part: &Value) -> &str {
    part["text"].as_str().or(part["refusal"].as_str()).unwrap()
}

/// The texts of a whole item.
fn texts(item: &Value) -> Vec<String> {
    let parts = |name: &str| item[name].as_array().unwrap().iter().map(|part| text_of(part).to_owned()).collect();
    match item["type"].as_str().unwrap() {
        "message" => parts("content"),
        "reasoning" => parts("summary"),
        "function_call" => vec![item["arguments"].as_str().unwrap().to_owned()],
        "custom_tool_call" => vec![item["input"].as_str().unwrap().to_owned()],
        _ => Vec::new(),
    }
}
