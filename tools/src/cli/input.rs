//! Files and standard input, as they are read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::memory::reserve;
use super::progress::Progress;

/// What is read: a file, or standard input where the path is `-`.
pub(super) struct Input<'a> {
    /// For messages.
    pub(super) name: &'a Path,
    pub(super) reader: Box<dyn BufRead>,
    /// How many bytes a file has.
    pub(super) len: Option<u64>,
    /// Tabs stand between the fields of a table, not commas.
    pub(super) has_tabs: bool,
}

impl<'a> Input<'a> {
    /// Opens a file, which is not empty.
    pub(super) fn open(path: &'a Path) -> Result<Self, CliError> {
        let (name, mut reader, len): (_, Box<dyn BufRead>, _) = match path == Path::new("-") {
            true => (Path::new("standard input"), Box::new(io::stdin().lock()), None),
            false => {
                let file = File::open(path).map_err(CliError::read(path))?;
                let found = file.metadata().map_err(CliError::read(path))?;
                let len = found.is_file().then_some(found.len());
                (path, Box::new(BufReader::new(file)), len)
            }
        };
        if reader.fill_buf().map_err(CliError::read(name))?.is_empty() {
            return Err(CliError::Empty { path: name.to_owned() });
        }
        let has_tabs = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("tsv"));
        Ok(Self { name, reader, len, has_tabs })
    }

    pub(super) fn progress(&self) -> Progress {
        let what = format!("reading {}", self.name.display());
        match self.len {
            Some(len) => Progress::bytes(what, len),
            None => Progress::unknown(what),
        }
    }

    /// All of it.
    pub(super) fn read(mut self) -> Result<Vec<u8>, CliError> {
        let progress = self.progress();
        let mut window = Window::new(self.name, progress.reading(&mut self.reader));
        window.expect(self.len)?;
        let copied = io::copy(&mut window, &mut io::sink());
        copied.map_err(|error| unreadable(self.name, error))?;
        Ok(window.bytes)
    }
}

/// Why reading failed: too little memory, or what the system says.
pub(super) fn unreadable(name: &Path, error: io::Error) -> CliError {
    match error.downcast::<CliError>() {
        Ok(error) => error,
        Err(error) => CliError::read(name)(error),
    }
}

/// A reader that keeps what it has read.
pub(super) struct Window<R> {
    /// What it reads, for messages.
    name: PathBuf,
    inner: R,
    pub(super) bytes: Vec<u8>,
    /// Where `bytes` begin in the file.
    pub(super) start: usize,
    /// The ends of lines before that.
    pub(super) lines: usize,
}

impl<R> Window<R> {
    pub(super) fn new(name: &Path, inner: R) -> Self {
        Self { name: name.to_owned(), inner, bytes: Vec::new(), start: 0, lines: 0 }
    }

    /// Makes room for all of a file, if its length is known.
    pub(super) fn expect(&mut self, len: Option<u64>) -> Result<(), CliError> {
        let len = usize::try_from(len.unwrap_or(0)).unwrap_or(usize::MAX);
        reserve(&mut self.bytes, &self.name, len)
    }

    /// The byte behind the last one.
    pub(super) fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    /// What stands in this part of the file.
    pub(super) fn text(&self, place: Range<usize>) -> &[u8] {
        &self.bytes[place.start - self.start..place.end - self.start]
    }

    /// Keeps nothing before this byte; seldom, since the rest moves.
    pub(super) fn forget_before(&mut self, byte: usize) {
        const SELDOM: usize = 1 << 18;
        let n = byte - self.start;
        if n > SELDOM {
            self.lines += ends_of_lines(&self.bytes[..n]);
            self.bytes.drain(..n);
            self.start = byte;
        }
    }
}

impl<R: Read> Read for Window<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        if self.bytes.capacity() - self.bytes.len() < read {
            let more = self.bytes.len().max(out.len());
            reserve(&mut self.bytes, &self.name, more).map_err(io::Error::other)?;
        }
        self.bytes.extend_from_slice(&out[..read]);
        Ok(read)
    }
}

pub(super) fn ends_of_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
