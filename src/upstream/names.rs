//! NameCache to addresses, remembered for a while.
//!
//! The system's resolver blocks, cannot be called off and may take ten seconds where no name server answers. So it is
//! asked on threads of its own: a few at most, one per name at a time, each gone when there is nothing left to ask. An
//! answer serves all workers; one that is no longer new serves on while the next is fetched, so that a call waits only
//! for a name that nobody asked for lately.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::{Arc, LazyLock},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::shortage::{self, is_shortage};

/// For how long an answer is not asked for again. The system does not tell how long it holds; providers change their
/// addresses rarely, and leave the old ones running for longer than this.
const FRESH: Duration = Duration::from_secs(30);

/// For how long an answer may serve while no newer one comes.
const USABLE: Duration = Duration::from_secs(600);

/// The least time between two questions for a name that was not found, or whose addresses do not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// The same where it was we who lacked something. A descriptor may be free at any moment.
const SHORT_PAUSE: Duration = Duration::from_millis(50);

/// Most threads at a time.
const MOST_THREADS: usize = 8;

/// Most names that are remembered; the least recently used one goes first. Only the configuration names hosts.
const MOST_NAMES: usize = 1024;

/// Most addresses of a name.
const MOST_ADDRESSES: usize = 16;

type Addresses = Arc<[IpAddr]>;
type Lookup = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// What is known of names.
pub(super) struct NameCache {
    lookup: Lookup,
    board: Mutex<NameTable>,
}

#[derive(Default)]
struct NameTable {
    known: HashMap<Arc<str>, NameEntry>,
    /// NameCache that wait for a thread.
    waiting: VecDeque<Arc<str>>,
    threads: usize,
}

#[derive(Default)]
struct NameEntry {
    answer: Option<(Instant, Addresses)>,
    /// The failure that came last, if no answer came after it.
    failed: Option<(Instant, io::Error)>,
    /// When it was asked for last.
    asked: Option<Instant>,
    under_way: bool,
    used: Option<Instant>,
    told: Arc<Notify>,
}

/// How a name stands.
enum NameState {
    Known(Addresses),
    /// Serves while a newer answer is fetched.
    Aged(Addresses),
    Failed(io::Error),
    Unknown,
}

impl NameEntry {
    fn standing(&self, now: Instant) -> NameState {
        let within = |since: Instant, time: Duration| now.saturating_duration_since(since) < time;
        let answer = self.answer.as_ref().filter(|(at, _)| within(*at, USABLE));
        let pause = |error| if is_shortage(error) { SHORT_PAUSE } else { PAUSE };
        let failed = self.failed.as_ref().filter(|(at, error)| within(*at, pause(error)));
        match (answer, failed) {
            (Some((at, addresses)), _) if within(*at, FRESH) => NameState::Known(Arc::clone(addresses)),
            (Some((_, addresses)), Some(_)) => NameState::Known(Arc::clone(addresses)),
            (Some((_, addresses)), None) => NameState::Aged(Arc::clone(addresses)),
            (None, Some((_, error))) => NameState::Failed(again(error)),
            (None, None) => NameState::Unknown,
        }
    }
}

/// Those of the system, for all workers.
pub(super) fn system_names() -> Arc<NameCache> {
    static NAMES: LazyLock<Arc<NameCache>> = LazyLock::new(|| NameCache::new(Box::new(ask_system)));
    Arc::clone(&NAMES)
}

impl NameCache {
    fn new(lookup: Lookup) -> Arc<NameCache> {
        Arc::new(NameCache { lookup, board: Mutex::default() })
    }

