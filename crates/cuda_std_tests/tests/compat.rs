//! Source written for rust-cuda runs, and what it computes is right.

use compat_kernels::{memory, positions, sources, spaces};
use cuda_std::launch::{LaunchConfig, Linear, Planar};
use cuda_std_tests::{done, download, error_of, fails, on_gpu, poisoned, upload};

cuda_std_tests::device!("compat");

#[test]
fn positions_are_vectors() {
    let (grid, block) = ((3u32, 2u32, 2u32), (4u32, 3u32, 2u32));
    let config = LaunchConfig { grid, block, shared_mem_bytes: 0 };
    let threads = grid.0 * grid.1 * grid.2 * block.0 * block.1 * block.2;
    let out = poisoned::<u32>(gpu(), 18 * threads as usize);
    // SAFETY: `out` has 18 words for each thread.
    done(unsafe { positions::positions::launch(gpu(), config, out.as_device_ptr()) });
    let out = download(&out);
    for (number, row) in out.chunks(18).enumerate() {
        let per_block = block.0 * block.1 * block.2;
        let split = |n: u32, d: (u32, u32, u32)| [n % d.0, n / d.0 % d.1, n / d.0 / d.1];
        let (b, t) = (number as u32 / per_block, number as u32 % per_block);
        let (b, t) = (split(b, grid), split(t, block));
        let [x, y, z] = [b[0] * 4 + t[0], b[1] * 3 + t[1], b[2] * 2 + t[2]];
        let expected = [&t[..], &b[..], &[4, 3, 2], &[3, 2, 2], &[x, y, z], &[x, y]].concat();
        assert_eq!((&row[..17], row[17]), (&expected[..], number as u32));
    }
}

#[test]
fn halves_are_shuffled() {
    let out = poisoned::<u16>(gpu(), 64);
    // SAFETY: one warp, and room for 64 results.
    done(unsafe {
        positions::half_shuffles::launch(gpu(), Linear::new(1, 32), out.as_device_ptr())
    });
    let halves = (0..32u16).map(|lane| lane.max(1).wrapping_sub(1) * 7);
    let brains = (0..32u16).map(|lane| (lane ^ 3) | 0x8000);
    assert_eq!(download(&out), halves.chain(brains).collect::<Vec<_>>());
}

/// Threads of the tests with a heap: more than a warp, in two blocks.
const THREADS: u32 = 40;

#[test]
fn vectors_strings_and_boxes_live_on_the_heap() {
    let out = poisoned::<u64>(gpu(), 2 * THREADS as usize);
    // SAFETY: a word for each thread.
    done(unsafe { memory::heap::launch(gpu(), Linear::new(2, THREADS), out.as_device_ptr()) });
    let expected = (0..2 * THREADS).map(|own| {
        let numbers = (0..=own).map(|i| i.wrapping_mul(2_654_435_761));
        // The smallest of them is 0: `Some(0)`.
        numbers.map(u64::from).sum::<u64>() + 7
    });
    assert_eq!(download(&out), expected.collect::<Vec<_>>());
}

#[test]
fn the_heap_gives_larger_alignments() {
    let out = poisoned::<u64>(gpu(), THREADS as usize);
    // SAFETY: a word for each thread.
    done(unsafe {
        memory::aligned_heap::launch(gpu(), Linear::new(1, THREADS), out.as_device_ptr())
    });
    let expected = (0..u64::from(THREADS)).map(|own| (3 * own + 3) << 1 | 1);
    assert_eq!(download(&out), expected.collect::<Vec<_>>());
}

#[test]
fn the_heap_has_an_end() {
    let run = |bytes: usize| {
        let out = poisoned::<u64>(gpu(), 2);
        // SAFETY: two words, one thread.
        done(unsafe {
            memory::raw_heap::launch(gpu(), Linear::new(1, 1), bytes, out.as_device_ptr())
        });
        download(&out)
    };
    assert_eq!(run(64), [7, 0]);
    assert_eq!(run(1 << 50)[1], 1, "no device has a pebibyte");
}

#[test]
fn pointers_know_their_memory() {
    let out = poisoned::<u64>(gpu(), 16);
    let config = Linear::new(1, 1).shared_mem(48);
    // SAFETY: 16 words, one thread.
    done(unsafe { memory::spaces::launch(gpu(), config, out.as_device_ptr()) });
    let out = download(&out);
    assert_eq!(out[..9], [1, 0, 0, 0, 1, 0, 0, 0, 1], "global, shared, local");
    assert_eq!(out[9..12], [1, 1, 0], "an offset, back again, not a constant");
    assert_eq!(out[12], 48);
    assert!((48..1 << 16).contains(&out[13]), "{} bytes of shared memory", out[13]);
    assert_eq!(out[14..], [1, 0], "the clock goes on");
}

