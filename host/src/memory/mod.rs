//! Memory on the device.
//!
//! | type | what it is | the host reaches it by |
//! |---|---|---|
//! | [`DeviceBuffer<T>`] | an array | copies |
//! | [`DeviceBox<T>`] | one value | copies |
//! | [`DeviceSlice<T>`], [`DeviceSliceMut<T>`] | a part of an array, borrowed | copies |
//! | [`GridMut<T>`] | an array as rows of equal width, borrowed | copies |
//! | [`PitchedMut<T>`] | rows of equal width at equal distances, borrowed | copies |
//! | [`VolumeMut<T>`] | an array as planes of rows, borrowed | copies |
//! | [`UnifiedBuffer<T>`] | an array that moves between host and device by itself | a plain slice |
//! | [`UnifiedBox<T>`] | one such value | a plain reference |
//!
//! Elements are [`bytemuck::Pod`]: plain data, for which every bit pattern is a value. All memory is
//! aligned to 256 bytes. Every copy is ordered after what was queued for the memory before, and
//! memory of no bytes calls no driver.

mod allocation;
mod boxed;
mod buffer;
pub mod resource;
mod slice;
mod transfer;
mod unified;

pub use boxed::DeviceBox;
pub use buffer::DeviceBuffer;
pub(crate) use resource::{ContextPool, Usage};
pub use slice::{DeviceSlice, DeviceSliceMut, GridMut, PitchedMut, VolumeMut};
pub use unified::{UnifiedBox, UnifiedBuffer};
