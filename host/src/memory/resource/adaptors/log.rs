//! Writes down what is allocated and freed, and does it again.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::hand_on;
use crate::error::{GpuResult, debug_as_display};
use crate::gpu::Gpu;
use crate::lock::lock;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef};
use crate::stream::Stream;

/// Writes down each allocation and its end; see [`AllocationLog`].
#[derive(Debug)]
pub struct LogAdaptor<R: ?Sized> {
    writer: Mutex<Writer>,
    upstream: Arc<R>,
}

#[derive(Debug, Default)]
struct Writer {
    log: AllocationLog,
    blocks: usize,
    /// The numbers of live blocks by address, and of streams by handle.
    live: HashMap<u64, usize>,
    streams: HashMap<usize, usize>,
}

/// What was allocated and freed on which streams, in order. Blocks and streams have numbers, by
/// their first appearance.
///
/// As text, which [`FromStr`] reads, it is a line for each event:
///
/// ```text
/// allocate 0 4096 on 0
/// fail 1099511627776 on 0
/// free 0 on 0
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationLog {
    events: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Allocate { block: usize, bytes: usize, stream: usize },
    Fail { bytes: usize, stream: usize },
    Free { block: usize, stream: usize },
}

/// A line that is not part of an allocation log.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} of the allocation log is `{text}`; it may be `allocate BLOCK BYTES on STREAM`, \
     `fail BYTES on STREAM` or `free BLOCK on STREAM`, with blocks in order and freed once"
)]
pub struct LogSyntaxError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

debug_as_display!(LogSyntaxError);

impl<R: MemoryResource + ?Sized> LogAdaptor<R> {
    /// Writes down what goes to `upstream`.
    pub fn new(upstream: Arc<R>) -> Arc<Self> {
        Arc::new(Self { writer: Mutex::default(), upstream })
    }

    /// What happened until now.
    #[must_use]
    pub fn log(&self) -> AllocationLog {
        self.lock().log.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        lock(&self.writer)
    }
}

impl Writer {
    fn stream(&mut self, stream: StreamRef<'_>) -> usize {
        let next = self.streams.len();
        *self.streams.entry(stream.inner().handle().addr()).or_insert(next)
    }

    fn allocated(&mut self, request: &AllocationRequest<'_>, address: u64) {
        let (block, bytes, stream) = (self.blocks, request.bytes, self.stream(request.stream));
        self.blocks += 1;
        self.live.insert(address, block);
        self.log.events.push(Event::Allocate { block, bytes, stream });
    }

    fn failed(&mut self, request: &AllocationRequest<'_>) {
        let (bytes, stream) = (request.bytes, self.stream(request.stream));
        self.log.events.push(Event::Fail { bytes, stream });
    }

    fn freed(&mut self, stream: StreamRef<'_>, address: u64) {
        let stream = self.stream(stream);
        if let Some(block) = self.live.remove(&address) {
            self.log.events.push(Event::Free { block, stream });
        }
    }
}

// SAFETY: memory is the upstream's.
unsafe impl<R: MemoryResource + ?Sized> MemoryResource for LogAdaptor<R> {
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let result = self.upstream.allocate(request);
        match &result {
            Ok(address) => self.lock().allocated(request, *address),
            Err(_) => self.lock().failed(request),
        }
        result
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // Before the upstream frees it: after that the address may be another thread's already.
        self.lock().freed(stream, address);
        // SAFETY: the caller's promise.
        unsafe { self.upstream.deallocate(stream, address, bytes) };
    }

    hand_on!();
}

impl AllocationLog {
    /// Does it all again with `memory`, on new streams of `gpu`. What the log does not free is freed
    /// at its end.
    ///
    /// # Errors
    /// What `memory` answers where the log has a success. Where it has a failure, either will do.
    #[track_caller]
    pub fn replay<R>(&self, memory: &Arc<R>, gpu: &Gpu) -> GpuResult<()>
    where
        R: MemoryResource + ?Sized,
    {
        let caller = Location::caller();
        let streams = (0..self.streams()).map(|_| gpu.create_stream());
        let streams = streams.collect::<GpuResult<Vec<Stream>>>()?;
        let mut live = Live { memory: &**memory, streams: &streams, blocks: HashMap::new() };
        self.events.iter().try_for_each(|event| live.step(event, caller))
    }

    fn streams(&self) -> usize {
        self.events.iter().map(|event| event.stream() + 1).max().unwrap_or(0)
    }
}

impl Event {
    fn stream(&self) -> usize {
        match self {
            Self::Allocate { stream, .. }
            | Self::Fail { stream, .. }
            | Self::Free { stream, .. } => *stream,
        }
    }
}

