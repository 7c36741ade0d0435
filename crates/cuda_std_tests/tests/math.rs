//! Every mathematical function on the device, against the same code on the host.

use cuda_std::launch::{LaunchConfig, Linear};
use cuda_std_tests::{done, download, poisoned, upload};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use math_kernels as k;

cuda_std_tests::device!("math");

type Args = [u64; 3];
type Out = [u64; 2];

/// Numbers that hurt, as doubles.
const EDGES: [f64; 34] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    -7.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    3.4028234663852886e38,
    -3.4028234663852886e38,
    1.1754943508222875e-38,
    1.401298464324817e-45,
    -4.2e-45,
    16_777_215.0,
    16_777_216.0,
    2_147_483_647.5,
    -2_147_483_648.5,
    4_294_967_295.5,
    9.3e18,
    1.9e19,
    105_616.0,
    1e22,
    0.999_999_94,
    1.000_000_1,
    88.73,
];

/// A generator of bits (G. Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bits of a value of type `t`: an edge, any bits, or a number of middling size.
    fn value(&mut self, t: &str) -> u64 {
        let (edge, bits) = (EDGES[self.bits() as usize % EDGES.len()], self.bits());
        let middling = (bits as i64 as f64) / 2f64.powi(63 - (self.bits() % 8) as i32);
        match (t, self.bits() % 3) {
            ("f32", 0) => (edge as f32).to_bits().into(),
            ("f32", 1) => u64::from(bits as u32),
            ("f32", _) => (middling as f32).to_bits().into(),
            ("f64", 0) => edge.to_bits(),
            ("f64", 1) => bits,
            ("f64", _) => middling.to_bits(),
            (_, 0) => edge as i64 as u64,
            (_, 1) => bits >> (bits & 63),
            _ => bits,
        }
    }

    /// Arguments for a function of that name and signature: orders and exponents stay sensible.
    fn args(&mut self, name: &str, signature: &str) -> Args {
        let mut args = [0; 3];
        let types = signature.trim_matches(['(', ')']).split(',');
        for (arg, t) in args.iter_mut().zip(types) {
            *arg = self.value(t.split(':').nth(1).expect("a type").trim());
        }
        let small = |bits: u64, n: i64| ((bits as i64).rem_euclid(2 * n) - n) as u64;
        match name {
            "jn" | "yn" if signature.contains("y: i32") => args[1] = small(args[1], 6),
            "jn" | "yn" | "jnf" | "ynf" => args[0] = small(args[0], 6),
            "powi" | "powif" => args[1] = small(args[1], 40),
            "ldexp" | "ldexpf" | "scalbn" | "scalbnf" | "scale_by_n" => {
                args[1] = small(args[1], 2300)
            }
            _ => {}
        }
        args
    }
}

/// What the result may differ by, in ulp: host and device contract the products and sums of the
/// `libm` crate differently, and a GPU's approximate instructions are not to the last bit.
fn tolerance(module: &str, name: &str, gpu: bool) -> u64 {
    let single = module == "single" || module == "methods32" || name.ends_with('f');
    match name {
        "j0" | "j1" | "jn" | "y0" | "y1" | "yn" => 1 << 20,
        "jnf" | "ynf" | "j0f" | "j1f" | "y0f" | "y1f" => 1 << 6,
        "lgamma" | "log_gamma" => 1 << 14,
        _ if name.starts_with("fast_") && gpu => u64::MAX,
        _ if name.starts_with("erf")
            || name.starts_with("norm")
            || name.contains("_function")
            || name == "inv_norm_cdf" =>
        {
            16
        }
        "acosh" | "asinh" | "atanh" => 8,
        _ if single && gpu => 8,
        // These start from the hardware's estimates.
        "rsqrt" | "cbrt" | "rcbrt" | "hypot" | "acos" | "asin" | "atan" | "atan2" | "tan"
        | "sinh" | "cosh" | "tanh" | "pow"
            if gpu =>
        {
            2
        }
        "tgamma" | "gamma" if gpu => 4,
        _ if gpu && (name.starts_with("log") || name == "ln" || name == "ln_1p") => 1,
        _ => 0,
    }
}

