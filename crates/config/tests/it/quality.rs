//! Scores of models, the least quality that is asked for, and what `check` says of both.

use std::path::Path;

use expect_test::{Expect, expect};
use pointsman_config::{Config, Environment, quality_warnings};
use pointsman_domain::{QualityFloor, Task, UnknownQuality};

const PROVIDER: &str = "[providers.acme]\nbase_url = \"http://h\"\n";

fn read(toml: &str) -> Result<Config, String> {
    let config = Config::parse(toml.trim_start(), "f", Path::new("/nowhere"), &Environment::default());
    config.map_err(|faults| crate::lines(&faults))
}

/// A model with these keys, and its endpoint with those.
fn model(id: &str, keys: &str, of_endpoint: &str) -> String {
    format!(
        "[[models]]\nid = \"{id}\"\ncontext_length = 9\npricing = {{ prompt = \"0\", completion = \"0\" }}\n{keys}\n\
         [[models.endpoints]]\nprovider = \"acme\"\nupstream_model = \"a\"\n{of_endpoint}\n"
    )
}

#[track_caller]
fn check(toml: &str, expected: Expect) {
    expected.assert_eq(&read(toml).map_or_else(|faults| faults, |_| "good\n".to_owned()));
}

#[track_caller]
fn warned(models: &str, more: &str, today: &str, expected: Expect) {
    let config = read(&format!("{PROVIDER}{models}{more}")).unwrap();
    let routing = &config.routing;
    let warnings =
        quality_warnings(&config.catalog(1), &routing.policy, routing.objective, today.parse().expect("a date"));
    expected.assert_eq(&warnings.iter().map(|warning| format!("{warning}\n")).collect::<String>());
}

#[test]
fn scores_have_a_source_and_a_date_and_an_endpoint_replaces_those_of_its_model() {
    let of_model = "quality = { source = \"own-eval\", date = 2026-11-02, licence = \"own\", code = { score = 0.71, n = 225 }, \
                    tools = { score = 0.83, n = 1000, source = \"board\", date = 2026-10-01 } }";
    let of_endpoint = "quality = { source = \"own-eval\", date = 2026-11-03, code = { score = 0.6, n = 50 } }";
    let config = read(&format!("{PROVIDER}{}", model("acme/small", of_model, of_endpoint))).unwrap();
    let catalog = config.catalog(1);
    let endpoint = &catalog.endpoints[0];
    let told = |task| catalog.quality_score(endpoint, task).map(ToString::to_string);
    assert_eq!(told(Task::Code).as_deref(), Some("own-eval, 2026-11-03, n 50"));
    assert_eq!(told(Task::Tools).as_deref(), Some("board, 2026-10-01, n 1000"));
    assert_eq!(told(Task::General), None, "no score is unknown");
    assert_eq!(catalog.models[0].quality.get(Task::Code).unwrap().licence.as_deref(), Some("own"));
}

#[test]
fn a_score_without_source_date_or_number_is_a_fault_with_its_place() {
    let at = |keys: &str| format!("{PROVIDER}{}", model("acme/small", keys, ""));
    check(
        &at("quality = { code = { score = 0.7, n = 9 } }"),
        expect![[r#"
        "#]],
    );
    check(
        &at(
            "[models.quality]\nsource = \"\"\ndate = \"soon\"\ncode = { score = 1.5, n = 0 }\nmath = { score = 0.5 }\nchess = {}",
        ),
        expect![[r#"
        "#]],
    );
    check(
        &at("quality = { source = \"own\", date = 2026-11-02 }"),
        expect![[r#"
        "#]],
    );
}

#[test]
fn a_least_quality_is_a_number_or_a_lower_tenth() {
    let config = read(
        "[[aliases]]\nname = \"good\"\nmin_quality = 0.7\nquality_unknown = \"allow\"\n[[aliases]]\nname = \"sure\"\n\
         min_quality = { p10 = 0.6 }\nweights = { quality = 2 }",
    )
    .unwrap();
    let catalog = config.catalog(1);
    let of = |id: &str| catalog.aliases.iter().find(|alias| alias.id == id).unwrap();
    let good = of("service/good");
    assert_eq!((good.min_quality, good.quality_unknown), (Some(QualityFloor::Mean(0.7)), Some(UnknownQuality::Allow)));
    let sure = of("service/sure");
    assert_eq!(sure.min_quality, Some(QualityFloor::Tenth(0.6)));
    assert_eq!(sure.weights.map(|weights| (weights.latency, weights.quality)), Some((0.5, 2.0)));
    check(
        r#"
[[aliases]]
name = "a"
min_quality = 1.2
quality_unknown = "maybe"
[[aliases]]
name = "b"
min_quality = { p50 = 0.7 }
[[aliases]]
name = "c"
min_quality = "good"
weights = { quality = -1 }
"#,
        expect![[r#"
        "#]],
    );
}

#[test]
fn check_names_old_scores_mixed_sources_and_models_without_a_score() {
    let scored = |id: &str, source: &str, date: &str| {
        let keys = format!("quality = {{ source = \"{source}\", date = {date}, code = {{ score = 0.7, n = 9 }} }}");
        model(id, &keys, "")
    };
    let models = [
        scored("acme/old", "own-eval", "2026-03-02"),
        scored("acme/new", "board", "2026-11-02"),
        model("acme/plain", "", ""),
    ]
    .concat();
    let alias = "[[aliases]]\nname = \"coder\"\ntask = \"code\"\nmin_quality = 0.5\n";
    warned(
        &models,
        alias,
        "2026-11-28",
        expect![[r#"
        "#]],
    );
    warned(&scored("acme/one", "own-eval", "2026-03-02"), "", "2026-08-29", expect![""]);
    warned(
        &models,
        "[routing.balanced]\nquality = 0.2\n[[aliases]]\nname = \"some\"\nallowed_models = [\"acme/new\"]\n",
        "2026-06-01",
        expect![[r#"
        "#]],
    );
}
