//! Waits until files are completely written, because a half-written file may be a valid configuration.
//!
//! A file is stable when its modification time is old enough, or when it did not change between two checks. A file that
//! was moved to its path is waited for too: it cannot be distinguished from one that is written in place.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// Upper limit of the time that files must be unchanged before they are read.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Pauses after which files that still change are given up.
const MAX_PAUSES: u32 = 20;

/// Modification time and length of a file; `None` when it does not exist.
type Stamp = Option<(Option<SystemTime>, u64)>;

/// Compares files with their state at the last check.
pub(super) struct StabilityCheck {
    pause: Duration,
    pauses_left: u32,
    stamps: Vec<Stamp>,
}

impl StabilityCheck {
    /// A check that calls files stable after `pause` without a change.
    pub(super) fn new(pause: Duration) -> StabilityCheck {
        StabilityCheck { pause, pauses_left: MAX_PAUSES, stamps: Vec::new() }
    }

    /// Waits until `files` are stable. `false` when they are given up.
    pub(super) async fn wait(&mut self, files: &[PathBuf]) -> bool {
        self.wait_until_stable(|| stamps(files)).await
    }

    async fn wait_until_stable(&mut self, read_stamps: impl AsyncFn() -> Vec<Stamp>) -> bool {
        self.stamps = read_stamps().await;
        while !self.stamps.iter().all(|stamp| self.is_old(stamp)) {
            let Some(left) = self.pauses_left.checked_sub(1) else { return false };
            self.pauses_left = left;
            actix_rt::time::sleep(self.pause).await;
            if self.update(read_stamps().await) {
                return true;
            }
        }
        true
    }

    /// Whether `files` are unchanged since the last check.
    pub(super) async fn is_unchanged(&mut self, files: &[PathBuf]) -> bool {
        let stamps = stamps(files).await;
        self.update(stamps)
    }

    /// Stores the new stamps. Returns whether they are equal to the old ones.
    fn update(&mut self, stamps: Vec<Stamp>) -> bool {
        let unchanged = stamps == self.stamps;
        self.stamps = stamps;
        unchanged
    }

    /// Whether the file is missing, or was modified at least one pause ago. A time in the future is not old.
    fn is_old(&self, stamp: &Stamp) -> bool {
        let Some((changed, _)) = stamp else { return true };
        let age = changed.and_then(|changed| changed.elapsed().ok());
        age.is_some_and(|age| age >= self.pause)
    }
}

/// Reads the stamps on a blocking thread.
async fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let files = files.to_vec();
    let stamp = |file: &PathBuf| fs::metadata(file).ok().map(|data| (data.modified().ok(), data.len()));
    let stamps = actix_rt::task::spawn_blocking(move || files.iter().map(stamp).collect()).await;
    stamps.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::write(&path, "a").unwrap();
        path
    }

    #[actix_web::test]
    async fn unchanged_and_missing_files_are_stable() {
        let path = file("stable-alone");
        let files = [path.clone(), path.with_extension("missing")];
        let mut check = StabilityCheck::new(Duration::from_millis(10));
        assert!(check.wait(&files).await);
        assert!(check.is_unchanged(&files).await);
        fs::write(&path, "longer").unwrap();
        assert!(!check.is_unchanged(&files).await);
        fs::remove_file(path).unwrap();
    }

    #[actix_web::test]
    async fn a_file_with_a_time_in_the_future_is_stable_when_it_does_not_change() {
        let path = file("stable-ahead");
        let ahead = SystemTime::now() + Duration::from_secs(3600);
        fs::File::options().append(true).open(&path).unwrap().set_modified(ahead).unwrap();
        assert!(StabilityCheck::new(Duration::from_millis(10)).wait(std::slice::from_ref(&path)).await);
        fs::remove_file(path).unwrap();
    }

    #[actix_web::test]
    async fn a_file_that_never_stops_growing_is_given_up() {
        let length = Cell::new(0);
        let growing = async || {
            length.set(length.get() + 1);
            vec![Some((None, length.get()))]
        };
        assert!(!StabilityCheck::new(Duration::from_millis(1)).wait_until_stable(growing).await);
        assert_eq!(length.get(), u64::from(MAX_PAUSES) + 1);
    }

    #[actix_web::test]
    async fn a_file_that_grows_for_a_while_is_stable_once_it_stops() {
        let length = Cell::new(0);
        let growing = async || {
            length.set(4.min(length.get() + 1));
            vec![Some((None, length.get()))]
        };
        assert!(StabilityCheck::new(Duration::from_millis(1)).wait_until_stable(growing).await);
    }
}
