//! The library's mathematical functions. The bounds are those of the CUDA C++ programming guide,
//! and one more ULP for the reference, which is rounded too.

use super::gpu::{Chance, Gpu, blocks, ulps};

fn gpu() -> Gpu {
    Gpu::new(include_str!("math.ptx"))
}

/// ULPs of f64 between two numbers; NaNs are equal.
fn ulps64(found: f64, expected: f64) -> u64 {
    if found.is_nan() && expected.is_nan() {
        return 0;
    }
    let ordered = |x: f64| {
        let bits = x.to_bits() as i64;
        if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
    };
    ordered(found).abs_diff(ordered(expected))
}

fn inputs() -> Vec<f32> {
    let mut x = vec![0.5, -0.5, 1., -1., 1e-4, -1e-6, 3.1, -2.7, 9.9, -9.9];
    x.extend(Chance(1).floats(90, 8.));
    x
}

#[test]
fn math_f32() {
    let gpu = gpu();
    let x = inputs();
    let out = gpu.buffer(&vec![0f32; 24 * x.len()]);
    gpu.run("math_f32", blocks(x.len(), 32), 32, &[&gpu.buffer(&x), &out, &(x.len() as i32)]);
    for (x, found) in x.iter().zip(out.read().chunks(24)) {
        let y = f64::from(x.abs() + 0.01);
        let top = f64::from((x.abs() + 0.01f32).min(1.));
        let above = f64::from(1. + (x.abs() + 0.01f32));
        let x = f64::from(*x);
        let table = [
            ("sinf", x.sin(), 2),
            ("cosf", x.cos(), 2),
            ("tanf", x.tan(), 4),
            ("expf", x.exp(), 2),
            ("logf", y.ln(), 1),
            ("powf", y.powf(f64::from(1.7f32)), 4),
            ("erff", libm::erf(x), 2),
            ("erfcf", libm::erfc(x), 4),
            ("lgammaf", libm::lgamma(y), 6),
            ("tgammaf", libm::tgamma(y), 5),
            ("cbrtf", x.cbrt(), 1),
            ("atan2f", x.atan2(1.5), 3),
            ("asinf", top.asin(), 2),
            ("sinhf", x.sinh(), 3),
            ("tanhf", x.tanh(), 2),
            ("log1pf", y.ln_1p(), 1),
            ("expm1f", x.exp_m1(), 1),
            ("hypotf", x.hypot(3.), 3),
            ("fmodf", f64::from(x as f32 % 0.7), 0),
            ("exp2f", x.exp2(), 2),
            ("sqrtf", y.sqrt(), 0),
            ("1/x", 1. / x, 0),
            ("log10f", y.log10(), 2),
            ("acoshf", above.acosh(), 4),
        ];
        for ((name, exact, bound), found) in table.into_iter().zip(found) {
            let off = ulps(*found, exact as f32);
            // Near its zeros `lgamma` is held to an absolute error.
            let near = name == "lgammaf" && (f64::from(*found) - exact).abs() < 1e-6;
            assert!(off <= bound + 1 || near, "{name}({x}): {found}, not {exact}: {off} ULP");
        }
    }
}

#[test]
fn math_f64() {
    let gpu = gpu();
    let x: Vec<f64> = inputs().iter().map(|x| f64::from(*x) * 1.000000001).collect();
    let out = gpu.buffer(&vec![0f64; 20 * x.len()]);
    gpu.run("math_f64", blocks(x.len(), 32), 32, &[&gpu.buffer(&x), &out, &(x.len() as i32)]);
    for (x, found) in x.iter().zip(out.read().chunks(20)) {
        let (x, y) = (*x, x.abs() + 0.01);
        let table = [
            ("sin", x.sin(), 2),
            ("cos", x.cos(), 2),
            ("tan", x.tan(), 2),
            ("exp", x.exp(), 1),
            ("log", y.ln(), 1),
            ("pow", libm::pow(y, 1.7), 2),
            ("erf", libm::erf(x), 2),
            ("erfc", libm::erfc(x), 5),
            ("lgamma", libm::lgamma(y), 4),
            ("tgamma", libm::tgamma(y), 10),
            ("cbrt", x.cbrt(), 1),
            ("atan2", x.atan2(1.5), 2),
            ("asin", y.min(1.).asin(), 2),
            ("sinh", x.sinh(), 2),
            ("tanh", x.tanh(), 2),
            ("log1p", y.ln_1p(), 1),
            ("expm1", x.exp_m1(), 1),
            ("hypot", x.hypot(3.), 2),
            ("sqrt", y.sqrt(), 0),
            ("x/y", x / y, 0),
        ];
        for ((name, exact, bound), found) in table.into_iter().zip(found) {
            let off = ulps64(*found, exact);
            let near = name == "lgamma" && (found - exact).abs() < 1e-14;
            let exactly = bound == 0 && off == 0;
            assert!(
                exactly || near || (bound > 0 && off <= bound + 1),
                "{name}({x}): {found}, not {exact}: {off} ULP"
            );
        }
    }
}

