//! `all_reduce_lines` and `all_reduce` of several ranks on one device: each rank's kernels run on a stream of its own, all of them at
//! once.

use std::cell::Cell;

use bytemuck::Pod;
use cuda_std::half::bf16;
use cuda_std::launch::{Instance, LaunchConfig};
use ferrowarp::{Backend, DeviceBuffer, GpuResult, Grid1, Stream};
use kernels_gpu::peers::{
    Exchange, MAX_RANKS, Summand, all_reduce, all_reduce_lines, exchange_bytes, line_blocks,
    lines_bytes, pass, quad_blocks,
};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{floats, gpu, rng};

/// Larger than what goes in lines, so that there are messages of both kernels.
const SLOT_BYTES: usize = 2 << 20;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Lines,
    Quads,
}

/// The ranks: a stream, and exchange memory, of each.
struct Ranks {
    all: Vec<(Stream, DeviceBuffer<u8>)>,
    calls: Cell<u32>,
}

impl Ranks {
    fn new(count: usize) -> GpuResult<Self> {
        let rank = |_| {
            let stream = gpu().create_stream()?;
            let memory = DeviceBuffer::zeroed(&stream, exchange_bytes(SLOT_BYTES))?;
            Ok((stream, memory))
        };
        let all: Vec<(Stream, DeviceBuffer<u8>)> =
            (0..count).map(rank).collect::<GpuResult<_>>()?;
        all.iter().try_for_each(|(stream, _)| stream.synchronize())?;
        Ok(Self { all, calls: Cell::new(0) })
    }

    fn exchange(&self, rank: usize) -> Exchange {
        let mut memory = [0; MAX_RANKS];
        for (address, (_, own)) in memory.iter_mut().zip(&self.all) {
            *address = own.as_device_ptr().address();
        }
        let (rank, ranks, slot_bytes) = (rank as u32, self.all.len() as u32, SLOT_BYTES as u64);
        let call = self.calls.get();
        Exchange { memory, given_up: 0, slot_bytes, rank, ranks, call, padding: 0 }
    }

    /// Buffers of each rank, on its stream, with `skip` elements in front that are no part of the message.
    fn upload<T: Pod>(&self, all: &[Vec<T>], skip: usize) -> GpuResult<Vec<DeviceBuffer<T>>> {
        let padded = |values: &Vec<T>| [&vec![T::zeroed(); skip][..], values].concat();
        let streams = self.all.iter().map(|(stream, _)| stream);
        let buffers =
            streams.zip(all).map(|(on, values)| DeviceBuffer::from_slice(on, &padded(values)));
        buffers.collect()
    }

    /// Makes one call on all ranks; in place without `from`. The first `skip` elements are left out.
    fn sum<T: Summand>(
        &self,
        by: By,
        from: Option<&[DeviceBuffer<T>]>,
        to: &mut [DeviceBuffer<T>],
        skip: usize,
    ) -> GpuResult<()>
    where
        all_reduce<T>: Instance,
        all_reduce_lines<T>: Instance,
    {
        self.calls.set(self.calls.get() + 1);
        for (rank, to) in to.iter_mut().enumerate() {
            let stream = &self.all[rank].0;
            let whole = from.map(|from| &from[rank]).unwrap_or(&*to).len();
            let from = from.map(|from| from[rank].slice(skip..whole));
            let (mut part, exchange) = (to.slice_mut(skip..whole), self.exchange(rank));
            let none = DeviceBuffer::zeroed(stream, 0)?;
            let from = from.unwrap_or_else(|| none.slice(..));
            let bytes = (whole - skip) * size_of::<T>();
            // SAFETY: all ranks launch it with as many elements and one number, their kernels run at once, on a stream each, and
            // the memory is as large as they need.
            unsafe {
                match by {
                    By::Lines => {
                        let grid = Grid1::new(line_blocks(bytes));
                        all_reduce_lines::<T>::launch(stream, grid, exchange, &from, &mut part)?;
                    }
                    By::Quads => {
                        let grid = Grid1::new(quad_blocks(bytes));
                        all_reduce::<T>::launch(stream, grid, exchange, &from, &mut part)?;
                    }
                }
            };
        }
        Ok(())
    }
}

/// The kernels that take a message.
fn kernels(bytes: usize, ranks: usize) -> impl Iterator<Item = By> {
    let is_taken = move |by: &By| *by == By::Quads || bytes <= lines_bytes(ranks);
    [By::Lines, By::Quads].into_iter().filter(is_taken)
}

/// Lengths around a line, a quad, a block, the end of lines and the end of the slot, in elements of so many bytes; fewer for many
/// ranks.
fn lengths(element_bytes: usize, ranks: usize) -> Vec<usize> {
    let in_lines = lines_bytes(ranks) / element_bytes;
    let few = vec![1, 257, 4099];
    let more = [2, 3, 4, 5, 31, in_lines - 1, in_lines, in_lines + 1, SLOT_BYTES / element_bytes];
    if ranks > 3 { few } else { [&few[..], &more].concat() }
}

