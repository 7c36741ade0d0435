//! The memory of a ring, and the handle by which kernels get it.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use bytemuck::Pod;
use cuda_std::atomic::{Atomic, scope};
use cuda_std::launch::{DeviceConsumer, DeviceProducer, Home, RawRing};
use cuda_std::ring::{Control, ControlBlock, PositionBlock, Slots, Telemetry, Turn};

use super::bridge::{Bridge, Copier};
use super::receiver::Receiver;
use super::sender::Sender;
use super::wait::SharedStrategy;
use super::waiters::Waiters;
use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceBuffer, MemoryVisibility, check_alignment};
use crate::shared_memory::{Block, Closer, SharedLocation, SharedMemory};
use crate::stream::{AsStream, Stream};

/// The host sends and kernels receive.
#[derive(Clone, Copy, Debug)]
pub enum ToDevice {}
/// Kernels send and the host receives.
#[derive(Clone, Copy, Debug)]
pub enum ToHost {}
/// Kernels send and kernels receive.
#[derive(Clone, Copy, Debug)]
pub enum OnDevice {}

/// The most slots of a ring.
const MOST_SLOTS: usize = 1 << 30;

/// A ring of messages of type `T`, for the kernels at its device ends: an argument of a launch, as
/// often as one likes. `Way` is [`ToDevice`], [`ToHost`] or [`OnDevice`].
///
/// The memory lives as long as one of its handles, or a kernel that was given it. A kernel cannot be
/// given an end that the host has:
///
/// ```compile_fail,E0277
/// use ferrowarp::{Gpu, Grid1, Ring};
/// use kernels_gpu::persistent::ring_echo;
///
/// let gpu = Gpu::new()?;
/// let (replies, receiver) = Ring::<[u32; 1], _>::to_host(&gpu, 4)?;
/// // The kernel receives from its first ring, and this one is received from here.
/// ring_echo::<1>::launch(&gpu, Grid1::new(1), &replies, &replies)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct Ring<T: Pod, Way = OnDevice> {
    core: Arc<Core<T>>,
    way: PhantomData<fn() -> Way>,
}

/// What all handles of a ring share.
pub(super) struct Core<T: Pod> {
    pub(super) memory: Arc<SharedMemory>,
    control: NonNull<ControlBlock>,
    /// The slots as the host sees them: none on the device.
    pub(super) slots: Slots<'static, T>,
    /// The host's position; a ring on the device does not use it.
    pub(super) position: PositionBlock,
    pub(super) first: u64,
    pub(super) copier: Option<Copier>,
    /// How the host waits for the ring, and its futures that do.
    pub(super) strategy: SharedStrategy,
    pub(super) waiters: Waiters,
    consumer: Option<Parts>,
    producer: Option<Parts>,
}

/// The addresses of a side on the device.
#[derive(Clone)]
struct Parts {
    values: u64,
    arrived: u64,
    free: u64,
    own: Arc<DeviceBuffer<u64>>,
    other: u64,
    control: u64,
}

// SAFETY: the control block is reached by atomics alone; all else may be sent.
unsafe impl<T: Pod> Send for Core<T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for Core<T> {}

/// Memory of both sides or of the device, as a ring is put together.
struct Builder {
    side: Stream,
    capacity: usize,
    first: u64,
}

/// Zeroed or set memory with its addresses: on the host, 0 where it has none, and on the device.
struct Piece {
    host: usize,
    device: u64,
    owner: Owner,
}

/// What owns a piece, until the ring ends.
#[allow(dead_code)]
enum Owner {
    Block(Block),
    Words(DeviceBuffer<u32>),
    Bytes(DeviceBuffer<u8>),
    Position(Arc<DeviceBuffer<u64>>),
}

