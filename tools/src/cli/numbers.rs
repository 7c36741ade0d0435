//! Numbers from files: a column of a table, or raw numbers.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use bytemuck::Pod;

use super::error::CliError;
use super::input::Input;
use super::memory::{self, Growing};
use super::rows::{Kept, Rows};

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

/// Calls `each` with the little-endian 32-bit floats of a file that holds nothing else.
pub(super) fn each_float(
    path: &Path,
    mut each: impl FnMut(f32) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let input = Input::open(path)?;
    let progress = input.progress();
    let Input { name, reader, .. } = input;
    let mut reader = progress.reading(reader);
    let (mut chunk, mut kept, mut bytes) = ([0; 1 << 16], 0, 0);
    loop {
        let read = match reader.read(&mut chunk[kept..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(CliError::read(name))?,
        };
        let (floats, rest) = chunk[..kept + read].as_chunks::<4>();
        floats.iter().try_for_each(|float| each(f32::from_le_bytes(*float)))?;
        bytes += read;
        if read == 0 {
            break match rest {
                [] => Ok(()),
                _ => Err(CliError::PartialFloat { path: name.to_owned(), bytes }),
            };
        }
        let whole = floats.len() * 4;
        chunk.copy_within(whole..kept + read, 0);
        kept = kept + read - whole;
    }
}

/// Reads raw numbers. They are little-endian in the file, as in every host that has a driver.
pub(super) fn read_numbers<T: Pod>(path: &Path, element: &'static str) -> Result<Vec<T>, CliError> {
    let input = Input::open(path)?;
    let name = input.name;
    let (bytes, size) = (input.read()?, size_of::<T>());
    if !bytes.len().is_multiple_of(size) {
        let bytes = bytes.len();
        return Err(CliError::PartialElement { path: name.to_owned(), bytes, size, element });
    }
    let numbers = bytes.chunks_exact(size).map(bytemuck::pod_read_unaligned::<T>);
    memory::collect(name, bytes.len() / size, numbers)
}

/// Calls `each` with the numbers in the column `wanted`, by number from 1 or by name, of a table with commas
/// between fields, or tabs in a `.tsv` file; gives the column's name. With one column there is nothing to choose.
/// No more of the file is kept than a row and a buffer.
pub(super) fn each_in_column(
    path: &Path,
    wanted: Option<&str>,
    mut each: impl FnMut(f32) -> Result<(), CliError>,
) -> Result<String, CliError> {
    let mut rows = Rows::of(Input::open(path)?, Kept::Row)?;
    let (name, _) = visit(&mut rows, wanted, |value, _| each(value))?;
    Ok(name)
}

/// Reads a table whose column `wanted`, chosen as in [`each_in_column`], holds numbers.
pub(super) fn read_table<T: Parsed>(
    path: &Path,
    wanted: Option<&str>,
) -> Result<Table<T>, CliError> {
    let input = Input::open(path)?;
    let name = input.name;
    let mut all = Rows::of(input, Kept::All)?;
    let (mut values, mut rows) = (Growing::new(name), Growing::new(name));
    let (_, header) = visit(&mut all, wanted, |value, row| {
        values.push(value)?;
        rows.push(row)
    })?;
    let (values, rows) = (values.into_vec(), rows.into_vec());
    Ok(Table { bytes: all.into_bytes(), header, rows, values })
}

/// Calls `each` with the number in each row, and the row's place; gives the column's name and the header's place.
fn visit<T: Parsed>(
    rows: &mut Rows<'_>,
    wanted: Option<&str>,
    mut each: impl FnMut(T, Range<usize>) -> Result<(), CliError>,
) -> Result<(String, Option<Range<usize>>), CliError> {
    if !rows.next()? {
        return Err(CliError::Empty { path: rows.path() });
    }
    let chosen = Chosen::among(rows, wanted)?;
    let header = chosen.has_header.then(|| rows.place.clone());
    let mut more = !chosen.has_header || rows.next()?;
    if !more {
        return Err(CliError::HeaderOnly { path: rows.path() });
    }
    while more {
        each(chosen.number(rows)?, rows.place.clone())?;
        more = rows.next()?;
    }
    Ok((chosen.name.trim_matches('`').to_owned(), header))
}

/// The column that was chosen.
struct Chosen {
    name: String,
    index: usize,
    has_header: bool,
}

impl Chosen {
    /// Chooses by the first row.
    fn among(rows: &Rows<'_>, wanted: Option<&str>) -> Result<Self, CliError> {
        let first = &rows.row;
        let columns: Vec<String> = first.iter().map(shown).collect();
        let found = match wanted.map(|wanted| (wanted, wanted.parse::<usize>())) {
            None if columns.len() == 1 => Some(0),
            None => return Err(CliError::WhichColumn { path: rows.path(), columns }),
            Some((_, Ok(number))) => number.checked_sub(1).filter(|at| *at < columns.len()),
            Some((name, Err(_))) => named(rows, name)?,
        };
        let Some(index) = found else {
            let column = wanted.unwrap_or_default().to_owned();
            return Err(CliError::NoColumn { path: rows.path(), column, columns });
        };
        let named = wanted.is_some_and(|wanted| wanted.parse::<usize>().is_err());
        let has_header = named || is_word(&first[index]);
        let number = (index + 1).to_string();
        let name = if has_header { columns[index].clone() } else { number };
        Ok(Self { name, index, has_header })
    }

    fn number<T: Parsed>(&self, rows: &Rows<'_>) -> Result<T, CliError> {
        let field = rows.row.get(self.index).ok_or_else(|| self.too_short(rows))?;
        let text = std::str::from_utf8(field).map_err(|_| Refused::NoNumber);
        text.and_then(T::parse).map_err(|why| self.refuse::<T>(rows, field, why))
    }

    /// Why the row has no number here.
    fn refuse<T: Parsed>(&self, rows: &Rows<'_>, field: &[u8], why: Refused) -> CliError {
        let (path, row, column) = (rows.path(), rows.line(), self.name.clone());
        let found = shown(field);
        match why {
            Refused::NoNumber => CliError::NotANumber { path, row, column, found, what: T::WHAT },
            Refused::TooLarge => CliError::TooLarge { path, row, column, found, room: T::ROOM },
        }
    }

    fn too_short(&self, rows: &Rows<'_>) -> CliError {
        let (path, row, column) = (rows.path(), rows.line(), self.name.clone());
        CliError::ShortRow { path, row, column, fields: rows.row.len() }
    }
}

/// The place of the one column of that name, by the first row.
fn named(rows: &Rows<'_>, name: &str) -> Result<Option<usize>, CliError> {
    let is_it = |(at, field): (usize, &[u8])| (field == name.as_bytes()).then_some(at);
    let places: Vec<usize> = rows.row.iter().enumerate().filter_map(is_it).collect();
    if places.len() > 1 {
        let numbers = places.into_iter().map(|at| at + 1).collect();
        let column = shown(name.as_bytes());
        return Err(CliError::AmbiguousColumn { path: rows.path(), column, numbers });
    }
    Ok(places.first().copied())
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
    use std::fs;

    fn column(text: &str, wanted: Option<&str>) -> Result<(String, Vec<f32>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let here = format!("{}/", dir.path().display());
        let mut values = Vec::new();
        let each = |value| {
            values.push(value);
            Ok(())
        };
        each_in_column(&path, wanted, each)
            .map(|name| (name, values))
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
    fn a_row_with_more_fields_than_the_first_is_refused() {
        let line = "t.csv, row 2 has 2 fields, and the first row has 1: ";
        assert!(error("price\n1,5\n", None).starts_with(line));
        assert!(error("a,b\n1,2\n1,2,\n", Some("a")).starts_with("t.csv, row 3 has 3 fields"));
        assert_eq!(column("a,b\n1\n2,3\n", Some("a")).unwrap().1, [1.0, 2.0]);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_refused_where_it_opens() {
        let open = |row| format!("t.csv, row {row}: a quote is opened and never closed");
        assert_eq!(error("price\n\"1\n", None), open(2));
        assert_eq!(error("\"price\n1\n", None), open(1));
        assert_eq!(error("a,b\n1,x\n2,\"y\n3,z\n", Some("a")), open(3));
        assert_eq!(error("a,b\n1,\"x \"\"y", Some("a")), open(2));
        for closed in
            ["a,b\n1,\"\"\n", "a,b\n1,\"x\"\"\"\n", "a,b\n1,x\"\n", "\u{feff}\"a\",b\n1,\"x\"y"]
        {
            assert_eq!(column(closed, Some("a")).unwrap().1, [1.0], "{closed:?}");
        }
    }

    #[test]
    fn a_name_that_two_columns_have_is_no_choice() {
        let line = "t.csv has several columns `price`: choose one by its number (1, 3)";
        assert_eq!(error("price,day,price\n1,2,3\n", Some("price")), line);
        assert_eq!(column("price,price\n1,3\n", Some("2")).unwrap().1, [3.0]);
    }

    /// Rows that leave the window while the table is read.
    #[test]
    fn lines_are_counted_where_no_more_than_a_row_is_kept() {
        let rows = "1,some text that fills the window\n".repeat(50_000);
        let told = error(&format!("a,b\n{rows}x,y\n"), Some("a"));
        assert_eq!(told, "t.csv, row 50002, column `a`: `x` is not a number");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(&path, format!("a,b\n{rows}")).unwrap();
        let mut table = Rows::of(Input::open(&path).unwrap(), Kept::Row).unwrap();
        let name = visit(&mut table, Some("a"), |_: f32, _| Ok(())).unwrap().0;
        let most = table.reader.get_ref().bytes.capacity();
        assert!(name == "a" && most < rows.len() / 2, "{most}");
    }

    fn floats(path: &Path) -> Result<Vec<f32>, CliError> {
        let mut all = Vec::new();
        each_float(path, |float| {
            all.push(float);
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn raw_floats_are_little_endian_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.f32");
        fs::write(&path, [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]).unwrap();
        assert_eq!(floats(&path).unwrap(), [1.0, -2.0]);
        let many: Vec<f32> = (0..50_000).map(|i| i as f32).collect();
        fs::write(&path, bytemuck::cast_slice(&many)).unwrap();
        assert_eq!(floats(&path).unwrap(), many);
        fs::write(&path, [1, 2, 3, 4, 5]).unwrap();
        assert!(matches!(floats(&path), Err(CliError::PartialFloat { bytes: 5, .. })));
        fs::write(&path, []).unwrap();
        assert!(matches!(floats(&path), Err(CliError::Empty { .. })));
    }
}
