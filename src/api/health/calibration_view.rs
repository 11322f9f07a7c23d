//! JSON of calibration.
//!
//! Units: `median_error` and `bias` are natural logarithms of actual over predicted median (0.1: about ten percent more
//! than predicted, 0.69: twice as much), `within_p95` and `brier` lie between 0 and 1, `expected` and `seen` count
//! failures, all others are dollars or counts. `null` without samples.

use pointsman_domain::{Catalog, Endpoint};
use pointsman_routing::stats::{
    Accuracy, Calibration, Calibrations, CostAccuracy, EndpointCalibration, FailureAccuracy,
};
use serde::Serialize;

use crate::api::number::Figure;

view! {
    /// Predictions of attempts compared with what then happened. It changes no prediction and no choice.
    pub(crate) struct CalibrationsBody<'a> {
        /// The page for the enabled endpoints and providers.
        pub(crate) fn new(catalog: &'a Catalog, calibrations: &Calibrations) {
            let providers = catalog.providers.iter().enumerate().filter(|(_, provider)| provider.is_on());
            let providers = providers.map(|(position, provider)| ProviderBody {
                slug: provider.slug.as_str(),
                name: &provider.name,
                calibration: CalibrationBody::new(calibrations.providers.get(position).unwrap_or(&Calibration::default())),
            });
            let endpoints = catalog.endpoints.iter().enumerate().filter_map(|(position, endpoint)| {
                EndpointBody::new(catalog, endpoint, calibrations.endpoints.get(position))
            });
        }

        /// Length in seconds of the window that all figures are taken over: the last hour. It is always 3600.
        pub(crate) window_secs: u64 = Calibration::WINDOW.as_secs(),
        /// All endpoints together, weighted by their attempts.
        pub(crate) overall: CalibrationBody = CalibrationBody::new(&calibrations.overall),
        /// Each enabled provider, over all its endpoints.
        pub(crate) providers: Vec<ProviderBody<'a>> = providers.collect(),
        /// Each enabled endpoint.
        pub(crate) data: Vec<EndpointBody<'a>> = endpoints.collect(),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ProviderBody<'a> {
    /// Slug of the provider: its name in the configuration, in requests and in filters.
    pub(crate) slug: &'a str,
    /// Display name of the provider.
    pub(crate) name: &'a str,
    #[serde(flatten)]
    pub(crate) calibration: CalibrationBody,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EndpointBody<'a> {
    /// Id of the model, such as `meadow/small`.
    pub(crate) model: &'a str,
    /// Display name of the provider.
    pub(crate) provider_name: &'a str,
    /// Slug of the provider: its name in the configuration, in requests and in filters.
    pub(crate) provider_slug: &'a str,
    /// Short name that tells two endpoints of one model at one provider apart (`variant` in the configuration); empty
    /// without one.
    pub(crate) variant: &'a str,
    #[serde(flatten)]
    pub(crate) calibration: CalibrationBody,
}

view! {
    /// How right predictions were.
    pub(crate) struct CalibrationBody as "CalibrationFigures" {
        fn new(calibration: &Calibration) {
            let Calibration { first_token, total, output_tokens, cost, failures, unmeasured } = calibration;
        }

        /// Time to the first content, of streams.
        pub(crate) ttft: BoundedBody = BoundedBody::new(first_token),
        /// Time to the last byte, of whole answers, predicted for the number of output tokens that the answer then had.
        pub(crate) total: BoundedBody = BoundedBody::new(total),
        /// Number of shown output tokens, of whole answers that have any.
        pub(crate) output_tokens: AccuracyBody = AccuracyBody::new(output_tokens),
        /// Cost of whole answers. `samples` and the errors leave out those that cost nothing.
        pub(crate) cost: CostBody = CostBody::new(cost),
        /// Probability of failure.
        pub(crate) failures: FailuresBody = FailuresBody::new(failures),
        /// Further attempts that ended with a whole answer or such a failure, but were predicted before anything had been
        /// measured there. They count nowhere else on this page.
        pub(crate) unmeasured: u64 = *unmeasured,
    }
}

view! {
    pub(crate) struct AccuracyBody {
        fn new(accuracy: &Accuracy) {
            let ln = |error| Figure::rounded(error, 3);
        }

        /// Predictions that an actual value was compared with.
        pub(crate) samples: u64 = accuracy.samples,
        /// Median of |ln(actual ÷ predicted median)|, with three decimals: 0.1 is about 10 % off in either direction, 0.69
        /// a factor of two. `null` without samples.
        pub(crate) median_error: Option<Figure> = accuracy.median_error.map(ln),
        /// Median of ln(actual ÷ predicted median), with three decimals: above 0 if actual values exceed the predictions.
        /// `null` without samples.
        pub(crate) bias: Option<Figure> = accuracy.bias.map(ln),
    }
}

view! {
    pub(crate) struct BoundedBody {
        fn new(accuracy: &Accuracy) {}

        #[serde(flatten)]
        pub(crate) accuracy: AccuracyBody = AccuracyBody::new(accuracy),
        /// Share of actual values within the predicted 95th percentile, 0 to 1 with four decimals; about 0.95 if
        /// predictions are right. `null` without samples.
        pub(crate) within_p95: Option<Figure> = accuracy.within_p95.map(Figure::share),
    }
}

view! {
    pub(crate) struct CostBody {
        fn new(cost: &CostAccuracy) {}

        #[serde(flatten)]
        pub(crate) accuracy: AccuracyBody = AccuracyBody::new(&cost.error),
        /// Sum of the predicted costs in US dollars, with nine decimals, of whole answers whose cost is known.
        pub(crate) predicted_usd: Figure = Figure::rounded(cost.predicted, 9),
        /// Sum of the actual costs of the same answers in US dollars, with nine decimals.
        pub(crate) actual_usd: Figure = Figure::rounded(cost.actual, 9),
    }
}

view! {
    pub(crate) struct FailuresBody {
        fn new(failures: &FailureAccuracy) {
            let FailureAccuracy { attempts, expected, seen, brier } = *failures;
        }

        /// Attempts that ended with a whole answer or with a failure that is predicted: of the connection, a time-out, a
        /// server error or an invalid answer. 429s, refused keys and refused requests are neither.
        pub(crate) attempts: u64 = attempts,
        /// Failures among them that were predicted: the sum of their probabilities, with three decimals.
        pub(crate) expected: Figure = Figure::rounded(expected, 3),
        /// Failures among them that happened.
        pub(crate) seen: u64 = seen,
        /// Mean of (predicted probability − outcome)², the outcome being 1 for a failure, with five decimals: 0 is perfect,
        /// 0.25 what a constant one half gets. `null` without attempts.
        pub(crate) brier: Option<Figure> = brier.map(|brier| Figure::rounded(brier, 5)),
    }
}

impl<'a> EndpointBody<'a> {
    fn new(catalog: &'a Catalog, endpoint: &'a Endpoint, known: Option<&EndpointCalibration>) -> Option<Self> {
        let provider = catalog.provider_of(endpoint).filter(|provider| provider.is_on() && !endpoint.disabled)?;
        Some(EndpointBody {
            model: catalog.model_of(endpoint)?.id.as_str(),
            provider_name: &provider.name,
            provider_slug: provider.slug.as_str(),
            variant: &endpoint.variant,
            calibration: CalibrationBody::new(&known.map(|known| known.calibration).unwrap_or_default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use pointsman_routing::stats::EndpointCalibration;

    use super::*;
    use crate::api::samples::catalog;

    fn calibration() -> Calibration {
        let accuracy =
            |within_p95| Accuracy { samples: 40, median_error: Some(0.212_34), bias: Some(-0.050_01), within_p95 };
        Calibration {
            first_token: accuracy(Some(0.95)),
            total: accuracy(Some(0.925)),
            output_tokens: accuracy(None),
            cost: CostAccuracy { error: accuracy(None), predicted: 0.001_2, actual: 0.001_3 },
            failures: FailureAccuracy { attempts: 41, expected: 0.812_3, seen: 1, brier: Some(0.024_1) },
            unmeasured: 2,
        }
    }

    #[test]
    fn an_endpoint_shows_the_accuracy_of_its_predictions() {
        let catalog = catalog();
        let first = EndpointCalibration { endpoint: catalog.endpoints[0].id, calibration: calibration() };
        let all = Calibrations { endpoints: vec![first], ..Calibrations::default() };
        let body = serde_json::to_value(CalibrationsBody::new(&catalog, &all)).unwrap();
        expect![[r#"
            {
              "cost": {
                "actual_usd": 0.0013,
                "bias": -0.05,
                "median_error": 0.212,
                "predicted_usd": 0.0012,
                "samples": 40
              },
              "failures": {
                "attempts": 41,
                "brier": 0.0241,
                "expected": 0.812,
                "seen": 1
              },
              "model": "acme/small",
              "output_tokens": {
                "bias": -0.05,
                "median_error": 0.212,
                "samples": 40
              },
              "provider_name": "Acme",
              "provider_slug": "acme",
              "total": {
                "bias": -0.05,
                "median_error": 0.212,
                "samples": 40,
                "within_p95": 0.925
              },
              "ttft": {
                "bias": -0.05,
                "median_error": 0.212,
                "samples": 40,
                "within_p95": 0.95
              },
              "unmeasured": 2,
              "variant": ""
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&body["data"][0]).unwrap());
        assert_eq!(body["data"][1]["ttft"]["median_error"], serde_json::Value::Null);
        assert_eq!((&body["window_secs"], &body["overall"]["unmeasured"]), (&3600.into(), &0.into()));
    }

    #[test]
    fn endpoints_and_providers_that_are_not_enabled_are_not_shown() {
        let catalog = catalog();
        let body = serde_json::to_value(CalibrationsBody::new(&catalog, &Calibrations::default())).unwrap();
        let slugs: Vec<_> = body["providers"].as_array().unwrap().iter().map(|it| &it["slug"]).collect();
        assert_eq!(slugs, ["acme", "beta"]);
        assert!(body["data"].as_array().unwrap().iter().all(|it| it["provider_slug"] != "gamma"));
    }
}
