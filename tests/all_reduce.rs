//! `all_reduce` of several ranks on one device: each rank's kernels run on a stream of its own, all of them at once.

use bytemuck::Pod;
use cuda_std::half::bf16;
use ferrowarp::{Backend, DeviceBuffer, GpuResult, Grid1, Stream};
use kernels_gpu::peers::{
    BLOCKS, Exchange, MAX_RANKS, ONCE_BYTES, Summand, all_reduce, exchange_bytes,
};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{floats, gpu, rng};

/// Larger than one shot takes, so that there are messages of two.
const SLOT_BYTES: usize = 2 * ONCE_BYTES;

/// The ranks: a stream, and exchange memory, of each.
struct Ranks(Vec<(Stream, DeviceBuffer<u8>)>);

impl Ranks {
    fn new(count: usize) -> GpuResult<Self> {
        let rank = |_| {
            let stream = gpu().create_stream()?;
            let memory = DeviceBuffer::zeroed(&stream, exchange_bytes(SLOT_BYTES))?;
            Ok((stream, memory))
        };
        let own = Self((0..count).map(rank).collect::<GpuResult<_>>()?);
        gpu().synchronize()?;
        Ok(own)
    }

    fn exchange(&self, rank: usize) -> Exchange {
        let mut memory = [0; MAX_RANKS];
        for (address, (_, own)) in memory.iter_mut().zip(&self.0) {
            *address = own.as_device_ptr().address();
        }
        let (rank, ranks, slot_bytes) = (rank as u32, self.0.len() as u32, SLOT_BYTES as u64);
        Exchange { memory, given_up: 0, slot_bytes, rank, ranks }
    }

    /// Buffers of each rank, on its stream, with `skip` elements in front that are no part of the message.
    fn upload<T: Pod>(&self, all: &[Vec<T>], skip: usize) -> GpuResult<Vec<DeviceBuffer<T>>> {
        let padded = |values: &Vec<T>| [&vec![T::zeroed(); skip][..], values].concat();
        let streams = self.0.iter().map(|(stream, _)| stream);
        let buffers =
            streams.zip(all).map(|(on, values)| DeviceBuffer::from_slice(on, &padded(values)));
        buffers.collect()
    }

    /// Runs the kernel once on all ranks; in place without `from`. The first `skip` elements are left out.
    fn sum<T: Summand>(
        &self,
        from: Option<&[DeviceBuffer<T>]>,
        to: &mut [DeviceBuffer<T>],
        skip: usize,
    ) -> GpuResult<()>
    where
        all_reduce<T>: cuda_std::launch::Instance,
    {
        for (rank, to) in to.iter_mut().enumerate() {
            let (stream, grid) = (&self.0[rank].0, Grid1::new(BLOCKS));
            let whole = from.map(|from| &from[rank]).unwrap_or(&*to).len();
            let from = from.map(|from| from[rank].slice(skip..whole));
            let (mut part, exchange) = (to.slice_mut(skip..whole), self.exchange(rank));
            let none = DeviceBuffer::zeroed(stream, 0)?;
            let from = from.unwrap_or_else(|| none.slice(..));
            // SAFETY: all ranks launch it with as many elements, their kernels run at once, on a stream each, and the memory is
            // as large as they need.
            unsafe { all_reduce::<T>::launch(stream, grid, exchange, &from, &mut part)? };
        }
        Ok(())
    }
}

/// Lengths around a quad, a block's stretch, the change to two shots and the end of the slot, in elements of so many bytes; fewer
/// for many ranks.
fn lengths(element_bytes: usize, ranks: usize) -> Vec<usize> {
    let once = ONCE_BYTES / element_bytes;
    let few = vec![0, 1, 257, once + 3];
    let more = [2, 3, 4, 5, 31, 4099, once - 1, once, once + 1, SLOT_BYTES / element_bytes];
    if ranks > 3 { few } else { [&few[..], &more].concat() }
}

