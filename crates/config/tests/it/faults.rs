//! Every kind of fault, as an operator reads it: file, line, column, key, what is wrong, what is allowed.

use std::path::Path;

use expect_test::{Expect, expect};
use pointsman_config::{Config, DEVELOPMENT_KEY, Environment, digest_of};

/// A provider and a model that nothing is wrong with.
const GOOD: &str = r#"
[providers.acme]
base_url = "https://api.acme.example/v1"
[[models]]
id = "acme/small"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "small" }]
"#;

fn faults(toml: &str, environment: &Environment) -> String {
    match Config::parse(toml, "f", Path::new("/nowhere"), environment) {
        Ok(_) => "good\n".to_owned(),
        Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
    }
}

#[track_caller]
fn check(toml: &str, expected: Expect) {
    expected.assert_eq(&faults(toml.trim_start(), &Environment::default()));
}

#[test]
fn an_empty_text_of_a_program_is_the_configuration_of_all_defaults() {
    check(
        "",
        expect![[r#"
        good
    "#]],
    );
    check(
        GOOD,
        expect![[r#"
        good
    "#]],
    );
}

#[test]
fn an_unknown_provider_is_named_before_the_nearest_known_one_and_a_few_of_the_others() {
    let provider = |n| format!("[providers.cloud-{n}]\nbase_url = \"https://cloud-{n}.example/v1\"\n");
    let providers: String = (10..60).map(provider).collect();
    let faults = faults(
        &format!("{providers}{}", GOOD.replace("provider = \"acme\"", "provider = \"cluod-17\"")),
        &Environment::default(),
    );
    let said = "there is no provider 'cluod-17', did you mean 'cloud-17'?; allowed: cloud-17, ";
    assert!(faults.contains(said) && faults.trim_end().ends_with(" and 43 more"), "{faults}");
}

#[test]
fn unknown_keys_and_sections_are_named_with_the_nearest_known_one() {
    check(
        "[server]\nbnid = \"127.0.0.1:1\"",
        expect![[r#"
            f:2:1: server.bnid: unknown key, did you mean 'bind'?; allowed: bind, tls, workers, keep_alive, max_connections, drain_notice, hosts, legacy_completions and 1 more
        "#]],
    );
    check(
        "[sevrer]\nbind = 1",
        expect![[r#"
            f:1:2: sevrer: unknown section, did you mean 'server'?; allowed: server, auth, admin, console, reload, service, limits, keys and 22 more
        "#]],
    );
    check(
        "[routing.hedge]\nbudgets = 2",
        expect![[r#"
            f:2:1: routing.hedge.budgets: unknown key, did you mean 'budget'?; allowed: budget, objectives
        "#]],
    );
    check(
        "[timeouts]\nmilliseconds = 2",
        expect![[r#"
            f:2:1: timeouts.milliseconds: unknown key; allowed: connect, provider_idle, first_byte, first_content, total, client_header, client_body, client_body_min_rate and 3 more
        "#]],
    );
    check(
        "[providers.acme]\nbase_url = \"http://h\"\ntimeout = 3",
        expect![[r#"
            f:3:1: providers.acme.timeout: unknown key; allowed: enabled, name, base_url, api_key_env, api_key_file, auth, region, routes and 28 more
        "#]],
    );
}

#[test]
fn a_switch_that_does_nothing_in_the_dialect_of_its_endpoint_is_a_fault_that_names_the_right_one() {
    check(
        r#"
[providers.acme]
base_url = "http://h"
dialect = "anthropic"
tools_force_effort_none = true
allow_state = true
[[models]]
id = "acme/small"
context_length = 1000
endpoints = [
    { provider = "acme", upstream_model = "a", pricing = "unknown", allow_state = true },
    { provider = "acme", upstream_model = "b", variant = "b", pricing = "unknown", dialect = "openai-responses", allow_state = true },
    { provider = "acme", upstream_model = "c", variant = "c", pricing = "unknown", tools_force_effort_none = false },
]
"#,
        expect![[r#"
            f:4:27: providers.acme.tools_force_effort_none: does nothing at endpoints of the dialect 'anthropic'; allowed: dialect = "openai", or this key at the endpoints of that dialect
            f:5:15: providers.acme.allow_state: does nothing at endpoints of the dialect 'anthropic'; allowed: dialect = "openai-responses", or this key at the endpoints of that dialect
            f:10:83: models[0].endpoints[0].allow_state: does nothing at endpoints of the dialect 'anthropic'; allowed: dialect = "openai-responses", or this key at the endpoints of that dialect
        "#]],
    );
}

#[test]
fn values_of_the_wrong_type_are_told_from_values_out_of_range() {
    check(
        r#"
limits = { max_n = "eight", max_depth = 4, max_tools = -1, max_messages = 1.5, max_body = 99999999999999999999 }
[server]
bind = 8080
mount_v1 = "yes"
workers = [1]
[timeouts]
total = "10"
connect = 2
first_byte = "2d"
[cors]
allowed_origins = "*"
[catalog]
envelope = "page"
[images]
url_ttl = { hours = 1 }
"#,
        expect![[r#"
            f:1:20: limits.max_n: got a string; allowed: a whole number from 1 to 128
            f:1:41: limits.max_depth: 4 is out of range; allowed: a whole number from 8 to 512
            f:1:56: limits.max_tools: -1 is out of range; allowed: a whole number from 0 to 65536
            f:1:75: limits.max_messages: got a number; allowed: a whole number from 1 to 1000000
            f:1:91: limits.max_body: got a number beyond 64 bits; allowed: a size from 1KiB to 1GiB, such as "32MiB"
            f:3:8: server.bind: got a whole number; allowed: a string
            f:4:12: server.mount_v1: got a string; allowed: true or false
            f:5:11: server.workers: got a list; allowed: a whole number from 0 to 1024
            f:7:9: timeouts.total: is not a time; allowed: a time with its unit from 1ms to 1day, such as "15s"
            f:8:11: timeouts.connect: got a whole number; allowed: a time with its unit from 1ms to 1day, such as "15s"
            f:9:14: timeouts.first_byte: 2d is out of range; allowed: a time with its unit from 1ms to 1day, such as "15s"
            f:11:19: cors.allowed_origins: got a string; allowed: a list of strings
            f:13:12: catalog.envelope: 'page' is unknown, did you mean 'paged'?; allowed: "paged", "auto", "bare"
            f:15:11: images.url_ttl: got a table; allowed: a time with its unit from 1ms to 7days, such as "15s"
        "#]],
    );
}

#[test]
fn all_faults_of_a_file_are_reported_at_once_and_in_its_order() {
    check(
        r#"
[server]
bind = "localhost"
[auth]
mode = "key"
[limits]
max_n = 0
[[models]]
id = "small"
[providers.Acme]
"#,
        expect![[r#"
            f:2:8: server.bind: is not an address; allowed: an address and a port, such as "127.0.0.1:8080", "0.0.0.0:8080" or "[::1]:8080"
            f:4:8: auth.mode: 'key' is unknown, did you mean 'keys'?; allowed: "keys", "none"
            f:6:9: limits.max_n: 0 is out of range; allowed: a whole number from 1 to 128
            f:7:1: models[0].endpoints: is missing; allowed: at least one [[models.endpoints]] below the model
            f:8:6: models[0].id: is not a model id; allowed: "<namespace>/<name>" with exactly one slash, such as "acme/small"
            f:9:12: providers.Acme: is not a provider's short name; allowed: 1 to 64 of: lower-case letters, digits, '-', '_', '.'
            f:9:12: providers.Acme.base_url: is missing; allowed: a URL such as "https://api.example.com/v1"
        "#]],
    );
}

#[test]
fn a_file_that_is_not_toml_is_still_checked_around_the_broken_lines() {
    check(
        "[server]\nbind = \n[limits]\nmax_n = 0\n",
        expect![[r#"
            f:2:8: server.bind: string values must be quoted; allowed: literal string
            f:4:9: limits.max_n: 0 is out of range; allowed: a whole number from 1 to 128
        "#]],
    );
    check(
        "[limits]\nmax_n = eight\nmax_n = 3\n[limits]\n",
        expect![[r#"
            f:2:9: limits.max_n: string values must be quoted; allowed: literal string
            f:3:1: limits.max_n: is set a second time; allowed: each key and each table once
            f:4:2: syntax: is set a second time; allowed: each key and each table once
        "#]],
    );
    check(
        "[server\nbind = \"x\"",
        expect![[r#"
            f:1:8: syntax: unclosed table; allowed: `]`
        "#]],
    );
    check(
        "[[models]]\nendpoints = [{ provider = \"gone\"",
        expect![[r#"
            f:2:33: models.endpoints: unclosed array; allowed: `]`
            f:2:33: models.endpoints: unclosed inline table; allowed: `}`
        "#]],
    );
}

#[test]
fn columns_count_characters_not_bytes() {
    check(
        "limits = { max_n = 3, \"größe\" = 1, max_tool = 1 }",
        expect![[r#"
            f:1:23: limits.größe: unknown key; allowed: max_body, max_header, max_depth, max_messages, max_tools, max_n, tokens_per_image, concurrency and 13 more
            f:1:36: limits.max_tool: unknown key, did you mean 'max_tools'?; allowed: max_tools, max_body, max_header, max_depth, max_messages, max_n, tokens_per_image, concurrency and 13 more
        "#]],
    );
}

#[test]
fn a_base_address_must_be_a_whole_one_and_not_our_own() {
    check(
        r#"
[providers.a]
[providers.b]
base_url = "api.example.com/v1"
[providers.c]
base_url = "ftp://api.example.com"
[providers.d]
base_url = "https://user:password@api.example.com"
[providers.e]
base_url = "http://localhost:8080/v1"
[providers.f]
base_url = "http://localhost:8080/v1"
enabled = false
"#,
        expect![[r#"
            f:1:12: providers.a.base_url: is missing; allowed: a URL such as "https://api.example.com/v1"
            f:3:12: providers.b.base_url: needs a scheme, such as https://; allowed: a URL such as "https://api.example.com/v1"
            f:5:12: providers.c.base_url: has a scheme other than http and https; allowed: a URL such as "https://api.example.com/v1"
            f:7:12: providers.d.base_url: has a user or a password; allowed: a URL such as "https://api.example.com/v1"
            f:9:12: providers.e.base_url: is the address of this gateway itself (server.bind): its calls would go round in circles; allowed: another port, here or in server.bind
        "#]],
    );
}

#[test]
fn a_provider_where_the_gateway_is_administered_is_refused_or_noted() {
    let providers = |port: u16| format!("[providers.a]\nbase_url = \"http://localhost:{port}/v1\"\n");
    check(
        &format!("[admin]\nbind = \"127.0.0.1:9099\"\n{}", providers(9099)),
        expect![[r#"
            f:4:12: providers.a.base_url: is where this gateway is administered (admin.bind): no model answers there; allowed: another port, here or in admin.bind
        "#]],
    );
    // The operator did not choose the default address, so it gives way to the provider.
    let config = Config::parse(&providers(8081), "f", Path::new("."), &Environment::default()).unwrap();
    let notes = config.start_up_notes().join("\n");
    assert!(notes.contains("providers.a.base_url is the default address of admin.bind"), "{notes}");
}

#[test]
fn secrets_in_the_file_are_refused_without_being_repeated() {
    check(
        r#"
[providers.acme]
base_url = "https://h"
api_key = "sk-this-is-secret"
[providers.bolt]
base_url = "https://h"
api_key_env = "sk-this-is-secret"
[providers.cove]
base_url = "https://h"
headers = { Authorization = "Bearer sk-this-is-secret", "x y" = "1", x-a = "1\n2" }
[providers.dell]
base_url = "https://h"
api_key_env = "A"
api_key_file = "b"
[[keys]]
name = "team"
key = "sk-this-is-secret"
"#,
        expect![[r#"
            f:3:11: providers.acme.api_key: a secret must not be in this file; allowed: api_key_env = "NAME_OF_A_VARIABLE" or api_key_file = "path"
            f:6:15: providers.bolt.api_key_env: is not the name of an environment variable; allowed: letters, digits and underscores, not beginning with a digit; never the key itself
            f:9:29: providers.cove.headers.Authorization: is set by the gateway itself; allowed: a header name and a value of visible ASCII; secrets go into api_key_env or api_key_file
            f:9:65: providers.cove.headers.x y: is not a header name; allowed: a header name and a value of visible ASCII; secrets go into api_key_env or api_key_file
            f:9:76: providers.cove.headers.x-a: has a value that is not allowed in a header; allowed: a header name and a value of visible ASCII; secrets go into api_key_env or api_key_file
            f:13:16: providers.dell.api_key_file: is set together with api_key_env; allowed: one of them: api_key_env = "NAME_OF_A_VARIABLE" or api_key_file = "path"
            f:16:7: keys[0].key: a key must not be in this file; allowed: either sha256 = "<64 hexadecimal digits>" (make one with 'pointsman keygen') or env = "NAME_OF_A_VARIABLE" that holds the key
        "#]],
    );
}

#[test]
fn keys_need_a_name_and_one_proof() {
    check(
        r#"
[[keys]]
sha256 = "abc"
[[keys]]
name = "both"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
env = "TEAM_KEY"
[[keys]]
name = "twin"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
scopes = ["inference", "write"]
expires_at = "soon"
allowed_models = ["acme/*", "*/small", ""]
requests_per_minute = -1
[[keys]]
name = "twin"
sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"
scopes = []
[[keys]]
name = "development"
env = "1KEY"
"#,
        expect![[r#"
            f:1:1: keys[0].name: is missing; allowed: a label for logs and records
            f:2:10: keys[0].sha256: is not a SHA-256; allowed: 64 hexadecimal digits, as keygen prints them
            f:6:7: keys[1].env: is set together with sha256; allowed: either sha256 = "<64 hexadecimal digits>" (make one with 'pointsman keygen') or env = "NAME_OF_A_VARIABLE" that holds the key
            f:10:24: keys[2].scopes[1]: 'write' is not a scope; allowed: inference, read, admin, feedback
            f:11:14: keys[2].expires_at: is not a date or time; allowed: a date such as 2027-01-31, or a time with its offset such as 2027-01-31T12:00:00Z
            f:12:29: keys[2].allowed_models[1]: is not a pattern; allowed: a model id, or a prefix that ends in one '*' such as "acme/*"
            f:12:40: keys[2].allowed_models[2]: is not a pattern; allowed: a model id, or a prefix that ends in one '*' such as "acme/*"
            f:13:23: keys[2].requests_per_minute: -1 is out of range; allowed: a whole number from 0 to 1000000000
            f:15:8: keys[3].name: 'twin' is used twice; allowed: a name of its own for each key
            f:16:10: keys[3].sha256: is the same key as 'twin'; allowed: a key of its own for each name
            f:17:10: keys[3].scopes: is empty; allowed: at least one of inference, read, admin, feedback
            f:20:7: keys[4].env: is not the name of an environment variable; allowed: letters, digits and underscores, not beginning with a digit; never the key itself
        "#]],
    );
}

#[test]
fn keys_in_clear_must_not_be_weak() {
    let environment: Environment = [
        ("SHORT", "sk-short"),
        ("PLACEHOLDER", "sk-your-key-goes-here"),
        ("GOOD", "sk-team-v1-0f3a9c7be2"),
        ("LINE", "sk-team-v1-1f3a9c7be2\n"),
    ]
    .into_iter()
    .collect();
    let toml = r#"
[[keys]]
name = "a"
env = "SHORT"
[[keys]]
name = "b"
env = "PLACEHOLDER"
[[keys]]
name = "c"
env = "GOOD"
[[keys]]
name = "d"
env = "UNSET"
[[keys]]
name = "e"
env = "LINE"
"#;
    expect![[r#"
        f:4:7: keys[0].env: the key in SHORT is shorter than 16 characters; allowed: 16 to 512 visible ASCII characters that cannot be guessed; 'pointsman keygen' makes one
        f:7:7: keys[1].env: the key in PLACEHOLDER looks like a placeholder; allowed: 16 to 512 visible ASCII characters that cannot be guessed; 'pointsman keygen' makes one
        f:16:7: keys[4].env: the key in LINE begins or ends with a blank or a line break; allowed: 16 to 512 visible ASCII characters that cannot be guessed; 'pointsman keygen' makes one
    "#]].assert_eq(&faults(toml, &environment));
}

#[test]
fn the_development_key_keeps_the_server_on_loopback() {
    check(
        "[server]\nbind = \"0.0.0.0:8080\"",
        expect![[r#"
        f:1:1: auth.development_key_enabled: the development key is public and works on loopback only, but server.bind is 0.0.0.0:8080; allowed: development_key_enabled = false and a key of your own in [[keys]] (make one with 'pointsman keygen'), or a loopback address in server.bind
    "#]],
    );
    check(
        "[server]\nbind = \"0.0.0.0:8080\"\n[auth]\ndevelopment_key_enabled = true",
        expect![[r#"
        f:4:27: auth.development_key_enabled: the development key is public and works on loopback only, but server.bind is 0.0.0.0:8080; allowed: development_key_enabled = false and a key of your own in [[keys]] (make one with 'pointsman keygen'), or a loopback address in server.bind
    "#]],
    );
    check(
        "[server]\nbind = \"0.0.0.0:8080\"\n[auth]\ndevelopment_key_enabled = false",
        expect![[r#"
        good
    "#]],
    );
    check(
        "[server]\nbind = \"[::1]:0\"",
        expect![[r#"
        good
    "#]],
    );
    check(
        "[server]\nbind = \"localhost:9000\"",
        expect![[r#"
        good
    "#]],
    );
    check(
        &r#"
[server]
bind = "[::]:8080"
[auth]
development_key_enabled = false
[[keys]]
name = "sly"
sha256 = "@"
"#
        .replace('@', &hex::encode(digest_of(DEVELOPMENT_KEY))),
        expect![[r#"
            f:7:10: keys[0].sha256: is the public development key, but server.bind is [::]:8080; allowed: a key of your own; 'pointsman keygen' makes one
        "#]],
    );
}

#[test]
fn nobody_is_let_in_without_a_key_beyond_loopback() {
    check(
        "[server]\nbind = \"0.0.0.0:8080\"\n[auth]\nmode = \"none\"",
        expect![[r#"
            f:4:8: auth.mode: callers would need no key, but server.bind is 0.0.0.0:8080; allowed: mode = "keys" with keys of your own in [[keys]] (make one with 'pointsman keygen'), or a loopback address in server.bind
        "#]],
    );
    check(
        "[auth]\nmode = \"none\"",
        expect![[r#"
            good
        "#]],
    );
}

#[test]
fn administration_beyond_loopback_is_encrypted_or_said_to_need_no_encryption() {
    let closed = "[auth]\ndevelopment_key_enabled = false\n[admin]\nbind = \"0.0.0.0:8081\"";
    check(
        closed,
        expect![[r#"
            f:4:8: admin.bind: keys with the scope admin would be sent to 0.0.0.0:8081 unencrypted; allowed: a certificate in [server.tls], a loopback address, or admin.allow_plain_http = true on a trusted network
        "#]],
    );
    check(
        &format!("{closed}\nallow_plain_http = true"),
        expect![[r#"
            good
        "#]],
    );
}

#[test]
fn the_development_key_never_administrates_under_any_name() {
    let sly = |more: &str| {
        let sha256 = hex::encode(digest_of(DEVELOPMENT_KEY));
        format!("{more}[auth]\ndevelopment_key_enabled = false\n[[keys]]\nname = \"sly\"\nsha256 = \"{sha256}\"\n")
    };
    check(
        &format!("{}scopes = [\"read\", \"admin\"]", sly("")),
        expect![[r#"
            f:6:10: keys[0].scopes: has admin, but the key is the public development key; allowed: inference and read; a key of your own for admin ('pointsman keygen' makes one)
        "#]],
    );
    check(
        &sly("[admin]\nbind = \"0.0.0.0:8081\"\nallow_plain_http = true\n"),
        expect![[r#"
            f:8:10: keys[0].sha256: is the public development key, but admin.bind is 0.0.0.0:8081; allowed: a key of your own; 'pointsman keygen' makes one
        "#]],
    );
}

#[test]
fn hosts_are_names_and_addresses_without_port_and_wildcard() {
    check(
        r#"
[server]
hosts = ["gateway.example.com", "localhost.", "192.168.0.1", "[fd00::1]", "fd00::1", "my_host"]
[admin]
hosts = ["a:8080", "*.example.com", "http://a", "", "a/b"]
"#,
        expect![[r#"
            f:4:10: admin.hosts[0]: is not a host; allowed: a host name or an address without scheme, port, path and wildcard, such as "gateway.example.com"
            f:4:20: admin.hosts[1]: is not a host; allowed: a host name or an address without scheme, port, path and wildcard, such as "gateway.example.com"
            f:4:37: admin.hosts[2]: is not a host; allowed: a host name or an address without scheme, port, path and wildcard, such as "gateway.example.com"
            f:4:49: admin.hosts[3]: is not a host; allowed: a host name or an address without scheme, port, path and wildcard, such as "gateway.example.com"
            f:4:53: admin.hosts[4]: is not a host; allowed: a host name or an address without scheme, port, path and wildcard, such as "gateway.example.com"
        "#]],
    );
}

#[test]
fn endpoints_need_a_known_provider_a_name_prices_and_a_context() {
    check(
        r#"
[providers.acme]
base_url = "https://h"
[[models]]
id = "acme/none"
[[models]]
id = "acme/empty"
endpoints = []
[[models]]
id = "acme/bare"
[[models.endpoints]]
[[models.endpoints]]
provider = "acne"
upstream_model = "x"
context_length = 1
pricing = { prompt = "0", completion = "0" }
[[models.endpoints]]
provider = "acme"
upstream_model = "x"
context_length = 0
disabled = true
"#,
        expect![[r#"
            f:3:1: models[0].endpoints: is missing; allowed: at least one [[models.endpoints]] below the model
            f:7:13: models[1].endpoints: is empty; allowed: at least one [[models.endpoints]] below the model
            f:10:1: models[2].endpoints[0].context_length: is missing; allowed: the context window in tokens, here or at the model
            f:10:1: models[2].endpoints[0].pricing: is missing; allowed: usd_per_million = { prompt = "…", completion = "…" } here or at the model, pricing = "unknown", or disabled = true
            f:10:1: models[2].endpoints[0].provider: is missing; allowed: the name of a [providers.<name>] or [simulation.providers.<name>]
            f:10:1: models[2].endpoints[0].upstream_model: is missing; allowed: the provider's own name for the model
            f:12:12: models[2].endpoints[1].provider: there is no provider 'acne', did you mean 'acme'?; allowed: acme
            f:19:18: models[2].endpoints[2].context_length: 0 is out of range; allowed: a whole number from 1 to 1000000000
        "#]],
    );
}

#[test]
fn prices_are_decimal_strings_from_zero_up() {
    check(
        r#"
[providers.acme]
base_url = "https://h"
[[models]]
id = "acme/small"
context_length = 1000
pricing = { prompt = 0.1, completion = "1e-6", request = "-1", image = "0.0000000000000001", cache = "1" }
[[models.endpoints]]
provider = "acme"
upstream_model = "x"
[[models.endpoints]]
provider = "acme"
upstream_model = "x"
variant = "Second One"
pricing = { prompt = "1" }
"#,
        expect![[r#"
            f:6:22: models[0].pricing.prompt: got a number; allowed: US dollars as a decimal number in quotes, at least 0, such as "0.00000015"
            f:6:40: models[0].pricing.completion: is not a plain decimal number; allowed: US dollars as a decimal number in quotes, at least 0, such as "0.00000015"
            f:6:58: models[0].pricing.request: is negative; allowed: US dollars as a decimal number in quotes, at least 0, such as "0.00000015"
            f:6:72: models[0].pricing.image: is too large, or has more than 15 digits after the point; allowed: US dollars as a decimal number in quotes, at least 0, such as "0.00000015"
            f:6:94: models[0].pricing.cache: unknown key; allowed: prompt, completion, explicit_zero, internal_reasoning, input_cache_read, input_cache_write, input_cache_write_1h, audio and 7 more
            f:13:11: models[0].endpoints[1].variant: is not a short name; allowed: at most 64 of: lower-case letters, digits, '-', '_', '.'
            f:14:11: models[0].endpoints[1].pricing.completion: is missing; allowed: US dollars as a decimal number in quotes, at least 0, such as "0.00000015" per token; "0" if it costs nothing
        "#]],
    );
}

#[test]
fn limits_of_spending_and_of_rates_are_numbers_from_zero_up_that_fit() {
    check(
        r#"
keys = [
  { name = "a", env = "A", spend_limit = "-1" }, { name = "b", env = "B", spend_limit = "1e30" }, { name = "c", env = "C", spend_limit = 5 },
  { name = "d", env = "D", spend_limit = "1000000000000.1" }, { name = "e", env = "E", spend_reset = "daily" }, { name = "f", env = "F", spend_limit = "1", spend_reset = "hourly" },
  { name = "g", env = "G", requests_per_minute = -1 }, { name = "h", env = "H", tokens_per_minute = 99999999999 }, { name = "i", env = "I", concurrency = 1.5 },
]
accounts = [{ name = "x", spend_limit = "-0.01" }]
teams = [{ name = "y", spend_limit = "1e-400" }]
"#,
        expect![[r#"
            f:2:42: keys[0].spend_limit: is not an amount of money; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
            f:2:89: keys[1].spend_limit: is not an amount of money; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
            f:2:138: keys[2].spend_limit: got a whole number; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
            f:3:42: keys[3].spend_limit: is not an amount of money; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
            f:3:102: keys[4].spend_reset: is set without spend_limit; allowed: spend_limit beside it
            f:3:171: keys[5].spend_reset: 'hourly' is unknown; allowed: "daily", "weekly", "monthly", "never"
            f:4:50: keys[6].requests_per_minute: -1 is out of range; allowed: a whole number from 0 to 1000000000
            f:4:101: keys[7].tokens_per_minute: 99999999999 is out of range; allowed: a whole number from 0 to 1000000000
            f:4:155: keys[8].concurrency: got a number; allowed: a whole number from 0 to 1000000000
            f:6:41: accounts[0].spend_limit: is not an amount of money; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
            f:7:38: teams[0].spend_limit: is not an amount of money; allowed: a plain decimal string of US dollars from 0 to 10^12, such as "25.00"
        "#]],
    );
}

#[test]
fn names_stand_for_one_thing() {
    let twins = r#"
[[models]]
id = "acme/small"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "a" }, { provider = "acme", upstream_model = "b" }]
[[models]]
id = "service/auto"
canonical_slug = "acme/small"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "a" }]
[[aliases]]
name = "acme/small"
[[aliases]]
name = "openrouter/free"
[[aliases]]
name = "cheap"
synonyms = ["router", "thrifty"]
[[aliases]]
name = "service/cheap"
[simulation.providers.acme]
"#;
    check(
        &format!("{GOOD}{twins}"),
        expect![[r#"
            f:10:6: models[1].id: is used twice, here and by models[0]; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:13:72: models[1].endpoints[1].provider: the model is listed twice at this provider; allowed: a 'variant' that tells the two apart
            f:15:6: models[2].id: is used twice, here and by a built-in alias; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:16:18: models[2].canonical_slug: is used twice, here and by models[0]; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:21:8: aliases[0].name: is used twice, here and by models[0]; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:23:8: aliases[1].name: is used twice, here and by a built-in alias; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:26:13: aliases[2].synonyms[0]: is used twice, here and by a built-in alias; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:28:8: aliases[3].name: is used twice, here and by another alias; allowed: a name of its own for each model and alias (see also routing.alias_synonyms)
            f:29:23: simulation.providers.acme: is a real provider's name too; allowed: a name of its own for each provider
        "#]],
    );
}

#[test]
fn model_fields_are_checked_one_by_one() {
    check(
        r#"
[providers.acme]
base_url = "https://h"
[[models]]
id = "acme/small/2"
canonical_slug = "small"
created = "yesterday"
expiration_date = 2027-13-01
knowledge_cutoff = 2026-01-01T00:00:00Z
input_modalities = ["text", "smell"]
output_modalities = []
image_sizes = ["1024x1024", "0x1", "big"]
supported_parameters = ["max_tokens", "Max Tokens"]
default_parameters = { temperature = 3, top_p = 1, seed = 4 }
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "a", unknown_fields = "keep" }]
"#,
        expect![[r#"
            f:4:6: models[0].id: is not a model id; allowed: "<namespace>/<name>" with exactly one slash, such as "acme/small"
            f:5:18: models[0].canonical_slug: is not a model id; allowed: "<namespace>/<name>", such as "acme/small-2026-01"
            f:6:11: models[0].created: is not a date or time; allowed: a date such as 2026-11-20, or Unix seconds
            f:7:19: models.expiration_date: invalid date; allowed: month between 01 and 12
            f:8:20: models[0].knowledge_cutoff: is not a day; allowed: a date such as 2027-01-31
            f:9:29: models[0].input_modalities[1]: 'smell' is not a modality; allowed: text, image, audio, file, video, embeddings
            f:10:21: models[0].output_modalities: is empty; allowed: at least one of text, image, audio, file, video, embeddings
            f:11:29: models[0].image_sizes[1]: is not a size; allowed: "<width>x<height>" in pixels, such as "1024x1024"
            f:11:36: models[0].image_sizes[2]: is not a size; allowed: "<width>x<height>" in pixels, such as "1024x1024"
            f:12:39: models[0].supported_parameters[1]: is not a parameter name; allowed: lower-case letters, digits and '_', such as "max_tokens"
            f:13:38: models[0].default_parameters.temperature: 3 is out of range; allowed: a number from 0 to 2
            f:13:52: models[0].default_parameters.seed: unknown key; allowed: temperature, top_p, top_k, frequency_penalty, presence_penalty, repetition_penalty
            f:16:74: models[0].endpoints[0].unknown_fields: 'keep' is unknown; allowed: "forward", "drop"
        "#]],
    );
}

#[test]
fn aliases_and_routing_are_checked_too() {
    check(
        r#"
[service]
alias_prefix = "my service"
[routing]
objective = "cheap"
seed = -1
exploration = -0.5
balanced = { latency = 0, cost = 0 }
alias_synonyms = ["auto", "best"]
[routing.hedge]
objectives = ["fastest", "quickest"]
budget = 2
[routing.expert]
hot_inflation = 0.5
breaker_factor = 9
[routing.retry]
max_attempts = 0
[[aliases]]
objective = "best"
[[aliases]]
name = "a/b/c"
weights = { latency = -1 }
allowed_models = ["a*b"]
synonyms = [""]
"#,
        expect![[r#"
            f:2:16: service.alias_prefix: is not a namespace; allowed: printable ASCII without spaces, slashes and stars
            f:4:13: routing.objective: 'cheap' is unknown, did you mean 'cheapest'?; allowed: "cheapest", "fastest", "reliable", "balanced"
            f:5:8: routing.seed: -1 is out of range; allowed: a whole number from 0 to 9223372036854775807
            f:6:15: routing.exploration: -0.5 is out of range; allowed: a number from 0 to 10
            f:7:12: routing.balanced: all weights are 0; allowed: weights of which at least one is above 0
            f:8:27: routing.alias_synonyms[1]: does not say which alias it stands for; allowed: names whose last part is auto, router or free
            f:10:26: routing.hedge.objectives[1]: 'quickest' is not an objective; allowed: cheapest, fastest, reliable, balanced
            f:11:10: routing.hedge.budget: 2 is out of range; allowed: a number from 0 to 1
            f:13:17: routing.expert.hot_inflation: 0.5 is out of range; allowed: a number from 1 to 1000
            f:14:18: routing.expert.breaker_factor: 9 is out of range; allowed: a number from 1 to 4
            f:16:16: routing.retry.max_attempts: 0 is out of range; allowed: a whole number from 1 to 10
            f:17:1: aliases[0].name: is missing; allowed: a name such as "cheap", or a full one such as "team/cheap"
            f:18:13: aliases[0].objective: 'best' is unknown; allowed: "cheapest", "fastest", "reliable", "balanced"
            f:20:8: aliases[1].name: is not a name; allowed: printable ASCII without spaces and stars, with at most one slash
            f:21:23: aliases[1].weights.latency: -1 is out of range; allowed: a number from 0 to 1000000
            f:22:19: aliases[1].allowed_models[0]: is not a pattern; allowed: a model id, or a prefix that ends in one '*' such as "acme/*"
            f:23:13: aliases[1].synonyms[0]: is not a name; allowed: 1 to 256 printable ASCII characters without spaces
        "#]],
    );
}

#[test]
fn simulated_providers_are_checked_like_real_ones() {
    check(
        r#"
[simulation]
mode = "always"
[simulation.providers."Big One"]
error_rate = 1.5
ttft = -1
tokens_per_second = 0
capacity = 0
base_url = "http://h"
"#,
        expect![[r#"
            f:2:8: simulation.mode: 'always' is unknown; allowed: "auto", "on", "off"
            f:3:23: simulation.providers.Big One: is not a provider's short name; allowed: 1 to 64 of: lower-case letters, digits, '-', '_', '.'
            f:4:14: simulation.providers.Big One.error_rate: 1.5 is out of range; allowed: a number from 0 to 1
            f:5:8: simulation.providers.Big One.ttft: got a whole number; allowed: a time with its unit from 0s to 10m, such as "15s"
            f:6:21: simulation.providers.Big One.tokens_per_second: 0 is out of range; allowed: a number from 0.1 to 1000000
            f:7:12: simulation.providers.Big One.capacity: 0 is out of range; allowed: a whole number from 1 to 1000000
            f:8:1: simulation.providers.Big One.base_url: unknown key; allowed: name, dialect, ttft, ttft_sigma, tokens_per_second, throughput_sigma, capacity, slowdown_power and 15 more
        "#]],
    );
}

#[test]
fn lists_and_tables_have_bounds() {
    let headers: String = (0..40).map(|n| format!("x-{n} = \"1\"\n")).collect();
    check(
        &format!("[providers.acme]\nbase_url = \"http://h\"\n[providers.acme.headers]\n{headers}"),
        expect![[r#"
            f:3:1: providers.acme.headers: has 40 entries; allowed: at most 32
        "#]],
    );
    let providers: String = (0..300).map(|n| format!("[providers.p{n}]\nbase_url = \"http://h\"\n")).collect();
    check(
        &providers,
        expect![[r#"
        f:1:2: providers: there are 300 providers, simulated ones included; allowed: at most 255
    "#]],
    );
    let names: Vec<String> = (0..120).map(|n| format!("\"parameter_{n}\"")).collect();
    let crowded = format!(
        "[providers.acme]\nbase_url = \"http://h\"\n[[models]]\nid = \"a/b\"\ncontext_length = 1\n\
         pricing = {{ prompt = \"0\", completion = \"0\" }}\nsupported_parameters = [{}]\n\
         endpoints = [{{ provider = \"acme\", upstream_model = \"b\" }}]",
        names.join(", ")
    );
    check(
        &crowded,
        expect![[r#"
        f:8:27: models[0].endpoints[0].provider: the models name more than 128 different parameters; allowed: fewer names in supported_parameters
    "#]],
    );
}

#[test]
fn a_built_in_alias_is_restricted_once_and_the_free_pool_never_widened() {
    let aliases = r#"
[[aliases]]
name = "free"
free_only = false
[[aliases]]
name = "auto"
[[aliases]]
name = "service/auto"
"#;
    check(
        &format!("{GOOD}{aliases}"),
        expect![[r#"
        f:11:13: aliases[0].free_only: would widen the built-in alias 'free'; allowed: true, or leave it out
        f:15:8: aliases[2].name: is used twice, here and by another alias; allowed: one entry for each built-in alias
    "#]],
    );
}

#[test]
fn embeddings_and_images_at_bedrock_need_a_known_name_and_safety_settings_their_words() {
    let provider = "[providers.cloud]\nbase_url = \"https://cloud.example\"\n";
    check(
        &format!(
            "{provider}dialect = \"converse\"\n[[models]]\nid = \"acme/v\"\ncontext_length = 1\noutput_modalities = \
             [\"embeddings\"]\nendpoints = [{{ provider = \"cloud\", upstream_model = \"arn:x\", pricing = \"unknown\" }}]"
        ),
        expect![[r#"
            f:8:27: models[0].endpoints[0].provider: makes no embeddings with a model that it calls 'arn:x'; allowed: at Amazon Bedrock a name with titan-embed, cohere.embed or amazon.nova
        "#]],
    );
    check(
        &format!(
            "{provider}dialect = \"converse\"\n[[models]]\nid = \"acme/p\"\ncontext_length = 1\noutput_modalities = \
             [\"image\"]\nendpoints = [{{ provider = \"cloud\", upstream_model = \"arn:x\", pricing = \"unknown\" }}]"
        ),
        expect![[r#"
            f:8:27: models[0].endpoints[0].provider: makes no images in the dialect 'converse' as 'arn:x'; allowed: at Amazon Bedrock a name with nova-canvas, titan-image or stability., or images_through_chat; else the dialect openai or gemini
        "#]],
    );
    check(
        &format!("{provider}safety_settings = {{ HARASSMENT = \"OFF\", HARM_CATEGORY_HARASSMENT = \"none\" }}"),
        expect![[r#"
            f:3:34: providers.cloud.safety_settings.HARASSMENT: is no category of harm; allowed: a name such as HARM_CATEGORY_HARASSMENT
            f:3:68: providers.cloud.safety_settings.HARM_CATEGORY_HARASSMENT: 'none' is no threshold; allowed: OFF, BLOCK_NONE, BLOCK_ONLY_HIGH, BLOCK_MEDIUM_AND_ABOVE, BLOCK_LOW_AND_ABOVE
        "#]],
    );
}

#[test]
fn signed_calls_need_a_region_and_forms_of_a_cloud_their_dialect() {
    let provider = |toml: &str| format!("[providers.cloud]\nbase_url = \"https://cloud.example\"\n{toml}");
    check(
        &provider("dialect = \"converse\"\nauth = \"sigv4\""),
        expect![[r#"
        f:1:12: providers.cloud.region: is needed to sign calls, and base_url names none; allowed: a region, such as "us-east-1"
    "#]],
    );
    check(
        &provider("routes = \"bedrock\""),
        expect![[r#"
        f:3:10: providers.cloud.routes: is no form of this dialect; allowed: beside it dialect = "anthropic" (bedrock, vertex) or "gemini" (vertex), or no routes
    "#]],
    );
}

#[test]
fn budgets_of_efforts_do_not_fall() {
    check(
        "[providers.acme]\nbase_url = \"http://h\"\n[providers.acme.effort_budgets]\nlow = 9000",
        expect![[r#"
            f:3:1: providers.acme.effort_budgets.medium: is 8192 tokens, less than the 9000 of the effort below it; allowed: budgets that do not fall
        "#]],
    );
}

#[test]
fn an_alias_of_explore_that_is_not_there_is_named_with_its_place_and_the_nearest_one() {
    check(
        &format!("[routing.explore]\nshare = 0.01\naliases = [\"router\", \"service/fere\"]\n{GOOD}"),
        expect![[r#"
            f:3:22: routing.explore.aliases[1]: 'service/fere' is no alias, did you mean 'service/free'?; allowed: service/free, service/auto
        "#]],
    );
    let model = format!("[routing.explore]\naliases = [\"acme/small\"]\n{GOOD}");
    assert!(faults(&model, &Environment::default()).contains("'acme/small' is no alias"), "a model is none");
}

#[test]
fn an_alias_of_explore_may_be_named_by_a_synonym() {
    let toml = format!("[routing.explore]\naliases = [\"router\"]\n{GOOD}");
    let loaded = Config::parse(&toml, "f", Path::new("/nowhere"), &Environment::default()).unwrap();
    assert_eq!(loaded.routing.explore.aliases, ["service/auto"]);
}
