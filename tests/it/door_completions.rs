//! The deprecated API that continues a text, at endpoints that have it and at endpoints that only chat.

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::{Script, Upstream},
    world::{World, always, and, answer, error_of, http},
};

/// Switches the API on.
const ON: (&str, &str) = ("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true");

/// Of a provider that has it.
const LEGACY: &str = "legacy_completions = true";

/// `acme/coder` at one provider, with these keys.
pub(crate) async fn gateway(upstream: &Upstream, keys: &str) -> TestGateway {
    let model = "[[models]]\nid = \"acme/coder\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"stop\", \
                 \"temperature\"]\nendpoints = [{ provider = \"maker\", upstream_model = \"m\", pricing = { prompt = \"0.000001\", \
                 completion = \"0.000002\" } }]\n";
    World::new().variable(ON.0, ON.1).provider_with("maker", upstream.address(), keys).with(model).start().await
}

fn request() -> Value {
    json!({"model": "acme/coder", "prompt": "def f(", "max_tokens": 9, "stop": ["\n\n"]})
}

fn events(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[actix_web::test]
async fn it_is_off_unless_it_is_switched_on() {
    let gateway = World::new().start().await;
    for path in ["/v1/completions", "/api/v1/completions", "/api/completions"] {
        assert_eq!(gateway.post(path, &request()).await.status, 404, "{path}");
    }
    let named = error_of(&gateway.post("/api/v1/route/preview?api=completions", &request()).await, 400);
    assert_eq!(named["param"], "api", "{named}");
    assert!(named["message"].as_str().unwrap().ends_with("chat, messages, responses, embeddings."), "{named}");
}

#[actix_web::test]
async fn a_model_that_only_chats_is_refused_with_the_path_that_serves_it() {
    let maker = always(200, &answer(json!({"role": "assistant", "content": "x): ..."}), json!({})));
    let gateway = gateway(&maker, "").await;
    for path in ["/v1/completions", "/api/v1/completions", "/api/completions"] {
        for more in [json!({}), json!({"suffix": ")"}), json!({"stream": true})] {
            let error = error_of(&gateway.post(path, &and(request(), &more)).await, 400);
            let expected = "Model 'acme/coder' only chats: send the request to '/chat/completions'.";
            assert_eq!((&error["param"], &error["message"]), (&json!("model"), &json!(expected)), "{more}");
        }
    }
    let error =
        error_of(&gateway.post("/v1/completions", &and(request(), json!({"model": "service/auto"}))).await, 404);
    assert!(error["message"].as_str().unwrap().ends_with("send the request to '/chat/completions'."), "{error}");
    assert_eq!(maker.connections(), 0);
}

#[actix_web::test]
async fn a_broken_stream_of_texts_says_so() {
    let chunk = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"x\"}]}\n\n";
    let broken = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{chunk}");
    let maker = Upstream::start([Script::new().request().send(broken).fin()]);
    let gateway = gateway(&maker, LEGACY).await;
    let failed = events(&gateway.post("/v1/completions", &and(request(), json!({"stream": true}))).await);
    let last = failed.last().unwrap();
    assert_eq!(failed[0]["choices"][0]["text"], "x", "{failed:?}");
    assert_eq!((&last["object"], &last["choices"][0]["finish_reason"]), (&json!("text_completion"), &json!("error")));
    assert!(last["error"]["code"].as_u64().unwrap() >= 500, "{last}");
}

#[actix_web::test]
async fn an_endpoint_with_this_api_gets_the_clients_bytes_and_its_answer_passes() {
    let whole = "{\"id\":\"cmpl-1\", \"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":[{\"text\":\"x\\u00e9\",\"index\":0,\
                 \"logprobs\":{\"tokens\":[\"x\"]},\"finish_reason\":\"length\"}],\"timings\":1.50,\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}";
    let head = |kind: &str, length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
    };
    let piece = "data: {\"id\":\"cmpl-2\",\"model\":\"m\",\"choices\":[{\"text\":\"x\",\"index\":0,\"finish_reason\":\"stop\"}],\"own\":1.0}\n\n";
    let usage = "data: {\"id\":\"cmpl-2\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n";
    let stream = [piece, usage, "data: [DONE]\n\n"].concat();
    let streamed = head("text/event-stream", stream.len()) + &stream;
    let script = Script::new().request().send(head("application/json", whole.len()) + whole).request().send(&*streamed);
    let maker = Upstream::start([script.request().send(streamed)]);
    let gateway = gateway(&maker, LEGACY).await;
    let body = "{\"model\":\"acme/coder\", \"prompt\":\"\\u00e9\",\"suffix\":\")\",\"echo\":true,\"objective\":\"fastest\",\"n_predict\":1.50}";
    let json_type = [("content-type", "application/json")];
    let reply = gateway.call(actix_web::http::Method::POST, "/v1/completions", &json_type, Some(body.into())).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    assert_eq!(reply.text(), whole.replace("cmpl-1", &id).replace("\"m\"", "\"acme/coder\""));
    let sent = maker.requests().remove(0);
    assert!(sent.starts_with("POST /v1/completions "), "{sent}");
    let expected = body.replace("acme/coder", "m").replace("\"objective\":\"fastest\",", "");
    assert_eq!(sent.split_once("\r\n\r\n").unwrap().1, expected);
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(record["data"]["total_cost"], json!(0.000011), "{record}");

    let asked = and(request(), json!({"stream": true, "suffix": ")"}));
    let reply = gateway.post("/v1/completions", &asked).await;
    let id = reply.header("x-generation-id").unwrap();
    let passed = piece.replace("cmpl-2", id).replace("\"m\"", "\"acme/coder\"");
    assert_eq!(reply.text(), format!("{passed}data: [DONE]\n\n"), "a report that nobody asked for is kept back");
    assert_eq!(maker.last_body()["stream_options"], json!({"include_usage": true}));
    let asked = and(asked, json!({"stream_options": {"include_usage": true}}));
    assert!(gateway.post("/v1/completions", &asked).await.text().contains("\"usage\""));
}

#[actix_web::test]
async fn a_mistake_is_refused_by_the_name_of_its_field() {
    let maker = always(200, &json!({}));
    let gateway = gateway(&maker, LEGACY).await;
    for (more, param) in [
        (json!({"prompt": 7}), "prompt"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"messages": []}), "messages"),
        (json!({"max_tokens": 1_000_000}), "prompt"),
    ] {
        let error = error_of(&gateway.post("/v1/completions", &and(request(), &more)).await, 400);
        assert_eq!(error["param"], param, "{more}: {error}");
    }
    assert_eq!(maker.connections(), 0);
}

