//! Rows of CSV after RFC 4180, safe to open in a spreadsheet.

use std::{borrow::Cow, collections::BTreeMap};

use actix_web::{HttpResponse, HttpResponseBuilder, http::header};
use serde::Serialize;
use serde_json::value::RawValue;

/// Characters that a formula begins with.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A text in the making.
#[derive(Default)]
pub(crate) struct Csv(String);

/// The members of a JSON object as cells: texts without quotes, exact numbers, and nothing for `null`.
pub(crate) fn cells(body: &impl Serialize) -> BTreeMap<String, String> {
    let text = serde_json::to_string(body).unwrap_or_default();
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(&text).unwrap_or_default();
    let cell = |raw: &RawValue| match raw.get() {
        "null" => String::new(),
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        other => other.to_owned(),
    };
    members.into_iter().map(|(name, raw)| (name.into_owned(), cell(raw))).collect()
}

/// An answer that is saved as a file of this name.
pub(super) fn file(name: &str) -> HttpResponseBuilder {
    let mut answer = HttpResponse::Ok();
    answer.insert_header((header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present"));
    answer.insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")));
    answer.insert_header((header::CACHE_CONTROL, "no-store"));
    answer
}

impl Csv {
    /// Adds a row.
    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        for (at, cell) in cells.into_iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.cell(cell);
        }
        self.0.push_str("\r\n");
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn cell(&mut self, text: &str) {
        // Spreadsheets run a cell that begins so as a formula, some also after whitespace or in full width.
        let is_formula = text.trim_start().starts_with(FORMULA) || text.starts_with(['\t', '\r', '\n']);
        let guard = if is_formula { "'" } else { "" };
        if text.contains([',', '"', '\r', '\n']) || text.starts_with(' ') || text.ends_with(' ') {
            self.0.extend(["\"", guard, &text.replace('"', "\"\""), "\""]);
        } else {
            self.0.extend([guard, text]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_only_where_they_must_be() {
        let mut csv = Csv::default();
        csv.row(["plain", "", "a,b", "say \"hi\"", "two\nlines", " edge"]);
        csv.row(["last"]);
        assert_eq!(csv.into_text(), "plain,,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\" edge\"\r\nlast\r\n");
    }

    #[test]
    fn no_cell_begins_like_a_formula() {
        for (cell, expected) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("＝1", "'＝1"),
            ("  =1", "\"'  =1\""),
            ("\r=1", "\"'\r=1\""),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("a=1", "a=1"),
        ] {
            let mut csv = Csv::default();
            csv.row([cell]);
            assert_eq!(csv.into_text(), format!("{expected}\r\n"), "{cell:?}");
        }
    }
}
