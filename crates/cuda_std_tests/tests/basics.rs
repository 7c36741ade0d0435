//! Parameters of every kind, shared memory, warps, barriers and atomics.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use basics_kernels::parameters::{Plus, Twice};
use basics_kernels::{atomics, parameters, shared, warps};
use cuda_std::Aligned;
use cuda_std::launch::{LaunchConfig, Linear};
use cuda_std_tests::{
    WARP, done, download, error_of, fails, lanes, on_gpu, poisoned, upload, warp_rows,
};
use ferrowarp::{DeviceBox, DeviceBuffer, GpuResult, MappedAtomics};

cuda_std_tests::device!("basics");

#[test]
fn saxpy_covers_every_size() {
    for n in [0, 1, 31, 32, 33, 255, 256, 257, 1009] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let (x_gpu, mut y_gpu) = (upload(gpu(), &x), upload(gpu(), &vec![0.5f32; n]));
        let config = LaunchConfig::for_num_elems(n);
        if n > 0 {
            done(parameters::saxpy::launch(gpu(), config, 2.0, &x_gpu, &mut y_gpu));
        }
        let expected: Vec<f32> = x.iter().map(|x| 2.0 * x + 0.5).collect();
        assert_eq!(download(&y_gpu), expected, "{n} elements");
    }
}

#[test]
fn a_permutation_writes_without_an_index() {
    for n in [1, 2, 95, 96, 97, 1009] {
        let x: Vec<u32> = (0..n).collect();
        let (x_gpu, mut y) = (upload(gpu(), &x), upload(gpu(), &vec![u32::MAX; x.len()]));
        let config = LaunchConfig::for_num_elems(x.len()).block_size(96);
        // SAFETY: 11 divides none of the lengths.
        done(unsafe { parameters::permute::launch(gpu(), config, 11, &x_gpu, &mut y) });
        let y = download(&y);
        assert!(x.iter().all(|&i| y[i as usize * 11 % x.len()] == i), "{n} elements");
    }
}

#[test]
fn two_threads_at_one_element_and_one_past_the_end_are_reported() {
    // A GPU writes where it is told to.
    if !on_gpu() {
        let error = error_of("no_permutation");
        assert!(error.contains("race") && error.contains("permute"), "{error}");
        let error = error_of("a_permutation_past_the_end");
        assert!(error.contains("permute") && error.contains("past"), "{error}");
    }
}

