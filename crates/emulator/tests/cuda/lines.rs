//! The source lines that faults name.

use super::gpu::Gpu;

fn gpu() -> Gpu {
    Gpu::new(include_str!("lines.ptx"))
}

/// Line of the file that holds a text.
fn line_of(text: &str) -> u32 {
    let lines = include_str!("lines.cu").lines();
    lines.zip(1..).find(|(line, _)| line.contains(text)).unwrap().1
}

#[test]
fn far_away_names_the_innermost_line_that_is_not_the_toolkits() {
    let gpu = gpu();
    let (x, out) = (gpu.buffer(&[0x3c00u16; 4]), gpu.buffer(&[0f32; 2]));
    gpu.run("far_away", 1, 2, &[&x, &out, &3]);
    assert_eq!(out.read(), [2., 3.]);
    let trap = gpu.launch("far_away", (1, 2, 0), &[&x, &out, &4]).unwrap_err();
    let source = trap.source.unwrap();
    assert_eq!((source.file.as_str(), source.line), ("lines.cu", line_of("__ldg(x)")));
}

#[test]
fn store_far_names_the_line_of_the_inlined_function() {
    let gpu = gpu();
    let out = gpu.buffer(&[0f32; 2]);
    gpu.run("store_far", 1, 1, &[&out, &1]);
    assert_eq!(out.read(), [0., 3.]);
    let trap = gpu.launch("store_far", (1, 1, 0), &[&out, &2]).unwrap_err();
    let source = trap.source.unwrap();
    assert_eq!((source.file.as_str(), source.line), ("lines.cu", line_of("out[i] = value")));
}
