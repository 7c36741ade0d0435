//! Clusters, barriers of the grid, and launches that depend on each other.

use cuda_std::launch::{Grid1, Grid2};
use cuda_std_tests::{done, download, error_of, fails, poisoned, upload};
use ferrowarp::TensorView;
use hopper_kernels::{clusters, grids};

cuda_std_tests::device!("hopper");

#[test]
fn blocks_know_their_cluster() {
    let mut out = poisoned::<u32>(gpu(), 4 * 6 * clusters::FACTS);
    done(clusters::facts::launch(gpu(), Grid2::new(4, 6), &mut out));
    for (i, facts) in download(&out).chunks(clusters::FACTS).enumerate() {
        let (x, y) = (i as u32 % 4, i as u32 / 4);
        let expected = [y % 3 * 2 + x % 2, 6, x % 2, y % 3, 0, 2, 3, 1, x / 2, y / 3, 0, 2, 2, 1];
        assert_eq!(facts, expected, "block ({x}, {y})");
    }
}

#[test]
fn blocks_reach_one_anothers_arrays() {
    let blocks = 8;
    let out = poisoned::<u32>(gpu(), 64 * blocks);
    // SAFETY: there is room.
    done(unsafe {
        clusters::exchange::launch(gpu(), Grid1::new(blocks as u32), out.as_device_ptr())
    });
    for (block, values) in download(&out).chunks(64).enumerate() {
        let (first, rank) = (block / 4 * 4, block % 4);
        let next = first + (rank + 1) % 4;
        let read = (0..32).map(|i| (1000 * next + 31 - i) as u32);
        let sent = (0..32).map(|i| (7 * ((rank + 1) % 4) + i) as u32);
        assert_eq!(values, read.chain(sent).collect::<Vec<_>>(), "block {block}");
    }
}

#[test]
fn asynchronous_stores_reach_every_block() {
    let blocks = 8;
    let out = poisoned::<u32>(gpu(), 4 * 32 * blocks);
    // SAFETY: there is room.
    done(unsafe {
        clusters::send_to_all::launch(gpu(), Grid1::new(blocks as u32), out.as_device_ptr())
    });
    for (at, values) in download(&out).chunks(4).enumerate() {
        let (block, thread) = (at as u32 / 32, at as u32 % 32);
        let first = block / 4 * 4;
        let in_order = |of: [u32; 4]| of.into_iter().fold(0, |sum, value| sum * 100 + value);
        let expected = [
            in_order([0, 1, 2, 3]),
            in_order([block % 4; 4]),
            in_order([thread; 4]),
            in_order([first, first + 1, first + 2, first + 3]),
        ];
        assert_eq!(values, expected, "block {block}, thread {thread}");
    }
}

#[test]
fn counters_are_spread_over_a_cluster() {
    let x: Vec<u32> = (0..3000u32).map(|i| i * i % 16).collect();
    let (x_gpu, mut counts) = (upload(gpu(), &x), upload(gpu(), &[0u32; 16]));
    done(clusters::histogram::launch(gpu(), Grid1::new(6), &x_gpu, &mut counts));
    let mut expected = [0; 16];
    x.iter().for_each(|&value| expected[value as usize] += 1);
    assert_eq!(download(&counts), expected);
}

#[test]
fn atomics_of_the_clusters_scope_order_its_blocks() {
    let out = poisoned::<u32>(gpu(), 8);
    // SAFETY: there is room.
    done(unsafe { clusters::handed_on::launch(gpu(), Grid1::new(8), out.as_device_ptr()) });
    assert_eq!(download(&out), [5, 16, 49, 148, 5, 16, 49, 148]);
}

#[test]
fn one_copy_reaches_every_block_of_a_cluster() {
    let matrix: Vec<u32> = (0..20 * 32).collect();
    let range: Vec<u32> = (0..64).map(|i| 5 * i).collect();
    let (memory, range_gpu) = (upload(gpu(), &matrix), upload(gpu(), &range));
    let view = TensorView::new(memory.as_slice(), [20, 32]).unwrap();
    let out = poisoned::<u32>(gpu(), 4 * 320);
    let (from, to) = (range_gpu.as_device_ptr(), out.as_device_ptr());
    // SAFETY: there is room.
    done(unsafe { clusters::multicast::launch(gpu(), Grid1::new(4), &view, from, to) });
    for (block, values) in download(&out).chunks(320).enumerate() {
        assert_eq!(values[..256], matrix[256..512], "block {block}");
        assert_eq!(values[256..], range, "block {block}");
    }
}

