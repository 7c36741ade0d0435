//! `wgmma`: a warpgroup multiplies tiles in shared memory.

use super::element::{Element, Tf32};
use super::fragment::{A, FragmentA, Holds};
use crate::copy::{Swizzle, TensorElement, Tile};
use crate::number::{E4m3, E5m2};
use core::fmt;
use cuda_std_macros::gpu_only;
use half::{bf16, f16};

#[cfg(target_os = "cuda")]
use crate::mbarrier::shared_address;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Rows of every product of a warpgroup.
pub const ROWS: usize = 64;
/// Bytes of a row that one instruction multiplies.
const STEP_BYTES: usize = 32;
/// What a [`Descriptor`] grows by from an instruction to the next: 32 bytes along a row.
#[cfg(target_os = "cuda")]
const SPAN_STEP: u64 = 2;
/// The same for operands that are contiguous across K: 16 rows of 128 bytes.
#[cfg(target_os = "cuda")]
const ROWS_STEP: u64 = 128;

/// Where an operand of `wgmma` is in shared memory, and how it lies.
///
/// | bits | hold |
/// |---|---|
/// | 0–13 | the address, in units of 16 bytes |
/// | 16–29 | the leading stride: from one span to the next along the contiguous dimension |
/// | 32–45 | the other stride: from 8 rows to the next 8 |
/// | 62–63 | the swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor(u64);

impl Descriptor {
    /// A descriptor from an address in the window of shared memory, and strides in bytes.
    #[inline(always)]
    pub const fn new<S: Swizzle>(address: u32, leading_bytes: u32, stride_bytes: u32) -> Self {
        const fn field(bytes: u32) -> u64 {
            (bytes as u64 >> 4) & 0x3fff
        }
        let kind = match S::SPAN {
            0 => 0u64,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        let strides = field(leading_bytes) << 16 | field(stride_bytes) << 32;
        Self(field(address) | strides | kind << 62)
    }

    /// The descriptor of an operand whose dimension K is contiguous: `rows` of K in `tile`, from row
    /// `first` on, which is a multiple of 8.
    #[gpu_only]
    #[inline(always)]
    pub fn of_rows<T: TensorElement, const K: usize, const R: usize, S: Swizzle>(
        tile: *const Tile<[[T; K]; R], S>,
        first: usize,
    ) -> Self {
        const { assert!(S::SPAN > 0, "an operand of `wgmma` is a swizzled tile") };
        const { assert!(Tile::<[[T; K]; R], S>::BYTES > 0) };
        let address = shared_address(tile) + (first * S::SPAN) as u32;
        Self::new::<S>(address, 16, 8 * S::SPAN as u32)
    }

    /// The descriptor of an operand whose dimension M or N is contiguous: K rows of up to a span, from
    /// row `first` on, a multiple of 8. Only for 16-bit elements.
    #[gpu_only]
    #[inline(always)]
    pub fn of_columns<T: TensorElement, const N: usize, const K: usize, S: Swizzle>(
        tile: *const Tile<[[T; N]; K], S>,
        first: usize,
    ) -> Self {
        const { assert!(S::SPAN > 0, "an operand of `wgmma` is a swizzled tile") };
        const { assert!(size_of::<T>() == 2, "only 16-bit operands are multiplied transposed") };
        let address = shared_address(tile) + (first * S::SPAN) as u32;
        Self::new::<S>(address, (K * S::SPAN) as u32, 8 * S::SPAN as u32)
    }

    /// The descriptor of the operand that lies `bytes` further in shared memory, a multiple of 16.
    #[inline(always)]
    #[must_use]
    pub const fn advanced(self, bytes: u32) -> Self {
        Self(self.0 + (bytes >> 4) as u64)
    }

    /// The bits, for instructions of one's own.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// How many columns an [`Accumulator`] may have: 8, 16, 32, 64, 80, 96, 112, 128, 176, 192 or 256.
#[derive(Clone, Copy, Debug)]
pub struct Columns<const N: usize>;

/// That there are accumulators of `V` of this width.
#[diagnostic::on_unimplemented(
    message = "a warpgroup has no accumulators of `{V}` for `{Self}`",
    note = "widths are 8, 16, 32, 64, 80, 96, 112, 128, 176, 192 and 256; sums are f32 and i32"
)]
///
/// # Safety
/// All-zero bytes are a value of [`Registers`](Self::Registers).
pub unsafe trait Width<V: Copy> {
    /// The registers of one thread.
    type Registers: Copy + AsRef<[V]> + AsMut<[V]> + fmt::Debug;

