//! Numbers from files: a column of a table, or raw floats.

use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::error::CliError;
use super::progress::Progress;

/// A column of numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Column {
    /// Its name, or its number from 1 where it has none.
    pub(super) name: String,
    /// The numbers, from the top.
    pub(super) values: Vec<f32>,
}

/// A table by the numbers in one of its columns.
#[derive(Debug)]
pub(super) struct Table<T> {
    /// The file.
    pub(super) bytes: Vec<u8>,
    /// Where its header stands, if it has one.
    pub(super) header: Option<Range<usize>>,
    /// Where each row stands, without the end of its line.
    pub(super) rows: Vec<Range<usize>>,
    /// The row's number.
    pub(super) values: Vec<T>,
}

/// A number that can stand in a column.
pub(super) trait Parsed: Copy {
    /// What the column holds, for messages: "a number".
    const WHAT: &'static str;
    /// What such a number fits into, for messages: "a 32-bit float".
    const ROOM: &'static str;

    /// The number that the text says.
    fn parse(text: &str) -> Result<Self, Refused>;
}

/// Why a text is no number of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It says none.
    NoNumber,
    /// It says one that the type has no room for.
    TooLarge,
}

macro_rules! parsed_floats {
    ($($ty:ty: $room:literal;)*) => {$(
        impl Parsed for $ty {
            const WHAT: &'static str = "a number";
            const ROOM: &'static str = $room;

            fn parse(text: &str) -> Result<Self, Refused> {
                let number: Self = text.parse().map_err(|_| Refused::NoNumber)?;
                // Infinity and NaN are words; digits that say one are a number that is too large.
                let too_large = !number.is_finite() && text.bytes().any(|byte| byte.is_ascii_digit());
                if too_large { Err(Refused::TooLarge) } else { Ok(number) }
            }
        }
    )*};
}

parsed_floats! {
    f32: "a 32-bit float";
    f64: "a 64-bit float";
}

macro_rules! parsed_integers {
    ($what:literal: $($ty:ty: $room:literal;)*) => {$(
        impl Parsed for $ty {
            const WHAT: &'static str = $what;
            const ROOM: &'static str = $room;

            fn parse(text: &str) -> Result<Self, Refused> {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
                    PosOverflow | NegOverflow => Refused::TooLarge,
                    _ => Refused::NoNumber,
                })
            }
        }
    )*};
}

parsed_integers! {
    "a whole number from 0":
    u8: "8 bits";
    u16: "16 bits";
    u32: "32 bits";
    u64: "64 bits";
}

parsed_integers! {
    "a whole number":
    i8: "8 bits with a sign";
    i16: "16 bits with a sign";
    i32: "32 bits with a sign";
    i64: "64 bits with a sign";
}

/// Reads little-endian 32-bit floats without anything between them.
pub(super) fn read_raw(path: &Path) -> Result<Vec<f32>, CliError> {
    let bytes = read(path)?;
    let (floats, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(CliError::PartialFloat { path: path.to_owned(), bytes: bytes.len() });
    }
    Ok(floats.iter().copied().map(f32::from_le_bytes).collect())
}

/// Reads the column `wanted`, by number from 1 or by name, of a table with commas between fields,
/// or tabs in a `.tsv` file. With one column there is nothing to choose.
pub(super) fn read_column(path: &Path, wanted: Option<&str>) -> Result<Column, CliError> {
    let mut values = Vec::new();
    let bytes = read(path)?;
    let (name, _) = visit(path, &bytes, wanted, |value, _| values.push(value))?;
    Ok(Column { name, values })
}

/// Reads a table whose column `wanted`, chosen as in [`read_column`], holds numbers.
pub(super) fn read_table<T: Parsed>(
    path: &Path,
    wanted: Option<&str>,
) -> Result<Table<T>, CliError> {
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    let bytes = read(path)?;
    let (_, header) = visit(path, &bytes, wanted, |value, row| {
        values.push(value);
        rows.push(row);
    })?;
    Ok(Table { bytes, header, rows, values })
}

