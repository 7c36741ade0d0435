//! Ranks that are all in this process, on one device: what is enqueued for one waits for what is enqueued for another.
//!
//! Exchanges have a stream for each pair of ranks and more, and are tested so on the emulator alone. A GPU has eight queues for all streams of a process, unless
//! `CUDA_DEVICE_MAX_CONNECTIONS` says otherwise; with more streams one may wait for what is behind it in its queue, and on an H200 these tests did not end. Ranks in
//! processes of their own, as in `tests/ops.rs`, have a GPU each.

use std::sync::atomic::Ordering;

use ferrowarp::{Backend, DeviceBuffer};

use super::*;
use crate::element::{ElementKind, Reduction};
use crate::error::DistResult;
use crate::transport::Primitive;

/// The emulated device, for exchanges; `None` where a GPU was chosen.
pub(crate) fn emulated() -> DistResult<Option<Gpu>> {
    let gpu = Gpu::new()?;
    Ok(Some(gpu).filter(|gpu| gpu.backend() == Backend::Emulator))
}

/// The memory of each of some ranks.
pub(crate) fn ranks(gpu: &Gpu, count: usize) -> DistResult<Vec<PeerMemory>> {
    // Smaller slots than of ranks in processes: as many chunks of fewer bytes.
    with_slots(gpu, count, 8 << 20)
}

fn with_slots(gpu: &Gpu, count: usize, slot_bytes: usize) -> DistResult<Vec<PeerMemory>> {
    let memory = memory_bytes(count, slot_bytes);
    let all = Mapping::of_one_process(gpu, count, memory).into_iter().enumerate();
    all.map(|(rank, mapping)| {
        Ok(PeerMemory {
            rank,
            ranks: count,
            slot_bytes,
            gpu: gpu.clone(),
            given_up: Arc::new(MappedAtomics::zeroed(gpu, 1)?),
            kernels: Kernels::load(gpu)?,
            calls: Mutex::default(),
            lanes: Mutex::new(Lanes::new(gpu, rank, count)?),
            rooms: Mutex::new(Rooms::new(gpu, rank, None)),
            mapping,
        })
    })
    .collect()
}

/// Bytes that differ from one message, and from one place, to another.
fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16) ^ (seed * 37)) as u8).collect()
}

#[test]
fn messages_of_many_chunks_come_whole_and_in_order() -> DistResult<()> {
    let Some(gpu) = emulated()? else { return Ok(()) };
    let all = ranks(&gpu, 3)?;
    let slot = all[0].slot_bytes();
    // More chunks than slots; less than one; two messages from one rank to the same other one, which end at odd bytes.
    let messages = [
        (0, 1, 5 * slot + 13),
        (1, 0, 17),
        (2, 0, slot),
        (0, 1, 2 * slot + 1),
        (0, 2, 1),
        (1, 2, 3 * slot),
    ];
    let streams: Vec<_> = all.iter().map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
    let sources = messages
        .iter()
        .enumerate()
        .map(|(seed, &(from, _, len))| DeviceBuffer::from_slice(&streams[from], &bytes(seed, len)));
    let sources: Vec<_> = sources.collect::<Result<_, _>>()?;
    for _ in 0..2 {
        let targets =
            messages.iter().map(|&(_, to, len)| DeviceBuffer::<u8>::zeroed(&streams[to], len));
        let targets: Vec<_> = targets.collect::<Result<_, _>>()?;
        gpu.synchronize()?;
        for (rank, own) in all.iter().enumerate() {
            let numbered = || messages.iter().enumerate();
            let sent = numbered().filter(|(_, message)| message.0 == rank).map(|(i, message)| {
                let address = sources[i].as_device_ptr().address();
                (message.1 as u32, Rows::of_bytes(address, message.2))
            });
            let received = numbered().filter(|(_, message)| message.1 == rank);
            let received = received.map(|(i, &(from, _, len))| {
                Landing::of_bytes(from as u32, targets[i].as_device_ptr().address(), len)
            });
            let (sent, received): (Vec<_>, Vec<_>) = (sent.collect(), received.collect());
            // SAFETY: the buffers are there, and nothing else uses them before the device is waited for.
            unsafe { own.exchange(&streams[rank], (&sent, &received), CHUNKS, || Ok(())) }?;
        }
        streams.iter().try_for_each(Stream::synchronize)?;
        for (seed, (target, (_, _, len))) in targets.iter().zip(messages).enumerate() {
            assert!(target.to_vec()? == bytes(seed, len), "message {seed} of {len} bytes");
        }
    }
    Ok(())
}

