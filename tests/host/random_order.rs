//! Random sequences of what can be done with pools, buffers and streams, against a plain model.
//!
//! The seed is printed where a sequence fails; `FERROWARP_SEED` takes it again.

use std::env;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ferrowarp::memory::resource::{MemoryPool, MemoryResource, StreamOrderedMemory};
use ferrowarp::{DeviceBox, DeviceBuffer, GpuResult, Stream};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::kernels::{add, churn, churned, fill, gpu};

const SLOTS: usize = 5;
const STREAMS: usize = 3;
/// Few sizes, so that blocks are used again.
const LENS: [usize; 4] = [0, 60, 100, 500];

/// One step. Slots hold buffers; streams are numbered.
#[derive(Clone, Copy, Debug)]
enum Step {
    Zeroed { slot: usize, source: usize, stream: usize, len: usize },
    From { slot: usize, source: usize, stream: usize, len: usize, value: u32 },
    Fill { slot: usize, stream: usize, value: u32 },
    Churn { slot: usize, stream: usize, rounds: u32 },
    Add { from: usize, to: usize, stream: usize },
    Copy { from: usize, to: usize },
    Read { slot: usize },
    Drop { slot: usize },
    Renew { stream: usize },
    Synchronize { stream: usize },
    Trim { source: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (slot, stream, source) = (0..SLOTS, 0..STREAMS, 0..4_usize);
    let len = prop::sample::select(&LENS[..]);
    let step = prop_oneof![
        2 => (slot.clone(), source.clone(), stream.clone(), len.clone())
            .prop_map(|(slot, source, stream, len)| Step::Zeroed { slot, source, stream, len }),
        3 => (slot.clone(), source.clone(), stream.clone(), len, any::<u32>()).prop_map(
            |(slot, source, stream, len, value)| Step::From { slot, source, stream, len, value }
        ),
        3 => (slot.clone(), stream.clone(), any::<u32>())
            .prop_map(|(slot, stream, value)| Step::Fill { slot, stream, value }),
        4 => (slot.clone(), stream.clone(), 1..2000_u32)
            .prop_map(|(slot, stream, rounds)| Step::Churn { slot, stream, rounds }),
        4 => (slot.clone(), slot.clone(), stream.clone())
            .prop_map(|(from, to, stream)| Step::Add { from, to, stream }),
        3 => (slot.clone(), slot.clone()).prop_map(|(from, to)| Step::Copy { from, to }),
        2 => slot.clone().prop_map(|slot| Step::Read { slot }),
        4 => slot.prop_map(|slot| Step::Drop { slot }),
        1 => stream.clone().prop_map(|stream| Step::Renew { stream }),
        1 => stream.prop_map(|stream| Step::Synchronize { stream }),
        1 => source.prop_map(|source| Step::Trim { source }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Buffers on the device, each with what it must hold.
struct World {
    streams: Vec<Stream>,
    slots: Vec<Option<(DeviceBuffer<u32>, Vec<u32>)>>,
    seven: DeviceBox<u32>,
    pool: Arc<MemoryPool>,
    pool_in_order: Arc<MemoryPool>,
    ordered: Arc<StreamOrderedMemory>,
}

impl World {
    fn new() -> GpuResult<Self> {
        let ordered = StreamOrderedMemory::new(gpu(), 1 << 20)?;
        Ok(Self {
            streams: (0..STREAMS).map(|_| gpu().create_stream()).collect::<GpuResult<_>>()?,
            slots: (0..SLOTS).map(|_| None).collect(),
            seven: DeviceBox::new(gpu(), &7)?,
            pool: MemoryPool::new(gpu()),
            pool_in_order: MemoryPool::with_upstream(gpu(), ordered.clone()),
            ordered,
        })
    }

    fn zeroed(&self, source: usize, stream: usize, len: usize) -> GpuResult<DeviceBuffer<u32>> {
        let stream = &self.streams[stream];
        match source {
            0 => DeviceBuffer::zeroed_async(stream, len),
            1 => DeviceBuffer::zeroed_in(&self.ordered, stream, len),
            2 => DeviceBuffer::zeroed_in(&self.pool_in_order, stream, len),
            _ => DeviceBuffer::zeroed_in(&self.pool, stream, len),
        }
    }

    /// Takes two slots apart, if both hold buffers of one length.
    fn pair(&mut self, from: usize, to: usize) -> Option<(Slot<'_>, Slot<'_>)> {
        let [from, to] = self.slots.get_disjoint_mut([from, to]).ok()?;
        let (from, to) = (from.as_mut()?, to.as_mut()?);
        (from.0.len() == to.0.len()).then_some((from, to))
    }

    fn step(&mut self, step: Step) -> GpuResult<()> {
        let streams = self.streams.clone();
        match step {
            Step::Zeroed { slot, source, stream, len } => {
                self.slots[slot] = Some((self.zeroed(source, stream, len)?, vec![0; len]));
            }
            Step::From { slot, source, stream, len, value } => {
                let values: Vec<u32> = (0..len as u32).map(|i| value.wrapping_add(i)).collect();
                let mut buffer = self.zeroed(source, stream, len)?;
                buffer.copy_from_host(&values)?;
                self.slots[slot] = Some((buffer, values));
            }
            Step::Fill { slot, stream, value } => {
                if let Some((buffer, values)) = &mut self.slots[slot] {
                    fill(&streams[stream], buffer, value)?;
                    values.fill(value);
                }
            }
            Step::Churn { slot, stream, rounds } => {
                if let Some((buffer, values)) = &mut self.slots[slot] {
                    churn(&streams[stream], buffer, rounds)?;
                    values.iter_mut().for_each(|value| *value = churned(*value, rounds));
                }
            }
            Step::Add { from, to, stream } => {
                let seven = std::mem::replace(&mut self.seven, DeviceBox::new(gpu(), &7)?);
                if let Some((from, to)) = self.pair(from, to) {
                    add(&streams[stream], &seven, &from.0, &mut to.0)?;
                    to.1 = from.1.iter().map(|value| value.wrapping_add(7)).collect();
                }
            }
            Step::Copy { from, to } => {
                if let Some((from, to)) = self.pair(from, to) {
                    to.0.copy_from_device(&from.0)?;
                    to.1.clone_from(&from.1);
                }
            }
            Step::Read { slot } => self.check(slot)?,
            Step::Drop { slot } => self.slots[slot] = None,
            Step::Renew { stream } => self.streams[stream] = gpu().create_stream()?,
            Step::Synchronize { stream } => streams[stream].synchronize()?,
            Step::Trim { source: 0 | 1 } => self.ordered.trim_to(0)?,
            Step::Trim { source: 2 } => self.pool_in_order.trim()?,
            Step::Trim { .. } => self.pool.trim()?,
        }
        Ok(())
    }

    fn check(&self, slot: usize) -> GpuResult<()> {
        if let Some((buffer, values)) = &self.slots[slot] {
            assert_eq!(&buffer.to_vec()?, values, "slot {slot}");
        }
        Ok(())
    }

    /// All that is left must be right, and nothing may be left behind it.
    fn end(mut self) -> GpuResult<()> {
        (0..SLOTS).try_for_each(|slot| self.check(slot))?;
        self.slots.clear();
        for pool in [&self.pool, &self.pool_in_order] {
            assert_eq!(pool.statistics().current_bytes, 0);
            pool.trim()?;
            assert_eq!(pool.statistics().kept_bytes, 0);
        }
        gpu().synchronize()?;
        assert_eq!(self.ordered.usage()?.used_bytes, 0);
        Ok(())
    }
}

type Slot<'a> = &'a mut (DeviceBuffer<u32>, Vec<u32>);

fn run(steps: &[Step]) -> GpuResult<()> {
    let mut world = World::new()?;
    steps.iter().try_for_each(|step| world.step(*step))?;
    world.end()
}

fn seed() -> u64 {
    let given = env::var("FERROWARP_SEED").ok().map(|text| text.parse().expect("a number"));
    let now =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    given.unwrap_or_else(now)
}

fn random_sequences(cases: u32) {
    let seed = seed();
    println!("FERROWARP_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new_with_rng(config, rng)
        .run(&steps(), |steps| run(&steps).map_err(|error| TestCaseError::fail(error.to_string())));
    result.unwrap_or_else(|failure| panic!("FERROWARP_SEED={seed}: {failure}"));
}

#[test]
fn random_sequences_do_what_their_model_does() {
    random_sequences(24);
}

#[test]
#[ignore = "as the one above, for minutes"]
fn many_random_sequences() {
    random_sequences(1000);
}
