//! What happens to a sum on its way from the tensor cores to memory.
//!
//! An [`Epilogue`] is a functor as in [`functor`](crate::functor): a plain struct whose fields are its captured values. It
//! maps one f32 to one f32, and may read three operands beside: the element of C, a vector with an element for each
//! row of D, and one with an element for each column. [`OPERANDS`](Epilogue::OPERANDS) says which; the others are
//! never loaded.

use bytemuck::NoUninit;
use cuda_std::intrinsics::{fast_expf, fast_fdividef};

/// What an epilogue sees of one element of D. All values are f32, whatever the matrices hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// `alpha · (A·B)[row][column] + beta · C[row][column]`.
    pub value: f32,
    /// `C[row][column]`, not multiplied; 0 unless [`Operands::c`].
    pub c: f32,
    /// The element of the vector of rows at `row`; 0 unless [`Operands::per_row`].
    pub per_row: f32,
    /// The element of the vector of columns at `column`; 0 unless [`Operands::per_column`].
    pub per_column: f32,
    /// The row in D.
    pub row: u32,
    /// The column in D.
    pub column: u32,
    /// The matrix of the batch.
    pub batch: u32,
}

/// Which operands an epilogue reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// C, as [`Entry::c`]. C is read for `beta · C` in any case, where `beta` is not 0.
    pub c: bool,
    /// A vector of as many elements as D has rows, for all matrices of a batch.
    pub per_row: bool,
    /// A vector of as many elements as D has columns, for all matrices of a batch.
    pub per_column: bool,
}

impl Operands {
    /// None.
    pub const NONE: Self = Self { c: false, per_row: false, per_column: false };
    /// C.
    pub const C: Self = Self { c: true, ..Self::NONE };
    /// The vector of rows.
    pub const PER_ROW: Self = Self { per_row: true, ..Self::NONE };
    /// The vector of columns.
    pub const PER_COLUMN: Self = Self { per_column: true, ..Self::NONE };

    /// What either reads.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            c: self.c || other.c,
            per_row: self.per_row || other.per_row,
            per_column: self.per_column || other.per_column,
        }
    }
}

/// From the sum to the element of D, which the kernel then rounds to D's type. It may carry captured values.
///
/// A matrix product lists the kernels of an epilogue with [`instances!`](crate::instances):
///
/// ```
/// use cuda_std::prelude::*;
/// use kernels_gpu::matmul::{Entry, Epilogue};
///
/// /// `value` where it is above a threshold, else 0.
/// #[derive(Clone, Copy)]
/// pub struct Above {
///     pub threshold: f32,
/// }
///
/// impl Epilogue for Above {
///     fn apply(self, entry: Entry) -> f32 {
///         if entry.value > self.threshold { entry.value } else { 0.0 }
///     }
/// }
/// # fn main() {}
/// ```
pub trait Epilogue: Copy + 'static {
    /// The operands that [`apply`](Self::apply) reads.
    const OPERANDS: Operands = Operands::NONE;

    /// The element of D.
    fn apply(self, entry: Entry) -> f32;
}

/// The value as it is.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Plain;

impl Epilogue for Plain {
    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        entry.value
    }
}

/// Adds the vector of columns: the bias of a linear layer whose outputs are D's columns.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnBias;

impl Epilogue for ColumnBias {
    const OPERANDS: Operands = Operands::PER_COLUMN;

    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        entry.value + entry.per_column
    }
}

/// Adds the vector of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowBias;

impl Epilogue for RowBias {
    const OPERANDS: Operands = Operands::PER_ROW;

    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        entry.value + entry.per_row
    }
}

/// Adds C to what another epilogue gave: a residual connection around an activation. (One before the activation is
/// `beta = 1`.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Residual;

impl Epilogue for Residual {
    const OPERANDS: Operands = Operands::C;

    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        entry.value + entry.c
    }
}

/// Limits to `low..=high`; NaN stays NaN.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Clamp {
    #[allow(missing_docs)]
    pub low: f32,
    #[allow(missing_docs)]
    pub high: f32,
}

impl Epilogue for Clamp {
    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        let x = entry.value;
        if x < self.low {
            self.low
        } else if x > self.high {
            self.high
        } else {
            x
        }
    }
}

/// Negative values become 0; NaN stays NaN.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relu;

