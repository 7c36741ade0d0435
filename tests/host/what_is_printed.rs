//! What `{:?}` shows of the things that a program holds: a line, whatever hangs on them.

use std::fmt::Debug;

use ferrowarp::graph::GraphBuilder;
use ferrowarp::ops::Scratch;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, LaunchConfig, ops, shipped};
use kernels_gpu::elementwise::vecadd;

use crate::kernels::{IMAGES, LAST_WORD, fill, launch};

/// What `thing` is printed as, which begins so and fits in a few lines of a terminal.
#[track_caller]
fn printed(thing: impl Debug, begin: &str) -> String {
    let text = format!("{thing:?}");
    assert!(text.starts_with(begin), "{}", &text[..text.len().min(400)]);
    assert!(text.len() < 400, "{} bytes: {}", text.len(), &text[..400]);
    text
}

#[test]
fn what_a_program_holds_is_a_line() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let text = printed(&gpu, "Gpu { ordinal: 0, name: ");
    assert!(text.contains(gpu.name()) && text.contains(" on GPU 0)"), "{text}");
    printed(gpu.stream(), "Stream(0x");
    printed(gpu.stream().record()?, "Event");

    let mut x = DeviceBuffer::from_slice(&gpu, &[1.0f32; 4])?;
    printed(&x, "DeviceBuffer(0x");
    printed(x.as_slice(), "DeviceSlice");
    printed(x.as_mut_slice(), "DeviceSliceMut");
    printed(Scratch::new(&gpu)?, "Scratch");

    let image = shipped::IMAGES[0];
    let size = format!("{} bytes of PTX)", image.ptx().len());
    assert!(printed(image, "Image(sm_").ends_with(&size));

    let builder = GraphBuilder::new(&gpu);
    let node = builder.node("double");
    printed(&builder, "GraphBuilder");
    printed(&node, "GraphNode");
    Ok(())
}

#[test]
fn versions_of_a_hot_module_are_a_line_each() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), IMAGES[0].ptx()).expect("the file takes it");
    // SAFETY: the file has the kernels of these tests.
    let hot = unsafe { gpu.watch_ptx(file.path())? };
    let version = hot.version(1)?;
    assert_eq!(printed(&version, "ModuleVersion("), format!("ModuleVersion({})", version.info()));
    printed(&hot, "HotModule");
    Ok(())
}

#[test]
fn one_device_has_the_kernels_of_several_images() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let mut x = DeviceBuffer::zeroed(&gpu, 4)?;
    fill(&gpu, &mut x, 7)?;
    let both = gpu.with_kernels(shipped::IMAGES);
    assert_eq!(ops::reduce::sum(&both, &x)?, 4 * 7);
    // What runs on both is in one order, since it is the same stream.
    assert_eq!(format!("{:?}", both.stream()), format!("{:?}", gpu.stream()));
    fill(&both.with_kernels(IMAGES), &mut x, 8)?;
    assert_eq!(x.to_vec()?, [8; 4]);
    Ok(())
}

#[test]
fn a_kernel_of_other_images_says_where_it_is() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let a = DeviceBuffer::from_slice(&gpu, &[1.0f32; 4])?;
    let mut sum = DeviceBuffer::zeroed(&gpu, 4)?;
    let all = LaunchConfig::for_num_elems(4);
    let missing = vecadd::launch(&gpu, all, &a, &a, &mut sum).unwrap_err();
    assert!(matches!(missing.root(), GpuError::NotFound { .. }), "{missing}");
    // What a program whose `main` returns it prints.
    assert_eq!(format!("{missing:?}"), missing.to_string());
    assert!(
        missing.to_string().contains("gpu.with_kernels(ferrowarp::shipped::IMAGES)"),
        "{missing}"
    );

    let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
    let own = launch(&Gpu::new()?, &LAST_WORD, all, &mut words, 1).unwrap_err();
    assert!(own.to_string().contains("Gpu::with_images(ferrowarp::include_kernels!())"), "{own}");
    Ok(())
}
