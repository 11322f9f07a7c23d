//! Settings as members of a JSON file. The order of its members stays.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use super::Place;

/// JSON whose members keep their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Json {
    #[serde(serialize_with = "write_members", deserialize_with = "read_members")]
    Object(Vec<(String, Json)>),
    Array(Vec<Json>),
    Other(Value),
}

fn write_members<S: Serializer>(members: &[(String, Json)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(members.iter().map(|(name, value)| (name, value)))
}

fn read_members<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, Json)>, D::Error> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, Json)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    from.deserialize_map(Members)
}

/// The text with the members.
///
/// # Errors
/// Why it cannot have them.
pub(super) fn with(text: &str, settings: Vec<(Place, Value)>) -> Result<String, String> {
    let mut file = parse(text)?;
    for (place, value) in settings {
        let value = serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
        if !file.set(place, Some(value)) {
            return Err(format!("'{}' is no object, so nothing can be added to it", place.first().unwrap_or(&"")));
        }
    }
    Ok(written(&file, text))
}

/// The text with what it had `before` at the places of the settings; `None` if nothing is left of a file that did not exist.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn without(text: &str, before: &str, settings: Vec<(Place, Value)>) -> Result<Option<String>, String> {
    let (mut file, was) = (parse(text)?, parse(before)?);
    for (place, _) in settings {
        file.set(place, was.get(place).cloned());
        let outer = place.get(..1).unwrap_or_default();
        if file.get(outer) == Some(&Json::Object(Vec::new())) && was.get(outer).is_none() {
            file.set(outer, None);
        }
    }
    match file == was {
        // Also its spaces and lines.
        true => Ok(Some(before.to_owned()).filter(|before| !before.is_empty())),
        false => Ok(Some(written(&file, text))),
    }
}

/// Whether the text has the settings, by the one that tells: the address of a gateway, or an object of its name.
pub(super) fn has(text: &str, settings: &[(Place, Value)]) -> bool {
    let place = settings.first().map_or(&[][..], |(place, _)| place);
    match parse(text).as_ref().map(|file| file.get(place)) {
        Ok(Some(Json::Other(Value::String(url)))) => url.ends_with("/api"),
        Ok(found) => found.is_some(),
        // It cannot be told; that is said where they are needed.
        Err(_) => true,
    }
}

fn parse(text: &str) -> Result<Json, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    // Read twice: the forms of `Json` are tried in turn, which leaves no place of the error.
    let read = serde_json::from_str::<Value>(text).and_then(|_| serde_json::from_str(text));
    match read.map_err(|error| format!("is not JSON ({error}); correct it first, or take its comments out"))? {
        file @ Json::Object(_) => Ok(file),
        _ => Err("is no JSON object".to_owned()),
    }
}

/// With the ends of lines of the text before.
fn written(file: &Json, text: &str) -> String {
    let written = serde_json::to_string_pretty(file).map(|text| text + "\n").unwrap_or_default();
    if text.contains("\r\n") { written.replace('\n', "\r\n") } else { written }
}

impl Json {
    fn get(&self, place: &[&str]) -> Option<&Json> {
        place.iter().try_fold(self, |within, name| match within {
            Json::Object(members) => members.iter().find(|(other, _)| other == name).map(|(_, value)| value),
            _ => None,
        })
    }

    /// Sets the member, or takes it out. `false` if something on the way is no object.
    fn set(&mut self, place: &[&str], value: Option<Json>) -> bool {
        let (Json::Object(members), Some((name, deeper))) = (self, place.split_first()) else { return false };
        let found = members.iter().position(|(other, _)| other == name);
        match (found.and_then(|n| members.get_mut(n)), value) {
            (Some((_, within)), value) if !deeper.is_empty() => within.set(deeper, value),
            (Some((_, member)), Some(value)) => {
                *member = value;
                true
            }
            (Some(_), None) => {
                members.retain(|(other, _)| other != name);
                true
            }
            (None, None) => true,
            (None, Some(value)) => {
                let value =
                    deeper.iter().rev().fold(value, |value, name| Json::Object(vec![((*name).to_owned(), value)]));
                members.push(((*name).to_owned(), value));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLACES: [Place; 3] = [&["model"], &["env", "A"], &["env", "B"]];

    fn members() -> Vec<(Place, Value)> {
        PLACES.into_iter().zip([json!("m"), json!(1), json!({ "z": 1, "a": [{ "y": 2, "b": 3 }] })]).collect()
    }

    #[test]
    fn members_come_and_go_and_all_others_stay_in_their_order() {
        for text in [
            "{\"z\": 1, \"model\": \"mine\", \"env\": {\"Z\": 2, \"A\": \"old\"}, \"b\": [1, {}]}",
            "{ }\n",
            "{\"env\":{}}",
        ] {
            let changed = with(text, members()).unwrap();
            assert_eq!(with(&changed, members()).unwrap(), changed, "once");
            assert_eq!(without(&changed, text, members()), Ok(Some(text.to_owned())), "{changed}");
            // What was added meanwhile stays.
            let later = changed.replacen('{', "{\"later\": true,", 1);
            let left = without(&later, text, members()).unwrap().unwrap();
            assert!(left.starts_with("{\n  \"later\": true") && !left.contains("\"m\""), "{left}");
        }
        let changed = with("{\"z\": 1, \"b\": 2}", members()).unwrap();
        assert!(changed.find("\"z\"") < changed.find("\"b\""), "{changed}");
        assert!(!with("{\r\n}", members()).unwrap().replace("\r\n", "").contains('\n'));
        let alone = with("", members()).unwrap();
        assert_eq!(without(&alone, "", members()), Ok(None), "a file that did not exist");
    }

    #[test]
    fn what_is_no_object_of_json_is_not_touched() {
        assert!(with("{ // mine\n}", members()).unwrap_err().contains("line 1"));
        assert!(with("[]", members()).unwrap_err().contains("no JSON object"));
        assert!(with("{\"env\": 3}", members()).unwrap_err().contains("'env'"));
    }
}
