//! Forms that change something: what was entered, the fields with the errors of the API beside them, and the question before
//! something stops.

use std::fmt::Display;

use actix_web::{Error, FromRequest, HttpMessage as _, HttpRequest, dev::Payload, web};
use futures_util::future::LocalBoxFuture;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{format, layout::Frame, visitor::Visitor};
use crate::{api::admin::accounts::team_names, base::error::ApiError, state::gateway::GatewayView};

/// The fields of a form as they were sent, or as they are filled in first.
#[derive(Debug, Clone, Default)]
pub(super) struct Entered(Vec<(String, String)>);

/// Extracts the fields of a form; 403 for one of another session.
impl FromRequest for Entered {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Entered, Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let visitor = request.extensions().get::<Visitor>().cloned();
        let form = web::Form::<Vec<(String, String)>>::from_request(request, payload);
        Box::pin(async move {
            let entered = Entered(form.await?.into_inner());
            visitor.ok_or_else(ApiError::internal)?.check(entered.get("token"))?;
            Ok(entered)
        })
    }
}

impl Entered {
    /// The parameters of an address.
    pub(super) fn of_query(query: &str) -> Entered {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(query);
        Entered(pairs.map(web::Query::into_inner).unwrap_or_default())
    }

    /// The last value of this name, without white space around it; empty without one.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().rfind(|(other, _)| other == name).map_or("", |(_, value)| value.trim())
    }

    /// All values of this name.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.trim()).collect()
    }

    /// Adds a value.
    pub(super) fn add(&mut self, name: &str, value: impl Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// Adds a value, if there is one.
    pub(super) fn add_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// How the text of a field becomes the member of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it is; empty: `null`.
    Text,
    /// A whole number; empty: `null`. What is none is left to the API to refuse.
    Number,
    /// Words that are divided by commas or lines.
    List,
    /// Several values of one name.
    Choices,
    /// A time in UTC, as browsers write one.
    Time,
}

/// A field: its name, which is that of the member, and its kind.
pub(super) type Field = (&'static str, Kind);

impl Entered {
    /// The member that a field makes.
    fn member(&self, (name, kind): Field) -> Value {
        let text = self.get(name);
        match kind {
            Kind::List => {
                json!(text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>())
            }
            Kind::Choices => json!(self.all(name)),
            _ if text.is_empty() => Value::Null,
            Kind::Number => text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)),
            // Without seconds and zone.
            Kind::Time if text.len() == 16 && text.contains('T') => json!(format!("{text}:00Z")),
            Kind::Text | Kind::Time => json!(text),
        }
    }

    /// The members that differ from those of `before`.
    pub(super) fn changes(&self, fields: &[Field], before: &Entered) -> Map<String, Value> {
        let changed = fields.iter().map(|field| (field.0.to_owned(), self.member(*field), before.member(*field)));
        changed.filter(|(_, after, before)| after != before).map(|(name, after, _)| (name, after)).collect()
    }

    /// The members that are not empty.
    pub(super) fn members(&self, fields: &[Field]) -> Map<String, Value> {
        self.changes(fields, &Entered::default())
    }
}

/// The fields of a form with what was entered, and why it was refused.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) entered: &'a Entered,
    pub(super) error: Option<&'a ApiError>,
}

