//! Sizes in pixels as the shapes that some models make instead: a ratio of the sides, and a class of sizes.

/// The ratio of the list, of width to height, that distorts a size the least. `None` if it is no size in pixels.
pub(crate) fn nearest_ratio(size: &str, ratios: &[&'static str]) -> Option<&'static str> {
    let (width, height) = pixels(size)?;
    // Both are the size's ratio to the other, as one fraction that is 1 at least.
    let distortion = |ratio: &&&str| {
        let (across, up) = sides(ratio, ':').unwrap_or((1, 1));
        let (one, other) = (width * up, height * across);
        (one.max(other), one.min(other).max(1))
    };
    ratios
        .iter()
        .min_by(|a, b| {
            let ((a, of_a), (b, of_b)) = (distortion(a), distortion(b));
            (a * of_b).cmp(&(b * of_a))
        })
        .copied()
}

/// The class of a size in pixels, if it is larger than what is usual.
pub(crate) fn class_of(size: &str) -> Option<&'static str> {
    let (width, height) = pixels(size)?;
    match width.max(height) {
        ..=1_536 => None,
        1_537..=3_072 => Some("2K"),
        _ => Some("4K"),
    }
}

fn pixels(size: &str) -> Option<(u64, u64)> {
    sides(size, 'x').filter(|(width, height)| (1..=99_999).contains(width) && (1..=99_999).contains(height))
}

fn sides(text: &str, between: char) -> Option<(u64, u64)> {
    let (width, height) = text.split_once(between)?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_becomes_the_nearest_ratio_and_a_class_if_it_is_large() {
        let ratios = ["1:1", "2:3", "3:2", "9:16", "16:9", "21:9"];
        for (size, ratio, class) in [
            ("1024x1024", "1:1", None),
            ("1024x1536", "2:3", None),
            ("1792x1024", "16:9", Some("2K")),
            ("99999x1", "21:9", Some("4K")),
            ("512x900", "9:16", None),
        ] {
            assert_eq!((nearest_ratio(size, &ratios), class_of(size)), (Some(ratio), class), "{size}");
        }
        for none in ["auto", "2K", "x", "0x5", "1x", "-1x2", "184467440737095516150x1"] {
            assert_eq!((nearest_ratio(none, &ratios), class_of(none)), (None, None), "{none}");
        }
    }
}
