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

/// The page.
#[derive(Serialize)]
pub(crate) struct CalibrationsBody<'a> {
    pub(crate) window_secs: u64,
    pub(crate) overall: CalibrationBody,
    pub(crate) providers: Vec<ProviderBody<'a>>,
    pub(crate) data: Vec<EndpointBody<'a>>,
}

#[derive(Serialize)]
pub(crate) struct ProviderBody<'a> {
    pub(crate) slug: &'a str,
    pub(crate) name: &'a str,
    #[serde(flatten)]
    pub(crate) calibration: CalibrationBody,
}

#[derive(Serialize)]
pub(crate) struct EndpointBody<'a> {
    pub(crate) model: &'a str,
    pub(crate) provider_name: &'a str,
    pub(crate) provider_slug: &'a str,
    pub(crate) variant: &'a str,
    #[serde(flatten)]
    pub(crate) calibration: CalibrationBody,
}

#[derive(Serialize)]
pub(crate) struct CalibrationBody {
    pub(crate) ttft: BoundedBody,
    pub(crate) total: BoundedBody,
    pub(crate) output_tokens: AccuracyBody,
    pub(crate) cost: CostBody,
    pub(crate) failures: FailuresBody,
    pub(crate) unmeasured: u64,
}

#[derive(Serialize)]
pub(crate) struct AccuracyBody {
    pub(crate) samples: u64,
    pub(crate) median_error: Option<Figure>,
    pub(crate) bias: Option<Figure>,
}

#[derive(Serialize)]
pub(crate) struct BoundedBody {
    #[serde(flatten)]
    pub(crate) accuracy: AccuracyBody,
    pub(crate) within_p95: Option<Figure>,
}

#[derive(Serialize)]
pub(crate) struct CostBody {
    #[serde(flatten)]
    pub(crate) accuracy: AccuracyBody,
    pub(crate) predicted_usd: Figure,
    pub(crate) actual_usd: Figure,
}

#[derive(Serialize)]
pub(crate) struct FailuresBody {
    pub(crate) attempts: u64,
    pub(crate) expected: Figure,
    pub(crate) seen: u64,
    pub(crate) brier: Option<Figure>,
}

impl<'a> CalibrationsBody<'a> {
    /// The page for the enabled endpoints and providers.
    pub(crate) fn new(catalog: &'a Catalog, calibrations: &Calibrations) -> CalibrationsBody<'a> {
        let providers = catalog.providers.iter().enumerate().filter(|(_, provider)| provider.is_on());
        let providers = providers.map(|(position, provider)| ProviderBody {
            slug: provider.slug.as_str(),
            name: &provider.name,
            calibration: CalibrationBody::new(calibrations.providers.get(position).unwrap_or(&Calibration::default())),
        });
        let endpoints = catalog.endpoints.iter().enumerate().filter_map(|(position, endpoint)| {
            EndpointBody::new(catalog, endpoint, calibrations.endpoints.get(position))
        });
        CalibrationsBody {
            window_secs: Calibration::WINDOW.as_secs(),
            overall: CalibrationBody::new(&calibrations.overall),
            providers: providers.collect(),
            data: endpoints.collect(),
        }
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

impl CalibrationBody {
    fn new(calibration: &Calibration) -> CalibrationBody {
        let Calibration { first_token, total, output_tokens, cost, failures, unmeasured } = calibration;
        CalibrationBody {
            ttft: BoundedBody::new(first_token),
            total: BoundedBody::new(total),
            output_tokens: AccuracyBody::new(output_tokens),
            cost: CostBody::new(cost),
            failures: FailuresBody::new(failures),
            unmeasured: *unmeasured,
        }
    }
}

impl AccuracyBody {
    fn new(accuracy: &Accuracy) -> AccuracyBody {
        let ln = |error| Figure::rounded(error, 3);
        AccuracyBody {
            samples: accuracy.samples,
            median_error: accuracy.median_error.map(ln),
            bias: accuracy.bias.map(ln),
        }
    }
}

impl BoundedBody {
    fn new(accuracy: &Accuracy) -> BoundedBody {
        BoundedBody { accuracy: AccuracyBody::new(accuracy), within_p95: accuracy.within_p95.map(Figure::share) }
    }
}

impl CostBody {
    fn new(cost: &CostAccuracy) -> CostBody {
        CostBody {
            accuracy: AccuracyBody::new(&cost.error),
            predicted_usd: Figure::rounded(cost.predicted, 9),
            actual_usd: Figure::rounded(cost.actual, 9),
        }
    }
}

impl FailuresBody {
    fn new(failures: &FailureAccuracy) -> FailuresBody {
        let FailureAccuracy { attempts, expected, seen, brier } = *failures;
        FailuresBody {
            attempts,
            expected: Figure::rounded(expected, 3),
            seen,
            brier: brier.map(|brier| Figure::rounded(brier, 5)),
        }
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
