//! `pointsman config show`, as an operator meets it.

use std::path::Path;

use pointsman_config::{Config, Environment};

use crate::process::{ConfigFile, Process, run};

/// A configuration with something of everything.
const OWN: &str = r#"
[timeouts]
connect = "1500ms"
total = "90s"
[catalog]
builtin = true
[providers.acme]
base_url = "https://api.acme.example/v1"
headers = { x-title = "Points \"man\"" }
permit_wait = "7ms"
[providers."a.b"]
base_url = "https://h/v1"
[[keys]]
name = "team"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
expires_at = 2027-01-31
[[aliases]]
name = "thrifty"
weights = { latency = 0.2, cost = 0.8 }
preferred_max_latency = { p95 = 0.8 }
[[models]]
id = "acme/small"
context_length = 1000
description = "two\nlines, a \\ and a \"quote\""
default_parameters = { temperature = 0.5 }
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "s" }, { provider = "a.b", upstream_model = "s" }]
[[models]]
id = "openai/gpt-4o-mini"
name = "Mini"
"#;

fn parse(toml: &str) -> Config {
    let config = Config::parse(toml, "f", Path::new("."), &Environment::default());
    config.unwrap_or_else(|faults| panic!("{toml}\n{}", pointsman::app::cli::report(&faults)))
}

fn shown(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run(&[&["config", "show"], arguments].concat(), environment);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_config_show_prints_is_a_configuration_that_does_the_same() {
    let file = ConfigFile::new(OWN);
    let text = shown(&["--config", file.path()], &[]);
    let (given, printed) = (parse(OWN), parse(&text));
    assert_eq!(printed.catalog(1), given.catalog(1));
    assert_eq!((&printed.keys, &printed.timeouts, &printed.routing), (&given.keys, &given.timeouts, &given.routing));
    assert_eq!((&printed.limits, &printed.server, &printed.images), (&given.limits, &given.server, &given.images));
    assert!(printed.warnings().is_empty(), "{:?}", printed.warnings());
}

#[test]
fn config_show_says_where_each_value_comes_from() {
    let file = ConfigFile::new("[timeouts]\nconnect = \"1500ms\"\n");
    let text = shown(&["--effective", "--config", file.path()], &[("POINTSMAN__TIMEOUTS__TOTAL", "90s")]);
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}: {text}"));
    let (value, place) = line("connect = ").split_once('#').unwrap();
    assert_eq!(value.trim(), "connect = \"1500ms\"");
    assert!(place.ends_with("config.toml:2:1"), "{place}");
    assert!(line("total = ").ends_with("# POINTSMAN__TIMEOUTS__TOTAL"), "{}", line("total = "));
    assert!(line("first_byte = ").ends_with("# default"), "{}", line("first_byte = "));
    assert!(line("id = \"openai/gpt-4o-mini\"").contains("# catalog/openai.toml (built in):"));
}

#[test]
fn config_show_of_the_defaults_is_what_nothing_comes_to() {
    let text = shown(&["--defaults"], &[("POINTSMAN__TIMEOUTS__TOTAL", "90s")]);
    let (printed, nothing) = (parse(&text), parse(""));
    assert_eq!((printed.timeouts, &printed.routing), (nothing.timeouts, &nothing.routing));
    assert_eq!(printed.catalog(1), nothing.catalog(1));
}

#[test]
fn a_faulty_configuration_is_not_shown() {
    let file = ConfigFile::new("[timeouts]\nconnect = 2\n");
    let output = run(&["config", "show", "-c", file.path()], &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    assert!(told.contains("config.toml:2:11: timeouts.connect: got a whole number"), "{told}");
}

#[actix_web::test]
async fn a_file_with_one_provider_serves_its_own_models_and_those_of_the_catalogue_only_when_it_says_so() {
    let own = "[server]\nbind = \"127.0.0.1:0\"\n[providers.acme]\nbase_url = \"http://127.0.0.1:9/v1\"\n[[models]]\n\
               id = \"acme/small\"\ncontext_length = 9\nusd_per_million = { prompt = \"0.15\", completion = \"0.6\" }\n\
               endpoints = [{ provider = \"acme\", upstream_model = \"s\" }]\n";
    for (more, providers) in [("", 1), ("[catalog]\nbuiltin = false\n", 1), ("[catalog]\nbuiltin = true\n", 2)] {
        let file = ConfigFile::new(&format!("{own}{more}"));
        // A provider of the catalogue is on where the catalogue is used: its key is there.
        let process = Process::start(&["--config", file.path()], &[("OPENAI_API_KEY", "sk-0123456789")]);
        let listed = process.gateway().get("/api/v1/providers").await.json();
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(providers), "{more}: {listed}");
        let model = process.gateway().get("/api/v1/models/acme/small/endpoints").await.json();
        assert_eq!(model["data"]["endpoints"][0]["pricing"]["prompt"], "0.00000015", "{model}");
    }
}
