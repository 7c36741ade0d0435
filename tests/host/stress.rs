//! Four threads share a device, and do a bit of everything.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferrowarp::memory::resource::{MemoryPool, StatisticsAdaptor, StreamOrderedMemory};
use ferrowarp::{DeviceBox, DeviceBuffer, GpuResult, Stream, UnifiedBuffer};

use crate::kernels::{add, churn, churned, fill, gpu};

const THREADS: u32 = 4;

/// What the threads share.
struct Shared {
    pool: Arc<StatisticsAdaptor<MemoryPool>>,
    ordered: Arc<StreamOrderedMemory>,
    sevens: DeviceBuffer<u32>,
    one: DeviceBox<u32>,
    stream: Stream,
}

/// Numbers without order, the same for each thread in each run.
struct Dice(u32);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = churned(self.0, 1);
        (self.0 >> 16) as usize % limit
    }
}

/// One piece of work, whose result is checked.
fn work(shared: &Shared, own: &Stream, dice: &mut Dice, value: u32) -> GpuResult<()> {
    let len = 1 + dice.below(700);
    let mut words = match dice.below(4) {
        0 => DeviceBuffer::zeroed(own, len)?,
        1 => DeviceBuffer::zeroed_async(own, len)?,
        2 => DeviceBuffer::zeroed_in(&shared.ordered, &shared.stream, len)?,
        _ => DeviceBuffer::zeroed_in(&shared.pool, own, len)?,
    };
    let stream = [own, &shared.stream, gpu().stream()][dice.below(3)];
    match dice.below(5) {
        0 => {
            words.copy_from_host(&vec![value; len])?;
            churn(stream, &mut words, 50)?;
            assert_eq!(words.to_vec()?, vec![churned(value, 50); len]);
        }
        1 => {
            add(stream, &shared.one, &shared.sevens.slice(..len), &mut words)?;
            assert_eq!(words.to_vec()?, vec![8; len]);
        }
        2 => {
            let mut unified = UnifiedBuffer::from_slice(stream, &vec![value; len])?;
            churn(own, &mut unified, 20)?;
            words.as_mut_slice().copy_from_device(unified.as_device_slice())?;
            assert_eq!(unified.as_slice()?, vec![churned(value, 20); len]);
            drop(unified);
            assert_eq!(words.to_vec()?, vec![churned(value, 20); len]);
        }
        3 => {
            let event = stream.record_event()?;
            own.wait_event(&event)?;
            let mut other = DeviceBuffer::zeroed_in(&shared.pool, stream, len)?;
            fill(stream, &mut words, value)?;
            other.copy_from_device(&words)?;
            // Gone while both streams are at work on it.
            drop(words);
            assert_eq!(other.to_vec()?, vec![value; len]);
        }
        _ => {
            fill(stream, &mut words.slice_mut(..len.div_ceil(2)), value)?;
            gpu().synchronize()?;
            assert_eq!(words.to_vec()?.iter().filter(|word| **word == 0).count(), len / 2);
        }
    }
    Ok(())
}

fn thread_of(shared: &Shared, number: u32, more: impl Fn(u32) -> bool) -> GpuResult<u32> {
    let (mut own, mut dice) = (gpu().create_stream()?, Dice(number));
    let mut rounds = 0;
    while more(rounds) {
        rounds += 1;
        work(shared, &own, &mut dice, 1000 * number + rounds)?;
        if rounds % 16 == 0 {
            own = gpu().create_stream()?;
        }
    }
    Ok(rounds)
}

fn four_threads(more: impl Fn(u32) -> bool + Sync) -> GpuResult<()> {
    let shared = Shared {
        pool: StatisticsAdaptor::new(MemoryPool::new(gpu())),
        ordered: StreamOrderedMemory::new(gpu(), u64::MAX)?,
        sevens: DeviceBuffer::from_slice(gpu(), &[7; 700])?,
        one: DeviceBox::new(gpu(), &1)?,
        stream: gpu().create_stream()?,
    };
    let rounds = thread::scope(|scope| {
        let (shared, more) = (&shared, &more);
        let start = |number| scope.spawn(move || thread_of(shared, number, more));
        let threads: Vec<_> = (1..=THREADS).map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.sum::<GpuResult<u32>>()
    })?;
    gpu().synchronize()?;
    println!("{rounds} pieces of work, {:?}", shared.pool.statistics());
    assert_eq!(shared.pool.statistics().current_bytes, 0);
    assert_eq!(shared.ordered.usage()?.used_bytes, 0);
    Ok(())
}

#[test]
fn four_threads_share_a_device() -> GpuResult<()> {
    four_threads(|rounds| rounds < 40)
}

#[test]
#[ignore = "as the one above, for a minute"]
fn four_threads_share_a_device_for_a_minute() -> GpuResult<()> {
    let start = Instant::now();
    four_threads(|_| start.elapsed() < Duration::from_secs(60))
}
