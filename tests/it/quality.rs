//! Quality through a whole gateway: the least one that is asked for, the class of the task, explanations, and the import of scores.

use std::{fs, path::Path};

use actix_web::http::Method;
use pointsman::app::cli::{CommandOutput, Next, run};
use pointsman_config::Environment;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{Reply, TestGateway},
    scripted::Upstream,
    world::{Model, World, always, and, answer, ask, error_of, saying},
};

fn scored(id: &str, code: f64, price: &str) -> Model {
    let quality =
        format!("quality = {{ source = \"own-eval\", date = 2026-11-02, code = {{ score = {code}, n = 225 }} }}");
    Model::new(id).at("acme", price, price).with(&quality)
}

async fn start(upstream: &Upstream, more: &str) -> TestGateway {
    World::new()
        .provider("acme", upstream.address())
        .model(&scored("acme/small", 0.71, "0.000001"))
        .model(&scored("acme/large", 0.95, "0.00001"))
        .model(&Model::new("acme/plain").at("acme", "0.0000001", "0.0000001"))
        .with(more)
        .start()
        .await
}

const ALIAS: &str = "[[aliases]]\nname = \"coder\"\ntask = \"code\"\nobjective = \"cheapest\"\nmin_quality = 0.7\n";

async fn reply(gateway: &TestGateway, method: Method, path: &str, body: Option<Value>) -> Reply {
    let body = body.map(|body| body.to_string().into_bytes());
    gateway.call(method, path, &[("content-type", "application/json")], body).await
}

async fn call(gateway: &TestGateway, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let reply = reply(gateway, method, path, body).await;
    (reply.status, reply.json())
}

async fn chat(gateway: &TestGateway, body: Value) -> (u16, Value) {
    call(gateway, Method::POST, "/api/v1/chat/completions", Some(body)).await
}

#[actix_web::test]
async fn the_cheapest_model_that_is_good_enough_serves_and_the_explanation_says_how_good_it_is() {
    let upstream = saying("Done.");
    let gateway = start(&upstream, ALIAS).await;
    let (_, answer) = chat(&gateway, ask("service/coder")).await;
    assert_eq!(answer["model"], "acme/small", "{answer}");
    let path = format!("/api/v1/route/explain?generation_id={}", answer["id"].as_str().unwrap());
    let (_, explained) = call(&gateway, Method::GET, &path, None).await;
    let score = json!({ "score": 0.71, "n": 225, "source": "own-eval", "date": "2026-11-02" });
    let quality = &explained["candidates"][0]["quality"];
    assert_eq!((&quality["mean"], &quality["ratings"], &quality["score"]), (&json!(0.71), &json!(0), &score));
    assert_eq!(explained["parameters"]["min_quality"], json!({ "value": 0.7, "source": "alias" }));
    let reason = explained["decision_reason"].as_str().unwrap();
    assert!(reason.contains("quality for code 0.71 (own-eval, 2026-11-02, n 225)"), "{reason}");
    assert!(reason.contains("1 by quality_unknown"), "{reason}");
    let replayed = path.replace("explain", "replay");
    assert_eq!(call(&gateway, Method::GET, &replayed, None).await.1["data"]["identical"], true);
}

#[actix_web::test]
async fn the_request_goes_before_the_alias_and_the_alias_before_the_key() {
    let upstream = saying("Done.");
    let gateway = start(&upstream, ALIAS).await;
    let of = async |more: Value| chat(&gateway, and(ask("service/coder"), more)).await.1["model"].clone();
    assert_eq!(of(json!({ "min_quality": 0.9 })).await, "acme/large");
    assert_eq!(
        of(json!({ "metadata": { "min_quality": "0.9" } })).await,
        "acme/large",
        "strings of metadata hold JSON"
    );
    assert_eq!(of(json!({ "quality_unknown": "allow" })).await, "acme/plain");
    assert_eq!(of(json!({ "min_quality": { "p10": 0.8 } })).await, "acme/large");
    let weighted = json!({ "objective": "balanced", "weights": { "cost": 1, "quality": 9 } });
    assert_eq!(of(weighted).await, "acme/large");
}

