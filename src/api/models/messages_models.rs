//! The list of models as clients of the Messages API read it: `GET /v1/models` and `GET /v1/models/{id}`.

use chrono::{DateTime, SecondsFormat};
use pointsman_domain::{Invalid, InvalidReason};
use serde::Serialize;

use super::{listed_model::ListedModel, model_entry::Absent};
use crate::api::query_parameters::QueryParameters;

/// Most entries of a page, and how many there are in one without `limit`.
const MAX_LIMIT: usize = 1_000;

/// A model in the form of the Anthropic API, for clients that send `anthropic-version`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AnthropicModel"))]
pub(crate) struct MessagesModel<'a> {
    /// Always `model`.
    #[cfg_attr(test, schemars(extend("enum" = ["model"])))]
    r#type: &'static str,
    /// Name of the model or alias in requests.
    id: &'a str,
    /// Display name.
    display_name: &'a str,
    /// When the model was published, as configured. RFC 3339, UTC.
    created_at: String,
    /// `deprecated` with a date of retirement ahead. A retired model is not listed.
    #[cfg_attr(test, schemars(extend("enum" = ["active", "deprecated", "retired"])))]
    lifecycle: &'static str,
    /// Date of retirement, from `expiration_date`. RFC 3339, UTC.
    retires_at: Option<String>,
    /// Not known here.
    deprecated_at: Absent,
    /// Not known here.
    line: Absent,
    /// Not known here.
    capabilities: Absent,
    /// Largest context window of its enabled endpoints, in tokens.
    max_input_tokens: Option<u32>,
    /// Longest answer of its first enabled endpoint in tokens; `null` without a limit of its own, and for an alias.
    max_tokens: Option<u32>,
}

impl<'a> MessagesModel<'a> {
    /// The entry of `model`.
    pub(crate) fn new(model: &ListedModel<'a>) -> MessagesModel<'a> {
        let created = DateTime::from_timestamp(model.created, 0).unwrap_or_default();
        let retires = model.expiration_date;
        MessagesModel {
            r#type: "model",
            id: model.id,
            display_name: model.name,
            created_at: created.to_rfc3339_opts(SecondsFormat::Secs, true),
            lifecycle: if retires.is_some() { "deprecated" } else { "active" },
            retires_at: retires.map(|date| format!("{date}T00:00:00Z")),
            deprecated_at: Absent,
            line: Absent,
            capabilities: Absent,
            max_input_tokens: Some(model.context_length),
            max_tokens: model.preferred.and_then(|endpoint| endpoint.limits.max_completion_tokens),
        }
    }
}

/// Which part of the list is asked for.
#[derive(Clone, Copy, Default)]
struct Page<'q> {
    limit: Option<&'q str>,
    /// The entry before the page.
    after_id: Option<&'q str>,
    /// The entry behind the page.
    before_id: Option<&'q str>,
}

/// The list in the form of the Anthropic API, for clients that send `anthropic-version`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct MessagesModelList<'a> {
    /// Models that generate text, and aliases.
    data: &'a [MessagesModel<'a>],
    /// Whether entries follow.
    has_more: bool,
    /// Id of the first entry of the page, for `before_id`; `null` on an empty page.
    first_id: Option<&'a str>,
    /// Id of the last entry of the page, for `after_id`; `null` on an empty page.
    last_id: Option<&'a str>,
}

impl<'a> MessagesModelList<'a> {
    /// The page of `models` that the query asks for.
    ///
    /// # Errors
    /// The 400 for a limit out of range and for an id that is not in the list.
    pub(crate) fn new(models: &'a [MessagesModel<'a>], query: &QueryParameters) -> Result<Self, Invalid> {
        let [limit, after_id, before_id] = ["limit", "after_id", "before_id"].map(|name| query.get(name));
        MessagesModelList::page(models, Page { limit, after_id, before_id })
    }

    fn page(models: &'a [MessagesModel<'a>], page: Page<'_>) -> Result<Self, Invalid> {
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
        let data = shown.unwrap_or_default();
        let id = |model: Option<&MessagesModel<'a>>| model.map(|model| model.id);
        Ok(MessagesModelList {
            data,
            has_more: data.len() < asked.len(),
            first_id: id(data.first()),
            last_id: id(data.last()),
        })
    }
}

