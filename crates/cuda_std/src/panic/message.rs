//! The message of a panic, without the formatting code of `core` where that is possible.
//!
//! That code takes some 50 registers, which every kernel that can panic would have to reserve, and
//! so would run with half its threads. Therefore the device only copies: the text of the message,
//! and of each value its type and its bytes; the host formats. Which function formats which type
//! is a table that `cuda_builder` writes from the symbols of the PTX. Where it meets a value of
//! another type, `core` formats all of the message; `cuda_builder` takes that code out where the
//! module has no such value.
//!
//! The layout of [`fmt::Arguments`] is that of the one compiler that builds kernels, Rust 1.96: a
//! template of bytes and a list of pairs, of a value's address and the function that formats it.

use core::fmt::{self, Write};
use core::mem::transmute;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::device::Sink;
use super::{Record, VALUE};

/// Formatting functions that can be known.
const FORMATTERS: usize = 128;

/// Pairs of a formatting function and what it formats: a type's letter, the trait << 8, how many
/// references lie around it << 16, its size << 24. The builder writes it; 0 ends it.
#[unsafe(export_name = "ferrowarp_formatters")]
static TABLE: [AtomicU64; 2 * FORMATTERS] = [const { AtomicU64::new(0) }; 2 * FORMATTERS];

/// The letters of types that are no numbers.
const STR: u8 = b'e';
const DYN: u8 = b'D';
const ARGUMENTS: u8 = b'A';

/// How deep arguments may lie within arguments.
const DEPTH: usize = 3;

/// The parts of [`fmt::Arguments`]. If `args` is odd, the template is a text of `args / 2` bytes.
#[derive(Clone, Copy)]
struct Parts {
    template: *const u8,
    args: usize,
}

/// A place in a template: its next byte, the arguments, and the number of the next one.
#[derive(Clone, Copy)]
struct Place {
    at: *const u8,
    args: usize,
    next: usize,
}

/// How a value is to be formatted, as the template says.
struct Options {
    flags: u32,
    width: u16,
    precision: u16,
}

/// Bytes to be copied next.
struct Piece {
    from: *const u8,
    len: usize,
}

/// Writes the message.
#[inline(always)]
pub(super) fn write(record: *mut Record, arguments: fmt::Arguments<'_>) {
    // SAFETY: this thread claimed the record, and these are the parts.
    unsafe {
        let parts = transmute::<fmt::Arguments<'_>, Parts>(arguments);
        let place = Place { at: parts.template, args: parts.args, next: 0 };
        let sink = Sink::new(&raw mut (*record).message);
        let stack = [place; DEPTH];
        let none = Piece { from: parts.template, len: 0 };
        let (pending, head, depth, known) = (none, [0; 2], 0, true);
        let mut state = State { record, sink, place, stack, pending, head, depth, known };
        let mut state = in_memory(&mut state);
        loop {
            state = in_memory(state);
            let Some(piece) = step(state) else { break };
            state.sink.text(piece.from, piece.len);
        }
        state.sink.end();
        if !state.known {
            let Place { at: template, args, .. } = state.stack[0];
            let parts = Parts { template, args };
            ferrowarp_panic_format(state.record, transmute::<Parts, fmt::Arguments<'_>>(parts));
        }
    }
}

/// How far the message is. It lies in memory, since registers are dear here.
struct State {
    record: *mut Record,
    sink: Sink,
    place: Place,
    /// Where the outer arguments go on; the first is the beginning of all.
    stack: [Place; DEPTH],
    /// The bytes of a value whose type and options were copied just now.
    pending: Piece,
    /// Those type and options.
    head: [u64; 2],
    depth: usize,
    known: bool,
}

/// The message by `core::fmt`. The builder empties this function where no value needs it.
///
/// # Safety
/// This thread claimed the record.
#[cold]
#[inline(never)]
unsafe fn ferrowarp_panic_format(record: *mut Record, arguments: fmt::Arguments<'_>) {
    // SAFETY: the caller's promise.
    let mut sink = unsafe { Sink::new(&raw mut (*record).message) };
    let _ = fmt::write(&mut sink, arguments);
    sink.end();
}

impl Write for Sink {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // SAFETY: it is a text.
        unsafe { self.text(part.as_ptr(), part.len()) };
        Ok(())
    }
}

/// What is to be copied next; `None` at the end.
///
/// There is one loop and hardly a call: of a chain of calls a kernel has to reserve the registers
/// of all.
///
/// # Safety
/// The state holds parts of `fmt::Arguments`.
#[inline(always)]
unsafe fn step(state: &mut State) -> Option<Piece> {
    // SAFETY: the caller's promise: pieces of text behind their lengths, and placeholders.
    unsafe {
        loop {
            if state.pending.len != 0 {
                let len = core::mem::replace(&mut state.pending.len, 0);
                return Some(Piece { from: state.pending.from, len });
            }
            if state.place.args & 1 == 1 {
                let piece = Piece { from: state.place.at, len: state.place.args >> 1 };
                (state.place.at, state.place.args) = (END.as_ptr(), 0);
                return Some(piece);
            }
            let byte = take(&mut state.place.at, 1) as u8;
            match byte {
                0 if state.depth == 0 => return None,
                0 => {
                    state.place = state.stack[state.depth % DEPTH];
                    state.depth -= 1;
                    continue;
                }
                1..=0x80 => return Some(text(&mut state.place.at, byte)),
                _ => {}
            }
            let options = options(&mut state.place, byte);
            let argument = state.place.args + 16 * state.place.next;
            state.place.next += 1;
            match value(state, argument, options) {
                Value::Known(head) => return Some(head),
                Value::Arguments(parts) if state.depth + 1 < DEPTH => {
                    state.depth += 1;
                    state.stack[state.depth] = state.place;
                    state.place = Place { at: parts.template, args: parts.args, next: 0 };
                }
                _ => {
                    state.known = false;
                    return Some(Piece { from: "…".as_ptr(), len: "…".len() });
                }
            }
        }
    }
}

