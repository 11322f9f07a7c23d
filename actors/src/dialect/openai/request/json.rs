//! Small JSON values, read with their path: what they are, and the 400 for what they should have been.
//!
//! For fields that are short and read whole. The prompt itself is never read this way; it goes by in one
//! pass through [`super::shape`].

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{fault, json_type::JsonType, path::Path};
use crate::domain::{Invalid, Usd};

/// Most members of an object that is read whole: the largest are biases by token.
pub(super) const MAX_MEMBERS: usize = 4_096;

/// The value, unless it is null: null means absent.
pub(super) fn given(raw: &RawValue) -> Option<&RawValue> {
    (raw.get() != "null").then_some(raw)
}

/// A string as it reads; borrowed unless it holds an escape.
pub(super) fn text<'a>(raw: &'a RawValue, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
    unquoted(raw).ok_or_else(|| fault::wrong_type(path, "a string", JsonType::of(raw)))
}

/// The content of a string literal; `None` for any other value.
pub(super) fn unquoted(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if is_plain(inner.as_bytes()) {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw.get()).ok().map(Cow::Owned)
}

/// Whether the content of a string literal holds no escape.
fn is_plain(inner: &[u8]) -> bool {
    // Names and words are shorter than the set-up of a vectorised search.
    const SHORT: usize = 32;
    if inner.len() <= SHORT {
        return inner.iter().all(|byte| *byte != b'\\');
    }
    memchr::memchr(b'\\', inner).is_none()
}

/// A string of at most `most` characters.
pub(super) fn text_within<'a>(raw: &'a RawValue, path: &Path<'_>, most: usize) -> Result<Cow<'a, str>, Invalid> {
    let text = text(raw, path)?;
    if text.len() > most && text.chars().nth(most).is_some() {
        return Err(fault::refused(path, format!("'{path}' must have at most {most} characters.")));
    }
    Ok(text)
}

/// One of a few strings, as its position among them.
pub(super) fn choice(raw: &RawValue, path: &Path<'_>, allowed: &[&str]) -> Result<usize, Invalid> {
    let value = text(raw, path)?;
    let position = allowed.iter().position(|name| *name == value);
    position.ok_or_else(|| fault::not_one_of(path, &value, allowed))
}

/// A boolean.
pub(super) fn flag(raw: &RawValue, path: &Path<'_>) -> Result<bool, Invalid> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(fault::wrong_type(path, "a boolean", JsonType::of(raw))),
    }
}

/// A number, which may be infinite when it was written with too large an exponent.
pub(super) fn number(raw: &RawValue, path: &Path<'_>) -> Result<f64, Invalid> {
    let number = matches!(JsonType::of(raw), JsonType::Number).then(|| raw.get().parse().ok()).flatten();
    number.ok_or_else(|| fault::wrong_type(path, "a number", JsonType::of(raw)))
}

/// A number within a closed range.
pub(super) fn number_within(raw: &RawValue, path: &Path<'_>, least: f64, most: f64) -> Result<f64, Invalid> {
    let number = number(raw, path)?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(fault::out_of_range(path, least, most)) }
}

/// An integer, which may be written as `100.0` or `1e2`.
pub(super) fn integer(raw: &RawValue, path: &Path<'_>) -> Result<i64, Invalid> {
    if let Ok(integer) = raw.get().parse() {
        return Ok(integer);
    }
    if !matches!(JsonType::of(raw), JsonType::Number) {
        return Err(fault::wrong_type(path, "an integer", JsonType::of(raw)));
    }
    let number = number(raw, path)?;
    if number.fract() != 0.0 {
        return Err(fault::mistyped(path, format!("'{path}' must be an integer, got a fraction.")));
    }
    // Exactly the floats below 2^63 have a place in an i64.
    let fits = number.abs() < -(i64::MIN as f64);
    if fits { Ok(number as i64) } else { Err(fault::out_of_range(path, i64::MIN, i64::MAX)) }
}

