//! Reference of `spmv`.

/// `A x` in f64, and for each row the sum of its products' magnitudes, by which rounding is measured.
pub fn spmv(offsets: &[u32], columns: &[u32], values: &[f64], x: &[f64]) -> Vec<(f64, f64)> {
    let row = |ends: &[u32]| {
        let products =
            (ends[0]..ends[1]).map(|i| i as usize).map(|i| values[i] * x[columns[i] as usize]);
        products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()))
    };
    offsets.windows(2).map(row).collect()
}
