//! Memory whose size the input decides: too little of it is an error, and does not end the process.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::CliError;

/// Fewer bytes are asked for without a look at what the machine has.
const SMALL: usize = 16 << 20;

/// A buffer that grows with a file.
#[derive(Debug)]
pub(super) struct Growing<'a, T> {
    path: &'a Path,
    elements: Vec<T>,
}

impl<'a, T> Growing<'a, T> {
    /// An empty buffer for what is read of `path`.
    pub(super) fn new(path: &'a Path) -> Self {
        Self { path, elements: Vec::new() }
    }

    /// Adds an element.
    pub(super) fn push(&mut self, element: T) -> Result<(), CliError> {
        if self.elements.len() == self.elements.capacity() {
            let more = self.elements.len().max(1024);
            reserve(&mut self.elements, self.path, more)?;
        }
        self.elements.push(element);
        Ok(())
    }

    /// All elements.
    pub(super) fn into_vec(self) -> Vec<T> {
        self.elements
    }
}

/// `n` elements of an iterator that has as many.
pub(super) fn collect<T>(
    path: &Path,
    n: usize,
    elements: impl Iterator<Item = T>,
) -> Result<Vec<T>, CliError> {
    let mut all = Vec::new();
    reserve(&mut all, path, n)?;
    all.extend(elements);
    Ok(all)
}

/// Makes room for `more` elements of what `path` holds.
pub(super) fn reserve<T>(buffer: &mut Vec<T>, path: &Path, more: usize) -> Result<(), CliError> {
    let bytes = more.saturating_mul(size_of::<T>());
    check(path, bytes)?;
    let too_little = |_| out_of_memory(path, bytes, None);
    buffer.try_reserve_exact(more).map_err(too_little)
}

/// An error unless the machine has as many bytes to give. Linux grants more than it has, and ends processes later.
pub(super) fn check(path: &Path, bytes: usize) -> Result<(), CliError> {
    match available() {
        Some(available) if bytes > SMALL && bytes > available => {
            Err(out_of_memory(path, bytes, Some(available)))
        }
        _ => Ok(()),
    }
}

fn out_of_memory(path: &Path, bytes: usize, available: Option<usize>) -> CliError {
    CliError::OutOfMemory { path: PathBuf::from(path), bytes, available }
}

/// The bytes that the system can give without taking them from another process, where it says so.
fn available() -> Option<usize> {
    let report = fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_can_be_is_an_error() {
        let path = Path::new("big.csv");
        for n in [usize::MAX, usize::MAX / 16, 1 << 55] {
            let error = reserve(&mut Vec::<u64>::new(), path, n).unwrap_err();
            assert!(matches!(error, CliError::OutOfMemory { .. }), "{error}");
        }
        assert_eq!(collect(path, 3, 0..3).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_buffer_grows() {
        let mut growing = Growing::new(Path::new("n.csv"));
        (0..5000).for_each(|i| growing.push(i).unwrap());
        assert!(growing.into_vec().into_iter().eq(0..5000));
    }
}