impl Builder {
    fn new<T>(on: &impl AsStream, capacity: usize, first: u64) -> GpuResult<Self> {
        const { check_alignment::<T>() };
        let operation = "making a ring";
        if capacity == 0 || capacity > MOST_SLOTS {
            let reason = format!("{capacity} slots; there are 1 to {MOST_SLOTS}");
            return Err(GpuError::InvalidArgument { operation, reason });
        }
        if size_of::<T>() == 0 {
            let reason = "its messages have no bytes".to_owned();
            return Err(GpuError::InvalidArgument { operation, reason });
        }
        let stream = on.as_stream();
        let side = Stream::new(stream.inner().context(), stream.module())?;
        Ok(Self { side, capacity: capacity.next_power_of_two(), first })
    }

    fn shared(&self, place: SharedLocation, bytes: usize) -> GpuResult<Piece> {
        let block = Block::zeroed(self.side.inner().context(), place, bytes)?;
        let (host, device) = (block.host().as_ptr().expose_provenance(), block.device());
        Ok(Piece { host, device, owner: Owner::Block(block) })
    }

    fn values<T>(&self, place: Option<SharedLocation>) -> GpuResult<Piece> {
        let bytes = self.capacity.saturating_mul(size_of::<T>());
        match place {
            Some(place) => self.shared(place, bytes),
            None => {
                let buffer = DeviceBuffer::<u8>::zeroed(&self.side, bytes)?;
                self.side.synchronize()?;
                let device = buffer.as_device_ptr().address();
                Ok(Piece { host: 0, device, owner: Owner::Bytes(buffer) })
            }
        }
    }

    /// The words of all slots: `arrived` or `free`, as in an empty ring.
    fn words(
        &self,
        place: Option<SharedLocation>,
        which: impl Fn((u32, u32)) -> u32,
    ) -> GpuResult<Piece> {
        let word = |index| which(Slots::<u32>::first_words(index, self.capacity, self.first));
        let words: Vec<u32> = (0..self.capacity).map(word).collect();
        match place {
            Some(place) => {
                let piece = self.shared(place, 4 * self.capacity)?;
                let to = std::ptr::with_exposed_provenance_mut::<u32>(piece.host);
                // SAFETY: the piece has as many words, which nobody knows yet.
                unsafe { to.copy_from_nonoverlapping(words.as_ptr(), words.len()) };
                Ok(piece)
            }
            None => {
                let buffer = DeviceBuffer::from_slice(&self.side, &words)?;
                let device = buffer.as_device_ptr().address();
                Ok(Piece { host: 0, device, owner: Owner::Words(buffer) })
            }
        }
    }

    /// The position of a side on the device.
    fn position(&self) -> GpuResult<Arc<DeviceBuffer<u64>>> {
        const WORDS: usize = size_of::<PositionBlock>() / 8;
        let mut words = [0; WORDS];
        words[0] = self.first;
        Ok(Arc::new(DeviceBuffer::from_slice(&self.side, &words)?))
    }

