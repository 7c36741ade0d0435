//! `#[kernel]`: parse the signature once, then write the device's entry and the host's launcher.

mod canonical;
mod contract;
mod device;
mod errors;
mod expand;
mod generic;
mod host;
mod instances;
mod param;
mod parsed;
mod shared;
mod signature;
mod without;

pub use expand::{body, expand};