/// An integer within a closed range; `i64::MAX` stands for "no upper bound".
pub(super) fn integer_within(raw: &RawValue, path: &Path<'_>, least: i64, most: i64) -> Result<i64, Invalid> {
    let integer = integer(raw, path)?;
    if (least..=most).contains(&integer) {
        return Ok(integer);
    }
    Err(if most == i64::MAX {
        fault::refused(path, format!("'{path}' must be at least {least}."))
    } else {
        fault::out_of_range(path, least, most)
    })
}

/// An amount of dollars, zero or more, as a number or as the text of one.
pub(super) fn dollars(raw: &RawValue, path: &Path<'_>) -> Result<Usd, Invalid> {
    let digits = match JsonType::of(raw) {
        JsonType::Number => Cow::Borrowed(raw.get()),
        JsonType::Text => text(raw, path)?,
        other => return Err(fault::wrong_type(path, "a number", other)),
    };
    let digits = digits.trim();
    let float = || digits.parse().ok().and_then(Usd::from_f64);
    match digits.parse::<Usd>().ok().or_else(float) {
        Some(amount) if amount >= Usd::ZERO => Ok(amount),
        Some(_) => Err(fault::refused(path, format!("'{path}' must not be negative."))),
        None if JsonType::of(raw) == JsonType::Text => Err(fault::wrong_type(path, "a number", JsonType::Text)),
        None => Err(fault::refused(path, format!("'{path}' is too large."))),
    }
}

/// The elements of an array that has at most `most` of them. More are not even collected: they would take
/// many times the memory of the body.
pub(super) fn elements<'a>(raw: &'a RawValue, path: &Path<'_>, most: usize) -> Result<Vec<&'a RawValue>, Invalid> {
    let wrong = || fault::wrong_type(path, "an array", JsonType::of(raw));
    if JsonType::of(raw) != JsonType::Array {
        return Err(wrong());
    }
    let elements =
        serde_json::Deserializer::from_str(raw.get()).deserialize_seq(ArrayVisitor(most)).map_err(|_| wrong())?;
    elements.ok_or_else(|| fault::refused(path, format!("'{path}' may hold at most {most} elements.")))
}

/// Collects so many elements; gives `None` when there are more.
struct ArrayVisitor(usize);

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = items.next_element()? {
            if elements.len() == self.0 {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            elements.push(element);
        }
        Ok(Some(elements))
    }
}

/// Refuses anything but an object, without reading it.
pub(super) fn object(raw: &RawValue, path: &Path<'_>) -> Result<(), Invalid> {
    let kind = JsonType::of(raw);
    if kind == JsonType::Object { Ok(()) } else { Err(fault::wrong_type(path, "an object", kind)) }
}

/// One member of an object.
pub(super) struct ObjectMember<'a> {
    /// Its name.
    pub(super) name: Cow<'a, str>,
    /// Its name as written, quotes included.
    pub(super) key: &'a RawValue,
    /// Its value.
    pub(super) value: &'a RawValue,
}

/// The members of an object, in the order in which they were written, each name once.
pub(super) struct Object<'a>(Vec<ObjectMember<'a>>);

