//! Failures on purpose, in the process itself: which calls a piece of work makes of the driver, and
//! what it does if one of them fails. On the emulator only; a GPU's driver is not tampered with.
//!
//! ```
//! use cuda_driver::injection;
//!
//! let work = || { /* driver calls */ };
//! let ((), calls) = injection::watch(work);
//! for nth in 0..calls.len() {
//!     let before = injection::live();
//!     let (_, _) = injection::fail(nth, 700, work);
//!     assert_eq!(injection::live(), before);
//! }
//! ```

use crate::codes::CUresult;
use crate::emulated::injected::{self, Scene};

/// A call of the driver, and what it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: &'static str,
    /// Its answer; the true one also where the caller got 999 in its place.
    pub code: CUresult,
}

/// What programs have made in this process, and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Memory, of whatever kind.
    pub allocations: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, those of libraries too.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Pools of memory, without the devices' own.
    pub pools: usize,
    /// Graphs, as they were made and ready to be launched.
    pub graphs: usize,
}

/// The calls that `work` makes on this thread, in order. What it does on other threads is not seen.
pub fn watch<R>(work: impl FnOnce() -> R) -> (R, Vec<Call>) {
    let (result, scene) = injected::in_scene(Scene::default(), work);
    (result, scene.calls)
}

/// The same, and the call number `nth` (from 0) is not made: it answers `code`.
pub fn fail<R>(nth: usize, code: CUresult, work: impl FnOnce() -> R) -> (R, Vec<Call>) {
    let scene = Scene { fail: Some((nth, code)), ..Scene::default() };
    let (result, scene) = injected::in_scene(scene, work);
    (result, scene.calls)
}

/// What is live now, whoever made it.
pub fn live() -> Live {
    injected::live()
}
