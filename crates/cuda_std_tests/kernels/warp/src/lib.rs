//! Warps, their tiles, and groups of any lanes.

#![allow(missing_docs)]

pub mod groups;
pub mod movers;
pub mod tiles;

use bytemuck::{Pod, Zeroable};
use cuda_std::prelude::*;

/// Three bytes: a value whose size is no multiple of a word's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Pixel(pub [u8; 3]);

/// An affine map `x -> a * x + b` modulo 2^32. Composition is associative and not commutative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Affine {
    pub a: u32,
    pub b: u32,
}

impl Affine {
    pub const IDENTITY: Self = Self { a: 1, b: 0 };

    /// The map of a number.
    pub fn of(x: u32) -> Self {
        Self { a: x | 1, b: x.rotate_left(16) }
    }

    /// First `self`, then `next`.
    pub fn then(self, next: Self) -> Self {
        let b = next.a.wrapping_mul(self.b).wrapping_add(next.b);
        Self { a: self.a.wrapping_mul(next.a), b }
    }

    pub fn bits(self) -> u64 {
        u64::from(self.a) << 32 | u64::from(self.b)
    }
}

/// The rows of results of a grid: `out[row * threads + thread]`.
pub struct Rows<'a> {
    next: ThreadIndex,
    out: DisjointSlice<'a, u64>,
}

impl<'a> Rows<'a> {
    pub fn new(index: ThreadIndex, out: DisjointSlice<'a, u64>) -> Self {
        Self { next: index, out }
    }

    /// Appends a row. Panics past the end of the output.
    #[inline(always)]
    pub fn put(&mut self, value: impl Into<u64>) {
        *self.out.get_mut(self.next).expect("room for a row") = value.into();
        self.next = self.next.stride(1);
    }

    #[inline(always)]
    pub fn put_float(&mut self, value: f32) {
        self.put(value.to_bits());
    }

    #[inline(always)]
    pub fn put_signed(&mut self, value: impl Into<i64>) {
        self.put(value.into() as u64);
    }
}
