//! Reference of matrix products, in f64, and a bound on the rounding of each element.

/// A matrix in a slice: element (i, j) is `i * leading + j` of a row-major one, `j * leading + i` of a column-major one.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The elements, those between the rows (or columns) included.
    pub values: &'a [f64],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Elements from one row to the next, or from one column to the next.
    pub leading: usize,
    /// Whether the elements of a column are contiguous.
    pub is_column_major: bool,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix without gaps.
    pub fn row_major(values: &'a [f64], rows: usize, columns: usize) -> Self {
        Self { values, rows, columns, leading: columns, is_column_major: false }
    }

    /// The element in a row and column.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        assert!(row < self.rows && column < self.columns, "({row}, {column}) is outside");
        let (major, minor) = if self.is_column_major { (column, row) } else { (row, column) };
        self.values[major * self.leading + minor]
    }

    /// Matrix `batch` of those that lie `stride` elements apart.
    pub fn batch(self, batch: usize, stride: usize) -> Self {
        Self { values: &self.values[batch * stride..], ..self }
    }
}

/// One element of `alpha · A·B + beta · C`, with what its rounding is measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Its value.
    pub value: f64,
    /// `|alpha| · Σ |a b|`.
    pub magnitude: f64,
    /// `|beta · c|`.
    pub addend: f64,
}

/// Element (`row`, `column`) of `alpha · A·B + beta · C`. Without C, or with a beta of 0, nothing is added, not even a NaN.
///
/// Panics if the matrices do not fit.
pub fn element(
    [a, b]: [&Matrix; 2],
    (alpha, beta): (f64, f64),
    c: Option<&Matrix>,
    (row, column): (usize, usize),
) -> Product {
    assert_eq!(a.columns, b.rows, "columns of A and rows of B");
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for k in 0..a.columns {
        let product = a.at(row, k) * b.at(k, column);
        sum += product;
        magnitude += product.abs();
    }
    let addend = c.filter(|_| beta != 0.0).map_or(0.0, |c| beta * c.at(row, column));
    Product {
        value: alpha * sum + addend,
        magnitude: (alpha * magnitude).abs(),
        addend: addend.abs(),
    }
}

/// All elements of `alpha · A·B + beta · C`, row by row.
///
/// Panics if the matrices do not fit.
pub fn matmul([a, b]: [&Matrix; 2], scales: (f64, f64), c: Option<&Matrix>) -> Vec<Product> {
    let places = (0..a.rows).flat_map(|row| (0..b.columns).map(move |column| (row, column)));
    places.map(|place| element([a, b], scales, c, place)).collect()
}

/// How a kind of product rounds: relative errors, each a largest one.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    /// Of an input, on its way to the multiplication.
    pub input: f64,
    /// Of a product, beside the rounding of its inputs: 0 where products are exact.
    pub product: f64,
    /// Of each of the K additions, relative to the partial sum.
    pub sum: f64,
    /// Of the scaling by alpha and of adding `beta · c`: those of the sums' type.
    pub scale: f64,
    /// Of the result's type.
    pub output: f64,
    /// The largest error of a result that is subnormal.
    pub least: f64,
    /// The K after which a sum is added to others by f32 additions that round to the nearest; `usize::MAX` if all of K is one sum.
    pub chain: usize,
}

/// Half of the distance from 1 to the next f32, and to the next f64.
const F32: f64 = 1.0 / (1u64 << 24) as f64;
const F64: f64 = f64::EPSILON / 2.0;

impl Rounding {
    /// f32 by fused multiply-adds: a rounding to the nearest for each of them.
    pub const ORDINARY: Self = Self {
        input: 0.0,
        product: 0.0,
        sum: F32,
        scale: F32,
        output: F32,
        least: 0.0,
        chain: usize::MAX,
    };

    /// f64, on tensor cores as on ordinary ones: a rounding to the nearest for each multiply-add.
    pub const DOUBLE: Self = Self { sum: F64, scale: F64, output: F64, ..Self::ORDINARY };

    /// bf16, f16 or i8 on tensor cores, with a result of f32.
    ///
    /// Products are exact. The terms of an addition, four or more products and the sum so far, are aligned to the largest
    /// and cut off (not rounded) at 24 bits or later, as is the result (Fasi, Higham, Mikaitis and Pranesh, "Numerical
    /// behavior of NVIDIA tensor cores", 2021): at most 2^-23 of the largest term for each term, so (1 + 2/4) · 2^-23 for
    /// each product, below 2^-22.
    pub const TENSOR: Self = Self { sum: 4.0 * F32, ..Self::ORDINARY };

    /// f32 as TF32, whose significand has 11 bits: inputs are rounded to the nearest, 2^-11.
    pub const TF32: Self = Self { input: 1.0 / 2048.0, ..Self::TENSOR };

    /// f32 as three products of TF32. An input is the sum of two TF32 but for 2^-22 of it; the product of the two lower
    /// parts, at most 2^-22, is left out. Each of the K steps adds three products.
    pub const THREE_TF32: Self =
        Self { input: 4.0 * F32, product: 4.0 * F32, sum: 3.0 * 4.0 * F32, ..Self::TENSOR };

    /// 8-bit floats on Hopper's tensor cores, which add 128 products along K; ordinary cores add these sums.
    ///
    /// Products are exact. The 32 products of an instruction and the sum so far are aligned to the largest and cut off behind 13 bits: at most 2^-13
    /// of the largest term for each of the 33, and 2^-13 of it for the result, so 34/32 · 2^-13 for each product.
    pub const FP8: Self = Self { sum: 34.0 / 32.0 / 8192.0, chain: 128, ..Self::ORDINARY };

