//! Reductions, scans, sorts.

use super::gpu::{Chance, Gpu, blocks};

fn gpu() -> Gpu {
    Gpu::new(include_str!("collective.ptx"))
}

#[test]
fn reduce_tree() {
    let gpu = gpu();
    for n in [1, 255, 256, 257, 1500] {
        let x: Vec<i32> = Chance(1).words(n).iter().map(|word| *word as i32).collect();
        let (from, to) = (gpu.buffer(&x), gpu.buffer(&[0i64]));
        gpu.run("reduce_tree", blocks(n, 256), 256, &[&from, &to, &(n as i32)]);
        assert_eq!(to.read(), [x.iter().map(|x| i64::from(*x)).sum::<i64>()]);
    }
}

/// The sum in the order that the kernel has: over strides, then halves of warps.
#[test]
fn reduce_shuffle() {
    let gpu = gpu();
    let x = Chance(2).floats(1000, 1.);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&[0f32]));
    gpu.run("reduce_shuffle", 1, 128, &[&from, &to, &1000]);
    let warp = |mut v: Vec<f32>| {
        for d in [16, 8, 4, 2, 1] {
            v = (0..32).map(|i| v[i] + if i + d < 32 { v[i + d] } else { v[i] }).collect();
        }
        v[0]
    };
    let own: Vec<f32> =
        (0..128).map(|t| x.iter().skip(t).step_by(128).fold(0., |sum, x| sum + x)).collect();
    let mut sums: Vec<f32> = own.chunks(32).map(|part| warp(part.to_vec())).collect();
    sums.resize(32, 0.);
    assert_eq!(to.read(), [warp(sums)]);
}

#[test]
fn reduce_groups() {
    let gpu = gpu();
    let x: Vec<i32> = Chance(3).words(128).iter().map(|word| (word % 1000) as i32).collect();
    let [sums, maxima] = [(); 2].map(|()| gpu.buffer(&[0i32; 16]));
    let (from, counts) = (gpu.buffer(&x), gpu.buffer(&vec![0i32; 128]));
    gpu.run("reduce_groups", 2, 64, &[&from, &sums, &maxima, &counts, &128]);
    assert_eq!(sums.read(), x.chunks(8).map(|part| part.iter().sum::<i32>()).collect::<Vec<_>>());
    assert_eq!(
        maxima.read(),
        x.chunks(8).map(|part| *part.iter().max().unwrap()).collect::<Vec<_>>()
    );
    for (i, found) in counts.read().iter().enumerate() {
        let warp = &x[i / 32 * 32..][..32];
        let same = |part: &[i32]| part.iter().filter(|v| **v % 3 == x[i] % 3).count() as i32;
        assert_eq!(*found, same(warp) * 100 + same(&warp[..i % 32]), "{i}");
    }
}

#[test]
fn scan_groups() {
    let gpu = gpu();
    let x: Vec<i32> = Chance(4).words(64).iter().map(|word| (word % 1000) as i32).collect();
    let [inclusive, exclusive] = [(); 2].map(|()| gpu.buffer(&vec![0i32; 64]));
    gpu.run("scan_groups", 1, 64, &[&gpu.buffer(&x), &inclusive, &exclusive]);
    let warp = |i: usize| i / 32 * 32;
    let sums: Vec<i32> = (0..64).map(|i| x[warp(i)..=i].iter().sum()).collect();
    let xors: Vec<i32> = (0..64).map(|i| x[warp(i)..i].iter().fold(0, |a, b| a ^ b)).collect();
    assert_eq!((inclusive.read(), exclusive.read()), (sums, xors));
}

fn running(x: &[u32]) -> Vec<u32> {
    x.iter()
        .scan(0u32, |sum, x| {
            *sum = sum.wrapping_add(*x);
            Some(*sum)
        })
        .collect()
}

#[test]
fn scan_block() {
    let gpu = gpu();
    let x = Chance(5).words(200);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![0u32; 200]));
    gpu.launch("scan_block", (1, 256, 2 * 256 * 4), &[&from, &to, &200]).unwrap();
    assert_eq!(to.read(), running(&x));
}

#[test]
fn scan_look_back() {
    let gpu = gpu();
    let n = 5000;
    let x = Chance(6).words(n);
    let (from, to) = (gpu.buffer(&x), gpu.buffer(&vec![0u32; n]));
    let (flags, ticket) = (gpu.buffer(&vec![0u64; 40]), gpu.buffer(&[0u32]));
    gpu.run("scan_look_back", blocks(n, 128), 128, &[&from, &to, &flags, &ticket, &(n as i32)]);
    assert_eq!(to.read(), running(&x));
}