/// The blocks of a replay, which end with it.
struct Live<'a, R: MemoryResource + ?Sized> {
    memory: &'a R,
    streams: &'a [Stream],
    /// By number: address, size, and the stream.
    blocks: HashMap<usize, (u64, usize, usize)>,
}

impl<R: MemoryResource + ?Sized> Live<'_, R> {
    fn step(&mut self, event: &Event, caller: &'static Location<'static>) -> GpuResult<()> {
        match *event {
            Event::Allocate { block, bytes, stream } => {
                let request = AllocationRequest { stream: self.stream(stream), bytes, caller };
                let address = self.memory.allocate(&request)?;
                self.blocks.insert(block, (address, bytes, stream));
            }
            Event::Fail { bytes, stream } => {
                let stream = self.stream(stream);
                if let Ok(address) =
                    self.memory.allocate(&AllocationRequest { stream, bytes, caller })
                {
                    // SAFETY: it came from there just now, and nothing uses it.
                    unsafe { self.memory.deallocate(stream, address, bytes) };
                }
            }
            Event::Free { block, stream } => self.free(block, stream)?,
        }
        Ok(())
    }

    fn free(&mut self, block: usize, on: usize) -> GpuResult<()> {
        let Some(&(address, bytes, home)) = self.blocks.get(&block) else { return Ok(()) };
        if on != home {
            self.stream(on).inner().wait_stream_for_order(self.stream(home).inner())?;
        }
        self.blocks.remove(&block);
        // SAFETY: it came from there, and what its home had queued for it is waited for.
        unsafe { self.memory.deallocate(self.stream(on), address, bytes) };
        Ok(())
    }

    fn stream(&self, number: usize) -> StreamRef<'_> {
        StreamRef::of(&self.streams[number])
    }
}

impl<R: MemoryResource + ?Sized> Drop for Live<'_, R> {
    fn drop(&mut self) {
        for (address, bytes, stream) in std::mem::take(&mut self.blocks).into_values() {
            // SAFETY: it came from there, and nothing uses it.
            unsafe { self.memory.deallocate(self.stream(stream), address, bytes) };
        }
    }
}

impl fmt::Display for AllocationLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocate { block, bytes, stream } => {
                write!(f, "allocate {block} {bytes} on {stream}")
            }
            Self::Fail { bytes, stream } => write!(f, "fail {bytes} on {stream}"),
            Self::Free { block, stream } => write!(f, "free {block} on {stream}"),
        }
    }
}

impl FromStr for AllocationLog {
    type Err = LogSyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut log, mut live) = (Self::default(), HashSet::new());
        let mut blocks = 0;
        for (at, text) in text.lines().enumerate() {
            let wrong = || LogSyntaxError { line: at + 1, text: text.to_owned() };
            let event = Event::read(text).ok_or_else(wrong)?;
            let fits = match event {
                Event::Allocate { block, bytes, .. } => {
                    blocks += 1;
                    live.insert(block) && block + 1 == blocks && bytes > 0
                }
                Event::Fail { bytes, .. } => bytes > 0,
                Event::Free { block, .. } => live.remove(&block),
            };
            // As many streams as lines, or it is no log.
            if !fits || event.stream() > at {
                return Err(wrong());
            }
            log.events.push(event);
        }
        Ok(log)
    }
}

impl Event {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse().ok();
        match *words {
            ["allocate", block, bytes, "on", stream] => Some(Self::Allocate {
                block: number(block)?,
                bytes: number(bytes)?,
                stream: number(stream)?,
            }),
            ["fail", bytes, "on", stream] => {
                Some(Self::Fail { bytes: number(bytes)?, stream: number(stream)? })
            }
            ["free", block, "on", stream] => {
                Some(Self::Free { block: number(block)?, stream: number(stream)? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_its_text() {
        let text = "allocate 0 4096 on 0\nfail 9 on 1\nallocate 1 1 on 1\nfree 0 on 1\n";
        assert_eq!(text.parse::<AllocationLog>().unwrap().to_string(), text);
        assert_eq!("".parse(), Ok(AllocationLog::default()));
    }

    #[test]
    fn a_log_is_read_strictly() {
        for (line, text) in [
            (1, "allocate 0 4096"),
            (1, "allocate 1 4096 on 0"),
            (1, "allocate 0 0 on 0"),
            (1, "free 0 on 0"),
            (1, "allocate 0 1 on 1"),
            (2, "allocate 0 1 on 0\nallocate 0 1 on 0"),
            (3, "allocate 0 1 on 0\nfree 0 on 0\nfree 0 on 0"),
            (1, "fail -1 on 0"),
            (1, ""),
        ] {
            let Err(error) = format!("{text}\n").parse::<AllocationLog>() else {
                panic!("`{text}` is a log");
            };
            assert_eq!(error.line, line, "{text}");
        }
    }
}
