//! The shipped `config.toml` and the page about every key: they load, they are complete, and say what the code does.

use std::{collections::BTreeSet, path::Path};

use pointsman_config::{BUILT_IN, Config, Environment, Fault, SimulationMode};
use pointsman_dialect::{ChatPurpose, ChatRequest, RequestLimits, chat_body};
use pointsman_domain::{Dialect, Modality, ProviderState, RoutingPolicy};
use serde_json::{Value, json};

fn load(toml: &str, environment: &Environment) -> Result<Config, Vec<Fault>> {
    Config::parse(toml, "config.toml", Path::new("."), environment)
}

fn shipped<const N: usize>(variables: [(&str, &str); N]) -> Config {
    let environment = variables.into_iter().collect();
    load(BUILT_IN, &environment).unwrap_or_else(|faults| panic!("{}", crate::lines(&faults)))
}

fn states(config: &Config) -> Vec<(String, bool)> {
    let catalog = config.catalog(1);
    catalog.providers.iter().map(|provider| (provider.slug.to_string(), provider.is_on())).collect()
}

fn on(config: &Config) -> Vec<String> {
    states(config).into_iter().filter(|(_, on)| *on).map(|(slug, _)| slug).collect()
}

fn state(config: &Config, slug: &str) -> ProviderState {
    let catalog = config.catalog(1);
    let found = catalog.providers.iter().find(|provider| provider.slug.as_str() == slug);
    found.map(|provider| provider.state.clone()).unwrap()
}

fn off(why: &str) -> ProviderState {
    ProviderState::Off(why.to_owned())
}

const SIMULATED: [&str; 8] =
    ["sim-swift", "sim-thrift", "sim-flaky", "sim-gratis", "sim-opal", "sim-jade", "sim-onyx", "sim-amber"];

#[test]
fn without_any_variable_the_simulated_providers_serve() {
    let config = shipped([]);
    assert_eq!(on(&config), SIMULATED);
    assert_eq!(state(&config, "openai"), off("OPENAI_API_KEY is not set"));
    assert_eq!(state(&config, "ollama"), off("switched off in the configuration (enabled = false)"));
    assert!(config.simulation.active);
    assert!(config.providers.is_empty());
}

#[test]
fn every_provider_people_use_is_there() {
    let config = shipped([]);
    let slugs: Vec<String> = states(&config).into_iter().map(|(slug, _)| slug).collect();
    let real = [
        "openai",
        "anthropic",
        "google",
        "mistral",
        "groq",
        "deepseek",
        "xai",
        "together",
        "fireworks",
        "openrouter",
        "ollama",
        "vllm",
        "llama-cpp",
    ];
    assert_eq!(slugs, [real.as_slice(), SIMULATED.as_slice()].concat());
    let catalog = config.catalog(1);
    for (index, slug) in (0_u32..).zip(&slugs) {
        let count = catalog.endpoints.iter().filter(|endpoint| endpoint.provider == index).count();
        assert!(count > 0, "{slug} serves nothing");
    }
}

#[test]
fn setting_a_variable_switches_its_provider_on_and_the_simulation_off() {
    let config = shipped([("GROQ_API_KEY", "gsk-0123456789"), ("XAI_API_KEY", "")]);
    assert_eq!(on(&config), ["groq"]);
    assert_eq!(state(&config, "xai"), off("XAI_API_KEY is empty"));
    assert_eq!(state(&config, "sim-swift"), off("simulated; off because a real provider is on (groq (GROQ_API_KEY))"));
    assert!(!config.simulation.active);
    let groq = &config.providers[0];
    assert_eq!(groq.base_url.to_string(), "https://api.groq.com/openai/v1");
    assert_eq!(groq.key.as_ref().map(|key| key.expose().to_owned()).as_deref(), Some("gsk-0123456789"));
    assert_eq!(
        config.start_up_notes(),
        [
            "Provider 'groq' is on: GROQ_API_KEY holds its key.",
            "Simulated providers are off because real ones are on: groq (GROQ_API_KEY)."
        ]
    );
}

