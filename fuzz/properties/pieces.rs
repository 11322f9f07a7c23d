//! Cutting bytes into reads, as a network would: by chance, and always in the same way for the same bytes.

/// The bytes in pieces of mostly a few bytes, now and then many.
pub(crate) fn cut(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut dice = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let most = if dice >> 60 == 0 { 4096 } else { 9 };
        let length = 1 + ((dice >> 33) as usize % most);
        let (piece, later) = rest.split_at(length.min(rest.len()));
        pieces.push(piece.to_vec());
        rest = later;
    }
    pieces
}
