//! Tensor cores against sums of integers: every product here is of small whole numbers, whose sums
//! are exact in every type and order.

use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::copy::{Extents, Swizzle, Swizzle128, TensorElement};
use cuda_std::launch::{DevicePtr, Grid1, Grid2};
use cuda_std::matrix::{E4m3, E5m2, Tf32};
use cuda_std::{bf16, f16};
use cuda_std_tests::{done, download, poisoned, upload};
use ferrowarp::{DeviceBuffer, GpuResult, TensorView};
use hopper_kernels::{gemm, matrices, warpgroups};

cuda_std_tests::device!("hopper");

/// A number type, made from small integers; unsigned ones shift them.
trait Number: Pod + PartialEq + Debug {
    /// What `of` makes of an integer from -3 to 3.
    fn value(integer: i64) -> i64 {
        integer
    }
    fn of(integer: i64) -> Self;
}

macro_rules! numbers {
    ($($ty:ty: |$v:ident| $of:expr;)*) => {$(
        impl Number for $ty {
            fn of($v: i64) -> Self {
                $of
            }
        }
    )*};
}

numbers! {
    f16: |v| f16::from_f32(v as f32);
    bf16: |v| bf16::from_f32(v as f32);
    Tf32: |v| Tf32::from_f32(v as f32);
    f32: |v| v as f32;
    f64: |v| v as f64;
    i8: |v| v as i8;
    i32: |v| v as i32;
    E4m3: |v| E4m3::saturating(v as f32);
    E5m2: |v| E5m2::saturating(v as f32);
}

impl Number for u8 {
    fn value(integer: i64) -> i64 {
        integer + 3
    }
    fn of(integer: i64) -> Self {
        Self::value(integer) as u8
    }
}

/// Integers from -3 to 3 without a pattern that a wrong place would keep.
fn integers(n: usize, seed: u64) -> Vec<i64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as i64 % 7 - 3
    };
    (0..n).map(|_| next()).collect()
}

fn numbers<T: Number>(integers: &[i64]) -> DeviceBuffer<T> {
    upload(gpu(), &integers.iter().map(|&v| T::of(v)).collect::<Vec<_>>())
}

/// `Σ a[row, k] b[k, column]` by plain loops.
fn product(
    (m, n, k): (usize, usize, usize),
    a: impl Fn(usize, usize) -> i64,
    b: impl Fn(usize, usize) -> i64,
) -> Vec<i64> {
    let sum = |i: usize| (0..k).map(|l| a(i / n, l) * b(l, i % n)).sum();
    (0..m * n).map(sum).collect()
}

type Kernel<T, U, V> = unsafe fn(u32, DevicePtr<T>, DevicePtr<U>, DevicePtr<V>) -> GpuResult<()>;

/// `c + rounds · a b` of one instruction's shape.
fn mma<T: Number, U: Number, V: Number>(
    name: &str,
    shape: (usize, usize, usize),
    kernel: Kernel<T, U, V>,
) {
    let (m, n, k) = shape;
    for rounds in [0, 1, 3] {
        let (a, b) = (integers(m * k, 1), integers(k * n, 2));
        let c = integers(m * n, 3);
        let sums = numbers::<V>(&c);
        let (left, right) = (numbers::<T>(&a), numbers::<U>(&b));
        let [x, y] = [&a, &b];
        let ab = product(shape, |i, l| T::value(x[i * k + l]), |l, j| U::value(y[l * n + j]));
        let (left, right) = (left.as_device_ptr(), right.as_device_ptr());
        // SAFETY: matrices of the shape.
        done(unsafe { kernel(rounds, left, right, sums.as_device_ptr()) });
        let expected: Vec<V> =
            c.iter().zip(&ab).map(|(c, ab)| V::of(c + i64::from(rounds) * ab)).collect();
        assert_eq!(download(&sums), expected, "{name}, {rounds} rounds");
    }
}

#[test]
fn fragments_of_every_shape_and_type_multiply() {
    macro_rules! check {
        ($($name:ident: $shape:expr;)*) => {$(
            mma(stringify!($name), $shape, |rounds, a, b, c| {
                // SAFETY: the caller's promise.
                unsafe { matrices::$name::launch(gpu(), Grid1::new(1), rounds, a, b, c) }
            });
        )*};
    }
    check! {
        f16_8: (16, 8, 8);
        f16_16: (16, 8, 16);
        f16_8_short: (16, 8, 8);
        f16_16_short: (16, 8, 16);
        bf16_8: (16, 8, 8);
        bf16_16: (16, 8, 16);
        tf32_4: (16, 8, 4);
        tf32_8: (16, 8, 8);
        i8_small: (8, 8, 16);
        i8_u8_small: (8, 8, 16);
        u8_i8_small: (8, 8, 16);
        u8_small: (8, 8, 16);
        i8_16: (16, 8, 16);
        i8_u8_16: (16, 8, 16);
        u8_i8_16: (16, 8, 16);
        u8_16: (16, 8, 16);
        i8_32: (16, 8, 32);
        i8_u8_32: (16, 8, 32);
        u8_i8_32: (16, 8, 32);
        u8_32: (16, 8, 32);
        e4m3_32: (16, 8, 32);
        e4m3_e5m2_32: (16, 8, 32);
        e5m2_e4m3_32: (16, 8, 32);
        e5m2_32: (16, 8, 32);
        f64_small: (8, 8, 4);
        f64_4: (16, 8, 4);
        f64_8: (16, 8, 8);
        f64_16: (16, 8, 16);
    }
}

