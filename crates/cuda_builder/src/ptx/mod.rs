//! From the compiler's PTX to the text that is loaded: passes over the text, which [`finish`] runs in this order.
//!
//! | pass | what it does |
//! |---|---|
//! | [`inlined_at`] | removes the calls by which code was inlined from the lines |
//! | [`atomics`] | writes the order of atomic read-modify-writes, which LLVM drops |
//! | [`address_spaces`] | moves statics into shared and constant memory |
//! | [`dynamic_alignment`] | raises the alignment of dynamic shared memory to what kernels ask for |
//! | [`param_alignment`] | raises the alignment of parameters whose memory is used |
//! | [`weak_functions`] | removes helper functions that nothing calls |
//! | [`collectives`] | refuses a collective operation that the compiler duplicated |
//! | [`launch_bounds`] | writes `.maxntid` and its like into the headers of kernels |
//! | [`panic::handler_traps`] | replaces panics inside the panic handler by traps |
//! | [`panic::table`] | writes the table of panic locations, templates and value types; removes the formatting code that it makes unused |
//! | `ptx_format::panic` | removes the rest of the panic handler that no panic of the text needs |
//! | [`panic::polls`] | removes the polls for panics of other threads, where nothing panics |
//! | [`isa_version`] | raises `.version` to what inline assembly uses |
//! | [`ftz`] | writes `.ftz`, if the option asks for it |
//! | [`source_files`] | names source files relative to the workspace, or removes lines |
//! | [`parts`] | finds the module parts and writes their index |
//!
//! [`graph`] and [`line_edits`] are what several passes use. [`parts::merge`] is not a pass: it puts kernels that were
//! compiled again into an earlier text.

mod address_spaces;
mod atomics;
mod collectives;
mod dynamic_alignment;
mod error;
mod finish;
mod ftz;
mod graph;
mod inlined_at;
mod isa_version;
mod launch_bounds;
mod line_edits;
mod panic;
mod param_alignment;
mod parts;
mod source_files;
mod weak_functions;

pub use error::PtxError;
pub(crate) use finish::{Options, finish};
pub(crate) use panic::polls::has_report as can_panic;
pub(crate) use parts::merge::{Merged, merge};
pub use parts::with_parts;
pub(crate) use source_files::named as files;
