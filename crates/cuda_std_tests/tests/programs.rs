//! A program as a user of rust-cuda writes it, one as a user of cuda-oxide writes it, and each form of shared memory in them.
//!
//! The kernels are launched by their typed launchers.

use compat_kernels::oxide::{self, BLOCK, SIDE};
use compat_kernels::sources;
use cuda_std::launch::{Grid2, LaunchConfig, Linear};
use cuda_std_tests::{done, download, error_of, fails, on_gpu, poisoned, upload};

cuda_std_tests::device!("compat");

/// Small whole numbers without order: sums of them are exact in any order.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7919 % 31) as f32 - 15.0).collect()
}

#[test]
fn a_program_for_rust_cuda() {
    for n in [1, 31, 32, 33, 255, 256, 257, 1009] {
        let (a, b) = (numbers(n), numbers(2 * n)[n..].to_vec());
        let (a_gpu, b_gpu, c) = (upload(gpu(), &a), upload(gpu(), &b), poisoned::<f32>(gpu(), n));
        let config = LaunchConfig::for_num_elems(n).block_size(128);
        let blocks = config.grid as usize;
        let partial = poisoned::<f32>(gpu(), blocks);
        // SAFETY: `c` is as long as the inputs, and `partial` has an element for each block.
        done(unsafe { sources::vecadd::launch(gpu(), config, &a_gpu, &b_gpu, c.as_device_ptr()) });
        let config = config.shared_mem(128 * size_of::<f32>() as u32);
        // SAFETY: as above.
        done(unsafe { sources::dot::launch(gpu(), config, &a_gpu, &c, partial.as_device_ptr()) });
        let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(download(&c), sums, "{n} elements");
        let products: Vec<f32> = a.iter().zip(&sums).map(|(a, c)| a * c).collect();
        let expected: Vec<f32> = products.chunks(128).map(|block| block.iter().sum()).collect();
        assert_eq!(download(&partial), expected, "{n} elements");
    }
}

#[test]
fn a_program_for_cuda_oxide() {
    for blocks in [1, 2, 5] {
        let n = blocks * BLOCK;
        let x = numbers(n);
        let (x_gpu, mut reversed) = (upload(gpu(), &x), poisoned::<f32>(gpu(), n));
        let config = LaunchConfig::for_num_elems(n).block_size(BLOCK as u32);
        // SAFETY: both have whole blocks of 256 elements.
        done(unsafe { oxide::reverse_blocks::launch(gpu(), config, &x_gpu, &mut reversed) });
        let expected: Vec<f32> = x.chunks(BLOCK).flat_map(|c| c.iter().rev().copied()).collect();
        assert_eq!(download(&reversed), expected, "{blocks} blocks");

        let a: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let (a_gpu, mut out) = (upload(gpu(), &a), poisoned::<f64>(gpu(), n));
        let config = config.shared_mem(12 * BLOCK as u32);
        done(oxide::partitioned::launch(gpu(), config, &a_gpu, &reversed, &mut out));
        let next = |i: usize| i / BLOCK * BLOCK + (i + 1) % BLOCK;
        let product = |i: usize| a[next(i)] * f64::from(expected[next(i)]);
        assert_eq!(download(&out), (0..n).map(product).collect::<Vec<_>>(), "{blocks} blocks");
    }
}

#[test]
fn tiles_in_statics_are_multiplied() {
    for n in [16, 48] {
        let (a, b) = (numbers(n * n), numbers(2 * n * n)[n * n..].to_vec());
        let (a_gpu, b_gpu, mut c) =
            (upload(gpu(), &a), upload(gpu(), &b), poisoned::<f32>(gpu(), n * n));
        let side = (n / SIDE) as u32;
        let mut grid = c.grid_mut(n, n).unwrap();
        done(oxide::product::launch(gpu(), Grid2::new(side, side), n, &a_gpu, &b_gpu, &mut grid));
        let cell = |i: usize| (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).sum::<f32>();
        assert_eq!(download(&c), (0..n * n).map(cell).collect::<Vec<_>>(), "{n} rows");
    }
}

