//! Priors from siblings: the medians of the measured endpoints.

use pointsman_domain::{Catalog, StatsPolicy};

use super::{failures::FailureModel, latency::Fit, prior::Prior};

/// Measured estimates of an endpoint; `None` where nothing was measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Latency fit.
    pub first_token: Option<Fit>,
    /// As in [`Prior`].
    pub per_token: Option<f64>,
    /// As in [`Prior`].
    pub failure: Option<f64>,
}

impl Measured {
    const fn is_empty(&self) -> bool {
        self.first_token.is_none() && self.per_token.is_none() && self.failure.is_none()
    }
}

/// One [`Prior`] per model, by position: from the endpoints of the model, else from all endpoints, else from the
/// configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Priors {
    models: Vec<Prior>,
    fallback: Prior,
}

impl Priors {
    pub(crate) fn configured(policy: &StatsPolicy) -> Priors {
        let ln = |time: std::time::Duration| libm::log(time.as_secs_f64().max(1e-6));
        let fallback = Prior {
            first_token: ln(policy.prior_first_token),
            prompt_slope: 0.0,
            per_token: ln(policy.prior_per_token),
            failure: FailureModel::USUAL,
        };
        Priors { models: Vec::new(), fallback }
    }

    /// Medians of the measured estimates.
    pub(crate) fn learned(catalog: &Catalog, policy: &StatsPolicy, measured: impl Fn(u32) -> Measured) -> Priors {
        let configured = Priors::configured(policy).fallback;
        let among = |positions: &mut dyn Iterator<Item = u32>, otherwise: Prior| {
            let measured: Vec<Measured> = positions.map(&measured).collect();
            let of = |what: fn(&Measured) -> Option<f64>, otherwise: f64| {
                median(measured.iter().filter_map(what).collect()).unwrap_or(otherwise)
            };
            Prior {
                first_token: of(|one| Some(one.first_token?.intercept), otherwise.first_token),
                prompt_slope: of(|one| Some(one.first_token?.prompt_slope), otherwise.prompt_slope),
                per_token: of(|one| one.per_token, otherwise.per_token),
                failure: of(|one| one.failure, otherwise.failure).max(FailureModel::LEAST_PRIOR),
            }
        };
        let fallback = among(&mut (0_u32..).take(catalog.endpoints.len()), configured);
        let models = catalog.models.iter().map(|model| {
            let mut positions = model.endpoints.iter().copied();
            let has_none = positions.clone().all(|position| measured(position).is_empty());
            if has_none { fallback } else { among(&mut positions, fallback) }
        });
        Priors { models: models.collect(), fallback }
    }

    pub(crate) fn of(&self, model: u32) -> Prior {
        self.models.get(model as usize).copied().unwrap_or(self.fallback)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::{Endpoint, EndpointId, Model, ModelId, RoutingPolicy};

    #[test]
    fn the_prior_failure_probability_has_a_lower_limit() {
        let id: ModelId = "acme/small".parse().unwrap();
        let endpoint = |position: u32| Endpoint::with_defaults(EndpointId(u64::from(position) + 1), 0, 0, "small");
        let mut catalog = Catalog::default();
        catalog.models = vec![Model::with_defaults(id, vec![0, 1, 2])];
        catalog.endpoints = (0..3).map(endpoint).collect();
        let known = |rate: f64| {
            let measured = |position| Measured { failure: (position < 2).then_some(rate), ..Measured::default() };
            Priors::learned(&catalog, &RoutingPolicy::default().stats, measured).of(0).failure
        };
        assert!((known(0.000_02) - FailureModel::LEAST_PRIOR).abs() < 1e-12);
        assert!((known(0.03) - 0.03).abs() < 1e-12, "what is above is believed");
    }
}