fn check<T: Summand + PartialEq + std::fmt::Debug>(
    ranks: &[usize],
    mut random: impl FnMut(usize) -> Vec<T>,
    plus: impl Fn(T, T) -> T,
) -> GpuResult<()>
where
    all_reduce<T>: Instance,
    all_reduce_lines<T>: Instance,
{
    for &count in ranks {
        let ranks = Ranks::new(count)?;
        for n in lengths(size_of::<T>(), count) {
            let bytes = n * size_of::<T>();
            for by in kernels(bytes, count).filter(|by| are_at_once(*by, bytes, count)) {
                let inputs: Vec<Vec<T>> = (0..count).map(|_| random(n)).collect();
                let expected = reference::all_reduce::all_reduce(&inputs, &plus);
                let (from, mut to) =
                    (ranks.upload(&inputs, 0)?, ranks.upload(&vec![random(n); count], 0)?);
                ranks.sum(by, Some(&from), &mut to, 0)?;
                for to in &to {
                    assert!(to.to_vec()? == expected, "{count} ranks, {n} elements by {by:?}");
                }
            }
        }
    }
    Ok(())
}

/// Whether the device runs the kernels of so many ranks at once, one block on each multiprocessor. Blocks of the emulator always
/// take turns.
fn are_at_once(by: By, bytes: usize, ranks: usize) -> bool {
    let of_rank = if by == By::Lines { line_blocks(bytes) } else { quad_blocks(bytes) };
    let blocks = ranks as u32 * of_rank;
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

/// Memory is used again, by messages of other lengths and by both kernels; ranks run ahead of each other. In place, and not aligned.
#[test]
fn many_calls_one_after_the_other() -> GpuResult<()> {
    let mut rng = rng();
    let skip = 1;
    for count in [2, 3] {
        let ranks = Ranks::new(count)?;
        for n in [100_005, 3, 70_001, 1, 257] {
            let inputs: Vec<Vec<f32>> = (0..count).map(|_| floats(&mut rng, n)).collect();
            let mut values = ranks.upload(&inputs, skip)?;
            let mut expected = inputs;
            let kernels: Vec<By> =
                kernels(4 * n, count).filter(|by| are_at_once(*by, 4 * n, count)).collect();
            for by in kernels.into_iter().cycle().take(4) {
                ranks.sum(by, None, &mut values, skip)?;
                expected = vec![reference::all_reduce::all_reduce(&expected, |a, b| a + b); count];
            }
            for (values, expected) in values.iter().zip(&expected) {
                let found = values.to_vec()?;
                assert!(found[skip..] == expected[..], "{count} ranks, {n} elements");
                assert_eq!(found[0], 0.0, "what is no part of the message stays");
            }
        }
    }
    Ok(())
}

/// A rank that does not come is given up by the word of the host, whichever kernel waits, and for whichever shot.
#[test]
fn a_wait_that_is_given_up_ends() -> GpuResult<()> {
    for by in [By::Lines, By::Quads] {
        let ranks = Ranks::new(3)?;
        let given_up = ferrowarp::MappedAtomics::<u32>::zeroed(gpu(), 1)?;
        let mut exchange = ranks.exchange(0);
        exchange.call = 1;
        exchange.given_up = cuda_std::launch::DeviceAtomics::raw_atomics(&given_up).address;
        let (stream, bytes) = (&ranks.all[0].0, 400);
        let none = DeviceBuffer::<f32>::zeroed(stream, 0)?;
        let mut values = DeviceBuffer::from_slice(stream, &[1f32; 100])?;
        // SAFETY: the other ranks launch nothing, and nothing is read of what this one gives up.
        unsafe {
            match by {
                By::Lines => {
                    let grid = Grid1::new(line_blocks(bytes));
                    all_reduce_lines::<f32>::launch(stream, grid, exchange, &none, &mut values)?;
                }
                By::Quads => {
                    let grid = Grid1::new(quad_blocks(bytes));
                    all_reduce::<f32>::launch(stream, grid, exchange, &none, &mut values)?;
                }
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!stream.is_idle()?, "{by:?} waits for the others");
        given_up[0].store(1, std::sync::atomic::Ordering::Release);
        stream.synchronize()?;
    }
    Ok(())
}

/// Flags order what is enqueued behind a wait after what is before the flag: two streams pass a number to and fro.
#[test]
fn flags_pass_between_streams() -> GpuResult<()> {
    const ROUNDS: u32 = 5;
    let streams = [gpu().create_stream()?, gpu().create_stream()?];
    let flags = DeviceBuffer::<u32>::zeroed(gpu(), 2)?;
    gpu().stream().synchronize()?;
    let flag = |which: usize| flags.as_device_ptr().address() + 4 * which as u64;
    for round in 1..=ROUNDS {
        let one = LaunchConfig::for_num_elems(1);
        // SAFETY: both flags are there, and atomic accesses alone reach them.
        unsafe {
            pass::launch(&streams[0], one, flag(0), round, flag(1), round, 0)?;
            pass::launch(&streams[1], one, 0, 0, flag(0), round, 0)?;
            pass::launch(&streams[1], one, flag(1), round, 0, 0, 0)?;
        }
    }
    streams.iter().try_for_each(Stream::synchronize)?;
    assert_eq!(flags.to_vec()?, [ROUNDS; 2]);
    Ok(())
}

#[test]
fn a_message_larger_than_a_slot_is_a_panic() -> GpuResult<()> {
    for (by, n) in [(By::Lines, lines_bytes(1) / 8 + 1), (By::Quads, SLOT_BYTES / 8 + 1)] {
        let ranks = Ranks::new(1)?;
        let mut values = ranks.upload(&[vec![0u64; n]], 0)?;
        ranks.sum(by, None, &mut values, 0)?;
        let error = values[0].to_vec().unwrap_err();
        let panic = error.panic().unwrap_or_else(|| panic!("another error: {error}"));
        assert!(panic.message.contains("the message is larger than"), "{panic}");
    }
    Ok(())
}
