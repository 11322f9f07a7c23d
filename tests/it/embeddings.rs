//! `POST /embeddings`.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{World, always, error_of},
};

/// `acme/vectors` at two providers, the first of which is cheaper.
async fn gateway(near: &Upstream, far: &Upstream) -> TestGateway {
    World::new()
        .provider("near", near.address())
        .provider("far", far.address())
        .with(
            "[[models]]\nid = \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nsupported_parameters = \
             [\"dimensions\", \"encoding_format\"]\nendpoints = [{ provider = \"near\", upstream_model = \"near-v\", pricing = { prompt = \
             \"0.000001\", completion = \"0\" } }, { provider = \"far\", upstream_model = \"far-v\", pricing = { prompt = \"0.001\", \
             completion = \"0\" } }]\n[[models]]\nid = \"acme/small\"\ncontext_length = 1000\nendpoints = [{ provider = \"near\", \
             upstream_model = \"s\", pricing = { prompt = \"0\", completion = \"0\" } }]",
        )
        .start()
        .await
}

/// The answer of an upstream with these vectors, the last first.
fn vectors(vectors: &[Value]) -> Value {
    let entry = |(index, vector): (usize, &Value)| json!({"object": "embedding", "index": index, "embedding": vector});
    let data: Vec<Value> = vectors.iter().enumerate().rev().map(entry).collect();
    json!({"object": "list", "data": data, "model": "near-v", "usage": {"prompt_tokens": 7, "total_tokens": 7}})
}

#[actix_web::test]
async fn every_input_gets_its_vector_in_order_with_usage_and_cost() {
    let near = always(200, &vectors(&[json!([0.5, -1.25]), json!([1e-7, 2])]));
    let far = always(500, &json!({}));
    let gateway = gateway(&near, &far).await;
    let request = json!({"model": "acme/vectors", "input": ["one", "two"], "dimensions": 2, "objective": "cheapest"});
    let reply = gateway.post("/v1/embeddings", &request).await;
    let answer = reply.expect(200);
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("acme/vectors")));
    assert_eq!(answer["data"][0], json!({"object": "embedding", "index": 0, "embedding": [0.5, -1.25]}));
    assert!(reply.text().contains("[1e-7,2]"), "numbers pass as they came: {}", reply.text());
    assert_eq!(answer["usage"], json!({"prompt_tokens": 7, "total_tokens": 7, "cost": 0.000007}));
    assert!(near.requests()[0].starts_with("POST /v1/embeddings "), "{:?}", near.requests());
    assert_eq!(near.last_body(), json!({"model": "near-v", "input": ["one", "two"], "dimensions": 2}));
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!((&record["data"]["api_type"], &record["data"]["tokens_prompt"]), (&json!("embeddings"), &json!(7)));
}

#[actix_web::test]
async fn base64_and_numbers_are_the_same_bits_whichever_the_provider_sends() {
    let floats = [0.1_f32, -3.402_823_5e38, 1.175_494_4e-38, 16_777_217.0];
    let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &bytes);
    let far = always(500, &json!({}));
    for sent in [json!(floats), json!(base64)] {
        let near = always(200, &vectors(&[sent]));
        let gateway = gateway(&near, &far).await;
        let ask = |format: &str| json!({"model": "acme/vectors", "input": "one", "encoding_format": format});
        let text = gateway.post("/v1/embeddings", &ask("base64")).await.expect(200);
        assert_eq!(text["data"][0]["embedding"], json!(base64));
        let numbers = gateway.post("/v1/embeddings", &ask("float")).await.expect(200);
        let numbers = numbers["data"][0]["embedding"].as_array().unwrap().clone();
        let numbers: Vec<f32> = numbers.iter().map(|number| number.to_string().parse().unwrap()).collect();
        assert_eq!(numbers, floats);
    }
}

#[actix_web::test]
async fn an_answer_with_a_vector_too_few_or_none_at_all_fails_over_to_the_same_model_elsewhere() {
    let far = always(200, &vectors(&[json!([1]), json!([2])]));
    let request = json!({"model": "acme/vectors", "input": ["one", "two"]});
    let wrong = [
        vectors(&[json!([1])]),
        vectors(&[json!([1]), json!([2]), json!([3])]),
        vectors(&[json!([1]), json!([])]),
        vectors(&[json!([1]), json!(["x"])]),
        vectors(&[json!([1]), json!("AAA=")]),
        json!({"data": "none"}),
        json!({"error": {"message": "no"}}),
    ];
    for wrong in wrong {
        let near = always(200, &wrong);
        let gateway = gateway(&near, &far).await;
        let reply = gateway.post("/v1/embeddings", &request).await;
        assert_eq!(reply.expect(200)["data"][1]["embedding"], json!([2]), "{wrong}");
        assert_eq!(reply.header("x-route-attempts"), Some("2"), "{wrong}");
    }
}

