//! The message of a panic, without the formatting code of `core` where that is possible.
//!
//! That code takes some 50 registers, which every kernel that can panic would have to reserve, and
//! so would run with half its threads. Therefore the device only copies: the template of the message,
//! and of each value its type and its bytes; the host formats. Which function formats which type
//! is a table that `cuda_builder` writes from the symbols of the PTX. Where it meets a value of
//! another type, `core` formats all of the message; `cuda_builder` takes that code out where the
//! module has no such value.
//!
//! What stands here is compiled into each kernel that can panic, by the driver and while somebody waits:
//! few instructions, each once, matter more than speed.

use core::ffi::c_void;
use core::fmt::{self, Write};
use core::mem::transmute;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::device::append;
use super::{ARGUMENTS, Arguments, COUNT, NESTED, PIECES_BYTES, Record, STR, TEMPLATE};

/// Formatting functions that can be known.
const FORMATTERS: usize = 128;

/// Pairs of a formatting function and what it formats: a type's letter, the trait << 8, how many references
/// lie around it << 16, its size << 24. The builder writes it; 0 ends it.
#[unsafe(export_name = "ferrowarp_formatters")]
static TABLE: [AtomicU64; 2 * FORMATTERS] = [const { AtomicU64::new(0) }; 2 * FORMATTERS];

/// The letter of a reference to a trait object.
const DYN: u8 = b'D';

/// Writes the message behind what the record has.
///
/// # Safety
/// The record is this thread's, and the parts are those of an `fmt::Arguments`.
#[inline(always)]
pub(super) unsafe fn write(record: *mut Record, arguments: Arguments) {
    // SAFETY: the caller's promise; the list is read where it was written.
    unsafe {
        let list = (&raw mut (*record).arguments).cast::<Arguments>();
        list.write_volatile(arguments);
        ((*record).listed, (*record).unknown) = (1, 0);
        let mut at = 0;
        while at < (*record).listed {
            let Arguments { template, args } = list.add(at as usize).read_volatile();
            at += 1;
            let (len, mut count) = match args & 1 {
                1 => (args as usize >> 1, 0),
                _ => extent(template as *const u8),
            };
            append(record, TEMPLATE.into(), template as *const u8, len);
            let mut argument = args as *const u64;
            while count > 0 {
                value(record, argument);
                argument = argument.add(2);
                count = opaque(count - 1);
            }
        }
        if (*record).unknown != 0 {
            let arguments = list.read_volatile();
            ferrowarp_panic_format(record, transmute::<Arguments, fmt::Arguments<'_>>(arguments));
        }
    }
}

/// The message by `core::fmt`. The builder empties this function where no value needs it.
///
/// # Safety
/// The record is this thread's.
#[cold]
#[inline(never)]
unsafe fn ferrowarp_panic_format(record: *mut Record, arguments: fmt::Arguments<'_>) {
    // SAFETY: the caller's promise; the message begins where it did.
    unsafe {
        let at = (*record).message as usize;
        let head = (&raw mut (*record).pieces).cast::<u8>().add(at);
        let mut sink = Sink { text: head.add(8), len: 0, room: PIECES_BYTES - at };
        let _ = fmt::write(&mut sink, arguments);
        head.cast::<u64>().write(u64::from(TEMPLATE) | (sink.len as u64) << 16);
        (*record).used = (at + ((sink.len + 15) & !7)).min(PIECES_BYTES) as u32;
        (*record).arguments[0].args = 1;
    }
}

/// What `core::fmt` writes to.
struct Sink {
    text: *mut u8,
    /// Bytes of the whole text, and those of it that there is room for.
    len: usize,
    room: usize,
}

impl Write for Sink {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes() {
            if self.len < self.room {
                // SAFETY: there is room.
                unsafe { self.text.add(self.len).write_volatile(byte) };
            }
            self.len += 1;
        }
        Ok(())
    }
}

