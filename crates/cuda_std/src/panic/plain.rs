//! A message as text, for the driver's `__assertfail`: values are written on the device, without their
//! options.

use super::device::Sink;
use super::message::HEAD_BYTES;
use super::{Record, VALUE};

/// The letters of types that are no numbers.
const BOOL: u8 = b'b';
const CHAR: u8 = b'c';
const STR: u8 = b'e';
/// Those of signed numbers of 1, 2, 4, 8, 8 and 16 bytes, and of floats.
const SIGNED: [u8; 6] = [b'a', b's', b'l', b'x', b'i', b'n'];
const FLOATS: [u8; 2] = [b'f', b'd'];

/// Writes the message of `from` as text into that of `to`.
///
/// # Safety
/// Both are this thread's, and different ones.
#[cold]
#[inline(never)]
pub(super) unsafe fn write(from: *const Record, to: *mut Record) {
    // SAFETY: the caller's promise; the message's bytes are read up to their number.
    unsafe {
        let len = (*from).message.as_bytes().len();
        let bytes = (&raw const (*from).message.bytes).cast::<u8>();
        let mut sink = Sink::new(&raw mut (*to).message);
        let mut at = 0;
        while at < len {
            let byte = *bytes.add(at);
            at += 1;
            if byte != VALUE {
                sink.put(byte);
                continue;
            }
            // Type, trait, flags, width and precision stand before the value, and of a `str` the length.
            let letter = *bytes.add(at);
            let is_str = letter == STR;
            at += if is_str { HEAD_BYTES - 1 } else { HEAD_BYTES - 3 };
            let size = if is_str { word(bytes.add(at - 2), 2) as usize } else { size(letter) };
            let size = size.min(len.saturating_sub(at));
            match letter {
                STR => sink.text(bytes.add(at), size),
                _ => value(&mut sink, letter, word(bytes.add(at), size.min(8)), size),
            }
            at += size;
        }
        sink.end();
    }
}

/// The bytes of a type.
fn size(letter: u8) -> usize {
    match letter {
        b'a' | b'b' | b'h' => 1,
        b's' | b't' => 2,
        b'c' | b'f' | b'l' | b'm' => 4,
        b'n' | b'o' => 16,
        _ => 8,
    }
}

/// Up to eight bytes as a number.
///
/// # Safety
/// They are there.
unsafe fn word(bytes: *const u8, len: usize) -> u64 {
    // SAFETY: the caller's promise.
    (0..len).fold(0, |word, i| word | u64::from(unsafe { *bytes.add(i) }) << (8 * i))
}

/// A value in decimal; a float by its bits, and of 16 bytes the lower eight.
fn value(sink: &mut Sink, letter: u8, bits: u64, size: usize) {
    if letter == BOOL {
        return text(sink, if bits == 0 { b"false" } else { b"true" });
    }
    if letter == CHAR && bits < 128 {
        return sink.put(bits as u8);
    }
    if FLOATS.contains(&letter) || letter == CHAR {
        text(sink, b"0x");
        return number(sink, bits, 16);
    }
    let unused = 64 - 8 * size.min(8) as u32;
    let signed = (bits << unused).cast_signed() >> unused;
    if SIGNED.contains(&letter) && signed < 0 {
        sink.put(b'-');
        return number(sink, signed.unsigned_abs(), 10);
    }
    number(sink, bits, 10);
}

fn text(sink: &mut Sink, text: &[u8]) {
    text.iter().for_each(|byte| sink.put(*byte));
}

fn number(sink: &mut Sink, value: u64, base: u64) {
    let mut unit = 1;
    while value / unit >= base {
        unit *= base;
    }
    while unit > 0 {
        let digit = (value / unit % base) as u8;
        sink.put(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        unit /= base;
    }
}
