//! Simulated images: a PNG with a pattern made from the prompt.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::png::{self, Band, Colour};

/// Output tokens that one image counts as.
pub(super) const IMAGE_TOKENS: u32 = 256;

/// Cells along the edge of a pattern.
const CELLS: u32 = 8;

/// A PNG in base64. Its pattern and colours depend on the prompt and the position of the image.
pub(super) fn draw(prompt: &str, position: u32, width: u32, height: u32) -> String {
    BASE64.encode(pattern(prompt, position, width, height).unwrap_or_default())
}

/// A symmetric pattern of cells in two colours on white, from a hash of the prompt.
fn pattern(prompt: &str, position: u32, width: u32, height: u32) -> io::Result<Vec<u8>> {
    let hash = hash(prompt, position);
    let [red, green, blue, ..] = hash.to_le_bytes();
    let colour: Colour = [red / 2 + 32, green / 2 + 32, blue / 2 + 32];
    let palette = [[255; 3], colour, colour.map(|part| 255 - part / 2)];
    let cell = |column: u32, row: u32| {
        // The right half mirrors the left half.
        let bit = row * CELLS / 2 + column.min(CELLS - 1 - column);
        match hash >> (bit + 16) & 3 {
            3 => 2,
            2 => 1,
            _ => 0,
        }
    };
    // The edge need not be a multiple of the cells, so the sizes of cells may differ by a pixel.
    let bands = (0..CELLS).map(|row| Band {
        height: height * (row + 1) / CELLS - height * row / CELLS,
        row: (0..width).map(|x| cell(x * CELLS / width.max(1), row)).collect(),
    });
    png::encode(width, &palette, &bands.collect::<Vec<_>>())
}

/// FNV-1a with a last mix, so that prompts which differ at the end differ in all bits.
fn hash(prompt: &str, position: u32) -> u64 {
    let bytes = prompt.bytes().chain(position.to_le_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ hash >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_depends_only_on_prompt_position_and_size() {
        assert_eq!(draw("a fox", 0, 64, 64), draw("a fox", 0, 64, 64));
        assert_ne!(draw("a fox", 0, 64, 64), draw("a fox", 1, 64, 64));
        assert_ne!(draw("a fox", 0, 64, 64), draw("a crow", 0, 64, 64));
        assert!(pattern("a fox", 0, 2048, 2048).unwrap().len() < 40_000, "a large picture stays small on the wire");
    }
}