/// The guide gives absolute bounds: 2^-21.41 for sine and cosine on [-pi, pi].
#[test]
fn math_fast() {
    let gpu = gpu();
    let x: Vec<f32> = inputs().iter().map(|x| x / 3.2).collect();
    let out = gpu.buffer(&vec![0f32; 8 * x.len()]);
    gpu.run("math_fast", blocks(x.len(), 32), 32, &[&gpu.buffer(&x), &out, &(x.len() as i32)]);
    for (x, found) in x.iter().zip(out.read().chunks(8)) {
        let (y, x) = (f64::from(x.abs() + 0.01), f64::from(*x));
        let found: Vec<f64> = found.iter().map(|found| f64::from(*found)).collect();
        let near = |index: usize, exact: f64, bound: f64| {
            let error = (found[index] - exact).abs();
            assert!(error <= bound, "{index} of {x}: {}, not {exact}", found[index]);
        };
        near(0, x.sin(), 4e-7);
        near(1, x.cos(), 4e-7);
        near(2, x.exp(), x.exp() * (3. + 1.173 * x.abs()) * 1.2e-7);
        near(3, y.ln(), y.ln().abs() * 4e-7 + 4e-7);
        near(4, y.powf(f64::from(1.7f32)), y.powf(1.7) * 2e-6 + 1e-6);
        near(5, x / y, (x / y).abs() * 2.4e-7);
        near(6, 1. / y.sqrt(), 6e-8 / y.sqrt());
        near(7, x.tan(), (4e-7 / x.cos().abs()) * (1. + x.tan().abs()));
    }
}

#[test]
fn large_angles() {
    let gpu = gpu();
    let x: Vec<f32> = Chance(2).floats(64, 1.).iter().map(|x| x * 1e30).collect();
    let y: Vec<f64> = Chance(3).doubles(64, 1.).iter().map(|x| x * 1e200).collect();
    let (sines, cosines) = (gpu.buffer(&[0f32; 64]), gpu.buffer(&[0f64; 64]));
    gpu.run("large_angles", 1, 64, &[&gpu.buffer(&x), &sines, &gpu.buffer(&y), &cosines, &64]);
    for (x, found) in x.iter().zip(sines.read()) {
        assert!(ulps(found, libm::sin((*x).into()) as f32) <= 3, "sin {x}: {found}");
    }
    for (y, found) in y.iter().zip(cosines.read()) {
        assert!(ulps64(found, libm::cos(*y)) <= 3, "cos {y}: {found}");
    }
}

fn from_f16(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0. => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024. + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// Functions of halves are within two units of the last place, which is 2^-10 of the number, or
/// 2^-24 where it is small; of bf16 that is 2^-7.
#[test]
fn math_half() {
    let gpu = gpu();
    let x: Vec<u16> = [0x3c00, 0xbc00, 0x4000, 0x3800, 0xb555, 0x2e66, 0x4248, 0xc100].to_vec();
    let (out, brains) = (gpu.buffer(&[0u16; 64]), gpu.buffer(&[0u16; 32]));
    gpu.run("math_half", 1, 32, &[&gpu.buffer(&x), &out, &brains, &8]);
    let (out, brains) = (out.read(), brains.read());
    for (i, x) in x.iter().map(|bits| from_f16(*bits)).enumerate() {
        let exact =
            [x.sin(), x.cos(), x.exp(), x.abs().ln(), x.abs().sqrt(), 1. / x, x.exp2(), x.tanh()];
        for (k, exact) in exact.into_iter().enumerate() {
            let found = from_f16(out[8 * i + k]);
            let bound = exact.abs() * 2f64.powi(-9) + 2f64.powi(-23);
            assert!((found - exact).abs() <= bound, "{k} of {x}: {found}, not {exact}");
        }
        let b = f64::from(x as f32);
        for (k, exact) in
            [b.exp(), b.sin(), b.abs().log2(), 1. / b.abs().sqrt()].into_iter().enumerate()
        {
            let found = f64::from(f32::from_bits(u32::from(brains[4 * i + k]) << 16));
            let bound = exact.abs() * 2f64.powi(-6) + 2f64.powi(-9);
            assert!((found - exact).abs() <= bound, "bf16 {k} of {x}: {found}, not {exact}");
        }
    }
}
