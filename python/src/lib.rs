//! The extension module `ferrowarp._ferrowarp`: operations of Ferrowarp on arrays of other libraries, exchanged by DLPack.
//!
//! A call goes through these steps; the book's page `bridges.md` says what they mean to a user:
//! 1. `call::Call::new` asks each argument where it is. Arrays of PyTorch and CuPy on a GPU are used on the stream that is the current
//!    one there (`caller`). For others it borrows a stream of the device and asks for the memory, ready on that stream
//!    (`request`).
//! 2. `call::Call::output` allocates results; those of step 1's former kind by the caller's library.
//! 3. `call::Call::run` enqueues the operation on the stream, without Python's lock, and waits for a stream that was borrowed.
//! 4. `call::Call::give` returns the result as an array of the caller's library.
//!
//! The arguments' memory goes back when the call is dropped, after a borrowed stream.

mod array;
mod build;
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
    module.add_class::<ops::sparse::Csr>()?;
    module.add_function(wrap_pyfunction!(build::build, module)?)?;
    module.add_function(wrap_pyfunction!(device::device, module)?)?;
    ops::add(module)
}