/// The same, but the compiler cannot keep it in registers.
#[inline(always)]
pub(super) fn in_memory<T>(value: &mut T) -> &mut T {
    let mut address: *mut T = value;
    // SAFETY: the address is the same.
    unsafe {
        core::arch::asm!("// {0}", inout(reg64) address, options(nostack));
        &mut *address
    }
}

/// The end of a template.
static END: [u8; 1] = [0];

/// A piece of text behind its length.
///
/// # Safety
/// As for [`expand`].
#[inline(never)]
unsafe fn text(at: &mut *const u8, byte: u8) -> Piece {
    // SAFETY: the caller's promise.
    unsafe {
        let len = if byte == 0x80 { take(at, 2) } else { byte as usize };
        let piece = Piece { from: *at, len };
        *at = at.add(len);
        piece
    }
}

/// The next bytes of a template as a number.
///
/// # Safety
/// The template has as many.
#[inline(always)]
unsafe fn take(at: &mut *const u8, bytes: usize) -> usize {
    let mut number = 0;
    let mut done = 0;
    while done < bytes {
        // SAFETY: the caller's promise.
        unsafe {
            number |= (at.read_volatile() as usize) << (8 * done);
            *at = at.add(1);
        }
        done += 1;
    }
    number
}

/// The options behind the first byte of a placeholder.
///
/// # Safety
/// As for [`expand`].
#[inline(always)]
unsafe fn options(place: &mut Place, byte: u8) -> Options {
    const NONE: u32 = ' ' as u32 | 3 << 29;
    let mut options = Options { flags: NONE, width: 0, precision: 0 };
    let at = &mut place.at;
    // SAFETY: the caller's promise.
    unsafe {
        if byte & 1 != 0 {
            options.flags = take(at, 4) as u32;
        }
        if byte & 2 != 0 {
            options.width = take(at, 2) as u16;
        }
        if byte & 4 != 0 {
            options.precision = take(at, 2) as u16;
        }
        if byte & 8 != 0 {
            place.next = take(at, 2);
        }
        if byte & 16 != 0 {
            options.width = count(place.args, options.width);
        }
        if byte & 32 != 0 {
            options.precision = count(place.args, options.precision);
        }
    }
    options
}

/// A width or precision that is an argument.
///
/// # Safety
/// As for [`expand`].
#[inline(always)]
unsafe fn count(args: usize, index: u16) -> u16 {
    // SAFETY: an argument that is a count has it in the first bytes of its first word or behind
    // them; the word that tells it from a value is the other one.
    unsafe { *((args + 16 * index as usize + COUNT_AT) as *const u16) }
}

/// Where the number lies in an argument that is a count.
const COUNT_AT: usize = 0;

/// What a placeholder stands for.
enum Value {
    /// A value: its type and options; its bytes are pending.
    Known(Piece),
    /// Arguments within arguments.
    Arguments(Parts),
    /// Something else.
    Unknown,
}

/// Finds the value of an argument.
///
/// # Safety
/// There is an argument at `argument`.
#[inline(always)]
unsafe fn value(state: &mut State, argument: usize, options: Options) -> Value {
    // SAFETY: the caller's promise: the value's address and its function.
    unsafe {
        let words = argument as *const usize;
        let (mut address, mut function) = (*words, *words.add(1));
        let mut tag = find(function);
        while tag as u8 == DYN {
            // A pointer to a reference to a trait object, whose table has the function at 3.
            let object = address as *const usize;
            function = *(*object.add(1) as *const usize).add(3);
            address = *object;
            tag = find(function);
        }
        match tag as u8 {
            0 => Value::Unknown,
            ARGUMENTS => Value::Arguments(*(address as *const Parts)),
            _ => Value::Known(head(state, address, tag, options)),
        }
    }
}

/// What a function formats; 0 if it is not known.
#[inline(always)]
fn find(function: usize) -> u64 {
    let mut at = 0;
    loop {
        let known = TABLE[at % TABLE.len()].load(Relaxed);
        if known == 0 || known == function as u64 {
            return if known == 0 { 0 } else { TABLE[at % TABLE.len() + 1].load(Relaxed) };
        }
        at += 2;
    }
}

/// Makes type and options of a value ready, and its bytes pending.
///
/// # Safety
/// A value that `tag` describes lies at `address`.
#[inline(always)]
unsafe fn head(state: &mut State, mut address: usize, tag: u64, options: Options) -> Piece {
    let (letter, references) = (tag as u8, tag >> 16 & 0xFF);
    let mut len = (tag >> 24 & 0xFF) as usize;
    let mut step = if letter == STR { 1 } else { 0 };
    // SAFETY: the caller's promise.
    unsafe {
        while step < references {
            address = *(address as *const usize);
            step += 1;
        }
        let mut bytes = HEAD_BYTES - 2;
        if letter == STR {
            let text = address as *const usize;
            (address, len) = (*text, (*text.add(1)).min(0xFFFF));
            bytes = HEAD_BYTES;
        }
        let width = options.width as u64;
        state.head = [
            u64::from(VALUE) | tag << 8 & 0xFF_FF00 | (options.flags as u64) << 24 | width << 56,
            width >> 8 | (options.precision as u64) << 8 | (len as u64) << 24,
        ];
        state.pending = Piece { from: address as *const u8, len };
        Piece { from: (&raw const state.head).cast(), len: bytes }
    }
}

/// Bytes before the text of a `str`: mark, type, trait, flags, width, precision, length.
const HEAD_BYTES: usize = 13;
