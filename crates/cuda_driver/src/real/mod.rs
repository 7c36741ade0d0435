//! The installed NVIDIA driver. It is opened at run time, so that programs link and start without it.

mod library;
pub(crate) mod module;

pub(crate) use library::{Unusable, checked, missing, open};