impl Fields<'_> {
    /// The error, if it belongs to none of these fields.
    pub(super) fn general(&self, fields: &[Field]) -> Markup {
        let error = self.error.filter(|_| !fields.iter().any(|(name, _)| self.fault(name).is_some()));
        html! { @if let Some(error) = error { p.alert role="alert" { (error.message()) } } }
    }

    fn fault(&self, name: &str) -> Option<&str> {
        let error = self.error?;
        let param = error.param()?.split(['.', '[']).next()?;
        (param == name).then(|| error.message())
    }

    /// A field around `control`, which is given the ids of the texts that describe it.
    fn field(&self, name: &str, label: &str, hint: &str, control: impl FnOnce(&str, bool) -> Markup) -> Markup {
        let fault = self.fault(name);
        let described = if fault.is_some() { format!("{name}-hint {name}-fault") } else { format!("{name}-hint") };
        html! {
            div.field {
                label for=(name) { (label) }
                (control(&described, fault.is_some()))
                p.hint id={ (name) "-hint" } { (hint) }
                @if let Some(fault) = fault { p.fault id={ (name) "-fault" } role="alert" { (fault) } }
            }
        }
    }

    /// A line of text.
    pub(super) fn text(&self, name: &str, label: &str, hint: &str) -> Markup {
        self.input(name, label, hint, "text")
    }

    /// A whole number.
    pub(super) fn number(&self, name: &str, label: &str, hint: &str) -> Markup {
        self.field(name, label, hint, |described, is_wrong| {
            html! { input id=(name) name=(name) value=(self.entered.get(name)) inputmode="numeric" autocomplete="off" aria-describedby=(described) aria-invalid=[is_wrong.then_some("true")]; }
        })
    }

    /// A time in UTC.
    pub(super) fn time(&self, name: &str, label: &str, hint: &str) -> Markup {
        self.input(name, label, hint, "datetime-local")
    }

    fn input(&self, name: &str, label: &str, hint: &str, kind: &str) -> Markup {
        self.field(name, label, hint, |described, is_wrong| {
            html! {
                input id=(name) name=(name) type=(kind) value=(self.entered.get(name)) autocomplete="off" spellcheck="false" maxlength="256"
                    aria-describedby=(described) aria-invalid=[is_wrong.then_some("true")];
            }
        })
    }

    /// Several words, divided by commas or lines.
    pub(super) fn list(&self, name: &str, label: &str, hint: &str) -> Markup {
        self.field(name, label, hint, |described, is_wrong| {
            html! {
                textarea id=(name) name=(name) rows="2" spellcheck="false" aria-describedby=(described)
                    aria-invalid=[is_wrong.then_some("true")] { (self.entered.get(name)) }
            }
        })
    }

    /// One of several values; each with what is shown.
    pub(super) fn choice(&self, name: &str, label: &str, hint: &str, options: &[(&str, &str)]) -> Markup {
        let chosen = self.entered.get(name);
        self.field(name, label, hint, |described, is_wrong| {
            html! {
                select id=(name) name=(name) aria-describedby=(described) aria-invalid=[is_wrong.then_some("true")] {
                    @for (value, shown) in options { option value=(value) selected[*value == chosen] { (format::plain_name(shown, 60)) } }
                }
            }
        })
    }

    /// One of the teams, or none.
    pub(super) fn team(&self, worker: &GatewayView, hint: &str) -> Markup {
        let teams = team_names(worker);
        let named = teams.iter().map(|team| (&**team, &**team));
        self.choice("team", "Team", hint, &std::iter::once(("", "none")).chain(named).collect::<Vec<_>>())
    }

    /// Any of several values.
    pub(super) fn checks(&self, name: &str, legend: &str, hint: &str, options: &[(&str, &str)]) -> Markup {
        let chosen = self.entered.all(name);
        let fault = self.fault(name);
        html! {
            fieldset.field {
                legend { (legend) }
                @for (value, about) in options {
                    label.check { input type="checkbox" name=(name) value=(value) checked[chosen.contains(value)]; span { (value) " " span.muted { (about) } } }
                }
                p.hint { (hint) }
                @if let Some(fault) = fault { p.fault role="alert" { (fault) } }
            }
        }
    }
}

/// A question before something stops.
pub(super) struct Question<'a> {
    pub(super) title: String,
    /// What follows.
    pub(super) consequences: Markup,
    /// Where the form is sent, relative to the page.
    pub(super) action: &'a str,
    /// What the button says.
    pub(super) verb: &'a str,
    /// The page to return to, relative to the page.
    pub(super) back: &'a str,
    /// Further hidden fields.
    pub(super) hidden: Markup,
}