#[actix_web::test]
async fn a_preview_reads_its_bodies_and_an_unready_endpoint_hands_over() {
    let own = json!({"id": "c", "object": "text_completion", "choices": [{"text": "x", "index": 0, "finish_reason": "stop"}]});
    let chats = always(200, &answer(json!({"role": "assistant", "content": "x"}), json!({})));
    let (first, second) = (always(500, &json!({})), Upstream::start([Script::answering(http(200, &own))]));
    let endpoint = |provider: &str, price: &str, more: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"m\", {more}pricing = {{ prompt = \"{price}\", completion = \"{price}\" }} }}"
        )
    };
    let endpoints = [
        endpoint("chats", "0", ""),
        endpoint("first", "0.0001", "legacy_completions = true, "),
        endpoint("second", "0.001", "legacy_completions = true, "),
    ];
    let model =
        format!("[[models]]\nid = \"acme/coder\"\ncontext_length = 1000\nendpoints = [{}]\n", endpoints.join(", "));
    let world = World::new().variable(ON.0, ON.1).provider("chats", chats.address());
    let world = world.provider("first", first.address()).provider("second", second.address());
    let gateway = world.with(&model).start().await;
    let asked = json!({"model": "acme/coder", "prompt": "a", "suffix": "b", "objective": "cheapest"});
    let preview = gateway.post("/api/v1/route/preview", &asked).await.expect(200);
    assert_eq!(preview["excluded"][0]["detail"], "does not support 'legacy_completions'", "{preview}");
    assert_eq!(gateway.post("/v1/completions", &asked).await.expect(200)["choices"][0]["text"], "x");
    assert_eq!((chats.connections(), first.connections(), second.connections()), (0, 1, 1), "one was asked before");
}
