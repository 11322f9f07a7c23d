//! The members of a checked object and the elements of a checked array.

use super::{cursor::Cursor, raw::Raw};

impl<'a> Raw<'a> {
    /// Keys and values of an object; nothing for anything else.
    pub(crate) fn members(self) -> Members<'a> {
        let cursor = self.is_object().then(|| Cursor::inside(self));
        Members { cursor, first: true }
    }

    /// The value of an object's member, the last if there are several.
    pub(crate) fn member(self, name: &[u8]) -> Option<Raw<'a>> {
        self.members().filter(|(key, _)| *key.name() == *name).last().map(|(_, value)| value)
    }

    /// The values of several members in one pass, which is cheaper than one [`Raw::member`] each.
    pub(crate) fn pick<const N: usize>(self, names: [&[u8]; N]) -> [Option<Raw<'a>>; N] {
        let mut found = [None; N];
        for (key, value) in self.members() {
            let key = key.name();
            for (name, found) in names.iter().zip(&mut found) {
                if **name == *key {
                    *found = Some(value);
                }
            }
        }
        found
    }

    /// Elements of an array; nothing for anything else.
    pub(crate) fn elements(self) -> Elements<'a> {
        let cursor = self.is_array().then(|| Cursor::inside(self));
        Elements { cursor, first: true }
    }
}

/// The members of a checked object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    cursor: Option<Cursor<'a>>,
    first: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    fn next(&mut self) -> Option<(Raw<'a>, Raw<'a>)> {
        // No error is possible, because the value has been checked.
        let cursor = self.cursor.as_mut()?;
        let key = cursor.key(&mut self.first).ok()??;
        Some((key, cursor.value().ok()?))
    }
}

/// The elements of a checked array.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    cursor: Option<Cursor<'a>>,
    first: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let cursor = self.cursor.as_mut()?;
        cursor.element(&mut self.first).ok().filter(|more| *more)?;
        cursor.value().ok()
    }
}
