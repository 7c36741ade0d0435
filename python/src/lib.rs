//! The extension module `ferrowarp._ferrowarp`: operations of Ferrowarp on arrays of other libraries, exchanged by DLPack.
//!
//! A call goes through these steps; the book's page `bridges.md` says what they mean to a user:
//! 1. [`call::Call::new`] asks each argument where it is, borrows a stream of that device, and asks for the memory, ready on that
//!    stream.
//! 2. [`call::Call::run`] enqueues the operation on the stream and waits for it, without Python's lock.
//! 3. [`call::Call::give`] hands the result to the caller's library.
//!
//! The arguments' memory goes back when the call is dropped, after its stream.

mod array;
mod call;
mod caller;
mod device;
mod dtype;
mod error;
mod input;
mod kind;
mod module;
mod ops;
mod request;

use pyo3::prelude::*;

#[pymodule]
fn _ferrowarp(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add_class::<array::Array>()?;
    module.add_class::<device::DeviceInfo>()?;
    module.add_class::<module::Module>()?;
    module.add_class::<module::Function>()?;
    module.add_function(wrap_pyfunction!(device::device, module)?)?;
    ops::add(module)
}
