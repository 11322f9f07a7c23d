use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Mul, Sub},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// An exact amount of US dollars: an integer count of 10⁻¹⁵ dollars.
///
/// Sums and products with token counts are exact; nothing is rounded before it is written. Arithmetic
/// saturates at ±1.7·10²³ dollars, so it can neither panic nor wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Usd(i128);

/// A price in dollars per unit (token, request, image, search).
pub type Price = Usd;

/// Digits after the decimal point that an amount can hold.
const SCALE_DIGITS: usize = 15;
const SCALE: i128 = 1_000_000_000_000_000;
/// What a number that others report has to be below: 10¹⁸ dollars.
const MOST: i128 = 1_000_000_000_000_000_000_000_000_000_000_000;
/// Most digits of such a number.
const LONGEST_NUMBER: usize = 36;

/// Why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsdFault {
    /// Not a plain decimal such as `0.00000015`.
    NotDecimal,
    /// More than 15 digits after the point, or too large to hold.
    OutOfRange,
}

impl fmt::Display for UsdFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UsdFault::NotDecimal => "must be a plain decimal number of US dollars, such as \"0.00000015\"",
            UsdFault::OutOfRange => "must have at most 15 digits after the point and be below 10^18 dollars",
        })
    }
}

impl Usd {
    /// Zero dollars.
    pub const ZERO: Usd = Usd(0);

    /// An amount given in units of 10⁻¹⁵ dollars.
    pub const fn from_femto(femto: i128) -> Usd {
        Usd(femto)
    }

    /// The amount in units of 10⁻¹⁵ dollars.
    #[must_use]
    pub const fn femto(self) -> i128 {
        self.0
    }

    /// Whether the amount is exactly zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The amount as a float, for scores and gauges only. Never used for bills.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }

    /// The nearest amount to a number a client wrote as JSON; `None` when it is not finite or too large.
    /// For limits only: prices and bills are parsed from text.
    pub fn from_f64(dollars: f64) -> Option<Usd> {
        let femto = dollars * SCALE as f64;
        (femto.is_finite() && femto.abs() < 1e33).then(|| Usd(femto.round() as i128))
    }

    /// The nearest amount to a number as other programs write it, exponents included; `None` when it is none, or too large.
    /// For amounts that others report: prices are parsed by [`FromStr`].
    pub fn from_number(text: &str) -> Option<Usd> {
        let (negative, number) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        if whole.is_empty() || digits.len() > LONGEST_NUMBER || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits: i128 = digits.parse().ok()?;
        let power = exponent.checked_add(SCALE_DIGITS as i32)?.checked_sub(fraction.len() as i32)?;
        let scale = 10_i128.checked_pow(power.unsigned_abs());
        let amount = match (power >= 0, scale) {
            _ if digits == 0 => 0,
            (true, scale) => digits.checked_mul(scale?)?,
            // Rounded half up. A power beyond the type leaves nothing of so few digits.
            (false, Some(scale)) => (digits + scale / 2) / scale,
            (false, None) => 0,
        };
        (amount < MOST).then_some(Usd(if negative { -amount } else { amount }))
    }

    /// This many times the amount.
    #[must_use]
    pub fn times(self, count: u64) -> Usd {
        Usd(self.0.saturating_mul(i128::from(count)))
    }
}

impl FromStr for Usd {
    type Err = UsdFault;

    /// Plain decimal notation only: no sign but `-`, no exponent, digits on both sides of a point.
    fn from_str(text: &str) -> Result<Usd, UsdFault> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return Err(UsdFault::NotDecimal);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > SCALE_DIGITS || whole.len() > 18 {
            return Err(UsdFault::OutOfRange);
        }
        let whole: i128 = whole.parse().map_err(|_| UsdFault::OutOfRange)?;
        let padded = format!("{fraction:0<SCALE_DIGITS$}");
        let fraction: i128 = padded.parse().map_err(|_| UsdFault::OutOfRange)?;
        let amount = whole * SCALE + fraction;
        Ok(Usd(if negative { -amount } else { amount }))
    }
}

