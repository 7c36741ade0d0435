//! Read-modify-write of every type.

use super::gpu::Gpu;

fn gpu() -> Gpu {
    Gpu::new(include_str!("atomics.ptx"))
}

const THREADS: u32 = 96;

#[test]
fn atomic_integers() {
    let gpu = gpu();
    let (u, s) = (gpu.buffer(&start()), gpu.buffer(&[i32::MAX, i32::MIN]));
    let (w, l) = (gpu.buffer(&[0u64, u64::MAX, 0, 0]), gpu.buffer(&[i64::MAX, i64::MIN]));
    gpu.run("atomic_integers", 1, THREADS, &[&u, &s, &w, &l]);
    let found = u.read();
    let xors = (0..THREADS).fold(0u32, |all, t| all ^ 1 << (t % 7));
    // 51 and above become 50; 0 becomes 50; else one less.
    let dec = (0..THREADS).fold(1000u32, |x, _| if x == 0 || x > 50 { 50 } else { x - 1 });
    let expected = [
        (0..THREADS).sum(),
        (3 * THREADS).wrapping_neg(),
        5,
        (0..THREADS).map(|t| t * 7 % 61).max().unwrap(),
        THREADS % 100,
        dec,
        0,
        (1 << 20) - 1,
        xors,
    ];
    assert_eq!(found[..9], expected);
    // Each thread exchanged its number; what was taken and what stayed is all of them.
    assert_eq!(found[9] + found[10], (0..THREADS).sum());
    assert_eq!(s.read(), [-100, THREADS as i32 - 101]);
    let sum = (0..THREADS).fold(0u64, |sum, t| sum.wrapping_add(1 << (t % 60)));
    let xor = (0..THREADS).fold(0u64, |all, t| all ^ u64::from(t) << 30);
    assert_eq!(w.read(), [sum, 1 << 40, (1 << 40) + u64::from(THREADS) - 1, xor]);
    assert_eq!(l.read(), [-(1 << 40) - i64::from(THREADS) + 1, -(1 << 40)]);
}

fn start() -> [u32; 11] {
    [0, 0, u32::MAX, 0, 0, 1000, u32::MAX, 0, 0, u32::MAX, 0]
}

/// Every sum is exact in its format, so the order does not matter.
#[test]
fn atomic_floats() {
    let gpu = gpu();
    let (f, d) = (gpu.buffer(&[0f32]), gpu.buffer(&[0f64; 2]));
    let [h, b] = [(); 2].map(|()| gpu.buffer(&[0u32]));
    let one = gpu.buffer(&[0u16; 2]);
    gpu.run("atomic_floats", 1, THREADS, &[&f, &d, &h, &b, &one]);
    let sum = f64::from((0..THREADS).sum::<u32>());
    assert_eq!(f.read(), [0.5 * sum as f32]);
    assert_eq!(d.read(), [0.25 * sum, sum]);
    // 96 is 1.5 * 2^6, 48 is 1.5 * 2^5, 144 is 1.125 * 2^7.
    assert_eq!(h.read(), [0x5600 | 0x5200 << 16]);
    assert_eq!(b.read(), [0x42c0 | 0x4310 << 16]);
    assert_eq!(one.read(), [0x5200, 0]);
}

#[test]
fn atomic_shared() {
    let gpu = gpu();
    let out = gpu.buffer(&[0u32; 4]);
    gpu.run("atomic_shared", 1, THREADS, &[&out]);
    let sum: u32 = (0..THREADS).sum();
    assert_eq!(out.read(), [sum, 3 * THREADS, 0, (1.5 * (THREADS - 1) as f32).to_bits()]);
}

#[test]
fn spin_lock() {
    let gpu = gpu();
    let (lock, value) = (gpu.buffer(&[0i32]), gpu.buffer(&[0i32]));
    gpu.run("spin_lock", 3, 64, &[&lock, &value]);
    assert_eq!((lock.read(), value.read()), (vec![0], vec![192]));
}

#[test]
fn ordered() {
    let gpu = gpu();
    let (data, flag) = (gpu.buffer(&[0i32; 64]), gpu.buffer(&[0i32]));
    let (out, wide) = (gpu.buffer(&[0i32; 192]), gpu.buffer(&[0u64]));
    gpu.run("ordered", 4, 64, &[&data, &flag, &out, &wide]);
    let expected: Vec<i32> = (0..192).map(|i| i % 64 * 3 + 1).collect();
    assert_eq!(out.read(), expected);
    // The maximum with 5 adds something only where it comes before 5 has been reached.
    let sum: u64 = 4 * (0..64).sum::<u64>();
    assert!((sum..=sum + 5).contains(&wide.read()[0]), "{}", wide.read()[0]);
}

#[test]
fn atomic_pairs() {
    let gpu = gpu();
    let (at, last) = (gpu.buffer(&[10u64, 0]), gpu.buffer(&[0u64; 2]));
    gpu.run("atomic_pairs", 2, 64, &[&at, &last]);
    assert_eq!(at.read(), [10 + 128, 2 * (0..64).sum::<u64>()]);
    let last = last.read();
    assert!(last[0] < 64 && last[1] == u64::MAX, "{last:?}");
}

#[test]
fn atomic_vectors() {
    let gpu = gpu();
    let (sum, pair) = (gpu.buffer(&[0f32; 4]), gpu.buffer(&[0f32; 2]));
    gpu.run("atomic_vectors", 2, 32, &[&sum, &pair]);
    assert_eq!(sum.read(), [64., 128., 2. * 496., 32.]);
    assert_eq!(pair.read(), [64., -64.]);
}
