//! Whatever stands in the file or in the environment, reading it ends in a configuration or in faults.

use std::path::Path;

use pointsman_config::{BUILT_IN, Config, Environment};
use proptest::prelude::*;

fn survive(text: &str, environment: &Environment) {
    if let Err(faults) = Config::parse(text, "f", Path::new("/nowhere"), environment) {
        assert!(!faults.is_empty());
        for fault in faults {
            assert!(!fault.key.is_empty() && !fault.wrong.is_empty() && !fault.allowed.is_empty(), "{fault:?}");
        }
    }
}

/// Lines that reach deep into the reading.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "bind",
        "max_n",
        "total",
        "mode",
        "name",
        "id",
        "base_url",
        "api_key_env",
        "sha256",
        "provider",
        "upstream_model",
        "pricing",
        "prompt",
        "endpoints",
        "objectives",
        "balanced",
        "scopes",
        "created",
        "headers",
        "context_length",
        "supported_parameters",
        "allowed_models",
        "expires_at",
        "ttft",
        "synonyms",
        "output_modalities",
    ]);
    let value = prop_oneof![
        "-?[0-9]{1,25}",
        "-?[0-9]{1,5}\\.[0-9]{1,20}",
        "\"[ -~]{0,40}\"",
        "\"[a-z]{1,6}/[a-z*]{1,6}\"",
        "\\[(\"[a-z*/]{0,8}\"(, )?){0,4}\\]",
        "\\{ ?[a-z_]{1,9} = (\"[0-9.eE+-]{0,12}\"|[0-9]{1,4}) ?\\}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:]{8}Z)?",
        Just("true".to_owned()),
        Just("nan".to_owned()),
        Just("inf".to_owned()),
    ];
    let header = prop::sample::select(vec![
        "[server]",
        "[auth]",
        "[[keys]]",
        "[limits]",
        "[timeouts]",
        "[routing]",
        "[routing.hedge]",
        "[[aliases]]",
        "[simulation]",
        "[simulation.providers.a]",
        "[providers.a]",
        "[providers.b]",
        "[[models]]",
        "[[models.endpoints]]",
        "[models.pricing]",
        "[images]",
        "[cors]",
    ]);
    prop_oneof![
        1 => header.prop_map(str::to_owned),
        3 => (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survive(&String::from_utf8_lossy(&bytes), &Environment::default());
    }

    #[test]
    fn arbitrary_lines_of_keys_and_values_never_panic(lines in prop::collection::vec(line(), 0..40)) {
        survive(&lines.join("\n"), &Environment::default());
    }

    #[test]
    fn arbitrary_variables_never_panic(
        variables in prop::collection::vec(
            ("POINTSMAN__(SERVER|LIMITS|KEYS|PROVIDERS|MODELS|ROUTING|SIMULATION)(__[A-Z_]{0,12}){0,3}", ".{0,60}"),
            0..6,
        ),
    ) {
        survive("[providers.a]\nbase_url = 'http://h'", &variables.into_iter().collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(ProptestConfig::default().cases / 4) })]

    #[test]
    fn the_shipped_file_with_a_piece_torn_out_never_panics(start in 0_usize..60_000, length in 0_usize..3_000, put in ".{0,20}") {
        let letters: Vec<char> = BUILT_IN.chars().collect();
        let start = start % letters.len();
        let rest = &letters[(start + length).min(letters.len())..];
        let torn: String = letters[..start].iter().copied().chain(put.chars()).chain(rest.iter().copied()).collect();
        survive(&torn, &Environment::default());
    }
}

#[test]
fn deep_nesting_is_a_fault() {
    survive(&format!("a = {}", "[".repeat(50_000)), &Environment::default());
    survive(&format!("{} = 1", "a.".repeat(50_000)), &Environment::default());
    survive(&format!("[{}a]", "a.".repeat(50_000)), &Environment::default());
    survive(&format!("a = {}1{}", "[".repeat(60), "]".repeat(60)), &Environment::default());
}