#[test]
fn blocks_send_ranges_and_arrivals() {
    let out = poisoned::<u32>(gpu(), 8 * 64);
    // SAFETY: there is room.
    done(unsafe { clusters::send::launch(gpu(), Grid1::new(8), out.as_device_ptr()) });
    let sent = |i: u32| 100 * ((i / 64 + 3) % 4) + i % 64;
    assert_eq!(download(&out), (0..512).map(sent).collect::<Vec<_>>());
}

#[test]
fn a_grid_meets_a_hundred_times() {
    for (blocks, rounds) in [(1usize, 3), (7, 100), (2, 1), (3, 0)] {
        let total = blocks * grids::BLOCK;
        let (mut counter, values) = (upload(gpu(), &[9u32, 0]), poisoned::<u32>(gpu(), 2 * total));
        let (grid, out) = (Grid1::new(blocks as u32), values.as_device_ptr());
        // SAFETY: two values for each thread.
        done(unsafe { grids::rounds::launch(gpu(), grid, rounds, &mut counter, out) });
        let mut expected: Vec<u32> = (0..total as u32).collect();
        for _ in 0..rounds {
            let before = expected.clone();
            let next = |i: usize| before[i].wrapping_add(before[(i + 65) % total]);
            expected = (0..total).map(next).collect();
        }
        let half = rounds as usize % 2 * total;
        assert_eq!(download(&values)[half..half + total], expected, "{blocks} blocks, {rounds}");
        // The counter is as it began, but for its top bit.
        assert_eq!(download(&counter), [9, (rounds % 2) << 31]);
    }
}

#[test]
fn a_kernel_waits_for_the_one_before() {
    let (mut x, mut y) = (poisoned::<u32>(gpu(), 640), poisoned::<u32>(gpu(), 640));
    done(grids::first::launch(gpu(), Grid1::new(10), &mut x));
    done(grids::second::launch(gpu(), Grid1::new(10), &x, &mut y));
    assert_eq!(download(&y), (0..640).map(|i| 3 * (639 - i) + 1).collect::<Vec<_>>());
}

#[test]
fn a_kernel_that_starts_early_waits_for_what_it_reads() {
    let value = |i: u32, rounds: u32| {
        (0..rounds).fold(i, |v, _| v.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
    };
    let (mut x, mut y) = (poisoned::<u32>(gpu(), 640), poisoned::<u32>(gpu(), 640));
    // Each writes what the one before still reads, so that none may overtake.
    for rounds in [0, 1, 50, 2000, 3] {
        let grid = Grid1::new(10);
        done(grids::slow::launch(gpu(), grid, rounds, &mut x));
        let expected: Vec<u32> = (0..640).map(|i| value(639 - i, rounds) ^ 1).collect();
        done(grids::next::launch(gpu(), grid, &x, &mut y));
        assert_eq!(download(&y), expected, "{rounds} rounds");
        done(grids::slow::launch(gpu(), grid, rounds, &mut x));
        // SAFETY: it waits.
        done(unsafe { grids::next_by_itself::launch(gpu(), grid, &x, &mut y) });
        assert_eq!(download(&y), expected, "{rounds} rounds");
    }
}

#[test]
fn the_entry_of_a_safe_dependent_kernel_waits_first() {
    static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("hopper.rs");
    let entry = IMAGES[0].ptx().split(".entry next(").nth(1).expect("the kernel");
    let wait = entry.find("griddepcontrol.wait").expect("a wait");
    assert!(wait < entry.find("ld.global").expect("a load"), "it reads before it waits");
}

#[test]
fn a_panic_in_a_cluster_ends_the_kernel() {
    let error = error_of("panics_beside");
    for words in ["panics_beside", "index out of bounds: the len is 5 but the index is 5"] {
        assert!(error.contains(words), "{words} is not in: {error}");
    }
}

#[test]
#[ignore = "costs the process its device"]
fn panics_beside() {
    let (x, mut counts) = (upload(gpu(), &[1u32; 5]), poisoned(gpu(), 1));
    done(clusters::panics_beside::launch(gpu(), Grid1::new(2), &x, &mut counts));
    fails(gpu().synchronize());
}
