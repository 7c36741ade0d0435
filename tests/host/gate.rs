//! A stream that stands still until the test says go: so a test sees who waits, and no clock is asked.

use std::ffi::c_uint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use cuda_driver::sys;
use ferrowarp::AsStream;
use ferrowarp::memory::resource::StreamRef;

/// Longer than any test, so that one that waits wrongly ends and fails.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// More than there are gates in a process.
const WORDS: usize = 4096;

/// Work on a stream that lasts until the gate is opened, or dropped. The stream waits for a word in the
/// host's memory: a function of the host in its place would keep those of all other streams waiting.
pub struct Gate(#[expect(dead_code, reason = "its drop opens the gate")] SyncSender<()>);

impl Gate {
    /// Closes a gate behind what is queued on the stream now. What is queued later waits for it.
    pub fn on(stream: &impl AsStream) -> Self {
        // Also makes the stream's context the current one.
        stream.as_stream().is_idle().unwrap_or_else(|error| panic!("{error}"));
        const AT_LEAST: c_uint = 0;
        let word = fresh_word();
        let address = word.as_ptr().addr() as u64;
        let handle = StreamRef::of(stream).as_raw().cast();
        // SAFETY: stream and word live, and a word of pinned memory has one address for all.
        let code = unsafe { sys::cuStreamWaitValue32_v2(handle, address, 1, AT_LEAST) };
        assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
        let (opener, closed) = sync_channel::<()>(0);
        thread::spawn(move || {
            // Nothing is sent: the end of the sender is the sign.
            let _ = closed.recv_timeout(PATIENCE);
            word.store(1, Ordering::Release);
        });
        Self(opener)
    }

    /// Lets the stream go on.
    pub fn open(self) {}
}

/// A zero in pinned memory that nobody else uses, for as long as the process.
fn fresh_word() -> &'static AtomicU32 {
    static BLOCK: OnceLock<&'static [AtomicU32]> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    &BLOCK.get_or_init(pinned_words)[NEXT.fetch_add(1, Ordering::Relaxed)]
}

fn pinned_words() -> &'static [AtomicU32] {
    const PORTABLE_AND_MAPPED: c_uint = 3;
    let mut block = std::ptr::null_mut();
    // SAFETY: `block` is writable, and a context is current.
    let code = unsafe { sys::cuMemHostAlloc(&mut block, 4 * WORDS, PORTABLE_AND_MAPPED) };
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    let words: *mut AtomicU32 = block.cast();
    // SAFETY: the block has so many words, is never freed, and becomes zeros before anybody sees it.
    unsafe {
        words.write_bytes(0, WORDS);
        std::slice::from_raw_parts(words, WORDS)
    }
}
