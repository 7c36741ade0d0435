//! The emulated machine: the types that decoding and execution share.
//!
//! Decoding ([`program`](crate::program)) turns PTX into a [`Program`] of [`Op`]s. Execution
//! ([`exec`](crate::exec)) runs these operations on the registers of a [`Frame`] and on the state
//! that a [`Cx`] holds: the warp, the block, the cluster and the launch. Nothing here depends on
//! either of the two.

pub mod address_map;
pub mod block;
pub mod checks;
pub mod cluster;
pub mod context;
pub mod copies;
pub mod effect;
pub mod frame;
pub mod matrix_plan;
pub mod mbarrier;
pub mod observer;
pub mod op;
pub mod program;
pub mod schedule;
pub mod slots;
pub mod stream_order;
pub mod taint;
pub mod warp;

pub use address_map::{LOCAL_BASE, LOCAL_SPAN, MAX_LOCAL_BYTES, PARAM_BASE, SHARED_BASE, WINDOW};
pub use block::{Arrival, BlockState};
pub use checks::Checks;
pub use cluster::{ClusterState, Life, Peer, Shape};
pub use context::{Cx, LaunchContext};
pub use copies::{Completion, Landing, WarpCopies};
pub use effect::{BitCopy, Effect, ElementRegister, Register};
pub use frame::{Frame, Lane};
pub use observer::{Check, MemoryLocation, Observer, Touch, TouchRange, Verdict, Watch};
pub use op::{Fault, Flow, Handler, Op, Step};
pub use program::{
    CallSite, Constant, FunctionInfo, LocalVariable, PassedRegister, Program, SharedVariable, Span,
    Spelling, Stack,
};
pub use schedule::{Dice, Schedule};
pub use slots::{ALWAYS, CONSTANT, FULL, LANES, LISTED, NEGATED, Row32, Row64, SINK, lanes};
pub use taint::{Origin, RegisterHasher, Shadow, Taint};
pub use warp::{ClusterLanes, LastRead, WarpState};
