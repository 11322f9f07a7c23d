//! The members of a checked object and the elements of a checked array.

use std::borrow::Cow;

use super::{cursor::Cursor, raw::Raw};

impl<'a> Raw<'a> {
    /// Keys and values of an object; nothing for anything else.
    pub(crate) fn members(self) -> Members<'a> {
        Members { cursor: Cursor::inside(self), first: true, is_open: self.is_object() }
    }

    /// The value of an object's member, the last if there are several.
    pub(crate) fn member(self, name: &[u8]) -> Option<Raw<'a>> {
        self.members().filter(|(key, _)| *key.name() == *name).last().map(|(_, value)| value)
    }

    /// The text of the member `type`.
    pub(crate) fn kind(self) -> Option<Cow<'a, str>> {
        self.member(b"type").and_then(Raw::text)
    }

    /// The elements of the array in a member; nothing if there is none.
    pub(crate) fn elements_of(self, name: &[u8]) -> impl Iterator<Item = Raw<'a>> {
        self.member(name).into_iter().flat_map(Raw::elements)
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

    /// The objects in an array, to be read in place; nothing for anything else.
    pub(crate) fn objects(self) -> Objects<'a> {
        let members = Members { cursor: Cursor::inside(self), first: true, is_open: false };
        Objects { members, passed: 0, is_open: self.is_array() }
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
    cursor: Cursor<'a>,
    first: bool,
    is_open: bool,
}

impl Members<'_> {
    /// Whether these are of an object of which the end was not reached.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    fn next(&mut self) -> Option<(Raw<'a>, Raw<'a>)> {
        if !self.is_open {
            return None;
        }
        // No error is possible, because the value has been checked.
        let key = self.cursor.key(&mut self.first).ok().flatten();
        self.is_open = key.is_some();
        Some((key?, self.cursor.checked_value()?))
    }
}

/// The elements of a checked array, of which objects are read in place: each of their bytes is passed once.
#[derive(Debug)]
pub(crate) struct Objects<'a> {
    members: Members<'a>,
    passed: usize,
    is_open: bool,
}

impl<'a> Objects<'a> {
    /// The position of the next element and its members; none, if it is no object. Members of the one before that were not
    /// read are passed over.
    pub(crate) fn next_object(&mut self) -> Option<(usize, &mut Members<'a>)> {
        self.members.by_ref().for_each(drop);
        let Members { cursor, first, is_open } = &mut self.members;
        self.is_open = self.is_open && cursor.element(&mut (self.passed == 0)).is_ok_and(|more| more);
        if !self.is_open {
            return None;
        }
        (*first, *is_open) = (true, cursor.peek() == Ok(b'{'));
        if *is_open { cursor.pass_byte(b'{').ok() } else { cursor.checked_value().map(drop) }?;
        self.passed += 1;
        Some((self.passed - 1, &mut self.members))
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

    #[test]
    fn objects_are_read_in_place_and_what_is_left_of_one_is_passed_over() {
        let text = r#"[{"a":[{"b":1}],"c":{}} , {}, "x", [{"d":2}], {"e":3 , "f":[]}]"#;
        let mut objects = Cursor::new(text).value().unwrap().objects();
        let mut names = Vec::new();
        while let Some((place, members)) = objects.next_object() {
            let is_object = members.is_open();
            names.push((place, is_object, members.next().map(|(key, _)| key.inner_text())));
        }
        let expected =
            [(0, true, Some("a")), (1, true, None), (2, false, None), (3, false, None), (4, true, Some("e"))];
        assert_eq!(names, expected);
        assert!(Cursor::new("{}").value().unwrap().objects().next_object().is_none());
        assert!(Cursor::new("[ ]").value().unwrap().objects().next_object().is_none());
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
