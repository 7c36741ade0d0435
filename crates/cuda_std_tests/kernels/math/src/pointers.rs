//! The functions with a pointer among their arguments, as functions of values.

use cuda_std::intrinsics as c;

macro_rules! pairs {
    ($($name:ident: $t:ty;)+) => { $(
        #[inline(always)]
        pub fn $name(x: $t) -> ($t, $t) {
            let (mut a, mut b) = (0.0, 0.0);
            // SAFETY: pointers to locals.
            unsafe { c::$name(x, &mut a, &mut b) };
            (a, b)
        }
    )+ };
}

pairs! { sincosf: f32; sincospif: f32; fast_sincosf: f32; sincos: f64; sincospi: f64; }

macro_rules! one_more {
    ($($name:ident($($arg:ident),+: $t:ty) -> $second:ty;)+) => { $(
        #[inline(always)]
        pub fn $name($($arg: $t),+) -> ($t, $second) {
            let mut second = Default::default();
            // SAFETY: a pointer to a local.
            let first = unsafe { c::$name($($arg,)+ &mut second) };
            (first, second)
        }
    )+ };
}

one_more! {
    frexpf(x: f32) -> i32; frexp(x: f64) -> i32; modff(x: f32) -> f32; modf(x: f64) -> f64;
    remquof(x, y: f32) -> i32; remquo(x, y: f64) -> i32;
}

/// Three digits of `x`, as C writes them.
fn tag(x: i32) -> [i8; 4] {
    let digit = |d: i32| b'0' as i8 + (x / d).rem_euclid(10) as i8;
    [digit(100), digit(10), digit(1), 0]
}

#[inline(always)]
pub fn nanf(x: i32) -> f32 {
    // SAFETY: bytes that end with a zero.
    unsafe { c::nanf(tag(x).as_mut_ptr()) }
}

#[inline(always)]
pub fn nan(x: i32) -> f64 {
    // SAFETY: bytes that end with a zero.
    unsafe { c::nan(tag(x).as_mut_ptr()) }
}
