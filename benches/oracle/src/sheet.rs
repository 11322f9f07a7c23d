//! A table of words, set as text or as Markdown.

use std::fmt::{self, Write};

/// A title, a header and rows. The first column is to the left, all others are to the right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    /// A table without rows.
    #[must_use]
    pub fn new<'a>(title: impl Into<String>, header: impl IntoIterator<Item = &'a str>) -> Sheet {
        Sheet { title: title.into(), rows: vec![header.into_iter().map(str::to_owned).collect()] }
    }

    /// One more row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// For a terminal.
    ///
    /// # Errors
    /// None but those of `out`.
    pub fn text(&self, out: &mut impl Write) -> fmt::Result {
        let widths = self.widths();
        writeln!(out, "{}", self.title)?;
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(out, "{cell:<width$}")?;
                } else {
                    write!(out, "  {cell:>width$}")?;
                }
            }
            writeln!(out)?;
        }
        writeln!(out)
    }

    /// For a page.
    ///
    /// # Errors
    /// None but those of `out`.
    pub fn markdown(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "**{}**\n", self.title)?;
        for (position, row) in self.rows.iter().enumerate() {
            writeln!(out, "| {} |", row.join(" | "))?;
            if position == 0 {
                writeln!(out, "|---|{}", "---:|".repeat(row.len() - 1))?;
            }
        }
        writeln!(out)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new("Fruit", ["name", "weight"]);
        sheet.row(["apple".to_owned(), "0.2".to_owned()]);
        sheet
    }

    #[test]
    fn text_is_aligned() {
        let mut text = String::new();
        sheet().text(&mut text).unwrap();
        assert_eq!(text, "Fruit\nname   weight\napple     0.2\n\n");
    }

    #[test]
    fn markdown_has_a_rule_under_its_header() {
        let mut text = String::new();
        sheet().markdown(&mut text).unwrap();
        assert_eq!(text, "**Fruit**\n\n| name | weight |\n|---|---:|\n| apple | 0.2 |\n\n");
    }
}
