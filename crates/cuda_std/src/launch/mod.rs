//! The host's side of a kernel: what it takes, with which grid it runs, and who starts it.
//!
//! `#[kernel]` writes, beside each kernel, a `launch` function whose parameters are bounded by the
//! traits here. A host library implements [`Launch`] for its streams, and [`DeviceRead`],
//! [`DeviceReadOne`], [`DeviceWrite`] and [`DeviceWriteGrid`] for its buffers. A user sees only
//! this:
//!
//! ```
//! # use cuda_std::launch::{Args, DeviceRead, DeviceWrite, Kernel, Launch, RawSlice};
//! # struct DeviceBuffer(usize);
//! # impl DeviceBuffer {
//! #     fn from_slice(data: &[f32]) -> Result<Self, std::fmt::Error> { Ok(Self(data.len())) }
//! # }
//! # unsafe impl DeviceRead<f32> for DeviceBuffer {
//! #     fn raw(&self) -> RawSlice<'_> { RawSlice { address: 256, len: self.0, home: None } }
//! #     fn len(&self) -> usize { self.0 }
//! # }
//! # unsafe impl DeviceWrite<f32> for DeviceBuffer {
//! #     fn raw_mut(&mut self) -> RawSlice<'_> { self.raw() }
//! #     fn len(&self) -> usize { self.0 }
//! # }
//! # struct Stream;
//! # impl Launch for Stream {
//! #     type Error = std::fmt::Error;
//! #     unsafe fn launch(
//! #         &self, _: &'static Kernel, config: LaunchConfig, args: &Args<'_>,
//! #     ) -> Result<(), std::fmt::Error> {
//! #         assert_eq!((config.grid.0, args.len()), (1, 5));
//! #         Ok(())
//! #     }
//! # }
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::prelude::*;
//!
//! #[kernel]
//! pub fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
//!     if let Some(y) = y.get_mut(index) {
//!         *y += alpha * x[index.get()];
//!     }
//! }
//!
//! # fn main() -> Result<(), std::fmt::Error> {
//! # let stream = Stream;
//! let x = DeviceBuffer::from_slice(&[1.0, 2.0, 3.0])?;
//! let mut y = DeviceBuffer::from_slice(&[0.0; 3])?;
//! saxpy::launch(&stream, LaunchConfig::for_num_elems(3), 2.0, &x, &mut y)?;
//! # Ok(())
//! # }
//! ```

mod args;
mod config;
#[cfg(all(feature = "cust", not(target_os = "cuda")))]
mod cust;
mod grid;
mod home;
mod instance;
mod memory;

pub use crate::contract::{Contract, ContractError, DynamicShared};
pub use args::{Access, Args, MemoryArg};
pub use config::{
    LaunchConfig, Linear, OneDimensional, Planar, Spatial, ThreeDimensional, TwoDimensional,
};
pub use grid::{AnyGrid, FixedBlock, Grid1, Grid2, Grid3};
pub use home::Home;
pub use instance::Instance;
pub use memory::{
    DeviceAtomics, DeviceConsumer, DeviceProducer, DevicePtr, DeviceRead, DeviceReadOne,
    DeviceWrite, DeviceWriteGrid, DeviceWritePitched, DeviceWriteVolume, KernelValue, RawRing,
    RawSlice, Unordered,
};

/// A kernel as the host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The name of the PTX entry.
    pub name: &'static str,
    /// The entry's parameters, in order. A value without a size has none.
    pub params: &'static [Param],
    /// What the kernel demands of its launch.
    pub contract: Contract,
}

/// One parameter of a PTX entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the kernel; a slice `x` has `x_ptr` and `x_len`.
    pub name: &'static str,
    /// What it holds.
    pub kind: ParamKind,
    /// Its size.
    pub size_bytes: usize,
}

/// How many of these a PTX entry has: those with a size.
#[doc(hidden)]
#[must_use]
pub const fn count_sized(all: &[Param]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < all.len() {
        count += (all[at].size_bytes > 0) as usize;
        at += 1;
    }
    count
}

/// Those with a size; `N` is their [count](count_sized).
#[doc(hidden)]
#[must_use]
pub const fn sized<const N: usize>(all: &[Param]) -> [Param; N] {
    let mut sized = [Param { name: "", kind: ParamKind::Value, size_bytes: 0 }; N];
    let (mut count, mut at) = (0, 0);
    while at < all.len() {
        if all[at].size_bytes > 0 {
            sized[count] = all[at];
            count += 1;
        }
        at += 1;
    }
    sized
}

/// What a parameter of a PTX entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// An address in device memory.
    Pointer,
    /// A number of elements.
    Length,
    /// A value, by copy.
    Value,
}

/// Something that can start kernels: a stream, a device, or a recorder in a test.
#[diagnostic::on_unimplemented(
    message = "a kernel is launched on a device or a stream, and `{Self}` is neither",
    label = "expected a device or a stream, found `{Self}`",
    note = "the first argument of `launch` says where the kernel runs, as in `launch(&gpu, config, …)`"
)]
pub trait Launch {
    /// What can go wrong.
    type Error;

    /// Starts `kernel` with what its contract makes of `config` ([`Contract::apply`]). A grid with a
    /// dimension of 0 runs nothing and succeeds.
    ///
    /// # Errors
    /// Those of the implementation, and a launch that breaks the kernel's contract.
    ///
    /// # Safety
    /// - `args` holds one value for each of `kernel.params`, in order, of its type.
    /// - Pointers among them are valid for what the kernel does with them until it has run.
    /// - `config` has the shape that the kernel's thread index asks for.
    /// - If [`Contract::is_safe`], all this is so with any other values of the same types, too: a graph that records the launch lets
    ///   safe code set them.
    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> Result<(), Self::Error>;
}

/// Something that knows how many blocks of a kernel a device holds at once.
pub trait MeasureOccupancy {
    /// What is known.
    type Occupancy;
    /// What can go wrong.
    type Error;

    /// How many blocks of `kernel`, with the least dynamic shared memory that its contract allows.
    ///
    /// # Errors
    /// Those of the implementation.
    fn occupancy(&self, kernel: &'static Kernel) -> Result<Self::Occupancy, Self::Error>;
}
