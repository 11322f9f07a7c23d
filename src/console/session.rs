//! Sessions of people who logged in, and the limit of wrong logins.
//!
//! A session is 256 random bits in a cookie. The server keeps the SHA-256 of them, so that a copy of its memory opens no
//! session, and the SHA-256 of the key: with each request the key is looked up again.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use actix_web::http::header::{self, HeaderMap};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::Transport;

/// Most sessions; a further one replaces the one that was idle longest.
const MAX_SESSIONS: usize = 64;
/// A session ends after this time without a request.
const MAX_IDLE: Duration = Duration::from_mins(30);
/// A session ends after this time.
const MAX_AGE: Duration = Duration::from_hours(8);
/// Wrong logins in [`LOGIN_WINDOW`], from everybody together, before no more key is checked.
const MAX_WRONG_LOGINS: usize = 5;
const LOGIN_WINDOW: Duration = Duration::from_mins(1);

/// All sessions of one listener.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By the SHA-256 of the text in the cookie.
    sessions: HashMap<[u8; 32], Session>,
    wrong_logins: VecDeque<Instant>,
    /// SHA-256 of the text that logs in once, and of the key that it logs in with.
    once: Option<([u8; 32], [u8; 32])>,
}

/// One session.
#[derive(Clone)]
pub(super) struct Session {
    /// SHA-256 of the administrator's key.
    pub(super) key: [u8; 32],
    /// Text that every form of the session contains.
    pub(super) form_token: String,
    began: Instant,
    used: Instant,
}

/// What a request says about the person behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// Somebody opened a page or sent a form.
    ByPerson,
    /// An open page refreshes itself.
    ByPage,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) > MAX_IDLE || now.duration_since(self.began) > MAX_AGE
    }
}

