//! The functions of the table by name: the names that this crate exports, and the symbols of the
//! real driver's library.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

use crate::abi::*;
use crate::codes::ResultCode;
use crate::structs::*;
use crate::table::for_each_driver_function;

macro_rules! symbols {
    ($($topic:tt {
        $($name:ident($($arg:ident: $type:ty),* $(,)?) $(=> $hook:path)?;)*
    })*) => {
        /// The real driver's functions; `None` where the installed driver has no such symbol.
        #[allow(non_snake_case, dead_code, reason = "a hooked row calls another row's symbol")]
        pub(crate) struct Symbols {
            $($(pub(crate) $name: Option<unsafe extern "C" fn($($type),*) -> ResultCode>,)*)*
        }

        impl Symbols {
            /// Looks up every function in an opened driver library.
            ///
            /// # Safety
            /// `library` is the CUDA driver, and stays open as long as the functions are used.
            pub(crate) unsafe fn load(library: &Library) -> Self {
                Self {
                    // SAFETY: the driver's function of this name has this row's signature.
                    $($($name: unsafe { symbol(library, concat!(stringify!($name), "\0")) },)*)*
                }
            }
        }

        /// The name of every driver function that this crate exports.
        pub const FUNCTIONS: &[&str] = &[$($(stringify!($name),)*)*];
    };
}

for_each_driver_function!(symbols);

/// The library's function of this name, if it has one. The name ends with a NUL.
///
/// # Safety
/// `F` is the function's type, and the library stays open while it is used.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `F` is a function pointer, by the caller's promise.
    address(library, name).map(|address| unsafe { std::mem::transmute_copy(&address) })
}

/// The address of a symbol. Not generic: there are hundreds of function types.
fn address(library: &Library, name: &str) -> Option<*mut c_void> {
    // SAFETY: an address is not called here.
    unsafe { library.get::<*mut c_void>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}
