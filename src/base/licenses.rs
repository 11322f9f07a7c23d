//! The licences of what is part of the program: its crates, and data of others.

/// Notices, the crates with their versions and licences, and the texts of these. `deploy/release licenses` writes it.
pub const TEXT: &str = include_str!("licenses.txt");
