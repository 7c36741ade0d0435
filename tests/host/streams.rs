//! Streams, events, threads: whatever overlaps, the uses of a buffer stay in order.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ferrowarp::{DeviceBox, DeviceBuffer, Event, Gpu, GpuResult, Stream, UnifiedBuffer};

use crate::kernels::{IMAGES, add, churn, churned, fill, gpu};

const LEN: usize = 512;
/// Enough that a kernel still runs when the host queues the next ones.
const ROUNDS: u32 = 20_000;

#[test]
fn everything_may_go_to_another_thread() {
    fn shared<T: Send + Sync>() {}
    shared::<Gpu>();
    shared::<Stream>();
    shared::<Event>();
    shared::<DeviceBuffer<f32>>();
    shared::<UnifiedBuffer<f32>>();
}

#[test]
fn writes_on_other_streams_are_in_order() -> GpuResult<()> {
    let (a, b, c) = (gpu().create_stream()?, gpu().create_stream()?, gpu().create_stream()?);
    for i in 0..8 {
        let mut buffer = DeviceBuffer::from_slice(&a, &[i; LEN])?;
        churn(&b, &mut buffer, ROUNDS)?;
        churn(&c, &mut buffer, 3)?;
        churn(&a, &mut buffer, 5)?;
        churn(gpu(), &mut buffer, 1)?;
        assert_eq!(buffer.to_vec()?, [churned(i, ROUNDS + 9); LEN]);
    }
    Ok(())
}

#[test]
fn a_reader_on_one_stream_waits_for_the_writer_on_another() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let one = DeviceBox::new(&a, &1)?;
    for i in 0..8 {
        let mut source = DeviceBuffer::from_slice(&a, &[i; LEN])?;
        let mut target = DeviceBuffer::zeroed(&b, LEN)?;
        churn(&a, &mut source, ROUNDS)?;
        add(gpu(), &one, &source, &mut target)?;
        // The reader has not yet run; this must not overtake it.
        fill(&a, &mut source, 0)?;
        let sum = churned(i, ROUNDS).wrapping_add(1);
        assert_eq!(target.to_vec()?, [sum; LEN]);
    }
    Ok(())
}

#[test]
fn a_host_copy_waits_for_kernels_on_other_streams() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut buffer = DeviceBuffer::from_slice(&a, &[1u32; LEN])?;
    churn(&b, &mut buffer, ROUNDS)?;
    buffer.copy_from_host(&[2; LEN])?;
    assert_eq!(buffer.to_vec()?, [2; LEN]);
    let mut unified = UnifiedBuffer::from_slice(&a, &[1u32; LEN])?;
    churn(&b, &mut unified, ROUNDS)?;
    assert_eq!(unified.as_slice()?, [churned(1, ROUNDS); LEN]);
    churn(&b, &mut unified, ROUNDS)?;
    unified.as_mut_slice()?.fill(3);
    assert_eq!(unified.as_slice()?, [3; LEN]);
    Ok(())
}

#[test]
fn a_buffer_may_be_dropped_while_a_kernel_uses_it() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    for _ in 0..8 {
        let mut gone = DeviceBuffer::from_slice(&a, &[1u32; LEN])?;
        churn(&b, &mut gone, ROUNDS)?;
        drop(gone);
        // The same memory again, most likely.
        let next = DeviceBuffer::from_slice(gpu(), &[5u32; LEN])?;
        b.synchronize()?;
        assert_eq!(next.to_vec()?, [5; LEN]);
    }
    Ok(())
}

#[test]
fn a_stream_and_its_gpu_may_go_before_their_buffers() -> GpuResult<()> {
    let own = Gpu::with_images(IMAGES)?;
    let stream = own.create_stream()?;
    let mut buffer = DeviceBuffer::from_slice(&stream, &[1u32; LEN])?;
    churn(&stream, &mut buffer, ROUNDS)?;
    drop((stream, own));
    assert_eq!(buffer.to_vec()?, [churned(1, ROUNDS); LEN]);
    Ok(())
}

#[test]
fn events_pass_in_order_and_tell_time() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut buffer = DeviceBuffer::from_slice(&a, &[1u32; LEN])?;
    let start = a.record_event()?;
    churn(&a, &mut buffer, 2 * ROUNDS)?;
    let end = a.record_event()?;
    b.wait_event(&end)?;
    b.synchronize()?;
    assert!(start.is_complete()? && end.is_complete()? && a.is_idle()?);
    assert!(end.milliseconds_since(&start)? > 0.0);
    Ok(())
}

#[test]
fn times_are_from_mark_to_mark() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut buffer = DeviceBuffer::from_slice(&stream, &[1u32; LEN])?;
    let start = stream.record_event()?;
    churn(&stream, &mut buffer, ROUNDS)?;
    let middle = stream.record_event()?;
    churn(&stream, &mut buffer, ROUNDS)?;
    let end = stream.record_event()?;
    let (first, whole) = (middle.milliseconds_since(&start)?, end.milliseconds_since(&start)?);
    assert!(0.0 < first && first < whole, "{first} ms of {whole} ms");
    let ((), alone) = stream.time(|| churn(&stream, &mut buffer, ROUNDS))?;
    assert!(0.0 < alone, "{alone} ms");
    Ok(())
}