impl fmt::Display for Usd {
    /// Plain decimal notation, no exponent, no trailing zeros: also a valid JSON number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let amount = self.0.unsigned_abs();
        let (whole, fraction) = (amount / SCALE.unsigned_abs(), amount % SCALE.unsigned_abs());
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{fraction:015}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl Add for Usd {
    type Output = Usd;

    fn add(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Usd) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Usd;

    fn sub(self, other: Usd) -> Usd {
        Usd(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Usd {
    type Output = Usd;

    fn mul(self, count: u64) -> Usd {
        self.times(count)
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(amounts: I) -> Usd {
        amounts.fold(Usd::ZERO, Add::add)
    }
}

/// Digits shown of an amount below one dollar.
const DIGITS: u32 = 3;

/// An amount for people, with unit: at least two decimals, and three significant digits below one dollar. Never an exponent.
pub fn shown_dollars(amount: Usd) -> String {
    let (sign, femto) = (if amount.0 < 0 { "-" } else { "" }, amount.0.unsigned_abs());
    if femto == 0 {
        return "$0".to_owned();
    }
    let dollar = SCALE.unsigned_abs();
    // The power of ten of the last shown digit, in femtodollars.
    let last = if femto >= dollar { 13 } else { (femto.ilog10() + 1).saturating_sub(DIGITS).min(13) };
    let unit = 10_u128.pow(last);
    let rounded = (femto + unit / 2) / unit * unit;
    let (whole, fraction) = (rounded / dollar, rounded % dollar);
    // What is rounded up to a dollar has two decimals too.
    let decimals = if whole > 0 { 2 } else { 15 - last as usize };
    let fraction: String = format!("{fraction:015}").chars().take(decimals).collect();
    format!("{sign}${}.{fraction}", grouped(whole))
}

/// A number with commas between thousands.
pub fn grouped(value: u128) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_round_trip_as_plain_decimals() {
        for text in ["0", "0.00000015", "1", "12.5", "-0.000000000000001", "0.04"] {
            assert_eq!(text.parse::<Usd>().map(|usd| usd.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn trailing_zeros_are_not_written() {
        assert_eq!("0.10".parse::<Usd>().map(|usd| usd.to_string()), Ok("0.1".to_owned()));
    }

    #[test]
    fn anything_but_a_plain_decimal_is_refused() {
        for text in ["", ".5", "5.", "1e-6", "+1", "1,5", "--1", "NaN", "0x1", " 1"] {
            assert_eq!(text.parse::<Usd>(), Err(UsdFault::NotDecimal), "{text:?}");
        }
        assert_eq!("0.0000000000000001".parse::<Usd>(), Err(UsdFault::OutOfRange));
        assert_eq!("1000000000000000000000".parse::<Usd>(), Err(UsdFault::OutOfRange));
    }

    #[test]
    fn numbers_of_others_are_read_without_floats() {
        let read = |text: &str| Usd::from_number(text).map(|usd| usd.to_string());
        for (text, amount) in [
            ("0.0012", "0.0012"),
            ("1.2e-05", "0.000012"),
            ("12E+2", "1200"),
            ("0", "0"),
            ("0e99", "0"),
            ("-0.5", "-0.5"),
            ("0.1000000000000000055511151231257827", "0.1"),
            ("0.0000000000000005", "0.000000000000001"),
            ("1e-400", "0"),
        ] {
            assert_eq!(read(text).as_deref(), Some(amount), "{text}");
        }
        for odd in ["", "x", "1e", "e5", ".5", "1e18", "1e99", "NaN", "1e99999999999", "--1", "1.2.3"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_count_times_a_price_is_exact() {
        let price: Usd = "0.00000015".parse().unwrap_or_default();
        assert_eq!((price * 3).to_string(), "0.00000045");
    }
}
