//! What the tests share: the device, random inputs that can be had again, sizes that hurt.

use std::sync::OnceLock;

use bytemuck::Pod;
use ferrowarp::Gpu;
use ferrowarp::memory::DeviceBuffer;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Lengths around a warp, a block, a tile and a grid, and primes between.
pub const SIZES: [usize; 16] =
    [0, 1, 2, 31, 32, 33, 127, 255, 256, 257, 1009, 4095, 4096, 4099, 65_537, 300_007];

/// The device that all tests share.
pub fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::new().unwrap_or_else(|error| panic!("no device to test on: {error}")))
}

/// A generator whose seed is printed when the test fails; `FERROWARP_SEED` gives a seed again.
pub fn rng() -> StdRng {
    let seed = std::env::var("FERROWARP_SEED")
        .map(|seed| seed.parse().expect("FERROWARP_SEED is not a number"))
        .unwrap_or_else(|_| rand::random());
    println!("FERROWARP_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// `n` floats in -1..1.
pub fn floats(rng: &mut StdRng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-1.0..1.0)).collect()
}

/// `n` bytes.
pub fn bytes(rng: &mut StdRng, n: usize) -> Vec<u8> {
    (0..n).map(|_| rng.random()).collect()
}

/// A copy of `host` on the device.
pub fn upload<T: Pod>(host: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(gpu(), host).unwrap()
}

/// `n` elements full of bytes `0xA5`, which no kernel here would write by itself.
pub fn poisoned<T: Pod>(n: usize) -> DeviceBuffer<T> {
    upload(&vec![bytemuck::pod_read_unaligned(&vec![0xA5; size_of::<T>()]); n])
}

/// Panics with the first differing element unless all bits agree; NaN equals the same NaN only.
pub fn assert_same_bits(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
            "element {i}: {found} instead of {expected}",
        );
    }
}
