//! Variables of modules: constants and statics that the host reads and writes.

use cuda_driver::injection;
use ferrowarp::error::GraphError;
use ferrowarp::module::{Args, Global, Module};
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuError, GpuResult, Linear};

use crate::kernels::{gpu, image};

/// A constant table and a counter, with a kernel for each, and a variable that no kernel uses.
const PTX: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
.visible .const .align 4 .b8 TABLE[32] = {1, 0, 0, 0, 2, 0, 0, 0};\n\
.visible .global .align 4 .u32 COUNT = 40;\n\
.global .align 1 .b8 anon_$_0[4] = {1, 2, 3, 4};\n\
.visible .entry look(.param .u64 out)\n{\n\
.reg .b32 %r<3>;\n.reg .b64 %rd<6>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n\
mov.u64 %rd3, TABLE;\nadd.s64 %rd4, %rd3, %rd2;\nld.const.u32 %r2, [%rd4];\nadd.s64 %rd5, %rd1, %rd2;\n\
st.u32 [%rd5], %r2;\nret;\n}\n\
.visible .entry count(.param .u32 value)\n{\n\
.reg .b32 %r<3>;\nld.param.u32 %r1, [value];\natom.global.add.u32 %r2, [COUNT], %r1;\nret;\n}\n";

fn module() -> Module {
    Module::from_ptx(gpu(), PTX).unwrap()
}

/// The table as the kernel `look` finds it.
fn looked(module: &Module) -> GpuResult<Vec<u32>> {
    let mut out = DeviceBuffer::<u32>::zeroed(gpu(), 8)?;
    let mut args = Args::new();
    args.push_write_pointer(&mut out);
    // SAFETY: `look` takes a pointer, and writes a word for each of its eight threads.
    unsafe { module.function("look")?.launch(gpu(), Linear::new(1, 8), &args)? };
    out.to_vec()
}

/// Adds to the counter, on a stream of its own or the device's.
fn count(module: &Module, on: &impl ferrowarp::AsStream, value: u32) -> GpuResult<()> {
    let mut args = Args::new();
    args.push_value(value);
    // SAFETY: `count` takes a word, and adds to the counter atomically.
    unsafe { module.function("count")?.launch(on, Linear::new(1, 32), &args) }
}

/// Writes a variable of these tests, whose kernels run on streams that are idle.
fn write<T: bytemuck::Pod>(global: &Global<T>, value: &T) -> GpuResult<()> {
    // SAFETY: each test has a module of its own and one stream, and the kernels read the variables when they run.
    unsafe { global.copy_from(value) }
}

#[test]
fn a_constant_is_written_for_the_launches_after_it() -> GpuResult<()> {
    let module = module();
    let table = module.global::<[u32; 8]>("TABLE")?;
    assert_eq!((table.name(), table.get()?), ("TABLE", [1, 2, 0, 0, 0, 0, 0, 0]));
    assert_eq!(looked(&module)?, [1, 2, 0, 0, 0, 0, 0, 0]);
    for round in 0..5u32 {
        let values = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| n * round + 1);
        write(&table, &values)?;
        assert_eq!(looked(&module)?, values);
        let mut found = [0; 8];
        table.copy_to(&mut found)?;
        assert_eq!(found, values);
    }
    // Another module of that text has its own.
    assert_eq!(looked(&self::module())?[..2], [1, 2]);
    Ok(())
}

#[test]
fn what_kernels_write_is_read_after_them() -> GpuResult<()> {
    let (module, stream) = (module(), gpu().create_stream()?);
    let counter = module.global::<u32>("COUNT")?.on(&stream)?;
    for round in 1..10 {
        count(&module, &stream, round)?;
        assert_eq!(counter.get()?, 40 + 32 * (1..=round).sum::<u32>());
    }
    write(&counter, &5)?;
    count(&module, &stream, 1)?;
    assert_eq!(counter.clone().get()?, 37);
    assert_eq!(counter.as_device_ptr().address() % 4, 0);
    Ok(())
}

#[test]
fn a_variable_keeps_its_module() -> GpuResult<()> {
    let counter = module().global::<u32>("COUNT")?;
    let table = module().global::<[u32; 8]>("TABLE")?;
    // Code that is loaded now would take the place of code that is gone.
    let _more: Vec<Module> = (0..4).map(|_| module()).collect();
    write(&counter, &77)?;
    write(&table, &[9; 8])?;
    assert_eq!((counter.get()?, table.get()?), (77, [9; 8]));
    Ok(())
}

#[test]
fn sizes_and_names_are_checked() -> GpuResult<()> {
    let module = module();
    for error in [
        module.global::<[u32; 7]>("TABLE").unwrap_err(),
        module.global::<[u32; 9]>("TABLE").unwrap_err(),
        module.global::<u32>("TABLE").unwrap_err(),
        module.global::<[u8; 0]>("TABLE").unwrap_err(),
    ] {
        assert!(matches!(error.root(), GpuError::WrongGlobal { bytes: 32, .. }), "{error}");
    }
    // Types of that size are its author's to choose.
    assert_eq!(module.global::<[[u16; 2]; 8]>("TABLE")?.get()?[1], [2, 0]);
    let error = module.global::<u32>("COUN").unwrap_err();
    let GpuError::NoGlobal { name, candidates } = error.root() else { panic!("{error}") };
    assert_eq!(
        (name.as_str(), &candidates[..]),
        ("COUN", &["COUNT".to_owned(), "TABLE".to_owned()][..])
    );
    // Kernels, and names that no driver takes, are not variables.
    for name in ["look", "", "TABLE\0", "tid"] {
        assert!(matches!(
            module.global::<u32>(name).unwrap_err().root(),
            GpuError::NoGlobal { .. }
        ));
    }
    Ok(())
}

/// A text with an index of parts, as images have it: only the part that has the variable is loaded.
#[test]
fn a_variable_is_found_in_its_part() -> GpuResult<()> {
    let parted: &'static str = cuda_builder::with_parts(PTX).leak();
    assert_eq!(cuda_builder::parts(parted).map(|parts| parts.len()), Some(2));
    let own = Gpu::with_images(&[image(parted)])?;
    let (found, calls) = injection::watch(|| own.global::<u32>("COUNT"));
    let counter = found?;
    let loads = calls.iter().filter(|call| call.function == "cuLibraryLoadData").count();
    if own.backend() == Backend::Emulator {
        assert_eq!(loads, 1);
    }
    count(&Module::of(&own), &own, 1)?;
    assert_eq!(counter.get()?, 72);
    let table = own.global::<[u32; 8]>("TABLE")?;
    write(&table, &[3; 8])?;
    assert_eq!(looked(&Module::of(&own))?, [3; 8]);
    Ok(())
}

#[test]
fn a_copy_is_no_part_of_a_graph() -> GpuResult<()> {
    let (table, stream) = (module().global::<[u32; 8]>("TABLE")?, gpu().create_stream()?);
    let captured = stream.capture(|_| table.get().map(drop));
    let Err(error) = captured else { panic!("it was captured") };
    let GpuError::Graph(graph) = error.root() else { panic!("{error}") };
    assert!(matches!(**graph, GraphError::NotCapturable { .. }), "{error}");
    Ok(())
}
