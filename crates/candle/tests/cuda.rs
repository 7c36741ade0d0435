//! Tensors of a CUDA device: the checks of `tests/cpu.rs` on them, and against tensors of the CPU, which the same kernels compute. Needs the
//! feature `cuda`. Where candle opens no CUDA device the tests are ignored, and say why; with `FERROWARP_DEVICE=cuda` they fail there.

mod checks;

use std::slice::from_ref;

use candle_core::{DType, Device, Result, Tensor};
use checks::values;
use ferrowarp_candle::{
    arg_sort_last_dim, layer_norm, rms_norm, softmax_last_dim, sort_last_dim, top_k_last_dim,
};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Tests of their functions' names: first the checks that need a device, and then functions without an argument.
macro_rules! trials {
    ($($check:ident)*; $($test:ident)*) => {
        vec![
            $(trial(stringify!($check), || checks::$check(&Device::new_cuda(0)?)),)*
            $(trial(stringify!($test), $test),)*
        ]
    };
}

fn main() {
    let trials = trials! {
        softmax_is_candles
        norms_are_candles
        gradients_are_those_of_candles_slow_forms
        sorts_are_candles
        halves_and_bytes_are_sorted
        a_part_of_a_tensor_is_taken_where_it_is
        what_is_refused_has_a_reason
        nothing_is_fine;
        rows_are_those_of_the_cpu
        one_row_is_sorted_as_on_the_cpu
        a_chain_needs_no_wait
        a_part_is_used_where_it_begins
        rows_are_sorted_as_on_the_cpu
        a_device_with_a_stream_of_its_own_is_served
        a_tensor_of_the_cpu_among_them_is_refused
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A test that is ignored where there is no CUDA device, unless the environment asks for one.
fn trial(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, || {
        let is_required = std::env::var("FERROWARP_DEVICE").is_ok_and(|own| own == "cuda");
        match Device::new_cuda(0) {
            Err(error) if !is_required => {
                // Without the backtrace that candle may add.
                let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
                Ok(Completion::ignored_with(format!("there is no CUDA device: {reason}")))
            }
            _ => run().map(|()| Completion::Completed).map_err(Failed::from),
        }
    })
}

fn bits(x: &Tensor) -> Result<Vec<f32>> {
    x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// Asserts that an operation has the same bits on device 0 and on the CPU.
fn same(inputs: &[Tensor], operation: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    same_on(&Device::new_cuda(0)?, inputs, operation)
}

fn same_on(
    device: &Device,
    inputs: &[Tensor],
    operation: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    let there = inputs.iter().map(|own| own.to_device(device)).collect::<Result<Vec<_>>>()?;
    let found = operation(&there)?;
    assert!(found.device().is_cuda());
    let expected = operation(inputs)?;
    assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()));
    assert!(bits(&found)? == bits(&expected)?);
    Ok(())
}

fn rows_are_those_of_the_cpu() -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for columns in [1, 33, 1000, 5000] {
            let x = values(&[64, columns], 1)?.to_dtype(dtype)?;
            let weights =
                [values(&[columns], 2)?.to_dtype(dtype)?, values(&[columns], 3)?.to_dtype(dtype)?];
            same(from_ref(&x), |x| softmax_last_dim(&x[0]))?;
            let [alpha, beta] = weights;
            same(&[x.clone(), alpha.clone()], |x| rms_norm(&x[0], &x[1], 1e-5))?;
            same(&[x, alpha, beta], |x| layer_norm(&x[0], &x[1], &x[2], 1e-5))?;
        }
    }
    Ok(())
}

fn one_row_is_sorted_as_on_the_cpu() -> Result<()> {
    for n in [1, 1000, 100_003] {
        for asc in [true, false] {
            same(&[values(&[n], 4)?], |x| arg_sort_last_dim(&x[0], asc))?;
        }
    }
    Ok(())
}

/// Each result is used before it is complete, and dropped while its user may still wait: the streams order all of it.
fn a_chain_needs_no_wait() -> Result<()> {
    same(&[values(&[4096, 1024], 5)?], |x| {
        (0..20).try_fold(x[0].clone(), |x, _| softmax_last_dim(&x))
    })
}

fn a_part_is_used_where_it_begins() -> Result<()> {
    same(&[values(&[9, 257], 6)?], |x| softmax_last_dim(&x[0].narrow(0, 2, 5)?))
}

/// With operations of candle's own between.
fn rows_are_sorted_as_on_the_cpu() -> Result<()> {
    let x = values(&[5, 3, 701], 7)?;
    same(from_ref(&x), |x| sort_last_dim(&x[0], true).map(|(values, _)| values))?;
    same(from_ref(&x), |x| sort_last_dim(&x[0], false).map(|(_, indices)| indices))?;
    same(from_ref(&x), |x| top_k_last_dim(&x[0], 7, true).map(|(_, indices)| indices))?;
    same(&[values(&[10_000], 8)?], |x| top_k_last_dim(&x[0], 50, false).map(|(values, _)| values))
}

/// candle's first devices work on the stream of each thread, and those of this kind on one of their own.
fn a_device_with_a_stream_of_its_own_is_served() -> Result<()> {
    let device = Device::new_cuda_with_stream(0)?;
    same_on(&device, &[values(&[2048, 1024], 9)?], |x| {
        (0..10).try_fold(x[0].clone(), |x, _| softmax_last_dim(&x))
    })?;
    same_on(&device, &[values(&[50_000], 10)?], |x| arg_sort_last_dim(&x[0], true))
}

fn a_tensor_of_the_cpu_among_them_is_refused() -> Result<()> {
    let device = Device::new_cuda(0)?;
    let (x, weights) = (values(&[4, 6], 11)?, values(&[6], 12)?);
    let (there, weights_there) = (x.to_device(&device)?, weights.to_device(&device)?);
    for refused in [
        rms_norm(&there, &weights, 1e-5),
        rms_norm(&x, &weights_there, 1e-5),
        layer_norm(&there, &weights, &weights_there, 1e-5),
        layer_norm(&there, &weights_there, &weights, 1e-5),
    ] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("device mismatch"), "{said}");
    }
    Ok(())
}
