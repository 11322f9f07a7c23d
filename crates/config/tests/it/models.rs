//! What models, endpoints, keys and aliases come to: inheritance, prices, defaults.

use std::path::Path;

use pointsman_config::{Config, Environment, Scope};
use pointsman_domain::{Endpoint, Modality, Objective, ReasoningFormat, Resolved, Target};

#[test]
fn an_unknown_price_is_stated_inherited_replaced_and_warned_of() {
    let at = |endpoint: &str| {
        let model = format!(
            "context_length = 9\npricing = \"unknown\"\n[[models.endpoints]]\nprovider = \"plain\"\n\
             upstream_model = \"a\"\n{endpoint}\n"
        );
        endpoints(&model).remove(0)
    };
    assert_eq!(at("").pricing, None);
    assert!(!at("").is_free(), "unknown is not free");
    let known = at("usd_per_million = { prompt = \"1\", completion = \"2\" }");
    assert_eq!(known.pricing.unwrap().prompt.to_string(), "0.000001");
    let config = load(
        "[providers.plain]\nbase_url = \"http://h\"\n[[models]]\nid = \"acme/small\"\ncontext_length = 9\n\
         endpoints = [{ provider = \"plain\", upstream_model = \"a\", pricing = \"unknown\" }]",
    );
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("models[0].endpoints[0].pricing: is unknown: cheapest"), "{warnings:?}");
}

#[test]
fn a_provider_whose_address_tells_that_it_takes_the_other_form_of_reasoning_is_warned_of() {
    let object = "wants_reasoning_effort = false";
    for (address, keys, warns) in [
        ("https://openrouter.ai/api/v1", "", true),
        ("https://openrouter.ai/api/v1", object, false),
        ("https://api.openai.com/v1", "", false),
        ("https://api.openai.com/v1", object, true),
        ("https://acme.openai.azure.com/openai/v1", object, true),
        ("https://llm.example/v1", object, false),
    ] {
        let config = load(&format!("[providers.plain]\nbase_url = \"{address}\"\n{keys}\n"));
        let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
        let told = warnings.iter().any(|warning| warning.contains("providers.plain.wants_reasoning_effort: should be"));
        assert_eq!(told, warns, "{address} {keys}: {warnings:?}");
    }
}

fn load(toml: &str) -> Config {
    let config = Config::parse(toml, "f", Path::new("."), &Environment::default());
    config.unwrap_or_else(|faults| panic!("{}", crate::lines(&faults)))
}

/// The endpoints of one model with these lines, at the providers `plain` and `modern`.
fn endpoints(model: &str) -> Vec<Endpoint> {
    let providers = "[providers.plain]\nbase_url = \"http://h\"\n\
                     [providers.modern]\nbase_url = \"http://h\"\nwants_max_completion_tokens = true\n\
                     knows_developer_role = true\nunknown_fields = \"drop\"\n";
    load(&format!("{providers}[[models]]\nid = \"acme/small\"\n{model}")).catalog(1).endpoints
}

