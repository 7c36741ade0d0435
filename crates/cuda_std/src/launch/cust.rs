//! Memory of the released `cust` as arguments of launchers.
//!
//! Its types know no stream, so their home is [`Unordered`]. `DeviceSlice` is left out: it is `Copy` and has no
//! lifetime, so safe code can hold one of memory that was freed, or two mutable ones of the same memory.
//!
//! The compiler's messages do not recommend these types, so that they do not depend on the feature.

use super::{DeviceRead, DeviceReadOne, DeviceWrite, RawSlice, Unordered};
use bytemuck::Pod;
use cust::memory::{DeviceBox, DeviceBuffer, DeviceCopy, UnifiedBox, UnifiedBuffer};

fn raw(address: u64, len: usize) -> RawSlice<'static> {
    RawSlice { address, len, home: Some(Unordered::home()) }
}

/// Implements the traits for a type of `cust`, whose memory begins at `$address` and has `$len` elements.
macro_rules! memory {
    ($($name:ident: |$own:ident| $address:expr, |$counted:ident| $len:expr;)*) => {$(
        // SAFETY: the driver allocated the memory, aligned to 256 bytes, and all of it is initialised: the functions of
        // cust that leave it uninitialised are unsafe. It is freed with `self`, which is borrowed until the launch
        // returns, and by its home the launch waits for the kernel.
        #[diagnostic::do_not_recommend]
        unsafe impl<T: DeviceCopy + Pod> DeviceRead<T> for $name<T> {
            fn raw(&self) -> RawSlice<'_> {
                let $own = self;
                raw($address, DeviceRead::len(self))
            }

            fn len(&self) -> usize {
                let $counted = self;
                $len
            }
        }

        // SAFETY: as above; the borrow is exclusive, and every bit pattern is a value of a `Pod` type.
        #[diagnostic::do_not_recommend]
        unsafe impl<T: DeviceCopy + Pod> DeviceWrite<T> for $name<T> {
            fn raw_mut(&mut self) -> RawSlice<'_> {
                DeviceRead::raw(self)
            }

            fn len(&self) -> usize {
                DeviceRead::len(self)
            }
        }
    )*};
}

memory! {
    DeviceBuffer: |own| own.as_device_ptr().as_raw(), |own| own.as_slice().len();
    DeviceBox: |own| own.as_device_ptr().as_raw(), |_own| 1;
    UnifiedBuffer: |own| own.as_slice().as_ptr().expose_provenance() as u64, |own| own.as_slice().len();
    UnifiedBox: |own| own.as_unified_ptr().as_raw().expose_provenance() as u64, |_own| 1;
}

// SAFETY: as for `DeviceRead`, with one element.
#[diagnostic::do_not_recommend]
unsafe impl<T: DeviceCopy + Pod> DeviceReadOne<T> for DeviceBox<T> {
    fn raw_one(&self) -> RawSlice<'_> {
        DeviceRead::raw(self)
    }
}

// SAFETY: as above.
#[diagnostic::do_not_recommend]
unsafe impl<T: DeviceCopy + Pod> DeviceReadOne<T> for UnifiedBox<T> {
    fn raw_one(&self) -> RawSlice<'_> {
        DeviceRead::raw(self)
    }
}
