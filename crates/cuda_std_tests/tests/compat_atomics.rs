//! Every atomic function gives the right result, and threads that change one word lose nothing.

use compat_kernels::atomics::{Sample, named, typed};
use cuda_std::launch::{DevicePtr, Linear};
use cuda_std_macros::repeat;
use cuda_std_tests::{done, download, error_of, fails, on_gpu, poisoned, upload};
use ferrowarp::GpuResult;
use half::{bf16, f16};

cuda_std_tests::device!("compat");

/// A call of a named function: its name, and the word after it and its result.
struct Call {
    name: String,
    after: u64,
    before: u64,
}

fn call<T: Sample>(name: impl Into<String>, after: T, before: T) -> Call {
    Call { name: name.into(), after: after.bits(), before: before.bits() }
}

/// What an operation makes of `A` and `B`, in plain arithmetic.
trait Plain: Sample {
    const IS_FLOAT: bool;

    fn plain(op: &str) -> Self;
}

macro_rules! plain_integers {
    ($($ty:ty)*) => {$(
        impl Plain for $ty {
            const IS_FLOAT: bool = false;

            fn plain(op: &str) -> Self {
                let (a, b) = (Self::A, Self::B);
                match op {
                    "and" => a & b,
                    "or" => a | b,
                    "xor" => a ^ b,
                    "add" => a.wrapping_add(b),
                    "sub" => a.wrapping_sub(b),
                    "min" => if a < b { a } else { b },
                    "max" => if a < b { b } else { a },
                    "inc" => a.wrapping_add(1),
                    "dec" => a.wrapping_sub(1),
                    _ => b,
                }
            }
        }
    )*};
}

macro_rules! plain_floats {
    ($($ty:ty)*) => {$(
        impl Plain for $ty {
            const IS_FLOAT: bool = true;

            fn plain(op: &str) -> Self {
                let (a, b) = (Self::A, Self::B);
                let bits = |f: fn(u64, u64) -> u64| <$ty>::from_bits(f(a.to_bits().into(), b.to_bits().into()) as _);
                match op {
                    "and" => bits(|a, b| a & b),
                    "or" => bits(|a, b| a | b),
                    "xor" => bits(|a, b| a ^ b),
                    "add" => a + b,
                    "sub" => a - b,
                    _ => b,
                }
            }
        }
    )*};
}

plain_integers!(u32 i32 u64 i64);
plain_floats!(f32 f64);

/// The read-modify-writes of a group of kernels: for each order, operation, type and scope.
fn rmw(calls: &mut Vec<Call>, orders: &[&str], ops: &[&str], with_floats: bool) {
    for order in orders {
        for op in ops {
            repeat! {
                for ty in [u32, u64, i32, i64, f32, f64]
                {
                    for scope in ["device", "block", "system"] {
                        if with_floats || !<$ty>::IS_FLOAT {
                            let name = format!("{op} {order} {} {scope}", stringify!($ty));
                            calls.push(call(name, <$ty>::plain(op), <$ty>::A));
                        }
                    }
                }
            }
        }
    }
}

/// Runs the kernel with the calls, and compares word by word.
fn check(calls: &[Call], launch: impl FnOnce(DevicePtr<u64>, DevicePtr<u64>) -> GpuResult<()>) {
    let [words, before] = [(); 2].map(|()| poisoned::<u64>(gpu(), calls.len()));
    done(launch(words.as_device_ptr(), before.as_device_ptr()));
    let (words, before) = (download(&words), download(&before));
    for ((call, word), before) in calls.iter().zip(words).zip(before) {
        assert_eq!((word, before), (call.after, call.before), "{}", call.name);
    }
}

const ONE: Linear = Linear::new(1, 1);

