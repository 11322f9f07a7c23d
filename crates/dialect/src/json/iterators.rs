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
        Some((key, cursor.checked_value()?))
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
        cursor.checked_value()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f32>().prop_map(|number| Value::from(f64::from(number))),
            ".*".prop_map(Value::from),
            r#"["\\\[\]{},:]{0,40}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 60, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".{0,20}", inner, 0..8).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// The value again, read member by member and element by element.
    fn read(raw: Raw<'_>) -> Value {
        if raw.is_object() {
            raw.members().map(|(key, value)| (key.text().unwrap().into_owned(), read(value))).collect()
        } else if raw.is_array() {
            raw.elements().map(read).collect()
        } else {
            serde_json::from_str(raw.written()).unwrap()
        }
    }

    proptest! {
        #[test]
        fn members_and_elements_are_those_of_the_value(value in json(), pretty in any::<bool>()) {
            let text =
                if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let mut cursor = Cursor::new(&text);
            prop_assert_eq!(read(cursor.value().unwrap()), serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
