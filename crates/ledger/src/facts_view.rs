//! [`Facts`](crate::entry::Facts) as `postcard` stores them, read where they lie.

use serde::Deserialize;

/// Facts as bytes. Every question reads them anew; nothing is copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FactsView<'a> {
    /// Of each label its field, its length and its text.
    labels: &'a [u8],
    /// Of each number its field and its value.
    numbers: &'a [u8],
}

impl<'a> FactsView<'a> {
    /// The view of stored facts, of which the numbers begin at `numbers_at`. Empty if these bytes are none.
    pub fn new(facts: &'a [u8], numbers_at: usize) -> FactsView<'a> {
        let Some((mut labels, mut numbers)) = facts.split_at_checked(numbers_at) else { return FactsView::default() };
        match (take::<u32>(&mut labels), take::<u32>(&mut numbers)) {
            (Some(_), Some(_)) => FactsView { labels, numbers },
            _ => FactsView::default(),
        }
    }

    /// All labels as they are stored: two entries with the same bytes have the same labels.
    pub const fn label_bytes(&self) -> &'a [u8] {
        self.labels
    }

    /// The labels, in order.
    pub fn labels(&self) -> impl Iterator<Item = (u8, &'a str)> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || take(&mut rest))
    }

    /// The numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = (u8, i64)> + use<'a> {
        let mut rest = self.numbers;
        std::iter::from_fn(move || take(&mut rest))
    }

    /// The first label of a field; empty if there is none.
    pub fn label(&self, field: u8) -> &'a str {
        self.labels().find(|(other, _)| *other == field).map_or("", |(_, text)| text)
    }
}

/// Takes a value from the beginning of what `postcard` wrote.
pub fn take<'a, T: Deserialize<'a>>(bytes: &mut &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    *bytes = rest;
    Some(value)
}
