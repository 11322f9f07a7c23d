//! `pointsman schema`: what an editor refuses, `check` refuses too, and what `check` takes, the editor takes.

use std::path::Path;

use pointsman_config::{BUILT_IN, Config, Environment};
use serde_json::{Map, Value, json};

use crate::{process::run, schema};

/// Configurations that are right; each stands behind nothing.
const GOOD: [&str; 22] = [
    "[server]\nbind = \"127.0.0.1:9000\"\nkeep_alive = \"1m 30s\"\nworkers = 2",
    "[server]\nkeep_alive = \"75s\"",
    "[limits]\nmax_body = \"16MiB\"\nmax_header = 65536",
    "[limits]\nmax_body = 1000000",
    "[routing]\nobjective = \"cheapest\"\nexploration = 0",
    "[routing.balanced]\nlatency = 0.3\ncost = 0.7",
    "[routing.hedge]\nobjectives = [\"fastest\"]\nbudget = 0.1",
    "[routing.expert]\nhalf_life = \"30s\"",
    "[[keys]]\nname = \"team\"\nsha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\nexpires_at = 2030-01-01",
    "[[keys]]\nname = \"team\"\nsha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\nspend_limit = \"25.00\"\n\
     spend_reset = \"monthly\"\naliases = { fast = \"openai/gpt-5.6\" }",
    "[[accounts]]\nname = \"shop\"\nteam = \"sales\"\n[[teams]]\nname = \"sales\"\nspend_limit = \"100\"",
    "[[aliases]]\nname = \"quick\"\npreferred_max_latency = { p95 = 0.8 }\nallowed_models = [\"openai/*\"]",
    "[[aliases]]\nname = \"quick\"\npreferred_max_latency = 0.5\nweights = { latency = 1, cost = 0 }",
    "[[aliases]]\nname = \"good\"\nmin_quality = 0.7\nweights = { quality = 1 }\n[[aliases]]\nname = \"sure\"\n\
     min_quality = { p10 = 0.7 }\nquality_unknown = \"allow\"\n[routing]\nper_accepted = true\nbalanced = { quality = 0.3 }",
    "[[models]]\nid = \"openai/gpt-5.6\"\n[models.quality]\nsource = \"own-eval\"\ndate = 2026-11-02\n\
     code = { score = 0.71, n = 225 }\n[[models.endpoints]]\nprovider = \"openai\"\n\
     quality = { code = { score = 0.7, n = 9, source = \"own-eval\", date = 2026-11-02 } }",
    "[providers.openai]\napi_key_env = \"MY_KEY\"\npermit_wait = \"50ms\"",
    "[providers.acme]\nbase_url = \"https://api.acme.example/v1\"\nheaders = { x-team = \"a\" }\n[[models]]\nid = \"acme/one\"\n\
     context_length = 8000\npricing = \"unknown\"\nendpoints = [{ provider = \"acme\", upstream_model = \"one\" }]",
    "[providers.acme]\nbase_url = \"https://api.acme.example/v1\"\n[[models]]\nid = \"acme/one\"\ncreated = 2026-11-20\n\
     [[models.endpoints]]\nprovider = \"acme\"\nupstream_model = \"one\"\ncontext_length = 8000\n\
     usd_per_million = { prompt = \"1\", completion = \"2\", tiers = [{ above_prompt_tokens = 4000, prompt = \"2\", completion = \"3\" }] }\n\
     usd_each = { request = \"0.001\" }",
    "[catalog]\nbuiltin = true\nenvelope = \"bare\"\n[ledger]\nmax_age = \"7days\"\nmax_size = \"1GiB\"",
    "[log]\nformat = \"json\"\nlevel = \"debug\"\nrequests = true\n[metrics]\nenabled = false",
    "[simulation]\nmode = \"on\"\n[simulation.providers.sim-swift]\nttft = \"10ms\"\nerror_rate = 0.1",
    "[cors]\nallowed_origins = [\"https://app.example.com\"]\n[messages]\nmodels = { \"claude-*\" = \"service/auto\" }",
];

