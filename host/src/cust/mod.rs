//! rust-cuda's released host crate, [`cust` 0.3.2](https://docs.rs/cust/0.3.2), with this one (feature `cust`).
//!
//! Launchers of kernels and the operations of [`ops`](crate::ops) take `cust`'s `DeviceBuffer`, `DeviceBox`, `UnifiedBuffer`
//! and `UnifiedBox` wherever they take this crate's types, and a [`CustStream`] wherever they take a stream. A
//! [`Gpu`] and `cust::quick_init` use the same context, the device's primary one; `cust` asks for it to be current on the
//! thread, so call `quick_init` first and keep what it returns. `cust`'s errors become [`GpuError`]s with `?`.
//!
//! ```no_run
//! use cust::memory::{CopyDestination, DeviceBuffer, UnifiedBuffer};
//! use ferrowarp::{Gpu, LaunchConfig, ops};
//! use kernels_gpu::elementwise::saxpy;
//!
//! let _context = cust::quick_init()?;
//! let gpu = Gpu::new()?;
//! let x = UnifiedBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
//! let mut y = DeviceBuffer::from_slice(&[10.0f32; 3])?;
//! saxpy::launch(&gpu, LaunchConfig::for_num_elems(3), 2.0, &x, &mut y)?;
//! let mut host = [0.0; 3];
//! y.copy_to(&mut host)?;
//! assert_eq!(host, [12.0, 14.0, 16.0]);
//! assert_eq!(ops::reduce::sum(&gpu, &y)?, 42.0);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # A launch with `cust`'s memory waits
//!
//! `cust`'s types do not know which stream uses them: a buffer can be freed, copied or read by the host as soon as a borrow
//! ends. So a launch with one waits for the device's default stream, where `cust`'s own copies are, then for the
//! kernel, and returns its panic or fault. This crate's types have a home stream, and their launches return at once.
//! Graphs and batches, which launch later, refuse `cust`'s memory, and so do launches with rings and mapped atomics.
//! [`DeviceBuffer::from_cust`] makes a buffer of this crate of one of `cust`'s, without a copy.
//!
//! `examples/16_cust_steps.rs` moves a program from `cust` to this crate one call at a time.
//!
//! `cust`'s `DeviceSlice` and `DevicePointer` are not accepted: they are `Copy` and have no lifetime (hole 2 below). Memory of
//! a context other than the `Gpu`'s is an error; [`Gpu::from_context`] opens that of a program which makes one with `cust::context::legacy`.
//!
//! # What is unsound or missing in `cust` 0.3.2
//!
//! This crate cannot change what safe functions of `cust` do. The table says what closes each hole: a type of this crate that
//! takes its place, or the driver of this project, through which `cust` calls.
//!
//! | # | in `cust` 0.3.2 | closed by |
//! |---|---|---|
//! | 1 | `DeviceBuffer::cast` and `try_cast` to an element of another size free the buffer that they return | [`DeviceSlice::cast`](crate::DeviceSlice::cast), which borrows |
//! | 2 | `DeviceSlice` is `Copy` without a lifetime: use after free, two mutable views | [`DeviceSlice`](crate::DeviceSlice) and [`DeviceSliceMut`](crate::DeviceSliceMut) borrow; launchers here do not take `cust`'s |
//! | 3 | `Stream::new` drops `NON_BLOCKING`, so all streams wait for each other at each synchronous copy | [`Stream`](crate::Stream) |
//! | 4 | `Stream::add_callback` takes a closure that may borrow, and it never runs after a fault | [`Stream::launch_host_func`](crate::Stream::launch_host_func) |
//! | 5 | a result newer than CUDA 11.4 is an invalid value of a Rust enum | `cuda_driver` returns such a code to `cust` as 999; the [`GpuError`] has the true one |
//! | 6 | `ModuleJitOption::DetermineTargetFromContext` passes an option without its value | `cuda_driver` reads no value for that option, so pass it last; [`Gpu::with_images`] has no such option |
//! | 7 | `LockedBox` and `UnifiedBox` of a type without a size dereference null | [`PinnedBox`](crate::PinnedBox), [`UnifiedBox`](crate::UnifiedBox) |
//! | 8 | `launch!` checks neither the number nor the types of the arguments, nor the dimensions | the launcher that `#[kernel]` generates, which takes `cust`'s memory |
//! | 9 | no log of the PTX compiler; error 222 is `UnknownError` | the [`GpuError`] made of `cust`'s has the log and the code |
//! | 10 | no more than 48 KiB of shared memory, no pools, peers, graphs, cooperative or cluster launches | the launchers, [`memory`](crate::memory), [`graph`](crate::graph) |
//! | 11 | `JitTarget` ends at 8.6 | [`Gpu::with_images`] selects the image for the device |
//! | 12 | `drop_async` trusts any stream; memory of `new_async` is freed with `cuMemFree` | [`DeviceBuffer::zeroed_async`](crate::DeviceBuffer::zeroed_async) |
//! | 13 | buffers do not keep their context alive; a drop on a thread without a current context leaks | every type of this crate keeps the context, and each call binds it |
//! | 14 | `wait_event` consumes the event; `zeroed(0)` calls the driver with a null address; the occupancy helper can overflow | [`Stream::wait_event`](crate::Stream::wait_event), [`DeviceBuffer::zeroed`](crate::DeviceBuffer::zeroed), [`Occupancy`](crate::Occupancy) |
//!
//! `cust`'s build script looks for a CUDA library at build time: see the book's chapter "Coming from rust-cuda". Without this
//! feature neither a CUDA toolkit nor `CUDA_LIBRARY_PATH` is needed.

mod error;
mod memory;
mod stream;

pub use stream::CustStream;

#[cfg(doc)]
use crate::{DeviceBuffer, Gpu, GpuError};