impl Sessions {
    /// Begins a session for the key with this SHA-256. Returns the text for the cookie.
    pub(super) fn begin(&self, key: [u8; 32], now: Instant) -> String {
        let (text, form_token) = (hex::encode(rand::random::<[u8; 32]>()), hex::encode(rand::random::<[u8; 16]>()));
        let mut table = self.0.lock();
        table.sessions.retain(|_, session| !session.is_over(now));
        if table.sessions.len() >= MAX_SESSIONS {
            let oldest = table.sessions.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| *id);
            oldest.and_then(|id| table.sessions.remove(&id));
        }
        table.sessions.insert(digest(&text), Session { key, form_token, began: now, used: now });
        text
    }

    /// The text with which one person may log in once, without the key of this SHA-256.
    pub(super) fn offer_once(&self, key: [u8; 32]) -> String {
        let text = hex::encode(rand::random::<[u8; 32]>());
        self.0.lock().once = Some((digest(&text), key));
        text
    }

    /// The SHA-256 of the key that this text logs in with. The text is used up.
    pub(super) fn take_once(&self, text: &str) -> Option<[u8; 32]> {
        let mut table = self.0.lock();
        let (offered, key) = table.once?;
        let is_it = offered == digest(text);
        is_it.then(|| {
            table.once = None;
            key
        })
    }

    /// The session with this text. Its idle time begins again, unless the page refreshes itself.
    pub(super) fn find(&self, text: &str, now: Instant, usage: Usage) -> Option<Session> {
        let mut table = self.0.lock();
        let id = digest(text);
        if table.sessions.get(&id)?.is_over(now) {
            table.sessions.remove(&id);
            return None;
        }
        let session = table.sessions.get_mut(&id)?;
        if usage == Usage::ByPerson {
            session.used = now;
        }
        Some(session.clone())
    }

    /// Ends the session with this text.
    pub(super) fn end(&self, text: &str) {
        self.0.lock().sessions.remove(&digest(text));
    }

    /// How long no key is checked, because too many logins were wrong.
    pub(super) fn login_pause(&self, now: Instant) -> Option<Duration> {
        let wrong = &mut self.0.lock().wrong_logins;
        while wrong.front().is_some_and(|at| now.duration_since(*at) >= LOGIN_WINDOW) {
            wrong.pop_front();
        }
        let first = wrong.front().filter(|_| wrong.len() >= MAX_WRONG_LOGINS)?;
        Some(LOGIN_WINDOW.saturating_sub(now.duration_since(*first)))
    }

    /// Counts a wrong login.
    pub(super) fn count_wrong_login(&self, now: Instant) {
        self.0.lock().wrong_logins.push_back(now);
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Transport {
    const fn cookie(self) -> &'static str {
        match self {
            Transport::Plain => "pointsman_console",
            Transport::Tls => "__Host-pointsman",
        }
    }

    const fn secure(self) -> &'static str {
        match self {
            Transport::Plain => "",
            Transport::Tls => "; Secure",
        }
    }

    /// The text of the session in the `Cookie` header.
    pub(super) fn session_text(self, headers: &HeaderMap) -> Option<&str> {
        let cookies = headers.get_all(header::COOKIE).filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie()).map(|(_, text)| text)
    }

    /// `Set-Cookie` of a session.
    pub(super) fn set_cookie(self, text: &str) -> String {
        format!("{}={text}{}; HttpOnly; SameSite=Strict; Path=/", self.cookie(), self.secure())
    }

    /// `Set-Cookie` that removes it.
    pub(super) fn remove_cookie(self) -> String {
        format!("{}; Max-Age=0", self.set_cookie(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_30_idle_minutes_and_after_8_hours() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let text = sessions.begin([1; 32], start);
        let step = Duration::from_mins(29);
        let mut now = start;
        while now.duration_since(start) + step <= MAX_AGE {
            now += step;
            assert!(sessions.find(&text, now, Usage::ByPerson).is_some(), "{:?}", now.duration_since(start));
        }
        assert!(sessions.find(&text, now + step, Usage::ByPerson).is_none(), "8 hours");
        let text = sessions.begin([1; 32], start);
        assert!(
            sessions.find(&text, start + MAX_IDLE + Duration::from_secs(1), Usage::ByPerson).is_none(),
            "30 idle minutes"
        );
        assert!(sessions.find(&text, start, Usage::ByPerson).is_none(), "it does not come back");
    }

    #[test]
    fn the_65th_session_replaces_the_one_idle_longest() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |second: usize| start + Duration::from_secs(second as u64);
        let texts: Vec<String> = (0..MAX_SESSIONS).map(|n| sessions.begin([1; 32], at(n))).collect();
        assert!(sessions.find(&texts[0], at(100), Usage::ByPerson).is_some());
        sessions.begin([1; 32], at(101));
        let alive: Vec<usize> =
            (0..MAX_SESSIONS).filter(|n| sessions.find(&texts[*n], at(102), Usage::ByPerson).is_some()).collect();
        assert_eq!((alive.len(), alive[0], alive[1]), (MAX_SESSIONS - 1, 0, 2));
    }

    #[test]
    fn a_text_that_logs_in_once_does_so_once() {
        let sessions = Sessions::default();
        assert_eq!(sessions.take_once(""), None);
        let text = sessions.offer_once([7; 32]);
        assert_eq!((sessions.take_once("other"), text.len()), (None, 64));
        assert_eq!((sessions.take_once(&text), sessions.take_once(&text)), (Some([7; 32]), None));
    }

    #[test]
    fn after_five_wrong_logins_in_a_minute_no_key_is_checked() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        for n in 0..5 {
            assert!(sessions.login_pause(start).is_none(), "{n}");
            sessions.count_wrong_login(start);
        }
        assert_eq!(sessions.login_pause(start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert!(sessions.login_pause(start + LOGIN_WINDOW).is_none());
    }

    #[test]
    fn the_cookie_is_secure_under_tls_and_is_read_among_others() {
        assert_eq!(Transport::Tls.set_cookie("x"), "__Host-pointsman=x; Secure; HttpOnly; SameSite=Strict; Path=/");
        assert_eq!(Transport::Plain.set_cookie("x"), "pointsman_console=x; HttpOnly; SameSite=Strict; Path=/");
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; pointsman_console=x; c=d".parse().unwrap());
        assert_eq!(Transport::Plain.session_text(&headers), Some("x"));
        assert_eq!(Transport::Tls.session_text(&headers), None);
    }
}
