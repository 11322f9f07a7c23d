//! Watches the files of the configuration for changes.
//!
//! Directories are watched, not files: editors replace a file by a new one, and Kubernetes changes a symbolic link in
//! the path. So the directory of every file is watched, and the directory of every link in its path. A directory that
//! cannot be watched is logged; reloads by SIGHUP and by the admin endpoint still work.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use actix_rt::task::JoinHandle;
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::state::gateway::Shared;
use crate::state::reload_status::ReloadTrigger;

/// Symbolic links followed in one path. More indicate a loop.
const MAX_LINKS: usize = 40;
/// Pauses after which changes that do not end cause a reload anyway. The reload waits for stable files itself.
const MAX_PAUSES: u32 = 20;

/// Starts a task that reloads the configuration after one of its files changed. It ends with the gateway.
pub(crate) fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let files = shared.setup.load().config.files();
    if files.is_empty() {
        log::info!("the configuration comes from no file, so no file is watched");
    }
    if files.is_empty() || !shared.setup.load().config.reload.watch {
        return None;
    }
    let (sender, changes) = mpsc::channel(1);
    match FileWatcher::new(sender) {
        Ok(mut watcher) => {
            watcher.watch(&files);
            Some(actix_rt::spawn(reload_on_change(Arc::downgrade(shared), watcher, changes)))
        }
        Err(error) => {
            warn_unwatched(&error.to_string());
            None
        }
    }
}

fn warn_unwatched(why: &str) {
    log::warn!("changes of the configuration files are not detected: {why}; send SIGHUP to reload them");
}

async fn reload_on_change(shared: Weak<Shared>, mut watcher: FileWatcher, mut changes: mpsc::Receiver<()>) {
    while changes.recv().await.is_some() {
        let Some(shared) = shared.upgrade() else { return };
        debounce(&mut changes, shared.setup.load().config.reload.debounce).await;
        let files = super::reload(&shared, ReloadTrigger::File).await.1;
        watcher.watch(&files);
    }
}

/// Waits until no change arrives for `pause`.
async fn debounce(changes: &mut mpsc::Receiver<()>, pause: Duration) {
    for _ in 0..MAX_PAUSES {
        match actix_rt::time::timeout(pause, changes.recv()).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// The watched directories, and the file names in them whose changes are reported.
struct FileWatcher {
    watcher: RecommendedWatcher,
    directories: BTreeSet<PathBuf>,
    names: Arc<Mutex<BTreeSet<OsString>>>,
}

impl FileWatcher {
    fn new(sender: mpsc::Sender<()>) -> notify::Result<FileWatcher> {
        let names: Arc<Mutex<BTreeSet<OsString>>> = Arc::default();
        let known = Arc::clone(&names);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| is_relevant(&event, &known.lock())) {
                // A full channel means that a reload is due anyway.
                let _ = sender.try_send(());
            }
        })?;
        Ok(FileWatcher { watcher, directories: BTreeSet::new(), names })
    }

    /// Watches these files instead of the previous ones.
    fn watch(&mut self, files: &[PathBuf]) {
        let entries: BTreeSet<(PathBuf, OsString)> = files.iter().flat_map(|file| path_entries(file)).collect();
        let directories: BTreeSet<PathBuf> = entries.iter().map(|(directory, _)| directory.clone()).collect();
        *self.names.lock() = entries.into_iter().map(|(_, name)| name).collect();
        for unused in self.directories.difference(&directories) {
            // An error means that the directory was removed.
            let _ = self.watcher.unwatch(unused);
        }
        // Watched directories too: a directory may have been replaced by another with the same name.
        for directory in &directories {
            if let Err(error) = self.watcher.watch(directory, RecursiveMode::NonRecursive)
                && !self.directories.contains(directory)
            {
                warn_unwatched(&format!("{}: {error}", directory.display()));
            }
        }
        self.directories = directories;
    }
}

/// Whether the event changes one of `names`. Read accesses are ignored, because every reload causes them.
fn is_relevant(event: &Event, names: &BTreeSet<OsString>) -> bool {
    let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
    let read = matches!(event.kind, EventKind::Access(_)) && event.kind != written;
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| names.contains(name));
    event.need_rescan() || (!read && event.paths.iter().any(named))
}

/// Directory and name of every entry whose change can change the content of `path`: the file, and each link in its path.
fn path_entries(path: &Path) -> Vec<(PathBuf, OsString)> {
    let mut found = Vec::new();
    let mut directory = PathBuf::new();
    let mut remaining = reversed_components(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let mut links = 0;
    while let Some(name) = remaining.pop() {
        let next = directory.join(&name);
        let target = fs::read_link(&next).ok().filter(|_| links < MAX_LINKS);
        if target.is_some() || remaining.is_empty() {
            found.push((directory.clone(), name));
        }
        let Some(target) = target else {
            directory = next;
            continue;
        };
        links += 1;
        let absolute = if target.is_absolute() { target } else { directory.join(target) };
        remaining.extend(reversed_components(&absolute));
        directory = PathBuf::new();
    }
    found
}

/// The components of a path in reverse order. `..` removes the component before it.
fn reversed_components(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if parts.len() > 1 => {
                parts.pop();
            }
            Component::ParentDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                parts.push(component.as_os_str().to_owned());
            }
        }
    }
    parts.reverse();
    parts
}
