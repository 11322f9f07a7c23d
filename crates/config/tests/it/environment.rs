//! Overrides from the environment: what they reach, and how they fail.

use std::{path::Path, time::Duration};

use expect_test::{Expect, expect};
use pointsman_config::{BUILT_IN, Config, Environment, Fault};
use pointsman_domain::Objective;

fn load<const N: usize>(toml: &str, variables: [(&str, &str); N]) -> Result<Config, Vec<Fault>> {
    let environment: Environment = variables.into_iter().collect();
    Config::parse(toml, "f", Path::new("/nowhere"), &environment)
}

#[track_caller]
fn check<const N: usize>(toml: &str, variables: [(&str, &str); N], expected: Expect) {
    let shown = match load(toml, variables) {
        Ok(_) => "good\n".to_owned(),
        Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
    };
    expected.assert_eq(&shown);
}

#[test]
fn an_override_takes_the_place_of_what_the_file_says() {
    let config = load(
        "[server]\nbind = \"nonsense\"\n[limits]\nmax_n = 4\nmax_tools = 7",
        [
            ("POINTSMAN__SERVER__BIND", "127.0.0.1:9000"),
            ("POINTSMAN__LIMITS__MAX_N", "2"),
            ("POINTSMAN__STREAM__KEEPALIVE", "250ms"),
            ("POINTSMAN__STREAM__ERROR_COMPAT", "false"),
            ("POINTSMAN__ROUTING__OBJECTIVE", "cheapest"),
            ("POINTSMAN__ROUTING__HEDGE__OBJECTIVES", "[\"reliable\", \"balanced\"]"),
            ("POINTSMAN__ROUTING__BALANCED", "{ latency = 1, cost = 0 }"),
            ("POINTSMAN_PORT", "tcp://10.0.0.1:8080"),
        ],
    )
    .unwrap();
    assert_eq!(config.server.bind.port(), 9000);
    assert_eq!((config.limits.request.max_n, config.limits.request.max_tools), (2, 7));
    assert_eq!(config.stream.keepalive, Duration::from_millis(250));
    assert!(!config.stream.error_compat);
    assert_eq!(config.routing.objective, Objective::Cheapest);
    assert_eq!(config.routing.policy.hedge.objectives, [Objective::Reliable, Objective::Balanced]);
    assert_eq!(config.routing.policy.balanced.cost, 0.0);
}

#[test]
fn a_text_may_look_like_a_number() {
    let config = load("", [("POINTSMAN__SERVICE__ALIAS_PREFIX", "2026")]).unwrap();
    assert_eq!(config.service.alias_prefix, "2026");
}

#[test]
fn a_single_key_corrects_a_whole_section_whatever_their_order() {
    let config = load("", [("POINTSMAN__LIMITS__MAX_N", "2"), ("POINTSMAN__LIMITS", "{ max_n = 9, max_tools = 1 }")]);
    let limits = config.unwrap().limits.request;
    assert_eq!((limits.max_n, limits.max_tools), (2, 1));
}

#[test]
fn named_tables_are_reached_by_their_names() {
    let config = load(
        BUILT_IN,
        [
            ("POINTSMAN__PROVIDERS__OLLAMA__ENABLED", "true"),
            ("POINTSMAN__PROVIDERS__OLLAMA__MAX_IN_FLIGHT", "3"),
            ("POINTSMAN__SIMULATION__PROVIDERS__SIM_FLAKY__ERROR_RATE", "1"),
            ("POINTSMAN__PROVIDERS__OPENAI__ENABLED", "false"),
            ("OPENAI_API_KEY", "sk-0123456789"),
        ],
    )
    .unwrap();
    assert_eq!(config.providers.len(), 1);
    assert_eq!(config.providers[0].max_in_flight, 3);
    let flaky = config.simulation.providers.iter().find(|(_, character)| character.slug == "sim-flaky");
    assert_eq!(flaky.map(|(_, character)| character.error_rate), Some(1.0));
    assert_eq!(config.start_up_notes()[0], "POINTSMAN__PROVIDERS__OPENAI__ENABLED switches provider 'openai' off.");
}

#[test]
fn a_whole_configuration_can_stand_in_the_environment() {
    let config = load(
        "",
        [
            ("POINTSMAN__PROVIDERS__ACME", "{ base_url = 'http://10.0.0.1/v1' }"),
            (
                "POINTSMAN__MODELS",
                "[{ id = 'acme/small', context_length = 9, pricing = { prompt = '0', completion = '0' }, \
                   endpoints = [{ provider = 'acme', upstream_model = 's' }] }]",
            ),
            ("POINTSMAN__KEYS", "[{ name = 'team', env = 'TEAM_KEY' }]"),
            ("TEAM_KEY", "sk-0123456789abcdef"),
        ],
    )
    .unwrap();
    assert_eq!(config.catalog(1).models[0].id.as_str(), "acme/small");
    assert_eq!(&*config.keys[1].name, "team");
}