/// Configurations with one fault each that an editor can see.
const BAD: [&str; 20] = [
    "[server]\nbindd = \"127.0.0.1:9000\"",
    "[server]\nbind = 9000",
    "[server]\nworkers = \"two\"",
    "[server]\nkeep_alive = 75",
    "[server]\nkeep_alive = \"soon\"",
    "[serverr]\nbind = \"127.0.0.1:9000\"",
    "[server.tls]\ncertificate = \"a.pem\"",
    "[limits]\nmax_body = \"large\"",
    "[limits]\nmax_depth = -1",
    "[routing]\nobjective = \"cheap\"",
    "[routing]\nexploration = \"much\"",
    "[routing.hedge]\nobjectives = \"fastest\"",
    "[console]\nenabled = \"yes\"",
    "[[keys]]\nsha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
    "[[aliases]]\nname = \"quick\"\nallowed = [\"openai/*\"]",
    "[[accounts]]\nname = \"shop\"\nconcurrency = 1.5",
    "[providers.openai]\napi_key = \"sk-1\"",
    "[providers.openai]\nheaders = [\"x-team: a\"]",
    "[[models]]\nname = \"One\"\nendpoints = []",
    "[providers.acme]\nbase_url = \"https://api.acme.example/v1\"\n[[models]]\nid = \"acme/one\"\ncontext_length = 8000\n\
     usd_per_million = { prompt = \"1\" }\nendpoints = [{ provider = \"acme\", upstream_model = \"one\" }]",
];

fn printed() -> Value {
    let output = run(&["schema"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file as an editor sees it: dates are strings.
fn read(toml: &str) -> Value {
    fn convert(value: toml::Value) -> Value {
        match value {
            toml::Value::Datetime(date) => json!(date.to_string()),
            toml::Value::Array(items) => items.into_iter().map(convert).collect(),
            toml::Value::Table(table) => {
                Value::Object(table.into_iter().map(|(key, value)| (key, convert(value))).collect::<Map<_, _>>())
            }
            other => serde_json::to_value(other).unwrap(),
        }
    }
    convert(toml::Value::Table(toml.parse().unwrap()))
}

fn check(toml: &str) -> Result<(), String> {
    let read = Config::parse(toml, "f", Path::new("."), &Environment::default());
    read.map(drop).map_err(|faults| pointsman::app::cli::report(&faults))
}

#[test]
fn the_schema_takes_what_check_takes_and_refuses_what_check_refuses() {
    let schema = printed();
    for toml in GOOD.into_iter().chain([BUILT_IN]) {
        assert_eq!(check(toml), Ok(()), "{toml}");
        assert_eq!(schema::fault(&read(toml), &schema, &schema), None, "{toml}");
    }
    for toml in BAD {
        assert!(check(toml).is_err(), "{toml}");
        assert!(schema::fault(&read(toml), &schema, &schema).is_some(), "{toml}");
    }
}

#[test]
fn every_catalogue_file_fits_the_schema_and_every_key_says_what_it_is_for() {
    let schema = printed();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/config/src/catalog")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(schema::fault(&read(&text), &schema, &schema), None, "{}", path.display());
    }
    fn described(schema: &Value, path: &str) -> usize {
        if !schema.is_object() {
            return 0;
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        let below: usize = properties
            .map(|(name, inner)| {
                let path = format!("{path}.{name}");
                let leaf = inner["properties"].is_null() && inner["items"].is_null() && inner["anyOf"].is_null();
                assert!(!leaf || inner["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
                described(inner, &path) + usize::from(leaf)
            })
            .sum();
        let parts = [&schema["items"], &schema["anyOf"][0], &schema["additionalProperties"]];
        below + parts.into_iter().map(|part| described(part, path)).sum::<usize>()
    }
    let keys = described(&schema, "");
    assert!(keys > 250, "{keys}");
    assert_eq!(schema["properties"]["log"]["properties"]["format"]["default"], "text");
}
