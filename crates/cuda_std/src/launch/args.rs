//! The values of a launch, laid out for the driver.

use super::{
    DevicePtr, DeviceRead, DeviceReadOne, DeviceWrite, DeviceWriteGrid, DeviceWritePitched,
    DeviceWriteVolume, KernelValue, RawSlice,
};
use crate::atomic::AtomicElement;
use core::ffi::c_void;
use core::mem::{MaybeUninit, align_of, size_of};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Every value starts at a multiple of this; no parameter asks for more.
type Unit = MaybeUninit<u128>;

/// The ordered values of a kernel's PTX parameters, and what must live until the kernel has run.
#[derive(Default)]
pub struct Args {
    storage: Vec<Unit>,
    /// For each value, the unit it starts at and its size.
    values: Vec<(usize, usize)>,
    homes: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Args {
    /// No values yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A pointer to each value, as `cuLaunchKernel` takes them. They hold while `self` is not
    /// changed.
    pub fn pointers(&self) -> Vec<*mut c_void> {
        let pointer = |&(unit, _): &(usize, usize)| self.storage[unit..].as_ptr() as *mut c_void;
        self.values.iter().map(pointer).collect()
    }

    /// The size of each value.
    pub fn sizes_bytes(&self) -> impl Iterator<Item = usize> {
        self.values.iter().map(|&(_, bytes)| bytes)
    }

    /// What orders the uses of the memory among the arguments, in the order of the arguments.
    pub fn homes(&self) -> &[Arc<dyn Any + Send + Sync>] {
        &self.homes
    }

    /// Appends a value by copy.
    pub fn push_value<T: KernelValue>(&mut self, value: T) {
        self.push_copy(value);
    }

    /// Appends a value by copy, its padding included. The driver copies bytes, so what the padding
    /// holds does not matter to it; whoever reads the value must not look at the padding.
    pub fn push_copy<T: Copy + 'static>(&mut self, value: T) {
        // SAFETY: a `Copy` type is plain data.
        unsafe { self.push_plain(&value) };
    }

    /// Appends a value by copy, where the compiler cannot see that its type is plain data.
    ///
    /// # Safety
    /// A copy of `value`'s bytes is a value too, for as long as the kernel can run.
    #[doc(hidden)]
    pub unsafe fn push_plain<T>(&mut self, value: &T) {
        const {
            assert!(size_of::<T>() > 0, "a type without a size is not a kernel parameter");
            assert!(align_of::<T>() <= 16, "a kernel parameter is aligned to at most 16 bytes");
        }
        let unit = self.storage.len();
        let units = size_of::<T>().div_ceil(size_of::<Unit>());
        self.storage.resize(unit + units, Unit::zeroed());
        let place = self.storage[unit..].as_mut_ptr().cast::<T>();
        // SAFETY: the new units hold `size_of::<T>()` bytes at an alignment of 16, which suffices.
        unsafe { core::ptr::copy_nonoverlapping(value, place, 1) };
        self.values.push((unit, size_of::<T>()));
    }

    /// Appends an address.
    pub fn push_pointer<T>(&mut self, pointer: DevicePtr<T>) {
        self.push_value(pointer.address());
    }

    /// Appends pointer and length of memory that the kernel reads.
    pub fn push_read<T>(&mut self, memory: &impl DeviceRead<T>) {
        self.push_slice::<T>(memory.raw());
    }

    /// Appends the pointer to one value that the kernel reads.
    pub fn push_read_one<T>(&mut self, memory: &impl DeviceReadOne<T>) {
        self.push_address::<T>(memory.raw_one());
    }

    /// Appends pointer and length of memory that the kernel writes.
    pub fn push_write<T>(&mut self, memory: &mut impl DeviceWrite<T>) {
        self.push_slice::<T>(memory.raw_mut());
    }

    /// Appends pointer and length of memory that the kernel changes atomically.
    pub fn push_atomic<T: AtomicElement>(&mut self, memory: &mut impl DeviceWrite<T>) {
        self.push_slice::<T>(memory.raw_mut());
    }

    /// Appends pointer, width and height of a grid that the kernel writes.
    pub fn push_write_grid<T>(&mut self, memory: &mut impl DeviceWriteGrid<T>) {
        let (raw, width, height) = memory.raw_grid();
        self.push_address::<T>(raw);
        self.push_value(width);
        self.push_value(height);
    }

    /// Appends pointer, width, height and pitch of rows that the kernel writes.
    pub fn push_write_pitched<T>(&mut self, memory: &mut impl DeviceWritePitched<T>) {
        let (raw, width, height, pitch) = memory.raw_pitched();
        self.push_address::<T>(raw);
        self.push_value(width);
        self.push_value(height);
        self.push_value(pitch);
    }

    /// Appends pointer, width, height and depth of a volume that the kernel writes.
    pub fn push_write_volume<T>(&mut self, memory: &mut impl DeviceWriteVolume<T>) {
        let (raw, width, height, depth) = memory.raw_volume();
        self.push_address::<T>(raw);
        self.push_value(width);
        self.push_value(height);
        self.push_value(depth);
    }

    fn push_slice<T>(&mut self, raw: RawSlice) {
        let len = raw.len;
        self.push_address::<T>(raw);
        self.push_value(len);
    }

    /// A Rust slice is never null, so an empty one gets the smallest aligned address.
    fn push_address<T>(&mut self, raw: RawSlice) {
        let address = if raw.len == 0 { align_of::<T>() as u64 } else { raw.address };
        self.push_value(address);
        self.homes.extend(raw.home);
    }
}

impl fmt::Debug for Args {
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
    fn no_values_have_no_pointers() {
        let args = Args::new();
        assert!(args.is_empty() && args.pointers().is_empty() && args.homes().is_empty());
        assert_eq!(format!("{args:?}"), "Args(0 values of [] bytes)");
    }
}
