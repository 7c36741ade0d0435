//! Safe shared memory: the textbook's kernels, every layout, every phase.

use cuda_std::launch::{Grid1, Grid2};
use cuda_std::shared::split_bytes;
use cuda_std_tests::{done, download, fails, poisoned, run_alone, upload};
use ferrowarp::{DeviceBox, DeviceBuffer, Gpu};
use kernels_gpu::transpose::transpose_tiled;
use shared_kernels::{layouts, parts, protocol, textbook, twins};

cuda_std_tests::device!("shared");

/// Whole numbers without order.
fn numbers(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect()
}

#[test]
fn a_block_is_reversed() {
    let x = numbers(3 * 256);
    let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), x.len()));
    done(textbook::reverse::launch(gpu(), Grid1::new(3), &x_gpu, &mut out));
    let expected: Vec<u32> = x.chunks(256).flat_map(|c| c.iter().rev().copied()).collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn a_tree_sums_each_block() {
    for n in [1usize, 31, 255, 256, 257, 1009] {
        let x: Vec<f32> = numbers(n).iter().map(|&x| x as f32).collect();
        let blocks = n.div_ceil(256);
        let (x_gpu, mut sums) = (upload(gpu(), &x), poisoned(gpu(), blocks));
        let config = Grid1::new(blocks as u32);
        done(textbook::reduce::launch(gpu(), config, &x_gpu, &mut sums));
        // Whole numbers below 2^24: every order of additions is exact.
        let expected: Vec<f32> = x.chunks(256).map(|c| c.iter().sum()).collect();
        assert_eq!(download(&sums), expected, "{n} elements");
    }
}

#[test]
fn a_block_is_scanned() {
    for n in [1usize, 32, 256, 257, 1009] {
        let x = numbers(n);
        let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), n));
        let config = Grid1::new(n.div_ceil(256) as u32);
        done(textbook::scan::launch(gpu(), config, &x_gpu, &mut out));
        let running = |chunk: &[u32]| {
            let mut sum = 0u32;
            chunk
                .iter()
                .map(|&x| {
                    sum = sum.wrapping_add(x);
                    sum
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(download(&out), x.chunks(256).flat_map(running).collect::<Vec<_>>());
    }
}

#[test]
fn a_matrix_is_transposed() {
    for (width, height) in [(1, 1), (16, 16), (17, 15), (33, 70), (64, 48)] {
        let input: Vec<f32> = (0..width * height).map(|i| i as f32).collect();
        let (input_gpu, mut out) = (upload(gpu(), &input), poisoned(gpu(), input.len()));
        let mut grid = out.grid_mut(height, width).unwrap();
        let blocks = (height.div_ceil(16) as u32, width.div_ceil(16) as u32);
        let config = Grid2::new(blocks.0, blocks.1);
        done(textbook::transpose::launch(gpu(), config, &input_gpu, &mut grid));
        let expected: Vec<f32> =
            (0..width * height).map(|i| input[i % height * width + i / height]).collect();
        assert_eq!(download(&out), expected, "{width} × {height}");
    }
}

#[test]
fn matrices_are_multiplied() {
    for (m, inner, n) in [(1, 1, 1), (16, 16, 16), (17, 33, 15), (40, 5, 70), (3, 0, 2)] {
        // Whole numbers below 2^24: every order of additions is exact.
        let values = |n: usize| numbers(n).iter().map(|&x| (x % 64) as f32).collect::<Vec<_>>();
        let (a, b) = (values(m * inner), values(inner * n));
        let (a_gpu, b_gpu, mut c) = (upload(gpu(), &a), upload(gpu(), &b), poisoned(gpu(), m * n));
        let mut grid = c.grid_mut(n, m).unwrap();
        let blocks = Grid2::new(n.div_ceil(16) as u32, m.div_ceil(16) as u32);
        done(textbook::product::launch(gpu(), blocks, inner, &a_gpu, &b_gpu, &mut grid));
        let cell = |i: usize| (0..inner).map(|k| a[i / n * inner + k] * b[k * n + i % n]).sum();
        let expected: Vec<f32> = (0..m * n).map(cell).collect();
        assert_eq!(download(&c), expected, "{m} × {inner} × {n}");
    }
}

#[test]
fn a_convolution_has_a_halo() {
    let weights = [1f32, -2.0, 3.0, 5.0, 7.0, -11.0, 13.0];
    let weights_gpu = DeviceBox::new(gpu(), &weights).unwrap();
    for n in [1usize, 3, 255, 256, 257, 1009] {
        let x: Vec<f32> = numbers(n).iter().map(|&x| x as f32).collect();
        let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), n));
        let blocks = Grid1::new(n.div_ceil(256) as u32);
        done(textbook::convolve::launch(gpu(), blocks, &weights_gpu, &x_gpu, &mut out));
        let at = |i: isize| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0);
        let sum = |i: usize| (0..7).map(|k| weights[k] * at((i + k) as isize - 3)).sum();
        assert_eq!(download(&out), (0..n).map(sum).collect::<Vec<f32>>(), "{n} elements");
    }
}

