//! Loads and stores with hints, on values of every size, and slices as vectors.

use cuda_std::launch::Linear;
use cuda_std::vector::{Vec2, Vec4, Vec8};
use cuda_std_tests::{done, download, error_of, fails, on_gpu, poisoned, upload};
use numbers_kernels::access;

cuda_std_tests::device!("numbers");

const THREADS: usize = 64;

/// Every hint copies values of a type.
macro_rules! copied {
    ($($kernel:ident: $value:expr;)*) => {$({
        let x: Vec<_> = (0..THREADS as u8).map($value).collect();
        let mut y = poisoned(gpu(), access::COPIES * THREADS);
        done(access::$kernel::launch(gpu(), Linear::new(2, 32), &upload(gpu(), &x), &mut y));
        for (k, row) in download(&y).chunks(THREADS).enumerate() {
            assert_eq!(row, x, "{}: row {k}", stringify!($kernel));
        }
    })*};
}

#[test]
fn every_hint_moves_every_size() {
    copied! {
        copies_of_u8: |i| i ^ 0x55;
        copies_of_f16: |i| cuda_std::f16::from_f32(f32::from(i) / 8.0);
        copies_of_f32: |i| f32::from(i) / 3.0;
        copies_of_f64: |i| f64::from(i) / 3.0;
        copies_of_vec2: |i| Vec2::new(f64::from(i), -f64::from(i));
        copies_of_vec4: |i| Vec4::new(f32::from(i), 1.0, -f32::from(i), 2.0);
        copies_of_vec8: |i| Vec8::from([1, 2, 3, 4, 5, 6, 7, i].map(|x: u8| cuda_std::f16::from(x)));
    }
}

#[test]
fn other_memory_takes_the_ordinary_way() {
    let x: Vec<u32> = (0..THREADS as u32).map(|i| i * 0x0101_0101).collect();
    let (x_gpu, mut y) = (upload(gpu(), &x), poisoned(gpu(), THREADS));
    done(access::through_shared::launch(gpu(), Linear::new(2, 32), &x_gpu, &mut y));
    assert_eq!(download(&y), x);
    let x: Vec<Vec4<f32>> = (0..THREADS).map(|i| Vec4::splat(i as f32)).collect();
    let (x_gpu, mut y) = (upload(gpu(), &x), poisoned(gpu(), THREADS));
    done(access::streaming_copy::launch(gpu(), Linear::new(2, 32), &x_gpu, &mut y));
    assert_eq!(download(&y), x);
}

#[test]
fn whole_vectors_are_summed() {
    let x: Vec<u8> = (0..8 * THREADS).map(|i| (i % 251) as u8).collect();
    let mut sums = poisoned(gpu(), THREADS);
    done(access::vector_sums::launch(gpu(), Linear::new(2, 32), &upload(gpu(), &x), &mut sums));
    let expected: Vec<u32> =
        x.chunks(8).map(|eight| eight.iter().map(|x| u32::from(*x)).sum()).collect();
    assert_eq!(download(&sums), expected);
    let error = error_of("vectors_that_are_not_whole");
    assert!(on_gpu() || error.contains("vector_sums"), "{error}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn vectors_that_are_not_whole() {
    let mut sums = poisoned(gpu(), 32);
    let launched = access::vector_sums::launch(
        gpu(),
        Linear::new(1, 32),
        &upload(gpu(), &[1u8; 9]),
        &mut sums,
    );
    fails(launched.and_then(|()| gpu().synchronize()));
}
