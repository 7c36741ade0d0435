//! Products of groups of rows against one product for each group: small integers, whose sums are exact, so bit for bit.

use cuda_std::bf16;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{
    Matrix, MatrixLayout, MatrixMut, Options, Order, grouped_into, grouped_scratch_bytes,
};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use rand::RngExt;
use rand::rngs::StdRng;
use reference::matmul as expected;

use crate::support::{gpu, rng, upload};

/// Rows of each group, columns of D, the length of a sum, the order of each B, and alpha and beta. The first `before` rows are in no group, nor are
/// the last `after`.
#[derive(Clone, Copy, Debug)]
struct Case {
    groups: &'static [usize],
    before: usize,
    after: usize,
    n: usize,
    k: usize,
    order: Order,
    scales: (f64, f64),
}

fn cases() -> Vec<Case> {
    let one = Case {
        groups: &[128, 0, 1, 300, 129, 0],
        before: 0,
        after: 0,
        n: 264,
        k: 136,
        order: Order::RowMajor,
        scales: (1.0, 0.0),
    };
    vec![
        one,
        Case { order: Order::ColumnMajor, ..one },
        // The copy engine does not address it: rows are not a multiple of 16 bytes.
        Case { n: 70, k: 37, ..one },
        // D is stored by threads.
        Case { n: 261, order: Order::ColumnMajor, ..one },
        Case { before: 3, after: 70, groups: &[64, 64, 5], n: 16, scales: (2.0, -1.0), ..one },
        Case { k: 0, groups: &[7, 9], scales: (1.0, 3.0), ..one },
        Case { groups: &[0, 0], after: 5, ..one },
        Case { groups: &[5; 300], n: 8, k: 8, ..one },
    ]
}

fn numbers(rng: &mut StdRng, len: usize) -> Vec<f64> {
    (0..len).map(|_| f64::from(rng.random_range(-3i32..=3))).collect()
}

fn device(numbers: &[f64]) -> DeviceBuffer<bf16> {
    upload(&numbers.iter().map(|x| bf16::from_f64(*x)).collect::<Vec<_>>())
}

fn check(case: Case) {
    let Case { groups, before, after, n, k, order, scales } = case;
    let mut rng = rng();
    let rows = before + groups.iter().sum::<usize>() + after;
    let (x, z) = (numbers(&mut rng, rows * k), numbers(&mut rng, rows * n));
    let y = numbers(&mut rng, groups.len() * k * n);
    let (a, b, mut d) = (device(&x), device(&y), device(&z));
    let ends = groups.iter().scan(before, |end, len| {
        *end += len;
        Some(*end as u32)
    });
    let offsets: Vec<u32> = [before as u32].into_iter().chain(ends).collect();
    let layout = MatrixLayout {
        batches: groups.len(),
        batch_stride: k * n,
        ..MatrixLayout::new(order, k, n)
    };
    let mut scratch = Scratch::new(gpu()).unwrap();
    scratch.reserve(gpu(), grouped_scratch_bytes(rows, groups.len())).unwrap();
    let reserved = scratch.size_bytes();
    grouped_into(
        gpu(),
        Matrix::row_major(&a, rows, k).unwrap(),
        Matrix::new(&b, layout).unwrap(),
        &upload(&offsets),
        MatrixMut::row_major(&mut d, rows, n).unwrap(),
        Options::new().alpha(scales.0 as f32).beta(scales.1 as f32),
        &mut scratch,
    )
    .unwrap();
    assert_eq!(scratch.size_bytes(), reserved);

    let mut right = z.clone();
    for (group, range) in offsets.windows(2).enumerate() {
        let (first, end) = (range[0] as usize, range[1] as usize);
        let one = &y[group * k * n..(group + 1) * k * n];
        // A column-major `k × n` is the transpose of a row-major `n × k`.
        let turned: Vec<f64>;
        let one = match order {
            Order::RowMajor => one,
            Order::ColumnMajor => {
                turned = (0..k * n).map(|i| one[i % n * k + i / n]).collect();
                &turned
            }
        };
        let a = expected::Matrix::row_major(&x[first * k..end * k], end - first, k);
        let b = expected::Matrix::row_major(one, k, n);
        let c = expected::Matrix::row_major(&z[first * n..end * n], end - first, n);
        let products = expected::matmul([&a, &b], scales, Some(&c));
        for (to, product) in right[first * n..end * n].iter_mut().zip(products) {
            *to = product.value;
        }
    }
    let found = d.to_vec().unwrap();
    for (i, (found, right)) in found.into_iter().zip(right).enumerate() {
        let (row, column) = (i / n, i % n);
        assert_eq!(found, bf16::from_f64(right), "{case:?}: row {row}, column {column}");
    }
}

