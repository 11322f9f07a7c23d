//! A directory as it is, with changes in memory only: for commands that look at a ledger and leave it as it was.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, SystemDisk};

const PAGE: usize = 4096;

/// The directory and the changes to it.
pub struct Overlay {
    root: PathBuf,
    below: SystemDisk,
    /// Files that were deleted or moved away.
    gone: Mutex<BTreeSet<String>>,
    /// Files that were opened, with their changes.
    open: Mutex<BTreeMap<String, Arc<Changes>>>,
}

impl Overlay {
    /// The directory `root`, which must exist.
    #[must_use]
    pub fn new(root: &Path) -> Overlay {
        let below = SystemDisk::new(root);
        Overlay { root: root.to_owned(), below, gone: Mutex::default(), open: Mutex::default() }
    }

    fn hide(&self, name: &str) -> io::Result<()> {
        self.gone.lock().insert(name.to_owned());
        Ok(())
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the directory is only looked at")
}

impl Disk for Overlay {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = self.below.list(folder)?;
        let gone = self.gone.lock();
        let path = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        names.retain(|name| !gone.contains(&path(name)));
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        if self.gone.lock().contains(name) { Err(io::ErrorKind::NotFound.into()) } else { self.below.read(name) }
    }

    fn read_part(&self, name: &str, part: Range<u64>) -> io::Result<Vec<u8>> {
        if self.gone.lock().contains(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.below.read_part(name, part)
    }

    fn replace(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(read_only())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut open = self.open.lock();
        if let Some(changes) = open.get(name) {
            return Ok(Box::new(OverlayFile(Arc::clone(changes))));
        }
        let file = File::open(self.root.join(name))?;
        let length = file.metadata()?.len();
        let state = State { pages: BTreeMap::new(), length, unchanged: length };
        let changes = Arc::new(Changes { file, state: Mutex::new(state) });
        open.insert(name.to_owned(), Arc::clone(&changes));
        Ok(Box::new(OverlayFile(changes)))
    }

    fn rename(&self, from: &str, _: &str) -> io::Result<()> {
        self.hide(from)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.hide(name)
    }
}

#[derive(Debug)]
struct Changes {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    length: u64,
    /// Bytes of the file that are still in force where no page covers them.
    unchanged: u64,
}

impl Changes {
    /// A page with its changes.
    fn page(&self, state: &State, number: u64) -> io::Result<Box<[u8; PAGE]>> {
        if let Some(page) = state.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = Box::new([0; PAGE]);
        let start = number * PAGE as u64;
        let stored = state.unchanged.saturating_sub(start).min(PAGE as u64) as usize;
        if let Some(part) = page.get_mut(..stored) {
            self.file.read_exact_at(part, start)?;
        }
        Ok(page)
    }
}

/// The pages that a range touches: number, where the part in it begins and ends, and where it lies in the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let begin = (at % PAGE as u64) as usize;
        let count = (PAGE - begin).min(length - done);
        let part = (at / PAGE as u64, begin..begin + count, done..done + count);
        done += count;
        (count > 0).then_some(part)
    })
}

#[derive(Debug)]
struct OverlayFile(Arc<Changes>);

impl DiskFile for OverlayFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.state.lock().length)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.length()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.0.state.lock();
        if offset + bytes.len() as u64 > state.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if state.pages.is_empty() && offset + bytes.len() as u64 <= state.unchanged {
            return self.0.file.read_exact_at(bytes, offset);
        }
        for (number, within, of) in parts(offset, bytes.len()) {
            let page = self.0.page(&state, number)?;
            if let (Some(to), Some(from)) = (bytes.get_mut(of), page.get(within)) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        for (number, within, of) in parts(offset, bytes.len()) {
            let mut page = self.0.page(&state, number)?;
            if let (Some(to), Some(from)) = (page.get_mut(within), bytes.get(of)) {
                to.copy_from_slice(from);
            }
            state.pages.insert(number, page);
        }
        state.length = state.length.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if length < state.length {
            let kept = length.div_ceil(PAGE as u64);
            state.pages.retain(|number, _| *number < kept);
            let last = length / PAGE as u64;
            if let Some(rest) =
                state.pages.get_mut(&last).and_then(|page| page.get_mut((length % PAGE as u64) as usize..))
            {
                rest.fill(0);
            }
            state.unchanged = state.unchanged.min(length);
        }
        state.length = length;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_reads_like_a_changed_file_and_leaves_the_file_as_it_was() {
        let root = std::env::temp_dir().join(format!("pointsman-overlay-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let original: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
        std::fs::write(root.join("file"), &original).unwrap();
        let overlay = Overlay::new(&root);
        let mut model = original.clone();
        let file = overlay.open("file").unwrap();
        let mut dice = 7_u64;
        for _ in 0..400 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, kind) = ((dice >> 33) as usize % 12_000, (dice >> 20) % 4);
            if kind == 0 {
                file.set_length(at as u64).unwrap();
                model.resize(at, 0);
            } else {
                let bytes = vec![dice as u8; 1 + (dice >> 50) as usize % 5_000];
                file.write_at(at as u64, &bytes).unwrap();
                model.resize(model.len().max(at + bytes.len()), 0);
                model[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            let mut read = vec![1; model.len()];
            file.read_at(0, &mut read).unwrap();
            assert!(read == model);
        }
        assert_eq!(std::fs::read(root.join("file")).unwrap(), original);
        overlay.remove("file").unwrap();
        assert!(overlay.list("").unwrap().is_empty() && root.join("file").exists());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
