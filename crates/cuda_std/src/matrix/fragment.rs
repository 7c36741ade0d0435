//! Fragments: the part of a matrix that a lane holds.

use super::element::{Element, Tf32};
use crate::number::{E4m3, E5m2};
use core::fmt;
use core::marker::PhantomData;
use half::{bf16, f16};

/// The shape of one multiplication: `C` (M × N) gets `A` (M × K) times `B` (K × N).
pub trait Shape: Copy + 'static {
    /// Rows of `A` and `C`.
    const M: usize;
    /// Columns of `B` and `C`.
    const N: usize;
    /// Columns of `A`, rows of `B`.
    const K: usize;
}

/// Which of the three matrices a fragment belongs to.
pub trait Role: Copy + 'static {
    /// Where in the matrix a lane's element `index` is, as (row, column).
    #[doc(hidden)]
    fn position<S: Shape>(per_register: usize, lane: usize, index: usize) -> (usize, usize);
}

/// The left operand.
#[derive(Clone, Copy, Debug)]
pub struct A;
/// The right operand.
#[derive(Clone, Copy, Debug)]
pub struct B;
/// The sum and the result.
#[derive(Clone, Copy, Debug)]
pub struct C;

/// The row (of `A`) or column (of `B`), and the place along K, of an operand's element.
const fn operand(rows: usize, per: usize, lane: usize, index: usize) -> (usize, usize) {
    let (register, element) = (index / per, index % per);
    let (row, chunk) = if rows == 16 { (8 * (register % 2), register / 2) } else { (0, register) };
    (lane / 4 + row, 4 * per * chunk + per * (lane % 4) + element)
}

impl Role for A {
    #[inline(always)]
    fn position<S: Shape>(per: usize, lane: usize, index: usize) -> (usize, usize) {
        operand(S::M, per, lane, index)
    }
}

impl Role for B {
    #[inline(always)]
    fn position<S: Shape>(per: usize, lane: usize, index: usize) -> (usize, usize) {
        let (column, row) = operand(8, per, lane, index);
        (row, column)
    }
}

impl Role for C {
    #[inline(always)]
    fn position<S: Shape>(_: usize, lane: usize, index: usize) -> (usize, usize) {
        (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2)
    }
}

/// That a shape has operands of type `T` in role `R`.
#[diagnostic::on_unimplemented(
    message = "no tensor core instruction of shape `{Self}` has `{T}` as its `{R}`",
    note = "f16 and bf16: M16N8K8, M16N8K16; Tf32: M16N8K4, M16N8K8; i8 and u8: M8N8K16, M16N8K16, M16N8K32; E4m3 and E5m2: M16N8K32",
    note = "f64: M8N8K4, M16N8K4, M16N8K8, M16N8K16; `C` is f32 for floats of at most 32 bits (or f16 for f16), i32 for integers, f64 for f64"
)]
pub trait Holds<R: Role, T: Element>: Shape {
    /// The registers of one lane.
    type Registers: Copy + AsRef<[T::Register]> + AsMut<[T::Register]> + fmt::Debug;
    /// How many there are.
    const REGISTERS: usize;
    /// All zero.
    #[doc(hidden)]
    fn zero() -> Self::Registers;
}

/// Declares shapes.
macro_rules! shapes {
    ($($name:ident: $m:literal $n:literal $k:literal;)*) => {$(
        #[doc = concat!("M = ", $m, ", N = ", $n, ", K = ", $k, ".")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Shape for $name {
            const M: usize = $m;
            const N: usize = $n;
            const K: usize = $k;
        }
    )*};
}

shapes! {
    M8N8K4: 8 8 4;
    M8N8K16: 8 8 16;
    M16N8K4: 16 8 4;
    M16N8K8: 16 8 8;
    M16N8K16: 16 8 16;
    M16N8K32: 16 8 32;
}

/// Declares the registers of a fragment for each shape: those of A and B for operands, C for sums.
macro_rules! holds {
    ($($role:ident $ty:ty: $($shape:ident $count:literal),*;)*) => {$($(
        impl Holds<$role, $ty> for $shape {
            type Registers = [<$ty as Element>::Register; $count];
            const REGISTERS: usize = $count;

            #[inline(always)]
            fn zero() -> Self::Registers {
                // SAFETY: numbers, for which all zero bits are a value. Written as a list of values,
                // it would become a loop in memory.
                unsafe { core::mem::zeroed() }
            }
        }
    )*)*};
}

