//! The argument that names the configuration.

use std::path::PathBuf;

use clap::Args;

/// The configuration to read.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ConfigArgument {
    /// Configuration to read; default: ./config.toml if it exists, else the built-in one
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}
