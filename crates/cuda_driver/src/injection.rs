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

pub use crate::emulated::injected::{Call, Live};

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