/// Calls `each` with the number in each row, and the row's place; gives the column's name and the header's place.
fn visit<T: Parsed>(
    path: &Path,
    bytes: &[u8],
    wanted: Option<&str>,
    mut each: impl FnMut(T, Range<usize>),
) -> Result<(String, Option<Range<usize>>), CliError> {
    let progress = Progress::bytes(format!("reading {}", path.display()), bytes.len() as u64);
    let mut rows = Rows::new(path, bytes, progress.reading(bytes));
    if !rows.next()? {
        return Err(CliError::Empty { path: path.to_owned() });
    }
    let chosen = Chosen::among(&rows, wanted)?;
    let header = chosen.has_header.then(|| rows.place());
    let mut more = !chosen.has_header || rows.next()?;
    if !more {
        return Err(CliError::HeaderOnly { path: path.to_owned() });
    }
    while more {
        each(chosen.number(&rows)?, rows.place());
        more = rows.next()?;
    }
    Ok((chosen.name.trim_matches('`').to_owned(), header))
}

/// The whole file, which is not empty.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let _progress = Progress::unknown(format!("reading {}", path.display()));
    let bytes = fs::read(path).map_err(CliError::read(path))?;
    if bytes.is_empty() {
        return Err(CliError::Empty { path: path.to_owned() });
    }
    Ok(bytes)
}

/// The rows of a table, one at a time.
struct Rows<'a, R> {
    path: &'a Path,
    bytes: &'a [u8],
    reader: csv::Reader<R>,
    row: ByteRecord,
}

impl<'a, R: Read> Rows<'a, R> {
    /// `reader` reads `bytes`.
    fn new(path: &'a Path, bytes: &'a [u8], reader: R) -> Self {
        let tabs = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("tsv"));
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .delimiter(if tabs { b'\t' } else { b',' })
            .from_reader(reader);
        Self { path, bytes, reader, row: ByteRecord::new() }
    }

    /// Goes to the next row that is not blank; `false` at the end.
    fn next(&mut self) -> Result<bool, CliError> {
        self.reader.read_byte_record(&mut self.row).map_err(|error| CliError::BadTable {
            path: self.path.to_owned(),
            row: self.line(),
            reason: error.to_string(),
        })
    }

    /// Where the row stands in the file, without blank lines before it and the end of its line.
    fn place(&self) -> Range<usize> {
        let end = self.end();
        let begin = self.row.position().map_or(end, |position| position.byte() as usize).min(end);
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let row = &self.bytes[begin..end];
        let before = row.iter().take_while(|byte| is_end(byte)).count();
        let behind = row[before..].iter().rev().take_while(|byte| is_end(byte)).count();
        begin + before..end - behind
    }

    /// The byte behind what was read of the file.
    fn end(&self) -> usize {
        let end = usize::try_from(self.reader.position().byte()).unwrap_or(usize::MAX);
        end.min(self.bytes.len())
    }

    /// The line in which the row ends, from 1. The reader's own count is of rows and blank lines
    /// before them, so it is counted again; that is needed once, for a message.
    fn line(&self) -> usize {
        let read = self.bytes[..self.end()].trim_ascii_end();
        read.iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// The column that was chosen.
struct Chosen<'a> {
    path: &'a Path,
    name: String,
    index: usize,
    has_header: bool,
}

