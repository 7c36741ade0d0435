//! The values of a launch, laid out for the driver.

use super::{
    DeviceAtomics, DeviceConsumer, DeviceProducer, DevicePtr, DeviceRead, DeviceReadOne,
    DeviceWrite, DeviceWriteGrid, DeviceWritePitched, DeviceWriteVolume, Home, Kernel, KernelValue,
    RawRing, RawSlice,
};
use crate::atomic::AtomicElement;
use core::any::{TypeId, type_name};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, align_of, size_of};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Every value starts at a multiple of this; no parameter asks for more.
type Unit = MaybeUninit<u128>;

/// Most launches have no more values than this, and are made without an allocation.
const INLINE_VALUES: usize = 12;
/// Most launches have no more units of larger values: a tensor map has 8.
const INLINE_UNITS: usize = 8;
/// Most launches have no more buffers than this.
const INLINE_BUFFERS: usize = 4;

/// What a kernel does with memory that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It reads and writes.
    Write,
}

/// Memory among the arguments of a launch.
#[derive(Clone, Copy)]
pub struct MemoryArg<'m> {
    /// Which of the values is its address.
    pub value: usize,
    /// The address of the first byte; anything if there is none.
    pub address: u64,
    /// The number of bytes.
    pub bytes: usize,
    /// What the kernel does with it.
    pub access: Access,
    /// What orders its uses; see [`RawSlice::home`].
    pub home: Option<Home<'m>>,
}

impl fmt::Debug for MemoryArg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, address, bytes, access, .. } = self;
        write!(f, "MemoryArg({access:?} {bytes} bytes at {address:#x}, value {value})")
    }
}

/// The type of a value, where it is known.
type TypeOf = fn() -> (TypeId, &'static str);

fn type_of<T: 'static>() -> (TypeId, &'static str) {
    (TypeId::of::<T>(), type_name::<T>())
}

/// A value, its size and its type.
#[derive(Clone, Copy)]
struct StoredValue {
    /// The value, if it fits.
    unit: Unit,
    bytes: u32,
    /// Where it begins in [`Args::large`], if it does not.
    place: u32,
    type_of: Option<TypeOf>,
}

impl StoredValue {
    #[inline]
    fn is_large(&self) -> bool {
        self.bytes as usize > size_of::<Unit>()
    }
}

/// The ordered values of a kernel's PTX parameters, and the memory among them, which is borrowed for `'m`.
///
/// ```compile_fail,E0505
/// use cuda_std::launch::{Args, DeviceRead};
///
/// fn freed_too_early<B: DeviceRead<f32>>(buffer: B) -> usize {
///     let mut args = Args::new();
///     args.push_read(&buffer);
///     drop(buffer);
///     args.len()
/// }
/// ```
///
/// Whoever starts the kernel later, and not during the borrow, [keeps](Self::keep) the homes of the memory, and sees to
/// it that the memory lives.
#[derive(Clone)]
pub struct Args<'m> {
    values: SmallVec<[StoredValue; INLINE_VALUES]>,
    /// The values that are larger than a unit.
    large: SmallVec<[Unit; INLINE_UNITS]>,
    /// The homes are borrowed for `'m`, or those in `_kept`, so that they are valid while `self` is borrowed: this is
    /// lent for no longer. With `'m` in the type of the field, dropping `self` would count as a use of what it borrows.
    memory: SmallVec<[MemoryArg<'static>; INLINE_BUFFERS]>,
    /// The homes that are not borrowed; see [`keep`](Self::keep).
    _kept: Option<Arc<[Arc<dyn Any + Send + Sync>]>>,
    /// The kernel whose launcher pushes the values.
    kernel: Option<&'static Kernel>,
    borrowed: PhantomData<&'m ()>,
}

impl<'m> Args<'m> {
    /// No values yet.
    #[inline]
    pub fn new() -> Self {
        Self::launched_by(None)
    }

    /// No values yet. The launcher that `#[kernel]` has made for `kernel` pushes all of them, so that their sizes need no
    /// check at each launch.
    #[doc(hidden)]
    #[inline]
    pub fn of(kernel: &'static Kernel) -> Self {
        Self::launched_by(Some(kernel))
    }

    #[inline]
    fn launched_by(kernel: Option<&'static Kernel>) -> Self {
        Self {
            values: SmallVec::new(),
            large: SmallVec::new(),
            memory: SmallVec::new(),
            _kept: None,
            kernel,
            borrowed: PhantomData,
        }
    }

