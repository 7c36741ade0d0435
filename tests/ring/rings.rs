//! Messages arrive once, in order, whatever the ring.

use std::collections::HashMap;
use std::thread;

use bytemuck::Pod;
use ferrowarp::{Bridge, Gpu, GpuError, GpuResult, Grid1, PersistentKernel, Ring};
use kernels_gpu::persistent::ring::{SAXPY_LEN, SaxpyRequest, saxpy_reply};
use kernels_gpu::persistent::{ring_echo, ring_relay, ring_saxpy};

use super::support::{bare_gpu, bridges, exchange, gpu, many};

/// A message of `WORDS` words that can be told from its neighbours in each of them.
fn message<const WORDS: usize>(i: u32) -> [u32; WORDS] {
    std::array::from_fn(|word| i.wrapping_mul(64).wrapping_add(word as u32))
}

/// Sends messages through rings of those capacities, whose first position is `first`, and checks that
/// they come back once and in order.
fn echo<const WORDS: usize>(
    gpu: &Gpu,
    bridge: Bridge,
    capacities: [usize; 2],
    first: u64,
    count: u32,
) -> GpuResult<()>
where
    [u32; WORDS]: Pod,
    Echo<WORDS>: Start<WORDS>,
{
    let (sender, requests) = Ring::to_device_from(gpu, capacities[0], bridge, first)?;
    let (replies, receiver) = Ring::to_host_from(gpu, capacities[1], first)?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        Echo::<WORDS>::start(launcher, &requests, &replies)
    })?;
    let received = exchange(&sender, &receiver, count, message::<WORDS>)?;
    for (i, found) in received.iter().enumerate() {
        assert_eq!(*found, message::<WORDS>(i as u32), "{bridge:?}, {WORDS} words, message {i}");
    }
    let (out, back) = (sender.telemetry()?, receiver.telemetry()?);
    kernel.shut_down()?;
    assert_eq!(receiver.recv()?, None);
    let count = u64::from(count);
    assert_eq!([out.sent, out.received, back.sent, back.received], [count; 4]);
    assert!((1..=requests.capacity() as u64).contains(&out.high_water), "{out:?}");
    assert!((1..=replies.capacity() as u64).contains(&back.high_water), "{back:?}");
    Ok(())
}

/// The instances of the echo kernel by their numbers.
struct Echo<const WORDS: usize>;

trait Start<const WORDS: usize>
where
    [u32; WORDS]: Pod,
{
    fn start(
        launcher: &ferrowarp::ring::Launcher,
        requests: &Ring<[u32; WORDS], ferrowarp::ring::ToDevice>,
        replies: &Ring<[u32; WORDS], ferrowarp::ring::ToHost>,
    ) -> GpuResult<()>;
}

macro_rules! instances {
    ($($words:literal)*) => {$(
        impl Start<$words> for Echo<$words> {
            fn start(
                launcher: &ferrowarp::ring::Launcher,
                requests: &Ring<[u32; $words], ferrowarp::ring::ToDevice>,
                replies: &Ring<[u32; $words], ferrowarp::ring::ToHost>,
            ) -> GpuResult<()> {
                ring_echo::<$words>::launch(launcher, Grid1::new(1), requests, replies)
            }
        }
    )*};
}

instances!(1 16 64);

#[test]
fn every_bridge_carries_messages_of_every_size() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, many) in bridges(&gpu) {
        echo::<1>(&gpu, bridge, [256, 256], 0, many)?;
        echo::<16>(&gpu, bridge, [64, 128], 0, many / 4)?;
        echo::<64>(&gpu, bridge, [32, 16], 0, many / 10)?;
    }
    Ok(())
}

#[test]
fn a_ring_of_one_slot_and_ones_of_few() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, many) in bridges(&gpu) {
        for capacities in [[1, 1], [1, 64], [64, 1], [2, 4]] {
            echo::<1>(&gpu, bridge, capacities, 0, (many / 40).min(20_000))?;
        }
    }
    Ok(())
}

#[test]
fn counters_wrap_around() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, many) in bridges(&gpu) {
        for first in [u64::from(u32::MAX) - 50, u64::from(u32::MAX >> 1) - 50, (1 << 40) - 7] {
            echo::<1>(&gpu, bridge, [32, 8], first, (many / 20).clamp(110, 1000))?;
            echo::<1>(&gpu, bridge, [1, 1], first, 110)?;
        }
    }
    Ok(())
}