    /// Waits until at most `PENDING` groups are under way, and lets nothing that reads the registers
    /// come before.
    ///
    /// # Safety
    /// As [`Accumulator::wait`].
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    unsafe fn wait<const PENDING: usize>(registers: &mut Self::Registers);

    /// `f(index, [even, odd])` for each pair, the indices being constants.
    #[doc(hidden)]
    fn pairs(registers: &Self::Registers, f: impl FnMut(usize, [V; 2]));

    /// Replaces each register by `f(index, own, other)`, the indices being constants.
    #[doc(hidden)]
    fn combine(
        registers: &mut Self::Registers,
        others: &Self::Registers,
        f: impl FnMut(usize, V, V) -> V,
    );

    /// Replaces the registers of a wider accumulator from `first` on, as many as there are here, by `f(index, own, other)`, where
    /// `index` is that of the wider one. The indices are constants if `first` is.
    #[doc(hidden)]
    fn combine_into(
        others: &Self::Registers,
        registers: &mut [V],
        first: usize,
        f: impl FnMut(usize, V, V) -> V,
    );
}

/// That `wgmma` multiplies `T` by `U` in this width and adds to `V`.
#[diagnostic::on_unimplemented(
    message = "`wgmma` has no product of `{T}` and `{U}`, summed in `{V}`, for `{Self}`",
    note = "f16, bf16 and Tf32 with themselves, E4m3 and E5m2 with either, in f32; i8 and u8 with either in i32"
)]
pub trait Instruction<T, U, V: Copy>: Width<V> {
    /// `STEPS` instructions between a fence and a commit. From step to step the descriptors grow by
    /// `A_STEP` and `B_STEP`.
    ///
    /// # Safety
    /// As [`Accumulator::multiply`].
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    unsafe fn issue<const STEPS: usize, const COLUMNS_A: bool, const COLUMNS_B: bool>(
        registers: &mut Self::Registers,
        operands: [u64; 2],
        steps: [u64; 2],
        accumulate: bool,
    );

    /// One instruction of a group, with the left operand in registers. It is the caller who fences and commits.
    ///
    /// # Safety
    /// As [`Accumulator::multiply_fragments`].
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    unsafe fn issue_rows<const COLUMNS_B: bool>(
        registers: &mut Self::Registers,
        a: [u32; 4],
        b: u64,
        accumulate: bool,
    );
}

/// The sums of a warpgroup's product of 64 × `N`: each of its 128 threads holds `N / 2` of them.
///
/// ```
/// use cuda_std::matrix::Accumulator;
///
/// // Thread 37 is lane 5 of the second warp: it holds row 17 and row 25.
/// assert_eq!(Accumulator::<f32, 64>::position(37, 0), (17, 2));
/// assert_eq!(Accumulator::<f32, 64>::position(37, 3), (25, 3));
/// assert_eq!(Accumulator::<f32, 64>::position(37, 4), (17, 10));
/// ```
pub struct Accumulator<V: Copy, const N: usize>
where
    Columns<N>: Width<V>,
{
    registers: <Columns<N> as Width<V>>::Registers,
}

impl<V: Copy, const N: usize> fmt::Debug for Accumulator<V, N>
where
    Columns<N>: Width<V>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Accumulator").field(&self.registers).finish()
    }
}