#[test]
fn histogram() {
    let gpu = gpu();
    let x: Vec<u8> = Chance(7).words(3001).iter().map(|word| (word % 201) as u8).collect();
    let (from, bins) = (gpu.buffer(&x), gpu.buffer(&vec![0u32; 256]));
    gpu.run("histogram", 3, 96, &[&from, &bins, &3001]);
    let mut expected = vec![0u32; 256];
    x.iter().for_each(|x| expected[usize::from(*x)] += 1);
    assert_eq!(bins.read(), expected);
}

#[test]
fn bitonic_sort() {
    let gpu = gpu();
    let x: Vec<i32> = Chance(8).words(512).iter().map(|word| *word as i32).collect();
    let (keys, values) = (gpu.buffer(&x), gpu.buffer(&(0..512u16).collect::<Vec<_>>()));
    gpu.run("bitonic_sort", 1, 256, &[&keys, &values]);
    let mut expected: Vec<(i32, u16)> = x.into_iter().zip(0..).collect();
    expected.sort_unstable();
    let found: Vec<(i32, u16)> = keys.read().into_iter().zip(values.read()).collect();
    assert_eq!(found, expected);
}

/// Each lane takes every 32nd element, then the lanes' sums are added in pairs.
#[test]
fn spmv_csr() {
    let gpu = gpu();
    let mut chance = Chance(9);
    let lengths = [0usize, 1, 31, 32, 33, 100, 5];
    let starts: Vec<i32> =
        (0..=lengths.len()).map(|row| lengths[..row].iter().sum::<usize>() as i32).collect();
    let total = lengths.iter().sum();
    let columns: Vec<i32> = (0..total).map(|_| chance.below(50) as i32).collect();
    let (values, x) = (chance.doubles(total, 1.), chance.doubles(50, 1.));
    let y = gpu.buffer(&vec![-1f64; lengths.len()]);
    let [dstarts, dcolumns] = [&starts, &columns].map(|list| gpu.buffer(list));
    let [dvalues, dx] = [&values, &x].map(|list| gpu.buffer(list));
    let args: [&dyn super::gpu::Arg; 6] = [&dstarts, &dcolumns, &dvalues, &dx, &y, &7];
    gpu.run("spmv_csr", 4, 64, &args);
    for (row, found) in y.read().iter().enumerate() {
        let mut sums = [0f64; 32];
        for (k, i) in (starts[row] as usize..starts[row + 1] as usize).enumerate() {
            sums[k % 32] = libm::fma(values[i], x[columns[i] as usize], sums[k % 32]);
        }
        for d in [16, 8, 4, 2, 1] {
            sums = std::array::from_fn(|lane| sums[lane] + sums[lane ^ d]);
        }
        assert_eq!(*found, sums[0], "row {row}");
    }
}

#[test]
fn warp_questions() {
    let gpu = gpu();
    let x: Vec<u32> = (0..32).map(|i| i * i % 23 + 1000).collect();
    let out = gpu.buffer(&vec![0u32; 32 * 12]);
    gpu.run("warp_questions", 1, 32, &[&gpu.buffer(&x), &out]);
    let lanes = |test: &dyn Fn(u32) -> bool| -> u32 {
        (0..32).filter(|lane| test(x[*lane as usize])).map(|lane| 1 << lane).sum()
    };
    for (lane, found) in out.read().chunks(12).enumerate() {
        let v = x[lane];
        let expected = [
            lanes(&|x| x & 1 != 0),
            1,
            0,
            lanes(&|x| x % 5 == v % 5),
            0u32.wrapping_add(u32::MAX).wrapping_add(1),
            x.iter().sum(),
            x.iter().min().unwrap() - 50,
            *x.iter().max().unwrap(),
            x.iter().fold(u32::MAX, |all, x| all & (x | 0xff00)),
            x.iter().fold(0, |all, x| all ^ x),
            x[lane / 8 * 8 + (lane + 3) % 8],
            1,
        ];
        assert_eq!(found, expected, "lane {lane}");
    }
}

#[test]
fn barrier_counts() {
    let gpu = gpu();
    let x: Vec<i32> = (0..128).map(|i| i * 3 % 17).collect();
    let out = gpu.buffer(&vec![0i32; 128]);
    gpu.run("barrier_counts", 1, 128, &[&gpu.buffer(&x), &out]);
    let odd = x.iter().filter(|x| *x & 1 != 0).count() as i32;
    let expected: Vec<i32> = (0..128).map(|t| (odd + t / 64) * 100 + 10 + 1).collect();
    assert_eq!(out.read(), expected);
}
