//! Scores of models, the least quality that is asked for, and what `check` says of both.

use std::path::Path;

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

/// What `check` says of these models on a day, sorted.
fn warned(models: &str, more: &str, today: &str) -> Vec<String> {
    let config = read(&format!("{PROVIDER}{models}{more}")).unwrap();
    let routing = &config.routing;
    let today = today.parse().expect("a date");
    let mut warnings = quality_warnings(&config.catalog(1), &routing.policy, routing.objective, today);
    warnings.sort_unstable();
    warnings
}

/// Fails unless reading gives these faults, each known by its place and a part of its text.
#[track_caller]
fn refused(toml: &str, expected: &[&str]) {
    let faults = read(toml).unwrap_err();
    for part in expected {
        assert!(faults.lines().any(|fault| fault.starts_with("f:") && fault.contains(part)), "{part}:\n{faults}");
    }
    assert_eq!(faults.lines().count(), expected.len(), "{faults}");
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
    refused(
        &at("quality = { code = { score = 0.7, n = 9 } }"),
        &[
            ":7:20: models[0].quality.code.source: is missing, here and at 'quality'",
            ":7:20: models[0].quality.code.date: is missing, here and at 'quality'",
        ],
    );
    refused(
        &at(
            "[models.quality]\nsource = \"\"\ndate = \"soon\"\ncode = { score = 1.5, n = 0 }\nmath = { score = 0.5 }\nchess = {}",
        ),
        &[
            ":8:10: models[0].quality.source: is empty",
            ":9:8: models[0].quality.date: is not a day",
            "models[0].quality.code.score: 1.5 is out of range",
            "models[0].quality.code.n: 0 is out of range",
            "models[0].quality.math.n: is missing",
            "models[0].quality.chess: unknown key",
        ],
    );
    refused(
        &at("quality = { source = \"own\", date = 2026-11-02 }"),
        &["models[0].quality.general: is missing, and so is every other class"],
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
    refused(
        "[[aliases]]\nname = \"a\"\nmin_quality = 1.2\nquality_unknown = \"maybe\"\n[[aliases]]\nname = \"b\"\n\
         min_quality = { p50 = 0.7 }\n[[aliases]]\nname = \"c\"\nmin_quality = \"good\"\nweights = { quality = -1 }",
        &[
            ":3:15: aliases[0].min_quality: 1.2 is out of range",
            ":4:19: aliases[0].quality_unknown: 'maybe' is unknown",
            "aliases[1].min_quality.p10: is missing",
            "aliases[1].min_quality.p50: unknown key",
            "aliases[2].min_quality: is not a quality",
            "aliases[2].weights.quality: -1 is out of range",
        ],
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
    assert_eq!(
        warned(&models, alias, "2026-11-28"),
        [
            "alias 'service/coder' uses quality, and there is no score for code of: acme/plain; it excludes them as \
             quality_unknown",
            "scores for code come from several sources, which are not comparable: 'board', 'own-eval'; use one source for \
             each class",
            "scores of 'own-eval' for code are older than 180 days (since 2026-03-02): acme/old; measure them again, or \
             leave them out",
        ]
    );
    let alone = scored("acme/one", "own-eval", "2026-03-02");
    assert!(warned(&alone, "", "2026-08-29").is_empty(), "180 days are not older than 180 days");
    assert_eq!(warned(&alone, "", "2026-08-30").len(), 1);
    let weighted = "[routing.balanced]\nquality = 0.2\n[[aliases]]\nname = \"new\"\nallowed_models = [\"acme/new\"]\n";
    let said = warned(&models, weighted, "2026-06-01");
    let lowest = "uses quality, and there is no score of: acme/plain; they count with the lowest known quality";
    assert_eq!(said.iter().filter(|warning| warning.ends_with(lowest)).count(), 2, "{said:#?}");
    assert!(!said.iter().any(|warning| warning.contains("service/new")), "its models have scores: {said:#?}");
}

#[test]
fn check_names_a_cascade_whose_second_model_is_not_good_enough_for_the_alias() {
    let scored = |id: &str, score: f64| {
        let keys =
            format!("quality = {{ source = \"own-eval\", date = 2026-11-02, code = {{ score = {score}, n = 9 }} }}");
        model(id, &keys, "")
    };
    let models = [scored("acme/small", 0.9), scored("acme/large", 0.7)].concat();
    let coder = |keys: &str| {
        let alias = "[[aliases]]\nname = \"coder\"\ntask = \"code\"\nallowed_models = [\"acme/small\"]\n";
        warned(&models, &format!("{alias}{keys}"), "2026-11-28")
    };
    let to = |name: &str| format!("cascade = {{ to = \"{name}\" }}\n");
    assert_eq!(
        coder(&format!("min_quality = 0.8\n{}", to("acme/large"))),
        [
            "alias 'service/coder': its cascade is in vain, for by their scores min_quality (0.8) excludes every model of \
             'acme/large' for code; lower it, or name another model"
        ]
    );
    assert!(coder(&format!("min_quality = 0.7\n{}", to("acme/large"))).is_empty());
    assert!(coder(&to("acme/large")).is_empty());
    let second = |least: f64| {
        let alias = "[[aliases]]\nname = \"second\"\nallowed_models = [\"acme/large\"]\n";
        coder(&format!("min_quality = 0.8\n{}{alias}min_quality = {least}\n", to("service/second")))
    };
    assert!(second(0.6).is_empty(), "what the second alias says goes before that of the first");
    assert_eq!(second(0.75).len(), 1);
}
