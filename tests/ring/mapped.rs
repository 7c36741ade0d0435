//! Mapped memory, in the order of streams and without any.

use std::sync::atomic::Ordering::{Acquire, Release};

use cuda_driver::injection;
use ferrowarp::{
    Bridge, GpuResult, Grid1, LaunchConfig, MappedAtomics, MappedBox, MappedBuffer, Ring, ops,
};
use kernels_gpu::elementwise::saxpy;
use kernels_gpu::histogram::histogram;
use kernels_gpu::persistent::{answer_words, ring_echo};

use super::support::gpu;

#[test]
fn kernels_read_and_write_the_hosts_memory() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for n in [0usize, 1, 33, 1000, 70_001] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut on_x = MappedBuffer::<f32>::zeroed(&gpu, n)?;
        let mut on_y = MappedBuffer::from_slice(&gpu, &vec![1.0f32; n])?;
        on_x.as_mut_slice()?.copy_from_slice(&x);
        ops::saxpy(&gpu, 2.0, &on_x, &mut on_y)?;
        let expected: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
        assert_eq!(on_y.as_slice()?, expected);
        // Again, with what the host has written in between, and on another stream.
        on_y.as_mut_slice()?.fill(-1.0);
        let stream = gpu.create_stream()?;
        saxpy::launch(&stream, LaunchConfig::for_num_elems(n), 2.0, &on_x, &mut on_y)?;
        let expected: Vec<f32> = x.iter().map(|x| 2.0 * x - 1.0).collect();
        assert_eq!(on_y.as_slice()?, expected);
        assert_eq!((on_y.len(), on_y.is_empty()), (n, n == 0));
        assert!(on_y.as_device_slice().to_vec()? == expected, "a copy reads it too");
    }
    Ok(())
}

#[test]
fn a_box_is_one_value() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let mut value = MappedBox::new(&gpu, &3.0f32)?;
    let x = MappedBox::new(&gpu, &5.0f32)?;
    saxpy::launch(&gpu, LaunchConfig::for_num_elems(1), 2.0, &x, &mut value)?;
    assert_eq!(*value.get()?, 13.0);
    *value.get_mut()? = 1.0;
    saxpy::launch(&gpu, LaunchConfig::for_num_elems(1), 1.0, &x, &mut value)?;
    assert_eq!(*value.get()?, 6.0);
    Ok(())
}

#[test]
fn host_and_kernel_talk_by_words_while_it_runs() -> GpuResult<()> {
    const WORDS: usize = 37;
    const ROUNDS: u32 = 50;
    let (gpu, _turn) = gpu();
    let questions = MappedAtomics::<u32>::zeroed(&gpu, WORDS)?;
    let answers = MappedAtomics::<u32>::zeroed(&gpu, WORDS)?;
    let config = LaunchConfig::for_num_elems(WORDS);
    answer_words::launch(&gpu, config, ROUNDS, &questions, &answers)?;
    for round in 1..=ROUNDS {
        for (i, question) in questions.iter().enumerate() {
            question.store(round * 100 + i as u32, Release);
        }
        for (i, answer) in answers.iter().enumerate() {
            let asked = round * 100 + i as u32;
            while answer.load(Acquire) != asked * asked {
                std::thread::yield_now();
            }
            assert_eq!(questions[i].load(Acquire), 0, "it was emptied before the answer");
        }
    }
    gpu.synchronize()
}

#[test]
fn words_are_shared_by_kernels_that_run_at_once() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let questions = [MappedAtomics::<u32>::zeroed(&gpu, 1)?, MappedAtomics::zeroed(&gpu, 1)?];
    let answers = MappedAtomics::<u32>::zeroed(&gpu, 1)?;
    let streams = [gpu.create_stream()?, gpu.create_stream()?];
    for (stream, questions) in streams.iter().zip(&questions) {
        answer_words::launch(stream, LaunchConfig::for_num_elems(1), 1, questions, &answers)?;
    }
    // Were the second kernel ordered behind the first, which has the same answers, it would not answer
    // before that has ended.
    for (which, asked) in [(1, 4), (0, 5)] {
        questions[which][0].store(asked, Release);
        while answers[0].load(Acquire) != asked * asked {
            std::thread::yield_now();
        }
    }
    streams.iter().try_for_each(|stream| stream.synchronize())?;
    assert_eq!(MappedAtomics::<i64>::zeroed(&gpu, 0)?.len(), 0);
    Ok(())
}

/// Each launch leaves an event behind it, until it has passed.
#[test]
fn many_launches_leave_few_events() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let questions = MappedAtomics::<u32>::zeroed(&gpu, 1)?;
    let answers = MappedAtomics::<u32>::zeroed(&gpu, 1)?;
    let before = injection::live().events;
    for _ in 0..300 {
        answer_words::launch(&gpu, LaunchConfig::for_num_elems(1), 0, &questions, &answers)?;
        gpu.stream().synchronize()?;
    }
    // Of a GPU nobody knows how many there are.
    let left = injection::live().events - before;
    assert!(left < 70, "{left} events after 600 uses");
    let (sender, requests) = Ring::to_device(&gpu, 4, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(&gpu, 4)?;
    drop(sender);
    for _ in 0..150 {
        ring_echo::<1>::launch(&gpu, Grid1::new(1), &requests, &replies)?;
        gpu.stream().synchronize()?;
    }
    assert_eq!(receiver.try_recv(), None);
    let left = injection::live().events - before;
    assert!(left < 150, "{left} events after 300 uses of rings");
    Ok(())
}

#[test]
fn words_end_after_the_kernels_that_have_them() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let questions = MappedAtomics::<u32>::zeroed(&gpu, 1)?;
    let answers = MappedAtomics::<u32>::zeroed(&gpu, 1)?;
    answer_words::launch(&gpu, LaunchConfig::for_num_elems(1), 3, &questions, &answers)?;
    let asking = std::thread::scope(|scope| {
        let answering = scope.spawn(move || drop(answers));
        for asked in [1, 2, 3] {
            assert!(!answering.is_finished(), "the words ended under the kernel");
            while questions[0].load(Acquire) != 0 {
                std::thread::yield_now();
            }
            questions[0].store(asked, Release);
        }
        answering.join()
    });
    asking.expect("no panic");
    gpu.synchronize()
}

#[test]
fn mapped_memory_serves_atomic_kernels_in_stream_order() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let pixels: Vec<u8> = (0..10_000u32).map(|i| (i % 7) as u8).collect();
    let on_pixels = MappedBuffer::from_slice(&gpu, &pixels)?;
    let mut bins = MappedBuffer::<u32>::zeroed(&gpu, 256)?;
    histogram::launch(&gpu, Grid1::new(4), &on_pixels, &mut bins)?;
    let expected = reference::histogram::histogram(&pixels);
    assert!(bins.as_slice()?.iter().map(|count| u64::from(*count)).eq(expected));
    Ok(())
}