#[test]
fn every_function_of_mid_is_right() {
    let orders = ["Relaxed", "Acquire", "Release", "AcqRel"];
    let mut calls = Vec::new();
    rmw(&mut calls, &orders, &["and", "or", "xor", "add", "sub", "exch"], true);
    rmw(&mut calls, &orders, &["min", "max"], false);
    rmw(&mut calls, &orders, &["compare and swap"], true);
    for scope in ["device", "block", "system"] {
        calls.push(call(format!("load and store 32 {scope}"), u32::A, u32::B));
        calls.push(call(format!("load and store 64 {scope}"), u64::A, u64::B));
    }
    // SAFETY: one thread, and room for every call.
    check(&calls, |words, before| unsafe { named::mid_calls::launch(gpu(), ONE, words, before) });
}

#[test]
fn every_intrinsic_is_right() {
    let orders = ["relaxed", "acquire", "release", "acqrel", "volatile"];
    let mut calls = Vec::new();
    rmw(&mut calls, &orders, &["and", "or", "xor", "add", "sub", "exch"], true);
    rmw(&mut calls, &orders, &["min", "max"], false);
    rmw(&mut calls, &orders, &["inc", "dec"], false);
    rmw(&mut calls, &orders, &["cas"], true);
    for scope in ["device", "block", "system"] {
        for order in ["relaxed", "ordered", "volatile"] {
            calls.push(call(format!("load and store {order} 32 {scope}"), u32::B, u32::B));
            calls.push(call(format!("load and store {order} 64 {scope}"), u64::B, u64::B));
        }
    }
    let launch = |words, before| {
        // SAFETY: one thread, and room for every call.
        unsafe { named::intrinsic_calls::launch(gpu(), ONE, words, before) }
    };
    check(&calls, launch);
}

/// Blocks and threads of a kernel whose threads all change one word.
const BLOCKS: u32 = 5;
const THREADS: u32 = 96;
const ALL: u32 = BLOCKS * THREADS;

fn grid() -> Linear {
    Linear::new(BLOCKS, THREADS)
}

#[test]
fn float_sums_lose_nothing() {
    let device = upload(gpu(), &[0.0f32]);
    let (system, blocks) = (upload(gpu(), &[0.0f64]), upload(gpu(), &[0.0f32; BLOCKS as usize]));
    // SAFETY: a typed atomic has the layout of its number.
    done(unsafe {
        let device = ptr_of(device.as_device_ptr().address());
        let system = ptr_of(system.as_device_ptr().address());
        let blocks = ptr_of(blocks.as_device_ptr().address());
        typed::float_sums::launch(gpu(), grid(), device, system, blocks)
    });
    // Sums of small integers and halves are exact.
    let sum = (0..ALL).sum::<u32>();
    assert_eq!(download(&device), [sum as f32]);
    assert_eq!(download(&system), [f64::from(sum) * -0.5]);
    assert_eq!(download(&blocks), [THREADS as f32; BLOCKS as usize]);
}

fn ptr_of<T>(address: u64) -> DevicePtr<T> {
    DevicePtr::from_raw(address)
}

#[test]
fn a_safe_slice_gives_cells() {
    let (mut floats, mut ints) = (upload(gpu(), &[0.25f64]), upload(gpu(), &[0i64; 5]));
    done(typed::safe_cells::launch(gpu(), grid(), &mut floats, &mut ints));
    let (sum, last) = ((0..ALL).sum::<u32>(), i64::from(ALL) - 1);
    let toggled = (0..last + 1).fold(0i64, |bits, own| bits ^ 1 << (own % 60));
    assert_eq!(download(&floats), [f64::from(sum) + 0.25]);
    assert_eq!(download(&ints), [last, -last, toggled, last + 1, 3 * (last + 1)]);
}

#[test]
fn tickets_go_round() {
    let bound = 9u32;
    let (mut ring, mut counts) = (upload(gpu(), &[0u32, bound]), upload(gpu(), &[0u32; 10]));
    done(typed::tickets::launch(gpu(), grid(), &mut ring, &mut counts, bound));
    // 480 tickets up and as many down, of ten numbers.
    assert_eq!(download(&counts), [2 * ALL / 10; 10]);
    assert_eq!(download(&ring), [0, bound]);
}

