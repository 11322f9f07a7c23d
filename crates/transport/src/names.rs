//! Resolves host names and caches the addresses.
//!
//! The system's resolver blocks, cannot be cancelled and may take ten seconds without a name server. So it runs on a few
//! threads of its own, which end when no lookup waits. Each name has at most one lookup at a time. All workers share the
//! cache. Aged addresses stay in use during a new lookup, so a call waits only for a name that was not used recently.

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

/// Age up to which addresses are used without a new lookup. The system does not report a TTL; providers change addresses
/// rarely, and the old ones work for longer than this.
const FRESH: Duration = Duration::from_secs(30);

/// Age up to which addresses are used while new lookups fail.
const USABLE: Duration = Duration::from_secs(600);

/// Least time between two lookups of a name that was not found, or whose addresses do not answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The same after a shortage of the gateway itself: a descriptor may become free at any time.
const SHORTAGE_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Most threads at once.
const MAX_THREADS: usize = 8;

/// Most names in the cache; the least recently used one is evicted. Only the configuration names hosts.
const MAX_NAMES: usize = 1024;

/// Most addresses of a name.
const MAX_ADDRESSES: usize = 16;

type Addresses = Arc<[IpAddr]>;
type Resolver = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Cache of host names and their addresses.
pub(super) struct NameCache {
    resolver: Resolver,
    table: Mutex<NameTable>,
}

#[derive(Default)]
struct NameTable {
    entries: HashMap<Arc<str>, NameEntry>,
    /// Names that wait for a thread.
    waiting: VecDeque<Arc<str>>,
    threads: usize,
}

#[derive(Default)]
struct NameEntry {
    answer: Option<(Instant, Addresses)>,
    /// The last failure, unless a lookup succeeded after it.
    failed: Option<(Instant, io::Error)>,
    /// Start of the last lookup.
    looked_up: Option<Instant>,
    /// Whether a lookup runs or waits for a thread.
    is_pending: bool,
    used: Option<Instant>,
    /// Notified when a lookup ends.
    finished: Arc<Notify>,
}

/// State of a name at a given time.
enum NameState {
    /// Usable, and no new lookup is due.
    Fresh(Addresses),
    /// Usable, but a new lookup is due.
    Aged(Addresses),
    Failed(io::Error),
    Unknown,
}

impl NameEntry {
    fn state(&self, now: Instant) -> NameState {
        let within = |since: Instant, time: Duration| now.saturating_duration_since(since) < time;
        let answer = self.answer.as_ref().filter(|(at, _)| within(*at, USABLE));
        let delay = |error| if is_shortage(error) { SHORTAGE_RETRY_DELAY } else { RETRY_DELAY };
        let failed = self.failed.as_ref().filter(|(at, error)| within(*at, delay(error)));
        match (answer, failed) {
            (Some((at, addresses)), _) if within(*at, FRESH) => NameState::Fresh(Arc::clone(addresses)),
            (Some((_, addresses)), Some(_)) => NameState::Fresh(Arc::clone(addresses)),
            (Some((_, addresses)), None) => NameState::Aged(Arc::clone(addresses)),
            (None, Some((_, error))) => NameState::Failed(copy(error)),
            (None, None) => NameState::Unknown,
        }
    }
}

/// The cache of the system's resolver, shared by all workers.
pub(super) fn system_names() -> Arc<NameCache> {
    static NAMES: LazyLock<Arc<NameCache>> = LazyLock::new(|| NameCache::new(Box::new(system_resolver)));
    Arc::clone(&NAMES)
}

impl NameCache {
    fn new(resolver: Resolver) -> Arc<NameCache> {
        Arc::new(NameCache { resolver, table: Mutex::default() })
    }

