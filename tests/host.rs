//! The host crate: memory, streams, launches, errors. With kernels of its own, so that nothing here
//! depends on the ones that ship. Runs on the device that the machine has.

#[path = "host/faults.rs"]
mod faults;
#[path = "host/gate.rs"]
mod gate;
#[path = "host/kernels.rs"]
mod kernels;
#[path = "host/launches.rs"]
mod launches;
#[path = "host/memory.rs"]
mod memory;
#[path = "host/stream_ordered.rs"]
mod stream_ordered;
#[path = "host/streams.rs"]
mod streams;
