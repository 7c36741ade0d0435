//! How far the mathematical functions are from the truth, on the device and on the host.

use cuda_std::launch::LaunchConfig;
use cuda_std_tests::{done, download, on_gpu, poisoned, upload};
use math_kernels::survey::{self, Bound, PAIRS, UNARY, Worst};
use math_kernels::{double, survey::run_pairs, survey::run_survey};

cuda_std_tests::device!("math");

/// The worst error of function `op` over the floats whose bits are multiples of `step`.
fn on_device(op: usize, step: u64) -> Worst {
    let threads = if on_gpu() { 132 * 2048 } else { 4096 };
    let mut out = poisoned::<[u64; 2]>(gpu(), threads);
    let config = LaunchConfig::for_num_elems(threads);
    done(run_survey::launch(gpu(), config, op as u32, step, &mut out));
    let worst = download(&out).into_iter();
    worst.fold(Worst::NONE, |worst, [at, error]| worst.or(at, f32::from_bits(error as u32)))
}

/// Panics if the worst error is above the bound.
fn check(bound: &Bound, worst: Worst) {
    let (distance, at) = (worst.at >> 32, f32::from_bits(worst.at as u32));
    let name = bound.name;
    assert!(distance <= bound.ours.into(), "{name}({at:e}): {distance} ulp, above {}", bound.ours);
}

#[test]
fn floats_keep_their_bounds() {
    // A prime, so that every last digit comes.
    let step = if on_gpu() { 1009 } else { 262_147 };
    for (op, bound) in UNARY.iter().enumerate() {
        check(bound, on_device(op, step));
    }
}

#[test]
fn floats_keep_their_bounds_on_the_host() {
    for (op, bound) in UNARY.iter().enumerate() {
        let all = (0..1u64 << 32).step_by(1_048_583);
        let worst =
            all.fold(Worst::NONE, |worst, bits| survey::survey(op as u32, bits as u32, worst));
        check(bound, worst);
    }
}

#[test]
fn special_floats_are_right() {
    let tiny = [1, 2, 0x0080_0000, 0x0080_0001, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000, 0];
    let common = [1.0f32, 0.5, 2.0, 1.5, 1e-10, 1e10, 16_777_216.0, 88.722_84, 0.25, 2.5, 3.5];
    let all = tiny.into_iter().chain(common.map(f32::to_bits));
    let all: Vec<u32> = all.flat_map(|bits| [bits, bits | 1 << 31]).collect();
    for (op, bound) in UNARY.iter().enumerate() {
        let worst = all.iter().fold(Worst::NONE, |worst, &x| survey::survey(op as u32, x, worst));
        check(bound, worst);
    }
}

#[test]
#[ignore = "all 2^32 floats: half a minute on a GPU, hours on the emulator"]
fn all_floats_keep_their_bounds() {
    println!("{:12} {:>4} {:>9} {:>5} {:>5}  at", "function", "ulp", "error", "doc", "CUDA");
    let worst: Vec<_> = (0..UNARY.len()).map(|op| on_device(op, 1)).collect();
    for (Bound { name, ours, cuda }, worst) in UNARY.iter().zip(&worst) {
        let (distance, at) = (worst.at >> 32, f32::from_bits(worst.at as u32));
        println!("{name:12} {distance:4} {:9.3} {ours:5} {cuda:5}  {at:e}", worst.error);
    }
    UNARY.iter().zip(worst).for_each(|(bound, worst)| check(bound, worst));
}

/// Pairs of arguments: any bits, near in size, and where a power is finite; then what is special.
fn pairs(n: usize) -> Vec<[f32; 2]> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut bits = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let unit = |bits: u64| (bits >> 40) as f32 / 16_777_216.0;
    let mut all: Vec<[f32; 2]> = (0..n)
        .map(|i| {
            let (a, b) = (bits(), bits());
            match i % 4 {
                0 => [a, b].map(|bits| f32::from_bits(bits as u32)),
                1 => [unit(a) * 2.0, (unit(b) - 0.5) * 300.0],
                2 => [unit(a) * 100.0, (unit(b) - 0.5) * 50.0],
                _ => [unit(a) - 0.5, unit(b) - 0.5],
            }
        })
        .collect();
    let special = [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        2.5,
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        1e-45,
        1e10,
        16_777_215.0,
    ];
    let signed: Vec<f32> = special.into_iter().flat_map(|x| [x, -x]).collect();
    all.extend(signed.iter().flat_map(|&x| signed.iter().map(move |&y| [x, y])));
    all
}

#[test]
fn pairs_of_floats_keep_their_bounds() {
    let pairs = pairs(if on_gpu() { 4_000_000 } else { 20_000 });
    let arguments = upload(gpu(), &pairs);
    for (op, Bound { name, ours, .. }) in PAIRS.iter().enumerate() {
        let mut out = poisoned::<[u64; 2]>(gpu(), pairs.len());
        let config = LaunchConfig::for_num_elems(pairs.len());
        done(run_pairs::launch(gpu(), config, op as u32, &arguments, &mut out));
        let results = download(&out);
        for ([x, y], [distance, _]) in pairs.iter().zip(&results) {
            assert!(
                *distance <= (*ours).into(),
                "{name}({x:e}, {y:e}): {distance} ulp, above {ours}"
            );
        }
        let worst = results.iter().map(|[distance, _]| distance).max().expect("pairs");
        let error =
            results.iter().map(|[_, error]| f32::from_bits(*error as u32)).fold(0.0, f32::max);
        println!("{name}: {worst} ulp, error {error:.3}");
    }
}