#[test]
fn a_static_counter_finds_the_last_block() {
    for _ in 0..2 {
        let out = poisoned::<u32>(gpu(), 1);
        // SAFETY: `out` has one word.
        done(unsafe { typed::last_block::launch(gpu(), grid(), out.as_device_ptr()) });
        assert_eq!(download(&out), [BLOCKS]);
    }
}

#[test]
fn halves_add_up() {
    let (zero, b_zero) = (f16::ZERO.to_bits(), bf16::ZERO.to_bits());
    // A single number, a gap, and an aligned pair.
    let (half, brain) = (upload(gpu(), &[zero; 4]), upload(gpu(), &[b_zero; 4]));
    let (h, b) = (half.as_device_ptr().address(), brain.as_device_ptr().address());
    let config = Linear::new(2, 64);
    // SAFETY: the pairs are aligned to 4 bytes.
    done(unsafe {
        typed::half_sums::launch(gpu(), config, ptr_of(h), ptr_of(h + 4), ptr_of(b), ptr_of(b + 4))
    });
    // 128 and its double are exact in both.
    let half = download(&half).into_iter().map(|bits| f16::from_bits(bits).to_f32());
    assert_eq!(half.collect::<Vec<_>>(), [128.0, 0.0, 128.0, -256.0]);
    let brain = download(&brain).into_iter().map(|bits| bf16::from_bits(bits).to_f32());
    assert_eq!(brain.collect::<Vec<_>>(), [128.0, 0.0, 128.0, -256.0]);
}

#[test]
fn wide_words_are_whole() {
    let (counter, last) = (upload(gpu(), &[0u128]), upload(gpu(), &[0u128]));
    let mut seen = upload(gpu(), &[0u32; ALL as usize + 1]);
    // SAFETY: 16 bytes each, aligned.
    done(unsafe {
        let (counter, last) = (counter.as_device_ptr(), last.as_device_ptr());
        typed::wide::launch(gpu(), grid(), counter, last, &mut seen)
    });
    let step = 1u128 << 64 | 1;
    assert_eq!(download(&counter), [step * u128::from(ALL)]);
    let last = download(&last)[0];
    assert_eq!(last % step, 0);
    // Every number but the one that stayed was handed on once; the first to come found zero.
    let mut expected = [1u32; ALL as usize + 1];
    expected[(last / step) as usize] = 0;
    assert_eq!(download(&seen), expected);
}

#[test]
fn a_release_reaches_the_block_that_acquires() {
    let (data, flag) = (poisoned::<u32>(gpu(), 32), upload(gpu(), &[0u32]));
    let out = poisoned::<u32>(gpu(), 32);
    // SAFETY: two blocks of 32 threads.
    done(unsafe {
        let (data, flag) = (data.as_device_ptr(), flag.as_device_ptr());
        typed::message::launch(gpu(), Linear::new(2, 32), data, flag, out.as_device_ptr())
    });
    assert_eq!(download(&out), (0..32).map(|lane| 131 - lane).collect::<Vec<u32>>());
}

#[test]
fn clusters_count() {
    let counts = upload(gpu(), &[0u32; BLOCKS as usize]);
    // SAFETY: a typed atomic has the layout of its number.
    done(unsafe {
        typed::cluster_counts::launch(gpu(), grid(), ptr_of(counts.as_device_ptr().address()))
    });
    assert_eq!(download(&counts), [THREADS; BLOCKS as usize]);
}

#[test]
fn a_scope_that_is_too_narrow_is_reported() {
    // A GPU adds as if nothing were wrong.
    if !on_gpu() {
        let error = error_of("too_narrow");
        assert!(error.contains("race") && error.contains("too_narrow"), "{error}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn too_narrow() {
    let sum = upload(gpu(), &[0.0f32]);
    // SAFETY: wrong, as the test wants: two blocks.
    let launched = unsafe {
        typed::too_narrow::launch(gpu(), Linear::new(2, 32), ptr_of(sum.as_device_ptr().address()))
    };
    fails(launched.and_then(|()| gpu().synchronize()));
}
