//! Tensors of a CUDA device, against those of the CPU, which the same kernels compute. Needs the feature `cuda` and a GPU.
#![cfg(feature = "cuda")]

use candle_core::{DType, Device, Result, Tensor};
use ferrowarp_candle::{
    arg_sort_last_dim, layer_norm, rms_norm, softmax_last_dim, sort_last_dim, top_k_last_dim,
};

fn values(shape: &[usize], seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| ((i * 7919 + seed * 104_729) % 20_011) as f32 / 5000.0 - 2.0);
    Tensor::from_vec(values.collect::<Vec<_>>(), shape, &Device::Cpu)
}

fn bits(x: &Tensor) -> Result<Vec<f32>> {
    x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// Asserts that an operation has the same bits on both devices.
fn same(inputs: &[Tensor], operation: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
    let device = Device::new_cuda(0)?;
    let there = inputs.iter().map(|own| own.to_device(&device)).collect::<Result<Vec<_>>>()?;
    let found = operation(&there)?;
    assert!(found.device().is_cuda());
    let expected = operation(inputs)?;
    assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()));
    assert!(bits(&found)? == bits(&expected)?);
    Ok(())
}

#[test]
fn rows_are_those_of_the_cpu() -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for columns in [1, 33, 1000, 5000] {
            let x = values(&[64, columns], 1)?.to_dtype(dtype)?;
            let weights =
                [values(&[columns], 2)?.to_dtype(dtype)?, values(&[columns], 3)?.to_dtype(dtype)?];
            same(&[x.clone()], |x| softmax_last_dim(&x[0]))?;
            let [alpha, beta] = weights;
            same(&[x.clone(), alpha.clone()], |x| rms_norm(&x[0], &x[1], 1e-5))?;
            same(&[x, alpha, beta], |x| layer_norm(&x[0], &x[1], &x[2], 1e-5))?;
        }
    }
    Ok(())
}

#[test]
fn one_row_is_sorted_as_on_the_cpu() -> Result<()> {
    for n in [1, 1000, 100_003] {
        for asc in [true, false] {
            same(&[values(&[n], 4)?], |x| arg_sort_last_dim(&x[0], asc))?;
        }
    }
    Ok(())
}

/// Each result is used before it is complete, and dropped while its user may still wait: the streams order all of it.
#[test]
fn a_chain_needs_no_wait() -> Result<()> {
    same(&[values(&[4096, 1024], 5)?], |x| {
        (0..20).try_fold(x[0].clone(), |x, _| softmax_last_dim(&x))
    })
}

#[test]
fn a_part_is_used_where_it_begins() -> Result<()> {
    same(&[values(&[9, 257], 6)?], |x| softmax_last_dim(&x[0].narrow(0, 2, 5)?))
}

/// With operations of candle's own between.
#[test]
fn rows_are_sorted_as_on_the_cpu() -> Result<()> {
    let x = values(&[5, 3, 701], 7)?;
    same(&[x.clone()], |x| sort_last_dim(&x[0], true).map(|(values, _)| values))?;
    same(&[x.clone()], |x| sort_last_dim(&x[0], false).map(|(_, indices)| indices))?;
    same(&[x.clone()], |x| top_k_last_dim(&x[0], 7, true).map(|(_, indices)| indices))?;
    same(&[values(&[10_000], 8)?], |x| top_k_last_dim(&x[0], 50, false).map(|(values, _)| values))
}