impl Epilogue for Relu {
    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        if entry.value < 0.0 { 0.0 } else { entry.value }
    }
}

/// [`gelu`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Gelu;

impl Epilogue for Gelu {
    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        gelu(entry.value)
    }
}

/// [`gelu_tanh`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GeluTanh;

impl Epilogue for GeluTanh {
    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        gelu_tanh(entry.value)
    }
}

/// [`silu`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Silu;

impl Epilogue for Silu {
    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        silu(entry.value)
    }
}

/// `F`, and `G` of what it gave.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Then<F, G>(pub F, pub G);

impl<F: Epilogue, G: Epilogue> Epilogue for Then<F, G> {
    const OPERANDS: Operands = F::OPERANDS.or(G::OPERANDS);

    #[inline(always)]
    fn apply(self, entry: Entry) -> f32 {
        let value = self.0.apply(entry);
        self.1.apply(Entry { value, ..entry })
    }
}

/// The Gaussian error linear unit, `x Φ(x)`, by the error function (Hendrycks and Gimpel, 2016). Absolute error below
/// `|x| 2^-22`; NaN for negative infinity.
#[inline(always)]
#[must_use]
pub fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + cuda_std::intrinsics::erff(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// The approximation of [`gelu`] by a hyperbolic tangent (same source): `x/2 (1 + tanh u)` with
/// `u = √(2/π) (x + 0.044715 x³)`, computed as `x / (1 + e^(-2u))`.
#[inline(always)]
#[must_use]
pub fn gelu_tanh(x: f32) -> f32 {
    /// `√(8/π)`.
    const FACTOR: f32 = 1.595_769_2;
    x * logistic(FACTOR * (x + 0.044_715 * x * x * x))
}

/// The sigmoid linear unit, `x / (1 + e^-x)` (Elfwing, Uchibe and Doya, 2017). NaN for negative infinity.
#[inline(always)]
#[must_use]
pub fn silu(x: f32) -> f32 {
    x * logistic(x)
}

/// The derivative of [`gelu`], `Φ(x) + x φ(x)`, where φ is the normal density.
#[inline(always)]
#[must_use]
pub fn gelu_derivative(x: f32) -> f32 {
    /// `1/√(2π)`.
    const DENSITY: f32 = 0.398_942_3;
    let below = 0.5 * (1.0 + cuda_std::intrinsics::erff(x * core::f32::consts::FRAC_1_SQRT_2));
    // Nothing remains of the density there; of an infinity it would be NaN.
    let density = if x.abs() > 14.0 { 0.0 } else { x * DENSITY * fast_expf(-0.5 * x * x) };
    below + density
}

/// The derivative of [`gelu_tanh`]: with `u = √(2/π) (x + 0.044715 x³)` and the logistic `s` of `2u`, `s + 2x u' s (1 - s)`.
#[inline(always)]
#[must_use]
pub fn gelu_tanh_derivative(x: f32) -> f32 {
    /// `√(8/π)`.
    const FACTOR: f32 = 1.595_769_2;
    if x.abs() > 14.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let s = logistic(FACTOR * (x + 0.044_715 * x * x * x));
    s + x * FACTOR * (1.0 + 0.134_145 * x * x) * s * (1.0 - s)
}

/// The derivative of [`silu`]: with the logistic `s` of `x`, `s + x s (1 - s)`.
#[inline(always)]
#[must_use]
pub fn silu_derivative(x: f32) -> f32 {
    if x.abs() > 100.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let s = logistic(x);
    s + x * s * (1.0 - s)
}

/// The derivative of [`Relu`]: 1 above 0, 0 elsewhere, NaN of NaN.
#[inline(always)]
#[must_use]
pub fn relu_derivative(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x <= 0.0 {
        0.0
    } else {
        x
    }
}

/// Declares epilogues of the backward pass.
macro_rules! gradients {
    ($($name:ident: $derivative:ident of $activation:ident;)*) => {$(
        #[doc = concat!("The value times the derivative of [`", stringify!($activation),
            "`] at C: of a network's next layer this product is the gradient of its input, and C is what this layer's activation had.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Epilogue for $name {
            const OPERANDS: Operands = Operands::C;

            #[inline(always)]
            fn apply(self, entry: Entry) -> f32 {
                entry.value * $derivative(entry.c)
            }
        }
    )*};
}