#[test]
fn forcing_the_simulation_keeps_every_real_provider_off() {
    let config = shipped([("GROQ_API_KEY", "gsk-0123456789"), ("POINTSMAN__SIMULATION__MODE", "on")]);
    assert_eq!(on(&config), SIMULATED);
    assert_eq!(config.simulation.mode, SimulationMode::On);
    assert!(config.providers.is_empty(), "no key may even be held");
    assert_eq!(
        config.start_up_notes(),
        [
            "Provider 'groq' stays off although GROQ_API_KEY holds its key: POINTSMAN__SIMULATION__MODE allows only \
             simulated providers.",
            "Only simulated providers serve (POINTSMAN__SIMULATION__MODE=on): their answers are made up."
        ]
    );
}

#[test]
fn without_simulation_and_keys_nothing_serves_and_the_notes_say_so() {
    let config = shipped([("POINTSMAN__SIMULATION__MODE", "off")]);
    assert!(on(&config).is_empty());
    assert_eq!(
        config.start_up_notes(),
        [
            "Simulated providers are off (POINTSMAN__SIMULATION__MODE=off).",
            "No provider is on: no model can be called."
        ]
    );
}

#[test]
fn a_local_provider_is_enabled_by_a_variable_that_the_notes_name() {
    let config = shipped([("POINTSMAN__PROVIDERS__LLAMA_CPP__ENABLED", "true")]);
    assert_eq!(on(&config), ["llama-cpp"]);
    assert_eq!(
        config.start_up_notes(),
        [
            "POINTSMAN__PROVIDERS__LLAMA_CPP__ENABLED enables provider 'llama-cpp'.",
            "Simulated providers are off because real ones are on: llama-cpp \
             (POINTSMAN__PROVIDERS__LLAMA_CPP__ENABLED)."
        ]
    );
}

#[test]
fn every_documented_default_is_the_default_of_the_code() {
    let shipped = shipped([]);
    let empty = load("", &Environment::default()).unwrap();
    assert_eq!(shipped.server, empty.server);
    assert_eq!(shipped.service, empty.service);
    assert_eq!(shipped.auth, empty.auth);
    assert_eq!(shipped.keys, empty.keys);
    assert_eq!(shipped.limits, empty.limits);
    assert_eq!(shipped.timeouts, empty.timeouts);
    assert_eq!(shipped.stream, empty.stream);
    assert_eq!(shipped.routing, empty.routing);
    assert_eq!(shipped.catalog, empty.catalog);
    assert_eq!(shipped.ledger, empty.ledger);
    assert_eq!(shipped.images, empty.images);
    assert_eq!(shipped.metrics, empty.metrics);
    assert_eq!(shipped.cors, empty.cors);
    assert_eq!(shipped.reload, empty.reload);
    assert_eq!(shipped.admin, empty.admin);
    assert_eq!(shipped.simulation.mode, empty.simulation.mode);
    assert_eq!(empty.routing_policy(1), RoutingPolicy::default());
    assert_eq!(empty.routing_policy(7).version, 7);
}

#[test]
fn the_page_about_every_key_is_made_from_the_table_that_check_uses() {
    expect_test::expect_file!["../../../../docs/CONFIG.md"].assert_eq(&pointsman_config::reference_page());
}

#[test]
fn the_shipped_file_is_a_page() {
    let lines = BUILT_IN.lines().count();
    assert!(lines <= 160, "{lines} lines");
    assert!(shipped([]).warnings().is_empty());
}

#[test]
fn every_example_of_the_page_about_clouds_is_a_whole_configuration() {
    let page = include_str!("../../../../docs/CLOUDS.md");
    let account = include_str!("../../../../tests/it/fixtures/service_account/key.pem");
    let account =
        serde_json::json!({"client_email": "a@b.example", "private_key": account, "token_uri": "https://t.example"});
    let account = account.to_string();
    let keys = [("AZURE_OPENAI_API_KEY", "k"), ("AWS_BEARER_TOKEN_BEDROCK", "k"), ("VERTEX_ACCOUNT", &*account)];
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let config = load(example, &keys.into_iter().collect());
        let config = config.unwrap_or_else(|faults| panic!("{}", crate::lines(&faults)));
        assert!(config.catalog(1).providers.iter().all(|provider| provider.is_on()), "{example}");
    }
}

