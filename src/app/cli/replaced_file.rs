//! A configuration that a command rewrites.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where the old file stays.
pub(super) fn backup(path: &Path) -> PathBuf {
    beside(path, ".bak")
}

/// Replaces the file at once, so that nobody reads half of it. The old one stays as a copy.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = beside(path, ".new");
    fs::copy(path, backup(path))?;
    fs::write(&temporary, text)?;
    fs::set_permissions(&temporary, fs::metadata(path)?.permissions())?;
    fs::rename(&temporary, path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
