//! Images served by link, for clients that request a `url` from a provider that only returns bytes.
//!
//! A link needs no key: its name has 128 random bits, and it works until it expires. Memory is bounded; the least
//! recently used images are removed first.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes counted per image for its name and index entries, so that many tiny images cannot exceed the limit.
const OVERHEAD_BYTES: usize = 256;

/// The stored images.
pub struct ImageFiles {
    lifetime: Duration,
    max_bytes: usize,
    store: Mutex<ImageStore>,
}

#[derive(Default)]
struct ImageStore {
    files: HashMap<String, Entry>,
    /// Names in the order of creation, which is also the order of expiry.
    by_age: BTreeMap<Sequence, String>,
    /// Names in the order of their last use.
    by_use: BTreeMap<Sequence, String>,
    bytes: usize,
    sequence: Sequence,
}

/// Number of a creation or use.
type Sequence = u64;

struct Entry {
    file: ImageFile,
    created: Sequence,
    used: Sequence,
}

/// One image.
#[derive(Debug, Clone)]
pub struct ImageFile {
    /// Encoded image.
    pub bytes: Bytes,
    /// Media type, such as `image/png`.
    pub media_type: &'static str,
    expires: Instant,
}

impl ImageFiles {
    /// An empty store with these bounds.
    pub fn new(lifetime: Duration, max_bytes: usize) -> ImageFiles {
        ImageFiles { lifetime, max_bytes, store: Mutex::default() }
    }

    /// Stores the images of one answer and returns their file names; `None` when together they exceed the bound.
    pub fn insert(&self, images: Vec<Bytes>, now: Instant) -> Option<Vec<String>> {
        let size = images.iter().map(cost).sum::<usize>();
        if size > self.max_bytes {
            return None;
        }
        let mut store = self.store.lock();
        store.evict(now, self.max_bytes - size);
        Some(images.into_iter().map(|bytes| store.add(bytes, now + self.lifetime)).collect())
    }

    /// The image with this file name, if it has not expired.
    pub fn find(&self, name: &str, now: Instant) -> Option<ImageFile> {
        let mut store = self.store.lock();
        let ImageStore { files, by_use, sequence, .. } = &mut *store;
        let entry = files.get_mut(name).filter(|entry| now < entry.file.expires)?;
        *sequence += 1;
        if let Some(name) = by_use.remove(&entry.used) {
            by_use.insert(*sequence, name);
        }
        entry.used = *sequence;
        Some(entry.file.clone())
    }

    /// Time until a new link expires.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }
}

impl ImageStore {
    fn add(&mut self, bytes: Bytes, expires: Instant) -> String {
        let (extension, media_type) = kind(&bytes).unwrap_or(("bin", "application/octet-stream"));
        let name = format!("{:032x}.{extension}", rand::random::<u128>());
        self.sequence += 1;
        self.bytes += cost(&bytes);
        let file = ImageFile { bytes, media_type, expires };
        self.files.insert(name.clone(), Entry { file, created: self.sequence, used: self.sequence });
        self.by_age.insert(self.sequence, name.clone());
        self.by_use.insert(self.sequence, name.clone());
        name
    }

    /// Removes expired images, then the least recently used ones, until at most `limit` bytes are stored.
    fn evict(&mut self, now: Instant, limit: usize) {
        let is_expired = |name: &String| self.files.get(name).is_none_or(|entry| now >= entry.file.expires);
        let expired: Vec<String> = self.by_age.values().take_while(|name| is_expired(name)).cloned().collect();
        for name in expired {
            self.remove(&name);
        }
        while self.bytes > limit {
            let Some((_, name)) = self.by_use.pop_first() else { return };
            self.remove(&name);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(entry) = self.files.remove(name) {
            self.by_age.remove(&entry.created);
            self.by_use.remove(&entry.used);
            self.bytes -= cost(&entry.file.bytes);
        }
    }
}

fn cost(bytes: &Bytes) -> usize {
    bytes.len() + OVERHEAD_BYTES
}

/// The media type of an image by its first bytes; `None` when they are not an image format that browsers show.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    kind(bytes).map(|(_, media_type)| media_type)
}

/// File extension and media type.
fn kind(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some(("png", "image/png")),
        [0xff, 0xd8, 0xff, ..] => Some(("jpg", "image/jpeg")),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(("webp", "image/webp")),
        [b'G', b'I', b'F', b'8', ..] => Some(("gif", "image/gif")),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f' | b's', ..] => Some(("avif", "image/avif")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = &[0x89, b'P', b'N', b'G', 1, 2, 3, 4];
    const COST: usize = PNG.len() + OVERHEAD_BYTES;

    fn insert(files: &ImageFiles, now: Instant) -> String {
        files.insert(vec![Bytes::from_static(PNG)], now).unwrap().remove(0)
    }

    #[test]
    fn an_image_is_served_until_it_expires() {
        let files = ImageFiles::new(Duration::from_secs(60), 1 << 20);
        let start = Instant::now();
        let name = insert(&files, start);
        assert!(name.ends_with(".png"));
        assert_eq!(files.find(&name, start + Duration::from_secs(59)).unwrap().bytes, PNG);
        assert!(files.find(&name, start + Duration::from_secs(60)).is_none());
    }

    #[test]
    fn the_least_recently_used_image_is_removed_for_a_new_one() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * COST);
        let now = Instant::now();
        let (first, second) = (insert(&files, now), insert(&files, now));
        assert!(files.find(&first, now).is_some());
        let third = insert(&files, now);
        assert!(files.find(&second, now).is_none());
        assert!(files.find(&first, now).is_some());
        assert!(files.find(&third, now).is_some());
    }

    #[test]
    fn the_images_of_one_answer_are_stored_all_or_none() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * COST);
        let (now, images) = (Instant::now(), |count| vec![Bytes::from_static(PNG); count]);
        let before = insert(&files, now);
        assert!(files.insert(images(3), now).is_none());
        assert!(files.find(&before, now).is_some());
        let names = files.insert(images(2), now).unwrap();
        assert!(names.iter().all(|name| files.find(name, now).is_some()));
    }

    #[test]
    fn expired_images_are_removed_first_and_completely() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * COST);
        let start = Instant::now();
        let old = insert(&files, start);
        let young = insert(&files, start + Duration::from_secs(30));
        assert!(files.find(&old, start + Duration::from_secs(59)).is_some());
        insert(&files, start + Duration::from_secs(61));
        assert!(files.find(&young, start + Duration::from_secs(61)).is_some());
        insert(&files, start + Duration::from_secs(1000));
        let store = files.store.lock();
        assert_eq!((store.files.len(), store.by_use.len(), store.by_age.len(), store.bytes), (1, 1, 1, COST));
    }
}
