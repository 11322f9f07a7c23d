//! Figures as integers: their sums have the same bits in any order, whatever the number of threads.

use pointsman_domain::Usd;

const PICO: f64 = 1e12;
const NANO: f64 = 1e9;

/// Trillionths.
pub(crate) fn pico(value: f64) -> i64 {
    (value * PICO).round() as i64
}

/// Trillionths as a number again.
pub(crate) fn from_pico(sum: i128) -> f64 {
    sum as f64 / PICO
}

/// Billionths.
pub(crate) fn nano(value: f64) -> i64 {
    (value * NANO).round() as i64
}

/// Billionths as a number again.
pub(crate) fn from_nano(sum: i128) -> f64 {
    sum as f64 / NANO
}

pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// Dollars of an amount of money.
pub(crate) fn dollars_of(amount: Usd) -> f64 {
    amount.to_f64()
}
