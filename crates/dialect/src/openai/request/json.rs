//! Small JSON values, read with their path: what they are, and the 400 for what they should have been.
//!
//! For fields that are short and read whole. The prompt itself is never read this way; it goes by in one
//! pass.

use std::borrow::Cow;

use pointsman_domain::{Invalid, Usd, listed_names};

use super::{fault, json_type::JsonType};
use crate::{
    json::{Cursor, Raw},
    neutral::Path,
};

/// Most members of an object that is read whole: the largest are biases by token.
pub(super) const MAX_MEMBERS: usize = 4_096;

/// A whole text as one value; `None` if it is no JSON, or nested deeper than `max_depth`.
pub(super) fn whole(text: &str, max_depth: usize) -> Option<Raw<'_>> {
    let mut cursor = Cursor::within(text, max_depth);
    let value = cursor.value().ok()?;
    cursor.end().ok().filter(|()| !cursor.has_lone_surrogate()).map(|()| value)
}

/// The value, unless it is null: null means absent.
pub(super) fn given(raw: Raw<'_>) -> Option<Raw<'_>> {
    (!raw.is_null()).then_some(raw)
}

/// A string as it reads; borrowed unless it holds an escape.
pub(super) fn text<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
    raw.text().ok_or_else(|| fault::wrong_type(path, "a string", JsonType::of(raw)))
}

/// A string that must be there, without reading it.
#[inline]
pub(super) fn required_string<'a>(raw: Option<Raw<'a>>, path: &Path<'_>) -> Result<Raw<'a>, Invalid> {
    let raw = raw.and_then(given).ok_or_else(|| fault::required(path))?;
    if raw.is_string() { Ok(raw) } else { Err(fault::wrong_type(path, "a string", JsonType::of(raw))) }
}

/// A string of at most `most` characters.
pub(super) fn text_within<'a>(raw: Raw<'a>, path: &Path<'_>, most: usize) -> Result<Cow<'a, str>, Invalid> {
    let text = text(raw, path)?;
    if text.len() > most && text.chars().nth(most).is_some() {
        return Err(fault::refused(path, format!("'{path}' must have at most {most} characters.")));
    }
    Ok(text)
}

/// One of a few strings, as its position among them.
pub(super) fn choice(raw: Raw<'_>, path: &Path<'_>, allowed: &[&str]) -> Result<usize, Invalid> {
    let value = text(raw, path)?;
    let position = allowed.iter().position(|name| *name == value);
    position.ok_or_else(|| fault::not_one_of(path, &value, allowed))
}

/// A boolean.
pub(super) fn flag(raw: Raw<'_>, path: &Path<'_>) -> Result<bool, Invalid> {
    match raw.written() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(fault::wrong_type(path, "a boolean", JsonType::of(raw))),
    }
}

/// A number, which may be infinite when it was written with too large an exponent.
pub(super) fn number(raw: Raw<'_>, path: &Path<'_>) -> Result<f64, Invalid> {
    let number = matches!(JsonType::of(raw), JsonType::Number).then(|| raw.written().parse().ok()).flatten();
    number.ok_or_else(|| fault::wrong_type(path, "a number", JsonType::of(raw)))
}

/// A number within a closed range.
pub(super) fn number_within(raw: Raw<'_>, path: &Path<'_>, least: f64, most: f64) -> Result<f64, Invalid> {
    let number = number(raw, path)?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(fault::out_of_range(path, least, most)) }
}

/// An integer, which may be written as `100.0` or `1e2`.
pub(super) fn integer(raw: Raw<'_>, path: &Path<'_>) -> Result<i64, Invalid> {
    if let Ok(integer) = raw.written().parse() {
        return Ok(integer);
    }
    if !matches!(JsonType::of(raw), JsonType::Number) {
        return Err(fault::wrong_type(path, "an integer", JsonType::of(raw)));
    }
    let number = number(raw, path)?;
    if number.is_finite() && number.fract() != 0.0 {
        return Err(fault::mistyped(path, format!("'{path}' must be an integer, got a fraction.")));
    }
    // Exactly the floats below 2^63 have a place in an i64.
    let fits = number.abs() < -(i64::MIN as f64);
    if fits { Ok(number as i64) } else { Err(fault::out_of_range(path, i64::MIN, i64::MAX)) }
}

/// An integer within a closed range; `i64::MAX` stands for "no upper bound".
pub(super) fn integer_within(raw: Raw<'_>, path: &Path<'_>, least: i64, most: i64) -> Result<i64, Invalid> {
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
pub(super) fn dollars(raw: Raw<'_>, path: &Path<'_>) -> Result<Usd, Invalid> {
    let digits = match JsonType::of(raw) {
        JsonType::Number => Cow::Borrowed(raw.written()),
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
pub(super) fn elements<'a>(raw: Raw<'a>, path: &Path<'_>, most: usize) -> Result<Vec<Raw<'a>>, Invalid> {
    if !raw.is_array() {
        return Err(fault::wrong_type(path, "an array", JsonType::of(raw)));
    }
    let elements: Vec<Raw<'a>> = raw.elements().take(most.saturating_add(1)).collect();
    if elements.len() > most {
        return Err(fault::refused(path, format!("'{path}' may hold at most {most} elements.")));
    }
    Ok(elements)
}

/// Refuses anything but an object, without reading it.
pub(super) fn object(raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
    let kind = JsonType::of(raw);
    if kind == JsonType::Object { Ok(()) } else { Err(fault::wrong_type(path, "an object", kind)) }
}

/// One member of an object.
pub(super) struct ObjectMember<'a> {
    /// Its name.
    pub(super) name: Cow<'a, str>,
    /// Its name as written, quotes included.
    pub(super) key: Raw<'a>,
    /// Its value.
    pub(super) value: Raw<'a>,
}

/// The members of an object, in the order in which they were written, each name once.
pub(super) struct Object<'a>(Vec<ObjectMember<'a>>);

impl<'a> Object<'a> {
    /// Reads an object.
    pub(super) fn read(raw: Raw<'a>, path: &Path<'_>) -> Result<Object<'a>, Invalid> {
        object(raw, path)?;
        let member = |(key, value): (Raw<'a>, _)| ObjectMember { name: key.text().unwrap_or_default(), key, value };
        let members: Vec<ObjectMember<'a>> = raw.members().take(MAX_MEMBERS + 1).map(member).collect();
        if members.len() > MAX_MEMBERS {
            return Err(fault::refused(path, format!("'{path}' may hold at most {MAX_MEMBERS} members.")));
        }
        let name = |position: usize| members.get(position).map(|member| &*member.name);
        match first_repeated_of(members.len(), name).and_then(name) {
            Some(name) => Err(fault::given_twice(&path.member(name))),
            None => Ok(Object(members)),
        }
    }

    /// The member of that name, unless it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<Raw<'a>> {
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
pub(super) fn known<'a>(raw: Raw<'a>, path: &Path<'_>, allowed: &[&'static str]) -> Result<Object<'a>, Invalid> {
    let object = Object::read(raw, path)?;
    let is_strange = |member: &&ObjectMember<'_>| given(member.value).is_some() && !allowed.contains(&&*member.name);
    if let Some(stranger) = object.iter().find(is_strange) {
        let at = path.member(&stranger.name);
        let message = format!(
            "'{at}' is not known. '{path}' may hold {}.",
            listed_names(&stranger.name, allowed.iter().copied())
        );
        return Err(fault::refused(&at, message).allowing(allowed.iter().copied()));
    }
    Ok(object)
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

    fn raw(text: &str) -> Raw<'_> {
        whole(text, 8).unwrap()
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
