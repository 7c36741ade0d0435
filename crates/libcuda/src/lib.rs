//! The driver front as a shared library, `libcuda.so.1`: programs in any language that use the CUDA
//! driver API run on the emulator unchanged.
//!
//! It exports the functions of `cuda_driver` under their C names. `make libcuda` puts it into
//! `target/libcuda` under that file name.

pub use cuda_driver::*;

/// By this symbol a front that opens `libcuda.so.1` recognizes this library, rather than NVIDIA's.
#[unsafe(no_mangle)]
pub static FERROWARP_LIBCUDA: u8 = 1;

/// Runs when the library is loaded, before any call.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// No program that loads the library reads results into `cust`'s enum.
extern "C" fn at_load() {
    return_every_code();
}
