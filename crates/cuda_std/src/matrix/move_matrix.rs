//! `ldmatrix` and `stmatrix`: a warp moves 8 × 8 matrices of 16-bit elements between shared memory and
//! fragments.

use super::element::Element;
use super::fragment::{A, B, C, FragmentA, FragmentB, FragmentC, Holds};
use cuda_std_macros::gpu_only;
use half::f16;

/// Two registers as the intrinsics return them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Two(u32, u32);
/// Four registers as the intrinsics return them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Four(u32, u32, u32, u32);

#[cfg(target_os = "cuda")]
#[allow(improper_ctypes)]
unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.p0"]
    fn ldmatrix_x1(row: *const u8) -> u32;
    #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.b16.p0"]
    fn ldmatrix_x2(row: *const u8) -> Two;
    #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p0"]
    fn ldmatrix_x4(row: *const u8) -> Four;
    #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.trans.b16.p0"]
    fn ldmatrix_x1_trans(row: *const u8) -> u32;
    #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p0"]
    fn ldmatrix_x2_trans(row: *const u8) -> Two;
    #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p0"]
    fn ldmatrix_x4_trans(row: *const u8) -> Four;
    #[link_name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.b16.p0"]
    fn stmatrix_x1(row: *mut u8, a: u32);
    #[link_name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.b16.p0"]
    fn stmatrix_x2(row: *mut u8, a: u32, b: u32);
    #[link_name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16.p0"]
    fn stmatrix_x4(row: *mut u8, a: u32, b: u32, c: u32, d: u32);
    #[link_name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.trans.b16.p0"]
    fn stmatrix_x1_trans(row: *mut u8, a: u32);
    #[link_name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.trans.b16.p0"]
    fn stmatrix_x2_trans(row: *mut u8, a: u32, b: u32);
    #[link_name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.trans.b16.p0"]
    fn stmatrix_x4_trans(row: *mut u8, a: u32, b: u32, c: u32, d: u32);
}

/// Loads one, two or four (`COUNT`) 8 × 8 matrices of 16-bit elements. Lane `8 m + r` says where row
/// `r` of matrix `m` begins. Lane `l` gets, in register `m`, the elements `2 (l % 4)` and the next of
/// row `l / 4`, or with `TRANSPOSED` those of the transposed matrix.
///
/// # Safety
/// - Every lane of the warp calls this together.
/// - `row` of the first `8 COUNT` lanes is valid for reads of 16 bytes in shared memory, and aligned
///   to 16; the other lanes' is any address in shared memory.
/// - Nothing writes the rows meanwhile.
#[gpu_only]
#[inline(always)]
pub unsafe fn load_matrices<const COUNT: usize, const TRANSPOSED: bool>(
    row: *const u8,
) -> [u32; COUNT] {
    const { assert!(matches!(COUNT, 1 | 2 | 4), "`ldmatrix` loads one, two or four matrices") };
    // SAFETY: the caller's promise; zero bits are numbers.
    unsafe {
        let mut registers: [u32; COUNT] = core::mem::zeroed();
        match COUNT {
            1 => registers[0] = if TRANSPOSED { ldmatrix_x1_trans(row) } else { ldmatrix_x1(row) },
            2 => {
                let two = if TRANSPOSED { ldmatrix_x2_trans(row) } else { ldmatrix_x2(row) };
                (registers[0], registers[1]) = (two.0, two.1);
            }
            _ => {
                let four = if TRANSPOSED { ldmatrix_x4_trans(row) } else { ldmatrix_x4(row) };
                (registers[0], registers[1]) = (four.0, four.1);
                (registers[2], registers[3]) = (four.2, four.3);
            }
        }
        registers
    }
}

