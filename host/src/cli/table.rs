//! Tables for people.

use std::io::{self, Write};

/// Which side a column's text stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows of `N` cells under a heading.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    columns: [(&'static str, Side); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(columns: [(&'static str, Side); N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let head = self.columns.map(|(name, _)| name.to_owned());
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = self.rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        });
        std::iter::once(&head).chain(&self.rows).try_for_each(|row| {
            let cells = row.iter().zip(widths).zip(self.columns);
            let cells = cells.map(|((cell, width), (_, side))| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("name", Side::Left), ("GB/s", Side::Right)]);
        table.add(["blur".into(), "1234.5".into()]);
        table.add(["größer".into(), "1".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let expected = "name      GB/s\nblur    1234.5\ngrößer       1\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
