//! `pointsman init --from litellm`: files as people have them, and a call through what came of one.

use std::collections::BTreeSet;

use actix_web::http::Method;
use expect_test::expect_file;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    process::{Process, run},
    world::saying,
};

/// What `init` says about a file, and what it wrote below the keys.
fn imported(folder: &Folder, yaml: &str) -> (Value, String) {
    folder.put("litellm.yaml", yaml);
    let (from, out) = (folder.at("litellm.yaml"), folder.at("new.toml"));
    let (from, out) = (from.to_str().unwrap(), out.to_str().unwrap());
    let output = run(&["init", "--from", "litellm", from, "--out", out, "--json"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}\n{yaml}");
    let written = std::fs::read_to_string(out).unwrap();
    let checked = run(&["check", "--config", out], &[]);
    assert_eq!(checked.status.code(), Some(0), "{}\n{written}", String::from_utf8_lossy(&checked.stderr));
    let page = serde_json::from_slice(&output.stdout).unwrap();
    (page, written.split_once("[routing]\n").unwrap().1.to_owned())
}

#[test]
fn ten_files_become_configurations_and_every_line_that_has_no_counterpart_is_told() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fixtures/litellm");
    let names = [
        "anchors",
        "balanced_azure",
        "basic",
        "clouds",
        "fallbacks",
        "full",
        "modes",
        "own_servers",
        "secrets",
        "wildcard",
    ];
    for name in names {
        let yaml = std::fs::read_to_string(format!("{directory}/{name}.yaml")).unwrap();
        let (page, written) = imported(&Folder::new(), &yaml);
        expect_file![format!("{directory}/{name}.toml")].assert_eq(&written);
        assert!(!format!("{page}{written}").contains("canary"), "{name}: {written}");
        let told: BTreeSet<u64> =
            page["imported"]["left_out"].as_array().unwrap().iter().map(|it| it["line"].as_u64().unwrap()).collect();
        for line in &told {
            assert!(written.contains(&format!("#   line {line}: ")), "{name}: {line} {written}");
        }
    }
}

#[actix_web::test]
async fn a_name_of_litellm_is_answered_by_the_server_behind_it() {
    let (folder, upstream) = (Folder::new(), saying("This way."));
    let yaml = format!(
        "model_list:\n- model_name: My-GPT\n  litellm_params: {{model: openai/tiny, api_base: '{}', api_key: os.environ/TINY_KEY}}\n\
         general_settings: {{master_key: os.environ/MASTER}}\n",
        upstream.url("/v1")
    );
    let (page, _) = imported(&folder, &yaml);
    assert_eq!(page["imported"]["left_out"], json!([]));
    let data = folder.at("data");
    let environment = [
        ("TINY_KEY", "sk-tiny-0123456789"),
        ("MASTER", "sk-master-0123456789abcdef"),
        ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
        ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
        ("POINTSMAN__LEDGER__DATA_DIR", data.to_str().unwrap()),
    ];
    let process = Process::start(&["--config", folder.at("new.toml").to_str().unwrap()], &environment);
    let body = json!({"model": "My-GPT", "messages": [{"role": "user", "content": "Which way?"}]});
    let bearer = [("authorization", "Bearer sk-master-0123456789abcdef"), ("content-type", "application/json")];
    let (gateway, body) = (process.gateway(), Some(body.to_string().into_bytes()));
    let answer = gateway.call(Method::POST, "/api/v1/chat/completions", &bearer, body).await.expect(200);
    assert_eq!(answer["choices"][0]["message"]["content"], "This way.");
    assert!(upstream.requests()[0].to_ascii_lowercase().contains("authorization: bearer sk-tiny-0123456789"));
}

#[test]
fn what_is_no_configuration_of_litellm_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    folder.put("other.yaml", "services: {web: {image: nginx}}\n");
    folder.put("broken.yaml", "model_list: [\n");
    let out = folder.at("new.toml");
    for (format, file, told) in [
        ("litellm", "other.yaml", "has no model_list"),
        ("litellm", "broken.yaml", "is no configuration of LiteLLM"),
        ("litellm", "missing.yaml", "cannot be read"),
        ("portkey", "other.yaml", "the only format that is known is litellm"),
    ] {
        let file = folder.at(file);
        let output = run(&["init", "--from", format, file.to_str().unwrap(), "--out", out.to_str().unwrap()], &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len(), out.exists()), (Some(2), 0, false), "{said}");
        assert!(said.contains(told), "{said}");
    }
}
