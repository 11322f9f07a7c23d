//! Records in the schema of Every Eval Ever: one model each, with results of evaluations whose names say nothing about a class.

use chrono::{DateTime, NaiveDate};
use serde_json::Value;

use super::scores::{Given, Scored, rounded};

/// The results of the evaluation that is asked for. A file is one record, an array of them, or one a line.
pub(super) fn read(text: &str, given: &Given<'_>) -> Result<Vec<Scored>, String> {
    let task = given.class.ok_or("says nothing about classes of tasks: --class is missing")?;
    let (mut scored, mut evaluation) = (Vec::new(), given.evaluation);
    let records = records(text)?;
    for record in &records {
        let model = text_at(record, "/model_info/id").ok_or("has a record without model_info.id")?;
        let results = record.get("evaluation_results").and_then(Value::as_array).into_iter().flatten();
        for result in results {
            let name = text_at(result, "/evaluation_name").unwrap_or_default();
            if given.evaluation.is_some_and(|wanted| wanted != name) {
                continue;
            }
            let wanted = *evaluation.get_or_insert(name);
            if wanted != name {
                return Err(format!("has the evaluations '{wanted}' and '{name}': --evaluation says which one counts"));
            }
            let (score, count) =
                score(result, given.n).map_err(|what| format!("the result {name} of {model}: {what}"))?;
            let date = [result, record].into_iter().find_map(|one| date(text_at(one, "/evaluation_timestamp")?));
            scored.push(Scored { model: model.to_owned(), task, score, count, date });
        }
    }
    // The latest run of a model counts.
    scored.sort_by_key(|one| one.date);
    Ok(scored)
}

fn records(text: &str) -> Result<Vec<Value>, String> {
    let mut records = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.map_err(|why| format!("is no JSON: {why}"))? {
            Value::Array(several) => records.extend(several),
            one => records.push(one),
        }
    }
    Ok(records)
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}

/// The share of good answers, and of how many.
fn score(result: &Value, n: Option<u32>) -> Result<(f64, u32), String> {
    let at = |pointer: &str| result.pointer(pointer);
    let number = |pointer: &str| at(pointer).and_then(Value::as_f64);
    let least = number("/metric_config/min_score").unwrap_or(0.0);
    let most = number("/metric_config/max_score").unwrap_or(1.0);
    let is_less_better = at("/metric_config/lower_is_better").and_then(Value::as_bool) == Some(true);
    let is_level = text_at(result, "/metric_config/score_type") == Some("levels");
    if is_less_better || is_level || least != 0.0 {
        return Err("is no share of good answers: it needs a scale from 0 on, without levels, of which more is better"
            .to_owned());
    }
    let score = number("/score_details/score").ok_or("'score_details.score' is no number")?;
    if !(most > 0.0 && (0.0..=most).contains(&score)) {
        return Err(format!("the score {score} is not within 0 to {most}"));
    }
    let missing = "neither score_details.uncertainty.num_samples nor sample_ids, and --n is missing";
    Ok((rounded(score / most), judged(result).or(n).ok_or(missing)?))
}

/// Answers behind a score. `samples_number` is the size of the whole data set, which a run need not have used.
fn judged(result: &Value) -> Option<u32> {
    let counted = result.pointer("/score_details/uncertainty/num_samples").and_then(Value::as_u64);
    let listed = || Some(result.pointer("/source_data/sample_ids")?.as_array()?.len() as u64);
    u32::try_from(counted.or_else(listed)?).ok().filter(|count| *count > 0)
}

/// The day of a time in seconds since 1970, or in RFC 3339.
fn date(time: &str) -> Option<NaiveDate> {
    match time.parse::<f64>() {
        Ok(seconds) => Some(DateTime::from_timestamp(seconds as i64, 0)?.date_naive()),
        Err(_) => time.get(..10)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use pointsman_domain::Task;
    use serde_json::json;

    use super::*;

    fn shown(text: &str, evaluation: Option<&str>, n: Option<u32>) -> String {
        let show = |one: &Scored| {
            let date = one.date.map_or(String::new(), |date| format!(" {date}"));
            format!("{} {} {} n{}{date}", one.model, one.task.as_str(), one.score, one.count)
        };
        let given = Given { n, class: Some(Task::Math), evaluation };
        read(text, &given).map_or_else(|why| why, |all| all.iter().map(show).collect::<Vec<_>>().join(" | "))
    }

    fn record(model: &str, results: &[Value]) -> Value {
        json!({"model_info": {"id": model}, "evaluation_timestamp": "1761000045.0", "evaluation_results": results})
    }

    fn result(name: &str, details: &Value) -> Value {
        let metric =
            json!({"lower_is_better": false, "score_type": "continuous", "min_score": 0.0, "max_score": 100.0});
        let source = json!({"samples_number": 9000, "sample_ids": [1, 2, 3]});
        json!({"evaluation_name": name, "source_data": source, "metric_config": metric, "score_details": details})
    }

    #[test]
    fn records_are_read_as_one_several_or_a_line_each_and_the_latest_run_comes_last() {
        let sums = |score: f64| result("sums", &json!({"score": score, "uncertainty": {"num_samples": 200}}));
        let mut old = record("acme/one", &[sums(50.0)]);
        old["evaluation_timestamp"] = json!("2025-01-02T03:04:05Z");
        let new = record("acme/one", &[sums(71.3)]);
        let expected = "acme/one math 0.5 n200 2025-01-02 | acme/one math 0.713 n200 2025-10-20";
        assert_eq!(shown(&format!("{new}\n{old}\n"), None, None), expected);
        assert_eq!(shown(&json!([new, old]).to_string(), None, None), expected);
        let few = record("acme/one", &[result("sums", &json!({"score": 50}))]);
        assert_eq!(
            shown(&few.to_string(), None, Some(9)),
            "acme/one math 0.5 n3 2025-10-20",
            "three of 9,000 were run"
        );
    }

    #[test]
    fn of_several_evaluations_one_is_asked_for_and_what_is_no_share_of_good_answers_is_refused() {
        let score = json!({"score": 50});
        let two = record("acme/one", &[result("sums", &score), result("proofs", &json!({"score": 25}))]).to_string();
        assert!(shown(&two, None, None).contains("'sums' and 'proofs': --evaluation"), "{}", shown(&two, None, None));
        assert_eq!(shown(&two, Some("proofs"), None), "acme/one math 0.25 n3 2025-10-20");
        let with = |pointer: &str, value: Value| {
            let mut changed = result("sums", &score);
            *changed.pointer_mut(pointer).unwrap() = value;
            shown(&record("acme/one", &[changed]).to_string(), None, None)
        };
        let changes = [("lower_is_better", json!(true)), ("score_type", json!("levels")), ("min_score", json!(1))];
        for (key, value) in changes {
            assert!(with(&format!("/metric_config/{key}"), value).contains("is no share of good answers"), "{key}");
        }
        assert!(with("/score_details/score", json!(171)).contains("not within 0 to 100"));
        assert!(with("/score_details/score", json!(null)).contains("no number"));
        assert!(with("/source_data/sample_ids", json!([])).contains("--n is missing"));
        assert!(shown("{", None, None).starts_with("is no JSON") && shown("{}", None, None).contains("model_info.id"));
        assert!(read("{}", &Given::default()).is_err_and(|why| why.contains("--class")));
    }
}