    /// A ring whose parts lie at these places; `None` is the device's memory.
    fn build<T: Pod>(
        self,
        [values, arrived, free]: [Option<SharedLocation>; 3],
        [sends_here, receives_here]: [bool; 2],
        copied: bool,
    ) -> GpuResult<Core<T>> {
        let control = self.shared(SharedLocation::Mapped, size_of::<ControlBlock>())?;
        let values = self.values::<T>(values)?;
        let arrived = self.words(arrived, |words| words.0)?;
        let free = self.words(free, |words| words.1)?;
        let consumer = (!receives_here).then(|| self.position()).transpose()?;
        let producer = (!sends_here).then(|| self.position()).transpose()?;
        let address = |own: &Option<Arc<DeviceBuffer<u64>>>| {
            own.as_ref().map_or(0, |own| own.as_device_ptr().address())
        };
        let both = [address(&consumer), address(&producer)];
        let parts = |own: &Option<Arc<DeviceBuffer<u64>>>, other| {
            let own = own.clone()?;
            let (values, arrived, free) = (values.device, arrived.device, free.device);
            Some(Parts { values, arrived, free, own, other, control: control.device })
        };
        let (receiving, sending) = (parts(&consumer, both[1]), parts(&producer, both[0]));
        // What is copied lies in pinned memory of the host first, each message at its slot.
        let staged = copied
            .then(|| {
                let values = self.values::<T>(Some(SharedLocation::Mapped))?;
                Ok::<_, GpuError>((
                    values,
                    self.words(Some(SharedLocation::Mapped), |words| words.0)?,
                ))
            })
            .transpose()?;
        let (seen_values, seen_arrived) = match &staged {
            Some((values, arrived)) => (values.host, arrived.host),
            None => (values.host, arrived.host),
        };
        let at = std::ptr::with_exposed_provenance_mut;
        // SAFETY: as many slots, set as in an empty ring; a ring on the device has none of the host's,
        // and its slots are never used here.
        let slots = unsafe {
            let words = std::ptr::with_exposed_provenance_mut::<u32>;
            Slots::from_raw_parts(
                at(seen_values),
                words(seen_arrived),
                words(free.host),
                self.capacity,
            )
        };
        let copier = staged.is_some().then(|| Copier {
            stream: self.side.clone(),
            values: values.device,
            arrived: arrived.device,
        });
        let position = PositionBlock::default();
        position.store(self.first, Relaxed);
        let block = std::ptr::with_exposed_provenance_mut::<ControlBlock>(control.host);
        let block = NonNull::new(block).expect("mapped memory is not at null");
        // SAFETY: the block is one of the parts, which the memory owns.
        let closer = unsafe {
            let copies = copier.as_ref().map(|copier| copier.stream.inner().clone());
            Closer::new(block, sends_here, copies)
        };
        let context = self.side.inner().context().clone();
        let mut owners = vec![control.owner, values.owner, arrived.owner, free.owner];
        owners.extend(staged.into_iter().flat_map(|(values, words)| [values.owner, words.owner]));
        owners.extend(consumer.into_iter().chain(producer).map(Owner::Position));
        let memory = SharedMemory::new(&context, owners, Some(closer));
        Ok(Core {
            memory,
            control: block,
            slots,
            position,
            first: self.first,
            copier,
            strategy: SharedStrategy::default(),
            waiters: Waiters::default(),
            consumer: receiving,
            producer: sending,
        })
    }
}

impl<T: Pod> Core<T> {
    pub(super) fn control(&self) -> &Control {
        // SAFETY: the block lives as long as `memory`.
        unsafe { self.control.as_ref() }
    }

    /// What the ring has done until now.
    pub(super) fn telemetry(&self) -> GpuResult<Telemetry> {
        let (sent, received) = match (&self.producer, &self.consumer) {
            (None, _) => {
                let sent = self.position.load(Relaxed);
                (sent, sent - self.waiting(sent))
            }
            (_, None) => {
                let received = self.position.load(Relaxed);
                (received + self.arrived(received), received)
            }
            (Some(sending), Some(receiving)) => {
                let received = receiving.own.to_vec()?[0];
                (sending.own.to_vec()?[0], received)
            }
        };
        let control = self.control();
        Ok(Telemetry {
            sent: sent - self.first,
            received: received - self.first,
            full_waits: control.full_waits.load(Relaxed),
            empty_waits: control.empty_waits.load(Relaxed),
            high_water: control.high_water.load(Relaxed),
            ..Telemetry::default()
        })
    }

    /// How many of the messages before `end`, which the host has sent, were not taken out.
    fn waiting(&self, end: u64) -> u64 {
        let oldest = end.saturating_sub(self.slots.capacity()).max(self.first);
        (oldest..end).filter(|position| !self.slots.is_taken(*position)).count() as u64
    }

    /// How many messages from `start` on are there for the host.
    fn arrived(&self, start: u64) -> u64 {
        let there = |position: &u64| self.slots.consumers_turn(*position) == Turn::Now;
        (start..start + self.slots.capacity()).take_while(there).count() as u64
    }

