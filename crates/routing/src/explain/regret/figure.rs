//! A figure of a regret.

/// Dollars, failures or seconds for each request, with the 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegretFigure {
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub interval: [f64; 2],
}
