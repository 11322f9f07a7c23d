//! Numbers that keep their bits in JSON.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

/// A float that survives JSON bit for bit. A finite one is written as a number with all its digits, others as a string:
/// `"Infinity"`, `"-Infinity"`, or `"NaN:"` and the bits in hexadecimal.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(super) struct Exact(#[cfg_attr(test, schemars(extend("type" = ["number", "string"])))] pub(super) f64);

const INFINITY: &str = "Infinity";
const NEGATIVE_INFINITY: &str = "-Infinity";
const NAN: &str = "NaN:";

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_finite() => serializer.serialize_f64(value),
            f64::INFINITY => serializer.serialize_str(INFINITY),
            f64::NEG_INFINITY => serializer.serialize_str(NEGATIVE_INFINITY),
            value => serializer.collect_str(&format_args!("{NAN}{:016x}", value.to_bits())),
        }
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Exact, D::Error> {
        // Parsed from the raw digits: serde_json may be off by one in the last digit, `str::parse` is exact.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let value = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            None => text.parse().ok().filter(|value: &f64| value.is_finite()),
            Some(INFINITY) => Some(f64::INFINITY),
            Some(NEGATIVE_INFINITY) => Some(f64::NEG_INFINITY),
            Some(text) => text.strip_prefix(NAN).and_then(not_a_number),
        };
        value.map(Exact).ok_or_else(|| D::Error::custom(format_args!("{text} is no exact number")))
    }
}

fn not_a_number(bits: &str) -> Option<f64> {
    u64::from_str_radix(bits, 16).ok().map(f64::from_bits).filter(|value| value.is_nan())
}

/// A 64-bit number as a string: not every client has integers of that size.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(super) struct Digits(#[cfg_attr(test, schemars(with = "String"))] pub(super) u64);

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Digits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digits, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Digits).map_err(|_| D::Error::custom(format_args!("'{text}' is no 64-bit number")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300 * ProptestConfig::default().cases))]
        #[test]
        fn any_float_comes_back_bit_for_bit(bits in any::<u64>()) {
            let text = serde_json::to_string(&Exact(f64::from_bits(bits))).unwrap();
            let Exact(back) = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.to_bits(), bits, "{}", text);
        }
    }

    #[test]
    fn values_that_are_no_json_numbers_keep_their_bits() {
        for (value, text) in [
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
            (-0.0, "-0.0"),
            (f64::from_bits(0x7ff8_0000_0000_0001), "\"NaN:7ff8000000000001\""),
        ] {
            assert_eq!(serde_json::to_string(&Exact(value)).unwrap(), text);
            let Exact(back) = serde_json::from_str(text).unwrap();
            assert_eq!(back.to_bits(), value.to_bits());
        }
        for bad in ["null", "\"NaN\"", "\"NaN:0\"", "\"1.5\"", "1e999", "true"] {
            assert!(serde_json::from_str::<Exact>(bad).is_err(), "{bad}");
        }
    }
}