impl<V: bytemuck::Zeroable + Copy, const N: usize> Accumulator<V, N>
where
    Columns<N>: Width<V>,
{
    /// All sums zero.
    #[inline(always)]
    pub fn zeroed() -> Self {
        // SAFETY: an array of numbers, for which zero bits are a value. Written as a list, it would
        // become a loop in memory, and the sums would stay there.
        Self { registers: unsafe { core::mem::zeroed() } }
    }

    /// Where in the product sum `index` of a thread of the warpgroup is, as (row, column).
    #[inline(always)]
    pub const fn position(thread: usize, index: usize) -> (usize, usize) {
        let row = thread / 32 * 16 + thread % 32 / 4 + index / 2 % 2 * 8;
        (row, index / 4 * 8 + thread % 4 * 2 + index % 2)
    }

    /// Gives `f` the thread's sums in pairs: the row, the column of the first, and two neighbours of
    /// that row.
    #[inline(always)]
    pub fn for_each_pair(&self, thread: usize, mut f: impl FnMut(usize, usize, [V; 2])) {
        Columns::<N>::pairs(&self.registers, |index, pair| {
            let (row, column) = Self::position(thread, index);
            f(row, column, pair);
        });
    }

    /// The sums at `index`, which is even, and the next one: neighbours of a row, where [`position`](Self::position) says.
    /// In a kernel `index` is a constant, as in [`unrolled!`](crate::unrolled), or the sums go through local memory. Panics past
    /// the end.
    #[inline(always)]
    pub fn pair(&self, index: usize) -> [V; 2] {
        let registers = self.registers.as_ref();
        [registers[index], registers[index | 1]]
    }

    /// Replaces each sum by `f(index, sum)`. Where the sum at `index` is in the product says [`position`](Self::position). The accumulator
    /// is not one of products under way.
    #[inline(always)]
    pub fn map(&mut self, mut f: impl FnMut(usize, V) -> V) {
        let own = self.registers;
        Columns::<N>::combine(&mut self.registers, &own, |index, sum, _| f(index, sum));
    }

    /// Replaces each sum by `f(index, own, other)`, where `other` is the one of `others` at the same place: how sums of parts of K
    /// are added by ordinary cores, which round to nearest. Where the sum at `index` is in the product says
    /// [`position`](Self::position). Neither accumulator is one of products under way.
    #[inline(always)]
    pub fn combine(&mut self, others: &Self, f: impl FnMut(usize, V, V) -> V) {
        Columns::<N>::combine(&mut self.registers, &others.registers, f);
    }

    /// [`combine`](Self::combine) for the `M` columns from `first` on, a multiple of 8, of which `others` has the other sums. `index` is
    /// that of the sum in these. In a kernel `first` is a constant, or the sums go through local memory.
    ///
    /// Panics if there are not as many columns from `first` on.
    #[inline(always)]
    pub fn combine_columns<const M: usize>(
        &mut self,
        first: usize,
        others: &Accumulator<V, M>,
        f: impl FnMut(usize, V, V) -> V,
    ) where
        Columns<M>: Width<V>,
    {
        let registers = self.registers.as_mut();
        Columns::<M>::combine_into(&others.registers, registers, first / 2, f);
    }

    /// Starts to add the product of 64 rows of `a`, from row `first` on, with all `N` rows of `b`,
    /// transposed: `sum[i][j] += Σ a[first + i][k] b[j][k]`, over the span of both tiles, as one group.
    /// If not `accumulate`, the sums are replaced.
    ///
    /// # Safety
    /// - All threads of the warpgroup call this together, with the same arguments.
    /// - The tiles are valid in shared memory, and what ordinary writes put there has had
    ///   [`fence_proxy_async_shared`](crate::copy::fence_proxy_async_shared) and a barrier.
    /// - Until [`wait`](Self::wait) says that the group is done, nothing writes the tiles, and nothing
    ///   looks at these sums but further calls of this function.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn multiply<T, U, S, const KA: usize, const KB: usize, const M: usize>(
        &mut self,
        a: *const Tile<[[T; KA]; M], S>,
        first: usize,
        b: *const Tile<[[U; KB]; N], S>,
        accumulate: bool,
    ) where
        T: TensorElement,
        U: TensorElement,
        S: Swizzle,
        Columns<N>: Instruction<T, U, V>,
    {
        const { assert!(M >= ROWS, "the left tile has at least 64 rows") };
        let operands = [Descriptor::of_rows(a, first), Descriptor::of_rows(b, 0)];
        // SAFETY: the caller's promise.
        unsafe {
            match S::SPAN / STEP_BYTES {
                1 => self.multiply_operands::<T, U, 1, false, false>(operands, accumulate),
                2 => self.multiply_operands::<T, U, 2, false, false>(operands, accumulate),
                _ => self.multiply_operands::<T, U, 4, false, false>(operands, accumulate),
            }
        }
    }

    /// [`multiply`](Self::multiply) of operands by their descriptors, `STEPS` (1, 2 or 4) instructions
    /// along K of 32 bytes each. With `COLUMNS_A` or `COLUMNS_B` that operand is one of
    /// [`Descriptor::of_columns`], of 16-bit elements and a span of 128 bytes.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply), for what the descriptors say.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn multiply_operands<
        T,
        U,
        const STEPS: usize,
        const COLUMNS_A: bool,
        const COLUMNS_B: bool,
    >(
        &mut self,
        operands: [Descriptor; 2],
        accumulate: bool,
    ) where
        Columns<N>: Instruction<T, U, V>,
    {
        const { assert!(matches!(STEPS, 1 | 2 | 4), "one, two or four steps") };
        let step = |columns: bool| if columns { ROWS_STEP } else { SPAN_STEP };
        let [a, b] = operands;
        // SAFETY: the caller's promise.
        unsafe {
            super::converge();
            <Columns<N> as Instruction<T, U, V>>::issue::<STEPS, COLUMNS_A, COLUMNS_B>(
                &mut self.registers,
                [a.bits(), b.bits()],
                [step(COLUMNS_A), step(COLUMNS_B)],
                accumulate,
            );
        }
    }

    /// [`multiply`](Self::multiply) with the left operand in registers, 32 bytes along K: each warp gives
    /// the fragment of its 16 of the 64 rows, and `step` says which 32 bytes of the span of `b` belong to
    /// it. One group.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply); `32 * step` is inside the span.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn multiply_fragment<H, T, U, S, const KB: usize>(
        &mut self,
        a: FragmentA<H, T>,
        b: *const Tile<[[U; KB]; N], S>,
        step: usize,
        accumulate: bool,
    ) where
        H: Holds<A, T, Registers = [u32; 4]>,
        T: Element<Register = u32>,
        U: TensorElement,
        S: Swizzle,
        Columns<N>: Instruction<T, U, V>,
    {
        const { assert!(H::K * size_of::<T>() == STEP_BYTES, "a fragment of 32 bytes along K") };
        let b = Descriptor(Descriptor::of_rows(b, 0).bits() + 2 * step as u64);
        // SAFETY: the caller's promise.
        unsafe { self.multiply_fragments::<T, U, 1, false>([a.registers()], b, accumulate) };
    }

    /// [`multiply`](Self::multiply) with the left operand in registers: `STEPS` fragments of 32 bytes along K, as
    /// [`multiply_fragment`](Self::multiply_fragment) takes them, by `b`, whose first 32 bytes (or, with `COLUMNS_B`, 16 rows) the
    /// descriptor gives. One group.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply), for what the descriptor says. Without `COLUMNS_B` all steps are inside of the span.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn multiply_fragments<T, U, const STEPS: usize, const COLUMNS_B: bool>(
        &mut self,
        a: [[u32; 4]; STEPS],
        b: Descriptor,
        accumulate: bool,
    ) where
        Columns<N>: Instruction<T, U, V>,
    {
        const { assert!(STEPS > 0 && STEPS <= 16, "1 to 16 steps") };
        let step = if COLUMNS_B { ROWS_STEP } else { SPAN_STEP };
        // SAFETY: the caller's promise. Statements of assembly keep their order, and what stands between them touches no sum.
        unsafe {
            super::converge();
            asm!("wgmma.fence.sync.aligned;", options(nostack));
            crate::unrolled!(STEPS, |k| {
                <Columns<N> as Instruction<T, U, V>>::issue_rows::<COLUMNS_B>(
                    &mut self.registers,
                    a[k],
                    b.bits() + step * k as u64,
                    accumulate || k > 0,
                );
            });
            asm!("wgmma.commit_group.sync.aligned;", options(nostack));
        }
    }

    /// Waits until at most the youngest `PENDING` of the warpgroup's groups are under way. With 0 the
    /// sums may be looked at.
    ///
    /// # Safety
    /// All threads of the warpgroup call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn wait<const PENDING: usize>(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            super::converge();
            Columns::<N>::wait::<PENDING>(&mut self.registers);
        }
    }
}

