//! Streams of providers that ignore the limit of tokens, under `max_cost`: each ends as its client's dialect says that an answer
//! is at its limit, and costs no more.

use serde_json::{Value, json};

use crate::{
    amazon::frame,
    dialect_pairs::{DOORS, Door, PROVIDERS, begun_with, events, gateway, streamed},
    door_completions,
    harness::{Reply, TestGateway},
    scripted::{Script, Upstream},
    world::and,
};

/// Dollars. A token of the gateway's one model costs a millionth.
const CEILING: f64 = 0.0005;

/// The beginning of a stream, and many more pieces of its text, which cost twice the ceiling. All of it comes at once.
fn endless(dialect: &str) -> Vec<u8> {
    let (mut bytes, data) =
        (streamed(dialect).0[..2].concat(), |value: Value| format!("data: {value}\n\n").into_bytes());
    for number in 0..400 {
        let text = format!("word{number:04} ");
        bytes.extend(match dialect {
            "openai" => data(json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})),
            "anthropic" => data(json!({"type": "content_block_delta", "index": 0,
                                       "delta": {"type": "text_delta", "text": text}})),
            "gemini" => {
                let content = json!({"role": "model", "parts": [{"text": text}]});
                data(json!({"candidates": [{"index": 0, "content": content}], "responseId": "r1"}))
            }
            "converse" => frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}})),
            _ => data(json!({"type": "response.output_text.delta", "sequence_number": number + 4, "item_id": "msg_1",
                             "output_index": 0, "content_index": 0, "delta": text})),
        });
    }
    bytes
}

/// What the end of the stream says, in the words of the dialect.
fn end(door: Door, reply: &Reply) -> Vec<String> {
    let (text, events) = (reply.text(), events(reply));
    let of_type = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    match door {
        Door::Chat => {
            assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
            let finishes = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str());
            finishes.map(str::to_owned).collect()
        }
        Door::Messages => {
            let last: Vec<String> = events.iter().rev().take(3).rev().map(of_type).collect();
            assert_eq!(last, ["content_block_stop", "message_delta", "message_stop"], "{text}");
            let ends = events.iter().filter(|event| event["type"] == "message_delta");
            ends.map(|event| event["delta"]["stop_reason"].as_str().unwrap().to_owned()).collect()
        }
        Door::Responses => {
            let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
            let last = events.last().unwrap();
            assert!(last["response"]["usage"]["output_tokens"].as_u64() > Some(100), "{last}");
            vec![of_type(last), last["response"]["incomplete_details"]["reason"].as_str().unwrap().to_owned()]
        }
    }
}

async fn record(gateway: &TestGateway, reply: &Reply) -> Value {
    let id = reply.header("x-generation-id").expect("an id");
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
}

#[actix_web::test]
async fn a_stream_of_every_dialect_ends_at_the_ceiling_as_an_answer_at_its_limit_for_every_client() {
    for dialect in PROVIDERS {
        for door in DOORS {
            let place = format!("{} at {dialect}", door.name());
            let maker = Upstream::start([Script::new().request().send(begun_with(&endless(dialect))).fin()]);
            let gateway = gateway(dialect, &maker, None).await;
            let limit = if door == Door::Responses { "max_output_tokens" } else { "max_tokens" };
            let more = json!({"stream": true, "max_cost": CEILING, limit: 4000});
            let reply = gateway.post(door.path(), &and(door.request(), more)).await;
            assert_eq!(reply.status, 200, "{place}: {}", reply.text());
            let expected: &[&str] = match door {
                Door::Chat => &["length"],
                Door::Messages => &["max_tokens"],
                Door::Responses => &["response.incomplete", "max_output_tokens"],
            };
            assert_eq!(end(door, &reply), expected, "{place}: {}", reply.text());
            let record = record(&gateway, &reply).await;
            let cost = record["total_cost"].as_f64().unwrap();
            assert!(cost <= CEILING && cost > CEILING * 0.9, "{place}: {cost}");
            assert_eq!((&record["finish_reason"], &record["cancelled"]), (&json!("length"), &json!(false)), "{place}");
        }
    }
}

#[actix_web::test]
async fn reasoning_that_the_client_does_not_see_costs_too() {
    let thought = |number: u32| {
        let delta = json!({"reasoning": format!("thought{number:04} ")});
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
    };
    let thoughts: String = (0..400).map(thought).collect();
    let maker = Upstream::start([Script::new().request().send(begun_with(thoughts.as_bytes())).fin()]);
    let gateway = gateway("openai", &maker, None).await;
    let more = json!({"stream": true, "max_cost": CEILING, "max_tokens": 4000, "reasoning": {"exclude": true}});
    let reply = gateway.post(Door::Chat.path(), &and(Door::Chat.request(), more)).await;
    assert_eq!(end(Door::Chat, &reply), ["length"], "{}", reply.text());
    assert!(!reply.text().contains("thought0"));
    let cost = record(&gateway, &reply).await["total_cost"].as_f64().unwrap();
    assert!(cost <= CEILING && cost > CEILING * 0.9, "{cost}");
}

#[actix_web::test]
async fn a_text_that_passes_as_it_came_ends_at_the_ceiling_with_a_chunk_of_a_text() {
    let piece = |number: u32| {
        let choice = json!({"index": 0, "text": format!("word{number:04} "), "logprobs": null, "finish_reason": null});
        let chunk = json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let pieces: String = (0..400).map(piece).collect();
    let maker = Upstream::start([Script::new().request().send(begun_with(pieces.as_bytes())).fin()]);
    let gateway = door_completions::gateway(&maker, "legacy_completions = true").await;
    // A token of this model's answers costs twice as much.
    let ceiling = 2.0 * CEILING;
    let asked =
        json!({"model": "acme/coder", "prompt": "def f(", "stream": true, "max_cost": ceiling, "max_tokens": 4000});
    let reply = gateway.post("/v1/completions", &asked).await;
    assert_eq!(end(Door::Chat, &reply), ["length"], "{}", reply.text());
    assert!(events(&reply).iter().all(|event| event["choices"][0]["text"].is_string()), "{}", reply.text());
    let cost = record(&gateway, &reply).await["total_cost"].as_f64().unwrap();
    assert!(cost <= ceiling && cost > ceiling * 0.9, "{cost}");
}
