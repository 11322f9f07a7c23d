//! An OpenAPI document as one HTML page in the style of the console: operations by subject with their parameters, bodies, answers
//! and a line to try them with; then the headers of answers and the schemas.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

/// Colours and elements of all pages. Its digest stands in the content security policy.
pub(crate) const STYLE: &str = include_str!("../page.css");

/// A whole page without a script.
pub(in crate::api) fn frame(title: &str, content: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header.top { a.brand href="./" { (mark()) span { "Pointsman" } } }
                main.doc { h1 { (title) } (content) }
            }
        }
    };
    page.into_string()
}

/// The mark of the product: one line that parts into two.
pub(crate) fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            path d="M3 12h6c5 0 5-6 12-6" {}
            path.off d="M9 12c5 0 5 6 12 6" {}
            circle cx="9" cy="12" r="2.4" {}
        }
    }
}

/// The page.
pub(super) fn render(document: &Value) -> String {
    let subjects = document.get("tags").and_then(Value::as_array).into_iter().flatten();
    let title = format!("{} {}", text(document, "/info/title"), text(document, "/info/version"));
    let content = html! {
        p.lead { (prose(text(document, "/info/description"))) }
        p.muted { "The same for programs: " a href="openapi.json" { "openapi.json" } }
        @for subject in subjects.map(|subject| text(subject, "/name")) {
            h2 #(subject) { (capitalised(subject)) }
            @for (path, item) in members(document.get("paths")) {
                @for (method, operation) in members(Some(item)) {
                    @if text(operation, "/tags/0") == subject { (Operation { document, item, method, path, operation }.markup()) }
                }
            }
        }
        h2 { "Headers of answers" }
        ul {
            @for (name, header) in members(document.pointer("/components/headers")) {
                li { code { (name) } ": " (prose(text(header, "/description"))) }
            }
        }
        h2 { "Schemas" }
        @for (name, schema) in members(document.pointer("/components/schemas")) {
            // Browsers open what the target of a link is in.
            details { summary { code { (name) } } pre #(name) tabindex="0" { (format!("{schema:#}")) } }
        }
    };
    frame(&title, content)
}

/// One call.
struct Operation<'a> {
    document: &'a Value,
    /// All calls of its path.
    item: &'a Value,
    method: &'a str,
    path: &'a str,
    operation: &'a Value,
}

impl Operation<'_> {
    fn markup(&self) -> Markup {
        let Operation { method, path, operation, .. } = self;
        let bodies: Vec<(&str, &Value)> = members(operation.pointer("/requestBody/content")).collect();
        html! {
            details {
                summary {
                    span.tag.(if *method == "get" { "good" } else { "info" }) { (method.to_ascii_uppercase()) }
                    code { (path) } span.muted { (prose(text(operation, "/summary"))) }
                }
                div {
                    @if let Some(about) = operation.get("description").and_then(Value::as_str) { p { (prose(about)) } }
                    pre.try tabindex="0" { (self.attempt()) }
                    @if !self.parameters().is_empty() {
                        h3 { "Parameters" }
                        ul {
                            @for parameter in self.parameters() {
                                li {
                                    code { (text(parameter, "/name")) } span.muted { " in the " (text(parameter, "/in")) ": " }
                                    (prose(text(parameter, "/description")))
                                }
                            }
                        }
                    }
                    @if !bodies.is_empty() {
                        h3 { "Body" }
                        ul { @for (kind, content) in bodies { li { (kind) ": " (schema(content)) } } }
                    }
                    h3 { "Answers" }
                    ul {
                        @for (status, answer) in members(operation.get("responses")) {
                            li {
                                strong { (status) } " " (prose(text(answer, "/description")))
                                @for (kind, content) in members(answer.get("content")) { " " span.muted { (kind) } " " (schema(content)) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn parameters(&self) -> &[Value] {
        self.operation.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The call as a line for a terminal.
    fn attempt(&self) -> String {
        let servers = [self.item, self.document].into_iter().find_map(|of| of.get("servers"));
        let base = servers.map(|servers| text(servers, "/0/url")).unwrap_or_default().trim_end_matches('/');
        let is_needed = |parameter: &&Value| text(parameter, "/in") == "query" && parameter["required"] == true;
        let needed = self.parameters().iter().filter(is_needed).map(|parameter| text(parameter, "/name"));
        let needed: Vec<String> = needed.map(|name| format!("{name}={{{name}}}")).collect();
        let query = if needed.is_empty() { String::new() } else { format!("?{}", needed.join("&")) };
        let method =
            if self.method == "get" { String::new() } else { format!(" -X {}", self.method.to_ascii_uppercase()) };
        let is_json = self.operation.pointer("/requestBody/content/application~1json").is_some();
        let body = if is_json { " -H \"Content-Type: application/json\" -d @body.json" } else { "" };
        let is_admin = self.document.pointer("/paths/~1api~1v1~1admin~1status").is_some();
        let (key, url) = if is_admin { ("ADMIN_KEY", "ADMIN_URL") } else { ("API_KEY", "URL") };
        let path = self.path;
        format!(
            "curl{method} -H \"Authorization: Bearer $POINTSMAN_{key}\"{body} \"$POINTSMAN_{url}{base}{path}{query}\""
        )
    }
}

/// A link to a named schema; any other schema in short.
fn schema(content: &Value) -> Markup {
    match content.pointer("/schema/$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        Some(name) => html! { a href={ "#" (name) } { code { (name) } } },
        None => html! { (text(content, "/schema/type")) },
    }
}

/// A text in which what stands between back-ticks is code.
fn prose(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() { @if n % 2 == 1 { code { (part) } } @else { (part) } }
    }
}

fn capitalised(word: &str) -> String {
    word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1)).collect()
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
