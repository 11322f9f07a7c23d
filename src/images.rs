//! Images served by link: bytes of answers whose client asked for a `url` and whose provider gave none.
//!
//! A link is a capability: whoever knows its 128 random bits may read it until it expires. Memory is
//! bounded; the least recently used images go first.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;

/// The images held.
pub struct ImageFiles {
    lifetime: Duration,
    most_bytes: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    files: HashMap<String, (ImageFile, u64)>,
    /// Names by their last use.
    order: BTreeMap<u64, String>,
    /// Counts uses.
    uses: u64,
    bytes: usize,
}

/// One image.
#[derive(Debug, Clone)]
pub struct ImageFile {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its media type, such as `image/png`.
    pub media_type: &'static str,
    expires: Instant,
}

impl ImageFiles {
    /// Nothing yet, and these bounds.
    #[must_use]
    pub fn new(lifetime: Duration, most_bytes: usize) -> ImageFiles {
        ImageFiles { lifetime, most_bytes, held: Mutex::default() }
    }

    /// Keeps an image and gives its file name; `None` when it alone is over the bound.
    #[must_use]
    pub fn keep(&self, bytes: Bytes, now: Instant) -> Option<String> {
        if bytes.len() > self.most_bytes {
            return None;
        }
        let (extension, media_type) = kind(&bytes);
        let name = format!("{:032x}.{extension}", rand::random::<u128>());
        let mut held = self.held.lock();
        held.bytes += bytes.len();
        let turn = held.next_use();
        held.files.insert(name.clone(), (ImageFile { bytes, media_type, expires: now + self.lifetime }, turn));
        held.order.insert(turn, name.clone());
        held.forget(now, self.most_bytes);
        Some(name)
    }

    /// The image of that name, if it has not expired.
    #[must_use]
    pub fn find(&self, name: &str, now: Instant) -> Option<ImageFile> {
        let mut held = self.held.lock();
        let turn = held.next_use();
        let (file, last) = held.files.get_mut(name).filter(|(file, _)| now < file.expires)?;
        let (file, last) = (file.clone(), std::mem::replace(last, turn));
        if let Some(name) = held.order.remove(&last) {
            held.order.insert(turn, name);
        }
        Some(file)
    }

    /// How long a link is good for.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }
}

impl Held {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn forget(&mut self, now: Instant, most_bytes: usize) {
        while let Some(name) = self.order.values().next() {
            let expired = self.files.get(name).is_none_or(|(file, _)| now >= file.expires);
            if self.bytes <= most_bytes && !expired {
                return;
            }
            let name = self.order.pop_first().map(|(_, name)| name);
            if let Some((file, _)) = name.and_then(|name| self.files.remove(&name)) {
                self.bytes -= file.bytes.len();
            }
        }
    }
}

/// File extension and media type, by the first bytes.
fn kind(bytes: &[u8]) -> (&'static str, &'static str) {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => ("png", "image/png"),
        [0xff, 0xd8, ..] => ("jpg", "image/jpeg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ("webp", "image/webp"),
        [b'G', b'I', b'F', b'8', ..] => ("gif", "image/gif"),
        _ => ("bin", "application/octet-stream"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = &[0x89, b'P', b'N', b'G', 1, 2, 3, 4];

    #[test]
    fn an_image_is_served_until_it_expires() {
        let files = ImageFiles::new(Duration::from_secs(60), 1 << 20);
        let start = Instant::now();
        let name = files.keep(Bytes::from_static(PNG), start).unwrap();
        assert!(name.ends_with(".png"));
        assert_eq!(files.find(&name, start + Duration::from_secs(59)).unwrap().bytes, PNG);
        assert!(files.find(&name, start + Duration::from_secs(60)).is_none());
    }

    #[test]
    fn an_image_that_is_looked_at_outlives_one_that_is_not() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * PNG.len());
        let now = Instant::now();
        let keep = || files.keep(Bytes::from_static(PNG), now).unwrap();
        let (looked_at, forgotten) = (keep(), keep());
        assert!(files.find(&looked_at, now).is_some());
        let newest = keep();
        assert!(files.find(&forgotten, now).is_none());
        assert!(files.find(&looked_at, now).is_some() && files.find(&newest, now).is_some());
    }

    #[test]
    fn the_oldest_image_makes_room_for_the_newest() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * PNG.len());
        let now = Instant::now();
        let names: Vec<String> = (0..3).map(|_| files.keep(Bytes::from_static(PNG), now).unwrap()).collect();
        assert!(files.find(&names[0], now).is_none());
        assert!(files.find(&names[1], now).is_some());
        assert!(files.find(&names[2], now).is_some());
        assert!(files.keep(Bytes::from(vec![0; 100]), now).is_none());
    }
}