/// A commented example of `config.toml` as TOML: its first line is `# {header}`, it ends at an empty line or comment.
fn example(header: &str) -> String {
    let lines = BUILT_IN.lines().skip_while(|line| !line.starts_with(&format!("# {header}")));
    lines.map_while(|line| line.strip_prefix("# ").filter(|line| !line.is_empty())).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_commented_examples_are_good() {
    let environment = [("TEAM_KEY", "sk-0123456789abcdef")].into_iter().collect();
    let good =
        |toml: &str| load(toml, &environment).unwrap_or_else(|faults| panic!("{toml}\n{}", crate::lines(&faults)));
    let digest = "sha256 = \"<64 hexadecimal digits>\"";
    let key = example("[[keys]]").replace(digest, "env = \"TEAM_KEY\"");
    assert_eq!(good(&key).keys.len(), 2);
    assert_eq!(good(&example("[[aliases]]")).catalog(1).aliases.len(), 3);
    assert_eq!(on(&good(&example("[providers.ollama]"))), ["ollama"]);
    let own = ["[providers.acme]", "[[models]]", "[[models.endpoints]]"].map(example).join("\n");
    let catalog = good(&own).catalog(1);
    assert_eq!((catalog.providers.len(), catalog.models.len(), catalog.endpoints.len()), (1, 1, 1));
    assert_eq!(catalog.endpoints[0].pricing.as_ref().unwrap().prompt.to_string(), "0.00000015");
}

#[test]
fn no_model_is_served_by_simulated_and_real_providers_alike() {
    let catalog = shipped([]).catalog(1);
    for model in &catalog.models {
        let simulated: BTreeSet<bool> =
            catalog.endpoints_of(model).map(|(_, endpoint)| catalog.provider_of(endpoint).unwrap().simulated).collect();
        assert_eq!(simulated.len(), 1, "{}", model.id);
    }
}

/// A request in which a parameter says something that its absence does not.
fn using(parameter: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false});
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": schema}}]);
    let mut request = json!({"model": "acme/any", "messages": [{"role": "user", "content": "Hi"}]});
    let members = match parameter {
        "tools" => json!({"tools": tools}),
        "tool_choice" => json!({"tools": tools, "tool_choice": "none"}),
        "parallel_tool_calls" => json!({"tools": tools, "parallel_tool_calls": true}),
        "max_tokens" => json!({"max_tokens": 2_000}),
        "stop" => json!({"stop": ["END"]}),
        "temperature" | "top_p" | "frequency_penalty" | "presence_penalty" => json!({parameter: 0.5}),
        "top_k" | "seed" => json!({parameter: 7}),
        "reasoning" => json!({"reasoning": {"effort": "low"}, "max_tokens": 4_000}),
        "include_reasoning" => json!({"include_reasoning": true}),
        "response_format" => json!({"response_format": {"type": "json_object"}}),
        "structured_outputs" => {
            let format = json!({"name": "a", "strict": true, "schema": schema});
            json!({"response_format": {"type": "json_schema", "json_schema": format}})
        }
        "image_config" => json!({"image_config": {"aspect_ratio": "16:9"}}),
        other => panic!("how is {other} used?"),
    };
    request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    request
}

#[test]
fn the_shipped_endpoints_of_other_apis_than_chat_list_only_parameters_that_reach_them() {
    let catalog = shipped([]).catalog(1);
    let (mut lost, mut seen) = (Vec::new(), 0);
    for (index, endpoint) in
        catalog.endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.dialect != Dialect::OpenAi)
    {
        let model = catalog.endpoint(index as u32).and_then(|endpoint| catalog.model_of(endpoint)).unwrap();
        if model.architecture.output.contains(Modality::Embeddings) {
            continue;
        }
        for name in catalog.parameters.names(endpoint.parameters) {
            let body = using(name).to_string().into();
            let request = ChatRequest::parse(body, ChatPurpose::Chat, &RequestLimits::default()).unwrap();
            let outgoing = chat_body(&request, &catalog, endpoint, None).unwrap();
            seen += 1;
            if !outgoing.dropped.is_empty() {
                lost.push(format!("{} at {}: {name}: {:?}", model.id, endpoint.upstream_model, outgoing.dropped));
            }
        }
    }
    assert!(lost.is_empty() && seen > 50, "{seen}: {lost:#?}");
}

