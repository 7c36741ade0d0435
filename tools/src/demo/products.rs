//! Demos of matrix products, the steps from a loop to tensor cores, and of attention.

use super::arrays::floats;
use super::{Check, Outcome, Scale, timed};
use cuda_std::number::bf16;
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{self, Band, Heads, HeadsLayout, HeadsMut, attention_into};
use ferrowarp::ops::matmul::{self, Matrix, MatrixMut, Options};
use reference::attention as of_attention;
use reference::matmul::{self as expected, Rounding};

type Operation = fn(&Gpu, Matrix<'_, bf16>, Matrix<'_, bf16>, MatrixMut<'_, bf16>) -> GpuResult<()>;

/// Elements of D that are compared.
const SAMPLES: usize = 100;

pub(super) fn naive(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    step(gpu, scale, |gpu, a, b, d| matmul::naive_into(gpu, a, b, d, Options::new()))
}

pub(super) fn tiled(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    step(gpu, scale, |gpu, a, b, d| matmul::tiled_into(gpu, a, b, d, Options::new()))
}

pub(super) fn registers(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    step(gpu, scale, |gpu, a, b, d| matmul::registers_into(gpu, a, b, d, Options::new()))
}

pub(super) fn warps(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    step(gpu, scale, |gpu, a, b, d| matmul::warps_into(gpu, a, b, d, Options::new()))
}

pub(super) fn chosen(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let mut scratch = Scratch::new(gpu)?;
    product(gpu, scale, Rounding::TENSOR, |a, b, d| {
        matmul::matmul_into(gpu, a, b, d, Options::new(), &mut scratch)
    })
}

fn step(gpu: &Gpu, scale: Scale, run: Operation) -> GpuResult<Outcome> {
    // The bound for tensor cores holds for ordinary ones, too.
    product(gpu, scale, Rounding::TENSOR, |a, b, d| run(gpu, a, b, d))
}

/// Two square matrices of bf16. The difference of each sample is counted in units of what rounding explains.
fn product(
    gpu: &Gpu,
    scale: Scale,
    rounding: Rounding,
    mut run: impl FnMut(Matrix<'_, bf16>, Matrix<'_, bf16>, MatrixMut<'_, bf16>) -> GpuResult<()>,
) -> GpuResult<Outcome> {
    let side = scale.product;
    let values =
        |seed| -> Vec<bf16> { floats(side * side, seed).into_iter().map(bf16::from_f32).collect() };
    let (a, b) = (values(21), values(22));
    let (on_a, on_b) = (DeviceBuffer::from_slice(gpu, &a)?, DeviceBuffer::from_slice(gpu, &b)?);
    let mut d = DeviceBuffer::<bf16>::zeroed(gpu, side * side)?;
    let time = timed(gpu, || {
        run(
            Matrix::row_major(&on_a, side, side)?,
            Matrix::row_major(&on_b, side, side)?,
            MatrixMut::row_major(&mut d, side, side)?,
        )
    })?;
    let found = d.to_vec()?;
    let samples = (0..SAMPLES).map(|sample| sample * 7919 % (side * side)).map(|index| {
        let (i, j) = (index / side, index % side);
        let row: Vec<f64> = a[i * side..][..side].iter().map(|x| x.to_f64()).collect();
        let column: Vec<f64> = b[j..].iter().step_by(side).map(|x| x.to_f64()).collect();
        let (row, column) = (
            expected::Matrix::row_major(&row, 1, side),
            expected::Matrix::row_major(&column, side, 1),
        );
        let product = expected::element([&row, &column], (1.0, 0.0), None, (0, 0));
        let bound = rounding.to_bf16().bound(side, &product);
        (found[index].to_f64() / bound, product.value / bound)
    });
    let check = Check::within(1.0, samples);
    let rate = 2.0 * (side as f64).powi(3) / time.as_secs_f64() / 1e12;
    let size = format!("{side}³, {rate:.*} TFLOP/s", if rate < 10.0 { 2 } else { 0 });
    Ok(Outcome { size, time, bytes: 6 * side * side, check, picture: None })
}

type Attention = fn(
    &Gpu,
    Heads<'_, bf16>,
    [Heads<'_, bf16>; 2],
    HeadsMut<'_, bf16>,
    &mut Scratch,
) -> GpuResult<()>;

pub(super) fn attention_textbook(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    attend(gpu, scale, |gpu, q, [k, v], o, _| {
        attention::textbook_into(gpu, q, k, v, o, attention::Options::new().score(Band::CAUSAL))
    })
}

pub(super) fn attention_online(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    attend(gpu, scale, |gpu, q, [k, v], o, _| {
        attention::online_into(gpu, q, k, v, o, attention::Options::new().score(Band::CAUSAL))
    })
}

pub(super) fn attention(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    attend(gpu, scale, |gpu, q, [k, v], o, scratch| {
        let options = attention::Options::new().score(Band::CAUSAL);
        attention_into(gpu, q, k, v, o, options, scratch)
    })
}

/// Eight heads of queries, which share two of keys, with a causal mask. The difference of each sample is counted in units of what rounding explains.
fn attend(gpu: &Gpu, scale: Scale, run: Attention) -> GpuResult<Outcome> {
    const HEADS: usize = 8;
    const KV_HEADS: usize = 2;
    const DEPTH: usize = 64;
    let len = scale.product;
    let of_q = HeadsLayout::by_head([1, HEADS, len, DEPTH]);
    let of_k = HeadsLayout::by_head([1, KV_HEADS, len, DEPTH]);
    let values = |heads, seed| -> Vec<bf16> {
        floats(heads * len * DEPTH, seed).into_iter().map(bf16::from_f32).collect()
    };
    let (q, k, v) = (values(HEADS, 23), values(KV_HEADS, 24), values(KV_HEADS, 25));
    let [on_q, on_k, on_v] = [&q, &k, &v].map(|host| DeviceBuffer::from_slice(gpu, host));
    let (on_q, on_k, on_v) = (on_q?, on_k?, on_v?);
    let mut o = DeviceBuffer::<bf16>::zeroed(gpu, q.len())?;
    let mut scratch = Scratch::new(gpu)?;
    let time = timed(gpu, || {
        let q = Heads::new(&on_q, of_q)?;
        let keys = [Heads::new(&on_k, of_k)?, Heads::new(&on_v, of_k)?];
        run(gpu, q, keys, HeadsMut::new(&mut o, of_q)?, &mut scratch)
    })?;
    let found = o.to_vec()?;
    let row = |of: &[bf16], row: usize| -> Vec<f64> {
        of[row * DEPTH..][..DEPTH].iter().map(|x| x.to_f64()).collect()
    };
    let samples = (0..SAMPLES / 10).map(|sample| sample * 7919 % (HEADS * len)).flat_map(|at| {
        let first = at / len / (HEADS / KV_HEADS) * len;
        let seen = at % len + 1;
        let keys: Vec<_> = (0..seen).map(|key| row(&k, first + key)).collect();
        let values: Vec<_> = (0..seen).map(|key| row(&v, first + key)).collect();
        let scale = 1.0 / (DEPTH as f64).sqrt();
        let of_row =
            of_attention::row(&row(&q, at), seen, |i| &keys[i], |i| &values[i], scale, |_, s| s);
        let found = row(&found, at);
        (0..DEPTH).map(move |i| {
            let bound = of_attention::Rounding::BF16.bound(&of_row, DEPTH, i);
            (found[i] / bound, of_row.values[i] / bound)
        })
    });
    let check = Check::within(1.0, samples);
    let operations = 2.0 * (HEADS * DEPTH * len * (len + 1)) as f64;
    let rate = operations / time.as_secs_f64() / 1e12;
    let size =
        format!("{HEADS} heads of {len}, {rate:.*} TFLOP/s", if rate < 10.0 { 2 } else { 0 });
    Ok(Outcome { size, time, bytes: 2 * (2 * q.len() + 2 * k.len()), check, picture: None })
}