fn limit(text: Option<&str>) -> Result<usize, Invalid> {
    let Some(text) = text else { return Ok(MAX_LIMIT) };
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| refused("limit", format!("'limit' must be an integer between 1 and {MAX_LIMIT}.")))
}

fn refused(param: &str, message: String) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param, message)
}

/// The list for the Codex CLI, which sends `client_version`.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CodexModelList {
    /// Always empty: Codex then keeps what it knows of a model.
    #[cfg_attr(test, schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>"))]
    models: [(); 0],
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;
    use serde_json::{json, to_string, to_value};

    use super::*;
    use crate::api::{
        models::listed_model::ListedKinds,
        samples::{catalog, today},
    };

    fn model(id: &'static str) -> MessagesModel<'static> {
        MessagesModel {
            r#type: "model",
            id,
            display_name: "A \"b\"",
            created_at: String::new(),
            lifecycle: "active",
            retires_at: None,
            deprecated_at: Absent,
            line: Absent,
            capabilities: Absent,
            max_input_tokens: None,
            max_tokens: None,
        }
    }

    fn models() -> [MessagesModel<'static>; 4] {
        ["a", "b", "c", "d"].map(model)
    }

    /// The ids on a page, and whether there are more.
    fn ids(page: Page<'_>) -> (String, bool) {
        let models = models();
        let list = MessagesModelList::page(&models, page).unwrap();
        let ids: String = list.data.iter().map(|model| model.id).collect();
        assert_eq!(list.first_id.unwrap_or_default(), ids.get(..1).unwrap_or_default());
        assert!(ids.ends_with(list.last_id.unwrap_or_default()));
        (ids, list.has_more)
    }

    #[test]
    fn an_entry_has_the_form_of_this_api() {
        let catalog = catalog();
        let listed = ListedModel::all(&catalog, today(), ListedKinds::Models);
        let listed = listed.into_iter().find(|model| model.id == "acme/small").unwrap();
        let dated =
            ListedModel { expiration_date: NaiveDate::from_ymd_opt(2027, 3, 1), created: 1_763_629_500, ..listed };
        let undated = ListedModel { expiration_date: None, ..dated.clone() };
        let model = MessagesModel::new(&undated);
        let start = r#"{"type":"model","id":"acme/small","display_name":"#;
        assert!(to_string(&model).unwrap().starts_with(start));
        let model = to_value(model).unwrap();
        assert_eq!((&model["created_at"], &model["lifecycle"]), (&json!("2025-11-20T09:05:00Z"), &json!("active")));
        for name in ["retires_at", "deprecated_at", "line", "capabilities"] {
            assert_eq!(model.get(name), Some(&json!(null)), "{name}");
        }
        let model = to_value(MessagesModel::new(&dated)).unwrap();
        assert_eq!((&model["lifecycle"], &model["retires_at"]), (&json!("deprecated"), &json!("2027-03-01T00:00:00Z")));
    }

    #[test]
    fn an_empty_list_and_that_of_codex_have_their_forms() {
        let none = MessagesModelList::page(&[], Page::default()).ok().unwrap();
        assert_eq!(to_string(&none).unwrap(), r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#);
        assert_eq!(to_string(&CodexModelList::default()).unwrap(), r#"{"models":[]}"#);
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended() {
        let page = |limit, after_id, before_id| ids(Page { limit, after_id, before_id });
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
        let models = models();
        let param = |page| MessagesModelList::page(&models, page).err().unwrap().param.unwrap();
        for limit in ["0", "1001", "x", "-1", ""] {
            assert_eq!(param(Page { limit: Some(limit), ..Page::default() }), "limit", "{limit}");
        }
        assert_eq!(param(Page { after_id: Some("x"), ..Page::default() }), "after_id");
        assert_eq!(param(Page { before_id: Some("x"), ..Page::default() }), "before_id");
    }
}
