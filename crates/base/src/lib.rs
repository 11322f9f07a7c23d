//! What the crates of Pointsman with I/O share: the two clocks, and secrets that show themselves to nobody.

pub mod clock;
pub mod secret;