/// The bytes of a template, and how many arguments it names. Of a number of an argument the lower byte is
/// enough: no record has room for 256 values.
///
/// # Safety
/// It is a template.
#[inline(always)]
unsafe fn extent(template: *const u8) -> (usize, u32) {
    let (mut at, mut next, mut count) = (template, 0, 0);
    // SAFETY: the caller's promise: pieces of text behind their lengths, and placeholders, up to a zero.
    unsafe {
        loop {
            let byte = u32::from(at.read_volatile());
            at = at.add(1);
            if byte == 0 {
                return (at as usize - template as usize, count);
            }
            let mut skip = byte;
            if byte == 0x80 {
                skip = 2 + number(at, 0) + (number(at, 1) << 8);
            }
            if byte > 0x80 {
                // Flags, a width, a precision and the number of the argument, each where its bit says that it is
                // there; the next two bits say that the width and the precision are numbers of arguments.
                let fields = 4 * (byte & 1);
                skip = fields + 2 * (byte & 0b1110).count_ones();
                if byte & 8 != 0 {
                    next = number(at, skip - 2);
                }
                if byte & 16 != 0 {
                    count = count.max(number(at, fields) + 1);
                }
                if byte & 32 != 0 {
                    count = count.max(number(at, fields + (byte & 2)) + 1);
                }
                next += 1;
                count = count.max(next);
            }
            at = at.add(skip as usize);
        }
    }
}

/// The byte there.
///
/// # Safety
/// There is one.
#[inline(always)]
unsafe fn number(at: *const u8, offset: u32) -> u32 {
    // SAFETY: the caller's promise.
    u32::from(unsafe { at.add(offset as usize).read_volatile() })
}

/// The number, but the compiler cannot know how often a loop with it runs, and so not unroll it.
#[inline(always)]
pub(super) fn opaque(mut number: u32) -> u32 {
    // SAFETY: it is a comment.
    unsafe { core::arch::asm!("// {0}", inout(reg32) number, options(nomem, nostack)) };
    number
}

/// Copies the value of an argument: two words, the value's address and the function that formats it, or a
/// count and nothing. Of arguments within arguments it takes note.
///
/// # Safety
/// The record is this thread's, and there is an argument.
#[inline(always)]
unsafe fn value(record: *mut Record, argument: *const u64) {
    // SAFETY: the caller's promise, what the tags say of the values, and the table's end.
    unsafe {
        let (mut address, mut function) = (*argument, *argument.add(1));
        let mut known = TABLE.as_ptr();
        let mut tag;
        loop {
            let other = (*known).load(Relaxed);
            if other != 0 && other != function {
                known = known.add(2);
                continue;
            }
            tag = (*known.add(1)).load(Relaxed);
            if tag as u8 != DYN {
                break;
            }
            // A pointer to a reference to a trait object, whose table has the function at 3.
            let object = address as *const u64;
            function = *(*object.add(1) as *const u64).add(3);
            address = *object;
            known = TABLE.as_ptr();
        }
        if function == 0 {
            (address, tag) = (argument as u64, u64::from(COUNT) | 2 << 24);
        }
        let mut references = (tag as u32) >> 16 & 0xFF;
        while references > 0 {
            address = *(address as *const u64);
            references = opaque(references - 1);
        }
        let (mut bytes, mut len) = (address, tag >> 24);
        if tag as u8 == STR {
            let text = address as *const u64;
            (bytes, len) = (*text, *text.add(1));
        }
        if tag == 0 {
            (*record).unknown = 1;
        }
        if tag as u8 == ARGUMENTS && (*record).listed < NESTED as u32 {
            let list = (&raw mut (*record).arguments).cast::<Arguments>();
            *list.add((*record).listed as usize) = *(address as *const Arguments);
            (*record).listed += 1;
        }
        append(record, tag & 0xFFFF, bytes as *const u8, len as usize);
    }
}

/// The message up to its first value, and the file, each ended by a zero: the driver cannot write values as the
/// host does, and code that could would take registers that every kernel with a panic had to reserve.
///
/// # Safety
/// The record is this thread's, and has a message.
#[inline(always)]
pub(super) unsafe fn until_value(record: *mut Record) -> (*const c_void, *const c_void) {
    // SAFETY: the caller's promise; behind the pieces there is room for a zero.
    unsafe {
        let pieces = (&raw mut (*record).pieces).cast::<u8>();
        let file = pieces.add((*record).file as usize + 8);
        let mut text = pieces.add((*record).message as usize);
        let mut len = (*text.cast::<u64>() >> 16) as u32;
        text = text.add(8);
        if (*record).arguments[0].args & 1 == 0 {
            let (skip, bytes) = match number(text, 0) {
                len @ 0..0x80 => (1, len),
                // A piece of that length, or longer.
                0x80 => (3, 0x80),
                _ => (1, 0),
            };
            (text, len) = (text.add(skip), bytes);
        }
        let room = PIECES_BYTES as u32 - (*record).message;
        text.add(len.min(room) as usize).write_volatile(0);
        (text.cast(), file.cast())
    }
}
