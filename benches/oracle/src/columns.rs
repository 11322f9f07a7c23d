//! Comma-separated tables with a header, as public data sets come.

/// A table.
pub struct Columns<'t> {
    name: &'t str,
    header: Vec<&'t str>,
    lines: Vec<Vec<&'t str>>,
}

/// One line of a table.
pub struct Line<'c, 't> {
    table: &'c Columns<'t>,
    position: usize,
}

impl<'t> Columns<'t> {
    /// Reads a table; the name stands in errors.
    ///
    /// # Errors
    /// It has no lines.
    pub fn parse(name: &'t str, table: &'t str) -> Result<Columns<'t>, String> {
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap_or_default();
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            return Err(format!("{name} is empty"));
        }
        Ok(Columns { name, header, lines })
    }

    /// Its lines.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_, 't>> {
        (0..self.lines.len()).map(|position| Line { table: self, position })
    }
}

impl<'t> Line<'_, 't> {
    /// The cell of a column.
    ///
    /// # Errors
    /// There is no such column, or the line is short.
    pub fn word(&self, column: &str) -> Result<&'t str, String> {
        let at = self.table.header.iter().position(|name| *name == column);
        let at = at.ok_or_else(|| format!("{} has no column {column}", self.table.name))?;
        self.table.lines[self.position].get(at).copied().ok_or_else(|| self.fault("is short"))
    }

    /// The number in a column, at least 0.
    ///
    /// # Errors
    /// There is no such column, or no such number in it.
    pub fn number(&self, column: &str) -> Result<f64, String> {
        let number = self.word(column)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.fault(&format!("column {column} is no number")))
    }

    /// An error that names the line.
    pub fn fault(&self, what: &str) -> String {
        format!("{}, line {}: {what}", self.table.name, self.position + 2)
    }
}