    /// The addresses of `host`, which may be an address itself. Waits only where nothing usable is known.
    pub(super) async fn resolve(self: &Arc<Self>, host: &str) -> io::Result<Addresses> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Arc::new([address]));
        }
        loop {
            let told = {
                let mut board = self.board.lock();
                let (now, key) = (Instant::now(), board.key(host));
                let name = board.known.entry(Arc::clone(&key)).or_default();
                name.used = Some(now);
                match name.standing(now) {
                    NameState::Known(addresses) => return Ok(addresses),
                    NameState::Failed(error) => return Err(error),
                    NameState::Aged(addresses) => {
                        // Whether or not it can be asked for, this one serves.
                        let _ = self.ask(&mut board, &key);
                        return Ok(addresses);
                    }
                    NameState::Unknown => {
                        let told = Arc::clone(&name.told).notified_owned();
                        self.ask(&mut board, &key)?;
                        told
                    }
                }
            };
            told.await;
        }
    }

    /// Nobody answered at the addresses of `host`: asks whether it has others by now.
    pub(super) fn doubt(self: &Arc<Self>, host: &str) {
        let mut board = self.board.lock();
        let Some((key, name)) = board.known.get_key_value(host) else { return };
        if name.asked.is_none_or(|asked| asked.elapsed() >= PAUSE) {
            let key = Arc::clone(key);
            // The next call asks again.
            let _ = self.ask(&mut board, &key);
        }
    }

    /// Sees to it that `key` is looked up, unless it is already.
    fn ask(self: &Arc<Self>, board: &mut NameTable, key: &Arc<str>) -> io::Result<()> {
        let Some(name) = board.known.get_mut(key).filter(|name| !name.under_way) else { return Ok(()) };
        if board.threads == MOST_THREADS {
            board.waiting.push_back(Arc::clone(key));
        } else {
            let (names, first) = (Arc::clone(self), Arc::clone(key));
            thread::Builder::new().name("names".to_owned()).spawn(move || names.work(first))?;
            board.threads += 1;
        }
        (name.under_way, name.asked) = (true, Some(Instant::now()));
        Ok(())
    }

    /// What a thread does: one name after the other, until none waits.
    fn work(&self, first: Arc<str>) {
        let mut next = Some(first);
        while let Some(key) = next {
            let found = (self.lookup)(&key);
            let mut board = self.board.lock();
            board.note(&key, found);
            next = board.waiting.pop_front();
            if next.is_none() {
                board.threads -= 1;
            }
        }
    }
}

impl NameTable {
    /// The name as it is kept; makes room for one that is new.
    fn key(&mut self, host: &str) -> Arc<str> {
        if let Some((key, _)) = self.known.get_key_value(host) {
            return Arc::clone(key);
        }
        if self.known.len() >= MOST_NAMES {
            let idle = self.known.iter().filter(|(_, name)| !name.under_way);
            if let Some(oldest) = idle.min_by_key(|(_, name)| name.used).map(|(key, _)| Arc::clone(key)) {
                self.known.remove(&oldest);
            }
        }
        host.into()
    }

    fn note(&mut self, key: &str, found: io::Result<Vec<IpAddr>>) {
        let Some(name) = self.known.get_mut(key) else { return };
        name.under_way = false;
        let now = Instant::now();
        match found {
            Ok(mut addresses) => {
                addresses.truncate(MOST_ADDRESSES);
                (name.answer, name.failed) = (Some((now, addresses.into())), None);
            }
            Err(error) => name.failed = Some((now, error)),
        }
        name.told.notify_waiters();
    }
}

fn ask_system(name: &str) -> io::Result<Vec<IpAddr>> {
    match (name, 0).to_socket_addrs() {
        Ok(found) => Ok(found.map(|address| address.ip()).collect()),
        Err(error) => Err(shortage::current().unwrap_or(error)),
    }
}

