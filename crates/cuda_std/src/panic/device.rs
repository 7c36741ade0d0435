//! The device's side of a panic.

use core::arch::nvptx;
use core::ffi::c_void;
use core::fmt;
use core::mem::{offset_of, transmute};
use core::panic::{PanicInfo, PanicMessage};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use super::{Arguments, Channel, FILE, KERNELS, PIECES_BYTES, Record, Records, SLOTS, message};
use crate::thread;

#[unsafe(export_name = "ferrowarp_panic")]
static CHANNEL: Channel = Channel {
    records: AtomicU64::new(0),
    owners: [const { AtomicU64::new(0) }; SLOTS],
    others: [const { AtomicU32::new(0) }; SLOTS],
    claims: AtomicU32::new(0),
};

/// The one record of a module that nobody gave any. No more: modules with 8 KB of memory each slow all nodes of graphs.
struct Own(core::cell::UnsafeCell<core::mem::MaybeUninit<Records<1>>>);

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
    let record = claim();
    // SAFETY: this thread claimed the record; `PanicMessage` is a reference to the arguments, and nothing else.
    unsafe {
        let arguments = if (*record).message == 0 {
            place(record, info);
            *transmute::<PanicMessage<'_>, &Arguments>(info.message())
        } else {
            let instead = format_args!("a panic while the message of a panic was formatted");
            (*record).used = (*record).message;
            transmute::<fmt::Arguments<'_>, Arguments>(instead)
        };
        message::write(record, arguments);
        finish(record)
    }
}

/// Has the linker keep a function that nothing calls yet: the builder writes the calls.
fn keep(function: *const c_void) {
    // SAFETY: it is a comment.
    unsafe { core::arch::asm!("// {0}", in(reg64) function, options(nomem, nostack)) }
}

/// Called before a panic where it is known which kernels can be at that place: `names` is their
/// names with spaces between, of `len` bytes. `cuda_builder` writes the calls.
///
/// # Safety
/// `names` is such a text.
#[cold]
#[inline(never)]
unsafe extern "C" fn ferrowarp_panic_in(names: *const u8, len: usize) {
    let record = claim();
    // SAFETY: this thread claimed the record; the caller's promise.
    unsafe {
        if (*record).message == 0 {
            append(record, KERNELS.into(), names, len);
        }
    }
}

/// The record of this thread, claimed now or before. Where another thread of the grid has it, or all records
/// hold panics of other grids, the thread ends.
#[inline(never)]
fn claim() -> *mut Record {
    let (grid, thread) = (grid(), thread_number());
    let (records, slots) = records();
    let mut slot = 0;
    while slot < slots {
        // SAFETY: there are `slots` records; the fields that others may write are atomic.
        unsafe {
            let record = (&raw mut (*records).records).cast::<Record>().add(slot);
            let seen = (*record).seen.load(Relaxed);
            let owner = CHANNEL.owners[slot].load(Relaxed);
            // What the host read and wrote before it freed the record is over before this thread writes there;
            // and whoever finds this thread's claim finds the writer as the host left it, or later.
            fence(AcqRel);
            if generation(owner) <= seen {
                let own = (seen + 1) << 32 | u64::from(grid);
                if CHANNEL.owners[slot].compare_exchange(owner, own, Relaxed, Relaxed).is_err() {
                    continue;
                }
                CHANNEL.claims.store(1, Relaxed);
                (*record).writer.store(thread, Relaxed);
                (*record).owner = own;
                ((*record).message, (*record).used) = (0, 0);
                return record;
            }
            if owner as u32 == grid {
                if (*record).writer.load(Relaxed) == thread {
                    return record;
                }
                CHANNEL.others[slot].fetch_add(1, Relaxed);
                ferrowarp_panic_exit()
            }
        }
        slot += 1;
    }
    // SAFETY: the field is written by single stores alone.
    unsafe { (*records).lost.store(1, Relaxed) };
    ferrowarp_panic_exit()
}

/// The records, and how many of them are used: where the driver is told, the first panic ends all.
#[inline(always)]
fn records() -> (*mut Records, usize) {
    match CHANNEL.records.load(Relaxed) {
        0 => (OWN.0.get().cast(), 1),
        address => (address as *mut Records, SLOTS),
    }
}

/// Writes where the thread is, in the grid and in the source.
///
/// # Safety
/// The record is this thread's.
#[inline(always)]
unsafe fn place(record: *mut Record, info: &PanicInfo) {
    use crate::thread as t;
    // SAFETY: the caller's promise.
    unsafe {
        let to = &mut *record;
        [to.grid_dim[0], to.grid_dim[1], to.grid_dim[2]] =
            [t::grid_dim_x(), t::grid_dim_y(), t::grid_dim_z()];
        [to.block_dim[0], to.block_dim[1], to.block_dim[2]] =
            [t::block_dim_x(), t::block_dim_y(), t::block_dim_z()];
        let (file, line, column) =
            info.location().map_or(("\0", 0, 0), |at| (at.file(), at.line(), at.column()));
        (to.line, to.column) = (line, column);
        to.file = to.used;
        // Behind the file's name is a zero.
        append(record, FILE.into(), file.as_ptr(), file.len() + 1);
        to.message = to.used;
    }
}

/// Adds a piece to the record, as far as there is room.
///
/// # Safety
/// The record is this thread's, and there are `len` bytes at `from`.
#[inline(never)]
pub(super) unsafe fn append(record: *mut Record, what: u64, mut from: *const u8, len: usize) {
    // SAFETY: the caller's promise, and there is room.
    unsafe {
        let used = (*record).used;
        let head = (&raw mut (*record).pieces).cast::<u8>().add(used as usize);
        head.cast::<u64>().write(what | (len as u64) << 16);
        let (mut to, mut left) = (head.add(8), (len as u32).min(PIECES_BYTES as u32 - used));
        (*record).used = ((used + left + 15) & !7).min(PIECES_BYTES as u32);
        while left > 0 {
            to.write_volatile(from.read_volatile());
            (to, from) = (to.add(1), from.add(1));
            left = message::opaque(left - 1);
        }
    }
}

/// The record is complete: tells the host, or the driver where there is none to tell.
///
/// # Safety
/// The record is this thread's.
#[inline(always)]
unsafe fn finish(record: *mut Record) -> ! {
    // SAFETY: the caller's promise.
    unsafe {
        if CHANNEL.records.load(Relaxed) == 0 {
            let (text, file) = message::until_value(record);
            crate::io::__assertfail(text, file, (*record).line, c"a kernel".as_ptr().cast(), 1);
        }
        (*record).ready.store((*record).owner, Release);
    }
    ferrowarp_panic_exit()
}

/// Ends the thread. The name tells the emulator that what follows in this grid follows from a panic.
#[cold]
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn ferrowarp_panic_exit() -> ! {
    // SAFETY: nothing runs on; destructors are not run, as in any abort.
    unsafe { core::arch::asm!("exit;", options(noreturn, nomem, nostack)) }
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
    // SAFETY: as above; the thread ends as in `ferrowarp_panic_exit`.
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

/// The thread's number in the grid, from 1.
#[inline(always)]
fn thread_number() -> u64 {
    let plane = thread::block_idx_z() as u64 * thread::grid_dim_y() as u64;
    let row = (plane + thread::block_idx_y() as u64) * thread::grid_dim_x() as u64;
    let block = row + thread::block_idx_x() as u64;
    block * thread::threads_in_block() as u64 + thread::index_in_block() as u64 + 1
}
