//! Facts of the build, from the build script.

/// Version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit, or `unknown`.
pub const REVISION: &str = env!("POINTSMAN_BUILD_REVISION");
/// Date of the commit, or `unknown`.
pub const DATE: &str = env!("POINTSMAN_BUILD_REVISION_DATE");
/// Version of the compiler.
pub const RUSTC: &str = env!("POINTSMAN_BUILD_RUSTC");
/// Target triple.
pub const TARGET: &str = env!("POINTSMAN_BUILD_TARGET");
/// Features, separated by commas, or `unknown` without any.
pub const FEATURES: &str = env!("POINTSMAN_BUILD_FEATURES");

/// The version and the facts for `--version`, one a line.
pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("POINTSMAN_BUILD_REVISION"),
    "\ndate: ",
    env!("POINTSMAN_BUILD_REVISION_DATE"),
    "\nrustc: ",
    env!("POINTSMAN_BUILD_RUSTC"),
    "\ntarget: ",
    env!("POINTSMAN_BUILD_TARGET"),
    "\nfeatures: ",
    env!("POINTSMAN_BUILD_FEATURES"),
);
