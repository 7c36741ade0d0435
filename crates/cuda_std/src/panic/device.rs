//! The device's side of a panic.

use core::arch::nvptx;
use core::ffi::c_void;
use core::fmt;
use core::mem::{offset_of, transmute};
use core::panic::{PanicInfo, PanicMessage};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::{Channel, MESSAGE_BYTES, Record, Records, SLOTS, Text, VALUE, message};
use crate::thread;

#[unsafe(export_name = "ferrowarp_panic")]
static CHANNEL: Channel = Channel {
    records: AtomicU64::new(0),
    owners: [const { AtomicU64::new(0) }; SLOTS],
    writers: [const { AtomicU64::new(0) }; SLOTS],
    begun: [const { AtomicU64::new(0) }; SLOTS],
    others: [const { AtomicU32::new(0) }; SLOTS],
    formatting: [const { AtomicU32::new(0) }; SLOTS],
    claims: AtomicU32::new(0),
};

/// Records of a module that nobody gave any.
struct Own(core::cell::UnsafeCell<core::mem::MaybeUninit<Records>>);

// SAFETY: a record is written by the one thread that claimed it.
unsafe impl Sync for Own {}

static OWN: Own = Own(core::cell::UnsafeCell::new(core::mem::MaybeUninit::zeroed()));

#[cfg(feature = "panic-handler")]
#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    if cfg!(feature = "panic-trap") {
        // SAFETY: a trap has no precondition.
        unsafe { nvptx::trap() }
    }
    report(info)
}

/// Reports a panic to the host and ends the thread, as the module's documentation says: what the
/// crate's own `#[panic_handler]` does.
#[cold]
#[inline(never)]
pub fn report(info: &PanicInfo) -> ! {
    keep(ferrowarp_panic_in as *const c_void);
    let (slot, first) = match claim() {
        Claim::Won(slot) => {
            begin(slot);
            (slot, true)
        }
        Claim::Own(slot) => (slot, CHANNEL.formatting[slot].load(Relaxed) == 0),
        Claim::Taken(slot) => {
            CHANNEL.others[slot].fetch_add(1, Relaxed);
            end()
        }
        Claim::Full => {
            // SAFETY: the field is written by single stores alone.
            unsafe { (*records()).lost.store(1, Release) };
            end()
        }
    };
    CHANNEL.formatting[slot].store(1, Relaxed);
    let record = record(slot);
    if first {
        place(record, info);
        // SAFETY: `PanicMessage` is a reference to the arguments, and nothing else.
        let arguments =
            unsafe { *transmute::<PanicMessage<'_>, &fmt::Arguments<'_>>(info.message()) };
        message::write(record, arguments);
    } else {
        message::write(record, format_args!("a panic while the message of a panic was formatted"));
    }
    finish(slot)
}

/// Has the linker keep a function that nothing calls yet: the builder writes the calls.
fn keep(function: *const c_void) {
    // SAFETY: it is a comment.
    unsafe { core::arch::asm!("// {0}", in(reg64) function, options(nomem, nostack)) }
}

/// Called before a panic where it is known which kernels can be at that place: `names` is their
/// names with spaces between, ended by a zero. `cuda_builder` writes the calls.
///
/// # Safety
/// `names` is such a text.
#[cold]
#[inline(never)]
unsafe extern "C" fn ferrowarp_panic_in(names: *const u8) {
    if let Claim::Won(slot) = claim() {
        begin(slot);
        // SAFETY: this thread claimed the record, and the text has an end.
        unsafe {
            let mut sink = Sink::new(&raw mut (*record(slot)).kernel);
            let mut at = names;
            while *at != 0 {
                sink.put(*at);
                at = at.add(1);
            }
            sink.end();
        }
    }
}

/// What became of the attempt to get a record for a panic.
enum Claim {
    /// This thread has it, since now.
    Won(usize),
    /// This thread had it already.
    Own(usize),
    /// Another thread of the grid has it.
    Taken(usize),
    /// All records hold panics of other grids.
    Full,
}

#[inline(never)]
fn claim() -> Claim {
    let grid = grid();
    for slot in 0..slots() {
        let seen = seen(slot);
        let mut owner = CHANNEL.owners[slot].load(Acquire);
        if generation(owner) <= seen {
            let own = (seen + 1) << 32 | u64::from(grid);
            match CHANNEL.owners[slot].compare_exchange(owner, own, AcqRel, Acquire) {
                Ok(_) => {
                    CHANNEL.claims.store(1, Release);
                    return Claim::Won(slot);
                }
                Err(now) => owner = now,
            }
        }
        if owner as u32 == grid {
            let begun = CHANNEL.begun[slot].load(Acquire) == owner;
            let own = begun && CHANNEL.writers[slot].load(Relaxed) == thread_number();
            return if own { Claim::Own(slot) } else { Claim::Taken(slot) };
        }
    }
    Claim::Full
}