#[test]
fn a_variable_that_names_no_key_is_a_fault_that_names_it() {
    check(
        "",
        [("POINTSMAN__LIMITS__MAXN", "2")],
        expect![[r#"
            POINTSMAN__LIMITS__MAXN: limits.maxn: unknown key, did you mean 'max_n'?; allowed: max_n, max_body, max_header, max_depth, max_messages, max_tools, tokens_per_image, concurrency and 13 more
        "#]],
    );
    check(
        "",
        [("POINTSMAN__LIMIT__MAX_N", "2")],
        expect![[r#"
            POINTSMAN__LIMIT__MAX_N: limit: unknown section, did you mean 'limits'?; allowed: limits, server, auth, admin, console, reload, service, keys and 22 more
        "#]],
    );
    check(
        "",
        [("POINTSMAN__DEBUG", "1")],
        expect![[r#"
            POINTSMAN__DEBUG: debug: unknown section; allowed: server, auth, admin, console, reload, service, limits, keys and 22 more
        "#]],
    );
    check(
        "",
        [("POINTSMAN__", "1"), ("POINTSMAN__SERVER____BIND", "1")],
        expect![[r#"
            POINTSMAN__: ?: is not the path of a key; allowed: POINTSMAN__SECTION__KEY
            POINTSMAN__SERVER____BIND: server..bind: is not the path of a key; allowed: POINTSMAN__SECTION__KEY
        "#]],
    );
    check(
        "[providers.openai]\nbase_url = 'http://h'",
        [("POINTSMAN__PROVIDERS__OPENIA__ENABLED", "true")],
        expect![[r#"
            POINTSMAN__PROVIDERS__OPENIA__ENABLED: providers.openia.enabled: providers has no entry 'openia', did you mean 'openai'?; allowed: one of: openai; or a whole inline table
        "#]],
    );
    check(
        "limits.max_n = 1",
        [("POINTSMAN__LIMITS__MAX_N__X", "true")],
        expect![[r#"
        POINTSMAN__LIMITS__MAX_N__X: limits.max_n.x: 'max_n' is a whole number, not a table; allowed: the path of a key; a list is set as a whole
    "#]],
    );
    check(
        "[[keys]]\nname = 'x'",
        [("POINTSMAN__KEYS__0__NAME", "y")],
        expect![[r#"
        f:1:1: keys[0].sha256: is missing; allowed: either sha256 = "<64 hexadecimal digits>" (make one with 'pointsman keygen') or env = "NAME_OF_A_VARIABLE" that holds the key
        POINTSMAN__KEYS__0__NAME: keys.0.name: 'keys' is a list, not a table; allowed: the path of a key; a list is set as a whole
    "#]],
    );
    check(
        "[providers.a-b]\nbase_url = 'http://h'\n[providers.'a.b']\nbase_url = 'http://h'",
        [("POINTSMAN__PROVIDERS__A_B__ENABLED", "false")],
        expect![[r#"
            POINTSMAN__PROVIDERS__A_B__ENABLED: providers.a_b.enabled: matches both 'a-b' and 'a.b'; allowed: names that differ by more than '-', '_', '.' and case
        "#]],
    );
}

#[test]
fn a_wrong_value_is_a_fault_of_its_variable() {
    check(
        "[limits]\nmax_n = 0",
        [
            ("POINTSMAN__LIMITS__MAX_N", "many"),
            ("POINTSMAN__LIMITS__MAX_TOOLS", ""),
            ("POINTSMAN__ROUTING__HEDGE__OBJECTIVES", "[\"fastest\""),
            ("POINTSMAN__ROUTING__EXPERT__HEDGE_SIGMA", "99999999999999999999"),
            ("POINTSMAN__PROVIDERS", "openai"),
            ("POINTSMAN__KEYS", "[{ name = \"x\", sha256 = \"1\", scops = [] }]"),
        ],
        expect![[r#"
            POINTSMAN__KEYS: keys[0].scops: unknown key, did you mean 'scopes'?; allowed: scopes, name, sha256, env, expires_at, disabled, allowed_models, blocked_models and 14 more
            POINTSMAN__KEYS: keys[0].sha256: is not a SHA-256; allowed: 64 hexadecimal digits, as keygen prints them
            POINTSMAN__LIMITS__MAX_N: limits.max_n: got a string; allowed: a whole number from 1 to 128
            POINTSMAN__LIMITS__MAX_TOOLS: limits.max_tools: got a string; allowed: a whole number from 0 to 65536
            POINTSMAN__PROVIDERS: providers: got a string; allowed: a table
            POINTSMAN__ROUTING__EXPERT__HEDGE_SIGMA: routing.expert.hedge_sigma: got a number beyond 64 bits; allowed: a number from 0 to 10
            POINTSMAN__ROUTING__HEDGE__OBJECTIVES: routing.hedge.objectives: got a string; allowed: a list of strings
        "#]],
    );
}

#[cfg(unix)]
#[test]
fn the_environment_of_a_process_may_hold_anything() {
    // Reading it must not fail, whatever the machine's variables are.
    let environment = Environment::of_process();
    assert!(environment.get("PATH").is_some());
    assert_eq!(environment.get("POINTSMAN_SURELY_NOT_SET"), None);
}
