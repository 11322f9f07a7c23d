//! Images served by link: bytes of answers whose client asked for a `url` and whose provider gave none.
//!
//! A link is a capability: whoever knows its 128 random bits may read it until it expires. Memory is
//! bounded; the images that were not looked at for longest go first.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;

/// Memory for the name of an image and its places in the lists, so that tiny images are counted too.
const BOOKKEEPING: usize = 256;

/// The images held.
pub struct ImageFiles {
    lifetime: Duration,
    most_bytes: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    files: HashMap<String, Entry>,
    /// Names in the order they came, which is also the order they expire in.
    by_age: BTreeMap<Turn, String>,
    /// Names in the order of their last use.
    by_use: BTreeMap<Turn, String>,
    bytes: usize,
    turn: Turn,
}

/// Counts uses.
type Turn = u64;

struct Entry {
    file: ImageFile,
    came: Turn,
    used: Turn,
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

    /// Keeps the images of one answer and gives their file names; `None` when together they are over the bound.
    #[must_use]
    pub fn keep(&self, images: Vec<Bytes>, now: Instant) -> Option<Vec<String>> {
        let room = images.iter().map(cost).sum::<usize>();
        if room > self.most_bytes {
            return None;
        }
        let mut held = self.held.lock();
        held.make_room(now, self.most_bytes - room);
        Some(images.into_iter().map(|bytes| held.add(bytes, now + self.lifetime)).collect())
    }

    /// The image of that name, if it has not expired.
    #[must_use]
    pub fn find(&self, name: &str, now: Instant) -> Option<ImageFile> {
        let mut held = self.held.lock();
        let Held { files, by_use, turn, .. } = &mut *held;
        let entry = files.get_mut(name).filter(|entry| now < entry.file.expires)?;
        *turn += 1;
        if let Some(name) = by_use.remove(&entry.used) {
            by_use.insert(*turn, name);
        }
        entry.used = *turn;
        Some(entry.file.clone())
    }

    /// How long a link is good for.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }
}

impl Held {
    fn add(&mut self, bytes: Bytes, expires: Instant) -> String {
        let (extension, media_type) = kind(&bytes).unwrap_or(("bin", "application/octet-stream"));
        let name = format!("{:032x}.{extension}", rand::random::<u128>());
        self.turn += 1;
        self.bytes += cost(&bytes);
        let file = ImageFile { bytes, media_type, expires };
        self.files.insert(name.clone(), Entry { file, came: self.turn, used: self.turn });
        self.by_age.insert(self.turn, name.clone());
        self.by_use.insert(self.turn, name.clone());
        name
    }

    /// Forgets what has expired, then the least recently used, until no more than `most` bytes are held.
    fn make_room(&mut self, now: Instant, most: usize) {
        let is_gone = |name: &String| self.files.get(name).is_none_or(|entry| now >= entry.file.expires);
        let expired: Vec<String> = self.by_age.values().take_while(|name| is_gone(name)).cloned().collect();
        for name in expired {
            self.forget(&name);
        }
        while self.bytes > most {
            let Some((_, name)) = self.by_use.pop_first() else { return };
            self.forget(&name);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(entry) = self.files.remove(name) {
            self.by_age.remove(&entry.came);
            self.by_use.remove(&entry.used);
            self.bytes -= cost(&entry.file.bytes);
        }
    }
}

fn cost(bytes: &Bytes) -> usize {
    bytes.len() + BOOKKEEPING
}

/// The media type of an image, by its first bytes; `None` for what is no image that browsers show.
#[must_use]
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
    const COST: usize = PNG.len() + BOOKKEEPING;

    fn keep(files: &ImageFiles, now: Instant) -> String {
        files.keep(vec![Bytes::from_static(PNG)], now).unwrap().remove(0)
    }

    #[test]
    fn an_image_is_served_until_it_expires() {
        let files = ImageFiles::new(Duration::from_secs(60), 1 << 20);
        let start = Instant::now();
        let name = keep(&files, start);
        assert!(name.ends_with(".png"));
        assert_eq!(files.find(&name, start + Duration::from_secs(59)).unwrap().bytes, PNG);
        assert!(files.find(&name, start + Duration::from_secs(60)).is_none());
    }

    #[test]
    fn the_image_nobody_looked_at_makes_room_for_the_newest() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * COST);
        let now = Instant::now();
        let (first, second) = (keep(&files, now), keep(&files, now));
        assert!(files.find(&first, now).is_some());
        let third = keep(&files, now);
        assert!(files.find(&second, now).is_none());
        assert!(files.find(&first, now).is_some());
        assert!(files.find(&third, now).is_some());
    }

    #[test]
    fn the_images_of_one_answer_are_all_kept_or_none() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * COST);
        let (now, images) = (Instant::now(), |count| vec![Bytes::from_static(PNG); count]);
        let before = keep(&files, now);
        assert!(files.keep(images(3), now).is_none());
        assert!(files.find(&before, now).is_some());
        let names = files.keep(images(2), now).unwrap();
        assert!(names.iter().all(|name| files.find(name, now).is_some()));
    }

    #[test]
    fn expired_images_leave_first_and_leave_nothing_behind() {
        let files = ImageFiles::new(Duration::from_secs(60), 2 * COST);
        let start = Instant::now();
        let old = keep(&files, start);
        let young = keep(&files, start + Duration::from_secs(30));
        assert!(files.find(&old, start + Duration::from_secs(59)).is_some());
        keep(&files, start + Duration::from_secs(61));
        assert!(files.find(&young, start + Duration::from_secs(61)).is_some());
        keep(&files, start + Duration::from_secs(1000));
        let held = files.held.lock();
        assert_eq!((held.files.len(), held.by_use.len(), held.by_age.len(), held.bytes), (1, 1, 1, COST));
    }
}
