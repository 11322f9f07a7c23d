//! The list of models as clients of the Messages API read it: `GET /v1/models` and `GET /v1/models/{id}`.

use bytes::{BufMut as _, Bytes, BytesMut};
use chrono::{DateTime, NaiveDate, SecondsFormat};
use pointsman_domain::{Invalid, InvalidReason};

use crate::json::{push_comma, push_member, push_string, push_string_member, push_u64};

/// Most entries of a page, and how many there are in one without `limit`.
const MAX_LIMIT: usize = 1_000;

/// An entry of the list.
#[derive(Debug, Clone, Copy)]
pub struct MessagesModel<'a> {
    /// The id that requests name.
    pub id: &'a str,
    /// The name for people.
    pub display_name: &'a str,
    /// When it was released, Unix seconds.
    pub created: i64,
    /// When it is to be retired, if that is known.
    pub retires: Option<NaiveDate>,
    /// Most prompt tokens, if known.
    pub max_input_tokens: Option<u32>,
    /// Most output tokens, if known.
    pub max_tokens: Option<u32>,
}

/// Which part of the list is asked for: the query of the call.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelPage<'a> {
    /// Most entries.
    pub limit: Option<&'a str>,
    /// The entry before the page.
    pub after_id: Option<&'a str>,
    /// The entry behind the page.
    pub before_id: Option<&'a str>,
}

/// The body of an entry.
pub fn messages_model(model: &MessagesModel<'_>) -> Bytes {
    let mut out = BytesMut::new();
    push_model(model, &mut out);
    out.freeze()
}

/// The body of a page of the list.
///
/// # Errors
/// The 400 for a limit out of range and for an id that is not in the list.
pub fn messages_model_list(models: &[MessagesModel<'_>], page: ModelPage<'_>) -> Result<Bytes, Invalid> {
    let limit = limit(page.limit)?;
    let place = |name: &str, id: &str| {
        let place = models.iter().position(|model| model.id == id);
        place.ok_or_else(|| refused(name, format!("'{name}' is not the id of a listed model.")))
    };
    let first = page.after_id.map_or(Ok(0), |id| place("after_id", id).map(|place| place + 1))?;
    let end = page.before_id.map_or(Ok(models.len()), |id| place("before_id", id))?;
    let asked = models.get(first..end).unwrap_or_default();
    // Before an entry the nearest ones are asked for, not the first ones.
    let shown = if page.before_id.is_some() && page.after_id.is_none() {
        asked.get(asked.len().saturating_sub(limit)..)
    } else {
        asked.get(..limit.min(asked.len()))
    };
    let shown = shown.unwrap_or_default();
    let mut out = BytesMut::new();
    out.put_slice(b"{\"data\":[");
    for model in shown.iter() {
        push_comma(&mut out);
        push_model(model, &mut out);
    }
    out.put_u8(b']');
    push_member(&mut out, b"has_more", if shown.len() < asked.len() { b"true" } else { b"false" });
    for (name, model) in [(&b"first_id"[..], shown.first()), (b"last_id", shown.last())] {
        push_member(&mut out, name, b"");
        match model {
            Some(model) => push_string(&mut out, model.id),
            None => out.put_slice(b"null"),
        }
    }
    out.put_u8(b'}');
    Ok(out.freeze())
}

fn limit(text: Option<&str>) -> Result<usize, Invalid> {
    let Some(text) = text else { return Ok(MAX_LIMIT) };
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| refused("limit", format!("'limit' must be an integer between 1 and {MAX_LIMIT}.")))
}

fn refused(param: &str, message: String) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param, message)
}

