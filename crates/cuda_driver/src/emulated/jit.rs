//! Options of a module load or a link.
//!
//! The logs and the time are what the emulator has to say. Options about the machine code (its
//! optimisation, registers, target, caching, rounding shortcuts) have nothing to act on: there is
//! no machine code, and results are those of the PTX as written.

use std::ffi::c_void;
use std::time::Instant;

use super::invalid;
use crate::abi::{
    ERROR_LOG, ERROR_LOG_BYTES, HostPtr, INFO_LOG, INFO_LOG_BYTES, In, Out, TARGET_FROM_CONTEXT,
};
use crate::codes::CUDA_ERROR_NOT_SUPPORTED;
use crate::detail::{Answer, Failure};

const WALL_TIME: i32 = 2;
/// Addresses for names that the text leaves open: three options.
const SYMBOLS: std::ops::RangeInclusive<i32> = 17..=19;
/// The highest option of the current driver API.
const LAST: i32 = 34;

/// A caller's buffer for a log.
#[derive(Default)]
struct Log {
    buffer: Option<HostPtr>,
    /// Its size, and where among the values it stands: the length written goes there.
    bytes: Option<(usize, usize)>,
}

/// The options that ask for something.
pub(super) struct Options {
    values: Out<*mut c_void>,
    info: Log,
    error: Log,
    wall_time: Option<usize>,
}

impl Options {
    pub(super) fn read(n_options: u32, options: In<i32>, values: Out<*mut c_void>) -> Answer<Self> {
        let mut read =
            Self { values, info: Log::default(), error: Log::default(), wall_time: None };
        if n_options > 0 && options.is_null() {
            return Err(invalid("the options are a null pointer"));
        }
        for at in 0..n_options as usize {
            read.take(at, options.at(at))?;
        }
        Ok(read)
    }

    fn take(&mut self, at: usize, option: i32) -> Answer {
        match option {
            INFO_LOG => self.info.buffer = Some(HostPtr(self.value(at)?)),
            INFO_LOG_BYTES => self.info.bytes = Some((self.value(at)?.addr(), at)),
            ERROR_LOG => self.error.buffer = Some(HostPtr(self.value(at)?)),
            ERROR_LOG_BYTES => self.error.bytes = Some((self.value(at)?.addr(), at)),
            WALL_TIME => self.wall_time = Some(at),
            TARGET_FROM_CONTEXT => {}
            _ if SYMBOLS.contains(&option) => {
                let text = "the emulator does not take addresses for a module's symbols";
                return Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, text));
            }
            0..=LAST => {}
            _ => return Err(invalid(format!("{option} is no option of a module load"))),
        }
        Ok(())
    }

    fn value(&self, at: usize) -> Answer<*mut c_void> {
        self.values.check()?;
        Ok(self.values.get_at(at))
    }

    /// Does the work, and writes the logs and the time it took.
    pub(super) fn logged<T>(&self, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let start = Instant::now();
        let answer = work();
        let milliseconds = start.elapsed().as_secs_f32() * 1e3;
        if let Some(at) = self.wall_time {
            self.values.check()?;
            let bits = milliseconds.to_bits() as usize;
            self.values.set_at(at, std::ptr::without_provenance_mut(bits));
        }
        let error = answer.as_ref().err().map_or("", |failure| &failure.text);
        self.write(&self.info, "");
        self.write(&self.error, error);
        answer
    }

    /// As much of the text as fits, with a NUL behind it.
    fn write(&self, log: &Log, text: &str) {
        let (Some(buffer), Some((size, at))) = (&log.buffer, log.bytes) else { return };
        if size == 0 || buffer.check().is_err() {
            return;
        }
        let len = text.len().min(size - 1);
        // SAFETY: the caller gave a buffer of this size.
        let bytes = unsafe { buffer.bytes_mut(size) };
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        bytes[len] = 0;
        self.values.set_at(at, std::ptr::without_provenance_mut(len));
    }
}
