//! Functions every candidate of a decision may need, approximated: without a branch, and several times faster for that
//! than exact ones where arguments vary. The same arithmetic everywhere, so that a replay finds the same bits.

/// Mantissa bits of a float.
const MANTISSA: u32 = 52;

/// e to the power of `x`, to four digits; beyond ±690 as at ±690.
#[inline]
fn exp(x: f64) -> f64 {
    // Adding it rounds to a whole number, which is then found in the lowest bits of the sum.
    const ROUNDING: f64 = 6_755_399_441_055_744.0;
    let x = x.clamp(-690.0, 690.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUNDING;
    let rest = x - (shifted - ROUNDING) * std::f64::consts::LN_2;
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << MANTISSA);
    power * (1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0)))))
}

/// The natural logarithm of a positive `x`, to five digits after the point.
#[inline]
pub(crate) fn ln(x: f64) -> f64 {
    // The float of these bits is 2^52, plus whatever stands in the lowest of them.
    const WHOLE: u64 = 1075 << MANTISSA;
    const WHOLE_AND_BIAS: f64 = 4_503_599_627_370_496.0 + 1023.0;
    const ONE: u64 = 1023 << MANTISSA;
    let root_of_half = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    // A power of two, and what that has to be multiplied with: between the root of a half and that of two.
    let raised = x.to_bits().wrapping_add(ONE - root_of_half);
    let power = f64::from_bits(WHOLE | raised >> MANTISSA) - WHOLE_AND_BIAS;
    let factor = f64::from_bits((raised & ((1 << MANTISSA) - 1)) + root_of_half);
    let s = (factor - 1.0) / (factor + 1.0);
    let s2 = s * s;
    let series = 2.0 + s2 * (2.0 / 3.0 + s2 * (2.0 / 5.0));
    power * std::f64::consts::LN_2 + s * series
}

/// The share of the standard normal distribution below `z`, to 0.00015 (Bowling et al., 2009).
#[inline]
pub(crate) fn normal_share(z: f64) -> f64 {
    1.0 / (1.0 + exp(-z * (1.5976 + 0.07056 * z * z)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_right_to_four_digits() {
        for step in -40_000..=40_000 {
            let x = f64::from(step) / 1_000.0;
            let (here, there) = (exp(x), libm::exp(x));
            assert!((here / there - 1.0).abs() < 1e-4, "{x}: {here} {there}");
        }
        for far in [690.0, 1e9, f64::INFINITY] {
            assert!(exp(far).is_finite() && exp(-far) > 0.0);
        }
    }

    #[test]
    fn the_logarithm_is_right_to_five_digits() {
        for step in -70_000..=70_000 {
            let x = libm::exp(f64::from(step) / 1_000.0);
            assert!((ln(x) - libm::log(x)).abs() < 2e-6, "{x}: {}", ln(x));
        }
        assert!(ln(f64::MIN_POSITIVE) < -708.0 && ln(f64::MAX) > 709.0);
    }

    #[test]
    fn the_share_is_right_to_three_digits_rises_and_never_leaves_its_bounds() {
        let mut before = 0.0;
        for step in -8_000..=8_000 {
            let z = f64::from(step) / 1000.0;
            let exact = 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
            let here = normal_share(z);
            assert!((here - exact).abs() < 1.5e-4, "{z}");
            assert!(here >= before && here <= 1.0, "{z}");
            before = here;
        }
    }
}
