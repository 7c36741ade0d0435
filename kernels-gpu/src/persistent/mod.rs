//! Persistent kernels, which exchange data with the host while they run.
//!
//! * [`ring`]: messages through rings of slots.
//! * [`messages`]: messages of several kinds in one ring.
//! * [`routed`]: kernels that send messages to each other.
//! * [`answer_words`](fn@answer_words): single words in memory that the host maps.

pub mod messages;
pub mod ring;
pub mod routed;
mod zero_copy;

pub use messages::ring_messages;
pub use ring::{ring_echo, ring_relay, ring_saxpy};
pub use routed::{route_add, route_parity, route_rounds};
pub use zero_copy::answer_words;
