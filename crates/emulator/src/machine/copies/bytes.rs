//! The bytes of copies, and what reductions do to them.

use crate::memory::{access, atomic};
use crate::numeric::float;
use crate::numeric::half::{self, Bf16, F16};
use crate::tensor_map::ElementType;

/// Bytes of the largest word that address and length allow.
fn word(at: u64, bytes: usize) -> usize {
    1 << (at | bytes as u64).trailing_zeros().min(3)
}

/// Reads a range.
///
/// # Safety
/// It is mapped, and only touched by atomic accesses.
pub unsafe fn read(at: u64, out: &mut [u8]) {
    let word = word(at, out.len());
    for (own, at) in out.chunks_exact_mut(word).zip((at..).step_by(word)) {
        // SAFETY: the caller vouches for the range; `at` is aligned to the word.
        unsafe {
            match word {
                8 => own.copy_from_slice(&access::load_u64(at).to_le_bytes()),
                4 => own.copy_from_slice(&access::load_u32(at).to_le_bytes()),
                2 => own.copy_from_slice(&access::load_u16(at).to_le_bytes()),
                _ => own[0] = access::load_u8(at),
            }
        }
    }
}

/// The number in up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Writes a range.
///
/// # Safety
/// It is mapped for writing, and only touched by atomic accesses.
pub unsafe fn write(at: u64, data: &[u8]) {
    let word = word(at, data.len());
    for (own, at) in data.chunks_exact(word).zip((at..).step_by(word)) {
        let value = number(own);
        // SAFETY: the caller vouches for the range; `at` is aligned to the word.
        unsafe {
            match word {
                8 => access::store_u64(at, value),
                4 => access::store_u32(at, value as u32),
                2 => access::store_u16(at, value as u16),
                _ => access::store_u8(at, value as u8),
            }
        }
    }
}

/// A read-modify-write of each element of a range.
#[derive(Clone, Copy)]
pub struct Reduction {
    bytes: usize,
    update: unsafe fn(u64, u64),
}

impl Reduction {
    /// Applies it to a range.
    ///
    /// # Safety
    /// As for [`write`]; the range is aligned to the elements.
    pub unsafe fn apply(self, at: u64, data: &[u8]) {
        for (own, at) in data.chunks_exact(self.bytes).zip((at..).step_by(self.bytes)) {
            // SAFETY: the caller vouches for each element.
            unsafe { (self.update)(at, number(own)) };
        }
    }
}

/// Replaces a half by a function of it and an operand.
///
/// # Safety
/// `at` is aligned, mapped for writing, and only touched by atomic accesses.
unsafe fn change_half(at: u64, change: impl Fn(u16) -> u16) {
    // SAFETY: the caller vouches for the cell.
    unsafe {
        let mut old = access::load_u16(at);
        loop {
            let seen = atomic::cas_u16(at, old, change(old));
            if seen == old {
                break;
            }
            old = seen;
        }
    }
}

macro_rules! update {
    (|$at:ident, $b:ident| $value:expr) => {{
        unsafe fn run($at: u64, $b: u64) {
            // SAFETY: the caller vouches for the cell.
            unsafe {
                $value;
            }
        }
        run as unsafe fn(u64, u64)
    }};
}

/// The reduction of that name on elements of a type, if there is one. In device memory, `f32` sums flush
/// subnormals.
pub fn reduction(operation: &str, element: ElementType) -> Option<Reduction> {
    use ElementType::{Bf16 as B, F16 as H, F32, F64, S32, S64, U32, U64};
    let update = match (operation, element) {
        ("add", U32 | S32) => update!(|at, b| atomic::add_u32(at, b as u32)),
        ("add", U64 | S64) => update!(|at, b| atomic::add_u64(at, b)),
        ("add", F32) => update!(|at, b| atomic::add_f32_ftz(at, b as u32)),
        ("add", F64) => update!(|at, b| atomic::add_f64(at, b)),
        ("add", H) => update!(|at, b| atomic::add_f16(at, b as u16)),
        ("add", B) => update!(|at, b| atomic::add_bf16(at, b as u16)),
        ("min", U32) => update!(|at, b| atomic::min_u32(at, b as u32)),
        ("min", S32) => update!(|at, b| atomic::min_i32(at, b as i32)),
        ("min", U64) => update!(|at, b| atomic::min_u64(at, b)),
        ("min", S64) => update!(|at, b| atomic::min_i64(at, b as i64)),
        ("min", H) => {
            update!(|at, b| change_half(at, |a| half::pick::<F16>(a, b as u16, float::min_f32)))
        }
        ("min", B) => {
            update!(|at, b| change_half(at, |a| half::pick::<Bf16>(a, b as u16, float::min_f32)))
        }
        ("max", U32) => update!(|at, b| atomic::max_u32(at, b as u32)),
        ("max", S32) => update!(|at, b| atomic::max_i32(at, b as i32)),
        ("max", U64) => update!(|at, b| atomic::max_u64(at, b)),
        ("max", S64) => update!(|at, b| atomic::max_i64(at, b as i64)),
        ("max", H) => {
            update!(|at, b| change_half(at, |a| half::pick::<F16>(a, b as u16, float::max_f32)))
        }
        ("max", B) => {
            update!(|at, b| change_half(at, |a| half::pick::<Bf16>(a, b as u16, float::max_f32)))
        }
        ("inc", U32) => update!(|at, b| atomic::inc_u32(at, b as u32)),
        ("dec", U32) => update!(|at, b| atomic::dec_u32(at, b as u32)),
        ("and", U32 | S32) => update!(|at, b| atomic::and_u32(at, b as u32)),
        ("and", U64 | S64) => update!(|at, b| atomic::and_u64(at, b)),
        ("or", U32 | S32) => update!(|at, b| atomic::or_u32(at, b as u32)),
        ("or", U64 | S64) => update!(|at, b| atomic::or_u64(at, b)),
        ("xor", U32 | S32) => update!(|at, b| atomic::xor_u32(at, b as u32)),
        ("xor", U64 | S64) => update!(|at, b| atomic::xor_u64(at, b)),
        _ => return None,
    };
    Some(Reduction { bytes: element.bytes() as usize, update })
}