/// Permutes 100 elements into memory of `len` elements.
fn permute_wrongly(step: usize, len: usize) {
    let x: Vec<u32> = (0..100).collect();
    let (x, mut y) = (upload(gpu(), &x), upload(gpu(), &vec![0u32; len]));
    // SAFETY: wrong, as the tests want.
    let launched =
        unsafe { parameters::permute::launch(gpu(), Linear::new(2, 64), step, &x, &mut y) };
    fails(launched.and_then(|()| gpu().synchronize()));
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn no_permutation() {
    permute_wrongly(10, 100);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn a_permutation_past_the_end() {
    permute_wrongly(3, 99);
}

#[test]
fn a_kernel_for_rust_cuda_runs() {
    let a: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let (a_gpu, c) = (upload(gpu(), &a), upload(gpu(), &[0.0f32; 300]));
    // SAFETY: `c` is as long as the inputs.
    done(unsafe {
        parameters::vecadd::launch(gpu(), Linear::new(3, 128), &a_gpu, &a_gpu, c.as_device_ptr())
    });
    assert_eq!(download(&c), a.iter().map(|x| x + x).collect::<Vec<_>>());
}

#[test]
fn aligned_elements_and_arguments_are_aligned_in_kernels() {
    let row = |i: u32| Aligned::new(std::array::from_fn(|k| 100 * i + k as u32));
    for n in [1, 33, 257] {
        let rows: Vec<parameters::AlignedRow> = (0..n).map(row).collect();
        let (x, mut out) = (upload(gpu(), &rows), poisoned(gpu(), rows.len()));
        let (config, plus) = (LaunchConfig::for_num_elems(rows.len()), Aligned::new([5, 7]));
        done(parameters::aligned_rows::launch(gpu(), config, plus, &x, &mut out));
        let sum = |i: u32| 48 * 100 * i + (0..48).sum::<u32>() + 12;
        let found: Vec<[u32; 3]> = download(&out).iter().map(|row| **row).collect();
        assert_eq!(found, (0..n).map(|i| [sum(i), 0, 0]).collect::<Vec<_>>(), "{n} rows");
        // What a value leaves of its bytes is zero.
        let words: &[[u32; 64]] = bytemuck::cast_slice(&rows);
        assert!(words.iter().all(|row| row[48..] == [0; 16]));
    }
}

#[test]
fn an_index_past_the_end_is_an_error() {
    // A stream of its own, so that no other test here waits for this panic.
    let own = gpu().create_stream().unwrap();
    let x = DeviceBuffer::from_slice(&own, &[1.0f32; 5]).unwrap();
    let mut y = DeviceBuffer::from_slice(&own, &[0.0f32; 6]).unwrap();
    done(parameters::saxpy::launch(&own, Linear::new(1, 31), 2.0, &x, &mut y));
    let error = own.synchronize().expect_err("the sixth of five");
    let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert_eq!((panic.kernel.as_str(), panic.thread), ("saxpy", [5, 0, 0]));
    assert_eq!(panic.message, "index out of bounds: the len is 5 but the index is 5");
}

#[test]
fn vectors_cover_every_element() {
    for n in [0usize, 1, 4, 7, 128, 1001] {
        let x: Vec<f32> = (0..n).map(|i| (i % 16) as f32).collect();
        let (x_gpu, mut out) = (upload(gpu(), &x), upload(gpu(), &[f32::NAN; 64]));
        done(parameters::vector_sums::launch(gpu(), Linear::new(2, 32), &x_gpu, &mut out));
        // Small integers: every order of addition is exact.
        assert_eq!(download(&out).iter().sum::<f32>(), x.iter().sum::<f32>(), "{n} elements");
    }
}

#[test]
fn a_grid_is_covered_in_two_dimensions() {
    let pixels: Vec<u8> = (0..37 * 19).map(|i| i as u8).collect();
    let (mut image, by) = (upload(gpu(), &pixels), DeviceBox::new(gpu(), &100u8).unwrap());
    let mut rows = image.grid_mut(37, 19).unwrap();
    done(parameters::brighten::launch(gpu(), LaunchConfig::for_grid(37, 19), &mut rows, &by));
    let expected: Vec<u8> = pixels.iter().map(|p| p.saturating_add(100)).collect();
    assert_eq!(download(&image), expected);
}

#[test]
fn values_arrive_whole() {
    let out = upload(gpu(), &[0u64]);
    let mixed = parameters::Mixed { byte: 3, word: 70_000, half: 500 };
    let vector = cuda_std::vector::Vec4::new(0.0f32, 9.0, 0.0, 0.0);
    let config = Linear::new(1, 1);
    // SAFETY: `out` is valid.
    done(unsafe {
        parameters::by_value::launch(
            gpu(),
            config,
            1,
            true,
            mixed,
            vector,
            1 << 40,
            [0, 0, 11],
            out.as_device_ptr(),
        )
    });
    assert_eq!(download(&out), [1 + 1 + 3 + 70_000 + 500 + 9 + (1 << 40) + 11]);
}

#[test]
fn values_without_a_size_cost_nothing() {
    let names = |kernel: &'static cuda_std::launch::Kernel| {
        kernel.params.iter().map(|param| param.name).collect::<Vec<_>>()
    };
    let twice = names(parameters::mapped::<Twice>::KERNEL);
    assert_eq!(twice, ["x_ptr", "x_len", "out_ptr", "out_len"]);
    let plus = names(parameters::mapped::<Plus>::KERNEL);
    assert_eq!(plus, ["map", "x_ptr", "x_len", "out_ptr", "out_len"]);
    assert_eq!(names(&parameters::nothing_at_all::KERNEL), [""; 0]);
    assert_eq!(names(&parameters::nothing_between::KERNEL), ["a", "b", "out"]);
    for n in [1, 31, 32, 33, 255, 256, 257, 1009] {
        let x: Vec<f32> = (0..n).map(|i| i as f32 - 7.0).collect();
        let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), n));
        let config = LaunchConfig::for_num_elems(n);
        done(parameters::mapped::launch(gpu(), config, (), Twice, &x_gpu, [], &mut out));
        assert_eq!(download(&out), x.iter().map(|x| 2.0 * x).collect::<Vec<_>>(), "{n} elements");
        done(parameters::mapped::launch(gpu(), config, (), Plus { by: 3.0 }, &x_gpu, [], &mut out));
        assert_eq!(download(&out), x.iter().map(|x| x + 3.0).collect::<Vec<_>>(), "{n} elements");
    }
    let (out, config) = (upload(gpu(), &[0u64]), Linear::new(1, 1));
    // SAFETY: `out` is valid.
    done(unsafe {
        let out = out.as_device_ptr();
        let nothing = parameters::nothing_between::launch;
        nothing(gpu(), config, PhantomData, 200, Twice, [], 70_000, out, PhantomData)
    });
    assert_eq!(download(&out), [70_200]);
    done(parameters::nothing_at_all::launch(gpu(), config, (), Twice));
}