#[test]
fn four_threads_send_to_workers_of_several_blocks() -> GpuResult<()> {
    const THREADS: u64 = 4;
    let (gpu, _turn) = gpu();
    let each = u64::from(many(&gpu)) / 20;
    for (bridge, _) in bridges(&gpu).into_iter().filter(|(bridge, _)| *bridge != Bridge::Copied) {
        let (sender, requests) = Ring::to_device(&gpu, 64, bridge)?;
        let (replies, receiver) = Ring::to_host(&gpu, 64)?;
        let kernel = PersistentKernel::start(&gpu, |launcher| {
            ring_saxpy::launch(launcher, Grid1::new(2), &requests, &replies)
        })?;
        let request = |id: u64| SaxpyRequest {
            id,
            alpha: (id % 17) as f32,
            reserved: 0,
            x: [(id % 1001) as f32; SAXPY_LEN],
            y: std::array::from_fn(|i| i as f32),
        };
        let mut found = HashMap::new();
        thread::scope(|scope| {
            for own in 0..THREADS {
                let sender = sender.clone();
                scope.spawn(move || {
                    (own * each..(own + 1) * each)
                        .for_each(|id| sender.send(&request(id)).unwrap());
                });
            }
            for _ in 0..THREADS * each {
                let reply = receiver.recv()?.expect("the kernel ended too early");
                assert_eq!(reply, saxpy_reply(&request(reply.id)));
                *found.entry(reply.id).or_insert(0) += 1;
            }
            GpuResult::Ok(())
        })?;
        assert!((0..THREADS * each).all(|id| found.get(&id) == Some(&1)), "lost or doubled");
        kernel.shut_down()?;
        assert_eq!(receiver.try_recv(), None);
    }
    Ok(())
}

/// Each of `threads` threads sends `each` numbered messages, `run` at a time. All come back once, and each
/// thread's in their order.
fn numbered(
    gpu: &Gpu,
    bridge: Bridge,
    [capacity, run]: [usize; 2],
    [threads, each]: [u32; 2],
) -> GpuResult<()> {
    const THREAD_SHIFT: u32 = 28;
    let (sender, requests) = Ring::to_device(gpu, capacity, bridge)?;
    let (replies, receiver) = Ring::to_host(gpu, capacity)?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    let send = &|own: u32| {
        let messages: Vec<_> = (0..each).map(|i| [own << THREAD_SHIFT | i]).collect();
        messages.chunks(run).for_each(|messages| sender.send_all(messages).unwrap());
    };
    let mut next = vec![0u32; threads as usize];
    thread::scope(|scope| {
        for own in 0..threads {
            scope.spawn(move || send(own));
        }
        let (mut left, mut found) = (threads as usize * each as usize, vec![[0]; run]);
        while left > 0 {
            let count = receiver.recv_some(&mut found)?;
            assert!(count > 0, "the kernel ended too early");
            for [word] in &found[..count] {
                let own = (word >> THREAD_SHIFT) as usize;
                assert_eq!(word & ((1 << THREAD_SHIFT) - 1), next[own], "of thread {own}");
                next[own] += 1;
            }
            left -= count;
        }
        GpuResult::Ok(())
    })?;
    assert_eq!(next, vec![each; threads as usize]);
    assert_eq!(receiver.try_recv(), None);
    kernel.shut_down()
}

#[test]
fn four_threads_send_in_their_own_order() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, many) in bridges(&gpu) {
        let each = (many / 20).max(25);
        numbered(&gpu, bridge, [16, 1], [4, each])?;
        numbered(&gpu, bridge, [64, 24], [4, each])?;
    }
    Ok(())
}

#[test]
#[ignore = "ten million messages take a GPU seconds, and the emulator an hour"]
fn ten_million_messages_are_neither_lost_nor_doubled() -> GpuResult<()> {
    const MESSAGES: u32 = 10_000_000;
    let (gpu, _turn) = bare_gpu();
    for threads in [1, 4] {
        numbered(&gpu, Bridge::Mapped, [4096, 512], [threads, MESSAGES / threads])?;
    }
    Ok(())
}