/// Bounds of the functions of doubles, ours and those of CUDA's manual.
const DOUBLES: [(&str, u64, u64); 41] = [
    ("exp", 1, 1),
    ("exp2", 1, 1),
    ("exp10", 1, 1),
    ("expm1", 1, 1),
    ("log", 1, 1),
    ("log2", 1, 1),
    ("log10", 1, 1),
    ("log1p", 1, 1),
    ("sin", 1, 2),
    ("cos", 1, 2),
    ("tan", 2, 2),
    ("sinpi", 1, 2),
    ("cospi", 1, 2),
    ("asin", 1, 2),
    ("acos", 1, 2),
    ("atan", 1, 2),
    ("sinh", 2, 2),
    ("cosh", 1, 1),
    ("tanh", 1, 1),
    ("asinh", 2, 3),
    ("acosh", 2, 3),
    ("atanh", 2, 2),
    ("cbrt", 1, 1),
    ("rcbrt", 1, 1),
    ("rsqrt", 1, 1),
    ("erf", 1, 2),
    ("erfc", 3, 5),
    ("erfcx", 4, 4),
    ("erfinv", 5, 5),
    ("erfcinv", 6, 6),
    ("normcdf", 5, 5),
    ("normcdfinv", 8, 8),
    ("tgamma", 10, 10),
    ("lgamma", 4, 4),
    // Near zeros of a Bessel function only the absolute error, 2^-50, counts.
    ("j0", 7, 7),
    ("j1", 7, 7),
    ("y0", 7, 7),
    ("y1", 7, 7),
    ("pow", 1, 2),
    ("atan2", 2, 2),
    ("hypot", 1, 2),
];

/// A line of the reference: the function, its arguments, the result and what rounding left of it.
struct Row {
    name: &'static str,
    args: [u64; 3],
    wanted: f64,
    rest: f64,
}

/// The reference, from mpmath (reference/generate.py).
fn reference() -> Vec<Row> {
    let text = include_str!("../reference/double.txt");
    let bits = |word: &str| u64::from_str_radix(word, 16).expect("hexadecimal");
    let row = |line: &'static str| {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let values: Vec<u64> = words.map(bits).collect();
        let (args, result) = values.split_at(values.len() - 2);
        let y = args.get(1).copied().unwrap_or_default();
        Row {
            name,
            args: [args[0], y, 0],
            wanted: f64::from_bits(result[0]),
            rest: f64::from_bits(result[1]),
        }
    };
    text.lines().map(row).collect()
}

/// `(distance, error)` in ulp; zero where a Bessel function's absolute error is below 2^-50.
fn error(row: &Row, found: f64) -> (u64, f64) {
    let Row { name, wanted, rest, .. } = row;
    let absolute = (found - wanted - rest).abs();
    if matches!(*name, "j0" | "j1" | "y0" | "y1") && absolute < 2f64.powi(-50) {
        return (0, 0.0);
    }
    let exponent = (wanted.abs().to_bits() >> 52).max(1) as i32 - 1075;
    // In two steps: the unit of a subnormal has no reciprocal.
    let units = |x: f64| x * 2f64.powi(-exponent / 2) * 2f64.powi(-exponent + exponent / 2);
    let distance = units((found - wanted).abs());
    let error = (units(found - wanted) - units(*rest)).abs();
    if distance.is_nan() { (u64::MAX, f64::MAX) } else { (distance.round() as u64, error) }
}

/// Compares results with the reference, and prints the worst of each function.
fn check_doubles(rows: &[Row], found: impl Fn(usize, &Row) -> f64) {
    for (name, ours, cuda) in DOUBLES {
        let mut worst = (0, 0.0f64);
        let mut count = 0;
        for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.name == name) {
            let (distance, error) = error(row, found(i, row));
            assert!(distance <= ours, "{name}({:x?}): {distance} ulp, above {ours}", row.args);
            worst = (worst.0.max(distance), worst.1.max(error));
            count += 1;
        }
        assert!(count >= 60, "{name} has {count} rows");
        println!("{name:12} {:3} ulp, error {:.3}; doc {ours}, CUDA {cuda}", worst.0, worst.1);
    }
}

fn op(name: &str) -> u32 {
    let found = double::NAMES.iter().position(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("no function {name}")) as u32
}

#[test]
fn doubles_keep_their_bounds_on_the_host() {
    check_doubles(&reference(), |_, row| f64::from_bits(double::call(op(row.name), row.args)[0]));
}

#[test]
fn doubles_keep_their_bounds() {
    let rows = reference();
    let mut found = vec![f64::NAN; rows.len()];
    for (name, ..) in DOUBLES {
        let places: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].name == name).collect();
        let args: Vec<[u64; 3]> = places.iter().map(|&i| rows[i].args).collect();
        let (x, mut out) = (upload(gpu(), &args), poisoned::<[u64; 2]>(gpu(), args.len()));
        let config = LaunchConfig::for_num_elems(args.len());
        done(double::run_double::launch(gpu(), config, op(name), &x, &mut out));
        for (place, [bits, _]) in places.into_iter().zip(download(&out)) {
            found[place] = f64::from_bits(bits);
        }
    }
    check_doubles(&rows, |i, _| found[i]);
}