fn push_model(model: &MessagesModel<'_>, out: &mut BytesMut) {
    out.put_slice(b"{\"type\":\"model\",\"id\":");
    push_string(out, model.id);
    push_string_member(out, b"display_name", model.display_name);
    push_member(out, b"created_at", b"");
    let created = DateTime::from_timestamp(model.created, 0).unwrap_or_default();
    push_string(out, &created.to_rfc3339_opts(SecondsFormat::Secs, true));
    // A retired model is not listed.
    let lifecycle: &[u8] = if model.retires.is_some() { b"\"deprecated\"" } else { b"\"active\"" };
    push_member(out, b"lifecycle", lifecycle);
    let retires = model.retires.map_or_else(|| "null".to_owned(), |date| format!("\"{date}T00:00:00Z\""));
    push_member(out, b"retires_at", retires.as_bytes());
    for name in [&b"deprecated_at"[..], b"line", b"capabilities"] {
        push_member(out, name, b"null");
    }
    for (name, count) in [(&b"max_input_tokens"[..], model.max_input_tokens), (b"max_tokens", model.max_tokens)] {
        push_member(out, name, b"");
        match count {
            Some(count) => push_u64(out, u64::from(count)),
            None => out.put_slice(b"null"),
        }
    }
    out.put_u8(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn models() -> Vec<MessagesModel<'static>> {
        let model = |id| MessagesModel {
            id,
            display_name: "A \"b\"",
            created: 1_763_629_500,
            retires: None,
            max_input_tokens: Some(200_000),
            max_tokens: None,
        };
        ["a", "b", "c", "d"].map(model).to_vec()
    }

    fn list(page: ModelPage<'_>) -> Value {
        serde_json::from_slice(&messages_model_list(&models(), page).unwrap()).unwrap()
    }

    /// The ids on a page, and whether there are more.
    fn ids(page: ModelPage<'_>) -> (String, bool) {
        let list = list(page);
        let ids: String = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        let ends = (list["first_id"].as_str().unwrap_or_default(), list["last_id"].as_str().unwrap_or_default());
        assert_eq!(ends.0, ids.get(..1).unwrap_or_default());
        assert!(ids.ends_with(ends.1));
        (ids, list["has_more"].as_bool().unwrap())
    }

    #[test]
    fn the_list_has_the_form_of_this_api() {
        let models = models();
        let expected = json!({"type": "model", "id": "a", "display_name": "A \"b\"", "created_at": "2025-11-20T09:05:00Z",
            "lifecycle": "active", "retires_at": null, "deprecated_at": null, "line": null, "capabilities": null,
            "max_input_tokens": 200_000, "max_tokens": null});
        let one: Value = serde_json::from_slice(&messages_model(&models[0])).unwrap();
        assert_eq!(one, expected);
        let list = list(ModelPage { limit: Some("1000"), ..Default::default() });
        assert_eq!((&list["data"][0], list["data"].as_array().unwrap().len()), (&expected, 4));
        assert_eq!((&list["has_more"], &list["first_id"], &list["last_id"]), (&json!(false), &json!("a"), &json!("d")));
        let none = messages_model_list(&[], ModelPage::default()).unwrap();
        assert_eq!(none, r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#);
    }

    #[test]
    fn a_model_with_a_date_of_retirement_is_deprecated() {
        let model = MessagesModel { retires: NaiveDate::from_ymd_opt(2027, 3, 1), ..models()[0] };
        let one: Value = serde_json::from_slice(&messages_model(&model)).unwrap();
        assert_eq!((&one["lifecycle"], &one["retires_at"]), (&json!("deprecated"), &json!("2027-03-01T00:00:00Z")));
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended() {
        let page = |limit, after_id, before_id| ids(ModelPage { limit, after_id, before_id });
        assert_eq!(page(Some("3"), None, None), ("abc".into(), true));
        assert_eq!(page(Some("3"), Some("c"), None), ("d".into(), false));
        assert_eq!(page(None, Some("d"), None), ("".into(), false));
        assert_eq!(page(Some("2"), None, Some("d")), ("bc".into(), true));
        assert_eq!(page(Some("2"), None, Some("b")), ("a".into(), false));
        assert_eq!(page(None, Some("a"), Some("d")), ("bc".into(), false));
        assert_eq!(page(None, Some("d"), Some("a")), ("".into(), false));
    }

    #[test]
    fn a_limit_out_of_range_and_an_unknown_id_are_refused_by_name() {
        let param = |page| messages_model_list(&models(), page).unwrap_err().param.unwrap();
        for limit in ["0", "1001", "x", "-1", ""] {
            assert_eq!(param(ModelPage { limit: Some(limit), ..Default::default() }), "limit", "{limit}");
        }
        assert_eq!(param(ModelPage { after_id: Some("x"), ..Default::default() }), "after_id");
        assert_eq!(param(ModelPage { before_id: Some("x"), ..Default::default() }), "before_id");
    }
}
