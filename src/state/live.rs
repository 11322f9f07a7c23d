//! Subscribers of the live feed, and the events that a reconnecting one may have missed.
//!
//! This module only passes bytes on; `api` renders them, once a second for all subscribers together. A
//! subscriber whose queue is full is removed: it neither holds memory nor delays others.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Most subscribers.
pub const MOST_SUBSCRIBERS: usize = 32;
/// Frames that wait for one subscriber, one a second.
const QUEUE: usize = 8;
/// Events that are kept for a subscriber that comes back.
const KEPT: usize = 200;

/// The feed. One per process.
#[derive(Debug, Default)]
pub struct LiveFeed(Mutex<FeedState>);

#[derive(Debug, Default)]
struct FeedState {
    subscribers: Vec<mpsc::Sender<Bytes>>,
    is_rendering: bool,
    /// Renderings since the start.
    renderings: u64,
    last_id: u64,
    kept: VecDeque<(u64, Bytes)>,
}

/// A new subscription.
#[derive(Debug)]
pub struct Subscription {
    /// The frames; ends when the subscriber was too slow, or the gateway stops.
    pub frames: mpsc::Receiver<Bytes>,
    /// The events since the last one that the subscriber saw.
    pub missed: Vec<Bytes>,
    /// Whether the caller has to start rendering: nobody else does.
    pub starts_rendering: bool,
}

impl LiveFeed {
    /// Adds a subscriber that saw the event `seen` last; `None` if there is no room.
    pub fn subscribe(&self, seen: Option<u64>) -> Option<Subscription> {
        let mut state = self.0.lock();
        state.subscribers.retain(|subscriber| !subscriber.is_closed());
        if state.subscribers.len() >= MOST_SUBSCRIBERS {
            return None;
        }
        let (sender, frames) = mpsc::channel(QUEUE);
        state.subscribers.push(sender);
        let is_missed = |id: u64| seen.is_some_and(|seen| id > seen);
        let missed = state.kept.iter().filter(|(id, _)| is_missed(*id)).map(|(_, event)| event.clone()).collect();
        let starts_rendering = !std::mem::replace(&mut state.is_rendering, true);
        Some(Subscription { frames, missed, starts_rendering })
    }

    /// Whether somebody still listens. If nobody does, rendering has to end; the next subscriber starts it again.
    pub fn continues(&self) -> bool {
        let mut state = self.0.lock();
        state.subscribers.retain(|subscriber| !subscriber.is_closed());
        state.is_rendering = !state.subscribers.is_empty();
        if !state.is_rendering {
            // Events that happen while nobody listens are not rendered: what is kept would have a gap.
            state.kept.clear();
        }
        state.is_rendering
    }

    /// Renderings since the start, each for all subscribers of its second.
    pub fn renderings(&self) -> u64 {
        self.0.lock().renderings
    }

    /// Sends events with numbers of their own, and a last one that nobody needs later.
    pub fn send(&self, events: Vec<String>, last: &str) {
        let mut state = self.0.lock();
        state.renderings += 1;
        let mut frame = String::new();
        for event in events {
            state.last_id += 1;
            let numbered = format!("id: {}\n{event}", state.last_id);
            frame.push_str(&numbered);
            let id = state.last_id;
            state.kept.push_back((id, numbered.into()));
            if state.kept.len() > KEPT {
                state.kept.pop_front();
            }
        }
        frame.push_str(last);
        let frame = Bytes::from(frame);
        state.subscribers.retain(|subscriber| subscriber.try_send(frame.clone()).is_ok());
    }

    /// Ends all subscriptions.
    pub fn end(&self) {
        let mut state = self.0.lock();
        state.subscribers.clear();
        state.is_rendering = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_subscriber_is_removed_and_the_others_stay() {
        let feed = LiveFeed::default();
        let slow = feed.subscribe(None).unwrap();
        let mut fast = feed.subscribe(None).unwrap();
        assert_eq!((slow.starts_rendering, fast.starts_rendering), (true, false));
        for _ in 0..20 {
            feed.send(Vec::new(), "tick");
            assert_eq!(fast.frames.try_recv().unwrap(), "tick");
        }
        assert_eq!(feed.0.lock().subscribers.len(), 1);
        assert!(slow.frames.is_closed() && !fast.frames.is_closed());
    }

    #[test]
    fn there_is_room_for_32_and_rendering_ends_with_the_last() {
        let feed = LiveFeed::default();
        let mut all: Vec<_> = (0..MOST_SUBSCRIBERS).map(|_| feed.subscribe(None).unwrap()).collect();
        assert!(feed.subscribe(None).is_none() && feed.continues());
        all.pop();
        assert!(!feed.subscribe(None).unwrap().starts_rendering);
        all.clear();
        assert!(!feed.continues());
        assert!(feed.subscribe(None).unwrap().starts_rendering);
    }

    #[test]
    fn a_returning_subscriber_gets_what_it_missed_of_the_last_200() {
        let feed = LiveFeed::default();
        let _other = feed.subscribe(None).unwrap();
        feed.send((1..=300).map(|n| format!("data: {n}\n\n")).collect(), "");
        let missed = |seen| feed.subscribe(seen).unwrap().missed;
        assert_eq!(missed(Some(298)), ["id: 299\ndata: 299\n\n", "id: 300\ndata: 300\n\n"]);
        assert_eq!((missed(Some(1)).len(), missed(None).len()), (KEPT, 0));
    }
}
