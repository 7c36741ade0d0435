//! The host side of Ferrowarp: a safe layer over `cust` for memory, streams, modules and launches.
//!
//! ```no_run
//! use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
//! use kernels_gpu::grid::saxpy::saxpy;
//!
//! let gpu = Gpu::new()?; // a GPU, or the emulator where there is none
//! let x = DeviceBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
//! let mut y = DeviceBuffer::from_slice(&gpu, &[10.0f32; 3])?;
//! saxpy::launch(&gpu, LaunchConfig::for_num_elems(x.len()), 2.0, &x, &mut y)?;
//! assert_eq!(y.to_vec()?, [12.0, 14.0, 16.0]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! Safe code cannot race, use memory after its end, or launch a kernel with arguments that it does
//! not take: lengths and limits are checked, lifetimes and types do the rest, and [`stream`] says
//! how the uses of a buffer are kept in order.

pub mod bench;
pub mod cli;
pub mod completion;
mod context;
pub mod demo;
pub mod device;
pub mod error;
pub mod event;
mod gpu;
pub mod graph;
pub mod kernels;
pub mod launch;
pub mod memory;
pub mod module;
#[cfg(feature = "nvtx")]
pub mod nvtx;
pub mod ops;
pub mod panic;
pub mod pipeline;
pub mod pool;
#[path = "../../tests/reference/mod.rs"]
pub mod reference;
pub mod reload;
pub mod ring;
mod shared_memory;
mod stack;
pub mod stream;
pub mod tensor_map;

// The driver's functions that `cust` calls come from this crate.
extern crate cuda_driver as _;
// What `cuda_builder` writes names this crate, here too.
extern crate self as ferrowarp;

pub use completion::{Completion, HostCall};
pub use cuda_driver::Backend;
pub use cuda_std::launch::{
    Grid1, Grid2, Grid3, Kernel, Launch, LaunchConfig, Linear, Planar, Spatial,
};
pub use device::{DeviceInfo, backend, devices};
pub use error::{GpuContext, GpuError, GpuResult};
pub use event::Event;
pub use gpu::Gpu;
pub use graph::{Graph, GraphBuilder};
pub use launch::{Batch, Occupancy};
pub use memory::{
    DeviceBox, DeviceBuffer, DeviceSlice, DeviceSliceMut, GridMut, HostPages, HostScope, HostSlice,
    HostSliceMut, MappedAtomics, MappedBox, MappedBuffer, MemoryVisibility, PendingCopy, PinnedBox,
    PinnedBuffer, PinnedOptions, PinnedPart, Pitched, PitchedMut, RegisteredVec, Transfer,
    TransferReport, UnifiedBox, UnifiedBuffer, VolumeMut, WriteCombined, WriteSlice,
};
pub use panic::KernelPanic;
pub use pipeline::{Buffering, Frame, FrameShape, Pipeline};
pub use pool::{GpuPool, Pooled, StreamPool};
pub use reload::HotModule;
pub use ring::{Bridge, PersistentKernel, Receiver, Ring, Sender};
pub use stream::{AsStream, Stream};
pub use tensor_map::{TensorLayout, TensorView, TensorViewMut};