/// Distance in ulp of two results, by their type.
fn distance(a: u64, b: u64, double: bool) -> u64 {
    let (x, y) = if double {
        (f64::from_bits(a), f64::from_bits(b))
    } else {
        (f32::from_bits(a as u32).into(), f32::from_bits(b as u32).into())
    };
    if x.is_nan() && y.is_nan() {
        return 0;
    }
    let sign = if double { 1 << 63 } else { 1 << 31 };
    let ordered = |bits: u64| if bits & sign == 0 { bits as i64 } else { -((bits & !sign) as i64) };
    if x == 0.0 && y == 0.0 && a != b { u64::MAX } else { ordered(a).abs_diff(ordered(b)) }
}

type Launch = fn(&Gpu, Linear, u32, &DeviceBuffer<Args>, &mut DeviceBuffer<Out>) -> GpuResult<()>;

/// Compares every function of a module.
fn compare(module: &str, names: &[(&str, &str)], host: fn(u32, Args) -> Out, launch: Launch) {
    const N: usize = 1500;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (op, (name, signature)) in names.iter().enumerate() {
        let args: Vec<Args> = (0..N).map(|_| random.args(name, signature)).collect();
        let (x, mut out) = (upload(gpu(), &args), poisoned::<Out>(gpu(), N));
        done(launch(gpu(), LaunchConfig::for_num_elems(N), op as u32, &x, &mut out));
        let allowed = tolerance(module, name, cuda_std_tests::on_gpu());
        for (args, found) in args.iter().zip(download(&out)) {
            let wanted = host(op as u32, *args);
            let same = |i: usize| {
                let double = wanted[i] >> 32 != 0 || found[i] >> 32 != 0;
                found[i] == wanted[i] || distance(found[i], wanted[i], double) <= allowed
            };
            assert!(same(0) && same(1), "{name}({args:x?}): {found:x?}, not {wanted:x?}");
        }
    }
}

macro_rules! modules {
    ($($test:ident = $module:ident, $kernel:ident;)+) => { $(
        #[test]
        fn $test() {
            let launch: Launch = |gpu, config, op, x, out| {
                k::$module::$kernel::launch(gpu, config, op, x, out)
            };
            compare(stringify!($module), k::$module::NAMES, k::$module::call, launch);
        }
    )+ };
}

modules! {
    functions_of_floats = single, run_single;
    functions_of_doubles = double, run_double;
    arithmetic_with_a_rounding = rounding, run_rounding;
    conversions = convert, run_convert;
    integer_functions = integer, run_integer;
    methods_of_floats = methods32, run_methods32;
    methods_of_doubles = methods64, run_methods64;
    functions_with_pointers = pointer, run_pointer;
}

#[test]
fn every_name_is_there() {
    let modules = [
        k::single::NAMES,
        k::double::NAMES,
        k::rounding::NAMES,
        k::convert::NAMES,
        k::integer::NAMES,
        k::pointer::NAMES,
    ];
    // rust-cuda's, and `fast_tanhf`.
    assert_eq!(modules.map(<[_]>::len).iter().sum::<usize>(), 319 + 1);
    assert_eq!((k::methods32::NAMES.len(), k::methods64::NAMES.len()), (38 + 24, 38 + 24));
}

#[test]
fn methods_in_a_kernel_are_as_on_the_host() {
    let x: Vec<f32> = (0..257).map(|i| i as f32 / 64.0 - 2.0).collect();
    let (arguments, mut y) = (upload(gpu(), &x), poisoned::<f32>(gpu(), x.len()));
    let config = LaunchConfig::for_num_elems(x.len());
    done(k::waves::waves::launch(gpu(), config, &arguments, &mut y));
    for (x, y) in x.iter().zip(download(&y)) {
        let x = f64::from(*x);
        let wanted = (-x * x).exp() * x.sin();
        // Errors of the square, the power (twice that of its argument of 4), the sine, the product.
        let allowed = 12.0 * f64::from(f32::EPSILON) * wanted.abs();
        assert!((f64::from(y) - wanted).abs() <= allowed, "{x}: {y}, not {wanted}");
    }
}
