//! Whether files are left alone: half of a file is a configuration too, and hardly the one that was meant.
//!
//! A file is quiet when it has not changed for a while, by its own time or because it was looked at twice. Whoever
//! writes a file elsewhere and puts it in its place is waited for as well: nobody can tell the two apart.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// Longest time that files must be left alone before a reload that was asked for reads them.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pauses after which files that still change are given up.
const MOST_PAUSES: u32 = 20;

/// What tells two states of a file apart; `None` where there is no file.
type Stamp = Option<(Option<SystemTime>, u64)>;

/// Files that are waited for.
pub(super) struct Quiet {
    pause: Duration,
    pauses_left: u32,
    stamps: Vec<Stamp>,
}

impl Quiet {
    /// Calls files quiet that have been left alone for this long.
    pub(super) fn new(pause: Duration) -> Quiet {
        Quiet { pause, pauses_left: MOST_PAUSES, stamps: Vec::new() }
    }

    /// Waits until `files` are quiet; `false`: they never were.
    pub(super) async fn wait(&mut self, files: &[PathBuf]) -> bool {
        self.wait_for(|| stamps(files)).await
    }

    async fn wait_for(&mut self, read_stamps: impl AsyncFn() -> Vec<Stamp>) -> bool {
        self.stamps = read_stamps().await;
        while !self.stamps.iter().all(|stamp| self.is_old(stamp)) {
            let Some(left) = self.pauses_left.checked_sub(1) else { return false };
            self.pauses_left = left;
            actix_rt::time::sleep(self.pause).await;
            if self.is_unchanged(read_stamps().await) {
                return true;
            }
        }
        true
    }

    /// Whether `files` are as they were when last looked at.
    pub(super) async fn is_still(&mut self, files: &[PathBuf]) -> bool {
        let stamps = stamps(files).await;
        self.is_unchanged(stamps)
    }

    fn is_unchanged(&mut self, stamps: Vec<Stamp>) -> bool {
        let unchanged = stamps == self.stamps;
        self.stamps = stamps;
        unchanged
    }

    /// A modification time in the future says nothing: another clock wrote it.
    fn is_old(&self, stamp: &Stamp) -> bool {
        let Some((changed, _)) = stamp else { return true };
        let age = changed.and_then(|changed| changed.elapsed().ok());
        age.is_some_and(|age| age >= self.pause)
    }
}

/// Looks at the files on a thread that may wait for them.
async fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let files = files.to_vec();
    let stamp = |file: &PathBuf| fs::metadata(file).ok().map(|data| (data.modified().ok(), data.len()));
    let looked = actix_rt::task::spawn_blocking(move || files.iter().map(stamp).collect()).await;
    looked.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, path::Path};

    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(format!("{name}-{}", std::process::id()));
        fs::write(&path, "a").unwrap();
        path
    }

    #[actix_web::test]
    async fn a_file_that_was_left_alone_is_quiet_and_one_that_is_missing_too() {
        let path = file("quiet-alone");
        let files = [path.clone(), path.with_extension("missing")];
        let mut quiet = Quiet::new(Duration::from_millis(10));
        assert!(quiet.wait(&files).await);
        assert!(quiet.is_still(&files).await);
        fs::write(&path, "longer").unwrap();
        assert!(!quiet.is_still(&files).await);
        fs::remove_file(path).unwrap();
    }

    #[actix_web::test]
    async fn a_file_from_a_clock_that_is_ahead_is_quiet_when_it_stays_as_it_is() {
        let path = file("quiet-ahead");
        let ahead = SystemTime::now() + Duration::from_secs(3600);
        fs::File::options().append(true).open(&path).unwrap().set_modified(ahead).unwrap();
        assert!(Quiet::new(Duration::from_millis(10)).wait(std::slice::from_ref(&path)).await);
        fs::remove_file(path).unwrap();
    }

    #[actix_web::test]
    async fn a_file_that_never_stops_growing_is_given_up() {
        let length = Cell::new(0);
        let growing = async || {
            length.set(length.get() + 1);
            vec![Some((None, length.get()))]
        };
        assert!(!Quiet::new(Duration::from_millis(1)).wait_for(growing).await);
        assert_eq!(length.get(), u64::from(MOST_PAUSES) + 1);
    }

    #[actix_web::test]
    async fn a_file_that_grows_for_a_while_is_quiet_once_it_stops() {
        let length = Cell::new(0);
        let growing = async || {
            length.set(4.min(length.get() + 1));
            vec![Some((None, length.get()))]
        };
        assert!(Quiet::new(Duration::from_millis(1)).wait_for(growing).await);
    }
}
