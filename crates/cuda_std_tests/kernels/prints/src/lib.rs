//! Kernels that format on the device: they print, or panic with a value of an own type.

#![allow(missing_docs)]

use core::fmt;

use cuda_std::prelude::*;

#[kernel]
pub fn prints(x: &[u32], y: &[f32]) {
    println!();
    println!("plain");
    println!("100% of {} %d %s", x[0]);
    print!("{} ", x[0] + x[1]);
    println!("and {:>8.3}|{:?}|{:#x}", y[0], "naïve", x[1]);
    if x[0] > 0 {
        print!("an expression")
    }
    #[allow(clippy::println_empty_string)]
    {
        println!("");
    }
}

/// One line from each thread.
#[kernel]
pub fn prints_by_thread(words: u32) {
    let own = thread::index_1d();
    println!("line {own} {:0>1$}", own, words as usize);
}

/// Panics with a text of ten characters, `times` times.
#[kernel]
pub fn own_type(times: u32, at: u32) {
    let text = Repeated("0123456789", times as usize);
    if at == thread::index_1d() {
        panic!("{text} {at}");
    }
}

/// A long text without an allocation.
struct Repeated<'a>(&'a str, usize);

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.1).try_for_each(|_| f.write_str(self.0))
    }
}
