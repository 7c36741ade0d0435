//! The device's side of a panic.
//!
//! This code is compiled into each kernel that can panic, by the driver and while the user waits:
//! few instructions, each once and none called, matter more than speed.

use core::arch::nvptx;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{MaybeUninit, offset_of, transmute};
use core::panic::{Location, PanicInfo, PanicMessage};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use super::message::{self, needs, once_only, opaque};
use super::{Arguments, Channel, Record, Records, SLOTS};
use crate::arch::compute_capability;
use crate::thread;

#[unsafe(export_name = "ferrowarp_panic")]
static CHANNEL: Channel = Channel {
    records: AtomicU64::new(0),
    owners: [const { AtomicU64::new(0) }; SLOTS],
    others: [const { AtomicU32::new(0) }; SLOTS],
    claims: AtomicU32::new(0),
};

/// Where a module without records assembles its message.
struct Own(UnsafeCell<MaybeUninit<Record>>);

// SAFETY: only the first thread that panics writes there.
unsafe impl Sync for Own {}

static OWN: Own = Own(UnsafeCell::new(MaybeUninit::zeroed()));

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
    if let Some(place) = info.location() {
        // SAFETY: `PanicMessage` is a reference to the arguments, and nothing else; the records are the host's.
        unsafe {
            let arguments = *transmute::<PanicMessage<'_>, &Arguments>(info.message());
            tell(arguments, place);
        }
    }
    // Other blocks of a cluster may reach this one's shared memory, which is another block's once all threads
    // here have ended.
    if compute_capability() >= 900 && crate::cluster::size() > 1 {
        // The record is in the host's memory before the kernel ends.
        fence(AcqRel);
        // SAFETY: a trap has no precondition.
        unsafe { nvptx::trap() }
    }
    ferrowarp_panic_exit()
}

/// Makes a record of the panic, if it is the first one of the grid, and tells the host. Where the host gave the module no
/// records, the driver prints the message of the first thread that comes here, and ends the context.
///
/// # Safety
/// They are the parts of an `fmt::Arguments`.
#[inline(always)]
unsafe fn tell(mut arguments: Arguments, place: &Location<'_>) {
    let records = CHANNEL.records.load(Relaxed) as *mut Records;
    // SAFETY: the records are the host's, and this thread claims the one that it writes.
    unsafe {
        let is_for_driver = needs!("driver") && records.is_null();
        let record = if is_for_driver { claim_own() } else { claim(records) };
        let Some(record) = record else { return };
        if !needs!("again") || (*record).begun == 0 {
            write_place(record, place);
        } else {
            let instead = format_args!("a panic while the message of a panic was formatted");
            arguments = transmute::<fmt::Arguments<'_>, Arguments>(instead);
        }
        let text = message::write(record, arguments);
        if is_for_driver {
            let (file, kernel) = (place.file().as_ptr().cast(), c"a kernel".as_ptr().cast());
            crate::io::__assertfail(text.cast(), file, place.line(), kernel, 1);
        }
        (*record).ready.store((*record).owner, Release);
    }
}

/// The record of a module to which the host gave none, for the first thread that asks.
#[inline(always)]
fn claim_own() -> Option<*mut Record> {
    (CHANNEL.claims.swap(1, Relaxed) == 0).then(|| OWN.0.get().cast())
}

/// The record of this thread, claimed now or, where it panics while it formats its message, before. None where
/// another thread of the grid has one, or all hold panics of other grids.
///
/// # Safety
/// There are such records.
#[inline(always)]
unsafe fn claim(records: *mut Records) -> Option<*mut Record> {
    let (grid, block, thread) = (grid(), block(), thread());
    // SAFETY: the caller's promise.
    let (mut slot, mut record) = (0, unsafe { (&raw mut (*records).records).cast::<Record>() });
    while slot < SLOTS {
        once_only();
        // SAFETY: the caller's promise; the fields that others may write are atomic.
        unsafe {
            let own = &CHANNEL.owners[slot];
            let (seen, owner) = ((*record).seen.load(Relaxed), own.load(Relaxed));
            // What the host read and wrote before it freed the record is over before this thread writes there;
            // and whoever finds this thread's claim finds the writer as the host left it, or later.
            fence(AcqRel);
            // The upper half of an owner: the how manieth panic of its record it is, from 1.
            if owner >> 32 <= seen {
                let next = (seen + 1) << 32 | u64::from(grid);
                if own.compare_exchange(owner, next, Relaxed, Relaxed).is_err() {
                    continue;
                }
                CHANNEL.claims.store(1, Relaxed);
                (*record).block.store(block, Relaxed);
                (*record).thread.store(thread, Release);
                (*record).owner = next;
                (*record).begun = 0;
                return Some(record);
            }
            if owner as u32 == grid {
                if needs!("again")
                    && (*record).thread.load(Acquire) == thread
                    && (*record).block.load(Relaxed) == block
                {
                    return Some(record);
                }
                CHANNEL.others[slot].fetch_add(1, Relaxed);
                return None;
            }
        }
        slot = opaque(slot as u64 + 1) as usize;
        record = opaque(record.wrapping_add(1) as u64) as *mut Record;
    }
    // SAFETY: the field is written by single stores alone.
    unsafe { (*records).lost.store(1, Relaxed) };
    None
}

/// Writes where the thread is in the source, and how large the grid is.
///
/// # Safety
/// The record is this thread's.
#[inline(always)]
unsafe fn write_place(record: *mut Record, place: &Location<'_>) {
    use crate::thread as t;
    // SAFETY: the caller's promise.
    let to = unsafe { &mut *record };
    to.place = (&raw const *place) as u64;
    [to.grid_dim[0], to.grid_dim[1], to.grid_dim[2]] =
        [t::grid_dim_x(), t::grid_dim_y(), t::grid_dim_z()];
    [to.block_dim[0], to.block_dim[1], to.block_dim[2]] =
        [t::block_dim_x(), t::block_dim_y(), t::block_dim_z()];
    to.begun = 1;
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

/// The rest of [`leave_after_panic`]: whether a record is this grid's, and not freed by the host yet, which frees it when
/// the grid has ended. (A free one may be that of an earlier replay of the same graph, whose grids may have the same id.)
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

/// The low half of the grid's id. Replays of a graph may have the same one, so it alone tells no launch.
pub(crate) fn grid() -> u32 {
    let grid: u64;
    // SAFETY: reading a special register has no precondition.
    unsafe {
        core::arch::asm!("mov.u64 {0}, %gridid;", out(reg64) grid, options(pure, nomem, nostack));
    }
    grid as u32
}

/// The index of the block: x, and y and z above it.
fn block() -> u64 {
    let (x, y, z) = (thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z());
    u64::from(z << 16 | y) << 32 | u64::from(x)
}

/// The index of the thread in its block, ten bits for each of x, y and z; and 1, so that none is 0.
fn thread() -> u32 {
    let (x, y, z) = (thread::thread_idx_x(), thread::thread_idx_y(), thread::thread_idx_z());
    (z << 20 | y << 10 | x) + 1
}
