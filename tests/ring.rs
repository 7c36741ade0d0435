//! Memory that host and kernels use at once, and rings. Nothing here may run beside a test that frees
//! memory or waits for the device: a real driver lets those wait for kernels that stay. So this is a
//! program of its own, and its tests take turns.
//!
//! `FERROWARP_RING_MESSAGES` says how many messages the long tests send.

#[path = "ring/automatic.rs"]
mod automatic;
#[path = "ring/frees.rs"]
mod frees;
#[path = "ring/futures.rs"]
mod futures;
#[path = "host/gate.rs"]
mod gate;
#[path = "ring/mapped.rs"]
mod mapped;
#[path = "ring/messages.rs"]
mod messages;
#[path = "ring/planted.rs"]
mod planted;
#[path = "ring/rings.rs"]
mod rings;
#[path = "ring/routers.rs"]
mod routers;
#[path = "ring/shutdown.rs"]
mod shutdown;
#[path = "ring/support.rs"]
mod support;
