//! Calibration as gauges, computed when `/metrics` is read, so that requests need not count it.
//!
//! Labels: provider, model, variant and the predicted quantity. Only endpoints with samples in the last hour are shown.

use std::time::Duration;

use pointsman_domain::Catalog;
use pointsman_routing::stats::{Accuracy, Calibration, Calibrations, FailureAccuracy};
use prometheus::proto::MetricFamily;

use super::calibration;
use crate::{
    base::events::{Families, labels},
    state::gateway::Worker,
};

/// Calibrations up to this old are reused, so that frequent scrapes stay cheap.
const MAX_AGE: Duration = Duration::from_secs(1);

const ENDPOINT: [&str; 3] = ["provider", "model", "variant"];
const PREDICTION: [&str; 4] = ["provider", "model", "variant", "of"];

/// The current gauges; none if the statistics actor does not answer.
pub(crate) async fn read(worker: &Worker) -> Vec<MetricFamily> {
    let calibrations = calibration::read(worker, MAX_AGE).await;
    calibrations.map(|calibrations| families(&worker.setup.catalog, &calibrations)).unwrap_or_default()
}

fn families(catalog: &Catalog, calibrations: &Calibrations) -> Vec<MetricFamily> {
    let endpoints = catalog.endpoints.iter().zip(&calibrations.endpoints).map(|(endpoint, known)| {
        let [provider, model] = labels(catalog, endpoint);
        ([provider, model, &endpoint.variant], &known.calibration)
    });
    let endpoints: Vec<([&str; 3], &Calibration)> = endpoints.collect();
    Families::of(|families| {
        let mut predicted = |name: &str, help: &str, of: fn(&Accuracy) -> Option<f64>| {
            let rows = endpoints.iter().flat_map(|(endpoint, known)| predictions(*endpoint, known));
            let rows = rows.filter_map(|(labels, accuracy)| Some((labels, of(accuracy)?)));
            families.gauges(name, &format!("{help}, over the last hour"), PREDICTION, rows);
        };
        predicted("prediction_samples", "Predictions compared with outcomes", |it| Some(it.samples as f64));
        predicted("prediction_error", "Median |ln(actual / predicted median)|", |it| it.median_error);
        predicted("prediction_bias", "Median ln(actual / predicted median)", |it| it.bias);
        predicted("prediction_within_p95", "Share within the predicted 95th percentile", |it| it.within_p95);
        let mut failures = |name: &str, help: &str, of: fn(&FailureAccuracy, f64) -> f64| {
            let rows = endpoints.iter().filter_map(|(endpoint, Calibration { failures, .. })| {
                Some((*endpoint, of(failures, failures.brier?)))
            });
            families.gauges(name, &format!("{help}, over the last hour"), ENDPOINT, rows);
        };
        failures("prediction_failures_expected", "Sum of predicted failure probabilities", |it, _| it.expected);
        failures("prediction_failures_seen", "Failures observed in the same attempts", |it, _| it.seen as f64);
        failures("prediction_failure_brier", "Brier score of predicted failure probabilities", |_, brier| brier);
    })
}

/// What was predicted of an endpoint and happened, with the labels of its series.
fn predictions<'c>(
    [provider, model, variant]: [&'c str; 3],
    Calibration { first_token, total, output_tokens, cost, .. }: &'c Calibration,
) -> impl Iterator<Item = ([&'c str; 4], &'c Accuracy)> {
    let kinds = [("ttft", first_token), ("total", total), ("output_tokens", output_tokens), ("cost", &cost.error)];
    let known = kinds.into_iter().filter(|(_, accuracy)| accuracy.samples > 0);
    known.map(move |(of, accuracy)| ([provider, model, variant, of], accuracy))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use pointsman_routing::stats::EndpointCalibration;
    use prometheus::{Encoder as _, TextEncoder};

    use super::*;
    use crate::api::samples::catalog;

    #[test]
    fn gauges_name_the_endpoint_and_the_prediction_and_omit_predictions_without_samples() {
        let catalog = catalog();
        let calibration = Calibration {
            first_token: Accuracy { samples: 3, median_error: Some(0.2), bias: Some(-0.1), within_p95: Some(1.0) },
            output_tokens: Accuracy { samples: 2, median_error: Some(0.5), bias: Some(0.5), within_p95: None },
            failures: FailureAccuracy { attempts: 4, expected: 0.5, seen: 1, brier: Some(0.125) },
            ..Calibration::default()
        };
        let endpoints = vec![EndpointCalibration { endpoint: catalog.endpoints[0].id, calibration }];
        let all = Calibrations { endpoints, ..Calibrations::default() };
        let mut text = Vec::new();
        TextEncoder::new().encode(&families(&catalog, &all), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        expect![[r#"
            pointsman_prediction_bias{model="acme/small",of="output_tokens",provider="acme",variant=""} 0.5
            pointsman_prediction_bias{model="acme/small",of="ttft",provider="acme",variant=""} -0.1
            pointsman_prediction_error{model="acme/small",of="output_tokens",provider="acme",variant=""} 0.5
            pointsman_prediction_error{model="acme/small",of="ttft",provider="acme",variant=""} 0.2
            pointsman_prediction_failure_brier{model="acme/small",provider="acme",variant=""} 0.125
            pointsman_prediction_failures_expected{model="acme/small",provider="acme",variant=""} 0.5
            pointsman_prediction_failures_seen{model="acme/small",provider="acme",variant=""} 1
            pointsman_prediction_samples{model="acme/small",of="output_tokens",provider="acme",variant=""} 2
            pointsman_prediction_samples{model="acme/small",of="ttft",provider="acme",variant=""} 3
            pointsman_prediction_within_p95{model="acme/small",of="ttft",provider="acme",variant=""} 1"#]]
        .assert_eq(&lines.join("\n"));
    }
}
