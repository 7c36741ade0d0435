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

/// Rows of `N` cells under a heading, perhaps in groups.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    columns: [(&'static str, Side); N],
    lines: Vec<Line<N>>,
}

#[derive(Debug)]
enum Line<const N: usize> {
    Row([String; N]),
    /// What the rows behind it have in common.
    Title(&'static str),
}

impl<const N: usize> Table<N> {
    pub(super) fn new(columns: [(&'static str, Side); N]) -> Self {
        Self { columns, lines: Vec::new() }
    }

    pub(super) fn add(&mut self, row: [String; N]) {
        self.lines.push(Line::Row(row));
    }

    /// Begins a group of rows.
    pub(super) fn begin(&mut self, title: &'static str) {
        self.lines.push(Line::Title(title));
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let head = Line::Row(self.columns.map(|(name, _)| name.to_owned()));
        let widths = std::array::from_fn(|column| {
            let width = |line: &Line<N>| match line {
                Line::Row(row) => row[column].chars().count(),
                Line::Title(_) => 0,
            };
            self.lines.iter().chain([&head]).map(width).max().unwrap_or(0)
        });
        std::iter::once(&head).chain(&self.lines).try_for_each(|line| match line {
            Line::Row(row) => writeln!(out, "{}", self.aligned(row, widths).trim_end()),
            Line::Title(title) => writeln!(out, "\n{title}"),
        })
    }

    /// The cells of a row, each in its column's width.
    fn aligned(&self, row: &[String; N], widths: [usize; N]) -> String {
        let cells = row.iter().zip(widths).zip(self.columns);
        let cells = cells.map(|((cell, width), (_, side))| match side {
            Side::Left => format!("{cell:<width$}"),
            Side::Right => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
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

    #[test]
    fn a_title_stands_alone_and_widens_nothing() {
        let mut table = Table::new([("name", Side::Left), ("n", Side::Right)]);
        table.begin("A long title");
        table.add(["a".into(), "1".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name  n\n\nA long title\na     1\n");
    }
}
