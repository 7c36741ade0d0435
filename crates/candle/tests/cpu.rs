//! Tensors of the CPU, which the operations copy to device 0 and back.

mod checks;

use candle_core::{Device, Result};

/// A test of each check, by its name.
macro_rules! on_the_cpu {
    ($($check:ident)*) => {
        $(#[test]
        fn $check() -> Result<()> {
            checks::$check(&Device::Cpu)
        })*
    };
}

on_the_cpu! {
    softmax_is_candles
    norms_are_candles
    gradients_are_those_of_candles_slow_forms
    sorts_are_candles
    halves_and_bytes_are_sorted
    a_part_of_a_tensor_is_taken_where_it_is
    what_is_refused_has_a_reason
    nothing_is_fine
}