/// Waits until at most the youngest `PENDING` of the warpgroup's groups are under way, so that the
/// tiles of the older ones may be written; it says nothing about sums: see [`Accumulator::wait`].
///
/// # Safety
/// All threads of the warpgroup call this together.
#[gpu_only]
#[inline(always)]
pub unsafe fn wait_multiplications<const PENDING: usize>() {
    // SAFETY: the caller's promise.
    unsafe {
        super::converge();
        asm!("wgmma.wait_group.sync.aligned {n};", n = const PENDING, options(nostack));
    }
}

/// The placeholders of the sums: `{0}, {1}, …`.
#[cfg(target_os = "cuda")]
macro_rules! placeholders {
    ([$first:literal $($i:literal)*]) => {
        concat!("{", $first, "}" $(, ", {", $i, "}")*)
    };
}

/// One `asm!` for a fence, the instructions and a commit: nothing that touches the registers can
/// stand between them. `$k` is the instruction's K, `$tail` what follows the predicate, and each
/// `$step` (an empty text) one more instruction.
#[cfg(target_os = "cuda")]
macro_rules! group {
    ($n:literal $registers:ident $indices:tt [$($i:literal)*]
     $operands:ident $steps:ident $accumulate:ident $k:literal $types:literal $tail:literal
     ($($more:tt)*) [$($step:literal)*]) => {
        asm!(
            concat!(
                "{{ .reg .pred first, all; .reg .b64 a, b; setp.ne.b32 first, {p}, 0;",
                " setp.eq.b32 all, {p}, {p}; mov.b64 a, {a}; mov.b64 b, {b};",
                " /* {sa} {sb} */ wgmma.fence.sync.aligned;",
                " wgmma.mma_async.sync.aligned.m64n", $n, $k, $types, " {{",
                placeholders!($indices), "}}, a, b, first", $tail, ";",
                $(
                    $step, " add.s64 a, a, {sa}; add.s64 b, b, {sb};",
                    " wgmma.mma_async.sync.aligned.m64n", $n, $k, $types, " {{",
                    placeholders!($indices), "}}, a, b, all", $tail, ";",
                )*
                " wgmma.commit_group.sync.aligned; }}",
            ),
            $(inout(reg32) $registers[$i],)*
            a = in(reg64) $operands[0],
            b = in(reg64) $operands[1],
            sa = in(reg64) $steps[0],
            sb = in(reg64) $steps[1],
            p = in(reg32) u32::from($accumulate),
            $($more)*
            options(nostack),
        )
    };
}

