//! Graphs: many launches as one.
//!
//! A [`GraphBuilder`] takes launches in place of a stream. The types of a launch's arguments say
//! what it reads and writes, and the dependencies follow from that: a reader depends on the last
//! writer, a writer on the last writer and on all readers since, and everything else may run
//! concurrently. [`build`](GraphBuilder::build) takes ownership of the buffers and makes a
//! [`Graph`], which is launched as one, again and again, for a fraction of the time that its
//! launches would take one by one.
//!
//! ```no_run
//! use ferrowarp::graph::GraphBuilder;
//! use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
//! use kernels_gpu::elementwise::{saxpy, vecadd};
//!
//! let gpu = Gpu::new()?;
//! let config = LaunchConfig::for_num_elems(3);
//! let x = DeviceBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
//! let mut y = DeviceBuffer::from_slice(&gpu, &[10.0f32; 3])?;
//! let mut sum = DeviceBuffer::zeroed(&gpu, 3)?;
//!
//! let builder = GraphBuilder::new(&gpu);
//! let scale = builder.node("scale");
//! saxpy::launch(&scale, config, 2.0, &x, &mut y)?;
//! vecadd::launch(&builder, config, &x, &y, &mut sum)?;
//! let mut graph = builder.build((x, y, sum))?;
//!
//! graph.launch(&gpu)?;
//! let (_, _, sum) = graph.wait()?;
//! assert_eq!(sum.to_vec()?, [13.0, 16.0, 19.0]);
//!
//! let alpha = graph.parameter::<f32>(&scale, "alpha")?;
//! graph.set(alpha, -1.0)?;
//! graph.buffers_mut().1.copy_from_host(&[0.0; 3])?;
//! graph.launch(&gpu)?;
//! assert_eq!(graph.wait()?.2.to_vec()?, [0.0; 3]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! No other code can reach the memory of a graph: a buffer is moved into it, borrowed by it for as
//! long as it lives, or shared and only read. [`Stream::capture`](crate::Stream::capture) is the
//! other way to make one: it records what ordinary code launches.

//!
//! # What does not compile
//!
//! A buffer that a graph has is not used beside it, and no kernel reads and writes one at once:
//!
//! ```compile_fail,E0382
//! # use ferrowarp::{DeviceBuffer, GpuResult, Graph, GraphBuilder};
//! fn twice(first: GraphBuilder, second: GraphBuilder, x: DeviceBuffer<f32>) -> GpuResult<()> {
//!     let (one, other) = (first.build(x)?, second.build(x)?); // moved, and moved again
//!     Ok(())
//! }
//! ```
//! ```compile_fail,E0502
//! # use ferrowarp::{DeviceBuffer, GpuResult, GraphBuilder, LaunchConfig};
//! # use kernels_gpu::elementwise::saxpy;
//! fn aliased(builder: &GraphBuilder, mut x: DeviceBuffer<f32>) -> GpuResult<()> {
//!     saxpy::launch(builder, LaunchConfig::for_num_elems(x.len()), 2.0, &x, &mut x)
//! }
//! ```
//! ```compile_fail,E0502
//! # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, Graph};
//! fn kept(gpu: &Gpu, mut graph: Graph<DeviceBuffer<f32>>) -> GpuResult<Vec<f32>> {
//!     let x = graph.buffers();
//!     graph.launch(gpu)?; // while its buffers are lent
//!     x.to_vec()
//! }
//! ```
//! ```compile_fail,E0502
//! # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, GraphBuilder};
//! fn lent(gpu: &Gpu, mut x: DeviceBuffer<f32>) -> GpuResult<()> {
//!     let mut child = GraphBuilder::new(gpu).build(&x)?;
//!     let parent = GraphBuilder::new(gpu);
//!     parent.node("child").graph(&mut child)?;
//!     let mut parent = parent.build(&mut x)?; // while the child may still read it
//!     child.launch(gpu)?;
//!     parent.launch(gpu)
//! }
//! ```
//! ```compile_fail,E0277
//! # use ferrowarp::{DeviceBuffer, GpuResult, GraphBuilder};
//! fn cell(builder: GraphBuilder, x: std::cell::RefCell<DeviceBuffer<f32>>) -> GpuResult<()> {
//!     builder.build(x).map(drop) // others could change it
//! }
//! ```
//! ```compile_fail,E0133
//! # use ferrowarp::{DeviceBuffer, GpuResult, Graph, graph::Parameter};
//! fn trusted(mut graph: Graph<DeviceBuffer<f32>>, len: Parameter<u64>) -> GpuResult<()> {
//!     graph.set_unchecked(len, 1 << 40) // a length that the kernel may trust
//! }
//! ```
//! ```compile_fail,E0373
//! # use ferrowarp::{GpuResult, GraphBuilder};
//! fn borrowed(builder: &GraphBuilder, mut calls: u32) -> GpuResult<()> {
//!     builder.node("count").host(|| calls += 1) // the graph lives longer
//! }
//! ```

mod buffers;
mod builder;
mod child;
mod dot;
mod exec;
mod foreign;
mod host;
mod host_buffer;
mod operation;
mod optimize;
mod order;
mod parameter;
mod replay;

pub use crate::error::GraphError;
pub use crate::foreign::ForeignMemory;
pub(crate) use buffers::Memory;
pub use buffers::{GraphBuffers, GraphMemory, Scratch};
pub use builder::{GraphBuilder, GraphNode};
pub use host_buffer::{HostBuffer, HostMemory};
pub use optimize::{Change, Optimization};
pub use parameter::{Parameter, Relaunch};
pub use replay::Graph;

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/graphs.md")]
struct Chapter;
