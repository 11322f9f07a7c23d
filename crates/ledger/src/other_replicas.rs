//! Records of other replicas on a page together with those of this ledger.

use std::collections::BTreeMap;

use crate::{
    entry::{Entry, Key},
    page::Page,
    version_cache::VersionBytes,
};

/// A page of what replicas share.
#[derive(Debug, Default)]
pub struct ForeignPage {
    /// Newest first. May hold records that this ledger has too.
    pub entries: Vec<Entry>,
    /// Where to go on; `None` at the end.
    pub next: Option<Key>,
    /// Catalogs and policies that the records refer to, as bytes.
    pub versions: VersionBytes,
}

/// One page of two that were read by the same query. Nothing is given out that lies beyond the end of one of them, because
/// it could have a record in between.
pub fn merge(own: Page, foreign: Vec<Entry>, foreign_next: Option<Key>, limit: usize) -> Page {
    if foreign.is_empty() && foreign_next.is_none() {
        return own;
    }
    let end = own.next.max(foreign_next);
    let mut all: BTreeMap<Key, Entry> = foreign.into_iter().map(|entry| (entry.key(), entry)).collect();
    all.extend(own.entries.into_iter().map(|entry| (entry.key(), entry)));
    let mut entries: Vec<Entry> = all.into_values().rev().collect();
    entries.retain(|entry| end.is_none_or(|end| entry.key() >= end));
    let is_cut = entries.len() > limit;
    entries.truncate(limit);
    let next = if is_cut { entries.last().map(Entry::key) } else { end };
    Page { entries, next, ..own }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::entry::{Facts, Id};

    fn entry(at: i64) -> Entry {
        Entry { id: Id::new(at as u64, [1; 24]), created_ms: at, facts: Facts::default(), bytes: Vec::new() }
    }

    /// A page of at most `limit` of these, as a ledger gives it.
    fn page(all: &BTreeSet<i64>, after: Option<Key>, limit: usize) -> Page {
        let mut left =
            all.iter().rev().map(|at| entry(*at)).filter(|entry| after.is_none_or(|after| entry.key() < after));
        let entries: Vec<Entry> = left.by_ref().take(limit).collect();
        let next = left.next().and(entries.last()).map(Entry::key);
        Page { entries, next, ..Page::default() }
    }

    proptest! {
        #[test]
        fn pages_of_two_ledgers_show_every_record_once_and_the_newest_first(
            own in prop::collection::btree_set(0_i64..60, 0..40),
            foreign in prop::collection::btree_set(0_i64..60, 0..40),
            limit in 1_usize..9,
            foreign_limit in 1_usize..9,
        ) {
            let (mut shown, mut after) = (Vec::new(), None);
            loop {
                let Page { entries, next, .. } = page(&foreign, after, foreign_limit);
                let merged = merge(page(&own, after, limit), entries, next, limit);
                prop_assert!(merged.entries.len() <= limit);
                prop_assert!(merged.next.is_none_or(|next| after.is_none_or(|after| next < after)), "it goes on");
                shown.extend(merged.entries.iter().map(|entry| entry.created_ms));
                after = merged.next;
                if after.is_none() {
                    break;
                }
            }
            let mut all: Vec<i64> = own.union(&foreign).copied().collect();
            all.reverse();
            prop_assert_eq!(shown, all);
        }
    }
}
