//! Memory that copies and fills take, owned or borrowed.

use std::sync::Arc;

use bytemuck::Pod;

use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};

/// Device memory that an operation reads: a [`DeviceBuffer`], a slice of one, a reference or an `Arc`.
#[diagnostic::on_unimplemented(
    message = "an operation cannot copy from `{Self}`",
    note = "pass a `DeviceBuffer`, a `DeviceSlice`, or a reference to one"
)]
pub trait DeviceSource {
    /// The type of its elements.
    type Element: Pod;

    /// The memory.
    fn source(&self) -> DeviceSlice<'_, Self::Element>;
}

/// Device memory that an operation writes: a [`DeviceBuffer`], a slice of one, or a `&mut`.
#[diagnostic::on_unimplemented(
    message = "an operation cannot write `{Self}`",
    note = "pass a `DeviceBuffer`, a `DeviceSliceMut`, or a `&mut` of one"
)]
pub trait DeviceTarget: DeviceSource {
    /// The memory, to be written.
    fn target(&mut self) -> DeviceSliceMut<'_, Self::Element>;
}

impl<T: Pod> DeviceSource for DeviceBuffer<T> {
    type Element = T;

    fn source(&self) -> DeviceSlice<'_, T> {
        self.as_slice()
    }
}

impl<T: Pod> DeviceTarget for DeviceBuffer<T> {
    fn target(&mut self) -> DeviceSliceMut<'_, T> {
        self.as_mut_slice()
    }
}

impl<T: Pod> DeviceSource for DeviceSlice<'_, T> {
    type Element = T;

    fn source(&self) -> DeviceSlice<'_, T> {
        *self
    }
}

impl<T: Pod> DeviceSource for DeviceSliceMut<'_, T> {
    type Element = T;

    fn source(&self) -> DeviceSlice<'_, T> {
        self.as_slice()
    }
}

impl<T: Pod> DeviceTarget for DeviceSliceMut<'_, T> {
    fn target(&mut self) -> DeviceSliceMut<'_, T> {
        self.slice_mut(..)
    }
}

impl<S: DeviceSource + ?Sized> DeviceSource for &S {
    type Element = S::Element;

    fn source(&self) -> DeviceSlice<'_, S::Element> {
        (**self).source()
    }
}

impl<S: DeviceSource + ?Sized> DeviceSource for &mut S {
    type Element = S::Element;

    fn source(&self) -> DeviceSlice<'_, S::Element> {
        (**self).source()
    }
}

impl<S: DeviceTarget + ?Sized> DeviceTarget for &mut S {
    fn target(&mut self) -> DeviceSliceMut<'_, S::Element> {
        (**self).target()
    }
}

impl<S: DeviceSource + ?Sized> DeviceSource for Arc<S> {
    type Element = S::Element;

    fn source(&self) -> DeviceSlice<'_, S::Element> {
        (**self).source()
    }
}
