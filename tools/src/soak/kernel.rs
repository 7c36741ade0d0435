//! The kernel that is reloaded, and edited to fault.

/// `vecadd`, as a text: for any device, and with the parameters of the shipped kernel's launcher.
pub(super) const PTX: &str = include_str!("../demo/reload.ptx");