#[test]
fn functions_use_a_static_of_the_module() {
    for (n, threads) in [(1, 32), (31, 32), (64, 64), (257, 256), (1009, 1024)] {
        let values: Vec<u32> = (0..n).map(|i| i * 37 % 101).collect();
        let mut x = upload(gpu(), &values);
        let config = Linear::new(n.div_ceil(threads), threads);
        done(oxide::add_sums::launch(gpu(), config, &mut x));
        let of_block = |block: &[u32]| {
            let sum: u32 = block.iter().sum();
            let second: Vec<u32> = block.iter().map(|x| x + sum).collect();
            let all: u32 = second.iter().sum();
            second.iter().map(|x| x + all).collect::<Vec<_>>()
        };
        let expected: Vec<u32> = values.chunks(threads as usize).flat_map(of_block).collect();
        assert_eq!(download(&x), expected, "{n} elements");
    }
}

#[test]
fn instances_share_a_static() {
    let x: Vec<u64> = (0..128).map(|i| i * i % 251).collect();
    let bytes: Vec<u8> = x.iter().map(|&x| x as u8).collect();
    let expected: Vec<u64> = (0..128).map(|i| x[i / 64 * 64 + (i + 1) % 64]).collect();
    let (x, bytes) = (upload(gpu(), &x), upload(gpu(), &bytes));
    let [mut words, mut of_bytes] = [(); 2].map(|()| poisoned::<u64>(gpu(), 128));
    let config = Linear::new(2, 64);
    done(oxide::rotated::launch(gpu(), config, &x, &mut words));
    done(oxide::rotated::launch(gpu(), config, &bytes, &mut of_bytes));
    assert_eq!((download(&words), download(&of_bytes)), (expected.clone(), expected));
}

#[test]
fn arrays_have_the_alignment_that_they_ask_for() {
    for bytes in [100, 101, 127] {
        let mut out = poisoned::<u64>(gpu(), 8);
        let config = Linear::new(1, 1).shared_mem(bytes);
        done(oxide::alignments::launch(gpu(), config, &mut out));
        let out = download(&out);
        for (address, align) in out.iter().zip([16, 128, 1024, 256, 512, 16, 128]) {
            assert_eq!(address % align, 0, "{out:x?}");
        }
        assert_eq!(out[7], 0, "one memory: {out:x?}");
    }
}

#[test]
fn an_array_past_the_end_of_the_launch_s_memory_is_reported() {
    // A GPU has more memory than a block is given, and does not notice.
    if !on_gpu() {
        let error = error_of("too_little_dynamic_memory");
        assert!(error.contains("partitioned") && error.contains("past"), "{error}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn too_little_dynamic_memory() {
    let (a, b) = (upload(gpu(), &[1f64; 64]), upload(gpu(), &[1f32; 64]));
    let mut out = poisoned::<f64>(gpu(), 64);
    let config = Linear::new(1, 64).shared_mem(12 * 64 - 4);
    let launched = oxide::partitioned::launch(gpu(), config, &a, &b, &mut out);
    fails(launched.and_then(|()| gpu().synchronize()));
}

#[test]
fn declarations_say_their_memory_and_alignment() {
    let images = ferrowarp::include_kernels!("compat.rs");
    let ptx = images[0].ptx();
    let declared = |part: &str| ptx.lines().find(|line| line.contains(part)).unwrap_or_default();
    assert_eq!(
        declared("ferrowarp_dynamic_shared["),
        ".extern .shared .align 128 .b8 ferrowarp_dynamic_shared[];"
    );
    // The statics of `alignments`: 20, 128 and 1024 bytes with what fills them up.
    for end in ["[32];", "[128];", "[1024];"] {
        let is_shared = |line: &&str| line.contains("shared_static_") && line.ends_with(end);
        let line = ptx.lines().filter(|line| line.starts_with('.')).find(is_shared);
        assert!(line.is_some_and(|line| line.starts_with(".shared .align ")), "{end} {line:?}");
    }
    let global =
        ptx.lines().find(|line| line.contains(".global") && line.contains("shared_static"));
    assert_eq!(global, None);
}