    /// Whether the launcher of `kernel` has made them.
    #[doc(hidden)]
    #[inline]
    pub fn is_of(&self, kernel: &'static Kernel) -> bool {
        self.kernel.is_some_and(|own| core::ptr::eq(own, kernel))
    }

    /// The number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A pointer to each value, as `cuLaunchKernel` takes them. They hold while `self` is not
    /// changed and stays in its place.
    pub fn pointers(&self) -> Vec<*mut c_void> {
        self.values.iter().map(|value| self.pointer(value)).collect()
    }

    /// Calls `use_them` with a pointer to each value; without an allocation where they are few.
    #[inline]
    pub fn with_pointers<R>(&self, use_them: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        let values = self.values.as_slice();
        let mut few = [core::ptr::null_mut(); INLINE_VALUES];
        match few.get_mut(..values.len()) {
            Some(pointers) => {
                let values = pointers.iter_mut().zip(values);
                values.for_each(|(pointer, value)| *pointer = self.pointer(value));
                use_them(pointers)
            }
            None => use_them(&mut self.pointers()),
        }
    }

    #[inline]
    fn pointer(&self, value: &StoredValue) -> *mut c_void {
        let unit = if value.is_large() { &self.large[value.place as usize] } else { &value.unit };
        core::ptr::from_ref(unit).cast_mut().cast()
    }

    /// The place of a value, to be written.
    fn place(&mut self, value: usize) -> *mut Unit {
        let stored = &mut self.values[value];
        if stored.is_large() {
            self.large[stored.place as usize..].as_mut_ptr()
        } else {
            &raw mut stored.unit
        }
    }

    /// The size of each value.
    pub fn sizes_bytes(&self) -> impl Iterator<Item = usize> {
        self.values.iter().map(|value| value.bytes as usize)
    }

    /// The memory among the arguments, in their order.
    #[inline]
    pub fn memory(&self) -> &[MemoryArg<'_>] {
        &self.memory
    }