#[test]
fn blocks_hand_messages_on_through_the_devices_memory() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (capacity, first) in [(1, 0), (8, u64::from(u32::MAX) - 3), (64, 5)] {
        let count = many(&gpu) / 10;
        let (sender, requests) = Ring::to_device(&gpu, 32, Bridge::Mapped)?;
        let between = Ring::on_device_from(&gpu, capacity, first)?;
        let (replies, receiver) = Ring::to_host(&gpu, 32)?;
        let kernel = PersistentKernel::start(&gpu, |launcher| {
            ring_relay::launch(launcher, Grid1::new(2), &requests, &between, &between, &replies)
        })?;
        let received = exchange(&sender, &receiver, count, |i| i)?;
        let expected: Vec<u32> = (0..count).map(|i| (i + 1).wrapping_mul(3)).collect();
        assert!(received == expected, "{capacity} slots from {first}");
        let telemetry = between.telemetry()?;
        assert_eq!((telemetry.sent, telemetry.received), (count.into(), count.into()));
        assert!((1..=capacity as u64).contains(&telemetry.high_water), "{telemetry:?}");
        kernel.shut_down()?;
    }
    Ok(())
}

#[test]
fn a_full_ring_holds_the_sender_back() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, requests) = Ring::to_device(&gpu, 4, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(&gpu, 2)?;
    let kernel = PersistentKernel::start(&gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    // Nobody receives: both rings fill up, and the warp holds at most 32 messages in its lanes.
    let (mut sent, mut refused) = (0, 0);
    while refused < 2000 {
        match sender.try_send(&[sent])? {
            true => (sent, refused) = (sent + 1, 0),
            false => {
                refused += 1;
                thread::sleep(std::time::Duration::from_micros(50));
            }
        }
    }
    assert!((4 + 2..=4 + 2 + 32).contains(&sent), "{sent} messages");
    assert_eq!(sender.telemetry()?.high_water, 4);
    for i in 0..sent {
        assert_eq!(receiver.recv()?, Some([i]));
    }
    assert_eq!(receiver.telemetry()?.high_water, 2);
    assert!(receiver.telemetry()?.full_waits > 0, "the kernel has waited");
    // And one that waits goes on when there is room.
    thread::scope(|scope| {
        let sending = scope.spawn(|| (0..100).try_for_each(|i| sender.send(&[i])));
        thread::sleep(std::time::Duration::from_millis(20));
        for i in 0..100 {
            assert_eq!(receiver.recv()?, Some([i]));
        }
        sending.join().expect("no panic")
    })?;
    assert!(sender.telemetry()?.full_waits > 0, "the host has waited");
    kernel.shut_down()
}

#[test]
fn an_empty_ring_holds_the_receiver_back() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, requests) = Ring::to_device(&gpu, 4, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(&gpu, 4)?;
    let kernel = PersistentKernel::start(&gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    let millisecond = std::time::Duration::from_millis(1);
    assert_eq!((receiver.try_recv(), receiver.recv_timeout(millisecond)?), (None, None));
    for i in 0..20 {
        thread::sleep(millisecond);
        sender.send(&[i])?;
        assert_eq!(receiver.recv_timeout(std::time::Duration::MAX)?, Some([i]));
    }
    let mut some = [[0]; 8];
    sender.send_all(&[[7], [8], [9]])?;
    let mut found = Vec::new();
    while found.len() < 3 {
        let count = receiver.recv_some(&mut some)?;
        found.extend_from_slice(&some[..count]);
    }
    assert_eq!(found, [[7], [8], [9]]);
    assert!(sender.telemetry()?.empty_waits > 0 && receiver.telemetry()?.empty_waits > 0);
    kernel.shut_down()
}

#[test]
fn rings_that_cannot_be_are_refused() {
    let (gpu, _turn) = gpu();
    for slots in [0, (1 << 30) + 1] {
        let refused = Ring::<u32, _>::to_device(&gpu, slots, Bridge::Mapped).unwrap_err();
        assert!(matches!(refused, GpuError::InvalidArgument { .. }), "{refused}");
    }
    assert!(Ring::<(), _>::to_host(&gpu, 4).is_err());
    let (ring, _receiver) = Ring::<u32, _>::to_host(&gpu, 5).unwrap();
    assert_eq!(ring.capacity(), 8);
}
