//! Kernels that are found by their names, in PTX that is loaded at run time.

use std::fs;

use cuda_std::launch::LaunchConfig;
use ferrowarp::module::{Args, Module, ModuleFunction};
use ferrowarp::{Backend, DeviceBuffer, GpuError, GpuResult, Linear};

use crate::kernels::{IMAGES, churned, fill, gpu};

/// The tests' kernels, loaded as text.
fn module() -> Module {
    Module::from_ptx(gpu(), IMAGES[0].ptx()).unwrap()
}

/// The arguments of the kernels that take words and a value.
fn words_and_value(words: &mut DeviceBuffer<u32>, value: u32) -> Args<'_> {
    let mut args = Args::new();
    args.push_write(words);
    args.push_value(value);
    args
}

/// Launches one of the kernels that take words and a value, one thread a word.
fn launch(
    function: &ModuleFunction,
    on: &impl ferrowarp::AsStream,
    words: &mut DeviceBuffer<u32>,
    value: u32,
) -> GpuResult<()> {
    let config = LaunchConfig::for_num_elems(words.len());
    let args = words_and_value(words, value);
    // SAFETY: such a kernel takes these arguments and stays inside the words.
    unsafe { function.launch(on, config, &args) }
}

#[test]
fn a_kernel_is_launched_by_its_name() -> GpuResult<()> {
    let fill = module().function("fill")?;
    assert_eq!((fill.name(), fill.parameter_bytes().collect::<Vec<_>>()), ("fill", vec![8, 8, 4]));
    for len in [0, 1, 31, 32, 33, 255, 256, 257, 1009, 65_537] {
        let mut words = DeviceBuffer::<u32>::zeroed(gpu(), len)?;
        launch(&fill, gpu(), &mut words, 7)?;
        assert_eq!(words.to_vec()?, vec![7; len]);
    }
    Ok(())
}

/// What nvcc makes of `__global__ void copy(const float *in, float *out, int n)`: pointers without lengths.
const POINTERS: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
.visible .entry copy(\n\t.param .u64 copy_param_0,\n\t.param .u64 copy_param_1,\n\t.param .u32 copy_param_2\n)\n{\n\
.reg .pred %p<2>;\n.reg .b32 %r<7>;\n.reg .b64 %rd<6>;\n\
ld.param.u64 %rd1, [copy_param_0];\nld.param.u64 %rd2, [copy_param_1];\nld.param.u32 %r1, [copy_param_2];\n\
mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n\
setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra $DONE;\nmul.wide.s32 %rd3, %r5, 4;\n\
add.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nld.u32 %r6, [%rd4];\nst.u32 [%rd5], %r6;\n\
$DONE:\nret;\n}\n";

#[test]
fn pointers_without_lengths_are_ordered_with_the_memorys_other_uses() -> GpuResult<()> {
    let copy = Module::from_ptx(gpu(), POINTERS)?.function("copy")?;
    let (one, other) = (gpu().create_stream()?, gpu().create_stream()?);
    let (mut input, mut output) =
        (DeviceBuffer::<u32>::zeroed(&one, 5000)?, DeviceBuffer::<u32>::zeroed(&other, 5000)?);
    for round in 1..20 {
        fill(&one, &mut input, round)?;
        let mut args = Args::new();
        args.push_read_pointer(&input);
        args.push_write_pointer(&mut output);
        args.push_value(5000i32);
        let stream = if round % 2 == 0 { &one } else { gpu().stream() };
        // SAFETY: `copy` takes two pointers and the number of elements behind each.
        unsafe { copy.launch(stream, LaunchConfig::for_num_elems(5000), &args)? };
        assert_eq!(output.to_vec()?, [round; 5000]);
    }
    Ok(())
}

#[test]
fn wrong_arguments_are_refused_with_the_parameter_that_differs() -> GpuResult<()> {
    let fill = module().function("fill")?;
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), 4)?;
    let refusal = |args: &Args| {
        // SAFETY: it is refused before the launch.
        let error = unsafe { fill.launch(gpu(), Linear::new(1, 4), args) }.expect_err("it differs");
        assert!(
            matches!(error.root(), GpuError::WrongParameters { kernel: "fill", .. }),
            "{error}"
        );
        error.root().to_string()
    };
    let mut args = Args::new();
    args.push_write(&mut words);
    assert_eq!(
        refusal(&args),
        "`fill` takes 3 parameters of [8, 8, 4] bytes, and is launched with [8, 8]"
    );
    args.push_value(1u64);
    let line = refusal(&args);
    assert!(line.ends_with("[8, 8, 8]: parameter 2 has 4 bytes, and its argument 8"), "{line}");
    let mut args = words_and_value(&mut words, 1);
    args.push_value(2u8);
    assert!(refusal(&args).ends_with("is launched with [8, 8, 4, 1]"));
    let mut args = Args::new();
    args.push_value(1u32);
    args.push_write_pointer(&mut words);
    args.push_value(1u32);
    let line = refusal(&args);
    assert!(line.ends_with("parameter 0 has 8 bytes, and its argument 4"), "{line}");
    assert_eq!(words.to_vec()?, [0; 4]);
    Ok(())
}

