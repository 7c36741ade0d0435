//! The message of a panic, without the formatting code of `core` where that is possible.
//!
//! That code takes some 50 registers, which every kernel that can panic would have to reserve, and
//! so would run with half its threads. Therefore the device only copies the values of the message, and the host
//! formats. How many there are, and of which types, is in a table that `cuda_builder` writes from what
//! the PTX has. Where it meets a value of another type, `core` formats all of the message; `cuda_builder` takes
//! that code out where the module has no such value. Where all values are of one type, it takes the table's reader out
//! too: most kernels can say no more than that an index is past the end.

use core::fmt::{self, Write};
use core::mem::transmute;
use core::ptr;

use super::{ARGUMENTS, Arguments, COUNT, NESTED, PIECES_BYTES, Record, STR, TEXT};

/// What the builder knows of addresses: an address and a word each.
///
/// | an address of | its word |
/// |---|---|
/// | a function that formats | a type's letter, the trait << 8, how many references lie around it << 16, its size << 24 |
/// | a template | how many values it has, its length << 32; behind it is a text for the driver, and a zero |
/// | a place in the source | 0: it is for the host, which reads this table too |
///
/// The builder writes all but the last, which stands for any address.
#[unsafe(export_name = "ferrowarp_known")]
static TABLE: [u64; 2] = [END, 0];

/// What no address is.
const END: u64 = u64::MAX;

/// The letter of a reference to a trait object.
const DYN: u8 = b'D';
/// In a formatting function's word, how many references lie around the value, and one of them.
const REFERENCES: u64 = 0xFF << 16;
const REFERENCES_ONE: u64 = 1 << 16;

/// Whether the module has panics that need a part of the code here: where none does, `cuda_builder` writes that
/// it is not so, and the driver has less to compile.
macro_rules! needs {
    ($what:literal) => {{
        let needed: u32;
        // SAFETY: it writes a number to a register.
        #[allow(unused_unsafe, reason = "most callers are in such a block")]
        unsafe {
            core::arch::asm!(
                concat!("mov.b32 {0}, 1; // ferrowarp.needs ", $what),
                out(reg32) needed, options(pure, nomem, nostack, preserves_flags),
            );
        }
        needed != 0
    }};
}
pub(super) use needs;

/// What is the same for all values of a module's messages, where [`needs!`] says that it is: a number that
/// `cuda_builder` writes.
macro_rules! only {
    ($what:literal) => {{
        let number: u64;
        // SAFETY: it writes a number to a register.
        #[allow(unused_unsafe, reason = "most callers are in such a block")]
        unsafe {
            core::arch::asm!(
                concat!("mov.b64 {0}, 0; // ferrowarp.only ", $what),
                out(reg64) number, options(pure, nomem, nostack, preserves_flags),
            );
        }
        number
    }};
}

/// The word of an address; 0 for what the builder does not know.
#[inline(always)]
fn known(address: u64) -> u64 {
    let mut entry = opaque((&raw const TABLE) as u64) as *const u64;
    // SAFETY: entries have two words, and the last one is that of `END`.
    unsafe {
        loop {
            once_only();
            let (own, word) = (*entry, *entry.add(1));
            if own == address || own == END {
                return word;
            }
            entry = opaque(entry.add(2) as u64) as *const u64;
        }
    }
}

/// Writes the message, and returns its text for the driver.
///
/// # Safety
/// The record is this thread's, and the parts are those of an `fmt::Arguments`.
#[inline(always)]
pub(super) unsafe fn write(record: *mut Record, arguments: Arguments) -> *const u8 {
    let Arguments { template, args } = arguments;
    // SAFETY: the caller's promise.
    unsafe {
        match needs!("values") {
            true => ferrowarp_panic_values(record, template, args),
            false => write_words(record, arguments),
        }
    }
}

/// A message of a module in which all templates have as many values, one or two, and all are of one type, which has
/// 8 bytes: an index and a length, say. A piece for a text, or an empty one and the values of a template. Straight on,
/// for the driver's compiler takes longest with loops.
///
/// # Safety
/// As [`write`].
#[inline(always)]
unsafe fn write_words(record: *mut Record, arguments: Arguments) -> *const u8 {
    let Arguments { template, args } = arguments;
    // SAFETY: the caller's promise; what the table says of the template.
    unsafe {
        let pieces = (&raw mut (*record).pieces).cast::<u64>();
        let is_text = args & 1 != 0;
        let len = if is_text { args >> 1 } else { 0 };
        let kept = len.min(PIECES_BYTES as u64 - 8);
        let (mut text, mut used) = (pieces.add(1).cast_const().cast::<u8>(), 8 + kept);
        (*record).arguments[0] = arguments;
        pieces.write(u64::from(TEXT) | len << 16);
        copy(pieces.add(1).cast(), template as *const u8, kept);
        if needs!("templates") && !is_text {
            let values = args as *const [*const u64; 2];
            let head = only!("type") & 0xFFFF | 8 << 16;
            let value = |number: usize| {
                pieces.add(1 + 2 * number).write(head);
                pieces.add(2 + 2 * number).write(*(*values.add(number))[0]);
            };
            value(0);
            if only!("values") == 2 {
                value(1);
            }
            used = 8 + 16 * only!("values");
            if needs!("driver") {
                text = (template + (known(template) >> 32)) as *const u8;
            }
        }
        ((*record).listed, (*record).used) = (1, used as u32);
        text
    }
}