#[test]
fn fragments_move_through_shared_memory() {
    for (k, by_columns) in [(16, false), (16, true), (8, false), (8, true)] {
        let (a, b) = (integers(16 * k, 4), integers(8 * k, 5));
        let at = |l: usize, j: usize| if by_columns { b[j * k + l] } else { b[l * 8 + j] };
        let expected = product((16, 8, k), |i, l| a[i * k + l], at);
        let (left, right) = (numbers::<f16>(&a), numbers::<f16>(&b));
        let out = poisoned::<f16>(gpu(), 128);
        let (x, y, z) = (left.as_device_ptr(), right.as_device_ptr(), out.as_device_ptr());
        let grid = Grid1::new(1);
        // SAFETY: matrices of the shape.
        done(unsafe {
            match k {
                16 => matrices::moved_16::launch(gpu(), grid, by_columns, x, y, z),
                _ => matrices::moved_8::launch(gpu(), grid, by_columns, x, y, z),
            }
        });
        let expected: Vec<f16> = expected.into_iter().map(f16::of).collect();
        assert_eq!(download(&out), expected, "K = {k}, by columns: {by_columns}");
    }
}

#[test]
fn every_count_of_matrices_is_loaded_and_stored() {
    let x: Vec<u16> = (0..256).map(|i| 1000 + i).collect();
    let memory = upload(gpu(), &x);
    for crossed in [false, true] {
        let out = poisoned::<u16>(gpu(), 6 * 256);
        let (from, to) = (memory.as_device_ptr(), out.as_device_ptr());
        // SAFETY: there is room.
        done(unsafe { matrices::round_trips::launch(gpu(), Grid1::new(1), crossed, from, to) });
        for (trip, values) in download(&out).chunks(256).enumerate() {
            let count = 1 << (trip / 2);
            let expected = (0..256).map(|i| {
                let (matrix, row, column) = (i / 64, i / 8 % 8, i % 8);
                let source = if crossed { column * 8 + row } else { row * 8 + column };
                if matrix < count { x[matrix * 64 + source] } else { 0 }
            });
            assert_eq!(values, expected.collect::<Vec<_>>(), "trip {trip}, crossed: {crossed}");
        }
    }
}

/// 64 × N of `wgmma`, with K of one span, twice.
fn warpgroup<T, U, V, S, A, B>(
    name: &str,
    (n, k): (usize, usize),
    launch: impl Fn(&TensorView<A, S>, &TensorView<B, S>, DevicePtr<V>) -> GpuResult<()>,
) where
    T: Number + TensorElement,
    U: Number + TensorElement,
    V: Number,
    S: Swizzle,
    A: Extents<Element = T>,
    B: Extents<Element = U>,
{
    let (a, b) = (integers(64 * k, 6), integers(n * k, 7));
    let (left, right) = (numbers::<T>(&a), numbers::<U>(&b));
    let x = TensorView::<A, S>::new(left.as_slice(), [64, k]).unwrap();
    let y = TensorView::<B, S>::new(right.as_slice(), [n, k]).unwrap();
    let out = poisoned::<V>(gpu(), 64 * n);
    done(launch(&x, &y, out.as_device_ptr()));
    let ab = product((64, n, k), |i, l| T::value(a[i * k + l]), |l, j| U::value(b[j * k + l]));
    let expected: Vec<V> = ab.into_iter().map(|sum| V::of(2 * sum)).collect();
    assert_eq!(download(&out), expected, "{name}");
}

#[test]
fn warpgroups_multiply_every_width_type_and_swizzle() {
    macro_rules! check {
        ($($name:ident: $n:literal $k:literal;)*) => {$(
            warpgroup(stringify!($name), ($n, $k), |a, b, c| {
                // SAFETY: there is room for 64 × N.
                unsafe { warpgroups::$name::launch(gpu(), Grid1::new(1), a, b, c) }
            });
        )*};
    }
    check! {
        wgmma_bf16_8: 8 64;
        wgmma_bf16_16: 16 64;
        wgmma_bf16_32: 32 64;
        wgmma_bf16_64: 64 64;
        wgmma_bf16_96: 96 64;
        wgmma_bf16_128: 128 64;
        wgmma_bf16_192: 192 64;
        wgmma_bf16_256: 256 64;
        wgmma_bf16_32_wide: 32 32;
        wgmma_bf16_16_wide: 32 16;
        wgmma_f16_64: 64 64;
        wgmma_tf32_64: 64 32;
        wgmma_e4m3_32: 32 128;
        wgmma_e4m3_e5m2: 32 128;
        wgmma_e5m2_e4m3: 16 64;
        wgmma_e5m2_32: 32 128;
        wgmma_i8_64: 64 128;
        wgmma_i8_32: 32 64;
        wgmma_u8_8: 8 32;
        wgmma_u8_128: 128 128;
        wgmma_i8_u8: 64 128;
        wgmma_u8_i8: 32 64;
    }
}

