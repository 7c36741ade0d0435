//! The exported C functions, one for each row of the table.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use crate::abi::*;
use crate::codes::ResultCode;
use crate::foreign::entry_point;
use crate::structs::*;
use crate::table::for_each_driver_function;
use crate::{before_init, emulated, front, real};

macro_rules! exports {
    ($($topic:tt {
        $($name:ident($($arg:ident: $type:ty),* $(,)?) $(=> $hook:path)?;)*
    })*) => {
        /// The address of the exported function `name`.
        pub(crate) fn address(name: &str) -> Option<*const c_void> {
            match name {
                $($(stringify!($name) => Some($name as *const c_void),)*)*
                _ => None,
            }
        }

        $($(
            #[doc = concat!("The driver API's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As the CUDA driver API requires: each pointer is null if the API allows that, or
            /// valid for what the function does with it, and handles and device addresses come from
            /// this driver.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> ResultCode {
                serve!($topic, $name, ($($arg),*), ($($hook)?))
            }
        )*)*
    };
}

macro_rules! serve {
    (before_init, $name:ident, ($($arg:ident),*), ()) => {
        front::respond(stringify!($name), || before_init::$name($($arg),*))
    };
    (entry_point, $name:ident, ($($arg:ident),*), ()) => {
        front::respond_quietly(stringify!($name), || entry_point::$name($($arg),*))
    };
    ($topic:tt, $name:ident, ($($arg:ident),*), ()) => {
        front::forward(
            stringify!($name),
            // SAFETY: the real function of the same signature; its contract is the caller's.
            |symbols| symbols.$name.map(|function| unsafe { function($($arg),*) }),
            || emulate!($topic, $name, ($($arg),*)),
        )
    };
    ($topic:tt, $name:ident, ($($arg:ident),*), ($hook:path)) => {
        front::call(
            stringify!($name),
            |symbols| $hook(symbols, $($arg),*),
            || emulate!($topic, $name, ($($arg),*)),
        )
    };
}

macro_rules! emulate {
    (unsupported, $name:ident, $args:tt) => {
        Err(emulated::unsupported(stringify!($name)))
    };
    ([$($topic:ident)::+], $name:ident, ($($arg:ident),*)) => {
        emulated::$($topic::)+$name($($arg),*)
    };
    ($topic:ident, $name:ident, ($($arg:ident),*)) => {
        emulated::$topic::$name($($arg),*)
    };
}

for_each_driver_function!(exports);
