//! What to believe of an endpoint before it was measured: the median of its siblings.

use crate::domain::{Catalog, StatsPolicy};

/// Expectations for unmeasured endpoints, in ln seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prior {
    /// To the first token.
    pub first_token: f64,
    /// Per output token.
    pub per_token: f64,
}

/// One [`Prior`] per model, by position.
///
/// Endpoints of the same model know best, then all endpoints, then the configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Priors {
    models: Vec<Prior>,
    fallback: Prior,
}

impl Priors {
    /// What the configuration alone says.
    pub(super) fn configured(policy: &StatsPolicy) -> Priors {
        let ln = |time: std::time::Duration| libm::log(time.as_secs_f64().max(1e-6));
        let fallback = Prior { first_token: ln(policy.prior_first_token), per_token: ln(policy.prior_per_token) };
        Priors { models: Vec::new(), fallback }
    }

    /// The medians of what was measured: `measured` gives (first token, per token) of an endpoint by position.
    pub(super) fn learned(
        catalog: &Catalog,
        policy: &StatsPolicy,
        measured: impl Fn(u32) -> (Option<f64>, Option<f64>),
    ) -> Priors {
        let configured = Priors::configured(policy).fallback;
        let among = |positions: &mut dyn Iterator<Item = u32>, otherwise: Prior| {
            let (first, per): (Vec<_>, Vec<_>) = positions.map(&measured).unzip();
            Prior {
                first_token: median(first.into_iter().flatten().collect()).unwrap_or(otherwise.first_token),
                per_token: median(per.into_iter().flatten().collect()).unwrap_or(otherwise.per_token),
            }
        };
        let fallback = among(&mut (0_u32..).take(catalog.endpoints.len()), configured);
        let models = catalog.models.iter().map(|model| among(&mut model.endpoints.iter().copied(), fallback));
        Priors { models: models.collect(), fallback }
    }

    pub(super) fn of(&self, model: u32) -> Prior {
        self.models.get(model as usize).copied().unwrap_or(self.fallback)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