/// Launches a kernel of one block, whose threads each write what they read of an array.
macro_rules! rows {
    ($kernel:path, $block:expr, $len:expr, $expected:expr) => {{
        use $kernel as kernel;
        let block: (u32, u32, u32) = $block;
        let threads = (block.0 * block.1 * block.2) as usize;
        let mut out = poisoned::<u32>(gpu(), threads * $len);
        done(kernel::launch(gpu(), Grid1::new(1), &mut out));
        let row: Vec<u32> = (0..$len).map($expected).collect();
        assert_eq!(download(&out), row.repeat(threads), stringify!($kernel));
    }};
}

#[test]
fn every_thread_reads_every_element() {
    let square = |i: usize| (i * i + 1) as u32;
    rows!(layouts::one_u8, (64, 1, 1), 1, square);
    rows!(layouts::few_u16, (96, 1, 1), 33, square);
    rows!(layouts::equal_u32, (64, 1, 1), 64, square);
    rows!(layouts::many_u32, (64, 1, 1), 256, square);
    rows!(layouts::ragged_u32, (64, 1, 1), 100, square);
    rows!(layouts::planar_u32, (8, 5, 1), 70, square);
    rows!(layouts::spatial_u32, (4, 3, 2), 70, square);
    rows!(layouts::odd_u32, (33, 1, 1), 70, square);
    rows!(layouts::blocked, (64, 1, 1), 190, square);
}

#[test]
fn layouts_have_their_owners() {
    rows!(layouts::blocked_owners, (64, 1, 1), 190, |i| i as u32 / 3);
    rows!(layouts::per_warp, (96, 1, 1), 3, |warp| warp as u32 * 1032);
}

#[test]
fn tiles_are_rows_of_columns() {
    rows!(layouts::square_tile, (32, 2, 1), 1024, |i| (i / 32 * 100 + i % 32) as u32);
    rows!(layouts::small_tile, (8, 8, 1), 15, |i| (i / 5 * 100 + i % 5) as u32);
    rows!(layouts::ragged_tile, (8, 4, 1), 231, |i| (i / 21 * 100 + i % 21) as u32);
    rows!(layouts::flat_tile, (32, 1, 1), 36, |i| (i / 9 * 100 + i % 9) as u32);
}

#[test]
fn dynamic_memory_is_as_long_as_the_launch_says() {
    for len in [0usize, 1, 63, 64, 200] {
        let bytes = len as u32 * 8;
        let (mut lengths, mut out) = (poisoned(gpu(), 64), poisoned(gpu(), 64 * len.max(1)));
        let config = Grid1::new(1).shared_mem(bytes);
        done(layouts::dynamic::launch(gpu(), config, &mut lengths, &mut out));
        assert_eq!(download(&lengths), vec![len as u32; 64]);
        let row: Vec<u32> = (0..len).map(|i| (i * i + (i % 64).pow(2)) as u32).collect();
        assert_eq!(download(&out)[..64 * len], row.repeat(64));
    }
}

#[test]
fn phases_follow_one_another() {
    for rounds in [0u32, 1, 5] {
        let mut out = poisoned(gpu(), 256);
        done(protocol::rounds::launch(gpu(), Grid1::new(2), rounds, &mut out));
        let mut expected: Vec<u32> = (0..256).collect();
        for _ in 0..rounds {
            expected =
                (0..256).map(|i| expected[i] + expected[i / 128 * 128 + (i + 1) % 128]).collect();
        }
        assert_eq!(download(&out), expected, "{rounds} rounds");
    }
}

#[test]
fn two_arrays_of_a_type_keep_apart() {
    let mut out = poisoned(gpu(), 256);
    done(protocol::two::launch(gpu(), Grid1::new(2), &mut out));
    let at = |i: usize| i + 2 * (127 - (i ^ 1));
    let expected = (0..256).map(|i| (at((i % 128 + 7) % 128) + i / 128 * 1000) as u32);
    assert_eq!(download(&out), expected.collect::<Vec<_>>());
}

#[test]
fn barriers_count() {
    let mut out = poisoned(gpu(), 256 * 8);
    done(protocol::votes::launch(gpu(), Grid1::new(2), &mut out));
    for (thread, results) in download(&out).chunks(8).enumerate() {
        let own = thread as u32 % 128;
        let first = if own == 0 { 5 } else { 6 };
        assert_eq!(results, [43, 1, 0, 1, 0, first, own, own], "thread {thread}");
    }
}