#[actix_web::test]
async fn what_no_model_reaches_is_refused_with_the_figure_and_what_to_change() {
    let upstream = saying("Done.");
    let gateway = start(&upstream, ALIAS).await;
    let body = and(ask("service/coder"), json!({ "min_quality": 0.99 }));
    let error = error_of(&reply(&gateway, Method::POST, "/api/v1/chat/completions", Some(body)).await, 404);
    assert_eq!(error["availability"]["excluded_by"], json!(["quality_below", "quality_unknown"]), "{error}");
    let nearest = error["availability"]["nearest_relaxation"]["sentence"].as_str().unwrap();
    assert!(nearest.contains("lower min_quality (quality_below: quality for code 0.95, below 0.99"), "{nearest}");
    for wrong in [json!({ "min_quality": 1.5 }), json!({ "min_quality": {} }), json!({ "quality_unknown": "maybe" })] {
        let (status, answer) = chat(&gateway, and(ask("service/coder"), wrong.clone())).await;
        assert_eq!(status, 400, "{wrong}: {answer}");
    }
}

#[actix_web::test]
async fn a_class_that_does_not_exist_is_refused_where_quality_decides_and_a_tag_elsewhere() {
    let upstream = saying("Done.");
    let gateway = start(&upstream, ALIAS).await;
    let named = json!({ "metadata": { "task": "nightly summary" } });
    let (status, answer) = chat(&gateway, and(ask("service/coder"), named.clone())).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("metadata.task")), "{answer}");
    let allowed = answer["error"]["metadata"]["allowed_values"].as_array().unwrap();
    assert!(allowed.contains(&json!("code")) && allowed.len() == 8, "{answer}");
    assert_eq!(chat(&gateway, and(ask("acme/small"), named)).await.0, 200);
    let math = json!({ "metadata": { "task": "math" } });
    let (status, answer) = chat(&gateway, and(ask("service/coder"), math)).await;
    assert_eq!(status, 404, "the client's word goes before the alias, and nobody has a score for it: {answer}");
}

#[actix_web::test]
async fn a_preview_says_which_quality_would_win() {
    let upstream = saying("Done.");
    let gateway = start(&upstream, ALIAS).await;
    let weights = json!({ "objective": "balanced", "weights": { "latency": 1, "cost": 1, "quality": 1 } });
    let body = and(ask("service/coder"), and(weights, json!({ "why_not": "acme/large" })));
    let (_, page) = call(&gateway, Method::POST, "/api/v1/route/preview", Some(body)).await;
    let changes = page["why_not"]["would_win_if"].as_array().unwrap_or_else(|| panic!("{page:#}"));
    let named: Vec<&str> = changes.iter().filter_map(|change| change["change"].as_str()).collect();
    assert!(named.contains(&"quality") && named.contains(&"weights.quality"), "{page:#}");
}

#[actix_web::test]
async fn the_example_with_simulated_models_is_right_and_a_chat_and_code_get_different_models() {
    let check = ["check", "--config", "examples/quality.toml"].into_iter().map(Into::into);
    let Next::Finish(checked) = run(check, &Environment::default()) else { panic!("it only checks") };
    assert!(checked.code == 0 && checked.text.contains("one remark stands below"), "{}", checked.text);
    let quick = [
        ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
        ("POINTSMAN__SERVER__WORKERS", "1"),
        ("POINTSMAN__KEYS", "[{ name = \"test\", env = \"TEST_KEY\" }]"),
        ("POINTSMAN__SIMULATION__PROVIDERS__SIM_THRIFT__TTFT", "1ms"),
        ("POINTSMAN__SIMULATION__PROVIDERS__SIM_THRIFT__TOKENS_PER_SECOND", "10000"),
    ];
    let gateway = TestGateway::load(Path::new("examples/quality.toml"), &quick).await;
    for (task, model) in [("general", "meadow/small"), ("code", "meadow/large")] {
        let (_, answer) = chat(&gateway, and(ask("service/good"), json!({"metadata": {"task": task}}))).await;
        assert_eq!(answer["model"], model, "{task}: {answer}");
    }
}

/// Runs `quality import` on this table beside this configuration.
fn import(folder: &Folder, config: &str, scores: &str) -> CommandOutput {
    import_as(folder, config, &["--format", "csv", "--source", "own-eval", "--date", "2026-11-02"], scores)
}

