//! What goes by the ranks' own memory, where they have it: sums of every length, and large messages. Over other backends the same
//! calls are made with the lengths that do not take long, and their results are the same.

use ferrowarp::{DeviceBuffer, Gpu};
use ferrowarp_dist::{Backend, Communicator, DistResult, Reduction};

pub fn check_all(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let is_fast = matches!(ranks.backend(), Backend::Nccl { .. });
    sums(ranks, gpu, is_fast)?;
    turns(ranks, gpu, if is_fast { 400 } else { 12 })?;
    messages(ranks, gpu, if is_fast { 20 << 20 } else { 1 << 10 })
}

/// Around an element, a line, a quad, 256 KiB, the end of lines between two ranks, and 8 MiB.
const LENS: [usize; 15] = [
    1,
    2,
    3,
    4,
    5,
    255,
    (256 << 10) / 4 - 1,
    (256 << 10) / 4,
    (256 << 10) / 4 + 1,
    (512 << 10) / 4,
    (512 << 10) / 4 + 1,
    1_000_003,
    (8 << 20) / 4 - 1,
    (8 << 20) / 4,
    (8 << 20) / 4 + 1,
];

/// The values of a rank: sums of them are not exact, so that their order shows.
fn value(rank: u32, index: usize) -> f32 {
    let mixed = (index as u32 + 1).wrapping_mul(2_654_435_761).wrapping_add(rank * 97_003);
    (mixed >> 8) as f32 / 1e5 - 80.0
}

/// Aligned and not, in place and not.
fn sums(ranks: &Communicator, gpu: &Gpu, all_lens: bool) -> DistResult<()> {
    let (rank, size) = (ranks.rank(), ranks.size());
    for len in LENS.into_iter().filter(|len| all_lens || *len < 1000) {
        let expected =
            |index| (1..size).fold(value(0, index), |sum, rank| sum + value(rank, index));
        for skip in [0, 1] {
            let own: Vec<f32> = (0..skip + len).map(|index| value(rank, index)).collect();
            let mut own = DeviceBuffer::from_slice(gpu, &own)?;
            let mut all = DeviceBuffer::from_slice(gpu, &vec![7f32; skip + len])?;
            ranks.all_reduce(
                gpu,
                &own.slice(skip..),
                &mut all.slice_mut(skip..),
                Reduction::Sum,
            )?;
            ranks.all_reduce_in_place(gpu, &mut own.slice_mut(skip..), Reduction::Sum)?;
            ranks.synchronize(gpu)?;
            let (own, all) = (own.to_vec()?, all.to_vec()?);
            assert!(own[skip..] == all[skip..], "{len} elements behind {skip}, in place");
            assert!(skip == 0 || (all[0], own[0]) == (7.0, value(rank, 0)), "what is before stays");
            let wrong = (skip..skip + len).filter(|index| {
                let (found, expected) = (all[*index], expected(*index));
                // NCCL and MPI have an order of their own. A sum of two has none.
                let exact = size == 2 || ranks.has_peer_memory() && len * 4 <= 8 << 20;
                if exact { found != expected } else { (found - expected).abs() > 1e-3 }
            });
            assert_eq!(wrong.count(), 0, "{len} elements behind {skip}");
        }
    }
    Ok(())
}

/// Many sums without a wait, by turns on two streams, of other lengths each time, with the greatest of all values, which NCCL finds,
/// in between: each call needs all before it.
fn turns(ranks: &Communicator, gpu: &Gpu, calls: usize) -> DistResult<()> {
    const LEN: usize = 300_000;
    let streams = [gpu.create_stream()?, gpu.create_stream()?];
    let start = |index: usize| index as u64 + 1;
    let values: Vec<u64> = (0..LEN).map(start).collect();
    let mut values = DeviceBuffer::from_slice(gpu, &values)?;
    let mut sums = vec![0u32; LEN];
    for call in 0..calls {
        let len = match call % 4 {
            0 => 1,
            1 => LEN,
            2 => 129,
            _ => 40_000,
        };
        let mut part = values.slice_mut(..len);
        ranks.all_reduce_in_place(&streams[call / 3 % 2], &mut part, Reduction::Sum)?;
        if call % 5 == 0 {
            // Of equal values it is that value.
            ranks.all_reduce_in_place(&streams[call % 2], &mut part, Reduction::Max)?;
        }
        sums[..len].iter_mut().for_each(|sum| *sum += 1);
    }
    streams.iter().try_for_each(|stream| ranks.synchronize(stream))?;
    let found = values.to_vec()?;
    let size = u64::from(ranks.size());
    let expected =
        |index: usize| (0..sums[index]).fold(start(index), |value, _| value.wrapping_mul(size));
    let wrong = found.iter().enumerate().filter(|(index, value)| **value != expected(*index));
    assert_eq!(wrong.count(), 0, "{calls} calls");
    Ok(())
}

/// Two large messages to each other rank and a small one, in one group, of lengths that depend on both ranks; two groups without a
/// wait, on two streams.
fn messages(ranks: &Communicator, gpu: &Gpu, most: usize) -> DistResult<()> {
    let (own, size) = (ranks.rank(), ranks.size());
    let len = |from: u32, to: u32, which: usize| match which {
        0 => most + (from * 7 + to) as usize,
        1 => 10 + from as usize,
        _ => most / 2 * 3 + (from + 3 * to) as usize,
    };
    let byte = |from: u32, to: u32, which: usize, index: usize| {
        (index ^ (index >> 9) ^ (from * 5 + to * 3) as usize ^ (which * 11)) as u8
    };
    let each = || (0..size).flat_map(|rank| (0..3).map(move |which| (rank, which)));
    let sources = each().map(|(to, which)| {
        let bytes = (0..len(own, to, which)).map(|index| byte(own, to, which, index));
        Ok((to, DeviceBuffer::from_slice(gpu, &bytes.collect::<Vec<u8>>())?))
    });
    let sources: Vec<_> = sources.collect::<DistResult<_>>()?;
    let mut all = Vec::new();
    let streams = [gpu.create_stream()?, gpu.create_stream()?];
    for stream in &streams {
        let targets =
            each().map(|(from, which)| Ok(DeviceBuffer::<u8>::zeroed(gpu, len(from, own, which))?));
        let mut targets: Vec<_> = targets.collect::<DistResult<_>>()?;
        let mut group = ranks.group();
        for (to, source) in &sources {
            group = group.send(source, *to)?;
        }
        for ((from, _), target) in each().zip(&mut targets) {
            group = group.receive(target, from)?;
        }
        group.enqueue(stream)?;
        all.push(targets);
    }
    streams.iter().try_for_each(|stream| ranks.synchronize(stream))?;
    for targets in &all {
        for ((from, which), target) in each().zip(targets) {
            let found = target.to_vec()?;
            let wrong = (0..found.len()).filter(|i| found[*i] != byte(from, own, which, *i));
            assert_eq!(wrong.count(), 0, "message {which} from {from}, {} bytes", found.len());
        }
    }
    Ok(())
}
