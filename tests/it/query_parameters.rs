//! Query parameters: a misspelt one is refused where its absence would give the answer to another question.

use actix_web::http::Method;
use serde_json::json;

use crate::world::{Model, World, ask, completion, error_of, one_model, saying};

#[actix_web::test]
async fn a_misspelt_parameter_is_refused_with_the_one_that_was_meant() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let id = reply.header("x-generation-id").unwrap();
    let body = || Some(ask("acme/small").to_string().into_bytes());
    let json_body = [("content-type", "application/json")];
    for (method, path, param, meant) in [
        (Method::GET, format!("/api/v1/generation?id={id}&generation_ld=1"), "generation_ld", Some("generation_id")),
        (Method::GET, format!("/api/v1/route/explain?id={id}&whynot=acme"), "whynot", Some("why_not")),
        (Method::POST, format!("/api/v1/route/explain?id={id}&why-not=acme"), "why-not", Some("why_not")),
        (Method::GET, format!("/api/v1/route/replay?id={id}&colour=red"), "colour", None),
        (Method::GET, "/api/v1/models/stats?modle=acme/small".to_owned(), "modle", Some("model")),
        (Method::POST, "/api/v1/route/preview?ap=chat".to_owned(), "ap", Some("api")),
    ] {
        let is_preview = path.contains("preview");
        let sent = if is_preview { body() } else { (method == Method::POST).then(|| b"{}".to_vec()) };
        let error = error_of(&gateway.call(method, &path, &json_body, sent).await, 400);
        assert_eq!(error["param"], param, "{path}");
        let message = error["message"].as_str().unwrap();
        let start = match meant {
            Some(meant) => format!("Unknown parameter '{param}'. Did you mean '{meant}'? Allowed: "),
            None => format!("Unknown parameter '{param}'. Allowed: "),
        };
        assert!(message.starts_with(&start), "{path}: {message}");
        assert!(error["metadata"]["allowed_values"].as_array().is_some_and(|names| !names.is_empty()), "{path}");
    }
    for path in [
        format!("/api/v1/generation?generation_id={id}"),
        format!("/api/v1/route/explain?id={id}&why_not=acme"),
        format!("/api/v1/route/replay?id={id}"),
        "/api/v1/models/stats?model=acme/small".to_owned(),
        // Clients of lists of models add parameters of their own.
        "/api/v1/models?whatever=1".to_owned(),
    ] {
        assert_eq!(gateway.get(&path).await.status, 200, "{path}");
    }
}

#[actix_web::test]
async fn a_wrong_value_is_named_before_the_allowed_ones() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    for (path, start) in [
        ("/api/v1/models?sort=newst", "Unknown value 'newst' in 'sort'. Did you mean 'newest'? Allowed: newest, "),
        ("/api/v1/models?output_modalities=smell", "Unknown value 'smell' in 'output_modalities'. Allowed: text, "),
    ] {
        let error = error_of(&gateway.get(path).await, 400);
        assert!(error["message"].as_str().unwrap().starts_with(start), "{path}: {}", error["message"]);
        assert!(error["metadata"]["allowed_values"].as_array().is_some_and(|all| all.len() > 4), "{path}");
    }
    let reply = gateway.post("/api/v1/route/preview?api=chta", &ask("acme/small")).await;
    let message = "Unknown value 'chta' in 'api'. Did you mean 'chat'? Allowed: chat, messages, responses, embeddings.";
    assert_eq!(error_of(&reply, 400)["message"], message);
}

#[actix_web::test]
async fn as_many_models_are_counted_as_are_listed_below_every_prefix() {
    let upstream = saying("Hello");
    let vectors = Model::new("acme/vectors").with("output_modalities = [\"embeddings\"]").at("acme", "0.000001", "0");
    let gateway = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .model(&vectors)
        .start()
        .await;
    for (prefix, expected) in [("/api/v1", 1), ("/v1", 1), ("/api", 2)] {
        for (filter, expected) in [("", expected), ("?output_modalities=embeddings", 1), ("?output_modalities=all", 2)]
        {
            let list = gateway.get(&format!("{prefix}/models{filter}")).await.expect(200);
            let count = gateway.get(&format!("{prefix}/models/count{filter}")).await.expect(200);
            assert_eq!(list["data"].as_array().map(Vec::len), Some(expected), "{prefix}/models{filter}");
            assert_eq!(count, json!({"data": {"count": expected}}), "{prefix}/models/count{filter}");
        }
    }
}