#[test]
fn a_breakpoint_stops_a_kernel() {
    let error = error_of("breakpoint");
    assert!(on_gpu() || error.contains("stop"), "{error}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn breakpoint() {
    fails(memory::stop::launch(gpu(), Linear::new(1, 1)).and_then(|()| gpu().synchronize()));
}

#[test]
fn a_tiled_product_uses_static_shared_memory() {
    let n = 48usize;
    let cell = |i: usize, k: usize| ((i * k) % 7) as f32 - 3.0;
    let a: Vec<f32> = (0..n * n).map(|i| cell(i, 3)).collect();
    let b: Vec<f32> = (0..n * n).map(|i| cell(i, 5)).collect();
    let (a_gpu, b_gpu, c) = (upload(gpu(), &a), upload(gpu(), &b), poisoned::<f32>(gpu(), n * n));
    let side = spaces::TILE as u32;
    let config = Planar::new((3, 3), (side, side));
    // SAFETY: three matrices of 48 × 48.
    done(unsafe {
        spaces::gemm_tiled::launch(gpu(), config, &a_gpu, &b_gpu, c.as_device_ptr(), n)
    });
    // Small integers: exact in any order.
    let at = |i: usize| (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).sum::<f32>();
    assert_eq!(download(&c), (0..n * n).map(at).collect::<Vec<_>>());
}

#[test]
fn a_shared_static_goes_by_pointer() {
    let x = upload(gpu(), &(0..64u32).collect::<Vec<_>>());
    // SAFETY: 64 numbers, one block.
    done(unsafe { spaces::reverse::launch(gpu(), Linear::new(1, 64), x.as_device_ptr()) });
    let sum = (0..64u32).sum::<u32>();
    assert_eq!(download(&x), (0..64).rev().map(|i| i + sum).collect::<Vec<u32>>());
}

#[test]
fn a_naive_product_is_scaled_and_added() {
    let (m, n, k) = (19usize, 23usize, 29usize);
    let cell = |i: usize| (i % 9) as f32 - 4.0;
    let a: Vec<f32> = (0..m * k).map(cell).collect();
    let b: Vec<f32> = (0..k * n).map(|i| cell(i * 5)).collect();
    let (a_gpu, b_gpu, c) =
        (upload(gpu(), &a), upload(gpu(), &b), upload(gpu(), &vec![2.0f32; m * n]));
    let config = Planar::new((3, 3), (8, 8));
    // SAFETY: the sizes are the matrices'.
    done(unsafe {
        let c = c.as_device_ptr();
        sources::gemm_naive::launch(gpu(), config, &a_gpu, &b_gpu, c, m, n, k, 2.0, -1.0)
    });
    let product = |i: usize| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum::<f32>();
    // Small integers: exact in any order.
    assert_eq!(download(&c), (0..m * n).map(|i| 2.0 * product(i) - 2.0).collect::<Vec<_>>());
}

#[test]
fn wide_integers_compute() {
    let mut state = 1u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29) >> (state >> 58)
    };
    let len = 97;
    let a: Vec<u64> = (0..2 * len).map(|_| random()).collect();
    let b: Vec<u64> = (0..2 * len).map(|i| if i % 6 == 1 { 0 } else { random() }).collect();
    let (a_gpu, b_gpu) = (upload(gpu(), &a), upload(gpu(), &b));
    let out = poisoned::<u128>(gpu(), 8 * len);
    // SAFETY: eight results for each pair.
    done(unsafe {
        let out = out.as_device_ptr();
        sources::i128_ops::launch(gpu(), Linear::new(4, 32), &a_gpu, &b_gpu, out, len)
    });
    for (i, found) in download(&out).chunks(8).enumerate() {
        let wide = |words: &[u64]| u128::from(words[2 * i]) | u128::from(words[2 * i + 1]) << 64;
        let (a, b) = (wide(&a), wide(&b));
        let (sa, sb, shift) = (a as i128, b as i128 | 1, (b % 127) as u32);
        let expected = [
            a.wrapping_add(b),
            a.wrapping_mul(b),
            a / (b | 1),
            a % (b | 1),
            sa.wrapping_div(sb) as u128,
            sa.wrapping_rem(sb) as u128,
            a << shift ^ b >> shift,
            u128::from(a.leading_zeros()) << 64 | u128::from(b.count_ones()),
        ];
        assert_eq!(found, expected, "{a:#x} and {b:#x}");
    }
}

#[test]
fn features_name_the_architecture() {
    let out = poisoned::<u32>(gpu(), 1);
    // SAFETY: one word.
    done(unsafe { sources::features::launch(gpu(), Linear::new(1, 1), out.as_device_ptr()) });
    assert_eq!(download(&out), [1 | 2 | 8]);
}
