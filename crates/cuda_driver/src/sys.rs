//! The driver API for Rust code that calls it directly: plain pointers as arguments, and a result type.
//!
//! The functions are those of the table (`table.rs`), which also generates the exported C functions that they call:
//! either the installed driver or the emulator answers. They need no driver library at link time. Unlike the exported
//! functions, which hide codes newer than CUDA 11.4 from `cust`, they return every code as it is.
//!
//! ```
//! use cuda_driver::sys::{self, CUresult};
//!
//! let mut count = 0;
//! // SAFETY: no flags are defined, and `count` is writable.
//! let results = unsafe { [sys::cuInit(0), sys::cuDeviceGetCount(&mut count)] };
//! assert_eq!(results, [CUresult::CUDA_SUCCESS; 2]);
//! assert!(count > 0, "there is always the emulated device");
//! ```

mod argument;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

pub use crate::abi::*;
pub use crate::constants::*;
pub use crate::structs::*;

use argument::Argument;

pub use crate::codes::CUresult;
use crate::codes::{CUDA_ERROR_UNKNOWN, ResultCode};
use crate::detail::true_code;
use crate::table::for_each_driver_function;

macro_rules! functions {
    ($($topic:tt {
        $($name:ident($($arg:ident: $type:ty),* $(,)?) $(=> $hook:path)?;)*
    })*) => {
        $($(
            #[doc = concat!("The driver API's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the CUDA driver API requires: each pointer is null if the API allows that, or
            /// valid for what the function does with it, and handles and device addresses come from
            /// this driver.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe fn $name($($arg: <$type as Argument>::Raw),*) -> CUresult {
                // SAFETY: the exported function has the same contract, which the caller keeps.
                finish(unsafe { crate::exports::$name($(<$type as Argument>::new($arg)),*) })
            }
        )*)*
    };
}

for_each_driver_function!(functions);

/// The true code of a call that returned `code` just now.
fn finish(code: ResultCode) -> CUresult {
    CUresult(if code == CUDA_ERROR_UNKNOWN { true_code().unwrap_or(code) } else { code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::CUDA_SUCCESS;
    use crate::detail::{DriverError, finish_call};

    #[test]
    fn codes_that_cust_lacks_are_returned() {
        for code in [46, 222, 912, 999, 4321] {
            let returned = finish_call("cuX", Err(DriverError::from(code)));
            assert_eq!(finish(returned), CUresult(code));
        }
        assert_eq!(finish(CUDA_SUCCESS), CUresult::CUDA_SUCCESS);
    }
}
