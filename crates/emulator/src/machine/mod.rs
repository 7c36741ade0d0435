//! The machine that kernels run on: operations, registers, and what a warp, a block and a cluster hold.
//!
//! Decoding ([`program`](crate::program)) makes a [`Program`] of [`Op`]s; execution ([`exec`](crate::exec))
//! runs them on a [`Frame`] of registers and a [`Cx`]. Both stand on the types here, and these know
//! neither.

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
pub use effect::{Effect, Part, Piece, Register};
pub use frame::{Frame, Lane};
pub use observer::{Check, Observer, Place, Touch, TouchRange, Verdict, Watch};
pub use op::{Fault, Flow, Handler, Op, Step};
pub use program::{
    CallSite, Constant, FunctionInfo, LocalVariable, Passed, Program, SharedVariable, Span,
    Spelling, Stack,
};
pub use schedule::{Dice, Schedule};
pub use slots::{ALWAYS, CONSTANT, FULL, LANES, LISTED, NEGATED, Row32, Row64, SINK, lanes};
pub use taint::{Origin, Shadow, Spread, Taint};
pub use warp::{ClusterLanes, Seen, WarpState};