gradients! {
    ReluGradient: relu_derivative of Relu;
    GeluGradient: gelu_derivative of Gelu;
    GeluTanhGradient: gelu_tanh_derivative of GeluTanh;
    SiluGradient: silu_derivative of Silu;
}

/// `1 / (1 + e^-x)`, by the approximate exponential and quotient: within 8 units in the last place where `|x| < 4`.
#[inline(always)]
fn logistic(x: f32) -> f32 {
    fast_fdividef(1.0, 1.0 + fast_expf(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry =
        Entry { value: -2.0, c: 5.0, per_row: 3.0, per_column: 7.0, row: 1, column: 2, batch: 0 };

    #[test]
    fn operands_reach_their_epilogues() {
        let bias = Then(ColumnBias, Then(RowBias, Residual));
        assert_eq!(bias.apply(ENTRY), 13.0);
        let all = Operands { c: true, per_row: true, per_column: true };
        assert_eq!(<Then<ColumnBias, Then<RowBias, Residual>>>::OPERANDS, all);
        assert_eq!(Then(Relu, RowBias).apply(ENTRY), 3.0);
        assert_eq!(Then(RowBias, Clamp { low: -1.0, high: 0.5 }).apply(ENTRY), 0.5);
    }

    #[test]
    fn nan_goes_through() {
        let nan = Entry { value: f32::NAN, ..ENTRY };
        assert!(Relu.apply(nan).is_nan() && Clamp { low: 0.0, high: 1.0 }.apply(nan).is_nan());
        assert!(
            Gelu.apply(nan).is_nan() && GeluTanh.apply(nan).is_nan() && Silu.apply(nan).is_nan()
        );
    }

    #[test]
    fn activations_are_what_they_are_in_double_precision() {
        for i in -400..=400 {
            let x = i as f32 / 40.0;
            let wide = f64::from(x);
            let tanh =
                (8.0 / core::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3)) / 2.0;
            let erf = libm::erf(wide * core::f64::consts::FRAC_1_SQRT_2);
            let expected = [
                0.5 * wide * (1.0 + erf),
                0.5 * wide * (1.0 + tanh.tanh()),
                wide / (1.0 + (-wide).exp()),
            ];
            for (found, expected) in [gelu(x), gelu_tanh(x), silu(x)].into_iter().zip(expected) {
                let bound = (wide.abs() + 1e-3) * 2f64.powi(-20);
                assert!((f64::from(found) - expected).abs() < bound, "{x}: {found} and {expected}");
            }
        }
    }

    #[test]
    fn derivatives_are_differences_in_double_precision() {
        let gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x * core::f64::consts::FRAC_1_SQRT_2));
        let gelu_tanh = |x: f64| {
            let u = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + u.tanh())
        };
        let silu = |x: f64| x / (1.0 + (-x).exp());
        for i in -400..=400 {
            let x = i as f32 / 20.0;
            let wide = f64::from(x);
            let slope = |f: &dyn Fn(f64) -> f64| (f(wide + 1e-5) - f(wide - 1e-5)) / 2e-5;
            for (found, expected) in [
                (gelu_derivative(x), slope(&gelu)),
                (gelu_tanh_derivative(x), slope(&gelu_tanh)),
                (silu_derivative(x), slope(&silu)),
            ] {
                // The difference is off by 1e-10 / 6 of the third derivative, and by 2^-52 |x| / 1e-5.
                assert!((f64::from(found) - expected).abs() < 4e-6, "{x}: {found} and {expected}");
            }
        }
        assert_eq!([-1.0, -0.0, 0.0, 1.0].map(relu_derivative), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn derivatives_end_at_infinities_and_keep_nan() {
        for derivative in [gelu_derivative, gelu_tanh_derivative, silu_derivative, relu_derivative]
        {
            assert_eq!((derivative(f32::INFINITY), derivative(f32::NEG_INFINITY)), (1.0, 0.0));
            assert!(derivative(f32::NAN).is_nan());
        }
        let entry = Entry { value: 3.0, c: 2.0, ..ENTRY };
        assert_eq!(ReluGradient.apply(entry), 3.0);
        assert_eq!(GeluGradient.apply(entry), 3.0 * gelu_derivative(2.0));
    }
}
