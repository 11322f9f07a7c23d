//! A small PNG encoder for images with a palette.

use std::io::{self, Write};

use flate2::{Compression, Crc, write::ZlibEncoder};

/// An RGB colour.
pub(super) type Colour = [u8; 3];

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Consecutive equal rows.
pub(super) struct Band {
    pub(super) height: u32,
    /// One row: the position in the palette of each pixel.
    pub(super) row: Vec<u8>,
}

/// Encodes an image. Each row has `width` pixels, the palette at most 256 colours.
pub(super) fn encode(width: u32, palette: &[Colour], bands: &[Band]) -> io::Result<Vec<u8>> {
    let height: u32 = bands.iter().map(|band| band.height).sum();
    // Bit depth 8, colour type 3 (palette), standard compression and filters, no interlacing.
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 3, 0, 0, 0]].concat();
    let same = vec![0; width as usize];
    let mut data = ZlibEncoder::new(Vec::new(), Compression::fast());
    for band in bands.iter().filter(|band| band.height > 0) {
        // Each row begins with its filter: 0 (none), then 2 (difference to the row above, which is zero).
        data.write_all(&[0])?;
        data.write_all(&band.row)?;
        for _ in 1..band.height {
            data.write_all(&[2])?;
            data.write_all(&same)?;
        }
    }
    let mut png = SIGNATURE.to_vec();
    chunk(&mut png, *b"IHDR", &header);
    chunk(&mut png, *b"PLTE", palette.as_flattened());
    chunk(&mut png, *b"IDAT", &data.finish()?);
    chunk(&mut png, *b"IEND", &[]);
    Ok(png)
}

/// Length, name, content and the checksum over the last two.
fn chunk(png: &mut Vec<u8>, name: [u8; 4], content: &[u8]) {
    let mut sum = Crc::new();
    sum.update(&name);
    sum.update(content);
    png.extend((content.len() as u32).to_be_bytes());
    png.extend(name);
    png.extend(content);
    png.extend(sum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_picture_decodes_to_the_pixels_it_was_made_of() {
        let bands = [Band { height: 2, row: vec![0, 1, 0] }, Band { height: 1, row: vec![1, 1, 0] }];
        let png = encode(3, &[[255, 0, 0], [0, 0, 255]], &bands).unwrap();
        let mut rest = png.strip_prefix(&SIGNATURE).unwrap();
        let mut chunks = Vec::new();
        while let [a, b, c, d, tail @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (named, sum) = tail[..length + 8].split_at(length + 4);
            let mut check = Crc::new();
            check.update(named);
            assert_eq!(check.sum().to_be_bytes(), sum);
            chunks.push((named[..4].to_vec(), named[4..].to_vec()));
            rest = &tail[length + 8..];
        }
        let names: Vec<&[u8]> = chunks.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [&b"IHDR"[..], b"PLTE", b"IDAT", b"IEND"]);
        assert_eq!(chunks[0].1, [0, 0, 0, 3, 0, 0, 0, 3, 8, 3, 0, 0, 0]);
        let mut pixels = Vec::new();
        flate2::read::ZlibDecoder::new(chunks[2].1.as_slice()).read_to_end(&mut pixels).unwrap();
        assert_eq!(pixels, [[0, 0, 1, 0], [2, 0, 0, 0], [0, 1, 1, 0]].concat());
    }
}