/// An instruction whose left operand is in registers.
#[cfg(target_os = "cuda")]
macro_rules! rows {
    ($n:literal $registers:ident $indices:tt [$($i:literal)*] $a:ident $b:ident $accumulate:ident
     $k:literal $types:literal $tail:literal ($($more:tt)*)) => {
        asm!(
            concat!(
                "{{ .reg .pred first; setp.ne.b32 first, {p}, 0;",
                " wgmma.mma_async.sync.aligned.m64n", $n, $k, $types, " {{",
                placeholders!($indices), "}}, {{{a0}, {a1}, {a2}, {a3}}}, {b}, first", $tail, "; }}",
            ),
            $(inout(reg32) $registers[$i],)*
            a0 = in(reg32) $a[0],
            a1 = in(reg32) $a[1],
            a2 = in(reg32) $a[2],
            a3 = in(reg32) $a[3],
            b = in(reg64) $b,
            p = in(reg32) u32::from($accumulate),
            $($more)*
            options(nostack),
        )
    };
}

/// The instructions for two types of operands.
macro_rules! instructions {
    ($n:literal $indices:tt: $($a:ty, $b:ty, $v:ty: $k:literal $types:literal $tail:literal
     $more:tt $rows_tail:literal $rows_more:tt;)*) => {$(
        impl Instruction<$a, $b, $v> for Columns<$n> {
            #[cfg(target_os = "cuda")]
            #[inline(always)]
            #[allow(unused_variables)]
            unsafe fn issue<const STEPS: usize, const COLUMNS_A: bool, const COLUMNS_B: bool>(
                registers: &mut Self::Registers,
                operands: [u64; 2],
                steps: [u64; 2],
                accumulate: bool,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    match STEPS {
                        1 => group!($n registers $indices $indices operands steps accumulate
                            $k $types $tail $more []),
                        2 => group!($n registers $indices $indices operands steps accumulate
                            $k $types $tail $more [""]),
                        _ => group!($n registers $indices $indices operands steps accumulate
                            $k $types $tail $more ["" "" ""]),
                    }
                }
            }

            #[cfg(target_os = "cuda")]
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)]
            unsafe fn issue_rows<const COLUMNS_B: bool>(
                registers: &mut Self::Registers,
                a: [u32; 4],
                b: u64,
                accumulate: bool,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    rows!($n registers $indices $indices a b accumulate $k $types $rows_tail $rows_more)
                }
            }
        }
    )*};
}