/// By the copy engine, and, where rows are whole vectors, by a kernel; also in more chunks than there are slots, five times in succession.
#[test]
fn rows_come_without_their_gaps() -> DistResult<()> {
    let Some(gpu) = emulated()? else { return Ok(()) };
    let all = with_slots(&gpu, 2, 1 << 16)?;
    let streams = [gpu.create_stream()?, gpu.create_stream()?];
    // 11, 23 and 31 chunks of the slots' 128 rows, and a single one.
    for (row_bytes, pitch_bytes, rows) in
        [(301, 400, 1300), (304, 400, 1300), (304, 400, 2900), (304, 400, 3900), (16, 4000, 99)]
    {
        let values = [0, 1].map(|seed| bytes(seed, pitch_bytes * rows));
        let buffer = |rank: usize, values: &[u8]| DeviceBuffer::from_slice(&streams[rank], values);
        let sources = [buffer(0, &values[0])?, buffer(1, &values[1])?];
        let none = vec![0; row_bytes * rows];
        let targets = [buffer(0, &none)?, buffer(1, &none)?];
        gpu.synchronize()?;
        for _ in 0..5 {
            for (rank, own) in all.iter().enumerate() {
                let address = sources[rank].as_device_ptr().address();
                let sent = [(1 - rank as u32, Rows { address, row_bytes, pitch_bytes, rows })];
                let to = targets[rank].as_device_ptr().address();
                let landing = Landing::of_bytes(1 - rank as u32, to, row_bytes * rows);
                let by_row = Landing {
                    from: landing.from,
                    row_bytes,
                    rows,
                    land: Box::new(|on, at, part| {
                        (landing.land)(on, at, part.start * row_bytes..part.end * row_bytes)
                    }),
                };
                // SAFETY: the buffers are there, and nothing else uses them before the device is waited for.
                unsafe { own.exchange(&streams[rank], (&sent, &[by_row]), CHUNKS, || Ok(())) }?;
            }
        }
        streams.iter().try_for_each(Stream::synchronize)?;
        for (target, values) in targets.iter().zip(values.iter().rev()) {
            let expected = values.chunks(pitch_bytes).flat_map(|row| &row[..row_bytes]);
            assert!(target.to_vec()?.iter().eq(expected), "rows of {row_bytes} bytes");
        }
    }
    Ok(())
}

/// More rounds than slots, of which some have nothing, to places of which the others know; then a message through staging.
#[test]
fn what_goes_to_rooms_is_there_when_its_round_has_come() -> DistResult<()> {
    const ROUNDS: usize = 11;
    let Some(gpu) = emulated()? else { return Ok(()) };
    for count in [2, 3] {
        let all = ranks(&gpu, count)?;
        let streams: Vec<_> = all.iter().map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
        let len = |from: usize, to: usize, round: usize| (from + 7 * to + 5 * round) % 4 * 1001;
        let longest = 3 * 1001;
        let place = |from: usize, round: usize| (from * ROUNDS + round) * longest;
        let total = count * ROUNDS * longest;
        let buffers = |seed: usize| -> DistResult<Vec<_>> {
            let of_rank = |(rank, on)| match seed {
                0 => DeviceBuffer::<u8>::zeroed(on, total),
                _ => DeviceBuffer::from_slice(on, &bytes(seed + rank, total)),
            };
            Ok(streams.iter().enumerate().map(of_rank).collect::<Result<_, _>>()?)
        };
        let (sources, targets) = (buffers(1)?, buffers(0)?);
        gpu.synchronize()?;
        let address = |buffer: &DeviceBuffer<u8>| buffer.as_device_ptr().address();
        for call in 0..2 {
            let mut arrived = Vec::new();
            for (rank, own) in all.iter().enumerate() {
                let all = |link: &mut Puts<'_>| {
                    let rounds = (0..ROUNDS).map(|round| {
                        for to in link.behind() {
                            let at = (call * ROUNDS + round) * 64;
                            let put = Put {
                                from: address(&sources[rank]) + at as u64,
                                to: address(&targets[to]) + place(rank, round) as u64,
                                bytes: len(rank, to, round),
                            };
                            link.send(to, &[], &[put])?;
                        }
                        link.before().map(|from| link.receive(from)).collect()
                    });
                    rounds.collect::<DistResult<Vec<Vec<_>>>>()
                };
                // SAFETY: the buffers are there; nothing else uses them before the events.
                arrived.push(unsafe { own.put(&streams[rank], all) }?);
            }
            for (to, rounds) in arrived.iter().enumerate() {
                assert_eq!(rounds.len(), ROUNDS);
                for event in rounds.iter().flatten() {
                    event.synchronize()?;
                }
                streams[to].synchronize()?;
                let found = targets[to].to_vec()?;
                for (from, round) in (0..count).flat_map(|from| (0..ROUNDS).map(move |r| (from, r)))
                {
                    let (begin, at) = (place(from, round), (call * ROUNDS + round) * 64);
                    let len = if from == to { 0 } else { len(from, to, round) };
                    let expected = &bytes(1 + from, total)[at..at + len];
                    assert!(
                        found[begin..begin + len] == *expected,
                        "{from} to {to}, round {round}"
                    );
                }
            }
        }
        for (rank, own) in all.iter().enumerate() {
            let (next, before) = ((rank + 1) % count, (rank + count - 1) % count);
            let sent = [(next as u32, Rows::of_bytes(address(&sources[rank]), total))];
            let landing = Landing::of_bytes(before as u32, address(&targets[rank]), total);
            // SAFETY: as above.
            unsafe { own.exchange(&streams[rank], (&sent, &[landing]), CHUNKS, || Ok(())) }?;
        }
        streams.iter().try_for_each(Stream::synchronize)?;
        for (rank, target) in targets.iter().enumerate() {
            assert!(
                target.to_vec()? == bytes(1 + (rank + count - 1) % count, total),
                "rank {rank}"
            );
        }
    }
    Ok(())
}

