//! Kernels of these tests, and their launchers.

use std::sync::OnceLock;

use cuda_std::launch::{
    Args, Contract, DeviceRead, DeviceReadOne, DeviceWrite, Kernel, Launch, LaunchConfig, Param,
    ParamKind,
};
use ferrowarp::module::Image;
use ferrowarp::{Backend, Gpu, GpuError, GpuResult};

pub const IMAGES: &[Image] = &[image(include_str!("kernels.ptx"))];

/// An image of a text that a test has written.
pub const fn image(ptx: &'static str) -> Image {
    // SAFETY: the tests' texts are kernels that stay inside the words which their launchers give, edits of these, or
    // not PTX at all. One that faults on purpose runs in a process of its own, on the emulator.
    unsafe { Image::from_ptx("sm_70", ptx) }
}

/// The device that all tests share, with these kernels.
///
/// On a GPU they are loaded at once: the first launch of a kernel waits for the whole device there, and so for a gate that is
/// closed.
pub fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| loaded().unwrap_or_else(|error| panic!("{error}")))
}

fn loaded() -> GpuResult<Gpu> {
    let gpu = Gpu::with_images(IMAGES)?;
    if gpu.backend() == Backend::Cuda {
        gpu.load_kernels()?;
    }
    Ok(gpu)
}

const fn pointer(name: &'static str) -> Param {
    Param { name, kind: ParamKind::Pointer, size_bytes: 8 }
}

const fn length(name: &'static str) -> Param {
    Param { name, kind: ParamKind::Length, size_bytes: 8 }
}

const WORDS_AND_VALUE: &[Param] =
    &[pointer("p"), length("len"), Param { name: "value", kind: ParamKind::Value, size_bytes: 4 }];

const fn kernel(name: &'static str, params: &'static [Param]) -> Kernel {
    Kernel { name, params, contract: Contract::NONE }
}

/// The description of a kernel that does nothing wrong with any value.
const fn safe(name: &'static str) -> Kernel {
    Kernel { name, params: WORDS_AND_VALUE, contract: Contract::NONE.with_safe_launch() }
}

pub static FILL: Kernel = safe("fill");
pub static CHURN: Kernel = safe("churn");
pub static LAST_WORD: Kernel = kernel("last_word", WORDS_AND_VALUE);
pub static WILD: Kernel = kernel("wild", WORDS_AND_VALUE);
/// What the entry `fill` does not have: too few parameters, too many, and one of another size.
pub static TOO_FEW: Kernel = kernel("fill", &[pointer("p"), length("len")]);
pub static TOO_MANY: Kernel = kernel(
    "fill",
    &[
        pointer("p"),
        length("len"),
        Param { name: "value", kind: ParamKind::Value, size_bytes: 4 },
        length("more"),
    ],
);
pub static TOO_WIDE: Kernel = kernel("fill", &[pointer("p"), length("len"), length("value")]);
pub static MISSING: Kernel = kernel("fil", WORDS_AND_VALUE);
pub static ADD: Kernel = kernel(
    "add",
    &[pointer("one"), pointer("many"), length("many_len"), pointer("out"), length("out_len")],
);

/// Launches one of the kernels that take words and a value.
pub fn launch(
    on: &impl Launch<Error = GpuError>,
    kernel: &'static Kernel,
    config: impl Into<LaunchConfig>,
    words: &mut impl DeviceWrite<u32>,
    value: u32,
) -> GpuResult<()> {
    let mut args = Args::new();
    args.push_write(words);
    args.push_value(value);
    // SAFETY: the arguments are those of `WORDS_AND_VALUE`, whose kernels stay inside the words with
    // any value, but for `WILD`, which faults.
    unsafe { on.launch(kernel, config.into(), &args) }
}

/// Sets all words to `value`.
pub fn fill(
    on: &impl Launch<Error = GpuError>,
    words: &mut impl DeviceWrite<u32>,
    value: u32,
) -> GpuResult<()> {
    let len = words.len();
    launch(on, &FILL, LaunchConfig::for_num_elems(len), words, value)
}

/// Steps each word `rounds` times, which takes a while.
pub fn churn(
    on: &impl Launch<Error = GpuError>,
    words: &mut impl DeviceWrite<u32>,
    rounds: u32,
) -> GpuResult<()> {
    let len = words.len();
    launch(on, &CHURN, LaunchConfig::for_num_elems(len), words, rounds)
}

/// What [`churn`] makes of `word`.
pub fn churned(word: u32, rounds: u32) -> u32 {
    (0..rounds).fold(word, |word, _| word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

/// `out[i] = one + many[i]`.
pub fn add(
    on: &impl Launch<Error = GpuError>,
    one: &impl DeviceReadOne<u32>,
    many: &impl DeviceRead<u32>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()> {
    let len = many.len();
    assert_eq!(len, out.len());
    let mut args = Args::new();
    args.push_read_one(one);
    args.push_read(many);
    args.push_write(out);
    // SAFETY: the arguments are those of `ADD`, and both arrays have one length.
    unsafe { on.launch(&ADD, LaunchConfig::for_num_elems(len).into(), &args) }
}