#[actix_web::test]
async fn what_cannot_be_embedded_or_compared_is_refused_with_the_path() {
    let near = always(200, &vectors(&[json!([1])]));
    let gateway = gateway(&near, &near).await;
    let many: Vec<String> = (0..2_049).map(|n| n.to_string()).collect();
    let cases = [
        (json!({"input": "a"}), "model"),
        (json!({"model": "acme/vectors"}), "input"),
        (json!({"model": "acme/vectors", "input": ""}), "input"),
        (json!({"model": "acme/vectors", "input": []}), "input"),
        (json!({"model": "acme/vectors", "input": ["a", ""]}), "input[1]"),
        (json!({"model": "acme/vectors", "input": [[1, -2]]}), "input[0][1]"),
        (json!({"model": "acme/vectors", "input": many}), "input"),
        (json!({"model": "acme/vectors", "input": {"text": "a"}}), "input"),
        (json!({"model": "acme/vectors", "input": "a", "encoding_format": "int8"}), "encoding_format"),
        (json!({"model": "acme/vectors", "input": "a", "dimensions": 0}), "dimensions"),
        (json!({"model": "acme/vectors", "models": ["acme/small"], "input": "a"}), "models"),
        (json!({"model": "service/auto", "input": "a"}), "model"),
        (json!({"model": "acme/small", "input": "a"}), "model"),
    ];
    for (request, param) in cases {
        let error = error_of(&gateway.post("/v1/embeddings", &request).await, 400);
        assert_eq!(error["param"], param, "{request} {error}");
    }
    let chat = json!({"model": "acme/vectors", "messages": [{"role": "user", "content": "a"}]});
    assert_eq!(error_of(&gateway.chat(&chat).await, 400)["param"], "model");
    assert_eq!(near.connections(), 0);
}

#[actix_web::test]
async fn token_ids_pass_and_count_as_one_input_or_one_per_list() {
    let near = always(200, &vectors(&[json!([1]), json!([2])]));
    let gateway = gateway(&near, &near).await;
    let request = json!({"model": "acme/vectors", "input": [[1, 2, 3], [4]]});
    assert_eq!(gateway.post("/v1/embeddings", &request).await.expect(200)["data"].as_array().unwrap().len(), 2);
    let near = always(200, &vectors(&[json!([1])]));
    let gateway = self::gateway(&near, &near).await;
    let request = json!({"model": "acme/vectors", "input": [1, 2, 3]});
    assert_eq!(gateway.post("/v1/embeddings", &request).await.expect(200)["data"].as_array().unwrap().len(), 1);
    assert_eq!(near.last_body()["input"], json!([1, 2, 3]));
}

#[actix_web::test]
async fn a_gemini_endpoint_embeds_texts_in_its_own_form_and_token_ids_go_elsewhere() {
    let google = always(200, &json!({"embeddings": [{"values": [0.5, -1.25]}, {"values": [1, 2]}]}));
    let far = always(200, &vectors(&[json!([3])]));
    let gateway = World::new()
        .provider_with("google", google.address(), "dialect = \"gemini\"")
        .provider("far", far.address())
        .with(
            "[[models]]\nid = \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nsupported_parameters = \
             [\"dimensions\"]\nendpoints = [{ provider = \"google\", upstream_model = \"gemini-embedding-001\", pricing = { prompt = \
             \"0.000001\", completion = \"0\" } }, { provider = \"far\", upstream_model = \"far-v\", pricing = { prompt = \"0.001\", \
             completion = \"0\" } }]",
        )
        .start()
        .await;
    let texts = json!({"model": "acme/vectors", "input": ["one", "t\u{e9}"], "dimensions": 2, "objective": "cheapest",
        "user": "u", "task_type": "SEMANTIC_SIMILARITY"});
    let reply = gateway.post("/v1/embeddings", &texts).await;
    let answer = reply.expect(200);
    assert_eq!(answer["data"][0], json!({"object": "embedding", "index": 0, "embedding": [0.5, -1.25]}));
    assert_eq!(answer["data"][1]["embedding"], json!([1, 2]));
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0, "an estimate: {answer}");
    let call = google.requests().remove(0);
    assert!(call.starts_with("POST /v1/models/gemini-embedding-001:batchEmbedContents "), "{call}");
    let one = |text: &str| json!({"model": "models/gemini-embedding-001", "content": {"parts": [{"text": text}]}, "outputDimensionality": 2});
    assert_eq!(google.last_body(), json!({"requests": [one("one"), one("t\u{e9}")]}));
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("task_type,user"));

    let base64 = gateway.post("/v1/embeddings", &json!({"model": "acme/vectors", "input": ["a", "b"], "encoding_format": "base64", "objective": "cheapest"})).await;
    assert!(base64.expect(200)["data"][0]["embedding"].is_string(), "{}", base64.text());

    let ids = json!({"model": "acme/vectors", "input": [[1, 2, 3]], "objective": "cheapest"});
    let reply = gateway.post("/v1/embeddings", &ids).await;
    assert_eq!(reply.expect(200)["data"][0]["embedding"], json!([3]));
    assert_eq!(reply.header("x-route-provider"), Some("Far"));
}