impl<'a> Chosen<'a> {
    /// Chooses by the first row.
    fn among(rows: &Rows<'a, impl Read>, wanted: Option<&str>) -> Result<Self, CliError> {
        let (path, first) = (rows.path, &rows.row);
        let columns: Vec<String> = first.iter().map(shown).collect();
        let found = match wanted.map(|wanted| (wanted, wanted.parse::<usize>())) {
            None if columns.len() == 1 => Some(0),
            None => return Err(CliError::WhichColumn { path: path.to_owned(), columns }),
            Some((_, Ok(number))) => number.checked_sub(1).filter(|at| *at < columns.len()),
            Some((name, Err(_))) => first.iter().position(|field| field == name.as_bytes()),
        };
        let Some(index) = found else {
            let column = wanted.unwrap_or_default().to_owned();
            return Err(CliError::NoColumn { path: path.to_owned(), column, columns });
        };
        let named = wanted.is_some_and(|wanted| wanted.parse::<usize>().is_err());
        let has_header = named || is_word(&first[index]);
        let number = (index + 1).to_string();
        let name = if has_header { columns[index].clone() } else { number };
        Ok(Self { path, name, index, has_header })
    }

    fn number<T: Parsed>(&self, rows: &Rows<'_, impl Read>) -> Result<T, CliError> {
        let field = rows.row.get(self.index).ok_or_else(|| self.too_short(rows))?;
        let text = std::str::from_utf8(field).map_err(|_| Refused::NoNumber);
        text.and_then(T::parse).map_err(|why| self.refuse::<T>(rows, field, why))
    }

    /// Why the row has no number here.
    fn refuse<T: Parsed>(
        &self,
        rows: &Rows<'_, impl Read>,
        field: &[u8],
        why: Refused,
    ) -> CliError {
        let (path, row, column) = (self.path.to_owned(), rows.line(), self.name.clone());
        let found = shown(field);
        match why {
            Refused::NoNumber => CliError::NotANumber { path, row, column, found, what: T::WHAT },
            Refused::TooLarge => CliError::TooLarge { path, row, column, found, room: T::ROOM },
        }
    }

    fn too_short(&self, rows: &Rows<'_, impl Read>) -> CliError {
        let (path, row, column) = (self.path.to_owned(), rows.line(), self.name.clone());
        CliError::ShortRow { path, row, column, fields: rows.row.len() }
    }
}

