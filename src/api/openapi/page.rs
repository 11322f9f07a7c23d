//! An OpenAPI document as one HTML page: operations with their parameters, bodies and answers, then the headers of answers and
//! the schemas.

use std::fmt::{self, Write};

use serde_json::Value;

/// The style of the page. Its digest stands in the content security policy.
pub(in crate::api) const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fbfbfa;--card:#fff;--line:#e2e2dc;--ink:#1b1c1e;--accent:#1f4fd8}\
@media(prefers-color-scheme:dark){:root{--paper:#131416;--card:#1a1c1f;--line:#2d3035;--ink:#ececea;--accent:#86a8ff}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--paper)}\
a{color:var(--accent)}\
code,pre{font:13px/1.4 ui-monospace,monospace}\
details{background:var(--card);border:1px solid var(--line);border-radius:8px;margin:.4rem 0;padding:.2rem .8rem}\
pre{overflow:auto;padding:.5rem;border:1px solid var(--line);border-radius:8px}\
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
    write!(page, "<p>{}</p>", prose(text(document, "/info/description")))?;
    page.push_str("<p>The same for programs: <a href=\"openapi.json\">openapi.json</a></p><h2>Operations</h2>");
    let is_admin = title.ends_with("administration");
    for (path, item) in members(document.get("paths")) {
        for (method, operation) in members(Some(item)).filter(|(_, operation)| operation.get("responses").is_some()) {
            let server = [item, document].into_iter().find_map(|of| of.pointer("/servers/0/url")?.as_str());
            let address = format!("{}{path}", server.unwrap_or_default().trim_end_matches('/'));
            write_operation(page, (method, path), operation)?;
            write_curl(page, is_admin, (method, &address), operation)?;
        }
    }
    page.push_str("<h2>Headers of answers</h2><ul>");
    for (name, header) in members(document.pointer("/components/headers")) {
        write!(page, "<li><code>{name}</code>: {}</li>", prose(text(header, "/description")))?;
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
    write!(page, "{}</summary><ul>", prose(text(operation, "/summary")))?;
    for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        let (name, about) = (escaped(text(parameter, "/name")), prose(text(parameter, "/description")));
        write!(page, "<li><code>{name}</code> ({}): {about}</li>", escaped(text(parameter, "/in")))?;
    }
    for (kind, content) in members(operation.pointer("/requestBody/content")) {
        write!(page, "<li>Body, {}: {}</li>", escaped(kind), schema(content))?;
    }
    for (status, answer) in members(operation.get("responses")) {
        write!(page, "<li>{status}: {}", prose(text(answer, "/description")))?;
        for (kind, content) in members(answer.get("content")) {
            write!(page, " {}: {}", escaped(kind), schema(content))?;
        }
        page.push_str("</li>");
    }
    page.push_str("</ul>");
    Ok(())
}

/// The call as a line for a terminal, and the end of the operation.
fn write_curl(page: &mut String, is_admin: bool, (method, address): (&str, &str), operation: &Value) -> fmt::Result {
    let variables = if is_admin { "POINTSMAN_ADMIN_" } else { "POINTSMAN_" };
    let key = if is_admin { "KEY" } else { "API_KEY" };
    let method = if method == "get" { String::new() } else { format!(" -X {}", method.to_ascii_uppercase()) };
    let body = match operation.get("requestBody") {
        Some(_) => " -H 'Content-Type: application/json' -d @body.json",
        None => "",
    };
    let line =
        format!("curl{method} \"${variables}URL{address}\" -H \"Authorization: Bearer ${variables}{key}\"{body}");
    write!(page, "<pre>{}</pre></details>", escaped(&line))
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

/// Text in which what stands between back-ticks is code.
fn prose(text: &str) -> String {
    let parts = escaped(text);
    let parts: Vec<&str> = parts.split('`').collect();
    // A last back-tick without a partner is none.
    let is_code = |n: usize| n % 2 == 1 && n + 1 < parts.len();
    let shown = parts.iter().enumerate().map(|(n, part)| match (is_code(n), n) {
        (true, _) => format!("<code>{part}</code>"),
        (false, n) if n % 2 == 1 => format!("`{part}"),
        _ => (*part).to_owned(),
    });
    shown.collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
