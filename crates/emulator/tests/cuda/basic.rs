//! Maps, tiles and stencils.

use super::gpu::{Chance, Gpu, blocks, ulps};

fn gpu() -> Gpu {
    Gpu::new(include_str!("basic.ptx"))
}

#[test]
fn vector_add() {
    let gpu = gpu();
    for n in [1, 31, 32, 33, 257, 1000] {
        let mut chance = Chance(n as u64);
        let (a, b) = (chance.floats(n, 10.), chance.floats(n, 10.));
        let (da, db, dc) = (gpu.buffer(&a), gpu.buffer(&b), gpu.buffer(&vec![f32::NAN; n]));
        gpu.run("vector_add", blocks(n, 128), 128, &[&da, &db, &dc, &(n as i32)]);
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(dc.read(), expected);
    }
}

#[test]
fn saxpy() {
    let gpu = gpu();
    let mut chance = Chance(2);
    let (x, y) = (chance.floats(1001, 3.), chance.floats(1001, 3.));
    let (dx, dy) = (gpu.buffer(&x), gpu.buffer(&y));
    gpu.run("saxpy", 3, 64, &[&1.7f32, &dx, &dy, &1001]);
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| libm::fmaf(1.7, *x, *y)).collect();
    assert_eq!(dy.read(), expected);
}

#[test]
fn scale_vec4() {
    let gpu = gpu();
    for n in [3, 4, 127, 130] {
        let x = Chance(3).floats(n, 5.);
        let (dx, dy) = (gpu.buffer(&x), gpu.buffer(&vec![0f32; n]));
        gpu.run("scale_vec4", 1, 64, &[&dx, &dy, &0.3f32, &(n as i32)]);
        assert_eq!(dy.read(), x.iter().map(|x| x * 0.3).collect::<Vec<_>>());
    }
}

#[test]
fn matmul_tiled() {
    let gpu = gpu();
    for n in [1usize, 16, 37] {
        let mut chance = Chance(4);
        let (a, b) = (chance.floats(n * n, 1.), chance.floats(n * n, 1.));
        let (da, db, dc) = (gpu.buffer(&a), gpu.buffer(&b), gpu.buffer(&vec![0f32; n * n]));
        let tiles = blocks(n, 16);
        gpu.run("matmul_tiled", [tiles, tiles], [16, 16], &[&da, &db, &dc, &(n as i32)]);
        let found = dc.read();
        for (row, column) in (0..n).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let mut sum = 0f32;
            for k in 0..n {
                sum = libm::fmaf(a[row * n + k], b[k * n + column], sum);
            }
            assert_eq!(found[row * n + column], sum, "{n}: {row}, {column}");
        }
    }
}

#[test]
fn transpose_f32() {
    let gpu = gpu();
    let (w, h) = (45usize, 70usize);
    let x = Chance(5).floats(w * h, 1.);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![0f32; w * h]));
    gpu.run("transpose_f32", [2, 3], [32, 8], &[&from, &to, &(w as i32), &(h as i32)]);
    let expected: Vec<f32> = (0..w * h).map(|i| x[i % h * w + i / h]).collect();
    assert_eq!(to.read(), expected);
}

#[test]
fn transpose_u8() {
    let gpu = gpu();
    let (w, h) = (33usize, 31usize);
    let x: Vec<u8> = (0..w * h).map(|i| (i * 7) as u8).collect();
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![0u8; w * h]));
    gpu.run("transpose_u8", [2, 1], [32, 8], &[&from, &to, &(w as i32), &(h as i32)]);
    let expected: Vec<u8> = (0..w * h).map(|i| x[i % h * w + i / h]).collect();
    assert_eq!(to.read(), expected);
}

#[test]
fn stencil_2d() {
    let gpu = gpu();
    let (w, h) = (19usize, 11usize);
    let x = Chance(6).floats(w * h, 1.);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![0f32; w * h]));
    gpu.run("stencil_2d", [3, 2], [8, 8], &[&from, &to, &(w as i32), &(h as i32)]);
    for (i, found) in to.read().iter().enumerate() {
        let (cx, cy) = (i % w, i / w);
        let at = |x: usize, y: usize| x % w + y % h * w;
        let [left, right] = [x[at(cx + w - 1, cy)], x[at(cx + 1, cy)]];
        let [up, down] = [x[at(cx, cy + h - 1)], x[at(cx, cy + 1)]];
        assert_eq!(*found, 0.25 * (left + right + up + down), "{cx}, {cy}");
    }
}

