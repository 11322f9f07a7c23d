//! Number formats in JSON.
//!
//! [`Dollars`] writes money as an exact decimal, never as a float. [`Figure`] rounds measurements to their significant
//! digits.

use std::fmt::Display;

use pointsman_domain::Usd;
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::value::RawValue;

/// An exact amount as a JSON number.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct Dollars(#[cfg_attr(test, schemars(with = "f64"))] pub(crate) Usd);

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// A displayable value as a JSON string, such as a price in the catalog.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, bound = "", description = ""))]
pub(crate) struct Text<T>(#[cfg_attr(test, schemars(with = "String"))] pub(crate) T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A number that is written without a fraction if it is whole: `40`, not `40.0`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct Figure(#[cfg_attr(test, schemars(with = "Option<f64>"))] f64);

/// 2⁵³: whole numbers below are exact in a float and in every client.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Figure {
    /// The number unchanged; `null` if it is not finite.
    pub(crate) const fn exact(value: f64) -> Figure {
        Figure(value)
    }

    /// The rounded number.
    pub(crate) const fn value(self) -> f64 {
        self.0
    }

    /// The number with twelve significant digits, which hides rounding errors of floats.
    pub(crate) fn significant(value: f64) -> Figure {
        if value == 0.0 || !value.is_finite() {
            return Figure(value);
        }
        let decimals = 11 - value.abs().log10().floor() as i32;
        if decimals > 300 { Figure(0.0) } else { Figure::rounded(value, decimals) }
    }

    /// Seconds as milliseconds with one decimal.
    pub(crate) fn millis(seconds: f64) -> Figure {
        Figure::rounded(seconds * 1e3, 1)
    }

    /// A share between 0 and 1 with four decimals.
    pub(crate) fn share(value: f64) -> Figure {
        Figure::rounded(value, 4)
    }

    /// A part of an amount with four decimals; `None` of nothing.
    pub(crate) fn part(part: Usd, whole: Usd) -> Option<Figure> {
        let part = part.femto().saturating_mul(10_000).checked_div(whole.femto())?;
        Some(Figure(part as f64 / 1e4))
    }

    /// The number with this many decimals.
    pub(crate) fn rounded(value: f64, decimals: i32) -> Figure {
        let scale = 10_f64.powi(decimals);
        Figure((value * scale).round() / scale)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() < MAX_EXACT {
            return serializer.serialize_i64(self.0 as i64);
        }
        // serde_json writes NaN and infinity as null.
        serializer.serialize_f64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: impl Serialize) -> String {
        serde_json::to_string(&value).unwrap()
    }

    #[test]
    fn money_is_written_digit_by_digit_without_an_exponent() {
        assert_eq!(json(Dollars("0.000000000000001".parse().unwrap())), "0.000000000000001");
        assert_eq!(json(Dollars("12345678901234567.1".parse().unwrap())), "12345678901234567.1");
        assert_eq!(json(Dollars(Usd::ZERO)), "0");
    }

    #[test]
    fn prices_are_strings() {
        assert_eq!(json(Text("0.00000015".parse::<Usd>().unwrap())), r#""0.00000015""#);
    }

    #[test]
    fn figures_are_rounded_and_null_if_not_finite() {
        assert_eq!(json(Figure::millis(0.230_04)), "230");
        assert_eq!(json(Figure::millis(0.000_26)), "0.3");
        assert_eq!(json(Figure::share(0.998_02)), "0.998");
        assert_eq!(json(Figure::exact(f64::NAN)), "null");
        assert_eq!(json(Figure::exact(f64::INFINITY)), "null");
    }
}