#[test]
fn an_endpoint_inherits_what_it_does_not_say() {
    let endpoints = endpoints(
        r#"
context_length = 1000
max_completion_tokens = 100
supported_parameters = ["tools", "max_tokens"]
is_moderated = true
pricing = { prompt = "0.1", completion = "0.2", input_cache_read = "0.01" }
[[models.endpoints]]
provider = "plain"
upstream_model = "a"
[[models.endpoints]]
provider = "modern"
upstream_model = "vendor/b"
context_length = 500
supported_parameters = ["max_tokens"]
is_moderated = false
knows_developer_role = false
quantization = "FP8"
inputs_per_call = 10
reasoning_state = "anthropic-claude-v1"
pricing = { prompt = "0.3", completion = "0.4" }
"#,
    );
    let [plain, modern] = endpoints.as_slice() else { panic!("{endpoints:?}") };
    assert_eq!((plain.limits.context_length, plain.limits.max_completion_tokens), (1000, Some(100)));
    assert_eq!((modern.limits.context_length, modern.limits.max_completion_tokens), (500, Some(100)));
    assert!(plain.parameters.covers(modern.parameters) && !modern.parameters.covers(plain.parameters));
    assert_eq!((plain.is_moderated, modern.is_moderated), (true, false));
    let prices = |endpoint: &Endpoint| endpoint.pricing.clone().unwrap();
    assert_eq!(prices(plain).input_cache_read.map(|price| price.to_string()).as_deref(), Some("0.01"));
    assert_eq!(prices(modern).prompt.to_string(), "0.3");
    assert_eq!(prices(modern).input_cache_read, None, "prices of two providers never mix");
    assert_eq!(modern.quantization.as_deref(), Some("fp8"));
    assert_eq!(&*modern.upstream_model, "vendor/b");
    assert_eq!((plain.inputs_per_call, modern.inputs_per_call), (None, Some(10)));
    let states = [plain.reasoning_state, modern.reasoning_state];
    assert_eq!(states, [ReasoningFormat::Unknown, ReasoningFormat::Anthropic]);
    let habits = |e: &Endpoint| (e.wants_max_completion_tokens, e.knows_developer_role, e.forwards_unknown_fields);
    assert_eq!(habits(plain), (false, false, true));
    assert_eq!(habits(modern), (true, false, false));
}

#[test]
fn a_zero_cache_price_means_free_only_when_it_is_said_so() {
    let read = |pricing: &str| {
        let model = format!(
            "context_length = 9\npricing = {{ prompt = \"1\", completion = \"1\", {pricing} }}\n\
                     endpoints = [{{ provider = \"plain\", upstream_model = \"a\" }}]"
        );
        let pricing = endpoints(&model).remove(0).pricing.unwrap();
        [pricing.input_cache_read, pricing.input_cache_write, pricing.internal_reasoning]
            .map(|price| price.map(|price| price.to_string()))
    };
    let zero = || Some("0".to_owned());
    assert_eq!(read("input_cache_read = \"0\", internal_reasoning = \"0.0\""), [None, None, None]);
    assert_eq!(read("input_cache_read = \"0\", explicit_zero = true"), [zero(), None, None]);
    assert_eq!(read("input_cache_write = \"2\""), [None, Some("2".to_owned()), None]);
}

#[test]
fn an_endpoint_that_is_disabled_needs_no_prices() {
    let model = "context_length = 9\nendpoints = [{ provider = \"plain\", upstream_model = \"a\", disabled = true }]";
    assert!(endpoints(model)[0].disabled);
}

#[test]
fn twins_at_one_provider_are_told_apart_by_their_variant() {
    let model = "context_length = 9\npricing = { prompt = \"1\", completion = \"1\" }\n\
                 endpoints = [{ provider = \"plain\", upstream_model = \"a\" }, \
                 { provider = \"plain\", upstream_model = \"b\", variant = \"turbo\" }]";
    let endpoints = endpoints(model);
    assert_ne!(endpoints[0].id, endpoints[1].id);
}

#[test]
fn a_model_has_sensible_defaults_and_its_dates_are_read() {
    let config = load(
        r#"
[providers.acme]
base_url = "http://h"
[[models]]
id = "acme/small"
context_length = 9
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "a" }]
[[models]]
id = "acme/old"
canonical_slug = "acme/old-2026"
created = 2026-11-20
expiration_date = 2026-12-01
knowledge_cutoff = 2026-01-01
input_modalities = ["text", "image"]
default_parameters = { temperature = 1 }
context_length = 9
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "b" }]
"#,
    );
    let catalog = config.catalog(3);
    assert_eq!(catalog.version, 3);
    let [small, old] = catalog.models.as_slice() else { panic!("{catalog:?}") };
    assert_eq!((small.canonical_slug.as_str(), small.name.as_str(), small.created), ("acme/small", "acme/small", 0));
    assert!(small.architecture.output.contains(Modality::Text));
    assert_eq!(old.created, 1_795_132_800);
    assert_eq!(old.knowledge_cutoff.as_deref(), Some("2026-01-01"));
    assert_eq!(old.default_parameters.and_then(|defaults| defaults.temperature), Some(1.0));
    let day = |text: &str| text.parse().unwrap();
    assert_eq!(catalog.resolve("acme/old-2026", day("2026-11-30")), Resolved::Found(Target::Model(1)));
    assert_eq!(catalog.resolve("acme/old", day("2026-12-01")), Resolved::Retired(day("2026-12-01")));
}