    /// The addresses of `host`, which may be an IP address itself. Waits only if the cache has no usable ones.
    pub(super) async fn resolve(self: &Arc<Self>, host: &str) -> io::Result<Addresses> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Arc::new([address]));
        }
        loop {
            let finished = {
                let mut table = self.table.lock();
                let (now, key) = (Instant::now(), table.key(host));
                let name = table.entries.entry(Arc::clone(&key)).or_default();
                name.used = Some(now);
                match name.state(now) {
                    NameState::Fresh(addresses) => return Ok(addresses),
                    NameState::Failed(error) => return Err(error),
                    NameState::Aged(addresses) => {
                        // A failure to start the lookup does not matter: these addresses are used anyway.
                        let _ = self.start_lookup(&mut table, &key);
                        return Ok(addresses);
                    }
                    NameState::Unknown => {
                        let finished = Arc::clone(&name.finished).notified_owned();
                        self.start_lookup(&mut table, &key)?;
                        finished
                    }
                }
            };
            finished.await;
        }
    }

    /// Starts a new lookup of `host`, because its addresses do not answer.
    pub(super) fn refresh(self: &Arc<Self>, host: &str) {
        let mut table = self.table.lock();
        let Some((key, name)) = table.entries.get_key_value(host) else { return };
        if name.looked_up.is_none_or(|at| at.elapsed() >= RETRY_DELAY) {
            let key = Arc::clone(key);
            // If the lookup cannot start, the next call tries again.
            let _ = self.start_lookup(&mut table, &key);
        }
    }

    /// Starts a lookup of `key`, unless one is pending.
    fn start_lookup(self: &Arc<Self>, table: &mut NameTable, key: &Arc<str>) -> io::Result<()> {
        let Some(name) = table.entries.get_mut(key).filter(|name| !name.is_pending) else { return Ok(()) };
        if table.threads == MAX_THREADS {
            table.waiting.push_back(Arc::clone(key));
        } else {
            let (names, first) = (Arc::clone(self), Arc::clone(key));
            thread::Builder::new().name("names".to_owned()).spawn(move || names.run_lookups(first))?;
            table.threads += 1;
        }
        (name.is_pending, name.looked_up) = (true, Some(Instant::now()));
        Ok(())
    }

    /// Runs lookups on this thread, one after the other, until none waits.
    fn run_lookups(&self, first: Arc<str>) {
        let mut next = Some(first);
        while let Some(key) = next {
            let found = (self.resolver)(&key);
            let mut table = self.table.lock();
            table.finish(&key, found);
            next = table.waiting.pop_front();
            if next.is_none() {
                table.threads -= 1;
            }
        }
    }
}

impl NameTable {
    /// The key of `host` in the table. Evicts a name if a new one needs room.
    fn key(&mut self, host: &str) -> Arc<str> {
        if let Some((key, _)) = self.entries.get_key_value(host) {
            return Arc::clone(key);
        }
        if self.entries.len() >= MAX_NAMES {
            let idle = self.entries.iter().filter(|(_, name)| !name.is_pending);
            if let Some(oldest) = idle.min_by_key(|(_, name)| name.used).map(|(key, _)| Arc::clone(key)) {
                self.entries.remove(&oldest);
            }
        }
        host.into()
    }

    fn finish(&mut self, key: &str, found: io::Result<Vec<IpAddr>>) {
        let Some(name) = self.entries.get_mut(key) else { return };
        name.is_pending = false;
        let now = Instant::now();
        match found {
            Ok(mut addresses) => {
                addresses.truncate(MAX_ADDRESSES);
                (name.answer, name.failed) = (Some((now, addresses.into())), None);
            }
            Err(error) => name.failed = Some((now, error)),
        }
        name.finished.notify_waiters();
    }
}

fn system_resolver(name: &str) -> io::Result<Vec<IpAddr>> {
    match (name, 0).to_socket_addrs() {
        Ok(found) => Ok(found.map(|address| address.ip()).collect()),
        Err(error) => Err(shortage::current().unwrap_or(error)),
    }
}