/// Whether a field of the first row can only be a name. A number with a slip in it is none.
fn is_word(field: &[u8]) -> bool {
    let text = String::from_utf8_lossy(field);
    text.parse::<f64>().is_err() && text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// A field for a message: whatever stands in the file, it stays short and on one line.
fn shown(field: &[u8]) -> String {
    const LEN: usize = 32;
    let text = String::from_utf8_lossy(field);
    let cut: String = text.chars().take(LEN).flat_map(char::escape_debug).collect();
    let more = if text.chars().count() > LEN { "…" } else { "" };
    format!("`{cut}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(text: &str, wanted: Option<&str>) -> Result<(String, Vec<f32>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let here = format!("{}/", dir.path().display());
        read_column(&path, wanted)
            .map(|column| (column.name, column.values))
            .map_err(|error| error.to_string().replace(&here, ""))
    }

    fn error(text: &str, wanted: Option<&str>) -> String {
        column(text, wanted).unwrap_err()
    }

    #[test]
    fn one_column_needs_no_choice_and_may_have_a_header() {
        assert_eq!(column("1\n2.5\n-3e2\n", None), Ok(("1".into(), vec![1.0, 2.5, -300.0])));
        assert_eq!(column("price\n1\n", None), Ok(("price".into(), vec![1.0])));
        assert_eq!(column("\u{feff}1\r\n 2 \r\n\r\n", None), Ok(("1".into(), vec![1.0, 2.0])));
    }

    #[test]
    fn a_column_is_chosen_by_name_or_number() {
        let text = "day,price\nmon,1\ntue,\"2\"\n";
        assert_eq!(column(text, Some("price")), Ok(("price".into(), vec![1.0, 2.0])));
        assert_eq!(column(text, Some("2")), Ok(("price".into(), vec![1.0, 2.0])));
        assert_eq!(column("a,1\nb,2\n", Some("2")), Ok(("2".into(), vec![1.0, 2.0])));
    }

    #[test]
    fn a_choice_that_cannot_be_made_says_what_there_is() {
        let all = "t.csv has 2 columns: choose one with --column (`day`, `price`)";
        assert_eq!(error("day,price\nmon,1\n", None), all);
        let none = "t.csv has no column cost; it has `day`, `price`";
        assert_eq!(error("day,price\nmon,1\n", Some("cost")), none);
        assert!(error("1,2\n", Some("3")).starts_with("t.csv has no column 3"));
        assert!(error("1,2\n", Some("0")).starts_with("t.csv has no column 0"));
    }

    #[test]
    fn what_is_no_number_is_named_with_its_row() {
        let line = "t.csv, row 3, column `price`: `two` is not a number";
        assert_eq!(error("price\n1\ntwo\n", None), line);
        assert_eq!(error("1.2.3\n1\n", None), "t.csv, row 1, column 1: `1.2.3` is not a number");
        assert_eq!(error("1\n\n\nx\n", None), "t.csv, row 4, column 1: `x` is not a number");
        assert_eq!(error("1\r\n2\r\nx", None), "t.csv, row 3, column 1: `x` is not a number");
        assert_eq!(error("a,b\n1,\n", Some("b")), "t.csv, row 2, column `b`: `` is not a number");
        assert_eq!(
            error("1\n1e40\n", None),
            "t.csv, row 2, column 1: `1e40` does not fit into a 32-bit float"
        );
        assert_eq!(
            error("a,b\n1\n", Some("b")),
            "t.csv, row 2: there is no column `b`; the row has 1"
        );
        assert!(error("1\n\u{1}\u{0}\n", None).contains("`\\u{1}\\0`"));
    }

    #[test]
    fn infinities_and_nan_are_numbers() {
        let (_, values) = column("inf\n-Infinity\nNaN\n", None).unwrap();
        assert_eq!(values[..2], [f32::INFINITY, f32::NEG_INFINITY]);
        assert!(values[2].is_nan());
    }

    #[test]
    fn nothing_is_an_error() {
        assert_eq!(error("", None), "t.csv is empty");
        assert_eq!(error("\n\n", None), "t.csv is empty");
        assert_eq!(error("price\n", None), "t.csv has no numbers below its header");
    }

    #[test]
    fn rows_are_found_as_they_stand() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(&path, "a,b\r\n1,x\r\n\r\n 2 ,\"y\nz\"\n3,").unwrap();
        let table = read_table::<i16>(&path, Some("a")).unwrap();
        let text = |place: Range<usize>| String::from_utf8(table.bytes[place].to_vec()).unwrap();
        assert_eq!(table.header.clone().map(text).as_deref(), Some("a,b"));
        let rows: Vec<_> = table.rows.iter().cloned().map(text).collect();
        assert_eq!(rows, ["1,x", " 2 ,\"y\nz\"", "3,"]);
        assert_eq!(table.values, [1, 2, 3]);
    }

    #[test]
    fn integers_keep_to_their_type() {
        assert_eq!(u8::parse("255"), Ok(255));
        assert_eq!(u8::parse("256"), Err(Refused::TooLarge));
        assert_eq!(i8::parse("-129"), Err(Refused::TooLarge));
        assert_eq!(
            (u8::parse("-1"), i32::parse("1.5")),
            (Err(Refused::NoNumber), Err(Refused::NoNumber))
        );
        assert_eq!((f64::parse("1e400"), f64::parse("1e40")), (Err(Refused::TooLarge), Ok(1e40)));
    }

    #[test]
    fn raw_floats_are_little_endian_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.f32");
        fs::write(&path, [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]).unwrap();
        assert_eq!(read_raw(&path).unwrap(), [1.0, -2.0]);
        fs::write(&path, [1, 2, 3, 4, 5]).unwrap();
        assert!(matches!(read_raw(&path), Err(CliError::PartialFloat { bytes: 5, .. })));
        fs::write(&path, []).unwrap();
        assert!(matches!(read_raw(&path), Err(CliError::Empty { .. })));
    }
}