    /// What orders the uses of the memory among the arguments, in the order of the arguments.
    #[inline]
    pub fn homes(&self) -> impl Iterator<Item = Home<'_>> {
        self.memory().iter().filter_map(|memory| memory.home)
    }

    /// The same values, and the homes of the memory kept instead of borrowed: for a launch after the borrow. The memory
    /// itself is not kept; that it lives is up to who launches.
    #[must_use]
    pub fn keep(&self) -> Args<'static> {
        Args {
            values: self.values.clone(),
            large: self.large.clone(),
            memory: self.memory.clone(),
            _kept: Some(self.homes().map(Home::keep).collect()),
            kernel: self.kernel,
            borrowed: PhantomData,
        }
    }

    /// The address at `value`, a pointer's; `None` if no value of that size is there.
    pub fn address(&self, value: usize) -> Option<u64> {
        let place =
            self.values.get(value).filter(|place| place.bytes as usize == size_of::<u64>())?;
        // SAFETY: the value has as many bytes, which `push_plain` wrote, at an alignment of 16.
        Some(unsafe { self.pointer(place).cast::<u64>().read() })
    }

    /// The type of a value that was pushed by copy, and its name; `None` for addresses and lengths
    /// of memory, and where the type is not known.
    pub fn type_of(&self, value: usize) -> Option<(TypeId, &'static str)> {
        self.values.get(value)?.type_of.map(|type_of| type_of())
    }

    /// Puts another value into the place of one that was pushed by copy. `false`, and nothing is
    /// changed, if that one has another type.
    pub fn replace_value<T: KernelValue>(&mut self, value: usize, new: T) -> bool {
        if self.type_of(value).is_none_or(|(found, _)| found != TypeId::of::<T>()) {
            return false;
        }
        // SAFETY: a value of this type was written there, so there is room for another one.
        unsafe { self.place(value).cast::<T>().write(new) };
        true
    }

    /// Moves an address to other memory of the same content and size: a launch's own, or one that
    /// was pushed as a pointer.
    ///
    /// # Safety
    /// What the kernel's launch asks of the address at `value` holds for `address` too.
    pub unsafe fn replace_address(&mut self, value: usize, address: u64) {
        if self.address(value).is_some() {
            // SAFETY: an address was written there, so there is room for another one.
            unsafe { self.place(value).cast::<u64>().write(address) };
        }
        for memory in self.memory.iter_mut().filter(|memory| memory.value == value) {
            memory.address = address;
        }
    }

    /// Appends a value by copy; one without a size leaves the arguments as they are.
    pub fn push_value<T: KernelValue>(&mut self, value: T) {
        self.push_copy(value);
    }

    /// Appends a value by copy, its padding included. The driver copies bytes, so what the padding
    /// holds does not matter to it; a reader of the value must not look at the padding.
    pub fn push_copy<T: Copy + 'static>(&mut self, value: T) {
        // SAFETY: a `Copy` type is plain data.
        unsafe { self.push(&value, Some(type_of::<T>)) };
    }

    /// Appends a value by copy, where the compiler cannot see that its type is plain data.
    ///
    /// # Safety
    /// A copy of `value`'s bytes is a value too, for as long as the kernel can run.
    #[doc(hidden)]
    pub unsafe fn push_plain<T>(&mut self, value: &T) {
        // SAFETY: the caller's promise.
        unsafe { self.push(value, None) };
    }

    /// # Safety
    /// As for [`push_plain`](Self::push_plain).
    #[inline]
    unsafe fn push<T>(&mut self, value: &T, type_of: Option<TypeOf>) {
        const {
            assert!(
                size_of::<T>() == 0 || align_of::<T>() <= 16,
                "a kernel parameter is aligned to at most 16 bytes"
            );
            assert!(
                size_of::<T>() <= 32_764,
                "the parameters of a kernel have at most 32,764 bytes"
            );
        }
        // The PTX entry has no parameter for it.
        if size_of::<T>() == 0 {
            return;
        }
        let bytes = size_of::<T>() as u32;
        let mut stored = StoredValue { unit: Unit::zeroed(), bytes, place: 0, type_of };
        let target = if stored.is_large() {
            let place = self.large.len();
            stored.place = place as u32;
            let units = size_of::<T>().div_ceil(size_of::<Unit>());
            self.large.resize(place + units, Unit::zeroed());
            self.large[place..].as_mut_ptr()
        } else {
            &raw mut stored.unit
        };
        // SAFETY: the unit, or the new units, hold `size_of::<T>()` bytes at an alignment of 16, which suffices.
        unsafe { core::ptr::copy_nonoverlapping(value, target.cast(), 1) };
        self.values.push(stored);
    }

    /// Appends an address.
    pub fn push_pointer<T>(&mut self, pointer: DevicePtr<T>) {
        self.push_number(pointer.address());
    }

    /// Appends pointer and length of memory that the kernel reads.
    pub fn push_read<T>(&mut self, memory: &'m impl DeviceRead<T>) {
        self.push_slice::<T>(memory.raw(), Access::Read);
    }

    /// Appends the pointer to one value that the kernel reads.
    pub fn push_read_one<T>(&mut self, memory: &'m impl DeviceReadOne<T>) {
        self.push_address::<T>(memory.raw_one(), Access::Read);
    }

    /// Appends pointer and length of memory that the kernel writes.
    pub fn push_write<T>(&mut self, memory: &'m mut impl DeviceWrite<T>) {
        self.push_slice::<T>(memory.raw_mut(), Access::Write);
    }

    /// Appends the address of memory that the kernel reads, without its length: for kernels of other languages, whose
    /// parameters are pointers alone. The launch is ordered with the memory's other uses, as with
    /// [`push_read`](Self::push_read).
    pub fn push_read_pointer<T>(&mut self, memory: &'m impl DeviceRead<T>) {
        self.push_address::<T>(memory.raw(), Access::Read);
    }

    /// Appends the address of memory that the kernel writes, without its length: see
    /// [`push_read_pointer`](Self::push_read_pointer).
    pub fn push_write_pointer<T>(&mut self, memory: &'m mut impl DeviceWrite<T>) {
        self.push_address::<T>(memory.raw_mut(), Access::Write);
    }

    /// Appends pointer and length of memory that the kernel changes atomically.
    pub fn push_atomic<T: AtomicElement>(&mut self, memory: &'m mut impl DeviceWrite<T>) {
        self.push_slice::<T>(memory.raw_mut(), Access::Write);
    }

    /// Appends pointer, width and height of a grid that the kernel writes.
    pub fn push_write_grid<T>(&mut self, memory: &'m mut impl DeviceWriteGrid<T>) {
        let (raw, width, height) = memory.raw_grid();
        self.push_address::<T>(raw, Access::Write);
        [width, height].into_iter().for_each(|length| self.push_length(length));
    }

    /// Appends pointer, width, height and pitch of rows that the kernel writes.
    pub fn push_write_pitched<T>(&mut self, memory: &'m mut impl DeviceWritePitched<T>) {
        let (raw, width, height, pitch) = memory.raw_pitched();
        self.push_address::<T>(raw, Access::Write);
        [width, height, pitch].into_iter().for_each(|length| self.push_length(length));
    }

    /// Appends pointer, width, height and depth of a volume that the kernel writes.
    pub fn push_write_volume<T>(&mut self, memory: &'m mut impl DeviceWriteVolume<T>) {
        let (raw, width, height, depth) = memory.raw_volume();
        self.push_address::<T>(raw, Access::Write);
        [width, height, depth].into_iter().for_each(|length| self.push_length(length));
    }

    /// Appends pointer and length of words that the kernel shares with the host.
    pub fn push_system_atomics<T>(&mut self, memory: &'m impl DeviceAtomics<T>) {
        self.push_slice::<T>(memory.raw_atomics(), Access::Write);
    }

    /// Appends the parts of a ring from which the kernel receives.
    pub fn push_consumer<T>(&mut self, ring: &'m impl DeviceConsumer<T>) {
        self.push_ring::<T>(ring.raw_consumer());
    }

    /// Appends the parts of a ring into which the kernel sends.
    pub fn push_producer<T>(&mut self, ring: &'m impl DeviceProducer<T>) {
        self.push_ring::<T>(ring.raw_producer());
    }

    fn push_ring<T>(&mut self, raw: RawRing<'m>) {
        let RawRing { values, arrived, free, own, other, control, capacity, home } = raw;
        self.push_memory(values, capacity * size_of::<T>(), Access::Write, Some(home));
        [values, arrived, free, own, other, control]
            .into_iter()
            .for_each(|part| self.push_number(part));
        self.push_length(capacity);
    }

    #[inline]
    fn push_slice<T>(&mut self, raw: RawSlice<'m>, access: Access) {
        self.push_address_and_length(raw, Element::of::<T>(), access);
    }

    #[inline]
    fn push_address<T>(&mut self, raw: RawSlice<'m>, access: Access) {
        self.push_address_of(raw, Element::of::<T>(), access);
    }

    /// The same code for all types of elements: a launch of several slices has it in the processor's cache.
    fn push_address_and_length(&mut self, raw: RawSlice<'m>, element: Element, access: Access) {
        self.push_address_of(raw, element, access);
        self.push_length(raw.len);
    }

    /// A Rust slice is never null, so an empty one gets the smallest aligned address.
    #[inline]
    fn push_address_of(&mut self, raw: RawSlice<'m>, element: Element, access: Access) {
        let RawSlice { address, len, home } = raw;
        let address = if len == 0 { element.align } else { address };
        self.push_memory(address, len.saturating_mul(element.bytes), access, home);
        self.push_number(address);
    }

    /// Notes memory of which the next value is the address.
    #[inline]
    fn push_memory(&mut self, address: u64, bytes: usize, access: Access, home: Option<Home<'m>>) {
        // SAFETY: the home is borrowed for `'m`, which lasts until the last use of `self`, and the field is lent for the
        // borrow of `self` alone. The copies in `keep` come with counts of their own.
        let home = home.map(|home| unsafe { home.unchecked() });
        let value = self.values.len();
        self.memory.push(MemoryArg { value, address, bytes, access, home });
    }

    #[inline]
    fn push_length(&mut self, length: usize) {
        self.push_number(length as u64);
    }

    /// Appends an address or a length, which has no type that [`type_of`](Self::type_of) reports.
    #[inline]
    fn push_number(&mut self, number: u64) {
        // SAFETY: an integer is plain data.
        unsafe { self.push(&number, None) };
    }
}

