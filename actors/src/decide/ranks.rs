//! The rows by rank, sorted as integers.
//!
//! An integer holds a rank up to twelve digits, then the position of its row. Integers sort several times faster than rows
//! do, and mostly nothing is left to be sorted after that; what is left, ties above all, is for `plan`.

use super::{
    plan::{best, place, settle},
    row::{Role, Row},
};

/// Bits that hold the position.
const POSITION: u64 = (1 << 12) - 1;
/// So far apart, two ranks differ by more than a tie.
const APART: u64 = 1 << 26;
/// Above every key: that of rows that take no part.
const OUT: u64 = u64::MAX;

/// The ranks of all rows.
pub(super) struct Ranks<'r, 'a> {
    rows: &'r [Row<'a>],
    keys: Vec<u64>,
    /// The two least keys of candidates without noise.
    calm: [u64; 2],
    /// Whether keys tell everything but ties: all positions fit, and nothing goes before a score.
    suffice: bool,
}

impl<'r, 'a> Ranks<'r, 'a> {
    /// Those of rows that have theirs. `by_score` tells that neither class nor probe goes before a score.
    pub(super) fn of(rows: &'r [Row<'a>], by_score: bool) -> Ranks<'r, 'a> {
        let (mut least, mut next) = (OUT, OUT);
        let ranked = |(position, row): (usize, &Row<'_>)| {
            if row.role == Role::Out {
                return OUT;
            }
            if row.role == Role::Candidate {
                let calm = key(row.calm, position as u64);
                (least, next) = (least.min(calm), next.min(least.max(calm)));
            }
            key(row.rank, position as u64)
        };
        let keys = rows.iter().enumerate().map(ranked).collect();
        Ranks { rows, keys, calm: [least, next], suffice: by_score && rows.len() as u64 <= POSITION }
    }

    /// The candidate that would be best without noise.
    pub(super) fn calm_best(&self) -> Option<&'r Row<'a>> {
        let [least, next] = self.calm;
        if self.suffice && least != OUT && next - least > APART {
            return self.row(least);
        }
        let candidates = self.rows.iter().filter(|row| row.role == Role::Candidate);
        best(candidates.map(|row| (row, row.calm)))
    }

    /// The rows that take part, in the order they are tried, of which so many may be.
    pub(super) fn ordered(&mut self, attempts: u32) -> Vec<&'r Row<'a>> {
        let (mut order, settled) = self.roughly_ordered();
        if settled {
            place(&mut order, attempts);
        } else {
            settle(&mut order, attempts);
        }
        order
    }

    /// The same by their keys; and whether that is their order already, because no two of them tie.
    fn roughly_ordered(&mut self) -> (Vec<&'r Row<'a>>, bool) {
        let playing = |row: &&Row<'_>| row.role != Role::Out;
        let Some(any) = self.rows.iter().find(playing).filter(|_| self.suffice) else {
            return (self.rows.iter().filter(playing).collect(), false);
        };
        self.keys.sort_unstable();
        self.keys.truncate(self.keys.partition_point(|key| *key != OUT));
        let settled = self.keys.iter().zip(self.keys.iter().skip(1)).all(|(key, next)| next - key > APART);
        (self.keys.iter().map(|key| self.row(*key).unwrap_or(any)).collect(), settled)
    }

    fn row(&self, key: u64) -> Option<&'r Row<'a>> {
        self.rows.get((key & POSITION) as usize)
    }
}

/// Of a rank that is never negative, whose bits sort as it does.
fn key(rank: f64, position: u64) -> u64 {
    rank.to_bits() & !POSITION | position
}
