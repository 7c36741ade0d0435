//! Printing from kernels, and assertions.
//!
//! `print!` and `println!` format as they do anywhere in Rust; a `%` is a `%`. What a thread prints
//! comes out when the host waits for the kernel, in pieces of up to 255 bytes: a line that is
//! shorter is never torn by those of other threads. What is longer comes in several pieces. A kernel
//! that prints needs the registers and the stack of the formatting code.

use core::ffi::c_void;
#[cfg(target_os = "cuda")]
use core::fmt::{self, Write};

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[doc(hidden)]
    pub fn vprintf(format: *const u8, arguments: *const c_void) -> i32;
    #[doc(hidden)]
    pub fn __assertfail(
        message: *const c_void,
        file: *const c_void,
        line: u32,
        function: *const c_void,
        char_size: usize,
    );
}

/// The driver's printing function; on the host there is none.
///
/// # Safety
/// It is never called.
#[cfg(not(target_os = "cuda"))]
#[doc(hidden)]
pub unsafe extern "C" fn vprintf(_format: *const u8, _arguments: *const c_void) -> i32 {
    panic!("`vprintf` runs only on the GPU")
}

/// The driver's failing assertion; on the host there is none.
///
/// # Safety
/// It is never called.
#[cfg(not(target_os = "cuda"))]
#[doc(hidden)]
pub unsafe extern "C" fn __assertfail(
    _message: *const c_void,
    _file: *const c_void,
    _line: u32,
    _function: *const c_void,
    _char_size: usize,
) {
    panic!("`__assertfail` runs only on the GPU")
}

/// Bytes that are printed at once, and the zero after them.
#[cfg(target_os = "cuda")]
const PIECE: usize = 256;

/// Prints, as `print!` does.
#[doc(hidden)]
#[cfg(target_os = "cuda")]
#[inline(never)]
pub fn print(text: fmt::Arguments<'_>) {
    let mut printer =
        Printer { bytes: [const { core::mem::MaybeUninit::uninit() }; PIECE], used: 0 };
    let _ = printer.write_fmt(text);
    printer.flush();
}

/// On the host it prints like the standard library.
#[doc(hidden)]
#[cfg(not(target_os = "cuda"))]
pub fn print(text: core::fmt::Arguments<'_>) {
    std::print!("{text}");
}

/// Collects text, and prints it in pieces.
#[cfg(target_os = "cuda")]
struct Printer {
    bytes: [core::mem::MaybeUninit<u8>; PIECE],
    used: usize,
}

#[cfg(target_os = "cuda")]
impl Write for Printer {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes() {
            if self.used == PIECE - 1 {
                self.flush();
            }
            // A zero would end the piece.
            self.bytes[self.used % PIECE].write(if byte == 0 { b' ' } else { byte });
            self.used += 1;
        }
        Ok(())
    }
}

#[cfg(target_os = "cuda")]
impl Printer {
    #[inline(never)]
    fn flush(&mut self) {
        if self.used == 0 {
            return;
        }
        self.bytes[self.used % PIECE].write(0);
        let text: *const u8 = self.bytes.as_ptr().cast();
        // SAFETY: the format is `%s`, and the text at its pointer ends in a zero.
        unsafe { vprintf(c"%s".as_ptr().cast(), (&raw const text).cast()) };
        self.used = 0;
    }
}

/// Prints text from a kernel, as the standard library's `print!` does on the host.
///
/// It comes out when the host waits for the kernel.
#[macro_export]
macro_rules! print {
    ($($part:tt)*) => {
        $crate::io::print(::core::format_args!($($part)*))
    };
}

/// Prints a line from a kernel, as the standard library's `println!` does on the host.
#[macro_export]
macro_rules! println {
    () => {
        $crate::io::print(::core::format_args!("\n"))
    };
    ($($part:tt)*) => {
        $crate::io::print(::core::format_args!("{}\n", ::core::format_args!($($part)*)))
    };
}

/// Panics unless both are equal, and shows them.
///
/// `assert_eq!` without a path is `core`'s, which does the same.
///
#[macro_export]
macro_rules! assert_eq {
    ($left:expr, $right:expr $(,)?) => {
        $crate::assert_relation!(==, $left, $right, "")
    };
    ($left:expr, $right:expr, $($message:tt)+) => {
        $crate::assert_relation!(==, $left, $right, ": {}", ::core::format_args!($($message)+))
    };
}

/// Panics if both are equal, and shows them.
///
/// `assert_ne!` without a path is `core`'s, which does the same.
///
#[macro_export]
macro_rules! assert_ne {
    ($left:expr, $right:expr $(,)?) => {
        $crate::assert_relation!(!=, $left, $right, "")
    };
    ($left:expr, $right:expr, $($message:tt)+) => {
        $crate::assert_relation!(!=, $left, $right, ": {}", ::core::format_args!($($message)+))
    };
}

/// `assert_eq!` and `assert_ne!`.
#[doc(hidden)]
#[macro_export]
macro_rules! assert_relation {
    ($relation:tt, $left:expr, $right:expr, $form:literal $(, $message:expr)?) => {
        match (&$left, &$right) {
            (left, right) => {
                if !(*left $relation *right) {
                    ::core::panic!(
                        ::core::concat!(
                            "assertion `left {} right` failed", $form,
                            "\n  left: {:?}\n right: {:?}"
                        ),
                        ::core::stringify!($relation) $(, $message)?, *left, *right
                    )
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn assertions_say_what_differs() {
        let fails = |run: fn()| {
            let panic = std::panic::catch_unwind(run).expect_err("it does not hold");
            panic.downcast_ref::<String>().expect("a text").clone()
        };
        let text = fails(|| crate::assert_eq!(1, 2));
        std::assert_eq!(text, "assertion `left == right` failed\n  left: 1\n right: 2");
        let text = fails(|| crate::assert_ne!(1.5, 1.5, "of {}", "two"));
        std::assert_eq!(text, "assertion `left != right` failed: of two\n  left: 1.5\n right: 1.5");
        crate::assert_eq!([1, 2], [1, 2], "with a message");
        crate::assert_ne!("a", "b",);
    }

    #[test]
    fn on_the_host_text_is_printed() {
        crate::print!("a {} ", 1);
        crate::println!();
        crate::println!("b {}%", 2);
    }
}
