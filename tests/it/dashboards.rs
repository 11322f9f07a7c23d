//! The alert rules and the dashboard in `deploy` name only metrics, labels and values that a running gateway shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    process::Command,
};

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use crate::{folder::Folder, metrics::full_gateway, scrape::Scrape};

const ALERTS: &str = include_str!("../../deploy/prometheus/alerts.yml");
const ALERT_TESTS: &str = include_str!("../../deploy/prometheus/alerts.test.yml");
const DASHBOARD: &str = include_str!("../../deploy/grafana/pointsman.json");
/// Labels that Prometheus itself adds, and that of histogram buckets.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// A metric in an expression: its name, and its matchers as label, operator, value.
#[derive(Debug, PartialEq)]
struct Selector {
    name: String,
    matchers: Vec<(String, String, String)>,
}

/// The metrics of an expression, and the labels that it groups by.
fn read(expression: &str) -> (Vec<Selector>, BTreeSet<String>) {
    let (mut selectors, mut groups) = (Vec::new(), BTreeSet::new());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_alphabetic()) {
        let (_, tail) = rest.split_at(start);
        let end = tail.find(|c| !is_word(c)).unwrap_or(tail.len());
        let (word, mut after) = tail.split_at(end);
        if word.starts_with("pointsman_") || word.starts_with("process_") {
            let mut matchers = Vec::new();
            if let Some(inside) = after.strip_prefix('{') {
                let (list, behind) = inside.split_once('}').unwrap_or_else(|| panic!("an open brace: {expression}"));
                matchers = list.split(", ").map(matcher).collect();
                after = behind;
            }
            selectors.push(Selector { name: word.to_owned(), matchers });
        } else if ["by", "ignoring", "on", "without"].contains(&word) {
            let inside = after.trim_start().strip_prefix('(').and_then(|list| list.split(')').next());
            let inside = inside.unwrap_or_else(|| panic!("no list after {word}: {expression}"));
            groups.extend(inside.split(',').map(|label| label.trim().to_owned()));
            after = after.split_once(')').unwrap().1;
        } else if let Some(duration) = after.strip_prefix('[') {
            after = duration.split_once(']').unwrap().1;
        }
        rest = after.strip_prefix(is_word).unwrap_or(after);
        if let Some(range) = rest.strip_prefix('[') {
            rest = range.split_once(']').unwrap_or_else(|| panic!("an open range: {expression}")).1;
        }
    }
    (selectors, groups)
}

fn matcher(text: &str) -> (String, String, String) {
    let at = text.find(['=', '!']).unwrap_or_else(|| panic!("no matcher: {text}"));
    let (label, rest) = text.split_at(at);
    let (operator, value) = rest.split_once('"').unwrap_or_else(|| panic!("no value: {text}"));
    (label.trim().to_owned(), operator.to_owned(), value.trim_end_matches('"').to_owned())
}

/// What an expression or one of its texts names and the gateway does not show.
fn unknown(scrape: &Scrape, expression: &str, texts: &[&str]) -> Vec<String> {
    let (selectors, mut groups) = read(expression);
    let mut wrong = Vec::new();
    if selectors.is_empty() {
        wrong.push(format!("no metric in {expression}"));
    }
    let mut labels: BTreeSet<&str> = ADDED.into();
    for selector in &selectors {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| selector.name.strip_suffix(end));
        let family = scrape.families.get(&selector.name).or_else(|| scrape.families.get(base?));
        let Some(family) = family else {
            wrong.push(format!("no metric {} in {expression}", selector.name));
            continue;
        };
        labels.extend(family.labels());
        for (label, operator, value) in &selector.matchers {
            if ADDED.contains(&label.as_str()) {
                continue;
            }
            let shown = family.values(label);
            let choices = value.split('|').filter(|value| !value.contains('$') && !value.is_empty());
            if !family.labels().contains(label.as_str()) {
                wrong.push(format!("{} has no label {label}: {expression}", selector.name));
                continue;
            }
            let gone = choices.filter(|value| !shown.contains(value));
            wrong.extend(gone.map(|value| format!("{}{{{label}{operator}\"{value}\"}} is never shown", selector.name)));
        }
    }
    for text in texts {
        let parts = text.split("{{").skip(1).filter_map(|part| part.split("}}").next());
        groups.extend(parts.map(|name| name.trim().trim_start_matches("$labels.").to_owned()));
    }
    wrong.extend(
        groups
            .iter()
            .filter(|label| !labels.contains(label.as_str()))
            .map(|label| format!("no label {label} in {expression} {texts:?}")),
    );
    wrong
}

fn text<'y>(yaml: &'y Yaml, key: &str) -> &'y str {
    yaml[key].as_str().unwrap_or_else(|| panic!("{key} is missing: {yaml:?}"))
}

