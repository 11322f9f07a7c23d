//! What a plan could cost whose choice is not certain.

use pointsman_domain::EndpointId;

use super::{calibration::Calibration, units::pico};

/// The attempts that could be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PossibleCosts {
    /// Least and highest cost of an attempt at each endpoint, dollars, and whether it could be the choice.
    pub endpoints: Vec<(EndpointId, [f64; 2], bool)>,
    /// Most attempts.
    pub attempts: usize,
}

impl PossibleCosts {
    /// Least and highest cost of the whole plan, corrected by what was measured, picodollars: the cheapest choice answers at once,
    /// or the dearest attempts are all made.
    pub(super) fn bounds(&self, calibration: &Calibration) -> [i64; 2] {
        let corrected = |(endpoint, costs, is_choice): &(EndpointId, [f64; 2], bool)| {
            (costs.map(|cost| cost * calibration.factors(*endpoint).cost), *is_choice)
        };
        let costs: Vec<([f64; 2], bool)> = self.endpoints.iter().map(corrected).collect();
        let choices = costs.iter().filter(|(_, is_choice)| *is_choice);
        let least = choices.map(|([least, _], _)| *least).fold(f64::INFINITY, f64::min);
        let mut highest: Vec<f64> = costs.iter().map(|([_, highest], _)| *highest).collect();
        highest.sort_by(|one, other| other.total_cmp(one));
        [least, highest.iter().take(self.attempts).sum()].map(pico)
    }
}
