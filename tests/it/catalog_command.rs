//! `pointsman catalog`: prices of the configuration against small lists in the forms of OpenRouter, models.dev and LiteLLM.

use std::{
    ffi::OsString,
    fs,
    time::{Duration, SystemTime},
};

use pointsman::app::cli::{CommandOutput, Next, run};
use pointsman_config::Environment;
use serde_json::{Value, json};

use crate::{folder::Folder, process, scripted::refused_address, world::always};

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

/// As LiteLLM's price map.
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

/// A configuration and lists beside it, all of 2026-11-24.
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

    fn config(&self) -> String {
        fs::read_to_string(self.0.at("config.toml")).unwrap()
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
fn the_difference_to_each_list_is_shown_with_old_and_new_prices() {
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
          would be written

        Not listed any more, or under another name:
          openai/old@openai (old)

        Compared with LiteLLM's price map of 2026-11-24 (litellm.json):
          3 endpoints compared, 2 differ
          providers without a list: mine, openrouter
          1 model more of these providers; --provider names them
        'pointsman catalog update --write' writes prices into the configuration
    "#]]
    .assert_eq(&shown.text);
    assert_eq!(shown.code, 1);

    let dev = json!({ "openai": { "models": {
        "large": { "cost": { "input": 2, "output": 10 }, "limit": { "context": 1000 } },
        "small": { "cost": { "input": 0.5, "output": 1, "cache_read": 0.05 } },
        "old": { "cost": { "input": 7, "output": 9 }, "status": "deprecated" } } } });
    desk.put("api.json", &dev);
    expect_test::expect![[r#"
        openai/old@openai (old)
          prompt                 unknown -> 7 $/M
          completion             unknown -> 9 $/M
          expiration_date        deprecated, without a day
          would be written

        Compared with models.dev of 2026-11-24 (api.json):
          3 endpoints compared, 1 differ
        'pointsman catalog update --write' writes prices into the configuration
    "#]]
    .assert_eq(&desk.run("diff --from @api.json --provider openai").text);

    let router = json!({ "data": [{ "id": "openai/large", "context_length": 1000, "expiration_date": "2027-06-01",
        "pricing": { "prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0" } }] });
    desk.put("models.json", &router);
    let same = desk.run("diff --from @models.json");
    assert_eq!(same.code, 0, "{}", same.text);
    let page = desk.json("diff --from @models.json --from @litellm.json");
    assert_eq!((&page["differs"], &page["compared"]), (&json!(true), &json!(4)), "{page}");
    let changed = &page["endpoints"][0];
    assert_eq!((&changed["model"], &changed["provider"]), (&json!("openai/large"), &json!("openai")), "{page}");
    let price = json!({ "key": "prompt", "old_usd_per_million": "2", "new_usd_per_million": "1.5" });
    assert_eq!(changed["prices"][0], price, "{page}");
    assert_eq!(page["new"], json!([{ "provider": "openai", "model": "huge" }]), "{page}");
}

#[test]
fn only_prices_and_their_provenance_are_written_and_a_second_time_nothing() {
    let desk = Desk::new(CONFIG);
    desk.put("litellm.json", &litellm(of_text("1.5e-06", "8e-06"), of_text("5e-07", "1e-06")));
    let router =
        json!({ "data": [{ "id": "openai/large", "pricing": { "prompt": "0.000003", "completion": "0.000012" } }] });
    desk.put("models.json", &router);
    let written = desk.run("update --write --from @litellm.json --from @models.json");
    let expected = CONFIG
        .replace(
            "{ prompt = \"2.00\",  completion = \"10\", source = \"price page\", date = \"2026-10\" } # by hand",
            "{ prompt = \"1.5\",  completion = \"8\", source = \"LiteLLM's price map\", date = \"2026-11-24\" } # by hand",
        )
        .replace(
            "{ prompt = \"0.000002\", completion = \"0.00001\", request",
            "{ prompt = \"0.000003\", completion = \"0.000012\", request",
        );
    assert_eq!(desk.config(), expected, "{}", written.text);
    assert!(written.text.contains("Prices of 2 endpoints written to config.toml"), "{}", written.text);
    assert_eq!(fs::read_to_string(desk.0.at("config.toml.bak")).unwrap(), CONFIG);
    assert_eq!(written.code, 1, "a model is not listed any more");
    let again = desk.run("update --write --from @litellm.json --from @models.json");
    assert_eq!(desk.config(), expected);
    assert!(again.text.ends_with("config.toml is as it was\n"), "{}", again.text);
}

#[test]
fn prices_of_longer_prompts_are_told_and_left_to_be_written_by_hand() {
    let desk = Desk::new(CONFIG);
    let mut large = of_text("2e-06", "1e-05");
    large["input_cost_per_token_above_200k_tokens"] = json!(0.000009);
    desk.put("list.json", &litellm(large, of_text("5e-07", "1e-06")));
    let page = desk.json("diff --from @list.json");
    let tier = &page["endpoints"][0]["tiers"][0];
    assert_eq!((&tier["above_prompt_tokens"], &tier["key"]), (&json!(200_000), &json!("prompt")), "{page:#}");
    assert_eq!((&tier["old_usd_per_million"], &tier["new_usd_per_million"]), (&Value::Null, &json!("9")));
    let output = desk.run("diff --from @list.json");
    assert!(output.text.contains("above 200000 tokens; write it into tiers by hand"), "{}", output.text);
}

#[test]
fn prices_that_hold_still_get_the_date_of_the_list() {
    let desk =
        Desk::new(&CONFIG.replace("[[models.endpoints]]\nprovider = \"mine\"\nupstream_model = \"small\"\n", ""));
    desk.put("litellm.json", &litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06")));
    let before = desk.config();
    let told = desk.run("update --write --from @litellm.json");
    let now = "source = \"LiteLLM's price map\", date = \"2026-11-24\"";
    assert_eq!(desk.config(), before.replace("source = \"price page\", date = \"2026-10\"", now), "{}", told.text);
    assert!(told.text.contains("Prices of 0 endpoints, dates of 2 more written"), "{}", told.text);
}

#[test]
fn prices_that_several_endpoints_share_are_changed_for_the_one_that_the_list_has() {
    let desk = Desk::new(CONFIG);
    desk.put("litellm.json", &litellm(of_text("2e-06", "1e-05"), of_text("1e-06", "2e-06")));
    desk.run("update --write --from @litellm.json --provider openai");
    let own = "usd_per_million = { prompt = \"1\", completion = \"2\", input_cache_read = \"0.05\", source = \"LiteLLM's price map\", \
               date = \"2026-11-24\" }\n";
    let small = "[[models.endpoints]]\nprovider = \"openai\"\nupstream_model = \"small\"";
    let with_own = small.replace("provider", &format!("{own}provider"));
    assert!(desk.config().contains(&with_own), "{}", desk.config());
    assert!(desk.config().contains("usd_per_million = { prompt = \"0.5\", completion = \"1\""), "{}", desk.config());
}

#[test]
fn what_looks_like_an_error_is_written_only_when_it_is_accepted_and_a_slip_of_units_never() {
    let desk = Desk::new(CONFIG);
    desk.put("litellm.json", &litellm(of_text("2e-05", "1e-04"), of_text("5e-04", "1e-03")));
    let told = desk.run("update --write --from @litellm.json --accept openai/small");
    assert_eq!(desk.config(), CONFIG, "{}", told.text);
    assert!(told.text.contains("more than three times; if it is right: --accept openai/large@openai"), "{}", told.text);
    assert!(told.text.contains("prompt changes by a factor of about 1,000"), "{}", told.text);
    let told = desk.run("update --write --from @litellm.json --accept openai/large");
    assert!(desk.config().contains("prompt = \"20\",  completion = \"100\""), "{}", told.text);
    assert!(desk.config().contains("prompt = \"0.5\""), "{}", told.text);

    let desk = Desk::new(CONFIG);
    desk.put("one.json", &litellm(of_text("2.1e-06", "1.1e-05"), of_text("5e-07", "1e-06")));
    desk.put("two.json", &litellm(of_text("2.3e-06", "1.1e-05"), of_text("5e-07", "1e-06")));
    let told = desk.run("update --write --from @one.json --from @two.json --accept openai/large");
    assert!(told.text.contains("the lists disagree on prompt: LiteLLM's price map 2.1 $/M"), "{}", told.text);
    assert!(desk.config().contains("prompt = \"2.00\""), "{}", told.text);
}

#[test]
fn prices_of_the_built_in_catalogue_are_written_as_entries_of_the_configuration() {
    let mine = "# mine\n[log]\nformat = \"json\"";
    let desk = Desk::new(mine);
    let price = json!({ "prompt": "0.0000021", "completion": "0.0000105" });
    desk.put("models.json", &json!({ "data": [{ "id": "openai/gpt-6-sol", "pricing": price }] }));
    let told = desk.run("update --write --from @models.json --provider openrouter");
    let written = desk.config();
    let (own, added) = written.split_once("\n\n[[models]]\n").unwrap_or_else(|| panic!("{}", told.text));
    assert_eq!(own, mine);
    assert!(
        added.starts_with(
            "id = \"openai/gpt-6-sol\"\n[[models.endpoints]]\nprovider = \"openai\"\n[[models.endpoints]]\n\
             provider = \"openrouter\"\nusd_per_million = { prompt = \"2.1\", completion = \"10.5\", "
        ),
        "{added}"
    );
    let again = desk.run("update --write --from @models.json --provider openrouter");
    assert_eq!(desk.config(), written, "{}", again.text);
}

#[test]
fn a_list_is_read_from_an_address_and_one_that_cannot_be_had_is_an_error_of_its_own() {
    let desk = Desk::new(CONFIG);
    let upstream = always(200, &litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06")));
    let read = desk.json(&format!("diff --from {}", upstream.url("/prices.json")));
    assert_eq!(read["sources"][0]["name"], "LiteLLM's price map", "{read}");
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
    desk.put("litellm.json", &litellm(of_text("2e-06", "1e-05"), of_text("5e-07", "1e-06")));
    let told = desk.run("update --from @litellm.json --accept openai/lagre");
    assert!(told.code == 2 && told.text.contains("--accept openai/lagre: no endpoint"), "{told:?}");
    assert_eq!(desk.config(), CONFIG);
}

#[test]
fn the_built_in_catalogue_is_compared_without_a_file_and_never_written() {
    let folder = Folder::new();
    let price = json!({ "prompt": "0.000002", "completion": "0.00001" });
    let list = json!({ "data": [{ "id": "openai/gpt-6-sol", "pricing": price }] });
    fs::write(folder.at("models.json"), list.to_string()).unwrap();
    let path = folder.at("models.json");
    let arguments = |action| ["catalog", action, "--from", path.to_str().unwrap()];
    let compared = process::run(&arguments("diff"), &[]);
    assert_eq!(compared.status.code(), Some(1), "other models of OpenRouter are not in the list");
    let refused = process::run(&[&arguments("update")[..], &["--write"]].concat(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(2), true), "{said}");
    assert!(said.contains("pointsman init"), "{said}");
}