    /// [`FP8`](Self::FP8) with scales: those of a block are multiplied (a rounding), the sum of each 128 is added in a fused operation, which is one more
    /// than the additions between sums; or those of a row and of a column are multiplied to the sum one after the other. D's scale is the last
    /// rounding. That is at most 4 for each product.
    pub const SCALED_FP8: Self = Self { product: 4.0 * F32, ..Self::FP8 };

    /// These bounds with a result of `E4m3`, whose subnormal numbers are 2^-9 apart; a value beyond the largest number is that.
    pub const fn to_e4m3(self) -> Self {
        Self { output: 1.0 / 16.0, least: 1.0 / 1024.0, ..self }
    }

    /// These bounds with a result of bf16.
    pub const fn to_bf16(self) -> Self {
        Self { output: 1.0 / 256.0, ..self }
    }

    /// These bounds with a result of f16, whose subnormal numbers are 2^-24 apart.
    pub const fn to_f16(self) -> Self {
        Self { output: 1.0 / 2048.0, least: F32 / 2.0, ..self }
    }

    /// The largest difference of an element of `k` products from its value.
    ///
    /// By Higham ("Accuracy and Stability of Numerical Algorithms", 2002, section 3.1) the computed sum is that of
    /// `a b (1 + e)` with `|e| <= (1 + input)^2 (1 + product) (1 + sum)^k - 1`, where a sum has at most `chain` of the `k` products, and the sums
    /// of chains are added in f32; alpha and `beta · c` add two roundings; the
    /// whole is rounded to the output.
    pub fn bound(&self, k: usize, element: &Product) -> f64 {
        let scaling = 2.0 * self.scale.ln_1p();
        let chains_before = k.saturating_sub(1) / self.chain;
        let of_sum =
            k.min(self.chain) as f64 * self.sum.ln_1p() + chains_before as f64 * F32.ln_1p();
        let of_products = 2.0 * self.input.ln_1p() + self.product.ln_1p();
        let before = element.magnitude * (of_sum + of_products + scaling).exp_m1()
            + element.addend * scaling.exp_m1();
        before + self.output * (element.value.abs() + before) + self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_leading_dimensions_are_places_of_one_matrix() {
        let rows = [1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0];
        let columns = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        let by_rows = Matrix { leading: 4, ..Matrix::row_major(&rows, 2, 3) };
        let by_columns =
            Matrix { leading: 2, is_column_major: true, ..Matrix::row_major(&columns, 2, 3) };
        for (i, j) in [(0, 0), (0, 2), (1, 0), (1, 1)] {
            assert_eq!(by_rows.at(i, j), (3 * i + j + 1) as f64);
            assert_eq!(by_columns.at(i, j), by_rows.at(i, j));
        }
        let batches = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(Matrix::row_major(&batches, 1, 2).batch(2, 2).at(0, 1), 5.0);
    }

    #[test]
    fn a_product_written_out() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, -6.0, 7.0, 8.0]);
        let (a, b) = (Matrix::row_major(&a, 2, 2), Matrix::row_major(&b, 2, 2));
        let c = [1.0, 1.0, 1.0, f64::NAN];
        let c = Matrix::row_major(&c, 2, 2);
        let found = matmul([&a, &b], (2.0, 10.0), Some(&c));
        assert_eq!(found[1], Product { value: 30.0, magnitude: 44.0, addend: 10.0 });
        assert_eq!(found[0].value, 48.0);
        assert!(found[3].value.is_nan());
        // A beta of zero does not read C.
        let found = matmul([&a, &b], (1.0, 0.0), Some(&c));
        assert_eq!(found[3], Product { value: 14.0, magnitude: 50.0, addend: 0.0 });
        // An empty K.
        let (a, b) = (Matrix::row_major(&[], 2, 0), Matrix::row_major(&[], 0, 2));
        assert_eq!(matmul([&a, &b], (1.0, 10.0), Some(&c))[0].value, 10.0);
    }

    /// Sums of f32 in order are within the bound, and those of bf16 are not within that of f32.
    #[test]
    fn a_bound_holds_and_is_not_idle() {
        let (k, mut state) = (1000, 1u32);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let (a, b): (Vec<f32>, Vec<f32>) = (0..k).map(|_| (next(), next())).unzip();
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let (left, right) = (wide(&a), wide(&b));
        let (left, right) = (Matrix::row_major(&left, 1, k), Matrix::row_major(&right, k, 1));
        let expected = element([&left, &right], (1.0, 0.0), None, (0, 0));
        let sum = a.iter().zip(&b).fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
        let bound = Rounding::ORDINARY.bound(k, &expected);
        assert!((f64::from(sum) - expected.value).abs() <= bound);
        let cut = |x: &f32| f32::from_bits(x.to_bits() & 0xffff_0000);
        let sum = a.iter().zip(&b).fold(0.0f32, |sum, (a, b)| cut(a).mul_add(cut(b), sum));
        assert!((f64::from(sum) - expected.value).abs() > bound);
        assert!(bound < 1e-2 && Rounding::DOUBLE.bound(k, &expected) < 1e-10);
        let one = Product { value: 1.0, magnitude: 1.0, addend: 0.0 };
        assert!(Rounding::TENSOR.to_bf16().bound(1, &one) > 1.0 / 256.0);
        assert!(Rounding::TENSOR.to_f16().bound(1, &Product { value: 0.0, ..one }) > F32 / 2.0);
    }
}
