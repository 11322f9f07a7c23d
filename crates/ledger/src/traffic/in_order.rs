//! Records in the order in which they were admitted, some thousand in memory at a time.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{
    block::TrafficRecord,
    reading::{Reading, Traffic, Wanted},
};
use crate::{entry::Filter, fault::Fault};

/// Records that are in memory together: about 80 MB. Those of one second always are.
const TOGETHER: u64 = 8_192;
const SECOND_MS: i64 = 1_000;

impl Traffic {
    /// Hands every record of the wanted time to `step`, in the order of admission, whatever else is wanted of records. Ends early
    /// when `stop` is set.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn in_order(
        &self,
        wanted: &Wanted,
        threads: usize,
        stop: &AtomicBool,
        mut step: impl FnMut(TrafficRecord),
    ) -> Result<Reading, Fault> {
        let Filter { since_ms, until_ms, .. } = wanted.filter;
        let within = |since_ms, until_ms| Wanted {
            filter: Filter { since_ms, until_ms, ..Filter::default() },
            ..Wanted::default()
        };
        let all = within(since_ms, until_ms);
        let count = |seconds: &mut BTreeMap<i64, u64>, record: TrafficRecord| {
            *seconds.entry(record.generation.created_ms.div_euclid(SECOND_MS)).or_default() += 1;
        };
        let (parts, reading) = self.fold(&all, threads, stop, BTreeMap::new, count)?;
        let mut seconds: BTreeMap<i64, u64> = BTreeMap::new();
        parts.into_iter().flatten().for_each(|(second, count)| *seconds.entry(second).or_default() += count);
        for slice in slices(&seconds) {
            if stop.load(Relaxed) {
                break;
            }
            let [first, last] = milliseconds(slice);
            let since = since_ms.unwrap_or(i64::MIN).max(first);
            let until = until_ms.unwrap_or(i64::MAX).min(last);
            let slice = within(Some(since), Some(until));
            let (parts, _) = self.fold(&slice, threads, stop, Vec::new, Vec::push)?;
            let mut records: Vec<TrafficRecord> = parts.into_iter().flatten().collect();
            let order = |record: &TrafficRecord| (record.generation.created_ms, record.generation.decision.tick);
            records.sort_by(|one, other| order(one).cmp(&order(other)).then_with(|| one.name.cmp(&other.name)));
            records.into_iter().take_while(|_| !stop.load(Relaxed)).for_each(&mut step);
        }
        Ok(reading)
    }
}

/// First and last second of each part of the time.
fn slices(seconds: &BTreeMap<i64, u64>) -> Vec<[i64; 2]> {
    let mut slices: Vec<([i64; 2], u64)> = Vec::new();
    for (&second, &count) in seconds {
        match slices.last_mut() {
            Some(([_, last], sum)) if *sum + count <= TOGETHER => (*last, *sum) = (second, *sum + count),
            _ => slices.push(([second; 2], count)),
        }
    }
    slices.into_iter().map(|(slice, _)| slice).collect()
}

/// The first and the last millisecond of seconds.
const fn milliseconds([first, last]: [i64; 2]) -> [i64; 2] {
    [first.saturating_mul(SECOND_MS), last.saturating_mul(SECOND_MS).saturating_add(SECOND_MS - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_hold_some_thousand_records_or_one_second() {
        let seconds = [(5, 4_000), (6, 4_000), (9, 4_000), (10, 50_000), (11, 1)];
        assert_eq!(slices(&seconds.into()), [[5, 6], [9, 9], [10, 10], [11, 11]]);
        assert!(slices(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn a_slice_holds_its_records_also_at_the_ends_of_time() {
        for at in [i64::MIN, -1, 0, 1_999, i64::MAX] {
            let [first, last] = milliseconds([at.div_euclid(SECOND_MS); 2]);
            assert!((first..=last).contains(&at), "{at}");
        }
    }
}
