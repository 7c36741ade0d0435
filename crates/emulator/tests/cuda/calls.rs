//! Functions, objects, values in memory.

use super::gpu::{Chance, Gpu, Plain};

fn gpu() -> Gpu {
    Gpu::new(include_str!("calls.ptx"))
}

fn ackermann(m: u32, n: u32) -> u32 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ackermann(m - 1, 1),
        (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

#[test]
fn recursion() {
    let gpu = gpu();
    let out = gpu.buffer(&[0u32; 48]);
    gpu.run("recursion", 1, 48, &[&out]);
    let expected: Vec<u32> = (0..48).map(|t| ackermann(t % 3, t / 3)).collect();
    assert_eq!(out.read(), expected);
}

#[test]
fn sort_local() {
    let gpu = gpu();
    let x: Vec<i32> = Chance(1).words(40 * 24).iter().map(|word| *word as i32 % 50).collect();
    let out = gpu.buffer(&vec![0i32; x.len()]);
    gpu.run("sort_local", 1, 40, &[&gpu.buffer(&x), &out]);
    let mut expected = x;
    expected.chunks_mut(24).for_each(<[i32]>::sort_unstable);
    assert_eq!(out.read(), expected);
}

#[test]
fn function_pointers() {
    let gpu = gpu();
    let x = Chance(2).floats(64, 4.);
    let which: Vec<i32> = (0..64).map(|i| i * 5 % 3).collect();
    let out = gpu.buffer(&[0f32; 64]);
    gpu.run("function_pointers", 1, 64, &[&gpu.buffer(&x), &out, &gpu.buffer(&which)]);
    let table: [fn(f32) -> f32; 3] = [|x| 2. * x, |x| x * x, |x| -x];
    for (i, found) in out.read().iter().enumerate() {
        let (f, g) = (table[which[i] as usize], table[(which[i] as usize + 1) % 3]);
        assert_eq!(*found, f(f(x[i])) + g(x[i]), "{i}");
    }
}

#[test]
fn virtual_calls() {
    let gpu = gpu();
    let (areas, initials) = (gpu.buffer(&[0f32; 40]), gpu.buffer(&[0u8; 40]));
    gpu.run("virtual_calls", 1, 40, &[&areas, &initials]);
    let area = |t: i32| if t % 3 == 0 { 2 * t } else { 3 * t * t };
    assert_eq!(areas.read(), (0..40).map(|t| area(t) as f32).collect::<Vec<_>>());
    let name = |t: i32| if t % 3 == 0 { b'o' } else { b'h' };
    assert_eq!(initials.read(), (0..40).map(name).collect::<Vec<_>>());
}

#[test]
fn switch_table() {
    let gpu = gpu();
    let x: Vec<i32> = (-3..40).collect();
    let out = gpu.buffer(&vec![0i64; x.len()]);
    gpu.run("switch_table", 2, 32, &[&gpu.buffer(&x), &out, &(x.len() as i32)]);
    for (i, found) in out.read().iter().enumerate() {
        let r = i as i64;
        let expected = match x[i] {
            0 => r + 17,
            1 => r * 3,
            2 => r ^ 0x55,
            3 => (r - 1000) << 3,
            4 => r << 3,
            5 => !r,
            6 => r * r,
            7 => -r,
            8 => r % 7,
            _ => -1,
        };
        assert_eq!(*found, expected, "{}", x[i]);
    }
}

/// A particle as C++ lays it out: three doubles, a float, a short, a byte, and one of padding.
fn particle(position: [f64; 3], mass: f32, kind: i16, tag: u8) -> Vec<u8> {
    let mut out: Vec<u8> = position.iter().flat_map(Plain::bytes).collect();
    out.extend(mass.bytes());
    out.extend(kind.to_le_bytes());
    out.extend([tag, 0]);
    out
}

#[test]
fn structures() {
    let gpu = gpu();
    let first = particle([1., 2., 3.], 0.5, 9, 250);
    let (out, steps) = (gpu.buffer(&[0u8; 32 * 33]), gpu.buffer(&[0i32; 33]));
    gpu.run("structures", 1, 33, &[&first, &out, &steps]);
    for (t, found) in out.read().chunks(32).enumerate() {
        let dt = 0.5 * t as f64;
        let position = [1., 2., 3.].map(|x: f64| libm::fma(dt, 0.5, x));
        assert_eq!(found[..31], particle(position, 0.5, t as i16, 251)[..31], "{t}");
    }
    assert_eq!(steps.read(), (0..33).map(|t| 2 * t).collect::<Vec<_>>());
}

#[test]
fn local_arrays() {
    let gpu = gpu();
    let text = b"the quick brown fox jumps over the lazy dog, twice: The Quick Brown Fox";
    let out = gpu.buffer(&[0u32; 26 * 8]);
    gpu.run("local_arrays", 1, 8, &[&gpu.buffer(text), &out, &(text.len() as i32)]);
    let mut expected = [0u32; 26 * 8];
    for (i, letter) in text.iter().enumerate().filter(|(_, letter)| letter.is_ascii_lowercase()) {
        expected[i % 8 * 26 + usize::from(letter - b'a')] += 1;
    }
    assert_eq!(out.read(), expected);
}

#[test]
fn stack_memory() {
    let gpu = gpu();
    let out = gpu.buffer(&[0i32; 40]);
    gpu.run("stack_memory", 1, 40, &[&out]);
    let on_the_stack = |n: i32| (0..n).rev().fold(0, |sum, i| sum * 3 + i * i);
    let expected: Vec<i32> = (0..40).map(|t| on_the_stack(t % 9) + on_the_stack(5)).collect();
    assert_eq!(out.read(), expected);
}

#[test]
fn templates() {
    let gpu = gpu();
    let out = gpu.buffer(&[0f32; 16]);
    gpu.run("templates", 1, 16, &[&out]);
    let expected: Vec<f32> = (0..16).map(|t| (t * t * t * t * t + 45 * t) as f32).collect();
    assert_eq!(out.read(), expected);
}
