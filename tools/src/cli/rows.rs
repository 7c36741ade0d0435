//! The rows of a table, as they are read.

use std::io::{BufRead, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::error::CliError;
use super::input::{Input, Window, ends_of_lines, unreadable};
use super::progress::Progress;

/// Stands before a text to say that it is UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What stays of a table that was read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kept {
    /// The row that was read last.
    Row,
    All,
}

/// The rows of a table, one at a time.
pub(super) struct Rows<'a> {
    name: &'a Path,
    pub(super) reader: csv::Reader<Window<Box<dyn Read>>>,
    /// The fields of the row that was read last.
    pub(super) row: ByteRecord,
    /// Where it stands in the file, without blank lines before it and the end of its line.
    pub(super) place: Range<usize>,
    /// How many fields the first row has.
    fields: Option<usize>,
    delimiter: u8,
    kept: Kept,
    _progress: Progress,
}

impl<'a> Rows<'a> {
    pub(super) fn of(mut input: Input<'a>, kept: Kept) -> Result<Self, CliError> {
        let progress = input.progress();
        if is_wide(input.reader.fill_buf().map_err(CliError::read(input.name))?) {
            return Err(CliError::NotUtf8 { path: input.name.to_owned() });
        }
        let Input { name, reader, len, has_tabs } = input;
        let inner: Box<dyn Read> = Box::new(progress.reading(reader));
        let mut window = Window::new(name, inner);
        if kept == Kept::All {
            window.expect(len)?;
        }
        let delimiter = if has_tabs { b'\t' } else { b',' };
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .delimiter(delimiter)
            .from_reader(window);
        let (row, place, fields) = (ByteRecord::new(), 0..0, None);
        Ok(Self { name, reader, row, place, fields, delimiter, kept, _progress: progress })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.name.to_owned()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.reader.into_inner().bytes
    }

    /// Goes to the next row that is not blank; `false` at the end.
    pub(super) fn next(&mut self) -> Result<bool, CliError> {
        if self.kept == Kept::Row {
            self.reader.get_mut().forget_before(self.place.start);
        }
        if !self.reader.read_byte_record(&mut self.row).map_err(|error| self.refused(error))? {
            return if self.is_open() { Err(self.never_closed()) } else { Ok(false) };
        }
        self.place = self.place();
        let (fields, expected) = (self.row.len(), *self.fields.get_or_insert(self.row.len()));
        if fields > expected {
            let (path, row) = (self.path(), self.line());
            return Err(CliError::LongRow { path, row, fields, expected });
        }
        Ok(true)
    }

    fn refused(&self, error: csv::Error) -> CliError {
        let (path, row) = (self.path(), self.line());
        match error.into_kind() {
            csv::ErrorKind::Io(error) => unreadable(self.name, error),
            _ => CliError::BadTable { path, row, reason: "the row cannot be read".to_owned() },
        }
    }

    /// Where the row that was just read stands.
    fn place(&self) -> Range<usize> {
        let window = self.reader.get_ref();
        let end =
            usize::try_from(self.reader.position().byte()).unwrap_or(usize::MAX).min(window.end());
        let begin = self.row.position().map_or(end, |position| position.byte() as usize).min(end);
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let row = window.text(begin..end);
        let marked = begin == 0 && row.starts_with(BYTE_ORDER_MARK);
        let mark = if marked { BYTE_ORDER_MARK.len() } else { 0 };
        let before = mark + row[mark..].iter().take_while(|byte| is_end(byte)).count();
        let behind = row[before..].iter().rev().take_while(|byte| is_end(byte)).count();
        begin + before..end - behind
    }

    /// Whether the row ends within quotes. A quote opens a field as its first byte alone, and two of them within
    /// the field are one of its text.
    fn is_open(&self) -> bool {
        #[derive(PartialEq)]
        enum At {
            Begin,
            Plain,
            Quoted,
            /// Behind a quote within quotes: the end of them, or the first of two.
            Quote,
        }
        let mut at = At::Begin;
        for &byte in self.reader.get_ref().text(self.place.clone()) {
            at = match (at, byte) {
                (At::Begin | At::Quote, b'"') | (At::Quoted, 0..=b'!' | b'#'..) => At::Quoted,
                (At::Quoted, b'"') => At::Quote,
                (_, byte) if byte == self.delimiter => At::Begin,
                _ => At::Plain,
            };
        }
        at == At::Quoted
    }

    fn never_closed(&self) -> CliError {
        let (path, row) = (self.path(), self.line_of(self.place.start));
        CliError::OpenQuote { path, row }
    }

    /// The line in which the row ends, from 1.
    pub(super) fn line(&self) -> usize {
        self.line_of(self.place.end)
    }

    /// The line of a byte of the row. The reader's own count is of rows and blank lines before them, so it is
    /// counted again; that is needed once, for a message.
    fn line_of(&self, byte: usize) -> usize {
        let window = self.reader.get_ref();
        window.lines + ends_of_lines(window.text(window.start..byte)) + 1
    }
}

/// Whether a text has two bytes or more for each character, as its mark says, or a NUL in the first of them.
fn is_wide(text: &[u8]) -> bool {
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_text_is_refused() {
        for text in ["\u{feff}price\n1\n", "1\n2\n"] {
            for order in [u16::to_le_bytes, u16::to_be_bytes] {
                let bytes: Vec<u8> = text.encode_utf16().flat_map(order).collect();
                assert!(is_wide(&bytes), "{bytes:?}");
            }
            assert!(!is_wide(text.as_bytes()));
        }
    }
}
