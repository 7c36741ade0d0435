//! Throughput of our mathematics beside CUDA's own library, in one run.
//!
//! Usage: math_speed [ROUNDS32 [ROUNDS64]]. The peers (tools/peers/math.cu) are compiled where
//! `nvcc` is on the machine; there both take turns, function by function, and the better of three
//! runs each counts. `nonef` and `none` are the loop alone.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cuda_std::launch::Linear;
use cuda_std_tests::poisoned;
use ferrowarp::Gpu;
use math_kernels::speed;

cuda_std_tests::device!("math");

const PEERS: &str = include_str!("../../../tools/peers/math.cu");
const BLOCKS: u32 = 132 * 8;
const THREADS: u32 = 256;

/// Billions of results a second, of `rounds` rounds in `ms`.
fn giga(rounds: u32, ms: f32) -> f64 {
    f64::from(speed::CALLS) * f64::from(rounds) * f64::from(BLOCKS * THREADS) / f64::from(ms) * 1e-6
}

type Case = (&'static str, [f64; 2], fn(&Gpu, [u32; 2], [f64; 2]) -> f64);

macro_rules! cases {
    ($($t:ty, $rounds:literal: $($name:literal $kernel:ident $low:literal $span:literal;)+)+) => {
        /// Names, ranges of arguments as those of `low + [1, 2)·span`, and measurements.
        const CASES: &[Case] = &[$($(
            ($name, [$low, $span], |gpu, rounds, [low, span]| {
                let rounds = rounds[$rounds];
                let mut out = poisoned::<$t>(gpu, (BLOCKS * THREADS) as usize);
                let mut run = || {
                    let config = Linear::new(BLOCKS, THREADS);
                    speed::$kernel::launch(gpu, config, rounds, low as $t, span as $t, &mut out)
                };
                let mut time = || gpu.stream().time(&mut run).unwrap_or_else(|error| panic!("{error}")).1;
                time();
                let best = (0..3).map(|_| time()).fold(f64::INFINITY, f64::min);
                giga(rounds, best as f32)
            }),
        )+)+];
    };
}

cases! {
    f32, 0:
    "nonef" speed_nonef 0.0 1.0;
    "expf" speed_expf -240.0 160.0;
    "exp2f" speed_exp2f -300.0 200.0;
    "exp10f" speed_exp10f -90.0 60.0;
    "expm1f" speed_expm1f -30.0 20.0;
    "logf" speed_logf -100.0 100.5;
    "log2f" speed_log2f -100.0 100.5;
    "log10f" speed_log10f -100.0 100.5;
    "log1pf" speed_log1pf -100.0 100.5;
    "sinf" speed_sinf -300.0 200.0;
    "cosf" speed_cosf -300.0 200.0;
    "tanf" speed_tanf -300.0 200.0;
    "sincosf" speed_sincosf -300.0 200.0;
    "sinpif" speed_sinpif -300.0 200.0;
    "asinf" speed_asinf -3.0 2.0;
    "acosf" speed_acosf -3.0 2.0;
    "atanf" speed_atanf -12.0 8.0;
    "sinhf" speed_sinhf -60.0 40.0;
    "coshf" speed_coshf -60.0 40.0;
    "tanhf" speed_tanhf -6.0 4.0;
    "asinhf" speed_asinhf -30.0 20.0;
    "acoshf" speed_acoshf -9.0 10.0;
    "atanhf" speed_atanhf -2.99 1.99;
    "sqrtf" speed_sqrtf -100.0 100.5;
    "rsqrtf" speed_rsqrtf -100.0 100.5;
    "cbrtf" speed_cbrtf -300.0 200.0;
    "rcbrtf" speed_rcbrtf -300.0 200.0;
    "erff" speed_erff -9.0 6.0;
    "erfcf" speed_erfcf -15.0 12.0;
    "erfinvf" speed_erfinvf -2.99 1.99;
    "normcdff" speed_normcdff -15.0 10.0;
    "tgammaf" speed_tgammaf -34.0 34.5;
    "lgammaf" speed_lgammaf -50.0 50.5;
    "powf" speed_powf -100.0 100.5;
    "atan2f" speed_atan2f -12.0 8.0;
    "hypotf" speed_hypotf -12.0 8.0;
    f64, 1:
    "none" speed_none 0.0 1.0;
    "exp" speed_exp -1500.0 1000.0;
    "exp2" speed_exp2 -1500.0 1000.0;
    "exp10" speed_exp10 -600.0 400.0;
    "expm1" speed_expm1 -30.0 20.0;
    "log" speed_log -100.0 100.5;
    "log2" speed_log2 -100.0 100.5;
    "log10" speed_log10 -100.0 100.5;
    "log1p" speed_log1p -100.0 100.5;
    "sin" speed_sin -300.0 200.0;
    "cos" speed_cos -300.0 200.0;
    "tan" speed_tan -300.0 200.0;
    "sincos" speed_sincos -300.0 200.0;
    "sinpi" speed_sinpi -300.0 200.0;
    "asin" speed_asin -3.0 2.0;
    "acos" speed_acos -3.0 2.0;
    "atan" speed_atan -12.0 8.0;
    "sinh" speed_sinh -60.0 40.0;
    "cosh" speed_cosh -60.0 40.0;
    "tanh" speed_tanh -6.0 4.0;
    "sqrt" speed_sqrt -100.0 100.5;
    "rsqrt" speed_rsqrt -100.0 100.5;
    "cbrt" speed_cbrt -300.0 200.0;
    "erf" speed_erf -9.0 6.0;
    "erfc" speed_erfc -15.0 12.0;
    "tgamma" speed_tgamma -34.0 34.5;
    "lgamma" speed_lgamma -50.0 50.5;
    "pow" speed_pow -100.0 100.5;
    "atan2" speed_atan2 -12.0 8.0;
    "hypot" speed_hypot -12.0 8.0;
}

/// The peers' program, compiled and started; `None` where there is no `nvcc`.
fn peers(dir: &Path, rounds: [u32; 2]) -> Result<Option<Child>, Box<dyn Error>> {
    let (source, program) = (dir.join("math.cu"), dir.join("math"));
    fs::write(&source, PEERS)?;
    let flags = ["-O3", "-std=c++17", "-arch=sm_90a", "--extended-lambda", "-o"];
    let compiled = Command::new("nvcc").args(flags).args([&program, &source]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let rounds = rounds.map(|n| n.to_string());
    let started =
        Command::new(&program).args(rounds).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    Ok(Some(started))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let slow = !cuda_std_tests::on_gpu();
    let at = |i: usize, default| args.get(i).copied().unwrap_or(if slow { 4 } else { default });
    let rounds = [at(0, 2048), at(1, 512)];
    let dir = std::env::temp_dir().join(format!("math_speed_{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let mut peers = peers(&dir, rounds)?;
    let mut pipes = peers
        .as_mut()
        .and_then(|peers| Some((peers.stdin.take()?, BufReader::new(peers.stdout.take()?))));
    println!("{:10} {:>12} {:>12} {:>7}", "function", "ours Gr/s", "CUDA Gr/s", "ratio");
    for (name, range, measure) in CASES {
        let theirs = match &mut pipes {
            None => f64::NAN,
            Some((input, output)) => {
                writeln!(input, "{name} {} {}", range[0], range[1])?;
                input.flush()?;
                let mut line = String::new();
                output.read_line(&mut line)?;
                line.split_whitespace().nth(1).unwrap_or("NaN").parse()?
            }
        };
        let ours = measure(gpu(), rounds, *range);
        println!("{name:10} {ours:12.1} {theirs:12.1} {:7.3}", ours / theirs);
    }
    drop(pipes);
    if let Some(mut peers) = peers {
        peers.wait()?;
    }
    Ok(fs::remove_dir_all(&dir)?)
}