#[test]
fn stencil_3d() {
    let gpu = gpu();
    let [nx, ny, nz] = [9usize, 7, 6];
    let x = Chance(7).doubles(nx * ny * nz, 1.);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![-1f64; nx * ny * nz]));
    let sizes = [nx as i32, ny as i32, nz as i32];
    gpu.run("stencil_3d", [2, 2], [8, 4], &[&from, &to, &sizes[0], &sizes[1], &sizes[2]]);
    for (i, found) in to.read().iter().enumerate() {
        let (cx, cy, cz) = (i % nx, i / nx % ny, i / nx / ny);
        let inner = |c: usize, n: usize| c > 0 && c < n - 1;
        if !(inner(cx, nx) && inner(cy, ny) && inner(cz, nz)) {
            assert_eq!(*found, -1.);
            continue;
        }
        let plane = nx * ny;
        let sum = (x[i - 1] + x[i + 1]) + (x[i - nx] + x[i + nx]) + (x[i - plane] + x[i + plane]);
        assert_eq!(*found, sum - 6. * x[i]);
    }
}

#[test]
fn convolve_with_constants_that_the_host_may_change() {
    let gpu = gpu();
    let (w, h) = (13usize, 9usize);
    let x = Chance(8).floats(w * h, 1.);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![0f32; w * h]));
    let mut weights = [1f32, 2., 1., 2., 4., 2., 1., 2., 1.];
    for _ in 0..2 {
        gpu.run("convolve", [2, 2], [8, 8], &[&from, &to, &(w as i32), &(h as i32)]);
        for (i, found) in to.read().iter().enumerate() {
            let mut sum = 0f32;
            for (k, weight) in weights.iter().enumerate() {
                let side = |c: usize, d: usize, n: usize| (c + d).saturating_sub(1).min(n - 1);
                let (sx, sy) = (side(i % w, k % 3, w), side(i / w, k / 3, h));
                sum = libm::fmaf(*weight, x[sy * w + sx], sum);
            }
            assert_eq!(*found, sum / 16.);
        }
        weights = [0., -1., 0., -1., 8., -1., 0., -1., 0.5];
        let global = gpu.module.global("weights").unwrap();
        let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        gpu.device.memory().write(global.address, &bytes).unwrap();
    }
}

#[test]
fn mandelbrot() {
    let gpu = gpu();
    let (w, h, limit) = (40, 30, 200);
    let out = gpu.buffer(&vec![0u32; (w * h) as usize]);
    gpu.run("mandelbrot", [5, 4], [8, 8], &[&out, &w, &h, &limit]);
    for (i, found) in out.read().iter().enumerate() {
        let (x, y) = (i as i32 % w, i as i32 / w);
        let cr = (3. * f64::from(x)) / f64::from(w) + -2.;
        let ci = (3. * f64::from(y)) / f64::from(h) + -1.5;
        let (mut zr, mut zi, mut n) = (0f64, 0f64, 0);
        while n < limit && zr * zr + zi * zi <= 4. {
            (zr, zi) = (zr * zr - zi * zi + cr, 2. * zr * zi + ci);
            n += 1;
        }
        assert_eq!(*found as i32, n, "{x}, {y}");
    }
}

/// `rsqrt.approx` is within 2 ULP, its cube within 6; a sum of 100 terms of either sign is held to
/// 1e-5 of the terms' magnitudes.
#[test]
fn nbody() {
    let gpu = gpu();
    let n = 100;
    let bodies = Chance(9).floats(4 * n, 1.);
    let (from, to) = (gpu.buffer(&bodies), gpu.buffer(&vec![0f32; 4 * n]));
    gpu.launch("nbody", (2, 64, 64 * 16), &[&from, &to, &(n as i32)]).unwrap();
    let body = |i: usize| [0, 1, 2, 3].map(|c| f64::from(bodies[4 * i + c]));
    for (i, found) in to.read().chunks(4).enumerate() {
        let (mut force, mut size, own) = ([0f64; 3], 0f64, body(i));
        for other in (0..n).map(body) {
            let d = [0, 1, 2].map(|c| other[c] - own[c]);
            let r = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 1e-2).sqrt();
            let scale = other[3] / (r * r * r);
            for c in 0..3 {
                force[c] += d[c] * scale;
                size += (d[c] * scale).abs();
            }
        }
        for c in 0..3 {
            let error = (f64::from(found[c]) - force[c]).abs();
            assert!(error <= 1e-5 * size, "{i}: {} and {}", found[c], force[c]);
        }
        assert_eq!(ulps(found[3], 0.), 0);
    }
}
