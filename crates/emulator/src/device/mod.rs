//! An emulated device, the modules it has loaded, and launches.

mod emulated;
mod launch;
mod module;
mod profile;

pub use crate::exec::grid::Stats;
pub use emulated::{Device, NEWEST_PTX, block_marks};
pub use launch::Launch;
pub use module::{Function, Global, Module};
pub use profile::Profile;