/// The same with a file of another format, as these arguments say.
fn import_as(folder: &Folder, config: &str, arguments: &[&str], scores: &str) -> CommandOutput {
    let (file, from) = (folder.at("config.toml"), folder.at("scores"));
    fs::write(&file, config).unwrap();
    fs::write(&from, scores).unwrap();
    let line = ["quality", "import"].iter().chain(arguments).map(Into::into);
    let paths = [("--from", &from), ("--config", &file)];
    let paths = paths.into_iter().flat_map(|(name, path)| [name.into(), path.as_os_str().to_owned()]);
    match run(line.chain(paths), &Environment::default()) {
        Next::Finish(output) => output,
        other => panic!("{other:?}"),
    }
}

/// Formats with their arguments, a small file of each, and the line that it gives the model `gpt-x`.
const BOARDS: [(&[&str], &str, &str); 4] = [
    (
        &["--format", "aider"],
        "- dirname: one\n  test_cases: 225\n  model: gpt-x\n  pass_rate_1: 10.0\n  pass_rate_2: 61.3\n  date: 2025-03-01\n",
        "code = { score = 0.613, n = 225, source = \"aider-polyglot\", date = 2025-03-01 }",
    ),
    (
        &["--format", "bfcl", "--n", "4000", "--date", "2025-02-03"],
        "Rank,Overall Acc,Model,Total Cost ($)\n1,70.36%,gpt-x (FC),4.1\n",
        "tools = { score = 0.7036, n = 4000, source = \"bfcl\", date = 2025-02-03 }",
    ),
    (
        &["--format", "evalplus", "--date", "2024-12-01", "--licence", "Apache-2.0"],
        r#"{"gpt-x": {"pass@1": {"humaneval+": 86.6, "mbpp+": 73.3}}}"#,
        "code = { score = 0.7732, n = 542, source = \"evalplus\", date = 2024-12-01, licence = \"Apache-2.0\" }",
    ),
    (
        &["--format", "every-eval-ever", "--source", "sums-board", "--class", "math"],
        r#"{"schema_version": "0.2.1", "model_info": {"name": "X", "id": "acme/gpt-x"}, "evaluation_timestamp": "1761000045",
            "evaluation_results": [{"evaluation_name": "sums", "source_data": {"samples_number": 9000},
                "metric_config": {"lower_is_better": false, "score_type": "continuous", "min_score": 0, "max_score": 100},
                "score_details": {"score": 71.3, "uncertainty": {"num_samples": 200}}}]}"#,
        "math = { score = 0.713, n = 200, source = \"sums-board\", date = 2025-10-20 }",
    ),
];

#[test]
fn every_format_gives_its_quality_lines_alone_and_none_once_they_are_written() {
    let folder = Folder::new();
    let config = |quality: &str| {
        format!(
            "[providers.acme]\nbase_url = \"http://10.0.0.1/v1\"\n[[models]]\nid = \"acme/gpt-x\"\ncontext_length = 9\n\
             pricing = {{ prompt = \"0\", completion = \"0\" }}\n{quality}[[models.endpoints]]\nprovider = \"acme\"\n\
             upstream_model = \"x-2026\"\n"
        )
    };
    for (arguments, file, line) in BOARDS {
        let first = import_as(&folder, &config(""), arguments, file);
        let expected = format!("  [[models]]\n  id = \"acme/gpt-x\"\n  [models.quality]\n+ {line}\n");
        assert_eq!((first.text.as_str(), first.code), (expected.as_str(), 1), "{arguments:?}");
        let written = import_as(&folder, &config(&format!("[models.quality]\n{line}\n")), arguments, file);
        let nothing = "# the configuration has these scores already\n";
        assert_eq!((written.text.as_str(), written.code), (nothing, 0), "{arguments:?}");
    }
}