/// Any message. The builder takes this function out where [`write_words`] does.
///
/// # Safety
/// As [`write`].
#[cold]
#[inline(never)]
unsafe fn ferrowarp_panic_values(record: *mut Record, template: u64, args: u64) -> *const u8 {
    // SAFETY: the caller's promise; the list is read where it was written; what the table says of the addresses;
    // behind the pieces there is room for one without bytes and for a zero.
    unsafe {
        let list = (&raw mut (*record).arguments).cast::<Arguments>();
        let pieces = (&raw mut (*record).pieces).cast::<u8>();
        list.write_volatile(Arguments { template, args });
        let (mut at, mut listed, mut used, mut unknown) = (0, 1, 0, false);
        let mut first = ptr::null::<u8>();
        loop {
            let Arguments { template, args } = list.add(at as usize).read_volatile();
            at += 1;
            let (mut text, mut left) = (pieces.add(8).cast_const(), 0);
            let (mut what, mut from, mut len) = (u64::from(TEXT), template, args >> 1);
            let mut argument = args as *const u64;
            if args & 1 == 0 {
                let word = known(template);
                text = (template + (word >> 32)) as *const u8;
                unknown |= word == 0;
                (left, len) = (word as u32, 0);
            }
            loop {
                once_only();
                let head = pieces.add(used as usize);
                head.cast::<u64>().write(what & 0xFFFF | len << 16);
                let kept = len.min(PIECES_BYTES as u64 - used);
                copy(head.add(8), from as *const u8, kept);
                used = ((used + kept + 15) & !7).min(PIECES_BYTES as u64);
                if left == 0 {
                    break;
                }
                let mut function = *argument.add(1);
                from = *argument;
                loop {
                    what = known(function);
                    if !needs!("dyn") || what as u8 != DYN {
                        break;
                    }
                    // A pointer to a reference to a trait object, whose table has the function at 3.
                    let object = from as *const u64;
                    function = opaque(*(*object.add(1) as *const u64).add(3));
                    from = *object;
                }
                unknown |= what == 0;
                len = what >> 24;
                while needs!("references") && what & REFERENCES != 0 {
                    (from, what) = (*(from as *const u64), what - REFERENCES_ONE);
                }
                if needs!("counts") && what as u8 == COUNT {
                    from = argument as u64;
                }
                if needs!("str") && what as u8 == STR {
                    (from, len) = (*(from as *const u64), *(from as *const u64).add(1));
                }
                if needs!("arguments") && what as u8 == ARGUMENTS && listed < NESTED as u64 {
                    *list.add(listed as usize) = *(from as *const Arguments);
                    listed += 1;
                }
                argument = argument.add(2);
                left -= 1;
            }
            if first.is_null() {
                first = text;
            }
            if !needs!("arguments") || at >= listed {
                break;
            }
        }
        ((*record).listed, (*record).used) = (listed as u32, used as u32);
        if unknown {
            let arguments = list.read_volatile();
            ferrowarp_panic_format(record, transmute::<Arguments, fmt::Arguments<'_>>(arguments));
        }
        first
    }
}

/// Copies bytes, and writes a zero behind them.
///
/// # Safety
/// There are as many, and room for them and the zero.
#[inline(always)]
unsafe fn copy(mut to: *mut u8, mut from: *const u8, mut len: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        while len > 0 {
            once_only();
            to.write_volatile(from.read_volatile());
            (to, from, len) = (to.add(1), from.add(1), opaque(len - 1));
        }
        to.write_volatile(0);
    }
}

/// The message by `core::fmt`. The builder takes this function out where no value needs it.
///
/// # Safety
/// The record is this thread's.
#[cold]
#[inline(never)]
unsafe fn ferrowarp_panic_format(record: *mut Record, arguments: fmt::Arguments<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let head = (&raw mut (*record).pieces).cast::<u64>();
        let mut sink = Sink { text: head.add(1).cast(), len: 0 };
        let _ = fmt::write(&mut sink, arguments);
        head.write(u64::from(TEXT) | (sink.len as u64) << 16);
        ((*record).listed, (*record).used) = (1, (8 + sink.len).min(PIECES_BYTES) as u32);
        (*record).arguments[0].args = 1;
    }
}

/// What `core::fmt` writes to.
struct Sink {
    text: *mut u8,
    /// Bytes of the whole text; those that there is room for are written.
    len: usize,
}

impl Write for Sink {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes() {
            if self.len < PIECES_BYTES - 8 {
                // SAFETY: there is room.
                unsafe { self.text.add(self.len).write_volatile(byte) };
            }
            self.len += 1;
        }
        Ok(())
    }
}

/// The value, but the compiler cannot know it: neither how often a loop with it runs, so as to unroll it, nor what
/// is at an address.
#[inline(always)]
pub(super) fn opaque(mut value: u64) -> u64 {
    // SAFETY: it is a comment.
    unsafe { core::arch::asm!("// {0}", inout(reg64) value, options(nomem, nostack)) };
    value
}

/// At the beginning of a loop: the driver's compiler is not to write it several times.
#[inline(always)]
pub(super) fn once_only() {
    // SAFETY: it says nothing about what is computed.
    unsafe { core::arch::asm!(".pragma \"nounroll\";", options(nomem, nostack, preserves_flags)) };
}