/// The same error: one failure is told to everybody who waited.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use futures_util::future::join_all;
    use parking_lot::Condvar;

    use super::*;

    /// A resolver that counts, and that holds every question back until it is let go.
    #[derive(Default)]
    struct Played {
        asked: AtomicUsize,
        running: AtomicUsize,
        most: AtomicUsize,
        fails: Mutex<bool>,
        held: Mutex<bool>,
        moved: Condvar,
    }

    impl Played {
        fn names(self: &Arc<Self>) -> Arc<NameCache> {
            let played = Arc::clone(self);
            NameCache::new(Box::new(move |name| played.answer(name)))
        }

        fn answer(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let count = self.asked.fetch_add(1, Ordering::SeqCst);
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let mut held = self.held.lock();
            self.moved.wait_while(&mut held, |held| *held);
            self.running.fetch_sub(1, Ordering::SeqCst);
            if *self.fails.lock() || name == "nowhere.example" {
                return Err(io::Error::other("no such name"));
            }
            Ok(vec![Ipv4Addr::new(10, 0, 0, u8::try_from(count).unwrap_or(u8::MAX)).into()])
        }

        fn hold(&self, held: bool) {
            *self.held.lock() = held;
            self.moved.notify_all();
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    /// Waits until no thread is left.
    async fn quiet(names: &Arc<NameCache>) {
        let quiet = async {
            while names.board.lock().threads > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), quiet).await.expect("its threads end");
    }

    /// Makes what is known of a name older.
    fn age(names: &Arc<NameCache>, name: &str, by: Duration) {
        let mut board = names.board.lock();
        let name = board.known.get_mut(name).unwrap();
        if let Some((at, _)) = &mut name.answer {
            *at -= by;
        }
        if let Some((at, _)) = &mut name.failed {
            *at -= by;
        }
        name.asked = name.asked.map(|at| at - by);
    }

    fn last(addresses: &Addresses) -> String {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    #[actix_web::test]
    async fn a_name_is_looked_up_once_for_everybody_who_asks_at_the_time() {
        let played = Arc::new(Played::default());
        let names = played.names();
        let all = join_all((0..100).map(|_| names.resolve("api.example"))).await;
        assert!(all.iter().all(|found| last(found.as_ref().unwrap()) == "10.0.0.0"));
        assert_eq!(played.asked(), 1);
        assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.0");
        assert_eq!(played.asked(), 1, "it is remembered");
        quiet(&names).await;
    }

    #[actix_web::test]
    async fn an_address_is_not_looked_up() {
        let played = Arc::new(Played::default());
        let names = played.names();
        for address in ["127.0.0.1", "::1"] {
            assert_eq!(last(&names.resolve(address).await.unwrap()), address);
        }
        assert_eq!(played.asked(), 0);
    }

    #[actix_web::test]
    async fn an_aged_answer_serves_while_a_newer_one_is_fetched() {
        let played = Arc::new(Played::default());
        let names = played.names();
        names.resolve("api.example").await.unwrap();
        age(&names, "api.example", FRESH);
        played.hold(true);
        for _ in 0..10 {
            assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.0", "nobody waits");
        }
        played.hold(false);
        quiet(&names).await;
        assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.1");
        assert_eq!(played.asked(), 2);
    }

    #[actix_web::test]
    async fn an_answer_outlives_a_resolver_that_fails_but_not_for_ever() {
        let played = Arc::new(Played::default());
        let names = played.names();
        names.resolve("api.example").await.unwrap();
        *played.fails.lock() = true;
        age(&names, "api.example", FRESH);
        for _ in 0..10 {
            assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.0");
            quiet(&names).await;
        }
        assert_eq!(played.asked(), 2, "a failure is remembered too");
        age(&names, "api.example", USABLE);
        names.resolve("api.example").await.unwrap_err();
        assert_eq!(played.asked(), 3);
    }

    #[actix_web::test]
    async fn a_name_that_is_not_found_is_asked_for_again_after_a_pause() {
        let played = Arc::new(Played::default());
        let names = played.names();
        for _ in 0..10 {
            names.resolve("nowhere.example").await.unwrap_err();
        }
        assert_eq!(played.asked(), 1);
        age(&names, "nowhere.example", PAUSE);
        names.resolve("nowhere.example").await.unwrap_err();
        assert_eq!(played.asked(), 2);
        quiet(&names).await;
    }

    #[actix_web::test]
    async fn a_name_whose_addresses_do_not_answer_is_asked_for_again() {
        let played = Arc::new(Played::default());
        let names = played.names();
        names.resolve("api.example").await.unwrap();
        names.doubt("api.example");
        assert_eq!(played.asked(), 1, "it was asked for a moment ago");
        age(&names, "api.example", PAUSE);
        names.doubt("api.example");
        quiet(&names).await;
        assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.1");
    }

    #[actix_web::test]
    async fn a_resolver_that_hangs_holds_few_threads_and_leaves_none_behind() {
        let played = Arc::new(Played::default());
        let names = played.names();
        played.hold(true);
        let hosts: Vec<String> = (0..40).map(|number| format!("host{number}.example")).collect();
        for _ in 0..3 {
            // As a call does whose time to connect is over.
            let calls = join_all(hosts.iter().map(|host| names.resolve(host)));
            tokio::time::timeout(Duration::from_millis(20), calls).await.unwrap_err();
        }
        assert_eq!(names.board.lock().threads, MOST_THREADS);
        played.hold(false);
        assert!(join_all(hosts.iter().map(|host| names.resolve(host))).await.iter().all(Result::is_ok));
        quiet(&names).await;
        assert_eq!((played.asked(), played.most.load(Ordering::SeqCst)), (40, MOST_THREADS));
    }

    #[actix_web::test]
    async fn the_names_that_are_remembered_are_bounded() {
        let played = Arc::new(Played::default());
        let names = played.names();
        for number in 0..MOST_NAMES + 50 {
            names.resolve(&format!("host{number}.example")).await.unwrap();
        }
        let board = names.board.lock();
        assert_eq!(board.known.len(), MOST_NAMES);
        assert!(!board.known.contains_key("host0.example") && board.known.contains_key("host60.example"));
    }

    #[test]
    fn an_answer_wakes_callers_on_other_threads() {
        let played = Arc::new(Played::default());
        let (names, together) = (played.names(), Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    actix_rt::System::new().block_on(names.resolve("api.example")).unwrap();
                });
            }
        });
        assert_eq!(played.asked(), 1);
    }
}
