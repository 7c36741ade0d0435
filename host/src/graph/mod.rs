//! Graphs: many launches as one.
//!
//! A [`GraphBuilder`] takes launches in the place of a stream. What each reads and writes is in the
//! types of its arguments, so the order is found: who reads comes after who wrote, who writes after who
//! read and wrote before, and all else runs at the same time. [`build`](GraphBuilder::build) takes the
//! buffers over and makes a [`Graph`], which is launched as one, again and again, for a fraction of the
//! time that its launches would take one by one.
//!
//! ```no_run
//! use ferrowarp::graph::GraphBuilder;
//! use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
//! use kernels_gpu::grid::{saxpy::saxpy, vecadd::vecadd};
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
//! What a graph has nobody else can reach: a buffer is moved into it, borrowed by it for as long as it
//! lives, or shared and only read. [`Stream::capture`](crate::Stream::capture) is the other way in: it
//! takes what ordinary code launches.

mod buffers;
mod builder;
pub(crate) mod capture;
mod dot;
mod error;
mod exec;
mod host;
mod order;
mod parameter;
mod replay;
mod work;

pub use buffers::{GraphBuffers, GraphMemory};
pub(crate) use builder::Bytes;
pub use builder::{GraphBuilder, GraphNode};
pub use error::GraphError;
pub use parameter::{Parameter, Relaunch};
pub use replay::Graph;

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/graphs.md")]
struct Chapter;