#[actix_web::test]
async fn every_metric_label_and_value_of_the_alerts_and_the_dashboard_is_shown_by_a_gateway() {
    let folder = Folder::new();
    let (gateway, _upstreams) = full_gateway(&folder).await;
    let scrape = Scrape::of(&gateway).await;
    let mut wrong = Vec::new();

    let alerts = YamlLoader::load_from_str(ALERTS).unwrap();
    let rules = alerts[0]["groups"][0]["rules"].as_vec().unwrap();
    assert!(rules.len() >= 17, "{}", rules.len());
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = text(rule, "alert");
        assert!(names.insert(name), "{name} is there twice");
        assert!(["page", "ticket"].contains(&text(&rule["labels"], "severity")), "{name}");
        let texts = ["summary", "description"].map(|key| text(&rule["annotations"], key));
        wrong.extend(unknown(&scrape, text(rule, "expr"), &texts));
    }

    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert_eq!((&dashboard["uid"], &dashboard["title"]), (&"pointsman".into(), &"Pointsman".into()));
    let variables: BTreeMap<&str, &Value> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| (variable["name"].as_str().unwrap(), variable))
        .collect();
    for name in ["datasource", "job", "instance", "provider", "model", "key"] {
        assert!(variables.contains_key(name), "no variable {name}");
    }
    for variable in variables.values().filter(|variable| variable["type"] == "query") {
        let query = variable["definition"].as_str().unwrap();
        let inside = query.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
        let (expression, label) = inside.rsplit_once(", ").unwrap();
        wrong.extend(unknown(&scrape, expression, &[&format!("{{{{{label}}}}}")]));
    }
    let (mut ids, mut queries) = (BTreeSet::new(), 0);
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id is there twice: {panel}");
        if panel["type"] == "row" {
            continue;
        }
        let title = panel["title"].as_str().unwrap();
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title} has no description");
        assert!(panel["links"][0]["url"].as_str().is_some_and(|url| url.contains("${__from}")), "{title} has no link");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for target in panel["targets"].as_array().unwrap() {
            queries += 1;
            let (expression, legend) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
            let used = expression
                .split('$')
                .skip(1)
                .map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
            for name in used.filter(|name| !name.starts_with("__")) {
                assert!(variables.contains_key(name), "{title} uses the unknown variable {name}");
            }
            wrong.extend(unknown(&scrape, expression, &[legend]));
        }
    }
    assert!(queries > 40, "{queries}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_expression_is_read_with_its_metrics_matchers_and_groups() {
    let (selectors, groups) = read(
        "histogram_quantile(0.9, sum by (le, provider) (rate(pointsman_ttft_seconds_bucket{job=~\"$job\", model!=\"\"}[5m]))) > 5 \
         and ignoring (window) process_open_fds",
    );
    let names: Vec<&str> = selectors.iter().map(|selector| selector.name.as_str()).collect();
    assert_eq!(names, ["pointsman_ttft_seconds_bucket", "process_open_fds"]);
    let matchers: Vec<_> = selectors[0].matchers.iter().map(|(l, o, v)| (l.as_str(), o.as_str(), v.as_str())).collect();
    assert_eq!(matchers, [("job", "=~", "$job"), ("model", "!=", "")]);
    assert_eq!(groups, ["le", "provider", "window"].map(str::to_owned).into());
}

#[actix_web::test]
async fn a_wrong_name_label_or_value_would_be_found() {
    let folder = Folder::new();
    let (gateway, _upstreams) = full_gateway(&folder).await;
    let scrape = Scrape::of(&gateway).await;
    for expression in [
        "rate(pointsman_no_such_total[5m])",
        "pointsman_generations_total{outcome=\"ok\"}",
        "pointsman_generations_total{result=\"lost\"}",
        "sum by (model) (pointsman_generations_total)",
    ] {
        assert_eq!(unknown(&scrape, expression, &[]).len(), 1, "{expression}");
    }
    assert_eq!(unknown(&scrape, "pointsman_generations_total", &["{{provider}}"]).len(), 1);
}

/// Where Prometheus' own tool is not installed, only that each alert has both cases is tested.
#[actix_web::test]
async fn each_alert_fires_on_one_series_of_a_gateway_and_stays_silent_on_another() {
    let folder = Folder::new();
    let (gateway, _upstreams) = full_gateway(&folder).await;
    let scrape = Scrape::of(&gateway).await;
    let alerts = YamlLoader::load_from_str(ALERTS).unwrap();
    let rules = alerts[0]["groups"][0]["rules"].as_vec().unwrap();
    let mut cases: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    let tests = YamlLoader::load_from_str(ALERT_TESTS).unwrap();
    for case in tests[0]["tests"].as_vec().unwrap() {
        for series in case["input_series"].as_vec().unwrap() {
            let wrong = unknown(&scrape, text(series, "series"), &[]);
            // Values of labels are examples; the names are those of the gateway.
            let wrong: Vec<_> = wrong.iter().filter(|wrong| !wrong.ends_with("is never shown")).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
        }
        for expected in case["alert_rule_test"].as_vec().unwrap() {
            let fires = !expected["exp_alerts"].as_vec().unwrap().is_empty();
            cases.entry(text(expected, "alertname")).or_default().insert(fires);
        }
    }
    for rule in rules {
        let name = text(rule, "alert");
        assert_eq!(cases.get(name), Some(&BTreeSet::from([false, true])), "{name}");
    }
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");
    match Command::new("promtool").args(["test", "rules", "alerts.test.yml"]).current_dir(directory).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        output => {
            let output = output.unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        }
    }
}