    /// Whether the host sends. Else it receives, or has no end of the ring.
    fn host_sends(&self) -> bool {
        self.producer.is_none()
    }

    /// How many messages are there for the host, or free slots for its messages, `most` at most.
    pub(super) fn ready(&self, most: usize) -> usize {
        let position = self.position.load(Relaxed);
        let is_there = |ahead: &u64| {
            let turn = match self.host_sends() {
                true => self.slots.producers_turn(position + ahead),
                false => self.slots.consumers_turn(position + ahead),
            };
            turn != Turn::Early
        };
        (0..most as u64).take_while(is_there).count()
    }

    /// Whether the host's end has nothing more to wait for: the ring is closed.
    pub(super) fn is_closed(&self) -> bool {
        let control = self.control();
        control.senders_closed.load(Acquire) != 0
            || (self.host_sends() && control.receivers_closed.load(Acquire) != 0)
    }

    /// Counts the waits of the host's end.
    pub(super) fn waits(&self) -> &Atomic<u64, scope::System> {
        match self.host_sends() {
            true => &self.control().full_waits,
            false => &self.control().empty_waits,
        }
    }

    /// Notes how many messages were in the ring at once.
    pub(super) fn note_level(&self, level: u64) {
        let high_water = &self.control().high_water;
        if level > high_water.load(Relaxed) {
            high_water.fetch_max(level, Relaxed);
        }
    }

    fn raw<'a>(&'a self, parts: &Option<Parts>) -> RawRing<'a> {
        let parts = parts.as_ref().expect("the ring's way says that this side is on the device");
        RawRing {
            values: parts.values,
            arrived: parts.arrived,
            free: parts.free,
            own: parts.own.as_device_ptr().address(),
            other: parts.other,
            control: parts.control,
            capacity: self.slots.capacity() as usize,
            home: Home::from(&self.memory),
        }
    }
}

impl<T: Pod> Ring<T, ToDevice> {
    /// A ring of at least `capacity` slots (the next power of two) from the host to kernels. Messages that
    /// want more alignment than 256 bytes do not compile:
    ///
    /// ```compile_fail,E0080
    /// #[derive(Clone, Copy)]
    /// #[repr(C, align(512))]
    /// struct Sector([u8; 512]);
    /// // SAFETY: bytes, and as many as the alignment.
    /// unsafe impl bytemuck::Zeroable for Sector {}
    /// // SAFETY: as above.
    /// unsafe impl bytemuck::Pod for Sector {}
    ///
    /// let gpu = ferrowarp::Gpu::new()?;
    /// let ends = ferrowarp::Ring::<Sector, _>::to_device(&gpu, 8, ferrowarp::Bridge::Mapped)?;
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for no slots, too many, or messages of no bytes;
    /// [`Unsupported`](GpuError::Unsupported) where the device has no such memory; what the driver
    /// answers.
    pub fn to_device(
        on: &impl AsStream,
        capacity: usize,
        bridge: Bridge,
    ) -> GpuResult<(Sender<T>, Self)> {
        Self::to_device_from(on, capacity, bridge, 0)
    }

    /// Like [`to_device`](Self::to_device), with `first` as the position of the first message, for tests of
    /// what comes after billions.
    ///
    /// # Errors
    /// As [`to_device`](Self::to_device).
    #[doc(hidden)]
    pub fn to_device_from(
        on: &impl AsStream,
        capacity: usize,
        bridge: Bridge,
        first: u64,
    ) -> GpuResult<(Sender<T>, Self)> {
        let mapped = Some(SharedLocation::Mapped);
        let places = match bridge {
            Bridge::Automatic => {
                let bridge = Bridge::for_visibility(MemoryVisibility::of(on));
                return Self::to_device_from(on, capacity, bridge, first);
            }
            Bridge::Mapped => [mapped; 3],
            Bridge::Copied => [None, None, mapped],
            Bridge::Unified => [Some(SharedLocation::Managed); 3],
        };
        let builder = Builder::new::<T>(on, capacity, first)?;
        let core = builder.build(places, [true, false], bridge == Bridge::Copied)?;
        let ring = Self::of(core);
        Ok((Sender::new(ring.core.clone()), ring))
    }
}

