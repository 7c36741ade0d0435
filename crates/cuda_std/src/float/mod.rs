//! Mathematics as methods of f32 and f64.
//!
//! `core` has few functions on numbers; with [`GpuFloat`] in scope a kernel calls the rest as
//! methods, as on the host: `x.sin()`, `x.powf(y)`. [`FloatExt`] adds what the host's numbers lack.
//! On the host the inherent methods of `std` go before those of [`GpuFloat`]; called through the
//! trait they are the device's, with the same results as on the device but for approximate
//! instructions.

mod ext;
mod gpu;

pub use ext::FloatExt;
pub use gpu::GpuFloat;

mod sealed {
    /// Bars other implementations.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