fn check<T: Summand + PartialEq + std::fmt::Debug>(
    ranks: &[usize],
    mut random: impl FnMut(usize) -> Vec<T>,
    plus: impl Fn(T, T) -> T,
) -> GpuResult<()>
where
    all_reduce<T>: cuda_std::launch::Instance,
{
    for &count in ranks.iter().filter(|count| are_at_once(**count)) {
        let ranks = Ranks::new(count)?;
        for n in lengths(size_of::<T>(), count) {
            let inputs: Vec<Vec<T>> = (0..count).map(|_| random(n)).collect();
            let expected = reference::all_reduce::all_reduce(&inputs, &plus);
            let (from, mut to) =
                (ranks.upload(&inputs, 0)?, ranks.upload(&vec![random(n); count], 0)?);
            ranks.sum(Some(&from), &mut to, 0)?;
            for to in &to {
                assert!(to.to_vec()? == expected, "{count} ranks, {n} elements");
            }
        }
    }
    Ok(())
}

/// Whether the device runs the kernels of so many ranks at once, one block on each multiprocessor. Blocks of the emulator always
/// take turns.
fn are_at_once(ranks: usize) -> bool {
    let blocks = ranks as u32 * BLOCKS;
    gpu().backend() == Backend::Emulator || blocks <= gpu().info().multiprocessors
}

/// Whole numbers: halves add them up exactly.
fn small(rng: &mut StdRng, n: usize) -> Vec<bf16> {
    (0..n).map(|_| bf16::from_f32(rng.random_range(-8..8) as f32)).collect()
}

#[test]
fn every_size_and_number_of_ranks() -> GpuResult<()> {
    let mut rng = rng();
    check(&[1, 2, 3, 7, 8], |n| floats(&mut rng, n), |a, b| a + b)
}

#[test]
fn every_type() -> GpuResult<()> {
    let mut rng = rng();
    check(&[5], |n| (0..n).map(|_| rng.random::<i32>()).collect(), i32::wrapping_add)?;
    check(&[4], |n| (0..n).map(|_| rng.random::<u64>()).collect(), u64::wrapping_add)?;
    check(&[4], |n| (0..n).map(|_| rng.random_range(-1.0..1.0)).collect(), |a: f64, b| a + b)?;
    check(&[4], |n| small(&mut rng, n), |a, b| bf16::from_f32(a.to_f32() + b.to_f32()))
}

/// Slots are used again, by messages of other lengths; ranks run ahead of each other. In place, and not aligned.
#[test]
fn many_calls_one_after_the_other() -> GpuResult<()> {
    let mut rng = rng();
    let (count, skip) = (3, 1);
    let ranks = Ranks::new(count)?;
    for n in [ONCE_BYTES / 4 + 5, 3, 70_001, 0, 1, 257] {
        let inputs: Vec<Vec<f32>> = (0..count).map(|_| floats(&mut rng, n)).collect();
        let mut values = ranks.upload(&inputs, skip)?;
        let mut expected = inputs;
        for _ in 0..4 {
            ranks.sum(None, &mut values, skip)?;
            expected = vec![reference::all_reduce::all_reduce(&expected, |a, b| a + b); count];
        }
        for (values, expected) in values.iter().zip(&expected) {
            let found = values.to_vec()?;
            assert!(found[skip..] == expected[..], "{n} elements");
            assert_eq!(found[0], 0.0, "what is no part of the message stays");
        }
    }
    Ok(())
}

#[test]
fn a_message_larger_than_a_slot_is_a_panic() -> GpuResult<()> {
    let ranks = Ranks::new(1)?;
    let mut values = ranks.upload(&[vec![0u64; SLOT_BYTES / 8 + 1]], 0)?;
    ranks.sum(None, &mut values, 0)?;
    let error = values[0].to_vec().unwrap_err();
    let panic = error.panic().unwrap_or_else(|| panic!("another error: {error}"));
    assert!(panic.message.contains("larger than a slot"), "{panic}");
    Ok(())
}