#[test]
fn each_group_has_its_own_matrix() {
    cases().into_iter().for_each(check);
}

/// A product of two groups of 3 rows by 8 × 8, with these offsets, and its D. It may panic: on a device of its own, since a wait of another test on the same
/// stream would be told, too.
fn of_offsets(offsets: &[u32]) -> (GpuResult<()>, Vec<bf16>) {
    let gpu = Gpu::new().unwrap();
    let device =
        |number, len| DeviceBuffer::from_slice(&gpu, &vec![bf16::from_f32(number); len]).unwrap();
    let (a, b, mut d) = (device(1.0, 48), device(1.0, 128), device(5.0, 48));
    let run = |d| {
        let b = Matrix::row_major(&b, 8, 8)?.batched(2, 64)?;
        let offsets = DeviceBuffer::from_slice(&gpu, offsets)?;
        let (a, mut scratch) = (Matrix::row_major(&a, 6, 8)?, Scratch::new(&gpu)?);
        grouped_into(&gpu, a, b, &offsets, d, Options::new(), &mut scratch)?;
        gpu.stream().synchronize()
    };
    let result = run(MatrixMut::row_major(&mut d, 6, 8).unwrap());
    (result, d.to_vec().unwrap())
}

#[test]
fn offsets_that_do_not_fit_are_errors() {
    let (result, d) = of_offsets(&[0, 3, 6]);
    result.unwrap();
    assert_eq!(d, [bf16::from_f32(8.0); 48]);
    let error = of_offsets(&[0, 6]).0.unwrap_err();
    let text = "multiplying groups of rows: 3 elements are needed, 2 were given";
    assert_eq!(error.to_string(), text);
    for wrong in [[0, 4, 3], [0, 3, 7], [7, 7, 7]] {
        let (result, d) = of_offsets(&wrong);
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("the offsets of groups ascend, up to the number of rows"),
            "{error}"
        );
        assert_eq!(d, [bf16::from_f32(5.0); 48], "D stays as it is");
    }
}

#[test]
fn a_batch_or_a_turned_result_is_an_error() {
    let (a, b) = (device(&[1.0; 64]), device(&[1.0; 64]));
    let offsets = upload(&[0u32, 8]);
    let run = |of_a: MatrixLayout, of_d: MatrixLayout| {
        let mut d = device(&[0.0; 128]);
        let (a, b) = (Matrix::new(&a, of_a)?, Matrix::row_major(&b, 8, 8)?);
        let d = MatrixMut::new(&mut d, of_d)?;
        grouped_into(gpu(), a, b, &offsets, d, Options::new(), &mut Scratch::new(gpu())?)
    };
    let layout = MatrixLayout::new(Order::RowMajor, 8, 8);
    let error = run(layout, MatrixLayout::new(Order::ColumnMajor, 8, 8)).unwrap_err();
    assert!(error.to_string().contains("groups are of its rows"), "{error}");
    let batch = MatrixLayout { batches: 2, batch_stride: 64, ..layout };
    let error = run(layout, batch).unwrap_err();
    assert!(error.to_string().contains("groups are rows of one matrix"), "{error}");
}