impl Question<'_> {
    /// The question as the content of a page.
    pub(super) fn markup(&self, frame: &Frame) -> Markup {
        html! {
            section.question {
                h1 { (self.title) }
                (self.consequences)
                form.inline method="post" action=(self.action) {
                    (frame.token()) (self.hidden)
                    button.danger type="submit" { (self.verb) }
                    a.button href=(self.back) { "Cancel" }
                }
            }
        }
    }
}

/// A choice in a form of filters: values with what is shown.
pub(super) fn select<'a, T: AsRef<str>>(
    name: &str,
    label: &str,
    chosen: &str,
    options: impl IntoIterator<Item = (&'a str, T)>,
) -> Markup {
    html! {
        label {
            span { (label) }
            select name=(name) {
                @for (value, shown) in options { option value=(value) selected[value == chosen] { (format::plain_name(shown.as_ref(), 40)) } }
            }
        }
    }
}

/// The same among words, or all of them.
pub(super) fn any_of(
    name: &str,
    label: &str,
    chosen: Option<&str>,
    words: &[&str],
    shown: fn(&str) -> String,
) -> Markup {
    let options = words.iter().map(|word| (*word, shown(word)));
    select(name, label, chosen.unwrap_or_default(), [("", "all".to_owned())].into_iter().chain(options))
}

/// A hidden field.
pub(super) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// A text to take along, with a button that copies it.
pub(super) fn to_copy(text: &str) -> Markup {
    html! {
        div.to-copy {
            pre tabindex="0" { (text) }
            button type="button" hidden data-copy=(text) { "Copy" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [Field; 5] = [
        ("name", Kind::Text),
        ("concurrency", Kind::Number),
        ("expires_at", Kind::Time),
        ("allowed_models", Kind::List),
        ("scopes", Kind::Choices),
    ];

    #[test]
    fn only_what_was_changed_is_sent_and_what_was_emptied_is_cleared() {
        let before =
            Entered::of_query("name=ci&concurrency=4&expires_at=2030-01-01T00:00&allowed_models=a/b&scopes=read");
        assert_eq!(before.changes(&FIELDS, &before), Map::new());
        let after = Entered::of_query("name=+ci+&concurrency=&expires_at=&allowed_models=&scopes=read&scopes=admin");
        let expected =
            json!({ "concurrency": null, "expires_at": null, "allowed_models": [], "scopes": ["read", "admin"] });
        assert_eq!(Value::Object(after.changes(&FIELDS, &before)), expected);
    }

    #[test]
    fn fields_become_members_and_what_is_no_number_is_left_to_the_api() {
        let entered =
            Entered::of_query("concurrency=many&expires_at=2030-01-01T08:30&allowed_models=a/b,+c/*%0Ad/e&name=");
        let expected = json!({
            "concurrency": "many", "expires_at": "2030-01-01T08:30:00Z", "allowed_models": ["a/b", "c/*", "d/e"],
        });
        assert_eq!(Value::Object(entered.members(&FIELDS)), expected);
    }

    #[test]
    fn an_error_stands_beside_its_field_or_above_all() {
        let entered = Entered::of_query("name=%3Cb%3E");
        let error = ApiError::bad_query("name", "'name' is <taken>.");
        let fields = Fields { entered: &entered, error: Some(&error) };
        let field = fields.text("name", "Name", "Of the key").into_string();
        assert!(field.contains("aria-invalid=\"true\"") && field.contains("'name' is &lt;taken&gt;."), "{field}");
        assert!(field.contains("value=\"&lt;b&gt;\""), "{field}");
        assert!(fields.general(&FIELDS).into_string().is_empty());
        let of_another = Fields { error: Some(&ApiError::no_such("key")), ..fields };
        assert!(of_another.general(&FIELDS).into_string().contains("role=\"alert\""));
        assert!(!of_another.text("name", "Name", "").into_string().contains("fault"));
    }
}
