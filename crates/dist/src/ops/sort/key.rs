//! Keys: their order on the host, and whether there is a kernel that merges them.

use cuda_std::half::{bf16, f16};
use ferrowarp::AsStream;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::sort::SortKey;
use ferrowarp::ops::{Scratch, merge_into, merge_pairs_into};

/// Sorted keys on the device, with the values of 32 bits that belong to them, if there are any.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Run<'a, K: SortKey> {
    pub(super) keys: DeviceSlice<'a, K>,
    pub(super) values: Option<DeviceSlice<'a, u32>>,
}

/// Where a run is merged to.
#[doc(hidden)]
pub struct RunMut<'a, K: SortKey> {
    pub(super) keys: DeviceSliceMut<'a, K>,
    pub(super) values: Option<DeviceSliceMut<'a, u32>>,
}

/// A type of keys that are sorted over ranks: every [`SortKey`].
pub trait RankKey: SortKey {
    /// Whether there is a kernel that merges such keys.
    #[doc(hidden)]
    const MERGES: bool;

    /// A number that orders keys as the sort does.
    #[doc(hidden)]
    fn rank_word(self) -> u64;

    /// Merges two runs; of equal keys those of `a` come first. Only where [`MERGES`](Self::MERGES) is true.
    #[doc(hidden)]
    fn merge_runs(
        on: &impl AsStream,
        a: Run<'_, Self>,
        b: Run<'_, Self>,
        out: &mut RunMut<'_, Self>,
        scratch: &mut Scratch,
    ) -> GpuResult<()>;
}

/// A float's bits as a number in the float's total order: negative ones are all flipped, others get the highest bit.
fn float_word(bits: u64, sign: u64) -> u64 {
    if bits & sign == 0 { bits | sign } else { !bits & (sign | (sign - 1)) }
}

/// A signed number of that many bits as an unsigned one in the same order.
const fn flipped(word: u64, bits: u32) -> u64 {
    (word ^ (1 << (bits - 1))) & (u64::MAX >> (64 - bits))
}

macro_rules! keys {
    ($($ty:ty, $word:expr, $merges:tt;)*) => {$(
        impl RankKey for $ty {
            const MERGES: bool = $merges;

            fn rank_word(self) -> u64 {
                $word(self)
            }

            merge_of!($merges);
        }
    )*};
}

macro_rules! merge_of {
    (true) => {
        fn merge_runs(
            on: &impl AsStream,
            a: Run<'_, Self>,
            b: Run<'_, Self>,
            out: &mut RunMut<'_, Self>,
            scratch: &mut Scratch,
        ) -> GpuResult<()> {
            match (a.values, b.values, &mut out.values) {
                (Some(of_a), Some(of_b), Some(values)) => {
                    let out = (&mut out.keys, values);
                    merge_pairs_into(on, (&a.keys, &of_a), (&b.keys, &of_b), out, scratch)
                }
                _ => merge_into(on, &a.keys, &b.keys, &mut out.keys, scratch),
            }
        }
    };
    (false) => {
        fn merge_runs(
            _: &impl AsStream,
            _: Run<'_, Self>,
            _: Run<'_, Self>,
            _: &mut RunMut<'_, Self>,
            _: &mut Scratch,
        ) -> GpuResult<()> {
            unreachable!("no kernel merges keys of this type, which `MERGES` says")
        }
    };
}

keys! {
    u8, u64::from, false;
    u16, u64::from, false;
    u32, u64::from, true;
    u64, |key| key, true;
    i8, |key: i8| flipped(key as u64, 8), false;
    i16, |key: i16| flipped(key as u64, 16), false;
    i32, |key: i32| flipped(key as u64, 32), true;
    i64, |key: i64| flipped(key as u64, 64), true;
    f16, |key: f16| float_word(key.to_bits().into(), 1 << 15), false;
    bf16, |key: bf16| float_word(key.to_bits().into(), 1 << 15), false;
    f32, |key: f32| float_word(key.to_bits().into(), 1 << 31), true;
    f64, |key: f64| float_word(key.to_bits(), 1 << 63), true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_the_order_of_the_keys() {
        let floats =
            [-f32::NAN, f32::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-40, 2.0, f32::INFINITY, f32::NAN];
        assert!(floats.map(RankKey::rank_word).is_sorted());
        assert!(floats.map(|x| f64::from(x).rank_word()).is_sorted());
        let halves = [-2.0f32, -0.0, 0.0, 1.0, 3.0].map(f16::from_f32);
        assert!(halves.map(RankKey::rank_word).is_sorted());
        assert!([i8::MIN, -1, 0, 1, i8::MAX].map(RankKey::rank_word).is_sorted());
        assert!([i64::MIN, -1, 0, 1, i64::MAX].map(RankKey::rank_word).is_sorted());
        assert_ne!((-0.0f32).rank_word(), 0.0f32.rank_word());
    }
}