/// Where the driver is told, the first panic ends all.
#[inline(always)]
fn slots() -> usize {
    if CHANNEL.records.load(Relaxed) == 0 { 1 } else { SLOTS }
}

/// The record is this thread's.
#[inline(always)]
fn begin(slot: usize) {
    CHANNEL.writers[slot].store(thread_number(), Relaxed);
    CHANNEL.formatting[slot].store(0, Relaxed);
    CHANNEL.begun[slot].store(CHANNEL.owners[slot].load(Relaxed), Release);
    // SAFETY: this thread claimed the record, and the host does not look before it is ready.
    unsafe { (*record(slot)).kernel.len = 0 };
}

/// Writes where the thread is, in the grid and in the source.
#[inline(always)]
fn place(record: *mut Record, info: &PanicInfo) {
    use crate::thread as t;
    // SAFETY: this thread claimed the record.
    unsafe {
        let to = &mut *record;
        [to.block[0], to.block[1], to.block[2]] =
            [t::block_idx_x(), t::block_idx_y(), t::block_idx_z()];
        [to.thread[0], to.thread[1], to.thread[2]] =
            [t::thread_idx_x(), t::thread_idx_y(), t::thread_idx_z()];
        [to.grid_dim[0], to.grid_dim[1], to.grid_dim[2]] =
            [t::grid_dim_x(), t::grid_dim_y(), t::grid_dim_z()];
        [to.block_dim[0], to.block_dim[1], to.block_dim[2]] =
            [t::block_dim_x(), t::block_dim_y(), t::block_dim_z()];
        (to.line, to.column) = (0, 0);
        let mut sink = Sink::new(&raw mut to.file);
        if let Some(place) = info.location() {
            (to.line, to.column) = (place.line(), place.column());
            sink.text(place.file().as_ptr(), place.file().len());
        }
        sink.end();
    }
}

/// Fills a text byte by byte.
pub(super) struct Sink {
    len: *mut u32,
    bytes: *mut u8,
    used: u32,
    room: u32,
    full: bool,
}

impl Sink {
    /// Begins the text anew.
    ///
    /// # Safety
    /// The text is this thread's alone, and outlives the sink.
    pub(super) unsafe fn new<const N: usize>(text: *mut Text<N>) -> Self {
        // SAFETY: the caller's promise.
        let (len, bytes) = unsafe { (&raw mut (*text).len, (&raw mut (*text).bytes).cast()) };
        Self { len, bytes, used: 0, room: N as u32, full: false }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, byte: u8) {
        if self.used == self.room {
            self.full = true;
        } else {
            // SAFETY: there is room.
            unsafe { self.bytes.add(self.used as usize).write_volatile(byte) };
            self.used += 1;
        }
    }

    /// # Safety
    /// There are `len` bytes at `from`.
    #[inline(always)]
    pub(super) unsafe fn text(&mut self, from: *const u8, len: usize) {
        let mut at = 0;
        while at < len && !self.full {
            // SAFETY: the caller's promise.
            self.put(unsafe { from.add(at).read_volatile() });
            at += 1;
        }
    }

    /// Ends the text. The host sees by its full length that some of it is missing.
    pub(super) fn end(&self) {
        // SAFETY: as in `new`.
        unsafe { *self.len = if self.full { self.room + 1 } else { self.used } };
    }
}

/// The record is complete: tells the host, or the driver where there is none to tell.
#[inline(always)]
fn finish(slot: usize) -> ! {
    let record = record(slot);
    // SAFETY: this thread claimed the record.
    unsafe {
        if CHANNEL.records.load(Relaxed) == 0 {
            let message = &raw mut (*record).message;
            let file = &raw mut (*record).file;
            cut_at_value(message);
            terminate(message);
            terminate(file);
            let text = (&raw const (*message).bytes).cast();
            let function = c"a kernel".as_ptr().cast();
            let file = (&raw const (*file).bytes).cast();
            crate::io::__assertfail(text, file, (*record).line, function, 1);
        }
        (*record).ready.store(CHANNEL.owners[slot].load(Relaxed), Release);
    }
    end()
}

/// Ends a message before its first value: the driver cannot write it as the host does, and code that could
/// would take registers that every kernel with a panic had to reserve.
///
/// # Safety
/// It is this thread's.
unsafe fn cut_at_value(message: *mut Text<MESSAGE_BYTES>) {
    // SAFETY: the caller's promise; the bytes are read up to their number.
    unsafe {
        let bytes = (&raw mut (*message).bytes).cast::<u8>();
        let mut at = 0;
        while at < (*message).len && bytes.add(at as usize).read_volatile() != VALUE {
            at += 1;
        }
        (*message).len = at;
    }
}

/// Writes a zero behind a text.
///
/// # Safety
/// It is this thread's.
unsafe fn terminate<const N: usize>(text: *mut Text<N>) {
    // SAFETY: there is room for one byte more than `N`.
    unsafe {
        let len = ((*text).len as usize).min(N);
        (&raw mut (*text).bytes).cast::<u8>().add(len).write(0);
    }
}

