//! Calibration as gauges, computed when `/metrics` is read, so that requests need not count it.
//!
//! Labels: provider, model, variant and the predicted quantity. Only endpoints with samples in the last hour are shown.

use std::time::Duration;

use pointsman_domain::Catalog;
use pointsman_routing::stats::{Accuracy, Calibration, Calibrations};
use prometheus::{Error, GaugeVec, Opts, Registry, proto::MetricFamily};

use super::calibration;
use crate::{
    base::events::{self, PREFIX},
    state::gateway::Worker,
};

/// Calibrations up to this old are reused, so that frequent scrapes stay cheap.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The current gauges; none if the statistics actor does not answer.
pub(crate) async fn read(worker: &Worker) -> Vec<MetricFamily> {
    let Ok(calibrations) = calibration::read(worker, MAX_AGE).await else { return Vec::new() };
    families(&worker.setup.catalog, &calibrations).unwrap_or_default()
}

fn families(catalog: &Catalog, calibrations: &Calibrations) -> Result<Vec<MetricFamily>, Error> {
    let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
    let gauges = Gauges::new(&registry)?;
    for (endpoint, known) in catalog.endpoints.iter().zip(&calibrations.endpoints) {
        let [provider, model] = events::labels(catalog, endpoint);
        gauges.show([provider, model, &endpoint.variant], &known.calibration);
    }
    Ok(registry.gather())
}

struct Gauges {
    samples: GaugeVec,
    error: GaugeVec,
    bias: GaugeVec,
    within_p95: GaugeVec,
    expected: GaugeVec,
    seen: GaugeVec,
    brier: GaugeVec,
}

impl Gauges {
    fn new(registry: &Registry) -> Result<Gauges, Error> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = GaugeVec::new(Opts::new(name, format!("{help}, over the last hour")), labels)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let prediction = ["provider", "model", "variant", "of"];
        let endpoint = ["provider", "model", "variant"];
        Ok(Gauges {
            samples: gauge("prediction_samples", "Predictions compared with outcomes", &prediction)?,
            error: gauge("prediction_error", "Median |ln(actual / predicted median)|", &prediction)?,
            bias: gauge("prediction_bias", "Median ln(actual / predicted median)", &prediction)?,
            within_p95: gauge("prediction_within_p95", "Share within the predicted 95th percentile", &prediction)?,
            expected: gauge("prediction_failures_expected", "Sum of predicted failure probabilities", &endpoint)?,
            seen: gauge("prediction_failures_seen", "Failures observed in the same attempts", &endpoint)?,
            brier: gauge("prediction_failure_brier", "Brier score of predicted failure probabilities", &endpoint)?,
        })
    }

    fn show(&self, [provider, model, variant]: [&str; 3], calibration: &Calibration) {
        let Calibration { first_token, total, output_tokens, cost, failures, .. } = calibration;
        let kinds = [("ttft", first_token), ("total", total), ("output_tokens", output_tokens), ("cost", &cost.error)];
        for (of, accuracy) in kinds.into_iter().filter(|(_, accuracy)| accuracy.samples > 0) {
            self.show_accuracy([provider, model, variant, of], accuracy);
        }
        if let Some(brier) = failures.brier {
            let labels = [provider, model, variant];
            self.expected.with_label_values(&labels).set(failures.expected);
            self.seen.with_label_values(&labels).set(failures.seen as f64);
            self.brier.with_label_values(&labels).set(brier);
        }
    }

    fn show_accuracy(&self, labels: [&str; 4], accuracy: &Accuracy) {
        let Accuracy { samples, median_error, bias, within_p95 } = *accuracy;
        let known = [(&self.error, median_error), (&self.bias, bias), (&self.within_p95, within_p95)];
        for (gauge, value) in [(&self.samples, Some(samples as f64))].into_iter().chain(known) {
            if let Some(value) = value {
                gauge.with_label_values(&labels).set(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use pointsman_routing::stats::{EndpointCalibration, FailureAccuracy};
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
        TextEncoder::new().encode(&families(&catalog, &all).unwrap(), &mut text).unwrap();
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