/// The sums of one type.
macro_rules! sums {
    ($n:literal $count:literal [$first:literal $($i:literal)*]: $v:ty) => {
        // SAFETY: an array of numbers.
        unsafe impl Width<$v> for Columns<$n> {
            type Registers = [$v; $count];

            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn wait<const PENDING: usize>(registers: &mut Self::Registers) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("wgmma.wait_group.sync.aligned {n}; // {", $first, "}"
                            $(, " {", $i, "}")*),
                        inout(reg32) registers[$first],
                        $(inout(reg32) registers[$i],)*
                        n = const PENDING,
                        options(nostack),
                    );
                }
            }

            #[inline(always)]
            fn pairs(registers: &Self::Registers, mut f: impl FnMut(usize, [$v; 2])) {
                f($first, [registers[0], registers[1]]);
                $(if $i % 2 == 0 {
                    f($i, [registers[$i], registers[$i | 1]]);
                })*
            }

            #[inline(always)]
            fn combine(
                registers: &mut Self::Registers,
                others: &Self::Registers,
                mut f: impl FnMut(usize, $v, $v) -> $v,
            ) {
                registers[$first] = f($first, registers[$first], others[$first]);
                $(registers[$i] = f($i, registers[$i], others[$i]);)*
            }

            #[inline(always)]
            fn combine_into(
                others: &Self::Registers,
                registers: &mut [$v],
                first: usize,
                mut f: impl FnMut(usize, $v, $v) -> $v,
            ) {
                let mut one = |i: usize, other| {
                    registers[first + i] = f(first + i, registers[first + i], other);
                };
                one($first, others[$first]);
                $(one($i, others[$i]);)*
            }
        }
    };
}