/// Sums on two streams of each rank by turns, in place: each needs the one before.
#[test]
fn sums_on_several_streams_are_in_order() -> DistResult<()> {
    const CALLS: usize = 6;
    let gpu = Gpu::new()?;
    let all = ranks(&gpu, 2)?;
    let len = 300;
    let mut values = Vec::new();
    for _ in &all {
        values.push(DeviceBuffer::from_slice(&gpu, &vec![1u32; len])?);
    }
    gpu.synchronize()?;
    let streams: Vec<_> = (0..4).map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
    for call in 0..CALLS {
        for (rank, own) in all.iter().enumerate() {
            let at = values[rank].as_device_ptr().address();
            let (kind, reduction) = (ElementKind::U32, Reduction::Sum);
            let sum = [Primitive::AllReduce { from: at, to: at, len, kind, reduction }];
            let sum = own.sum(&sum).expect("it is small");
            // SAFETY: the values are there; calls of a rank are in order, by what is tested.
            assert!(unsafe { own.all_reduce(&streams[2 * rank + call % 2], sum) }?);
        }
        if gpu.backend() == Backend::Emulator {
            // Its race check does not see that what this call waits for orders the call after it, too.
            gpu.synchronize()?;
        }
    }
    gpu.synchronize()?;
    for values in &values {
        assert_eq!(values.to_vec()?, vec![1 << CALLS; len]);
    }
    Ok(())
}

#[test]
fn what_is_not_a_small_sum_is_left_to_the_backend() -> DistResult<()> {
    let gpu = Gpu::new()?;
    let all = ranks(&gpu, 2)?;
    let call =
        |len, kind, reduction| Primitive::AllReduce { from: 256, to: 256, len, kind, reduction };
    let takes = |primitives: &[Primitive]| all[0].sum(primitives).is_some();
    let (most, f32) = (MOST_SUMMED_BYTES / 4, ElementKind::F32);
    assert!(takes(&[call(1, f32, Reduction::Sum)]) && takes(&[call(most, f32, Reduction::Sum)]));
    assert!(!takes(&[call(most + 1, f32, Reduction::Sum)]));
    assert!(!takes(&[call(1, f32, Reduction::Max)]));
    assert!(!takes(&[call(1, ElementKind::I8, Reduction::Sum)]));
    assert!(!takes(&[call(1, f32, Reduction::Sum); 2]) && !takes(&[]));
    Ok(())
}

/// The word of the host ends the waits of a rank whose other one does not come, of sums and exchanges.
#[test]
fn what_is_given_up_ends() -> DistResult<()> {
    let gpu = Gpu::new()?;
    let all = ranks(&gpu, 2)?;
    let stream = gpu.create_stream()?;
    let values = DeviceBuffer::<u8>::zeroed(&gpu, 1000)?;
    gpu.synchronize()?;
    let landing = Landing::of_bytes(1, values.as_device_ptr().address(), 1000);
    // SAFETY: the values are there, and nothing else uses them.
    unsafe { all[0].exchange(&stream, (&[], &[landing]), CHUNKS, || Ok(())) }?;
    assert!(!stream.synchronize_timeout(Duration::from_millis(50))?, "it waits for the other rank");
    all[0].given_up[0].store(1, Ordering::Release);
    stream.synchronize()?;
    Ok(())
}
