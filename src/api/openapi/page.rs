//! An OpenAPI document as one HTML page: operations with their parameters, bodies and answers, then the headers of answers and
//! the schemas.

use std::fmt::{self, Write};

use serde_json::Value;

/// The style of the page. Its digest stands in the content security policy.
pub(in crate::api) const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
code,pre{font:14px/1.4 ui-monospace,monospace}\
pre{overflow:auto;padding:.5rem;border:1px solid}\
summary{cursor:pointer;padding:.25rem 0}";

/// The page.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, document);
    page
}

fn write_page(page: &mut String, document: &Value) -> fmt::Result {
    let title = escaped(text(document, "/info/title"));
    write!(page, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>")?;
    write!(page, "<meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>")?;
    write!(page, "<h1>{title} {}</h1>", escaped(text(document, "/info/version")))?;
    write!(page, "<p>{}</p>", escaped(text(document, "/info/description")))?;
    page.push_str("<p>The same for programs: <a href=\"openapi.json\">openapi.json</a></p><h2>Operations</h2>");
    for (path, item) in members(document.get("paths")) {
        for (method, operation) in members(Some(item)).filter(|(_, operation)| operation.get("responses").is_some()) {
            write_operation(page, (method, path), operation)?;
        }
    }
    page.push_str("<h2>Headers of answers</h2><ul>");
    for (name, header) in members(document.pointer("/components/headers")) {
        write!(page, "<li><code>{name}</code>: {}</li>", escaped(text(header, "/description")))?;
    }
    page.push_str("</ul><h2>Schemas</h2>");
    for (name, schema) in members(document.pointer("/components/schemas")) {
        write!(page, "<details id=\"{name}\"><summary><code>{name}</code></summary>")?;
        write!(page, "<pre>{}</pre></details>", escaped(&format!("{schema:#}")))?;
    }
    page.push_str("</body></html>\n");
    Ok(())
}

fn write_operation(page: &mut String, (method, path): (&str, &str), operation: &Value) -> fmt::Result {
    let method = method.to_ascii_uppercase();
    write!(page, "<details><summary><code>{method} {}</code> ", escaped(path))?;
    write!(page, "{}</summary><ul>", escaped(text(operation, "/summary")))?;
    for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        let (name, about) = (escaped(text(parameter, "/name")), escaped(text(parameter, "/description")));
        write!(page, "<li><code>{name}</code> ({}): {about}</li>", escaped(text(parameter, "/in")))?;
    }
    for (kind, content) in members(operation.pointer("/requestBody/content")) {
        write!(page, "<li>Body, {}: {}</li>", escaped(kind), schema(content))?;
    }
    for (status, answer) in members(operation.get("responses")) {
        write!(page, "<li>{status}: {}", escaped(text(answer, "/description")))?;
        for (kind, content) in members(answer.get("content")) {
            write!(page, " {}: {}", escaped(kind), schema(content))?;
        }
        page.push_str("</li>");
    }
    page.push_str("</ul></details>");
    Ok(())
}

/// A link to a named schema; any other schema in short.
fn schema(content: &Value) -> String {
    match content.pointer("/schema/$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        Some(name) => format!("<a href=\"#{0}\"><code>{0}</code></a>", escaped(name)),
        None => escaped(text(content, "/schema/type")),
    }
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