#[actix_web::test]
async fn without_an_account_a_model_has_the_same_vectors_at_simulated_providers_of_two_apis() {
    let gateway = TestGateway::simulated().await;
    let texts = ["The night train to Vienna", "A night train to Graz", "Sugar and cream"];
    let mut seen: Vec<Vec<Vec<f64>>> = Vec::new();
    for slug in ["sim-swift", "sim-thrift", "sim-jade"] {
        let only = json!({"only": [slug]});
        let request = json!({"model": "lantern/vectors", "input": texts, "dimensions": 64, "provider": only});
        let reply = gateway.post("/v1/embeddings", &request).await;
        let answer = reply.expect(200);
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 10, "{slug}: {answer}");
        assert!(answer["usage"]["cost"].as_f64().unwrap() > 0.0, "{slug}: {answer}");
        let vectors = answer["data"].as_array().unwrap().iter().map(|entry| {
            entry["embedding"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        });
        seen.push(vectors.collect());
    }
    assert!(seen.iter().all(|vectors| *vectors == seen[0]));
    let near = |one: usize, other: usize| -> f64 { seen[0][one].iter().zip(&seen[0][other]).map(|(a, b)| a * b).sum() };
    assert!(near(0, 1) > near(0, 2) + 0.2, "{} {}", near(0, 1), near(0, 2));
    let ids = json!({"model": "lantern/vectors", "input": [[1, 2], [3]], "encoding_format": "base64"});
    let answer = gateway.post("/v1/embeddings", &ids).await.expect(200);
    assert_eq!((answer["data"].as_array().unwrap().len(), &answer["usage"]["prompt_tokens"]), (2, &json!(3)));
    let long = json!({"model": "lantern/vectors", "input": "word ".repeat(20_000)});
    assert_eq!(gateway.post("/v1/embeddings", &long).await.status, 400);
    let wide = json!({"model": "lantern/vectors", "input": "a", "dimensions": 100_000});
    assert_eq!(gateway.post("/v1/embeddings", &wide).await.status, 400);
}

#[actix_web::test]
async fn as_many_inputs_as_are_allowed_come_back_in_their_order() {
    let wanted: Vec<Value> = (0..2_048).map(|number| json!([f64::from(number) + 0.5])).collect();
    let near = always(200, &vectors(&wanted));
    let gateway = gateway(&near, &always(500, &json!({}))).await;
    let inputs: Vec<String> = (0..2_048).map(|number| format!("text {number}")).collect();
    let answer = gateway.post("/v1/embeddings", &json!({"model": "acme/vectors", "input": inputs})).await.expect(200);
    let vectors: Vec<Value> =
        answer["data"].as_array().unwrap().iter().map(|entry| entry["embedding"].clone()).collect();
    assert_eq!(vectors, wanted);
}

#[actix_web::test]
async fn a_simulated_bedrock_makes_vectors_in_the_form_of_each_family() {
    let models: String = ["amazon.titan-embed-text-v2:0", "cohere.embed-v4:0", "amazon.nova-2-multimodal-embeddings-v1:0"]
        .iter()
        .enumerate()
        .map(|(place, name)| {
            format!(
                "[[models]]\nid = \"acme/v{place}\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nendpoints = [{{ \
                 provider = \"cloud\", upstream_model = \"{name}\", pricing = {{ prompt = \"0.000001\", completion = \"0\" }} }}]\n"
            )
        })
        .collect();
    let cloud = "[simulation.providers.cloud]\ndialect = \"converse\"\nttft = \"0ms\"\nerror_rate = 0\n";
    let config = format!("{cloud}{models}");
    let gateway = TestGateway::start_with(&config, &[("POINTSMAN__SIMULATION__MODE", "on")]).await;
    let vectors_of = async |model: &str| {
        let asked = json!({"model": model, "input": ["a night train", "a day"], "dimensions": 64});
        let answer = gateway.post("/v1/embeddings", &asked).await.expect(200);
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0, "{answer}");
        let data = answer["data"].as_array().unwrap().clone();
        data.iter().map(|entry| entry["embedding"].clone()).collect::<Vec<Value>>()
    };
    let titan = vectors_of("acme/v0").await;
    assert_eq!((titan.len(), titan[0].as_array().unwrap().len()), (2, 64));
    assert_eq!(titan, vectors_of("acme/v1").await, "Cohere takes both texts in one call");
    assert_eq!(titan, vectors_of("acme/v2").await, "Nova");
}