#[test]
fn an_import_prints_the_lines_to_write_and_none_once_they_are_written() {
    let folder = Folder::new();
    let config = |quality: &str| {
        format!(
            "[providers.acme]\nbase_url = \"http://10.0.0.1/v1\"\n[[models]]\nid = \"acme/small\"\ncontext_length = 9\n\
             pricing = {{ prompt = \"0\", completion = \"0\" }}\n[[models.endpoints]]\nprovider = \"acme\"\n\
             upstream_model = \"small-2026\"\n{quality}"
        )
    };
    let scores = "model,class,score,n\nSMALL-2026,code,0.71,225\nsmall,tools,0.83,1000\nother/one,code,0.5,9\n";
    let first = import(&folder, &config(""), scores);
    let code = "code = { score = 0.71, n = 225, source = \"own-eval\", date = 2026-11-02 }";
    let tools = "tools = { score = 0.83, n = 1000, source = \"own-eval\", date = 2026-11-02 }";
    let expected = format!(
        "  [[models]]\n  id = \"acme/small\"\n  [models.quality]\n+ {code}\n+ {tools}\n# not in the configuration: other/one\n"
    );
    assert_eq!((first.text.as_str(), first.code), (expected.as_str(), 1));
    let unchanged = fs::read_to_string(folder.at("config.toml")).unwrap();
    assert_eq!(unchanged, config(""), "nothing is written");

    let written =
        config("").replace("[[models.endpoints]]", &format!("[models.quality]\n{code}\n{tools}\n[[models.endpoints]]"));
    let again = import(&folder, &written, scores);
    assert_eq!(again.code, 0, "{}", again.text);
    assert!(!again.text.contains("[[models]]"), "{}", again.text);

    let newer = import(&folder, &written, "model,class,score,n\nacme/small,code,0.75,300\n");
    let changed = format!("- {code}\n+ code = {{ score = 0.75, n = 300, source = \"own-eval\", date = 2026-11-02 }}\n");
    assert!(newer.text.ends_with(&changed), "only what differs: {}", newer.text);
    assert_eq!(import(&folder, &written, "model,class\n").code, 2);
}

#[test]
fn an_import_names_what_several_models_are_called_and_of_two_names_takes_the_later_line() {
    let folder = Folder::new();
    let model = |id: &str| {
        format!(
            "[[models]]\nid = \"{id}\"\ncontext_length = 9\npricing = {{ prompt = \"0\", completion = \"0\" }}\n\
             [[models.endpoints]]\nprovider = \"acme\"\nupstream_model = \"{}-2026\"\n",
            id.replace('/', "-")
        )
    };
    let acme = "[providers.acme]\nbase_url = \"http://10.0.0.1/v1\"\n";
    let config = [acme, &model("acme/small"), &model("bolt/small"), &model("acme/large")].concat();
    let scores = "model,class,score,n\nSmall,code,0.5,9\nacme-small-2026,code,0.7,9\nLARGE,code,0.9,9\nacme/large,code,0.8,9\n\
                  ACME/small,tools,0.4,9\nsmall,tools,0.6,9\n";
    let imported = import(&folder, &config, scores).text;
    let block = |id: &str, lines: &[(&str, f64)]| {
        let line = |(class, score): &(&str, f64)| {
            format!("+ {class} = {{ score = {score}, n = 9, source = \"own-eval\", date = 2026-11-02 }}\n")
        };
        let lines: String = lines.iter().map(line).collect();
        format!("  [[models]]\n  id = \"{id}\"\n  [models.quality]\n{lines}")
    };
    let expected = [
        block("acme/small", &[("code", 0.7), ("tools", 0.6)]),
        block("bolt/small", &[("code", 0.5), ("tools", 0.6)]),
        block("acme/large", &[("code", 0.8)]),
        "# names of several models, each of which gets the scores: Small (acme/small, bolt/small)\n".to_owned(),
    ];
    assert_eq!(imported, expected.concat());
}

#[actix_web::test]
async fn a_second_answer_is_asked_of_no_model_below_the_least_quality() {
    let nothing = json!({"role": "assistant", "content": null});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let alias = |least: &str, second: &str| {
        format!(
            "[[aliases]]\nname = \"chat\"\ntask = \"code\"\nallowed_models = [\"acme/large\"]\n{least}\
             cascade = {{ to = \"service/second\" }}\n[[aliases]]\nname = \"second\"\nallowed_models = [\"acme/small\"]\n{second}"
        )
    };
    let calls = async |least: &str, second: &str, more: Value| {
        let upstream = always(200, &answer(nothing.clone(), usage.clone()));
        let gateway = start(&upstream, &alias(least, second)).await;
        assert_eq!(chat(&gateway, and(ask("service/chat"), more)).await.0, 200);
        upstream.bodies().len()
    };
    let (of_alias, none) = ("min_quality = 0.8\n", json!({}));
    assert_eq!(calls("", "", none.clone()).await, 2);
    assert_eq!(calls(of_alias, "", none.clone()).await, 1, "of the alias");
    assert_eq!(calls("", of_alias, none.clone()).await, 1, "of the alias of the second answer");
    assert_eq!(calls("", "", json!({"min_quality": 0.8})).await, 1, "of the request");
    assert_eq!(calls(of_alias, "min_quality = 0.7\n", none).await, 2, "the second alias goes before the first");
}