holds! {
    A f16: M16N8K8 2, M16N8K16 4;
    B f16: M16N8K8 1, M16N8K16 2;
    A bf16: M16N8K8 2, M16N8K16 4;
    B bf16: M16N8K8 1, M16N8K16 2;
    A Tf32: M16N8K4 2, M16N8K8 4;
    B Tf32: M16N8K4 1, M16N8K8 2;
    A i8: M8N8K16 1, M16N8K16 2, M16N8K32 4;
    B i8: M8N8K16 1, M16N8K16 1, M16N8K32 2;
    A u8: M8N8K16 1, M16N8K16 2, M16N8K32 4;
    B u8: M8N8K16 1, M16N8K16 1, M16N8K32 2;
    A E4m3: M16N8K32 4;
    B E4m3: M16N8K32 2;
    A E5m2: M16N8K32 4;
    B E5m2: M16N8K32 2;
    A f64: M8N8K4 1, M16N8K4 2, M16N8K8 4, M16N8K16 8;
    B f64: M8N8K4 1, M16N8K4 1, M16N8K8 2, M16N8K16 4;
    C f32: M16N8K4 4, M16N8K8 4, M16N8K16 4, M16N8K32 4;
    C f16: M16N8K8 2, M16N8K16 2;
    C i32: M8N8K16 2, M16N8K16 4, M16N8K32 4;
    C f64: M8N8K4 2, M16N8K4 4, M16N8K8 4, M16N8K16 4;
}

/// A lane's part of a matrix: `R` says which of the three, `S` the shape, `T` the element.
pub struct Fragment<R: Role, S: Holds<R, T>, T: Element> {
    registers: S::Registers,
    role: PhantomData<R>,
}

/// A lane's part of the left operand, M × K.
pub type FragmentA<S, T> = Fragment<A, S, T>;
/// A lane's part of the right operand, K × N.
pub type FragmentB<S, T> = Fragment<B, S, T>;
/// A lane's part of the sum, M × N.
pub type FragmentC<S, T> = Fragment<C, S, T>;

impl<R: Role, S: Holds<R, T>, T: Element> Clone for Fragment<R, S, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Role, S: Holds<R, T>, T: Element> Copy for Fragment<R, S, T> {}

impl<R: Role, S: Holds<R, T>, T: Element> fmt::Debug for Fragment<R, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fragment").field(&self.registers).finish()
    }
}

impl<R: Role, S: Holds<R, T>, T: Element> Fragment<R, S, T> {
    /// Elements that a lane holds.
    pub const ELEMENTS: usize = S::REGISTERS * T::PER_REGISTER;

    /// All elements zero.
    #[inline(always)]
    pub fn zeroed() -> Self {
        Self::from_registers(S::zero())
    }

    /// The fragment in registers of the instruction's order.
    #[inline(always)]
    pub fn from_registers(registers: S::Registers) -> Self {
        Self { registers, role: PhantomData }
    }

    /// The registers in the instruction's order.
    #[inline(always)]
    pub fn registers(self) -> S::Registers {
        self.registers
    }

    /// The registers, to be set.
    #[cfg_attr(not(target_os = "cuda"), allow(dead_code))]
    #[inline(always)]
    pub(super) fn registers_mut(&mut self) -> &mut [T::Register] {
        self.registers.as_mut()
    }

    /// Where in the matrix element `index` of `lane` is, as (row, column): every place belongs to one
    /// lane and index.
    #[inline(always)]
    pub fn position(lane: usize, index: usize) -> (usize, usize) {
        R::position::<S>(T::PER_REGISTER, lane, index)
    }

    /// The part of `lane` of the matrix whose elements `value(row, column)` gives.
    #[inline(always)]
    pub fn fill(lane: usize, value: impl Fn(usize, usize) -> T) -> Self {
        let mut fragment = Self::zeroed();
        let per = T::PER_REGISTER;
        for register in 0..S::REGISTERS {
            let mut word = T::Register::default();
            for element in 0..per {
                let (row, column) = Self::position(lane, register * per + element);
                word = T::insert(word, element, value(row, column));
            }
            fragment.registers.as_mut()[register] = word;
        }
        fragment
    }