#[test]
fn the_simulated_models_show_what_routing_can_do() {
    let config = shipped([]);
    let catalog = config.catalog(1);
    let tools = catalog.parameters.gate("tools").unwrap();
    let simulated: Vec<_> =
        catalog.models.iter().filter(|model| catalog.is_served(model, pointsman_base::clock::today())).collect();
    let with = |test: &dyn Fn(&pointsman_domain::Model) -> bool| simulated.iter().any(|model| test(model));
    assert!(with(&|model| model.endpoints.len() >= 3), "one model at three providers");
    assert!(with(&|model| model.architecture.input.contains(Modality::Image)), "one that sees");
    assert!(with(&|model| model.architecture.output.contains(Modality::Image)), "one that draws");
    assert!(with(&|model| model.architecture.output.contains(Modality::Embeddings)), "one that makes embeddings");
    let free = |model: &pointsman_domain::Model| catalog.endpoints_of(model).all(|(_, e)| e.is_free());
    assert_eq!(simulated.iter().filter(|model| free(model)).count(), 1, "one that is free");
    assert!(simulated.iter().filter(|m| catalog.endpoints_of(m).all(|(_, e)| e.parameters.covers(tools))).count() >= 3);
    for (index, character) in &config.simulation.providers {
        assert_eq!(catalog.providers[*index as usize].slug.as_str(), character.slug);
        assert!(!character.models.is_empty(), "{}", character.slug);
    }
    let swift = &config.simulation.providers[0].1;
    let large = swift.models.iter().find(|model| model.id == "large-turbo").unwrap();
    assert!(large.tools && large.inputs.contains(Modality::Image));
    assert_eq!((large.context_length, large.max_output_tokens), (Some(262_144), Some(32_768)));
    let canvas = swift.models.iter().find(|model| model.id == "canvas-turbo").unwrap();
    assert!(!canvas.tools && canvas.outputs.contains(Modality::Image) && !canvas.outputs.contains(Modality::Text));
}

#[test]
fn short_forms_of_the_aliases_resolve() {
    let catalog = shipped([]).catalog(1);
    let today = "2026-11-20".parse().unwrap();
    for (spelling, canonical) in [
        ("service/auto", "service/auto"),
        ("auto", "service/auto"),
        ("router", "service/auto"),
        ("openrouter/auto", "service/auto"),
        ("service/free", "service/free"),
        ("free", "service/free"),
        ("openrouter/free", "service/free"),
    ] {
        let resolved = catalog.resolve(spelling, today);
        let pointsman_domain::Resolved::Found(pointsman_domain::Target::Alias(index)) = resolved else {
            panic!("{spelling}: {resolved:?}");
        };
        assert_eq!(catalog.alias(index).unwrap().id, canonical, "{spelling}");
    }
}

/// The page about providers.
const PROVIDERS_PAGE: &str = include_str!("../../../../docs/PROVIDERS.md");

#[test]
fn the_page_about_providers_names_the_variable_of_each() {
    let config = shipped([]);
    let rows = PROVIDERS_PAGE.lines().filter(|line| line.ends_with("_API_KEY` |"));
    let told = rows.map(|row| {
        let words: Vec<&str> = row.split('`').collect();
        (words[1].to_owned(), words[3].to_owned())
    });
    let needed = states(&config).into_iter().filter_map(|(slug, _)| match state(&config, &slug) {
        ProviderState::Off(why) => Some((slug, why.strip_suffix(" is not set")?.to_owned())),
        ProviderState::On => None,
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), needed.collect::<BTreeSet<_>>());
}
