//! The arguments of driver functions: plain pointers for the wrappers of the exported functions.

use std::ffi::c_void;

use crate::abi::*;

/// An argument of a driver function, which callers pass as C has it.
pub trait Argument {
    /// What callers pass.
    type Raw;

    /// The argument as the exported function takes it.
    fn new(raw: Self::Raw) -> Self;
}

impl<T> Argument for Out<T> {
    type Raw = *mut T;
    fn new(raw: *mut T) -> Self {
        Self::from_ptr(raw)
    }
}

impl<T> Argument for In<T> {
    type Raw = *const T;
    fn new(raw: *const T) -> Self {
        Self::from_ptr(raw)
    }
}

impl Argument for HostPtr {
    type Raw = *mut c_void;
    fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }
}

macro_rules! passed_as_they_are {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            type Raw = Self;
            fn new(raw: Self) -> Self {
                raw
            }
        }
    )*};
}

passed_as_they_are!(u8, u16, i32, u32, u64, usize, MemLocation, IpcMemHandle);
passed_as_they_are!(CUhostFn, CUstreamCallback, CUoccupancyB2DSize);

impl<T> Argument for *mut T {
    type Raw = Self;
    fn new(raw: Self) -> Self {
        raw
    }
}
