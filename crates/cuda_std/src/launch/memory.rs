//! The traits of device memory that a launcher accepts.

use core::fmt;
use core::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use super::Home;

/// Device memory as the driver sees it, while its owner is borrowed for `'m`.
#[derive(Clone, Copy)]
pub struct RawSlice<'m> {
    /// The address of the first element; anything if `len` is 0.
    pub address: u64,
    /// The number of elements.
    pub len: usize,
    /// What orders the uses of the memory, such as its stream. A launcher that needs it after the launch
    /// [keeps](Home::keep) it.
    pub home: Option<Home<'m>>,
}

impl fmt::Debug for RawSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawSlice({:#x}, {} elements)", self.address, self.len)
    }
}

/// The home of memory whose owner has no stream for its uses, such as another library's. Who launches a kernel with it
/// waits: before the launch for the default stream of the device, which is where the owner's own copies are enqueued,
/// and after it for the kernel, because the owner may free or read the memory as soon as the borrow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unordered;

impl Unordered {
    /// It as [`RawSlice::home`], without an allocation.
    pub fn home() -> Home<'static> {
        static HOME: LazyLock<Arc<Unordered>> = LazyLock::new(|| Arc::new(Unordered));
        Home::from(LazyLock::force(&HOME))
    }
}

/// Device memory that a kernel reads as `&[T]`.
///
/// # Safety
/// [`raw`](Self::raw) describes live device memory, aligned for `T`, that holds `len` initialised
/// values of `T`, and that nothing writes while it is borrowed and a kernel that got it runs. It is the
/// same memory at each call while `self` is borrowed, and [`len`](Self::len) is its length: lengths are checked
/// before a launch asks for the memory again.
#[diagnostic::on_unimplemented(
    message = "the kernel reads `&[{T}]`, and `{Self}` is not device memory of that type",
    label = "expected a device buffer of `{T}`, found `{Self}`",
    note = "pass `&buffer`, a reference to a device buffer of `{T}`; data on the host is copied to one first"
)]
pub unsafe trait DeviceRead<T> {
    /// Where the elements are.
    fn raw(&self) -> RawSlice<'_>;

    /// The number of elements that a kernel reads: that of [`raw`](Self::raw), without its home.
    fn len(&self) -> usize;

    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One value on the device that a kernel reads as `&T`.
///
/// # Safety
/// As for [`DeviceRead`], with exactly one element.
#[diagnostic::on_unimplemented(
    message = "the kernel reads `&{T}`, and `{Self}` is not one such value on the device",
    label = "expected one `{T}` in device memory, found `{Self}`",
    note = "pass `&value`, a reference to a device box of `{T}`; to pass a value by copy, take `{T}` in the kernel"
)]
pub unsafe trait DeviceReadOne<T> {
    /// Where the value is.
    fn raw_one(&self) -> RawSlice<'_>;
}

/// Device memory that a kernel writes as `DisjointSlice<T>` or `AtomicSlice<T>`.
///
/// # Safety
/// [`raw_mut`](Self::raw_mut) describes live device memory, aligned for `T`, that holds `len`
/// initialised values of `T`, and that nothing else reaches while it is borrowed and a kernel that
/// got it runs. It is the same memory at each call, and [`len`](Self::len) is its length. Every bit pattern that
/// a kernel can write is a value of `T`.
#[diagnostic::on_unimplemented(
    message = "the kernel writes elements of `{T}`, and `{Self}` is not device memory of that type",
    label = "expected a device buffer of `{T}`, found `{Self}`",
    note = "pass `&mut buffer`, a mutable reference to a device buffer of `{T}`"
)]
pub unsafe trait DeviceWrite<T> {
    /// Where the elements are.
    fn raw_mut(&mut self) -> RawSlice<'_>;

    /// The number of elements that a kernel writes: that of [`raw_mut`](Self::raw_mut), without the exclusive
    /// borrow.
    fn len(&self) -> usize;

    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Device memory that a kernel writes as `DisjointGrid<T>`: rows of equal width, without gaps.
///
/// # Safety
/// As for [`DeviceWrite`], with `len == width * height`.
#[diagnostic::on_unimplemented(
    message = "the kernel writes a grid of `{T}`, and `{Self}` is not a device grid of that type",
    label = "expected a device grid of `{T}`, found `{Self}`",
    note = "pass `&mut grid`: a device buffer of `{T}` together with its width and height"
)]
pub unsafe trait DeviceWriteGrid<T> {
    /// Where the elements are, the width and the height.
    fn raw_grid(&mut self) -> (RawSlice<'_>, usize, usize);
}

/// Device memory that a kernel writes as `DisjointPitched<T>`: rows of equal width, at equal
/// distances.
///
/// # Safety
/// As for [`DeviceWrite`], of which `len` is any number that is 0 only if there is no element; the
/// elements of all rows, each `pitch >= width` after the one before, are inside.
#[diagnostic::on_unimplemented(
    message = "the kernel writes pitched rows of `{T}`, and `{Self}` is not such device memory",
    label = "expected pitched device memory of `{T}`, found `{Self}`",
    note = "pass `&mut buffer.pitched_mut(width, height, pitch)?`, or a grid: its pitch is its width"
)]
pub unsafe trait DeviceWritePitched<T> {
    /// Where the elements are, the width, the height and the pitch.
    fn raw_pitched(&mut self) -> (RawSlice<'_>, usize, usize, usize);
}

/// Device memory that a kernel writes as `DisjointVolume<T>`: planes of rows, without gaps.
///
/// # Safety
/// As for [`DeviceWrite`], with `len == width * height * depth`.
#[diagnostic::on_unimplemented(
    message = "the kernel writes a volume of `{T}`, and `{Self}` is not a device volume of that type",
    label = "expected a device volume of `{T}`, found `{Self}`",
    note = "pass `&mut buffer.volume_mut(width, height, depth)?`"
)]
pub unsafe trait DeviceWriteVolume<T> {
    /// Where the elements are, the width, the height and the depth.
    fn raw_volume(&mut self) -> (RawSlice<'_>, usize, usize, usize);
}

/// Words that kernels and the host change at the same time: a kernel's `SystemAtomics<T>`.
///
/// # Safety
/// [`raw_atomics`](Self::raw_atomics) describes memory that kernels reach, aligned for `T`, of `len`
/// initialised values of `T`. It is there until the kernels have run that were given it, and nothing
/// reaches it meanwhile but atomic operations of system scope.
#[diagnostic::on_unimplemented(
    message = "the kernel shares atomics of `{T}` with the host, and `{Self}` is not such memory",
    label = "expected shared atomics of `{T}`, found `{Self}`",
    note = "pass `&words`, a reference to mapped atomics of `{T}`"
)]
pub unsafe trait DeviceAtomics<T> {
    /// Where the words are.
    fn raw_atomics(&self) -> RawSlice<'_>;
}

