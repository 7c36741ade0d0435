//! The installed NVIDIA driver. It is opened at run time, so that programs link and start without it.

mod library;
pub(crate) mod module;
mod names;

pub use library::{InstalledDriver, Unusable, installed_driver};
pub(crate) use library::{checked, missing, open};
pub use names::Tried;