#[test]
fn an_alias_of_the_operator_carries_its_restrictions() {
    let config = load(
        r#"
[service]
alias_prefix = "team"
[[aliases]]
name = "thrifty"
synonyms = ["cheap"]
objective = "cheapest"
weights = { latency = 0.2, cost = 0.8 }
allowed_models = ["acme/*"]
blocked_models = ["acme/large"]
"#,
    );
    let catalog = config.catalog(1);
    let ids: Vec<&str> = catalog.aliases.iter().map(|alias| alias.id.as_str()).collect();
    assert_eq!(ids, ["team/auto", "team/free", "team/thrifty"]);
    let thrifty = &catalog.aliases[2];
    assert_eq!((thrifty.objective, thrifty.free_only), (Some(Objective::Cheapest), false));
    assert_eq!(thrifty.weights.map(|weights| weights.cost), Some(0.8));
    assert_eq!((thrifty.allowed.len(), thrifty.blocked.len()), (1, 1));
    let today = "2026-11-20".parse().unwrap();
    for name in ["team/thrifty", "cheap"] {
        assert_eq!(catalog.resolve(name, today), Resolved::Found(Target::Alias(2)), "{name}");
    }
    assert_eq!(catalog.resolve("service/auto", today), Resolved::Unknown);
}

#[test]
fn an_entry_of_the_name_of_a_built_in_alias_restricts_it() {
    let config = load(
        r#"
[[aliases]]
name = "auto"
synonyms = ["router", "any"]
objective = "cheapest"
preferred_max_latency = 0.8
allowed_models = ["acme/*"]
blocked_models = ["acme/large"]
[[aliases]]
name = "service/free"
objective = "fastest"
allowed_models = ["acme/*"]
"#,
    );
    let catalog = config.catalog(1);
    let ids: Vec<&str> = catalog.aliases.iter().map(|alias| alias.id.as_str()).collect();
    assert_eq!(ids, ["service/auto", "service/free"]);
    let (auto, free) = (&catalog.aliases[0], &catalog.aliases[1]);
    assert_eq!((auto.objective, auto.free_only), (Some(Objective::Cheapest), false));
    assert_eq!((auto.allowed.len(), auto.blocked.len(), auto.preferred_max_latency.is_some()), (1, 1, true));
    assert_eq!(auto.description, "The service chooses among all models.");
    assert_eq!((free.objective, free.free_only, free.allowed.len()), (Some(Objective::Fastest), true, 1));
    let today = "2026-11-20".parse().unwrap();
    for name in ["service/auto", "auto", "router", "any", "openrouter/auto"] {
        assert_eq!(catalog.resolve(name, today), Resolved::Found(Target::Alias(0)), "{name}");
    }
}

#[test]
fn a_key_inherits_the_limits_of_all_keys_unless_it_has_its_own() {
    let config = load(
        r#"
[limits]
key_requests_per_minute = 60
key_concurrency = 4
[[keys]]
name = "usual"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
[[keys]]
name = "special"
sha256 = "aa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
scopes = ["admin"]
requests_per_minute = 600
concurrency = 0
"#,
    );
    let limits = |index: usize| (config.keys[index].requests_per_minute, config.keys[index].concurrency);
    assert_eq!([limits(0), limits(1), limits(2)], [(Some(60), Some(4)), (Some(60), Some(4)), (Some(600), None)]);
    assert_eq!(config.keys[1].scopes, [Scope::Inference, Scope::Read]);
    assert_eq!(config.keys[2].scopes, [Scope::Admin]);
    assert!(load("[auth]\nmode = \"none\"").keys.is_empty());
}