/// Stores one, two or four (`COUNT`) 8 × 8 matrices of 16-bit elements: [`load_matrices`] the other
/// way round (`sm_90`).
///
/// # Safety
/// As [`load_matrices`], with rows valid for writes that nothing else reaches meanwhile.
#[gpu_only]
#[inline(always)]
pub unsafe fn store_matrices<const COUNT: usize, const TRANSPOSED: bool>(
    row: *mut u8,
    registers: [u32; COUNT],
) {
    const { assert!(matches!(COUNT, 1 | 2 | 4), "`stmatrix` stores one, two or four matrices") };
    let r = |index: usize| registers[index % COUNT];
    // SAFETY: the caller's promise.
    unsafe {
        match (COUNT, TRANSPOSED) {
            (1, false) => stmatrix_x1(row, r(0)),
            (1, true) => stmatrix_x1_trans(row, r(0)),
            (2, false) => stmatrix_x2(row, r(0), r(1)),
            (2, true) => stmatrix_x2_trans(row, r(0), r(1)),
            (_, false) => stmatrix_x4(row, r(0), r(1), r(2), r(3)),
            (_, true) => stmatrix_x4_trans(row, r(0), r(1), r(2), r(3)),
        }
    }
}

/// The registers of a fragment from those of `ldmatrix`.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn assign<const COUNT: usize>(to: &mut [u32], from: [u32; COUNT]) {
    for i in 0..COUNT {
        to[i] = from[i];
    }
}

impl<S: Holds<A, T>, T: Element<Register = u32>> FragmentA<S, T> {
    /// Loads the fragment from a matrix in shared memory whose rows are contiguous in pieces of 16
    /// bytes: `at(row, column)` says where the piece is that begins there, and `column` is a multiple
    /// of 8.
    ///
    /// # Safety
    /// As [`load_matrices`], for 16 rows of K elements.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn load(lane: usize, at: impl Fn(usize, usize) -> *const T) -> Self {
        const { assert!(size_of::<T>() == 2, "`ldmatrix` moves 16-bit elements") };
        let mut fragment = Self::zeroed();
        let row = at(lane % 16, lane / 16 * 8 % S::K).cast();
        // SAFETY: the caller's promise.
        unsafe {
            let registers = fragment.registers_mut();
            match S::K {
                8 => assign(registers, load_matrices::<2, false>(row)),
                _ => assign(registers, load_matrices::<4, false>(row)),
            }
        }
        fragment
    }
}

impl<S: Holds<B, T>, T: Element<Register = u32>> FragmentB<S, T> {
    /// Loads the fragment from a matrix in shared memory whose *columns* are contiguous (it is stored
    /// as N rows of K): `at(column, row)` says where the piece of 16 bytes is that begins there, and
    /// `row` is a multiple of 8.
    ///
    /// # Safety
    /// As [`load_matrices`], for 8 columns of K elements.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn load_columns(lane: usize, at: impl Fn(usize, usize) -> *const T) -> Self {
        const { assert!(size_of::<T>() == 2, "`ldmatrix` moves 16-bit elements") };
        let mut fragment = Self::zeroed();
        let column = at(lane % 8, lane / 8 * 8 % S::K).cast();
        // SAFETY: the caller's promise.
        unsafe {
            let registers = fragment.registers_mut();
            match S::K {
                8 => assign(registers, load_matrices::<1, false>(column)),
                _ => assign(registers, load_matrices::<2, false>(column)),
            }
        }
        fragment
    }

    /// Loads the fragment from a matrix in shared memory whose rows are contiguous (K rows of N):
    /// `at(row)` says where the 16 bytes of its 8 columns are.
    ///
    /// # Safety
    /// As [`load_matrices`], for K rows of 8 elements.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn load_rows(lane: usize, at: impl Fn(usize) -> *const T) -> Self {
        const { assert!(size_of::<T>() == 2, "`ldmatrix` moves 16-bit elements") };
        let mut fragment = Self::zeroed();
        let row = at(lane % S::K).cast();
        // SAFETY: the caller's promise.
        unsafe {
            let registers = fragment.registers_mut();
            match S::K {
                8 => assign(registers, load_matrices::<1, true>(row)),
                _ => assign(registers, load_matrices::<2, true>(row)),
            }
        }
        fragment
    }
}

impl<S: Holds<C, f16>> FragmentC<S, f16> {
    /// Stores the fragment to a matrix in shared memory: `at(row)` says where the 16 bytes of its 8
    /// columns are (`sm_90`).
    ///
    /// # Safety
    /// As [`store_matrices`], for 16 rows of 8 elements.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn store(self, lane: usize, at: impl Fn(usize) -> *mut f16) {
        let registers = self.registers();
        let registers = registers.as_ref();
        // SAFETY: the caller's promise.
        unsafe {
            store_matrices::<2, false>(at(lane % 16).cast(), [registers[0], registers[1]]);
        }
    }
}
