//! The host side of Ferrowarp: a safe layer over the CUDA driver for memory, streams, modules and launches.
//!
//! ```no_run
//! use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
//! use kernels_gpu::elementwise::saxpy;
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
//!
//! # Where to find what
//!
//! | you want | look at |
//! |---|---|
//! | sums, sorts, scans, histograms, softmax, … of your data | [`ops`], one module an operation |
//! | kernels of a PTX text by their names, variables of kernels | [`Module`] |
//! | kernels of your own | `cuda_std` and its `#[kernel]`; [`include_kernels!`] and [`Gpu::with_images`] load them, [`Gpu::load_module`] has them beside `ops` |
//! | memory on the device | [`DeviceBuffer`], [`DeviceBox`], and slices of them; [`DeviceVec`] grows, [`UninitBuffer`] is not written yet |
//! | memory of the host, page-locked, mapped or shared | [`memory`]: [`PinnedBuffer`], [`MappedBuffer`], [`UnifiedBuffer`], [`WriteCombined`], [`RegisteredVec`] |
//! | pools, limits, statistics of memory | [`memory::resource`]; [`PooledBuffer`] is bytes of a pool |
//! | how a launch is shaped | [`LaunchConfig`], [`Grid1`] for kernels that fix their block, [`launch`] for occupancy and batches |
//! | work that overlaps | [`Stream`], [`Event`], [`Pipeline`]; futures in [`completion`]; lazy operations that are composed first, and run on a stream, on a pool or as a graph, in [`operation`] |
//! | many launches as one | [`graph`] |
//! | a persistent kernel that answers messages | [`ring`] |
//! | kernels exchanged while the program runs | [`reload`] |
//! | memory, streams and contexts of other code | [`DeviceBuffer::from_raw_parts`], [`LentBuffer`], [`Stream::from_raw`], [`Gpu::from_context`]; DLPack's tensors in [`dlpack`] |
//! | several devices, or streams for several threads | [`devices`], [`GpuPool`], [`StreamPool`] |
//! | what went wrong | [`GpuError`]; [`KernelPanic`] for panics in kernels |
//! | which device it is, and whether it is emulated | [`Gpu::info`], [`backend`] |
//!
//! The book, in the repository's folder `book`, says when to take which; `ferrowarp new own` writes a project with a
//! kernel crate, a build script and a test. `FERROWARP_DEVICE=cuda` or `emulator` chooses the device.

#[cfg(any(feature = "faer", feature = "ndarray"))]
mod arrays;
mod capture;
pub mod completion;
mod context;
#[cfg(feature = "cust")]
pub mod cust;
mod deferred_frees;
pub mod device;
mod device_sync;
#[cfg(feature = "dlpack")]
pub mod dlpack;
pub mod error;
pub mod event;
mod foreign;
mod gpu;
pub mod graph;
mod host_callback;
pub mod launch;
mod lock;
pub mod memory;
pub mod module;
#[cfg(feature = "nvtx")]
pub mod nvtx;
pub mod operation;
#[cfg(feature = "ops")]
pub mod ops;
pub mod panic;
mod persistent;
pub mod pipeline;
pub mod pool;
mod recorder;
#[cfg(feature = "reload")]
pub mod reload;
pub mod ring;
mod shared_memory;
pub mod shipped;
pub mod stream;
pub mod tensor_map;
mod thread_state;
mod virtual_memory;

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
    DeviceBox, DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceVec, GridMut, HostPages, HostRef,
    HostRefMut, HostScope, HostSlice, HostSliceMut, LentBuffer, MappedAtomics, MappedBox,
    MappedBuffer, MemoryVisibility, PendingCopy, PinnedBox, PinnedBuffer, PinnedOptions,
    PinnedRange, Pitched, PitchedMut, PooledBuffer, RegisteredVec, Transfer, TransferReport,
    UnifiedBox, UnifiedBuffer, UninitBuffer, UninitSlice, VolumeMut, WriteCombined, WriteSlice,
    is_wsl2,
};
pub use module::Module;
pub use operation::DeviceOperation;
pub use panic::KernelPanic;
pub use pipeline::{Buffering, Frame, FrameShape, Pipeline};
pub use pool::{GpuPool, Pooled, StreamPool};
#[cfg(feature = "reload")]
pub use reload::{HotFolder, HotModule};
pub use ring::{Bridge, Caller, PersistentKernel, Receiver, Ring, Router, Sender, WaitStrategy};
pub use stream::{AsStream, Stream};
pub use tensor_map::{TensorLayout, TensorView, TensorViewMut};
