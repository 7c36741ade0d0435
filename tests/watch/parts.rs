//! Versions in parts: what two of them have in common is loaded once.

use cuda_driver::injection;
use cuda_std::launch::{Kernel, Launch, LaunchConfig};
use ferrowarp::reload::Watch;
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuError, GpuResult, HotModule};

use crate::kernels::image;
use crate::stamps::{STAMP, load, one, ptx, stamped};

static KEPT: Kernel = Kernel { name: "kept", ..STAMP };
static COUNT: Kernel = Kernel { name: "count", ..STAMP };

/// Adds 1 to a variable of the module, and tells it.
const COUNTER: &str = ".global .align 4 .u32 COUNTED;\n\
.visible .entry count(.param .u64 p, .param .u64 len)\n{\n\
.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n\
ld.param.u64 %rd1, [p];\natom.global.add.u32 %r1, [COUNTED], 1;\nadd.u32 %r2, %r1, 1;\n\
st.global.u32 [%rd1], %r2;\nret;\n}\n";

/// Three parts: `stamp` of a version, `kept` that writes `kept`, and a counter.
fn parted(number: u32, kept: u32) -> String {
    let other = ptx(kept).replace("entry stamp", "entry kept");
    let (_, other) = other.split_once(".visible").expect("an entry");
    cuda_builder::with_parts(&format!("{}.visible{other}{COUNTER}", ptx(number)))
}

fn hot(keep: usize) -> (Gpu, HotModule) {
    let text: &'static str = parted(1, 70).leak();
    assert_eq!(cuda_builder::parts(text).map(|parts| parts.len()), Some(3));
    let gpu = Gpu::with_images(&[image(text)]).unwrap();
    let hot = Watch::nothing().keep(keep).start(&gpu).unwrap();
    (gpu, hot)
}

/// What a kernel writes.
fn told(gpu: &Gpu, on: &impl Launch<Error = GpuError>, kernel: &'static Kernel) -> u32 {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, 1).unwrap();
    let mut args = cuda_std::launch::Args::new();
    args.push_write(&mut words);
    let config = LaunchConfig { grid: (1, 1, 1), block: (1, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the argument is that of `STAMP`, as whose kernels these are launched; they stay inside one word.
    unsafe { on.launch(kernel, config, &args) }.unwrap();
    one(&words.to_vec().unwrap())
}

/// What `work` gives, and how many parts this thread had compiled for it, where that can be counted.
fn loads<R>(gpu: &Gpu, work: impl FnOnce() -> R) -> (R, Option<usize>) {
    calls(gpu, "cuLibraryLoadData", work)
}

/// What `work` gives, and how often this thread called a function of the driver for it.
fn calls<R>(gpu: &Gpu, function: &str, work: impl FnOnce() -> R) -> (R, Option<usize>) {
    let (result, calls) = injection::watch(work);
    let number = calls.iter().filter(|call| call.function == function).count();
    (result, (gpu.backend() == Backend::Emulator).then_some(number))
}

#[track_caller]
fn assert_loads(loads: Option<usize>, expected: usize) {
    assert!(loads.is_none_or(|loads| loads == expected), "{loads:?} parts, not {expected}");
}

#[test]
fn a_version_loads_the_parts_that_changed() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    assert_eq!((stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)), (1, 70));
    let (version, loaded) = loads(&gpu, || load(&hot, parted(2, 70)));
    assert_eq!(version?.number(), 2);
    assert_loads(loaded, 1);
    let (words, loaded) = loads(&gpu, || (stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)));
    assert_eq!(words, (2, 70));
    assert_loads(loaded, 0);
    let (version, loaded) = loads(&gpu, || load(&hot, parted(2, 71)));
    assert_eq!(version?.number(), 3);
    assert_loads(loaded, 1);
    // Both parts of this one are there, of version 1 and of version 3.
    let (version, loaded) = loads(&gpu, || load(&hot, parted(1, 71)));
    assert_eq!(version?.number(), 4);
    assert_loads(loaded, 0);
    assert_eq!((stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)), (1, 71));
    let third = hot.version(3)?;
    assert_eq!((stamped(&gpu, &third), told(&gpu, &third, &KEPT)), (2, 71));
    Ok(())
}

/// The time of a swap does not grow with the kernels that the program has launched.
#[test]
fn kernels_of_parts_that_did_not_change_are_not_looked_up_again() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    assert_eq!((stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)), (1, 70));
    for edit in 2..5 {
        let load = || load(&hot, parted(edit, 70));
        let (version, look_ups) = calls(&gpu, "cuModuleGetFunction", load);
        assert_eq!(version?.number(), u64::from(edit));
        // The kernel of the edited part, and its launcher.
        assert!(look_ups.is_none_or(|look_ups| look_ups == 2), "{look_ups:?} look-ups");
        let launch = || told(&gpu, &hot, &KEPT);
        let (word, look_ups) = calls(&gpu, "cuModuleGetFunction", launch);
        assert_eq!(word, 70);
        assert!(look_ups.is_none_or(|look_ups| look_ups == 0), "{look_ups:?} look-ups");
    }
    Ok(())
}

#[test]
fn a_part_lives_as_long_as_one_of_its_versions() -> GpuResult<()> {
    let (gpu, hot) = hot(1);
    load(&hot, parted(2, 75))?;
    for number in 3..30 {
        assert_eq!(u64::from(number), load(&hot, parted(number, 75))?.number());
        assert_eq!((stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)), (number, 75));
    }
    Ok(())
}

#[test]
fn a_part_that_did_not_change_keeps_its_variables() -> GpuResult<()> {
    let (gpu, hot) = hot(2);
    assert_eq!([told(&gpu, &hot, &COUNT), told(&gpu, &hot, &COUNT)], [1, 2]);
    load(&hot, parted(2, 70))?;
    assert_eq!(told(&gpu, &hot, &COUNT), 3);
    let edited = cuda_builder::with_parts(
        &parted(2, 70).replace("add.u32 %r2, %r1, 1", "add.u32 %r2, %r1, 101"),
    );
    load(&hot, edited)?;
    assert_eq!(told(&gpu, &hot, &COUNT), 101);
    Ok(())
}

#[test]
fn a_part_that_does_not_load_refuses_the_version_and_is_named() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    assert_eq!(stamped(&gpu, &hot), 1);
    // `kept` was never launched: it is tried nevertheless.
    let broken = parted(2, 70).replace("mov.u32 %r1, 70", "frob.u32 %r1, 70");
    let error = load(&hot, cuda_builder::with_parts(&broken)).unwrap_err();
    let named = |what: &str| error.contexts().any(|context| context == what);
    assert!(named("loading version 2") && named("loading the kernel `kept` for sm_70"), "{error}");
    assert_eq!((stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)), (1, 70));
    Ok(())
}

/// An edit by hand leaves the parts behind: the text is loaded as a whole.
#[test]
fn an_edited_text_is_loaded_as_a_whole() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    let (version, loaded) = loads(&gpu, || load(&hot, parted(1, 70).replace("%r1, 1;", "%r1, 9;")));
    assert_eq!(version?.number(), 2);
    assert_loads(loaded, 1);
    let (words, loaded) = loads(&gpu, || (stamped(&gpu, &hot), told(&gpu, &hot, &KEPT)));
    assert_eq!(words, (9, 70));
    assert_loads(loaded, 0);
    Ok(())
}
