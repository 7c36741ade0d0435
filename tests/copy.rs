//! The copies: they move bits, so bit for bit.

use cuda_std::launch::Linear;
use cuda_std::vector::Vec4;
use ferrowarp::ops;
use kernels_gpu::grid::copy::copy_vectors;

use crate::support::{SIZES, assert_same_bits, floats, gpu, poisoned, rng, upload};

#[test]
fn coalesced_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        let mut out = poisoned(n);
        ops::copy(gpu(), &upload(&x), &mut out).unwrap();
        assert_same_bits(&out.to_vec().unwrap(), &x);
    }
}

#[test]
fn strided_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        for per_thread in [1, 7, 32] {
            let mut out = poisoned(n);
            ops::copy_strided(gpu(), per_thread, &upload(&x), &mut out).unwrap();
            assert_same_bits(&out.to_vec().unwrap(), &x);
        }
    }
}

#[test]
fn vectors_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x: Vec<Vec4<f32>> =
            floats(&mut rng, 4 * n).chunks(4).map(|c| Vec4::new(c[0], c[1], c[2], c[3])).collect();
        let mut out = poisoned(n);
        copy_vectors::launch(gpu(), Linear::new(7, 64), &upload(&x), &mut out).unwrap();
        let found = out.to_vec().unwrap();
        assert_same_bits(bytemuck::cast_slice(&found), bytemuck::cast_slice(&x));
    }
}
