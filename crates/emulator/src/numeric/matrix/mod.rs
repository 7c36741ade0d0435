//! The arithmetic of tensor cores, as an H200 does it.
//!
//! [`dot`] is the rule for `.f16`, `.bf16`, `.tf32` and the 8-bit formats. It is not a chain of
//! fused multiply-adds: all products of the instruction's `k` and the accumulator are made exactly,
//! aligned to the largest exponent among them, cut towards zero to a fixed number of bits, and
//! added exactly; only the sum is rounded. [`Rule`] holds what differs between instructions. The
//! rule and its numbers were found by comparing with an H200 bit for bit;
//! `tests/golden/mma_h200.txt` holds what it gave.
//!
//! | instruction | bits of fraction | products together | result |
//! |---|---|---|---|
//! | `mma`, `wgmma` of `.f16`, `.bf16`, `.tf32` | 25 | all of `k` | `.f32` cut, `.f16` to nearest |
//! | `wgmma` of `.e4m3`, `.e5m2` | 13 | all of `k` | `.f32` cut to 13 bits, `.f16` to nearest |
//! | `mma` of `.e4m3`, `.e5m2` | 25 | half of `k` at a time, see [`eight`] | one more sum to nearest |
//! | `mma.m8n8k4` of `.f16` | | an `fma` chain in `.f32`, see [`volta`] | |
//! | `wmma` | as `mma`, but see [`fragment`] | | |
//! | `.f64` | | an `fma` chain, `k` upwards, see [`chain_f64`] | |
//!
//! A sum of zero is always +0. Subnormals count, in operands and in results. A NaN result is always
//! the same. Of a sparse A only the products of what is stored are made: an infinity of B that
//! would meet a place with nothing stored does not count. Integers are exact: a sum past 32 bits
//! wraps, or with `.satfinite` stops at the extremes.
//!
//! These are the sums of that one architecture, and of what its assembler makes of instructions
//! that it lacks. Others keep fewer bits or sum fewer products together, so their last bits differ.

mod element;
mod integer;
mod sum;

pub use element::{Element, ElementFormat};
pub use integer::{bits_and, bits_xor, integer};
pub use sum::{NARROW, Rule, chain_f64, dot, eight, fragment, volta, widen};
