//! What this reads is what the compiler of these tests writes. After an upgrade these tests say what has changed.

use std::fmt;
use std::process::Command;

use super::RELEASES;
use super::template::{Step, steps, values};

#[test]
fn the_compiler_is_one_whose_internals_are_read() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("the compiler runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = version.trim_start_matches("rustc ").split('.').map_while(|n| n.parse().ok());
    let release = numbers.next().zip(numbers.next()).expect("a version");
    assert!(RELEASES.contains(&release), "{version}");
}

/// Compares the template of `arguments`, as the compiler wrote it, and what is read there.
fn assert_template(arguments: fmt::Arguments<'_>, bytes: &[u8], texts: &[&str], count: usize) {
    const { assert!(size_of::<fmt::Arguments<'_>>() == 2 * size_of::<*const u8>()) };
    // SAFETY: both are two words without padding, which may have any bytes.
    let [template, _] =
        unsafe { std::mem::transmute::<fmt::Arguments<'_>, [*const u8; 2]>(arguments) };
    // SAFETY: in the releases that the test above insists on, the first word points to the template, which has at least
    // as many bytes as its texts and the end.
    let written = unsafe { std::slice::from_raw_parts(template, bytes.len()) };
    assert_eq!(written, bytes);
    let found: Vec<&str> = steps(written)
        .filter_map(|step| match step.expect("a whole template") {
            Step::Text(text) => Some(std::str::from_utf8(text).expect("text")),
            Step::Placeholder(_) => None,
        })
        .collect();
    assert_eq!((&*found, values(written)), (texts, count));
}

#[test]
fn templates_of_the_compiler_are_read() {
    let (number, width, precision) = (std::hint::black_box(7), 9, 3);
    assert_template(
        format_args!("the len is {number}!"),
        b"\x0bthe len is \xC0\x01!\0",
        &["the len is ", "!"],
        1,
    );
    let flags = (u32::from(b' ') | 1 << 27 | 3 << 29).to_le_bytes();
    let fixed = [&b"\xC3"[..], &flags, b"\x05\0\0"].concat();
    assert_template(format_args!("{number:5}"), &fixed, &[], 1);
    let flags = (u32::from(b' ') | 1 << 27 | 1 << 28 | 3 << 29).to_le_bytes();
    let counted = [&b"\xF7"[..], &flags, b"\x01\0\x02\0\0"].concat();
    assert_template(format_args!("{:1$.2$}", 2.5, width, precision), &counted, &[], 3);
}
