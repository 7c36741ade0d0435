//! Rings: messages between the host and persistent kernels.
//!
//! A launch and the wait for it cost microseconds, which is much where a question is small. A
//! [`PersistentKernel`] is launched once and answers messages: the host sends by a [`Sender`], receives
//! by a [`Receiver`], and the kernel has the other ends (see [`cuda_std::ring`], which describes the
//! method).
//!
//! ```no_run
//! use ferrowarp::{Bridge, Gpu, Grid1, PersistentKernel, Ring};
//! use kernels_gpu::persistent::ring_echo;
//!
//! let gpu = Gpu::new()?;
//! let (sender, requests) = Ring::to_device(&gpu, 256, Bridge::Mapped)?;
//! let (replies, receiver) = Ring::to_host(&gpu, 256)?;
//! let kernel = PersistentKernel::start(&gpu, |launcher| {
//!     ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
//! })?;
//! sender.send(&[42])?;
//! assert_eq!(receiver.recv()?, Some([42]));
//! kernel.shut_down()?;
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! [`Sender::send_async`] and [`Receiver::recv_async`] are futures. A [`Caller`] sends requests of several kinds, and gives
//! each caller its answer. A [`Router`] joins kernels that send messages to each other. A [`WaitStrategy`] says how the
//! host waits for a ring.
//!
//! # While a persistent kernel runs
//!
//! - [`Gpu::synchronize`](crate::Gpu::synchronize) would never return; it is a
//!   [`PersistentKernels`](crate::GpuError::PersistentKernels) error. Wait for streams and events.
//! - The driver's frees wait for the whole device, so what is dropped meanwhile goes back to the driver
//!   later: [`Gpu::deferred_frees`](crate::Gpu::deferred_frees) counts it.
//! - The driver loads no kernel before all that runs has ended, so that the first launch of another one is a
//!   [`LoadWouldBlock`](crate::GpuError::LoadWouldBlock) error: load it before. Pinning and registering memory
//!   may wait for the whole device: do that before, too.
//! - Work on the null stream of another library waits for nothing here: streams of this crate are
//!   non-blocking.
//! - Where the device also draws the screen (WDDM on Windows, desktops), the system ends kernels that run
//!   for seconds.

mod bridge;
mod caller;
mod futures;
mod kernel;
mod memory;
mod receiver;
mod router;
mod sender;
mod wait;
mod waiters;

pub use bridge::Bridge;
pub use caller::{Call, Caller};
pub use cuda_std::ring::{
    Envelope, MessageError, MessageHeader, RingMessage, RingRequest, Telemetry,
};
pub use futures::{RecvFuture, SendFuture};
pub use kernel::{Launcher, PersistentKernel};
pub use memory::{OnDevice, Ring, ToDevice, ToHost};
pub use receiver::Receiver;
pub use router::{Mailboxes, Router};
pub use sender::Sender;
pub use wait::WaitStrategy;

/// The book's page, whose programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/persistent-kernels.md")]
struct Book;