/// A copy of the error, because every waiting call gets it.
fn copy(error: &io::Error) -> io::Error {
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

    /// A resolver that counts its lookups and can block them.
    #[derive(Default)]
    struct ScriptedResolver {
        asked: AtomicUsize,
        running: AtomicUsize,
        most: AtomicUsize,
        fails: Mutex<bool>,
        held: Mutex<bool>,
        moved: Condvar,
    }

    impl ScriptedResolver {
        fn names(self: &Arc<Self>) -> Arc<NameCache> {
            let resolver = Arc::clone(self);
            NameCache::new(Box::new(move |name| resolver.answer(name)))
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
            while names.table.lock().threads > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), quiet).await.expect("its threads end");
    }

    /// Makes the entry of a name older.
    fn age(names: &Arc<NameCache>, name: &str, by: Duration) {
        let mut table = names.table.lock();
        let name = table.entries.get_mut(name).unwrap();
        if let Some((at, _)) = &mut name.answer {
            *at -= by;
        }
        if let Some((at, _)) = &mut name.failed {
            *at -= by;
        }
        name.looked_up = name.looked_up.map(|at| at - by);
    }

    fn last(addresses: &Addresses) -> String {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    #[actix_web::test]
    async fn concurrent_calls_for_a_name_share_one_lookup() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        let all = join_all((0..100).map(|_| names.resolve("api.example"))).await;
        assert!(all.iter().all(|found| last(found.as_ref().unwrap()) == "10.0.0.0"));
        assert_eq!(resolver.asked(), 1);
        assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.0");
        assert_eq!(resolver.asked(), 1, "it is cached");
        quiet(&names).await;
    }

    #[actix_web::test]
    async fn an_address_is_not_looked_up() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        for address in ["127.0.0.1", "::1"] {
            assert_eq!(last(&names.resolve(address).await.unwrap()), address);
        }
        assert_eq!(resolver.asked(), 0);
    }

    #[actix_web::test]
    async fn aged_addresses_are_used_during_a_new_lookup() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        names.resolve("api.example").await.unwrap();
        age(&names, "api.example", FRESH);
        resolver.hold(true);
        for _ in 0..10 {
            assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.0", "no call waits");
        }
        resolver.hold(false);
        quiet(&names).await;
        assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.1");
        assert_eq!(resolver.asked(), 2);
    }

    #[actix_web::test]
    async fn addresses_are_used_while_lookups_fail_but_not_for_ever() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        names.resolve("api.example").await.unwrap();
        *resolver.fails.lock() = true;
        age(&names, "api.example", FRESH);
        for _ in 0..10 {
            assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.0");
            quiet(&names).await;
        }
        assert_eq!(resolver.asked(), 2, "a failure is cached too");
        age(&names, "api.example", USABLE);
        names.resolve("api.example").await.unwrap_err();
        assert_eq!(resolver.asked(), 3);
    }

    #[actix_web::test]
    async fn an_unknown_name_is_looked_up_again_after_a_delay() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        for _ in 0..10 {
            names.resolve("nowhere.example").await.unwrap_err();
        }
        assert_eq!(resolver.asked(), 1);
        age(&names, "nowhere.example", RETRY_DELAY);
        names.resolve("nowhere.example").await.unwrap_err();
        assert_eq!(resolver.asked(), 2);
        quiet(&names).await;
    }

    #[actix_web::test]
    async fn a_name_whose_addresses_do_not_answer_is_looked_up_again() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        names.resolve("api.example").await.unwrap();
        names.refresh("api.example");
        assert_eq!(resolver.asked(), 1, "the last lookup was just now");
        age(&names, "api.example", RETRY_DELAY);
        names.refresh("api.example");
        quiet(&names).await;
        assert_eq!(last(&names.resolve("api.example").await.unwrap()), "10.0.0.1");
    }

    #[actix_web::test]
    async fn a_resolver_that_hangs_blocks_few_threads_and_leaves_none_behind() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        resolver.hold(true);
        let hosts: Vec<String> = (0..40).map(|number| format!("host{number}.example")).collect();
        for _ in 0..3 {
            // Like calls whose connect timeout expires.
            let calls = join_all(hosts.iter().map(|host| names.resolve(host)));
            tokio::time::timeout(Duration::from_millis(20), calls).await.unwrap_err();
        }
        assert_eq!(names.table.lock().threads, MAX_THREADS);
        resolver.hold(false);
        assert!(join_all(hosts.iter().map(|host| names.resolve(host))).await.iter().all(Result::is_ok));
        quiet(&names).await;
        assert_eq!((resolver.asked(), resolver.most.load(Ordering::SeqCst)), (40, MAX_THREADS));
    }

    #[actix_web::test]
    async fn the_cache_has_a_limited_number_of_names() {
        let resolver = Arc::new(ScriptedResolver::default());
        let names = resolver.names();
        for number in 0..MAX_NAMES + 50 {
            names.resolve(&format!("host{number}.example")).await.unwrap();
        }
        let table = names.table.lock();
        assert_eq!(table.entries.len(), MAX_NAMES);
        assert!(!table.entries.contains_key("host0.example") && table.entries.contains_key("host60.example"));
    }

    #[test]
    fn a_finished_lookup_wakes_callers_on_other_threads() {
        let resolver = Arc::new(ScriptedResolver::default());
        let (names, together) = (resolver.names(), Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    actix_rt::System::new().block_on(names.resolve("api.example")).unwrap();
                });
            }
        });
        assert_eq!(resolver.asked(), 1);
    }
}