/// What Rust does not promise, and the pinned compiler does: the book says what to rely on.
#[test]
fn a_struct_without_an_order_lies_alike_on_host_and_device() {
    let value = parameters::Unordered {
        byte: 0xA1,
        wide: 0x1234_5678_9ABC_DEF0,
        half: 0xB2C3,
        widest: 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210,
        pair: (0xD4, 0xE5F6_0718, 0x293A),
        flag: true,
        float: -0.1,
    };
    let out = poisoned::<u64>(gpu(), 13);
    // SAFETY: 13 words; the layouts are compared below, and any bytes make numbers.
    done(unsafe {
        parameters::unordered::launch(gpu(), Linear::new(1, 1), value, out.as_device_ptr())
    });
    let out = download(&out);
    assert_eq!(out[..12], parameters::Unordered::layout());
    assert_eq!(out[12], value.digest());
}

#[test]
fn shared_arrays_keep_apart() {
    let (rounds, mut y) = (3, upload(gpu(), &[0.0f32; 128]));
    done(shared::two_arrays::launch(gpu(), Linear::new(2, 64), rounds, &mut y));
    let threads = (0..64).sum::<u32>() as f32;
    let expected = |thread: usize| -> f32 {
        let round = |round: u32| {
            let first = if thread == 0 { round as f32 + 0.5 } else { 0.0 };
            threads + 64.0 * round as f32 + 0.5 + first
        };
        (0..rounds).map(round).sum()
    };
    let expected: Vec<f32> = (0..128).map(|i| expected(i % 64)).collect();
    assert_eq!(download(&y), expected);
}

#[test]
fn one_place_is_one_array_in_both_arms() {
    let mut y = upload(gpu(), &[0u32; 64]);
    done(shared::one_place::launch(gpu(), Linear::new(1, 64), &mut y));
    let written = |i: u32| if i.is_multiple_of(2) { 2 * i } else { 3 * i };
    assert_eq!(download(&y), (0..64).map(|i| written(i ^ 1)).collect::<Vec<_>>());
}

