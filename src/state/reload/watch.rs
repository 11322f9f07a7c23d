//! Noticing that a file of the configuration changed.
//!
//! Directories are watched, not files: editors put a new file in the place of the old one, and Kubernetes turns a link
//! in the directory above. So for every file the place of its name counts, and the place of every link on the way to
//! it. Where directories cannot be watched the log says so; SIGHUP and the admin endpoint work all the same.

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

/// Links followed on the way to one file; more are a circle.
const MOST_LINKS: usize = 40;
/// Changes that never end are told after so many pauses: reading waits for files that are left alone by itself.
const MOST_PAUSES: u32 = 20;

/// Reads the configuration again whenever one of its files was changed and then left alone. Ends with the gateway.
pub(crate) fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let files = shared.setup.load().config.files();
    if files.is_empty() {
        log::info!("the configuration comes from no file: there is nothing to watch");
    }
    if files.is_empty() || !shared.setup.load().config.reload.watch {
        return None;
    }
    let (tell, told) = mpsc::channel(1);
    match Watched::new(tell) {
        Ok(mut watched) => {
            watched.aim(&files);
            Some(actix_rt::spawn(follow(Arc::downgrade(shared), watched, told)))
        }
        Err(error) => {
            unwatched(&error.to_string());
            None
        }
    }
}

fn unwatched(why: &str) {
    log::warn!("changes of the configuration are not noticed by themselves: {why}; SIGHUP makes it be read again");
}

async fn follow(shared: Weak<Shared>, mut watched: Watched, mut told: mpsc::Receiver<()>) {
    while told.recv().await.is_some() {
        let Some(shared) = shared.upgrade() else { return };
        calm(&mut told, shared.setup.load().config.reload.debounce).await;
        let files = super::reload(&shared, ReloadTrigger::File).await.1;
        watched.aim(&files);
    }
}

/// Waits until nothing more was told for so long.
async fn calm(told: &mut mpsc::Receiver<()>, pause: Duration) {
    for _ in 0..MOST_PAUSES {
        match actix_rt::time::timeout(pause, told.recv()).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// The directories that are watched, and the names in them that count.
struct Watched {
    watcher: RecommendedWatcher,
    directories: BTreeSet<PathBuf>,
    names: Arc<Mutex<BTreeSet<OsString>>>,
}

impl Watched {
    fn new(tell: mpsc::Sender<()>) -> notify::Result<Watched> {
        let names: Arc<Mutex<BTreeSet<OsString>>> = Arc::default();
        let known = Arc::clone(&names);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| counts(&event, &known.lock())) {
                // When one is waiting already, this change will be read with it.
                let _ = tell.try_send(());
            }
        })?;
        Ok(Watched { watcher, directories: BTreeSet::new(), names })
    }

    /// Watches the places of these files, and no others.
    fn aim(&mut self, files: &[PathBuf]) {
        let places: BTreeSet<(PathBuf, OsString)> = files.iter().flat_map(|file| places(file)).collect();
        let directories: BTreeSet<PathBuf> = places.iter().map(|(directory, _)| directory.clone()).collect();
        *self.names.lock() = places.into_iter().map(|(_, name)| name).collect();
        for gone in self.directories.difference(&directories) {
            // A directory that was removed is no longer watched anyway.
            let _ = self.watcher.unwatch(gone);
        }
        // Known ones too: one of that name may have taken the place of the one that was watched.
        for directory in &directories {
            if let Err(error) = self.watcher.watch(directory, RecursiveMode::NonRecursive)
                && !self.directories.contains(directory)
            {
                unwatched(&format!("{}: {error}", directory.display()));
            }
        }
        self.directories = directories;
    }
}

/// Whether something was done to one of `names`. Reading is not: we read them ourselves.
fn counts(event: &Event, names: &BTreeSet<OsString>) -> bool {
    let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
    let read = matches!(event.kind, EventKind::Access(_)) && event.kind != written;
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| names.contains(name));
    event.need_rescan() || (!read && event.paths.iter().any(named))
}

/// Where a change would bring other content to `path`: the file's own directory, and that of every link on the way.
fn places(path: &Path) -> Vec<(PathBuf, OsString)> {
    let mut found = Vec::new();
    let mut at = PathBuf::new();
    let mut ahead = parts(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        let next = at.join(&part);
        let target = fs::read_link(&next).ok().filter(|_| links < MOST_LINKS);
        if target.is_some() || ahead.is_empty() {
            found.push((at.clone(), part));
        }
        let Some(target) = target else {
            at = next;
            continue;
        };
        links += 1;
        let whole = if target.is_absolute() { target } else { at.join(target) };
        ahead.extend(parts(&whole));
        at = PathBuf::new();
    }
    found
}

/// The parts of a path, the first one last; `..` takes its directory away.
fn parts(path: &Path) -> Vec<OsString> {
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
