//! The driver front as a shared library, `libcuda.so.1`: programs in any language that speak the
//! CUDA driver API run on the emulator unchanged.
//!
//! The functions are those of `cuda_driver`, exported under their C names; `make libcuda` puts the
//! library under its name into `target/libcuda`.

pub use cuda_driver::*;

/// Tells a front that opens `libcuda.so.1` that it found this library and not NVIDIA's.
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