impl<'a> Object<'a> {
    /// Reads an object.
    pub(super) fn read(raw: &'a RawValue, path: &Path<'_>) -> Result<Object<'a>, Invalid> {
        object(raw, path)?;
        let read = serde_json::Deserializer::from_str(raw.get()).deserialize_map(ObjectVisitor);
        let object = read.map_err(|_| fault::wrong_type(path, "an object", JsonType::Object))?;
        let object =
            object.ok_or_else(|| fault::refused(path, format!("'{path}' may hold at most {MAX_MEMBERS} members.")))?;
        let name = |position: usize| object.0.get(position).map(|member| &*member.name);
        match first_repeated_of(object.0.len(), name).and_then(name) {
            Some(name) => Err(fault::given_twice(&path.member(name))),
            None => Ok(object),
        }
    }

    /// The member of that name, unless it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|member| member.name == name).and_then(|member| given(member.value))
    }

    /// The members in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ObjectMember<'a>> {
        self.0.iter()
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// An object that holds nothing but these members, where a misspelt one would pass for a promise or a limit.
pub(super) fn known<'a>(raw: &'a RawValue, path: &Path<'_>, allowed: &[&'static str]) -> Result<Object<'a>, Invalid> {
    let object = Object::read(raw, path)?;
    let is_strange = |member: &&ObjectMember<'_>| given(member.value).is_some() && !allowed.contains(&&*member.name);
    if let Some(stranger) = object.iter().find(is_strange) {
        let at = path.member(&stranger.name);
        let message = format!("'{at}' is not known. '{path}' may hold {}.", allowed.join(", "));
        return Err(fault::refused(&at, message).allowing(allowed.iter().copied()));
    }
    Ok(object)
}

/// Collects the members of an object; gives `None` when there are too many.
struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Option<Object<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
            if members.len() == MAX_MEMBERS {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            members.push(ObjectMember { name: unquoted(key).unwrap_or_default(), key, value });
        }
        Ok(Some(Object(members)))
    }
}

/// The position of the first name that stood before.
pub(super) fn first_repeated<T: AsRef<str>>(names: &[T]) -> Option<usize> {
    first_repeated_of(names.len(), |position| names.get(position).map(AsRef::as_ref))
}

/// The same for `count` names that are looked up by position.
pub(super) fn first_repeated_of<'n>(count: usize, name: impl Fn(usize) -> Option<&'n str>) -> Option<usize> {
    // Objects are small; a hostile one with thousands of names is sorted instead.
    const FEW: usize = 24;
    if count <= FEW {
        return (1..count).find(|later| {
            let name_of_later = name(*later);
            (0..*later).any(|earlier| name(earlier) == name_of_later)
        });
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|position| name(*position));
    let repeated = |pair: &[usize]| match pair {
        [earlier, later] if name(*earlier) == name(*later) => Some(*later),
        _ => None,
    };
    order.windows(2).filter_map(repeated).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    const PATH: Path<'static> = Path::Field("x");

    #[test]
    fn integers_may_be_written_with_a_point_or_an_exponent() {
        for (written, read) in
            [("100", 100), ("100.0", 100), ("1e2", 100), ("-0.0", 0), ("9e18", 9_000_000_000_000_000_000)]
        {
            assert_eq!(integer(raw(written), &PATH), Ok(read), "{written}");
        }
        for bad in ["1.5", "\"1\"", "true", "[1]", "null", "1e300", "1e999", "9223372036854775808"] {
            assert!(integer(raw(bad), &PATH).is_err(), "{bad}");
        }
    }

    #[test]
    fn dollars_are_exact_where_they_can_be() {
        for (written, read) in [("0.01", "0.01"), ("\"0.000001\"", "0.000001"), ("1e-6", "0.000001"), ("0", "0")] {
            assert_eq!(dollars(raw(written), &PATH).map(|usd| usd.to_string()), Ok(read.to_owned()), "{written}");
        }
        for bad in ["-1", "\"much\"", "1e999", "\"NaN\"", "{}", "\"inf\""] {
            assert!(dollars(raw(bad), &PATH).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_repeated_name_is_found_among_few_and_among_many() {
        assert_eq!(first_repeated(&["a", "b", "a", "b"]), Some(2));
        let mut many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(first_repeated(&many), None);
        many.push("7".to_owned());
        many.push("3".to_owned());
        assert_eq!(first_repeated(&many), Some(1000));
    }

    #[test]
    fn names_are_compared_as_they_read_not_as_they_are_written() {
        let twice = Object::read(raw(r#"{"a":1,"\u0061":2}"#), &PATH).map(|object| object.len());
        assert_eq!(twice.map_err(|invalid| invalid.param), Err(Some("x.a".to_owned())));
    }
}
