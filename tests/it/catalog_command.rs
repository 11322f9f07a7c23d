//! `pointsman catalog`: prices of the configuration against small tables in the form of LiteLLM's.

use std::{
    ffi::OsString,
    fs,
    time::{Duration, SystemTime},
};

use pointsman::app::cli::{CommandOutput, Next, run};
use pointsman_config::Environment;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    process,
    scripted::refused_address,
    world::{always, and},
};

const CONFIG: &str = r#"# My models.
[providers.openai]
base_url = "https://api.openai.com/v1"
[providers.openrouter]
base_url = "https://openrouter.ai/api/v1"
[providers.mine]
base_url = "http://10.0.0.1/v1"

[[models]] # the large one
id = "openai/large"
expiration_date = 2027-06-01
[[models.endpoints]]
provider = "openai"
upstream_model = "large"
context_length = 1000
max_completion_tokens = 100
usd_per_million = { prompt = "2.00",  completion = "10", source = "price page", date = "2026-10" } # by hand
[[models.endpoints]]
provider = "openrouter"
upstream_model = "openai/large"
context_length = 1000
pricing = { prompt = "0.000002", completion = "0.00001", request = "0.01" }

[[models]]
id = "openai/small"
context_length = 1000
usd_per_million = { prompt = "0.5", completion = "1", input_cache_read = "0.05", source = "price page", date = "2026-10" }
[[models.endpoints]]
provider = "openai"
upstream_model = "small"
[[models.endpoints]]
provider = "mine"
upstream_model = "small"

[[models]]
id = "openai/old"
context_length = 1000
pricing = "unknown"
endpoints = [{ provider = "openai", upstream_model = "old" }]
"#;

/// As LiteLLM's price table.
fn litellm(large: Value, small: Value) -> Value {
    let entry = |mut entry: Value| {
        entry["litellm_provider"] = json!("openai");
        entry
    };
    json!({ "sample_spec": { "litellm_provider": "one of …" }, "large": entry(large), "openai/small": entry(small),
            "huge": entry(json!({})) })
}

fn of_text(prompt: &str, completion: &str) -> Value {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    json!({ "input_cost_per_token": number(prompt), "output_cost_per_token": number(completion) })
}

/// A configuration and tables beside it, all of 2026-11-24.
struct Desk(Folder);

impl Desk {
    fn new(config: &str) -> Desk {
        let folder = Folder::new();
        fs::write(folder.at("config.toml"), config).unwrap();
        Desk(folder)
    }

    fn put(&self, name: &str, list: &Value) {
        self.put_text(name, &list.to_string());
    }

    fn put_text(&self, name: &str, list: &str) {
        fs::write(self.0.at(name), list).unwrap();
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_521_600);
        fs::File::options().write(true).open(self.0.at(name)).unwrap().set_modified(day).unwrap();
    }

    /// Runs `catalog` with this line, in which `@name` is a file of the desk.
    fn run(&self, line: &str) -> CommandOutput {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.0.at(name).into_os_string(),
            None => OsString::from(word),
        };
        let line = format!("catalog {line} --config @config.toml");
        match run(line.split_whitespace().map(word), &Environment::default()) {
            Next::Finish(CommandOutput { text, code }) => {
                let folder = self.0.at("").to_string_lossy().into_owned();
                CommandOutput { text: text.replace(&folder, ""), code }
            }
            other => panic!("{other:?}"),
        }
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{line} --json")).text).unwrap()
    }
}