#[test]
fn threads_share_a_gpu() -> GpuResult<()> {
    let shared = DeviceBuffer::from_slice(gpu(), &[7u32; LEN])?;
    let one = DeviceBox::new(gpu(), &1)?;
    let work = |thread: u32| -> GpuResult<()> {
        let stream = gpu().create_stream()?;
        for i in 0..20 {
            let mut own = DeviceBuffer::from_slice(gpu(), &[thread; LEN])?;
            churn(&stream, &mut own, 100 + i)?;
            let mut sum = DeviceBuffer::zeroed(&stream, LEN)?;
            add(gpu(), &one, &shared, &mut sum)?;
            assert_eq!(own.to_vec()?, [churned(thread, 100 + i); LEN]);
            assert_eq!(sum.to_vec()?, [8; LEN]);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

#[test]
fn a_buffer_made_on_one_thread_ends_on_another() -> GpuResult<()> {
    let mut buffer =
        thread::spawn(|| DeviceBuffer::from_slice(gpu(), &[1u32; LEN])).join().unwrap()?;
    fill(gpu(), &mut buffer, 4)?;
    let values = thread::spawn(move || buffer.to_vec()).join().unwrap()?;
    assert_eq!(values, [4; LEN]);
    Ok(())
}

#[test]
fn memory_that_a_stream_adopts_is_in_order_before_and_afterwards() -> GpuResult<()> {
    let (home, stream) = (gpu().create_stream()?, gpu().create_stream()?);
    for i in 0..8 {
        let mut words = DeviceBuffer::from_slice(&home, &[i; LEN])?;
        churn(&home, &mut words, ROUNDS)?;
        let sum = stream.rehome(words.as_mut_slice(), |mut words| {
            churn(&stream, &mut words, 10)?;
            churn(gpu(), &mut words, 20)?;
            stream.rehome(words, |mut words| churn(&stream, &mut words, ROUNDS))?;
            Ok(30)
        })?;
        churn(&home, &mut words, 5)?;
        assert_eq!(words.to_vec()?, [churned(i, 2 * ROUNDS + sum + 5); LEN]);
    }
    Ok(())
}

/// Work on one part does not wait for another part's stream; what uses all of it waits for both.
#[test]
fn parts_that_streams_adopt_do_not_wait_for_each_other() -> GpuResult<()> {
    let (home, a, b) = (gpu().create_stream()?, gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    churn(&home, &mut words, ROUNDS)?;
    let (open, gate) = channel::<()>();
    let (low, high) = words.as_mut_slice().split_at_mut(LEN / 2);
    Stream::rehome_parts([(&a, low), (&b, high)], |mut parts| {
        drop(a.launch_host_func(move || gate.recv().is_ok())?);
        churn(&a, &mut parts[0], 1)?;
        churn(&b, &mut parts[1], 2)?;
        assert!(b.synchronize_timeout(Duration::from_secs(60))?, "it waits for the other stream");
        assert!(!a.is_idle()?);
        Ok(())
    })?;
    assert!(!home.is_idle()?, "the home does not wait");
    open.send(()).expect("the stream waits for it");
    let mut expected = vec![churned(3, ROUNDS + 1); LEN / 2];
    expected.extend(vec![churned(3, ROUNDS + 2); LEN / 2]);
    assert_eq!(words.to_vec()?, expected);
    Ok(())
}

/// What reads memory at home does not wait for what reads it on a stream that has adopted it, nor the other way; later writes wait for both.
#[test]
fn reads_that_a_stream_adopts_go_on_beside_those_at_home() -> GpuResult<()> {
    let (home, stream) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    churn(&home, &mut words, ROUNDS)?;
    let mut at_home = DeviceBuffer::<u32>::zeroed(&home, LEN)?;
    let mut adopted = DeviceBuffer::<u32>::zeroed(&stream, LEN)?;
    for waits in [&home, &stream] {
        let (open, gate) = channel::<()>();
        let other = if std::ptr::eq(waits, &home) { &stream } else { &home };
        stream.rehome_reads(words.as_slice(), |lent| {
            drop(waits.launch_host_func(move || gate.recv().is_ok())?);
            at_home.copy_from_device(&words)?;
            adopted.copy_from_device(lent)?;
            assert!(other.synchronize_timeout(Duration::from_secs(60))?, "it waits");
            assert!(!waits.is_idle()?);
            Ok(())
        })?;
        churn(&home, &mut words, 1)?;
        assert!(!home.is_idle()?, "the write does not wait");
        open.send(()).expect("the stream waits for it");
        let round = if std::ptr::eq(waits, &home) { ROUNDS } else { ROUNDS + 1 };
        assert_eq!(at_home.to_vec()?, [churned(3, round); LEN]);
        assert_eq!(adopted.to_vec()?, [churned(3, round); LEN]);
    }
    Ok(())
}

#[test]
fn parts_are_given_back_also_by_what_fails() -> GpuResult<()> {
    let (home, a, b) = (gpu().create_stream()?, gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    let (low, high) = words.as_mut_slice().split_at_mut(1);
    let failed: GpuResult<()> = Stream::rehome_parts([(&a, low), (&b, high)], |mut parts| {
        churn(&b, &mut parts[1], ROUNDS)?;
        parts[0].copy_from_host(&[])
    });
    assert!(failed.is_err());
    churn(&home, &mut words.slice_mut(1..), 1)?;
    assert_eq!(words.to_vec()?[1..], [churned(3, ROUNDS + 1); LEN - 1]);
    Ok(())
}

#[test]
fn memory_is_given_back_also_by_what_fails_and_panics() -> GpuResult<()> {
    let (home, stream) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    let failed: GpuResult<()> = stream.rehome(words.as_mut_slice(), |mut words| {
        churn(&stream, &mut words, ROUNDS)?;
        words.copy_from_host(&[])
    });
    assert!(failed.is_err());
    churn(&home, &mut words, 1)?;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.rehome(words.as_mut_slice(), |mut words| -> GpuResult<()> {
            churn(&stream, &mut words, ROUNDS)?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    churn(&home, &mut words, 1)?;
    assert_eq!(words.to_vec()?, [churned(3, 2 * ROUNDS + 2); LEN]);
    Ok(())
}