/// Everything of one width.
macro_rules! widths {
    ($($n:literal $count:literal $indices:tt;)*) => {$(
        sums!($n $count $indices: f32);
        sums!($n $count $indices: i32);
        instructions! {
            $n $indices:
            f16, f16, f32: "k16" ".f32.f16.f16" ", 1, 1, {ta}, {tb}"
                (ta = const COLUMNS_A as u32, tb = const COLUMNS_B as u32,)
                ", 1, 1, {tb}" (tb = const COLUMNS_B as u32,);
            bf16, bf16, f32: "k16" ".f32.bf16.bf16" ", 1, 1, {ta}, {tb}"
                (ta = const COLUMNS_A as u32, tb = const COLUMNS_B as u32,)
                ", 1, 1, {tb}" (tb = const COLUMNS_B as u32,);
            Tf32, Tf32, f32: "k8" ".f32.tf32.tf32" ", 1, 1" () ", 1, 1" ();
            E4m3, E4m3, f32: "k32" ".f32.e4m3.e4m3" ", 1, 1" () ", 1, 1" ();
            E4m3, E5m2, f32: "k32" ".f32.e4m3.e5m2" ", 1, 1" () ", 1, 1" ();
            E5m2, E4m3, f32: "k32" ".f32.e5m2.e4m3" ", 1, 1" () ", 1, 1" ();
            E5m2, E5m2, f32: "k32" ".f32.e5m2.e5m2" ", 1, 1" () ", 1, 1" ();
            i8, i8, i32: "k32" ".s32.s8.s8" "" () "" ();
            i8, u8, i32: "k32" ".s32.s8.u8" "" () "" ();
            u8, i8, i32: "k32" ".s32.u8.s8" "" () "" ();
            u8, u8, i32: "k32" ".s32.u8.u8" "" () "" ();
        }
    )*};
}

widths! {
    8 4 [
        0 1 2 3
    ];
    16 8 [
        0 1 2 3 4 5 6 7
    ];
    32 16 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
    ];
    64 32 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    ];
    80 40 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
        34 35 36 37 38 39
    ];
    96 48 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
    ];
    112 56 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
        34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55
    ];
    128 64 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
        63
    ];
    176 88 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
        34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
        65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87
    ];
    192 96 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
        63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
        93 94 95
    ];
    256 128 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
        63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
        93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116
        117 118 119 120 121 122 123 124 125 126 127
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::{Swizzle32, Swizzle128};

    #[test]
    fn every_sum_belongs_to_one_thread() {
        let mut seen = vec![0; 64 * 96];
        for thread in 0..128 {
            for index in 0..48 {
                let (row, column) = Accumulator::<f32, 96>::position(thread, index);
                seen[row * 96 + column] += 1;
            }
        }
        assert_eq!(seen, vec![1; 64 * 96]);
    }

    #[test]
    fn pairs_cover_the_registers() {
        let mut sums = Accumulator::<i32, 16>::zeroed();
        sums.registers = [0, 1, 2, 3, 4, 5, 6, 7];
        let mut seen = vec![];
        sums.for_each_pair(33, |row, column, pair| seen.push((row, column, pair)));
        assert_eq!(seen, [(16, 2, [0, 1]), (24, 2, [2, 3]), (16, 10, [4, 5]), (24, 10, [6, 7])]);
    }

    #[test]
    fn sums_are_combined_place_by_place() {
        let (mut sums, mut others) = (Accumulator::<f32, 8>::zeroed(), Accumulator::zeroed());
        (sums.registers, others.registers) = ([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]);
        sums.combine(&others, |index, own, other| own + other * index as f32);
        assert_eq!(sums.registers, [1.0, 22.0, 63.0, 124.0]);
    }

    #[test]
    fn sums_of_some_columns_are_combined_at_their_place() {
        let (mut sums, mut others) =
            (Accumulator::<f32, 16>::zeroed(), Accumulator::<f32, 8>::zeroed());
        (sums.registers, others.registers) = ([1.0; 8], [10.0, 20.0, 30.0, 40.0]);
        sums.combine_columns(8, &others, |index, own, other| own + other * index as f32);
        assert_eq!(sums.registers, [1.0, 1.0, 1.0, 1.0, 41.0, 101.0, 181.0, 281.0]);
    }

    #[test]
    fn descriptors_have_their_fields() {
        let bits = Descriptor::new::<Swizzle128>(0x1400, 16, 1024).bits();
        assert_eq!(bits, 0x140 | 1 << 16 | 64 << 32 | 1 << 62);
        assert_eq!(Descriptor::new::<Swizzle32>(0, 16, 256).bits(), 1 << 16 | 16 << 32 | 3 << 62);
    }
}