#[test]
fn the_difference_to_the_list_is_shown_with_old_and_new_prices() {
    let desk = Desk::new(CONFIG);
    let large = json!({ "input_cost_per_token": 1.5e-06, "output_cost_per_token": 8e-06, "max_input_tokens": 2000,
                        "max_output_tokens": "50", "deprecation_date": "2027-05-01" });
    desk.put("litellm.json", &litellm(large, of_text("5e-07", "1e-06")));
    let shown = desk.run("diff --from @litellm.json");
    expect_test::expect![[r#"
        openai/large@openai (large)
          prompt                 2 -> 1.5 $/M (-25.0 %)
          completion             10 -> 8 $/M (-20.0 %)
          context_length         1000 -> 2000 tokens
          max_completion_tokens  100 -> 50 tokens
          expiration_date        2027-05-01

        Not listed any more, or under another name:
          openai/old@openai (old)

        Compared with LiteLLM's price table of 2026-11-24 (litellm.json):
          3 endpoints compared, 2 differ
          providers without prices there: mine, openrouter
          1 model more of these providers; --provider names them
    "#]]
    .assert_eq(&shown.text);
    assert_eq!(shown.code, 1);

    desk.put("same.json", &litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06")));
    let same = desk.run("diff --from @same.json");
    assert_eq!(same.code, 1, "a model is not listed any more: {}", same.text);
    assert!(same.text.contains("3 endpoints compared, 1 differ"), "{}", same.text);
    let mut whole = litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06"));
    whole["old"] = and(of_text("7e-06", "9e-06"), json!({ "litellm_provider": "openai" }));
    desk.put("whole.json", &whole);
    expect_test::expect![[r#"
        openai/old@openai (old)
          prompt                 unknown -> 7 $/M
          completion             unknown -> 9 $/M

        Compared with LiteLLM's price table of 2026-11-24 (whole.json):
          3 endpoints compared, 1 differ
          1 model more of these providers
            huge
    "#]]
    .assert_eq(&desk.run("diff --from @whole.json --provider openai").text);
    let page = desk.json("diff --from @litellm.json");
    assert_eq!((&page["differs"], &page["compared"]), (&json!(true), &json!(3)), "{page}");
    assert_eq!(page["source"]["date"], "2026-11-24", "{page}");
    let changed = &page["endpoints"][0];
    assert_eq!((&changed["model"], &changed["provider"]), (&json!("openai/large"), &json!("openai")), "{page}");
    let price = json!({ "key": "prompt", "old_usd_per_million": "2", "new_usd_per_million": "1.5" });
    assert_eq!(changed["prices"][0], price, "{page}");
    assert_eq!(page["new"], json!([{ "provider": "openai", "model": "huge" }]), "{page}");
}

#[test]
fn prices_of_longer_prompts_are_compared() {
    let desk = Desk::new(CONFIG);
    let mut large = of_text("2e-06", "1e-05");
    large["input_cost_per_token_above_200k_tokens"] = json!(0.000009);
    desk.put("list.json", &litellm(large, of_text("5e-07", "1e-06")));
    let page = desk.json("diff --from @list.json");
    let tier = &page["endpoints"][0]["tiers"][0];
    assert_eq!((&tier["above_prompt_tokens"], &tier["key"]), (&json!(200_000), &json!("prompt")), "{page:#}");
    assert_eq!((&tier["old_usd_per_million"], &tier["new_usd_per_million"]), (&Value::Null, &json!("9")));
    let output = desk.run("diff --from @list.json");
    assert!(output.text.contains("above 200000 tokens"), "{}", output.text);
}

#[test]
fn a_list_is_read_from_an_address_and_one_that_cannot_be_had_is_an_error_of_its_own() {
    let desk = Desk::new(CONFIG);
    let upstream = always(200, &litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06")));
    let read = desk.json(&format!("diff --from {}", upstream.url("/prices.json")));
    assert_eq!(read["compared"], 3, "{read}");
    let requests = upstream.requests();
    assert!(requests.len() == 1 && requests[0].starts_with("GET /prices.json HTTP/1.1\r\n"), "{requests:?}");

    desk.put_text("other.json", "{\"data\": []}");
    let closed = format!("http://{}/prices.json", refused_address());
    let gone = always(404, &json!({}));
    for (line, code, holds) in [
        (format!("diff --from {closed}"), 4, "a saved copy can be named instead: --from FILE"),
        (format!("diff --from {}", gone.url("/x")), 4, "answers 404"),
        ("diff --from @other.json".to_owned(), 2, "is no price list"),
        ("diff --from @missing.json".to_owned(), 2, "cannot be read"),
        ("diff --from @config.toml".to_owned(), 2, "is no price list"),
        ("diff --from @other.json --provider nobody".to_owned(), 2, "no provider 'nobody'"),
    ] {
        let told = desk.run(&line);
        assert!(told.code == code && told.text.contains(holds) && told.text.lines().count() == 1, "{line}: {told:?}");
    }
}

#[test]
fn the_built_in_catalogue_is_compared_without_a_file() {
    let folder = Folder::new();
    folder.put("prices.json", &litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06")).to_string());
    let path = folder.at("prices.json");
    let compared = process::run(&["catalog", "diff", "--from", path.to_str().unwrap()], &[]);
    assert_eq!(compared.status.code(), Some(1), "other models of OpenAI are not in the table");
}