fn records() -> *mut Records {
    match CHANNEL.records.load(Relaxed) {
        0 => OWN.0.get().cast(),
        address => address as *mut Records,
    }
}

fn record(slot: usize) -> *mut Record {
    // SAFETY: the records are `SLOTS`.
    unsafe { (&raw mut (*records()).records).cast::<Record>().add(slot) }
}

fn seen(slot: usize) -> u64 {
    // Acquire: the host has read the record before it says so, and this thread may write it then.
    // SAFETY: the field is atomic.
    unsafe { (*record(slot)).seen.load(Acquire) }
}

/// Ends the thread. The name tells the emulator that what follows in this grid follows from a panic.
#[cold]
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn ferrowarp_panic_exit() -> ! {
    // SAFETY: nothing runs on; destructors are not run, as in any abort.
    unsafe { core::arch::asm!("exit;", options(noreturn, nomem, nostack)) }
}

#[inline(always)]
fn end() -> ! {
    ferrowarp_panic_exit()
}

/// Ends the thread if its grid has a record. There is no call in it, so that it can stand in a loop beside
/// a hundred live registers, and before the first panic it is one load. `cuda_builder` takes the load
/// out of a module that cannot panic.
#[inline(always)]
pub(super) fn leave_after_panic() {
    if cfg!(feature = "panic-trap") {
        return;
    }
    let claims: u32;
    // SAFETY: it reads an atomic field of the channel, by its name: the compiler takes no `sym` here.
    unsafe {
        core::arch::asm!(
            "ld.relaxed.gpu.global.u32 {claims}, [ferrowarp_panic+{at}]; // ferrowarp.leave",
            claims = out(reg32) claims, at = const offset_of!(Channel, claims), options(nostack),
        );
    }
    if claims != 0 {
        leave();
    }
}

/// The rest of [`leave_after_panic`]: whether a record is this grid's, and not taken by the host yet. (Then it
/// may be that of an earlier replay of the same graph, whose grids may have the same id.)
#[inline(always)]
fn leave() {
    /// Looks at one record: the owner at an offset in the channel, and what the host has seen of it.
    macro_rules! record {
        ($owner:literal, $seen:literal) => {
            concat!(
                "mov.b64 seen, 0;",
                "@told ld.relaxed.sys.global.u64 seen, [records+{",
                $seen,
                "}];",
                "ld.relaxed.gpu.global.u64 owner, [ferrowarp_panic+",
                $owner,
                "]; shr.u64 generation, owner, 32; setp.gt.u64 mine, generation, seen;",
                "and.b64 owner, owner, 4294967295; setp.eq.and.u64 mine, owner, grid, mine;",
                "or.pred own, own, mine;"
            )
        };
    }
    const fn seen(slot: usize) -> usize {
        offset_of!(Records, records) + slot * size_of::<Record>() + offset_of!(Record, seen)
    }
    // SAFETY: as above; the thread ends as in `end`.
    unsafe {
        core::arch::asm!(
            "{{ // ferrowarp.leave",
            ".reg .pred own, mine, told; .reg .b64 grid, owner, generation, records, seen;",
            "ld.relaxed.gpu.global.u64 records, [ferrowarp_panic]; setp.ne.u64 told, records, 0;",
            "mov.u64 grid, %gridid; and.b64 grid, grid, 4294967295; setp.ne.u64 own, grid, grid;",
            record!(8, "s0"),
            record!(16, "s1"),
            record!(24, "s2"),
            record!(32, "s3"),
            record!(40, "s4"),
            record!(48, "s5"),
            record!(56, "s6"),
            record!(64, "s7"),
            "@own exit;",
            "}} // ferrowarp.leave end",
            s0 = const seen(0), s1 = const seen(1), s2 = const seen(2), s3 = const seen(3),
            s4 = const seen(4), s5 = const seen(5), s6 = const seen(6), s7 = const seen(7),
            options(nostack),
        );
    }
}

/// Every record's owner is looked at.
const _: () = assert!(offset_of!(Channel, owners) == 8 && SLOTS == 8);

/// The upper half of an owner: the how manieth panic of its record it is, from 1.
#[inline(always)]
fn generation(owner: u64) -> u64 {
    owner >> 32
}

/// The low half of the grid's id. Replays of a graph may have the same one, so it alone tells no launch.
fn grid() -> u32 {
    let grid: u64;
    // SAFETY: reading a special register has no precondition.
    unsafe {
        core::arch::asm!("mov.u64 {0}, %gridid;", out(reg64) grid, options(pure, nomem, nostack));
    }
    grid as u32
}

/// The thread's number in the grid.
#[inline(never)]
fn thread_number() -> u64 {
    let plane = thread::block_idx_z() as u64 * thread::grid_dim_y() as u64;
    let row = (plane + thread::block_idx_y() as u64) * thread::grid_dim_x() as u64;
    let block = row + thread::block_idx_x() as u64;
    block * thread::threads_in_block() as u64 + thread::index_in_block() as u64
}