#[test]
fn generic_and_dynamic_arrays_work() {
    let (mut y, mut z) = (upload(gpu(), &[0u32; 128]), upload(gpu(), &[0.0f64; 128]));
    done(shared::generic::launch(gpu(), Linear::new(2, 64), &mut y, &mut z));
    let neighbours: Vec<u32> = (0..128).map(|i| i ^ 1).collect();
    assert_eq!(download(&y), neighbours);
    assert_eq!(download(&z), neighbours.iter().map(|&i| f64::from(i)).collect::<Vec<_>>());
    let mut y = upload(gpu(), &[0u32; 128]);
    done(shared::dynamic::launch(gpu(), Linear::new(2, 64).shared_mem(64 * 4), &mut y));
    assert_eq!(download(&y), neighbours);
}

#[test]
fn dynamic_memory_ends_where_the_launch_says() {
    // A GPU rounds the size up, and says nothing.
    if !on_gpu() {
        let error = error_of("dynamic_memory_past_its_end");
        assert!(error.contains("thread (63,0,0)"), "{error}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn dynamic_memory_past_its_end() {
    let mut y = upload(gpu(), &[0u32; 64]);
    let config = Linear::new(1, 64).shared_mem(63 * 4);
    let launched = shared::dynamic::launch(gpu(), config, &mut y);
    fails(launched.and_then(|()| gpu().synchronize()));
}

#[test]
fn shared_counters_count() {
    let bytes: Vec<u8> = (0..10_000u32).map(|i| (i * i % 251) as u8).collect();
    let mut expected = [0u32; 256];
    bytes.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
    let (bytes, mut counts) = (upload(gpu(), &bytes), upload(gpu(), &[0u32; 256]));
    done(shared::histogram::launch(gpu(), Linear::new(5, 96), &bytes, &mut counts));
    assert_eq!(download(&counts), expected);
}

#[test]
fn shuffles_reach_the_lane_they_name() {
    let rows = warp_rows(gpu(), 8, |out| {
        // SAFETY: one warp, and room for 8 results.
        unsafe { warps::shuffles::launch(gpu(), Linear::new(1, 32), out) }
    });
    let joined = |lane: u64, source: u64, inside: bool| {
        (if inside { source } else { lane }) << 1 | u64::from(inside)
    };
    let expected = [
        lanes(|lane| joined(lane, lane.wrapping_sub(3), lane % 16 >= 3)),
        lanes(|lane| joined(lane, lane + 5, lane + 5 < 32)),
        lanes(|lane| joined(lane, lane ^ 8, lane ^ 8 <= lane | 7)),
        lanes(|lane| joined(lane, lane ^ 1, true)),
        lanes(|lane| joined(lane, lane / 16 * 16 + 3, true)),
        lanes(|_| 7 << 36),
        lanes(|lane| (lane + 1).min(31)),
        lanes(|lane| (lane as i64 - 1).max(0).wrapping_neg() as u64),
    ];
    for (k, (row, expected)) in rows.iter().zip(&expected).enumerate() {
        assert_eq!(row, expected, "result {k}");
    }
}

#[test]
fn votes_and_matches_agree() {
    let rows = warp_rows(gpu(), 9, |out| {
        // SAFETY: one warp, and room for 9 results.
        unsafe { warps::votes::launch(gpu(), Linear::new(1, 32), out) }
    });
    let expected = [
        lanes(|_| 1),
        lanes(|_| 0),
        lanes(|_| 1),
        lanes(|_| 0x4924_9249),
        lanes(|lane| 0xf << (lane / 4 * 4)),
        lanes(|lane| 0xff << (lane / 8 * 8)),
        lanes(|_| 0xffff_ffff),
        lanes(|_| 0),
        lanes(|_| 0xffff_ffff),
    ];
    for (k, (row, expected)) in rows.iter().zip(&expected).enumerate() {
        assert_eq!(row, expected, "result {k}");
    }
}

#[test]
fn reductions_join_all_lanes() {
    let rows = warp_rows(gpu(), 9, |out| {
        // SAFETY: one warp, and room for 9 results.
        unsafe { warps::reductions::launch(gpu(), Linear::new(1, 32), out) }
    });
    let expected = [496i64, -16, -16, 15, 0, 0xffff_ffff, 64, 31, 0xffff_ffff];
    for (k, (row, expected)) in rows.iter().zip(expected).enumerate() {
        assert_eq!(*row, vec![expected as u64; WARP], "result {k}");
    }
}

#[test]
fn barriers_count_their_threads() {
    let (grid, block) = ((2, 2, 1), (3, 5, 2));
    let config = LaunchConfig { grid, block, shared_mem_bytes: 0 };
    let threads = 30;
    let mut out = upload(gpu(), &vec![u32::MAX; 4 * threads * 7]);
    done(warps::barriers::launch(gpu(), config, &mut out));
    for (own, results) in download(&out).chunks(7).enumerate() {
        let in_block = (own % threads) as u32;
        let expected = [15, 0, 1, in_block, threads as u32, u32::from(own == 0), 32];
        assert_eq!(results, expected, "thread {own}");
    }
}

#[test]
fn scoped_atomics_change_memory() {
    let words = upload(gpu(), &[1u32, 7, -5i32 as u32, 6]);
    let wide = upload(gpu(), &[4.0f64, 5.0]);
    let config = Linear::new(1, 1);
    // SAFETY: both are valid.
    done(unsafe {
        atomics::scoped::launch(gpu(), config, words.as_device_ptr(), wide.as_device_ptr())
    });
    assert_eq!(download(&words), [2, 7, -1i32 as u32, 7]);
    assert_eq!(download(&wide), [3.0, 1.0]);
}

/// Kernels change words of the host's memory, which the host sees while they run. It changes them too where
/// device and host agree on what is atomic.
#[test]
fn system_atomics_change_words_that_the_host_reads() -> GpuResult<()> {
    const THREADS: usize = 2000;
    let (greatest, least) = (MappedAtomics::zeroed(gpu(), 2)?, MappedAtomics::zeroed(gpu(), 2)?);
    let (bits, sum) = (MappedAtomics::<u64>::zeroed(gpu(), 2)?, MappedAtomics::zeroed(gpu(), 2)?);
    let config = Linear::new(THREADS as u32 / 100, 100);
    atomics::system_words::launch(gpu(), config, &greatest, &least, &bits, &sum)?;
    let (mut seen, mut own) = (0, 0);
    while !gpu().stream().is_idle()? {
        let now = greatest[0].load(Acquire);
        assert!(now >= seen, "{now} threads after {seen}");
        seen = now;
        if greatest.both_sides_modify() {
            bits[0].fetch_add(1, AcqRel);
            own += 1;
        }
    }
    let n = THREADS as u64;
    let found = (greatest[0].load(Relaxed), least[0].load(Relaxed), bits[0].load(Relaxed));
    assert_eq!(found, (n as u32, -(n as i32), (n << 40) + own));
    assert_eq!(sum[0].load(Relaxed), -((n as i64) << 40));
    let found = (greatest[1].load(Relaxed), least[1].load(Relaxed), bits[1].load(Relaxed));
    assert_eq!(found, (n as u32 - 1, 1 - n as i32, u64::MAX));
    assert_eq!(sum[1].load(Relaxed), (n as i64 - 1) * n as i64 / 2);
    Ok(())
}

#[test]
fn atomic_slices_change_their_elements() {
    let threads = 96;
    let mut floats = upload(gpu(), &[0.0f32, -1.0]);
    let (mut ints, mut wide) = (upload(gpu(), &[0i32, 0, 0]), upload(gpu(), &[1u64, 0]));
    let config = Linear::new(3, threads / 3);
    done(atomics::slices::launch(gpu(), config, &mut floats, &mut ints, &mut wide));
    assert_eq!(download(&floats)[0], 1.5 * threads as f32);
    assert!(download(&floats)[1] >= 1.5);
    assert_eq!(download(&ints), [threads as i32, -7, -(threads as i32)]);
    assert_eq!(download(&wide), [7, 9]);
}
