//! `POST /embeddings` for models at Amazon Bedrock and at Vertex AI, most of which take few inputs in one call.

use std::net::SocketAddr;

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{World, always, http, http_with},
};

const BEDROCK: &str = "dialect = \"converse\"";
const TITAN: &str = "amazon.titan-embed-text-v2:0";
const COHERE: &str = "us.cohere.embed-v4:0";

/// `acme/vectors`, called `model` at the cloud; it costs a millionth of a dollar a token.
async fn gateway(cloud: SocketAddr, path: &str, toml: &str, model: &str) -> TestGateway {
    World::new()
        .with(&format!(
            "[providers.cloud]\nbase_url = \"http://{cloud}{path}\"\napi_key_env = \"CLOUD_KEY\"\n{toml}\n[[models]]\nid = \
             \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nsupported_parameters = \
             [\"dimensions\"]\nendpoints = [{{ provider = \"cloud\", upstream_model = \"{model}\", pricing = {{ prompt = \
             \"0.000001\", completion = \"0\" }} }}]"
        ))
        .variable("CLOUD_KEY", "bedrock-key-5ec2e7")
        .start()
        .await
}

fn asked(input: &Value) -> Value {
    json!({"model": "acme/vectors", "input": input})
}

/// Titan: the vector of a text is its number, and it has as many tokens as digits.
async fn titan(request: HttpRequest, body: web::Json<Value>) -> HttpResponse {
    assert_eq!(request.headers().get("authorization").unwrap(), "Bearer bedrock-key-5ec2e7");
    let text = body["inputText"].as_str().unwrap();
    // Later calls are answered first.
    let slowness = 7 - text.parse::<u64>().unwrap() % 8;
    actix_web::rt::time::sleep(std::time::Duration::from_millis(slowness)).await;
    HttpResponse::Ok().json(json!({"embedding": [text.parse::<u64>().unwrap()], "inputTextTokenCount": text.len()}))
}

fn serve_titan() -> SocketAddr {
    let app = || App::new().service(web::resource("/model/{model}/invoke").route(web::post().to(titan)));
    let server = HttpServer::new(app).workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
    let address = server.addrs()[0];
    actix_web::rt::spawn(server.run());
    address
}

#[actix_web::test]
async fn as_many_texts_as_a_request_may_have_are_embedded_one_call_each_in_order() {
    let gateway = gateway(serve_titan(), "", BEDROCK, TITAN).await;
    for count in [1_u64, 2, 2_048] {
        let texts: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let tokens: usize = texts.iter().map(String::len).sum();
        let reply = gateway.post("/v1/embeddings", &asked(&json!(texts))).await;
        let answer = reply.expect(200);
        let vectors = answer["data"].as_array().unwrap();
        let numbers: Vec<u64> = vectors.iter().map(|vector| vector["embedding"][0].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        assert_eq!(answer["usage"]["prompt_tokens"], json!(tokens));
        let id = reply.header("x-generation-id").unwrap();
        let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
        assert_eq!(record["data"]["tokens_prompt"], json!(tokens), "{record}");
        assert_eq!(record["data"]["total_cost"], json!(tokens as f64 / 1e6), "{record}");
    }
}

#[actix_web::test]
async fn a_text_is_sent_to_titan_in_its_form_and_its_answer_is_given_as_numbers_or_base64() {
    let cloud = always(200, &json!({"embedding": [0.5, -1.25], "inputTextTokenCount": 3}));
    let gateway = gateway(cloud.address(), "", BEDROCK, TITAN).await;
    let request = json!({"model": "acme/vectors", "input": "caf\u{e9}", "dimensions": 256, "user": "u"});
    let reply = gateway.post("/v1/embeddings", &request).await;
    let answer = reply.expect(200);
    assert_eq!(answer["data"], json!([{"object": "embedding", "index": 0, "embedding": [0.5, -1.25]}]));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 3, "total_tokens": 3, "cost": 0.000003}));
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("user"));
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /model/amazon.titan-embed-text-v2%3A0/invoke HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("accept: application/json\r\n"), "{sent}");
    assert_eq!(cloud.last_body(), json!({"inputText": "caf\u{e9}", "dimensions": 256}));
    let base64 = json!({"model": "acme/vectors", "input": "x", "encoding_format": "base64"});
    let answer = gateway.post("/v1/embeddings", &base64).await.expect(200);
    assert_eq!(answer["data"][0]["embedding"], "AAAAPwAAoL8=");
}

#[actix_web::test]
async fn one_call_that_fails_fails_them_all_and_the_request_goes_elsewhere() {
    let vector = json!({"embedding": [1], "inputTextTokenCount": 4});
    let throttled = json!({"message": "Too many requests, please wait before trying again."});
    // One call is answered, the other is not.
    let cloud = Upstream::start([
        Script::new().request().send(http(200, &vector)),
        Script::new().request().send(http_with(429, "x-amzn-errortype: ThrottlingException\r\n", &throttled)),
    ]);
    let far = always(200, &json!({"data": [{"embedding": [7]}, {"embedding": [8]}], "usage": {"prompt_tokens": 5}}));
    let gateway = World::new()
        .with(&format!(
            "[providers.cloud]\nbase_url = \"http://{}\"\napi_key_env = \"CLOUD_KEY\"\n{BEDROCK}",
            cloud.address()
        ))
        .variable("CLOUD_KEY", "k")
        .provider("far", far.address())
        .with(&format!(
            "[[models]]\nid = \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nendpoints = [{{ \
             provider = \"cloud\", upstream_model = \"{TITAN}\", pricing = {{ prompt = \"0.000001\", completion = \"0\" }} }}, \
             {{ provider = \"far\", upstream_model = \"v\", pricing = {{ prompt = \"0.001\", completion = \"0\" }} }}]"
        ))
        .start()
        .await;
    let request = json!({"model": "acme/vectors", "input": ["a", "b"], "objective": "cheapest"});
    let reply = gateway.post("/v1/embeddings", &request).await;
    let answer = reply.expect(200);
    assert_eq!((&answer["data"][0]["embedding"], &answer["data"][1]["embedding"]), (&json!([7]), &json!([8])));
    assert_eq!(reply.header("x-route-attempts"), Some("2"));
    let id = reply.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
    let text = explained.to_string();
    assert!(text.contains("rate_limit") && !text.contains("Too many requests"), "{text}");
}