#[test]
fn a_name_that_is_not_there_lists_the_nearest_first() {
    let error = module().function("fil").unwrap_err();
    let GpuError::NotFound { kernel, candidates, .. } = error.root() else { panic!("{error}") };
    assert_eq!((kernel.as_str(), candidates[0].as_str(), candidates.len()), ("fil", "fill", 5));
    let empty = Module::from_ptx(gpu(), ".version 7.0\n.target sm_70\n.address_size 64\n").unwrap();
    assert_eq!(empty.function_names().unwrap(), [""; 0]);
    assert!(matches!(empty.function("fill").unwrap_err().root(), GpuError::NotFound { .. }));
}

/// A word that no assembler knows, and a text that is not PTX.
#[test]
fn broken_ptx_is_refused_with_its_line() {
    let text = IMAGES[0].ptx();
    for (good, broken) in
        [("st.global.u32 [", "st.nowhere.u32 ["), ("ld.param.u32 %r1,", "ld.param.u32 %r1 ;,")]
    {
        let line = 1 + text.lines().position(|line| line.contains(good)).expect("it is there");
        let error = Module::from_ptx(gpu(), text.replacen(good, broken, 1)).unwrap_err();
        let driver = error.driver().unwrap_or_else(|| panic!("{error}"));
        let (found, column) = driver.ptx_position().unwrap_or_else(|| panic!("{error}"));
        assert_eq!((driver.code(), found as usize), (218, line), "{error}");
        // The emulator's parser has columns; for the first text it is not the parser that refuses it.
        if gpu().backend() == Backend::Emulator && broken.contains(';') {
            assert!(column.is_some_and(|column| column > 4), "{column:?} of {error}");
        }
    }
    // What was loaded before is not the worse for it.
    assert!(module().function("fill").is_ok());
}

#[test]
fn a_file_is_loaded_and_named_where_it_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernels.ptx");
    let load = || Module::from_file(gpu(), &path);
    let error = load().unwrap_err();
    assert!(matches!(error.root(), GpuError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("kernels.ptx"), "{error}");
    fs::write(&path, b"\xff").unwrap();
    assert!(matches!(load().unwrap_err().root(), GpuError::Unreadable { .. }));
    fs::write(&path, ".version nothing").unwrap();
    let error = load().unwrap_err();
    assert!(error.driver().is_some() && error.to_string().contains("kernels.ptx"), "{error}");
    fs::write(&path, IMAGES[0].ptx()).unwrap();
    assert!(load().unwrap().function_names().unwrap().contains(&"churn".to_owned()));
}

#[test]
fn a_block_that_the_ptx_fixes_is_demanded() -> GpuResult<()> {
    let ptx = POINTERS.replacen(")\n{", ")\n.reqntid 64\n{", 1);
    let copy = Module::from_ptx(gpu(), ptx)?.function("copy")?;
    let input = DeviceBuffer::<u32>::from_slice(gpu(), &[5; 100])?;
    let mut output = DeviceBuffer::<u32>::zeroed(gpu(), 100)?;
    let mut args = Args::new();
    args.push_read_pointer(&input);
    args.push_write_pointer(&mut output);
    args.push_value(100i32);
    // SAFETY: `copy` takes two pointers and the number of elements behind each; the first launch is refused.
    let (refused, launched) = unsafe {
        let refused = copy.launch(gpu(), Linear::new(1, 128), &args);
        (refused, copy.launch(gpu(), Linear::new(2, 64), &args))
    };
    assert!(matches!(refused.unwrap_err().root(), GpuError::Contract { kernel: "copy", .. }));
    launched?;
    assert_eq!(output.to_vec()?, [5; 100]);
    Ok(())
}

#[test]
fn a_module_that_is_dropped_while_its_kernel_runs_ends_after_it() -> GpuResult<()> {
    const ROUNDS: u32 = 20_000;
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    for _ in 0..3 {
        let churn = module().function("churn")?;
        launch(&churn, &stream, &mut words, ROUNDS)?;
        drop(churn);
    }
    assert_eq!(words.to_vec()?, [churned(0, 3 * ROUNDS); 64]);
    Ok(())
}

#[test]
fn a_launch_by_name_is_captured() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 33)?;
    // A module is loaded before: a capture takes no loading.
    let fill = module().function("fill")?;
    let builder = stream.capture(|stream| launch(&fill, stream, &mut words, 6))?;
    assert_eq!(words.to_vec()?, [0; 33]);
    let mut graph = builder.build(words)?;
    graph.launch(&stream)?;
    assert_eq!(graph.wait()?.to_vec()?, [6; 33]);
    Ok(())
}

/// Typed launchers and names find one kernel.
#[test]
fn the_kernels_of_a_gpu_are_found_by_name_too() -> GpuResult<()> {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), 31)?;
    let by_name = Module::of(gpu()).function("fill")?;
    launch(&by_name, gpu(), &mut words, 3)?;
    assert_eq!(words.to_vec()?, [3; 31]);
    fill(gpu(), &mut words, 4)?;
    assert_eq!(words.to_vec()?, [4; 31]);
    assert!(by_name.occupancy(0)?.block_threads >= 32);
    Ok(())
}