#[test]
fn trees_of_every_length_have_a_root() {
    /// Every thread sees the sum; thread 0 also had it before the last barrier.
    macro_rules! tree {
        ($kernel:path, $len:literal) => {{
            use $kernel as kernel;
            let mut out = poisoned::<u32>(gpu(), 128);
            done(kernel::launch(gpu(), Grid1::new(1), &mut out));
            let sum: u32 = (0..$len).map(|i: u32| i * i + 1).sum();
            let mut expected = vec![sum; 128];
            expected[0] += 1;
            assert_eq!(download(&out), expected, "{} elements", $len);
        }};
    }
    tree!(protocol::tree_1, 1);
    tree!(protocol::tree_2, 2);
    tree!(protocol::tree_7, 7);
    tree!(protocol::tree_100, 100);
    tree!(protocol::tree_128, 128);
    tree!(protocol::tree_255, 255);
    tree!(protocol::tree_1000, 1000);
    tree!(protocol::tree_1024, 1024);
}

#[test]
fn threads_of_a_solid_block_have_their_numbers() {
    let mut out = poisoned(gpu(), 64);
    done(protocol::plane::launch(gpu(), Grid1::new(1), &mut out));
    assert_eq!(download(&out), (0..64).collect::<Vec<u32>>());
}

#[test]
fn dynamic_memory_is_whole_elements() {
    let (mut lengths, mut out) = (poisoned(gpu(), 64), poisoned(gpu(), 64));
    let config = Grid1::new(1).shared_mem(13);
    let launched = layouts::dynamic::launch(gpu(), config, &mut lengths, &mut out);
    let error = launched.expect_err("13 bytes are not whole elements").to_string();
    assert!(error.contains("dynamic") && error.contains("13"), "{error}");
}

#[test]
fn dynamic_memory_is_split_into_arrays() {
    for (n, m) in [(0, 0), (1, 0), (0, 1), (31, 33), (32, 32), (63, 65), (255, 257), (1009, 256)] {
        let bytes = split_bytes::<(u32, f64, u8)>([n, m, m]);
        let (mut a, mut b, mut c) = (poisoned(gpu(), n), poisoned(gpu(), m), poisoned(gpu(), m));
        let config = Grid1::new(1).shared_mem(bytes as u32);
        done(parts::three::launch(gpu(), config, n, m, &mut a, &mut b, &mut c));
        let reversed = |n: usize| (0..n).rev();
        assert_eq!(download(&a), reversed(n).map(|i| 3 * i as u32).collect::<Vec<_>>(), "{n} {m}");
        assert_eq!(download(&b), reversed(m).map(|i| i as f64 / 2.0).collect::<Vec<_>>());
        assert_eq!(download(&c), reversed(m).map(|i| i as u32 & 255 ^ 0x5A).collect::<Vec<u32>>());
    }
}

#[test]
fn arrays_of_one_split_have_phases_of_their_own() {
    for len in [1, 63, 64, 65, 1009] {
        let mut out = poisoned::<u32>(gpu(), len);
        let config = Grid1::new(1).shared_mem(split_bytes::<(u32, u32)>([len, len]) as u32);
        done(parts::phases::launch(gpu(), config, len, &mut out));
        let a = |i: usize| (len - 1 - i) as u32;
        let expected = (0..len).rev().map(|i| 1000 * i as u32 + a((i + 1) % len));
        assert_eq!(download(&out), expected.collect::<Vec<_>>(), "{len} elements");
    }
}

#[test]
fn threads_that_disagree_split_alike() {
    let mut lens = poisoned::<u32>(gpu(), parts::BLOCK);
    // Thread 1 asks for more than there is.
    done(parts::first_decides::launch(gpu(), Grid1::new(1).shared_mem(80), 40, &mut lens));
    assert_eq!(download(&lens), vec![40 + ((0..40).sum::<u32>() << 16); parts::BLOCK]);
}

#[test]
fn too_little_dynamic_memory_is_a_panic() {
    // A stream of its own, so that no other test here waits for this panic.
    for (len, needed) in [(41, "82"), (1 << 31, "4294967296"), (usize::MAX, "8589934590")] {
        let own = gpu().create_stream().unwrap();
        let mut lens = DeviceBuffer::from_slice(&own, &[0u32; parts::BLOCK]).unwrap();
        done(parts::first_decides::launch(&own, Grid1::new(1).shared_mem(80), len, &mut lens));
        let error = own.synchronize().expect_err("more than there is");
        let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
        let expected = format!(
            "the arrays in dynamic shared memory need {needed} bytes, and the launch gives 80"
        );
        // Kernels that panic at one place, and are launched with one shape, are told apart by no more than that.
        assert!(panic.kernel.contains("first_decides"), "{}", panic.kernel);
        assert_eq!(panic.message, expected);
    }
}