    /// Gives `f` each of the lane's elements with its row and column.
    #[inline(always)]
    pub fn for_each(self, lane: usize, mut f: impl FnMut(usize, usize, T)) {
        let per = T::PER_REGISTER;
        for register in 0..S::REGISTERS {
            for element in 0..per {
                let (row, column) = Self::position(lane, register * per + element);
                f(row, column, T::extract(self.registers.as_ref()[register], element));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    /// Every place of a matrix of `rows` × `columns` belongs to exactly one lane and element.
    fn covers<R: Role, S: Holds<R, T>, T: Element>(rows: usize, columns: usize) {
        let mut seen = vec![0; rows * columns];
        for lane in 0..32 {
            for index in 0..Fragment::<R, S, T>::ELEMENTS {
                let (row, column) = Fragment::<R, S, T>::position(lane, index);
                seen[row * columns + column] += 1;
            }
        }
        assert_eq!(seen, vec![1; rows * columns]);
    }

    fn all<S: Holds<A, T> + Holds<B, T> + Holds<C, V>, T: Element, V: Element>() {
        covers::<A, S, T>(S::M, S::K);
        covers::<B, S, T>(S::K, S::N);
        covers::<C, S, V>(S::M, S::N);
    }

    #[test]
    fn every_place_belongs_to_one_lane() {
        all::<M16N8K8, f16, f16>();
        all::<M16N8K16, f16, f32>();
        all::<M16N8K8, bf16, f32>();
        all::<M16N8K16, bf16, f32>();
        all::<M16N8K4, Tf32, f32>();
        all::<M16N8K8, Tf32, f32>();
        all::<M8N8K16, i8, i32>();
        all::<M16N8K16, u8, i32>();
        all::<M16N8K32, i8, i32>();
        all::<M16N8K32, E4m3, f32>();
        all::<M8N8K4, f64, f64>();
        all::<M16N8K4, f64, f64>();
        all::<M16N8K8, f64, f64>();
        all::<M16N8K16, f64, f64>();
    }

    #[test]
    fn a_fragment_gives_back_what_filled_it() {
        for lane in 0..32 {
            let value = |r: usize, c: usize| (16 * r + c) as u8;
            let mut count = 0;
            FragmentA::<M16N8K16, u8>::fill(lane, value).for_each(lane, |row, column, found| {
                assert_eq!(found, value(row, column), "({row}, {column})");
                count += 1;
            });
            assert_eq!(count, FragmentA::<M16N8K16, u8>::ELEMENTS);
        }
    }

    /// Every element of a fragment is where a layout over (lane, index) says, in a matrix of `rows` rows by columns.
    fn lies<R: Role, S: Holds<R, T>, T: Element>(rows: usize, layout: Layout) {
        for lane in 0..32 {
            for index in 0..Fragment::<R, S, T>::ELEMENTS {
                let (row, column) = Fragment::<R, S, T>::position(lane, index);
                assert_eq!(
                    row + rows * column,
                    layout.offset(lane + 32 * index),
                    "lane {lane}, {index}"
                );
            }
        }
    }

    /// As CuTe describes the same instructions: its thread-value layouts.
    #[test]
    fn elements_lie_where_layouts_of_lanes_and_values_say() {
        lies::<A, M16N8K16, f16>(16, Layout::new([4, 8, 2, 2, 2], [32, 1, 16, 8, 128]));
        lies::<B, M16N8K16, f16>(16, Layout::new([4, 8, 2, 2], [2, 16, 1, 8]));
        lies::<C, M16N8K16, f32>(16, Layout::new([4, 8, 2, 2], [32, 1, 16, 8]));
        lies::<A, M16N8K8, Tf32>(16, Layout::new([4, 8, 2, 2], [16, 1, 8, 64]));
        lies::<B, M16N8K8, Tf32>(8, Layout::new([4, 8, 2], [1, 8, 4]));
        lies::<A, M16N8K32, i8>(16, Layout::new([4, 8, 4, 2, 2], [64, 1, 16, 8, 256]));
        lies::<A, M8N8K4, f64>(8, Layout::new([4, 8], [8, 1]));
        lies::<C, M8N8K4, f64>(8, Layout::new([4, 8, 2], [16, 1, 8]));
    }
}
