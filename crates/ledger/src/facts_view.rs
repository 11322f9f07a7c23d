//! [`Facts`](crate::entry::Facts) as `postcard` stores them, read where they lie.

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
    #[must_use]
    pub fn new(facts: &'a [u8], numbers_at: usize) -> FactsView<'a> {
        let Some((mut labels, mut numbers)) = facts.split_at_checked(numbers_at) else { return FactsView::default() };
        match (take_number(&mut labels), take_number(&mut numbers)) {
            (Some(_), Some(_)) => FactsView { labels, numbers },
            _ => FactsView::default(),
        }
    }

    /// Where the numbers begin in stored facts. `None` if these bytes are none.
    #[must_use]
    pub fn numbers_at(facts: &[u8]) -> Option<usize> {
        let mut rest = facts;
        for _ in 0..take_number(&mut rest)? {
            take_label(&mut rest)?;
        }
        Some(facts.len() - rest.len())
    }

    /// All labels as they are stored: two entries with the same bytes have the same labels.
    #[must_use]
    pub const fn label_bytes(&self) -> &'a [u8] {
        self.labels
    }

    /// The labels, in order.
    pub fn labels(&self) -> impl Iterator<Item = (u8, &'a str)> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            let (field, text) = take_label(&mut rest)?;
            Some((field, str::from_utf8(text).ok()?))
        })
    }

    /// The numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = (u8, i64)> + use<'a> {
        let mut rest = self.numbers;
        std::iter::from_fn(move || {
            let field = *rest.split_off_first()?;
            let number = take_number(&mut rest)?;
            Some((field, (number >> 1).cast_signed() ^ -(number & 1).cast_signed()))
        })
    }

    /// The first label of a field; empty if there is none.
    #[must_use]
    pub fn label(&self, field: u8) -> &'a str {
        let mut rest = self.labels;
        let mut labels = std::iter::from_fn(move || take_label(&mut rest));
        let text = labels.find(|(other, _)| *other == field).and_then(|(_, text)| str::from_utf8(text).ok());
        text.unwrap_or_default()
    }

    /// The first number of a field; 0 if there is none.
    #[must_use]
    pub fn number(&self, field: u8) -> i64 {
        self.numbers().find(|(other, _)| *other == field).map_or(0, |(_, number)| number)
    }
}

/// Reads a label: its field and its text.
fn take_label<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let field = *bytes.split_off_first()?;
    let length = usize::try_from(take_number(bytes)?).ok()?;
    Some((field, bytes.split_off(..length)?))
}

/// Reads what [`put_number`] wrote.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends a number as `postcard` does: seven bits a byte, the lowest first.
#[inline]
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The same with the sign in the lowest bit.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number.wrapping_shl(1) ^ (number >> 63)).cast_unsigned());
}