impl<T: Pod> Ring<T, ToHost> {
    /// A ring of at least `capacity` slots (the next power of two) from kernels to the host, in mapped
    /// memory: kernels write over the bus, the host polls its own memory.
    ///
    /// # Errors
    /// As [`Ring::to_device`].
    pub fn to_host(on: &impl AsStream, capacity: usize) -> GpuResult<(Self, Receiver<T>)> {
        Self::to_host_from(on, capacity, 0)
    }

    /// Like [`to_host`](Self::to_host), with `first` as the position of the first message.
    ///
    /// # Errors
    /// As [`to_host`](Self::to_host).
    #[doc(hidden)]
    pub fn to_host_from(
        on: &impl AsStream,
        capacity: usize,
        first: u64,
    ) -> GpuResult<(Self, Receiver<T>)> {
        let builder = Builder::new::<T>(on, capacity, first)?;
        let ring =
            Self::of(builder.build([Some(SharedLocation::Mapped); 3], [false, true], false)?);
        let receiver = Receiver::new(ring.core.clone());
        Ok((ring, receiver))
    }
}

impl<T: Pod> Ring<T, OnDevice> {
    /// A ring of at least `capacity` slots (the next power of two) among kernels, or blocks of one, in
    /// the device's memory.
    ///
    /// # Errors
    /// As [`Ring::to_device`].
    pub fn on_device(on: &impl AsStream, capacity: usize) -> GpuResult<Self> {
        Self::on_device_from(on, capacity, 0)
    }

    /// Like [`on_device`](Self::on_device), with `first` as the position of the first message.
    ///
    /// # Errors
    /// As [`on_device`](Self::on_device).
    #[doc(hidden)]
    pub fn on_device_from(on: &impl AsStream, capacity: usize, first: u64) -> GpuResult<Self> {
        let builder = Builder::new::<T>(on, capacity, first)?;
        Ok(Self::of(builder.build([None; 3], [false, false], false)?))
    }

    /// Tells the kernels at both ends that the ring is closed.
    pub fn close(&self) {
        self.core.memory.close();
    }
}

impl<T: Pod, Way> Ring<T, Way> {
    fn of(core: Core<T>) -> Self {
        Self { core: Arc::new(core), way: PhantomData }
    }

    pub(super) fn memory(&self) -> &Arc<SharedMemory> {
        &self.core.memory
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.core.slots.capacity() as usize
    }

    /// What the ring has done until now. A ring on the device costs two copies, which are exact while
    /// its kernels rest.
    ///
    /// # Errors
    /// The fault of a kernel.
    pub fn telemetry(&self) -> GpuResult<Telemetry> {
        self.core.telemetry()
    }
}

impl<T: Pod, Way> fmt::Debug for Ring<T, Way> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} slots of {} bytes)", self.capacity(), size_of::<T>())
    }
}

macro_rules! device_ends {
    ($($end:ident.$raw:ident for $way:ident: $parts:ident;)*) => {$(
        // SAFETY: the parts are of one ring of `T`, set as in an empty ring, and of this side, which
        // is on the device; the memory ends after all launches that were given it.
        unsafe impl<T: Pod> $end<T> for Ring<T, $way> {
            fn $raw(&self) -> RawRing<'_> {
                self.core.raw(&self.core.$parts)
            }
        }
    )*};
}

device_ends! {
    DeviceConsumer.raw_consumer for ToDevice: consumer;
    DeviceProducer.raw_producer for ToHost: producer;
    DeviceConsumer.raw_consumer for OnDevice: consumer;
    DeviceProducer.raw_producer for OnDevice: producer;
}