/// `a b` with the left operand in registers.
fn fragments<T, U, V, S, B>(
    name: &str,
    (n, k): (usize, usize),
    launch: impl Fn(DevicePtr<T>, &TensorView<B, S>, DevicePtr<V>) -> GpuResult<()>,
) where
    T: Number,
    U: Number + TensorElement,
    V: Number,
    S: Swizzle,
    B: Extents<Element = U>,
{
    let (a, b) = (integers(64 * k, 12), integers(n * k, 13));
    let (left, right) = (numbers::<T>(&a), numbers::<U>(&b));
    let y = TensorView::<B, S>::new(right.as_slice(), [n, k]).unwrap();
    let out = poisoned::<V>(gpu(), 64 * n);
    done(launch(left.as_device_ptr(), &y, out.as_device_ptr()));
    let ab = product((64, n, k), |i, l| T::value(a[i * k + l]), |l, j| U::value(b[j * k + l]));
    assert_eq!(download(&out), ab.into_iter().map(V::of).collect::<Vec<_>>(), "{name}");
}

#[test]
fn the_left_operand_may_be_in_registers() {
    macro_rules! check {
        ($($name:ident: $n:literal $k:literal;)*) => {$(
            fragments(stringify!($name), ($n, $k), |a, b, c| {
                // SAFETY: there are 64 × K values, and room for 64 × N.
                unsafe { warpgroups::$name::launch(gpu(), Grid1::new(1), a, b, c) }
            });
        )*};
    }
    check! {
        fragments_bf16: 64 64;
        fragments_f16: 16 32;
        fragments_tf32: 32 32;
        fragments_e4m3_e5m2: 32 128;
        fragments_i8_u8: 128 128;
    }
}

#[test]
fn modules_say_the_version_that_their_instructions_need() {
    static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("hopper.rs");
    assert!(IMAGES[0].ptx().contains(".version 8.4\n"), "products of bytes begin with 8.4");
}

#[test]
fn operands_may_be_transposed() {
    let (a, b) = (integers(64 * 64, 8), integers(64 * 64, 9));
    let (left, right) = (numbers::<bf16>(&a), numbers::<bf16>(&b));
    let x = TensorView::<[[bf16; 64]; 64], Swizzle128>::new(left.as_slice(), [64, 64]).unwrap();
    let y = TensorView::new(right.as_slice(), [64, 64]).unwrap();
    let out = poisoned::<f32>(gpu(), 64 * 64);
    // SAFETY: there is room.
    done(unsafe {
        warpgroups::wgmma_columns::launch(gpu(), Grid1::new(1), &x, &y, out.as_device_ptr())
    });
    let expected = product((64, 64, 64), |i, l| a[l * 64 + i], |l, j| b[l * 64 + j]);
    assert_eq!(download(&out), expected.into_iter().map(f32::of).collect::<Vec<_>>());
}

#[test]
fn threads_know_their_warpgroup() {
    let mut out = poisoned::<u32>(gpu(), 256);
    done(warpgroups::wgmma_groups::launch(gpu(), Grid1::new(1), &mut out));
    assert_eq!(download(&out), (0..256).map(|i| 1000 * (i / 128) + i % 128).collect::<Vec<_>>());
}

#[test]
fn a_whole_matrix_product_is_exact() {
    // One tile and one step; whole tiles; every edge ragged; fewer steps than stages, and more.
    for (m, n, k) in [(128, 128, 64), (256, 128, 320), (200, 134, 104), (1, 2, 8), (130, 300, 640)]
    {
        let (a, b) = (integers(m * k, 10), integers(n * k, 11));
        let (left, right) = (numbers::<bf16>(&a), numbers::<bf16>(&b));
        let expected = product((m, n, k), |i, l| a[i * k + l], |l, j| b[j * k + l]);
        let expected: Vec<f32> = expected.into_iter().map(f32::of).collect();
        let x = TensorView::new(left.as_slice(), [m, k]).unwrap();
        macro_rules! check {
            ($kernel:ident, $columns:expr) => {
                let y = TensorView::new(right.as_slice(), [n, k]).unwrap();
                let out = poisoned::<f32>(gpu(), m * n);
                let blocks = |n: usize, tile: usize| n.div_ceil(tile) as u32;
                let grid = Grid2::new(blocks(n, $columns), blocks(m, gemm::TILE));
                let c = out.as_device_ptr();
                // SAFETY: the matrices have these sizes, and `n` is even.
                done(unsafe { gemm::$kernel::launch(gpu(), grid, m, n, k, &x, &y, c) });
                assert!(download(&out) == expected, "{}, {m} × {n} × {k}", stringify!($kernel));
            };
        }
        check!(gemm, gemm::COLUMNS);
        check!(gemm_wide, gemm::WIDE);
    }
}
