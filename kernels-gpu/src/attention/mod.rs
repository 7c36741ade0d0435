//! Attention: `o = softmax(scale · q·kᵀ) · v` for each head of each batch, over the keys that a query sees.
//!
//! | module | kernels | since |
//! |---|---|---|
//! | [`hopper`] | keys and values by the copy engine, multiplied by warpgroups (`wgmma`); the fastest | `sm_90a` |
//! | [`warps`] | keys and values by `cp.async`, multiplied by warps (`mma`); keys in pages; few rows, as when text is generated | `sm_80` |
//! | [`scaled`] | 8-bit floats with scales of heads, by that method | `sm_90a` |
//! | [`steps`] | a textbook's three passes, and the online softmax: the first steps to these | `sm_80` |
//! | [`backward`] | the gradients of queries, keys and values | `sm_80` |
//! | [`lists`] | which blocks of keys a mask does not empty | `sm_80` |
//! | [`rotary`] | rotary position embedding, and new keys and values for a cache | `sm_80` |
//!
//! All take scores block by block of keys, and keep for each row the maximum and the sum of exponentials so far: the online softmax. What becomes of scores,
//! and which keys a query sees, is a functor, a [`Score`]; [`Dropout`] around one leaves weights out. Where the rows of batches of different lengths are, [`batch`] says. Keys of few rows are divided among
//! blocks, the last of which [combines](combine) their partial results. The host's `ops::attention` checks shapes and chooses the kernel.

pub mod backward;
pub mod batch;
pub mod combine;
mod dropout;
pub mod form;
pub mod hopper;
pub mod lists;
pub mod output;
mod problem;
pub mod rotary;
pub mod scaled;
mod score;
mod scores;
#[cfg(feature = "entries")]
pub mod shipped;
mod softmax;
pub mod steps;
pub mod warps;
mod work;

pub use batch::{Batch, Batches, Segment};
pub use dropout::{Dropout, Kept};
pub use problem::{Lengths, PACKED_KEYS, PACKED_QUERIES, Problem, RowStrides};
pub use score::{Alibi, Band, Keys, Place, Score, SoftCap, Strided};
pub use work::{Schedule, Work};

/// Factor of scores in exponents to base 2: of those that tensor cores give, or of those that a functor gives.
#[inline(always)]
#[must_use]
pub fn factor_of<C: Score>(problem: &Problem) -> f32 {
    use core::f32::consts::LOG2_E;
    if C::CHANGES && !C::MASKS { LOG2_E } else { problem.scale * LOG2_E }
}

/// Factor of scores before a functor sees them. One that masks does not look at them.
#[inline(always)]
#[must_use]
pub fn factor_before<C: Score>(problem: &Problem) -> f32 {
    if C::MASKS { 1.0 } else { problem.scale }
}

/// Factor of weights that a functor keeps.
#[inline(always)]
#[must_use]
pub fn factor_of_kept<C: Score>(score: C) -> f32 {
    if C::DROPS { score.kept().factor() } else { 1.0 }
}