/// What an address leads to.
#[derive(Clone, Copy)]
struct Element {
    bytes: usize,
    align: u64,
}

impl Element {
    const fn of<T>() -> Self {
        Self { bytes: size_of::<T>(), align: align_of::<T>() as u64 }
    }
}

impl Default for Args<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.sizes_bytes().collect();
        write!(f, "Args({} values of {sizes:?} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_aligned_and_stay_in_order() {
        let mut args = Args::new();
        args.push_value(1u8);
        args.push_value([2u64, 3, 4]);
        args.push_value(5u128);
        args.push_pointer(DevicePtr::<f32>::from_raw(6));
        assert_eq!(args.sizes_bytes().collect::<Vec<_>>(), [1, 24, 16, 8]);
        let pointers = args.pointers();
        assert!(pointers.iter().all(|pointer| pointer.addr() % 16 == 0), "{pointers:?}");
        // SAFETY: each pointer leads to the value that was pushed.
        unsafe {
            assert_eq!(*pointers[0].cast::<u8>(), 1);
            assert_eq!(*pointers[1].cast::<[u64; 3]>(), [2, 3, 4]);
            assert_eq!(*pointers[2].cast::<u128>(), 5);
            assert_eq!(*pointers[3].cast::<u64>(), 6);
        }
    }

    #[test]
    fn values_without_a_size_take_no_place() {
        let mut args = Args::new();
        args.push_value(());
        args.push_copy([0u64; 0]);
        args.push_value(7u32);
        args.push_value(core::marker::PhantomData::<u8>);
        assert_eq!(args.sizes_bytes().collect::<Vec<_>>(), [4]);
        assert!(args.replace_value(0, 9u32) && !args.replace_value(1, ()));
    }

    #[test]
    fn a_value_is_replaced_by_one_of_its_type_alone() {
        let mut args = Args::new();
        args.push_value(1.5f32);
        args.push_pointer(DevicePtr::<f32>::from_raw(6));
        assert!(!args.replace_value(0, 2u32) && !args.replace_value(1, 2u64));
        assert!(!args.replace_value(2, 2.5f32) && args.replace_value(0, 2.5f32));
        // SAFETY: nothing follows the address.
        unsafe { args.replace_address(1, 512) };
        assert_eq!((args.address(0), args.address(1), args.address(2)), (None, Some(512), None));
        // SAFETY: the first value is an `f32`.
        args.with_pointers(|pointers| unsafe { assert_eq!(*pointers[0].cast::<f32>(), 2.5) });
        assert_eq!(args.type_of(0).map(|(_, name)| name), Some("f32"));
    }

    #[test]
    fn many_values_are_values_like_few() {
        let mut args = Args::new();
        (0..40u32).for_each(|value| args.push_value(value));
        let copy = args.keep();
        drop(args);
        let read = |pointer: &*mut c_void| {
            // SAFETY: each value is a `u32`.
            unsafe { *pointer.cast::<u32>() }
        };
        assert!(copy.pointers().iter().map(read).eq(0..40));
    }

    /// Eight elements, whose home is an `Arc` of its own.
    struct Buffer(Arc<u32>);

    // SAFETY: no kernel is launched with it.
    unsafe impl DeviceRead<f32> for Buffer {
        fn raw(&self) -> RawSlice<'_> {
            RawSlice { address: 256, len: 8, home: Some(Home::from(&self.0)) }
        }

        fn len(&self) -> usize {
            8
        }
    }

    #[test]
    fn homes_are_borrowed_until_they_are_kept() {
        let buffer = Buffer(Arc::new(7));
        let count = || Arc::strong_count(&buffer.0);
        let mut args = Args::new();
        args.push_read(&buffer);
        args.push_read(&buffer);
        assert_eq!(count(), 1);
        let kept = args.keep();
        assert_eq!(count(), 3);
        let again = kept.keep();
        assert_eq!(count(), 5);
        drop(kept);
        assert_eq!(count(), 3);
        // The arguments are still in scope, which does not keep the buffer from being moved.
        drop(buffer);
        assert!(again.homes().map(|home| home.downcast_ref::<u32>()).eq([Some(&7); 2]));
        let copies = again.clone();
        drop(again);
        assert_eq!(copies.memory()[1].home.and_then(Home::downcast_ref), Some(&7u32));
    }

    #[test]
    fn no_values_have_no_pointers() {
        let args = Args::new();
        assert!(args.is_empty() && args.pointers().is_empty() && args.memory().is_empty());
        assert_eq!(format!("{args:?}"), "Args(0 values of [] bytes)");
    }
}
