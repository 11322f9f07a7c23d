//! What is exchanged with PostgreSQL, and rows that it refuses.

use std::{sync::Arc, time::Duration};

use pointsman_ledger::generations::GenerationStore;

use crate::{access::registry::Registry, state::replicas::status::StoreStatus};

/// What is exchanged.
pub struct Sources {
    /// Name of this replica.
    pub node: String,
    /// Keys and accounts.
    pub registry: Arc<Registry>,
    /// Records.
    pub ledger: Arc<GenerationStore>,
    /// Called when records were deleted by an administrator of any replica.
    pub deleted: Box<dyn Fn(Deletion) + Send + Sync>,
    /// Age at which records are deleted.
    pub max_age: Duration,
    /// Time between two exchanges.
    pub every: Duration,
    /// State of PostgreSQL.
    pub status: Arc<StoreStatus>,
}

/// A deletion of records by an administrator.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Only those admitted before this time, Unix milliseconds. Records that came after the administrator's call are not meant.
    pub before_ms: i64,
    /// Only those of this account.
    pub owner: Option<u64>,
}

/// Rows in pieces. A piece that is refused because of a value in it is halved, so that a bad row is left out alone.
pub struct Pieces<'a, T>(Vec<&'a [T]>);

impl<'a, T> Pieces<'a, T> {
    /// All rows as one piece; no piece without rows.
    pub fn of(rows: &'a [T]) -> Pieces<'a, T> {
        Pieces(if rows.is_empty() { Vec::new() } else { vec![rows] })
    }

    /// Takes the next piece, in the order of the rows.
    pub fn take(&mut self) -> Option<&'a [T]> {
        self.0.pop()
    }

    /// Puts the halves of a piece back that was refused. Gives the row if the piece is that row alone.
    pub fn halve(&mut self, piece: &'a [T]) -> Option<&'a T> {
        if let [row] = piece {
            return Some(row);
        }
        let (first, second) = piece.split_at_checked(piece.len() / 2)?;
        self.0.extend([second, first]);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_beside_a_bad_one_are_taken_in_their_order() {
        let rows: Vec<u32> = (0..1_000).collect();
        let (mut pieces, mut asked) = (Pieces::of(&rows), 0);
        let (mut taken, mut refused): (Vec<u32>, Vec<&u32>) = Default::default();
        while let Some(piece) = pieces.take() {
            asked += 1;
            match piece.contains(&0) || piece.contains(&617) {
                true => refused.extend(pieces.halve(piece)),
                false => taken.extend_from_slice(piece),
            }
        }
        assert_eq!(refused, [&0, &617]);
        assert_eq!(taken, (1..1_000).filter(|row| *row != 617).collect::<Vec<_>>());
        assert!(asked < 50, "{asked}");
    }
}