/// The parts of one side of a ring, by their addresses on the device: see
/// [`RingConsumer::from_raw_parts`](crate::ring::RingConsumer::from_raw_parts).
#[derive(Clone, Copy)]
pub struct RawRing<'m> {
    /// The messages.
    pub values: u64,
    /// For each slot, whose message has arrived.
    pub arrived: u64,
    /// For each slot, for whose message it is free.
    pub free: u64,
    /// This side's position.
    pub own: u64,
    /// The other side's position; 0 where that side is not on the device.
    pub other: u64,
    /// The ring's control block.
    pub control: u64,
    /// The number of slots.
    pub capacity: usize,
    /// What all of it belongs to, which a launcher [keeps](Home::keep) until the kernel has run.
    pub home: Home<'m>,
}

impl fmt::Debug for RawRing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawRing({:#x}, {} slots)", self.values, self.capacity)
    }
}

/// A ring from which a kernel receives, as `RingConsumer<T>`.
///
/// # Safety
/// [`raw_consumer`](Self::raw_consumer) describes the consumers' side of a ring of `T`, as
/// [`RingConsumer::from_raw_parts`](crate::ring::RingConsumer::from_raw_parts) wants it, which is
/// there until the kernels have run that were given it.
#[diagnostic::on_unimplemented(
    message = "the kernel receives `{T}`, and `{Self}` is not a ring of that type to the device",
    label = "expected a ring of `{T}` whose receiving side is on the device, found `{Self}`",
    note = "pass `&ring`, made by `Ring::to_device` or `Ring::on_device`"
)]
pub unsafe trait DeviceConsumer<T> {
    /// Where the parts are.
    fn raw_consumer(&self) -> RawRing<'_>;
}

/// A ring into which a kernel sends, as `RingProducer<T>`.
///
/// # Safety
/// As for [`DeviceConsumer`], with the producers' side.
#[diagnostic::on_unimplemented(
    message = "the kernel sends `{T}`, and `{Self}` is not a ring of that type from the device",
    label = "expected a ring of `{T}` whose sending side is on the device, found `{Self}`",
    note = "pass `&ring`, made by `Ring::to_host` or `Ring::on_device`"
)]
pub unsafe trait DeviceProducer<T> {
    /// Where the parts are.
    fn raw_producer(&self) -> RawRing<'_>;
}

/// An address on the device, for a kernel that takes `*const T` or `*mut T`.
///
/// It is a number: nothing follows it on the host.
#[doc(alias = "DevicePointer")]
pub struct DevicePtr<T> {
    address: u64,
    element: PhantomData<*mut T>,
}

impl<T> DevicePtr<T> {
    /// The pointer to `address`.
    pub const fn from_raw(address: u64) -> Self {
        Self { address, element: PhantomData }
    }

    /// The null pointer.
    pub const fn null() -> Self {
        Self::from_raw(0)
    }

    /// The address.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Whether the address is a multiple of `bytes`: 16 for vectors of four floats, 128 for a line of a cache, 256 for
    /// what an allocation of the driver begins at. `false` for `bytes = 0`.
    pub const fn is_aligned_to(self, bytes: u64) -> bool {
        bytes != 0 && self.address.is_multiple_of(bytes)
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr({:#x})", self.address)
    }
}

/// A value that a safe kernel takes by copy: every [`bytemuck::NoUninit`] type. A value without a size, such as a functor
/// that captures nothing, costs nothing: the PTX entry has no parameter for it.
///
/// A struct has to be `#[repr(C)]` or `#[repr(transparent)]`: Rust does not say where the fields of another one lie, so
/// host and device could differ.
///
/// # Safety
/// All bytes of a value are initialised, and a copy of them is the same value on the device: there are no references,
/// and no addresses of functions, which would be the host's.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel by value",
    label = "a kernel argument is copied byte by byte, without padding",
    note = "derive `bytemuck::NoUninit` on a `#[repr(C)]` struct that has no padding; without `#[repr(C)]` host and \
            device may lay out its fields differently",
    note = "data in device memory is passed as `&[T]`, `&T` or `DisjointSlice<T>`"
)]
pub unsafe trait KernelValue: Copy + 'static {}

// SAFETY: such a type has no padding, and neither references nor functions are among them.
#[diagnostic::do_not_recommend]
unsafe impl<T: bytemuck::NoUninit> KernelValue for T {}
