//! `pointsman init` as a stranger calls it.

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    process::{Process, run},
    world::always,
};

const KEYS: [(&str, &str); 2] = [("OPENAI_API_KEY", "sk-canary-openai"), ("MISTRAL_API_KEY", "canary-mistral")];

/// The path of a file that does not exist yet.
fn path(folder: &Folder) -> String {
    folder.at("new.toml").to_str().unwrap().to_owned()
}

#[test]
fn init_names_the_providers_whose_keys_are_set_and_writes_no_secret() {
    let folder = Folder::new();
    let file = path(&folder);
    let output = run(&["init", "--out", &file], &KEYS);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("[providers.openai]") && written.contains("[providers.mistral]"), "{written}");
    assert!(!written.contains("[providers.anthropic]") && written.contains("ANTHROPIC_API_KEY"), "{written}");
    let key = said.lines().find_map(|line| line.trim().strip_prefix("sk-pointsman-v1-")).expect("the key").to_owned();
    assert!(!written.contains("canary") && !written.contains(&key) && !said.contains("canary"), "{said}{written}");
    let checked = run(&["check", "--config", &file], &KEYS);
    let summary = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(summary.contains("on   openai") && summary.contains("on   mistral"), "{summary}");
    assert!(!summary.contains("Warnings"), "{summary}");
}

#[test]
fn init_never_overwrites_a_file() {
    let folder = Folder::new();
    folder.put("new.toml", "# mine");
    let output = run(&["init", "--out", &path(&folder)], &KEYS);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "no key is shown for a file that was not written");
    assert!(String::from_utf8_lossy(&output.stderr).contains("exists already"));
    assert_eq!(std::fs::read_to_string(path(&folder)).unwrap(), "# mine");
}

#[actix_web::test]
async fn the_written_configuration_starts_and_takes_the_key_that_was_shown() {
    let folder = Folder::new();
    let file = path(&folder);
    let output = run(&["init", "--no-local", "--out", &file, "--json"], &[]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown["providers"], shown["file"].as_str()), (&json!([]), Some(file.as_str())));
    let process = Process::start(&["--config", &file], &[("POINTSMAN__SERVER__BIND", "127.0.0.1:0")]);
    let url = process.gateway().url("");
    let ask = |key: &str| run(&["preview", "Hello", "--url", &url], &[("POINTSMAN_API_KEY", key)]).status.code();
    assert_eq!(ask(shown["key"].as_str().unwrap()), Some(0));
    assert_eq!(ask("sk-pointsman-development"), Some(2), "the development key is off");
}

#[test]
fn init_names_a_server_of_this_machine_with_its_models_in_a_configuration_that_can_call_them() {
    let listed =
        json!({"data": [{"id": "llama3.2:latest"}, {"id": "gemma3:4b"}, {"id": "qwen3:8b", "max_model_len": 40_960}]});
    let (folder, ollama) = (Folder::new(), always(200, &listed));
    let file = path(&folder);
    let address = ollama.address().to_string();
    let environment = [("OLLAMA_HOST", address.as_str())];
    let output = run(&["init", "--out", &file, "--json"], &environment);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = shown["local"].as_array().unwrap().iter().find(|server| server["provider"] == "ollama").unwrap();
    assert_eq!(found["models"], json!(["llama3.2:latest", "gemma3:4b", "qwen3:8b"]), "{shown}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains(&format!("base_url = \"http://{address}/v1\"")), "{written}");
    assert!(!written.contains("ollama/gemma3-4b"), "the catalogue has it already: {written}");
    let models = run(&["models", "--json", "--config", &file], &environment);
    let models: Value = serde_json::from_slice(&models.stdout).unwrap();
    let rows: Vec<&Value> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["callable"] == true && row.to_string().contains("ollama"))
        .collect();
    for id in ["ollama/llama3.2", "ollama/qwen3-8b", "google/gemma-3-4b"] {
        assert!(rows.iter().any(|row| row["model"] == id), "{id}: {rows:?}");
    }
    assert!(ollama.requests().iter().all(|request| request.starts_with("GET ")), "nothing is generated");
}

#[test]
fn init_asks_no_server_when_it_is_told_not_to() {
    let (folder, ollama) = (Folder::new(), always(200, &json!({"data": []})));
    let address = ollama.address().to_string();
    let output = run(&["init", "--no-local", "--out", &path(&folder)], &[("OLLAMA_HOST", &address)]);
    assert!(output.status.success() && ollama.connections() == 0);
}