#[actix_web::test]
async fn cohere_is_told_what_vectors_are_for_and_counts_tokens_in_a_header() {
    let answer = json!({"embeddings": {"float": [[0.5], [1]]}, "id": "x", "response_type": "embeddings_by_type"});
    let counted = http_with(200, "x-amzn-bedrock-input-token-count: 9\r\n", &answer);
    let cloud = Upstream::start([Script::answering(counted)]);
    let keys = "dialect = \"anthropic\"\nroutes = \"bedrock\"\nauth = \"bearer\"";
    let gateway = gateway(cloud.address(), "", keys, COHERE).await;
    let answer = gateway.post("/v1/embeddings", &asked(&json!(["a", "b"]))).await.expect(200);
    assert_eq!(answer["data"][1]["embedding"], json!([1]));
    assert_eq!(answer["usage"]["prompt_tokens"], 9);
    assert_eq!(cloud.last_body(), json!({"texts": ["a", "b"], "input_type": "search_document"}));
    let query = json!({"model": "acme/vectors", "input": ["a", "b"], "input_type": "search_query"});
    gateway.post("/v1/embeddings", &query).await.expect(200);
    assert_eq!(cloud.last_body()["input_type"], "search_query");
    assert!(cloud.requests()[0].starts_with("POST /model/us.cohere.embed-v4%3A0/invoke HTTP"));
}

#[actix_web::test]
async fn calls_of_embeddings_are_signed_each_with_its_own_body() {
    let cloud = always(200, &json!({"embedding": [1], "inputTextTokenCount": 1}));
    let keys = r#"{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret-5ec2e7"}"#;
    let gateway = World::new()
        .with(&format!(
            "[providers.cloud]\nbase_url = \"http://{}\"\nregion = \"us-east-1\"\nauth = \"sigv4\"\napi_key_env = \"KEYS\"\n{BEDROCK}\n\
             [[models]]\nid = \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nendpoints = [{{ provider \
             = \"cloud\", upstream_model = \"{TITAN}\", pricing = {{ prompt = \"0.000001\", completion = \"0\" }} }}]",
            cloud.address()
        ))
        .variable("KEYS", keys)
        .start()
        .await;
    gateway.post("/v1/embeddings", &asked(&json!(["a", "b"]))).await.expect(200);
    let signature = |request: &String| request.split_once("Signature=").unwrap().1.lines().next().unwrap().to_owned();
    let signatures: Vec<String> = cloud.requests().iter().map(signature).collect();
    assert_eq!(signatures.len(), 2);
    assert_ne!(signatures[0], signatures[1]);
}

#[actix_web::test]
async fn vertex_predicts_or_embeds_contents_as_the_model_wants() {
    let predicted = json!({"predictions": [
        {"embeddings": {"values": [0.5], "statistics": {"token_count": 2, "truncated": false}}},
        {"embeddings": {"values": [1], "statistics": {"token_count": 3, "truncated": false}}},
    ]});
    let cloud = always(200, &predicted);
    let place = "/v1/projects/p/locations/europe-west4/publishers/google";
    let keys = "dialect = \"gemini\"\nauth = \"bearer\"";
    let older = gateway(cloud.address(), place, keys, "text-embedding-005").await;
    let answer = older.post("/v1/embeddings", &asked(&json!(["a", "b"]))).await.expect(200);
    assert_eq!(answer["data"][1]["embedding"], json!([1]));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 5, "total_tokens": 5, "cost": 0.000005}));
    assert_eq!(cloud.last_body(), json!({"instances": [{"content": "a"}, {"content": "b"}]}));
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with(&format!("POST {place}/models/text-embedding-005:predict HTTP/1.1\r\n")), "{sent}");

    let cloud = always(200, &json!({"embedding": {"values": [0.5]}, "usageMetadata": {"promptTokenCount": 2}}));
    // The address says nothing here.
    let keys = "dialect = \"gemini\"\nauth = \"bearer\"\nroutes = \"vertex\"";
    let newer = gateway(cloud.address(), "/proxy", keys, "gemini-embedding-2").await;
    let request = json!({"model": "acme/vectors", "input": ["a", "b"], "dimensions": 64});
    let answer = newer.post("/v1/embeddings", &request).await.expect(200);
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
    assert_eq!(answer["usage"]["prompt_tokens"], 4);
    let mut bodies: Vec<String> = cloud.bodies().iter().map(Value::to_string).collect();
    bodies.sort();
    let body = |text: &str| {
        json!({"content": {"parts": [{"text": text}]}, "embedContentConfig": {"outputDimensionality": 64}}).to_string()
    };
    assert_eq!(bodies, [body("a"), body("b")]);
    assert!(cloud.requests()[0].starts_with("POST /proxy/models/gemini-embedding-2:embedContent HTTP/1.1\r\n"));
}