#[test]
fn a_token_is_a_contract() {
    assert_eq!(protocol::plane::KERNEL.contract.block, Some((8, 4, 2)));
    assert_eq!(textbook::reduce::KERNEL.contract.block, Some((256, 1, 1)));
}

#[test]
fn instances_have_arrays_of_their_own() {
    let bytes: Vec<u8> = (0..128).collect();
    let (x, mut out) = (upload(gpu(), &bytes), poisoned(gpu(), 128));
    done(protocol::mirrored::launch(gpu(), Grid1::new(2), &x, &mut out));
    let expected: Vec<u8> = bytes.chunks(64).flat_map(|c| c.iter().rev().copied()).collect();
    assert_eq!(download(&out), expected);
    let wide: Vec<f64> = bytes.iter().map(|&x| f64::from(x) / 3.0).collect();
    let (x, mut out) = (upload(gpu(), &wide), poisoned(gpu(), 128));
    done(protocol::mirrored::launch(gpu(), Grid1::new(2), &x, &mut out));
    let expected: Vec<f64> = wide.chunks(64).flat_map(|c| c.iter().rev().copied()).collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn with_and_without_unsafe_the_bits_are_the_same() {
    for n in [1usize, 255, 256, 1009] {
        let floats: Vec<f32> = numbers(n).iter().map(|&x| x as f32 / 7.0).collect();
        let blocks = Grid1::new(n.div_ceil(256) as u32);
        let x = upload(gpu(), &floats);
        let [mut raw, mut safe] = [(); 2].map(|()| poisoned::<f32>(gpu(), n.div_ceil(256)));
        done(twins::raw_reduce::launch(gpu(), blocks, &x, &mut raw));
        done(textbook::reduce::launch(gpu(), blocks, &x, &mut safe));
        assert_eq!(download(&raw), download(&safe), "sums of {n}");
        let x = upload(gpu(), &numbers(n));
        let [mut raw, mut safe] = [(); 2].map(|()| poisoned::<u32>(gpu(), n));
        done(twins::raw_scan::launch(gpu(), blocks, &x, &mut raw));
        done(textbook::scan::launch(gpu(), blocks, &x, &mut safe));
        assert_eq!(download(&raw), download(&safe), "scans of {n}");
    }
}

#[test]
fn a_tile_is_transposed_with_and_without_unsafe() {
    let shipped = Gpu::new().unwrap();
    for (width, height) in [(1, 1), (32, 32), (33, 31), (64, 96), (100, 70)] {
        let input: Vec<f32> = (0..width * height).map(|i| i as f32).collect();
        let expected: Vec<f32> =
            (0..width * height).map(|i| input[i % height * width + i / height]).collect();
        let x = upload(gpu(), &input);
        // One block too many in each direction: it has no tile.
        let blocks = Grid2::new(height.div_ceil(32) as u32 + 1, width.div_ceil(32) as u32 + 1);
        let [mut raw, mut safe] = [(); 2].map(|()| poisoned::<f32>(gpu(), input.len()));
        let mut grid = raw.grid_mut(height, width).unwrap();
        done(twins::raw_transpose::launch(gpu(), blocks, &x, &mut grid));
        let mut grid = safe.grid_mut(height, width).unwrap();
        done(transpose_tiled::launch(&shipped, blocks, &x, &mut grid));
        assert_eq!(download(&raw), expected, "unsafe, {width} × {height}");
        assert_eq!(download(&safe), expected, "safe, {width} × {height}");
    }
}

/// What no type refuses the emulator reports, with the checks of a build for release.
#[test]
fn barriers_that_some_threads_miss_are_reported() {
    let variables = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "memory,sync")];
    for (test, expected) in [
        ("planted_return", "24 threads of the block ended before the barrier"),
        ("planted_pair", "move it out of the branch"),
    ] {
        let text = run_alone(test, &variables);
        assert!(text.contains(expected), "{test}: {text}");
    }
}

#[test]
#[ignore = "a fault, in a process of its own, on the emulator"]
fn planted_return() {
    let mut out = poisoned::<u32>(gpu(), 40);
    protocol::returns_before_a_barrier::launch(gpu(), Grid1::new(1), &mut out).unwrap();
    fails(gpu().synchronize());
}

#[test]
#[ignore = "a fault, in a process of its own, on the emulator"]
fn planted_pair() {
    let mut out = poisoned::<u32>(gpu(), 64);
    protocol::barriers_in_two_arms::launch(gpu(), Grid1::new(1), &mut out).unwrap();
    fails(gpu().synchronize());
}
