//! Launch contracts: what a kernel demands, and what a launch that breaks it gets.

use contracts_kernels::generic::{Add, Largest, axpy, combine, count_from, reverse};
use contracts_kernels::launches::{self, BLOCK};
use cuda_std::launch::{ContractError, Grid1, Grid2, Grid3, LaunchConfig, Linear};
use cuda_std_tests::{done, download, poisoned, upload};
use ferrowarp::error::LaunchLimit;
use ferrowarp::{GpuError, GpuResult};

cuda_std_tests::device!("contracts");

/// What the contract of the kernel says of a launch that breaks it.
fn broken(result: GpuResult<()>) -> ContractError {
    match result.expect_err("the launch breaks the contract") {
        GpuError::Contract { broken, .. } => broken,
        other => panic!("another error: {other}"),
    }
}

#[test]
fn a_fixed_block_is_launched_by_its_blocks() {
    for n in [0usize, 1, 191, 192, 193, 1000] {
        let mut out = poisoned::<[u32; 3]>(gpu(), n);
        done(launches::line::launch(gpu(), launches::line::grid_for(n), &mut out));
        let block = 2 * BLOCK;
        let expected: Vec<_> = (0..n as u32).map(|i| [block, i % block, i / block]).collect();
        assert_eq!(download(&out), expected, "{n} elements");
    }
    assert_eq!(launches::line::KERNEL.contract.block, Some((192, 1, 1)));
    assert_eq!(launches::line::KERNEL.contract.min_blocks, Some(2));
}

#[test]
fn a_fixed_block_of_two_dimensions() {
    let table: [u32; 256] = std::array::from_fn(|i| i as u32 * 3);
    let table = ferrowarp::DeviceBox::new(gpu(), &table).unwrap();
    for (width, height) in [(1, 1), (32, 8), (33, 9), (70, 5)] {
        let mut out = poisoned::<u32>(gpu(), width * height);
        let grid = launches::plane::grid_for(width, height);
        assert_eq!(grid, Grid2::new(width.div_ceil(32) as u32, height.div_ceil(8) as u32));
        let mut rows = out.grid_mut(width, height).unwrap();
        done(launches::plane::launch(gpu(), grid, &table, &mut rows));
        let place = |i: usize| 3 * (i / width % 8 * 32 + i % width % 32) as u32;
        let expected: Vec<_> = (0..width * height).map(place).collect();
        assert_eq!(download(&out), expected, "{width} × {height}");
    }
}

#[test]
fn a_kernel_without_an_index_takes_any_grid() {
    let mut counts = upload(gpu(), &[0u32; 24]);
    done(launches::body::launch(gpu(), Grid1::new(3), &mut counts));
    done(launches::body::launch(gpu(), Grid2::new(2, 2), &mut counts));
    done(launches::body::launch(gpu(), Grid3::new(1, 2, 2), &mut counts));
    assert_eq!(download(&counts), [3 + 4 + 2 + 4; 24]);
    assert_eq!(launches::body::grid_for(5, 5, 5), Grid3::new(2, 3, 2));
}

#[test]
fn a_block_has_at_most_so_many_threads() {
    let mut out = poisoned::<u32>(gpu(), 128);
    done(launches::bounded::launch(gpu(), Linear::new(1, 128), &mut out));
    assert_eq!(download(&out), [128; 128]);
    let error = broken(launches::bounded::launch(gpu(), Linear::new(1, 129), &mut out));
    assert_eq!(error, ContractError::Threads { most: 128, found: 129 });
}

#[test]
fn cooperative_blocks_meet() {
    for blocks in [1u32, 2, 7, 64] {
        let (mut counter, mut seen) = (upload(gpu(), &[0u32]), poisoned(gpu(), blocks as usize));
        done(launches::meet::launch(gpu(), Grid1::new(blocks), &mut counter, &mut seen));
        assert_eq!(download(&seen), vec![blocks; blocks as usize]);
    }
}

#[test]
fn a_cooperative_grid_that_does_not_fit_is_an_error() {
    let (mut counter, mut seen) = (upload(gpu(), &[0u32]), upload(gpu(), &[0u32]));
    let launched = launches::meet::launch(gpu(), Grid1::new(1 << 20), &mut counter, &mut seen);
    match launched.expect_err("no device is that large").root() {
        GpuError::LaunchTooLarge { what, value, limit, .. } => {
            assert_eq!((*what, *value), (LaunchLimit::CooperativeBlocks, 1 << 20));
            assert!((1..1 << 20).contains(limit), "{limit}");
        }
        other => panic!("another error: {other}"),
    }
    assert_eq!(download(&counter), [0], "nothing ran");
}

#[test]
fn blocks_form_clusters() {
    let (width, height) = (4usize, 6);
    let (mut ranks, mut sizes) = (poisoned(gpu(), 24), poisoned(gpu(), 24));
    let grid = Grid2::new(width as u32, height as u32);
    done(launches::clusters::launch(gpu(), grid, &mut ranks, &mut sizes));
    let rank = |block: usize| (block % width % 2 + block / width % 2 * 2) as u32;
    assert_eq!(download(&ranks), (0..width * height).map(rank).collect::<Vec<_>>());
    assert_eq!(download(&sizes), [4u32; 24]);
    let odd = launches::clusters::launch(gpu(), Grid2::new(4, 3), &mut ranks, &mut sizes);
    let (cluster, grid) = ((2, 2, 1), (4, 3, 1));
    assert_eq!(broken(odd), ContractError::Cluster { cluster, grid });
}

#[test]
fn a_cluster_of_sixteen_runs_or_is_refused_by_name() {
    let mut ranks = poisoned(gpu(), 32);
    match launches::large_clusters::launch(gpu(), Grid1::new(32), &mut ranks) {
        Ok(()) => assert_eq!(download(&ranks), (0..32u32).map(|i| i % 16).collect::<Vec<_>>()),
        Err(error) => match error.root() {
            GpuError::LaunchTooLarge { what, value: 16, .. } => {
                assert_eq!(*what, LaunchLimit::ClusterBlocks);
            }
            other => panic!("another error: {other}"),
        },
    }
}

#[test]
fn the_launcher_gives_the_shared_memory_that_a_kernel_fixes() {
    let values: Vec<u32> = (0..128).collect();
    let expected: Vec<u32> = values.iter().map(|i| i / 64 * 64 + 63 - i % 64).collect();
    let mut data = upload(gpu(), &values);
    let grid = launches::fixed_shared::grid_for(128);
    done(launches::fixed_shared::launch(gpu(), grid, &mut data));
    assert_eq!(download(&data), expected);
    done(launches::fixed_shared::launch(gpu(), grid.shared_mem(256), &mut data));
    assert_eq!(download(&data), values);
    for (bytes, error) in [
        (255, ContractError::SharedTooLittle { least: 256, found: 255 }),
        (257, ContractError::SharedTooMuch { most: 256, found: 257 }),
    ] {
        let launched = launches::fixed_shared::launch(gpu(), grid.shared_mem(bytes), &mut data);
        assert_eq!(broken(launched), error);
    }
}

#[test]
fn shared_memory_in_a_range_is_checked_at_the_launch() {
    let values: Vec<u32> = (0..64).collect();
    let mut data = upload(gpu(), &values);
    let grid = launches::ranged_shared::grid_for(64);
    done(launches::ranged_shared::launch(gpu(), grid.shared_mem(1024), &mut data));
    assert_eq!(download(&data), values.iter().rev().copied().collect::<Vec<_>>());
    let error = broken(launches::ranged_shared::launch(gpu(), grid, &mut data));
    assert_eq!(error, ContractError::SharedTooLittle { least: 256, found: 0 });
    let error = broken(launches::ranged_shared::launch(gpu(), grid.shared_mem(1025), &mut data));
    assert_eq!(error, ContractError::SharedTooMuch { most: 1024, found: 1025 });
}

#[test]
fn shared_memory_of_elements_is_a_whole_number() {
    let mut out = poisoned::<u32>(gpu(), 1);
    for bytes in [0, 12, 240] {
        let config = Linear::new(1, 1).shared_mem(bytes);
        done(launches::element_shared::launch(gpu(), config, &mut out));
        assert_eq!(download(&out), [bytes]);
    }
    let config = Linear::new(1, 1).shared_mem(16);
    let error = broken(launches::element_shared::launch(gpu(), config, &mut out));
    assert_eq!(error, ContractError::SharedNotWhole { unit: 12, found: 16 });
}

#[test]
fn a_contract_refuses_what_no_typed_launch_can_say() {
    let contract = &launches::line::KERNEL.contract;
    let config = LaunchConfig { grid: (1, 1, 1), block: (64, 3, 1), shared_mem_bytes: 0 };
    let error = ContractError::Block { expected: (192, 1, 1), found: (64, 3, 1) };
    assert_eq!(contract.apply(config), Err(error));
}

#[test]
fn each_instance_is_a_kernel_of_its_own() {
    for n in [0usize, 1, 33, 257] {
        let small: Vec<i32> = (0..n as i32).map(|i| i % 13 - 6).collect();
        let wide: Vec<f64> = small.iter().map(|&i| f64::from(i) + 0.5).collect();
        let config = LaunchConfig::for_num_elems(n);
        let (x, mut y) = (upload(gpu(), &small), upload(gpu(), &vec![100i32; n]));
        done(axpy::<i32>::launch(gpu(), config, -3, &x, &mut y));
        assert_eq!(download(&y), small.iter().map(|x| 100 - 3 * x).collect::<Vec<_>>());
        let (x, mut y) = (upload(gpu(), &wide), upload(gpu(), &vec![1.0f64; n]));
        // The instance follows from the buffers.
        done(axpy::launch(gpu(), config, 2.0, &x, &mut y));
        assert_eq!(download(&y), wide.iter().map(|x| 2.0 * x + 1.0).collect::<Vec<_>>());
    }
    let names = [axpy::<f32>::KERNEL, axpy::<f64>::KERNEL, axpy::<i32>::KERNEL].map(|k| k.name);
    assert_eq!(names, ["axpy_f32", "axpy_f64", "axpy_i32"]);
    assert_eq!(axpy::<f64>::KERNEL.params[0].size_bytes, 8);
}

#[test]
fn types_operators_and_constants_choose_an_instance() {
    let values: Vec<i32> = (0..1000).map(|i| i * 7919 % 1009 - 500).collect();
    let x = upload(gpu(), &values);
    let mut out = poisoned::<i32>(gpu(), 250);
    let grid = combine::<i32, Largest, 4>::grid_for(250);
    assert_eq!(grid, Grid1::new(8), "a block has 32 threads");
    done(combine::<i32, Largest, 4>::launch(gpu(), grid, &x, &mut out));
    let largest: Vec<_> = values.chunks(4).map(|c| *c.iter().max().unwrap()).collect();
    assert_eq!(download(&out), largest);

    let mut out = poisoned::<i32>(gpu(), 200);
    let grid = combine::<i32, Add, 5>::grid_for(200);
    done(combine::<i32, Add, 5>::launch(gpu(), grid, &x, &mut out));
    assert_eq!(download(&out), values.chunks(5).map(|c| c.iter().sum()).collect::<Vec<i32>>());

    let kernel = combine::<i32, Add, 5>::KERNEL;
    assert_eq!((kernel.name, kernel.contract.block), ("combine_i32_Add_2_3", Some((40, 1, 1))));
    assert_eq!(combine::<f32, Largest, 3>::KERNEL.name, "combine_f32_Largest_3");
}

#[test]
fn instances_have_atomic_views_and_values() {
    let (x, mut counts) = (upload(gpu(), &[5u64, 1 << 40, 7, 1 << 41]), upload(gpu(), &[0u64]));
    done(count_from::launch(gpu(), Grid1::new(1), 1 << 33, &x, &mut counts));
    assert_eq!(download(&counts), [2]);
    let (x, mut counts) = (upload(gpu(), &[5u32, 6, 7]), upload(gpu(), &[10u32]));
    done(count_from::<u32>::launch(gpu(), Grid1::new(1), 6, &x, &mut counts));
    assert_eq!(download(&counts), [12]);
}

#[test]
fn instances_have_blocks_and_shared_arrays_of_their_own() {
    let x: Vec<u32> = (0..128).collect();
    let expected: Vec<u32> = x.iter().map(|i| i / 64 * 64 + 63 - i % 64).collect();
    let (gpu_x, mut out) = (upload(gpu(), &x), poisoned(gpu(), 128));
    done(reverse::<u32, 64>::launch(gpu(), Grid1::new(2), &gpu_x, &mut out));
    assert_eq!(download(&out), expected);
    let x: Vec<f64> = (0..64).map(f64::from).collect();
    let expected: Vec<f64> = (0..64).map(|i| f64::from(i / 32 * 32 + 31 - i % 32)).collect();
    let (gpu_x, mut out) = (upload(gpu(), &x), poisoned(gpu(), 64));
    let grid = reverse::<f64, 32>::grid_for(64);
    done(reverse::<f64, 32>::launch(gpu(), grid, &gpu_x, &mut out));
    assert_eq!(download(&out), expected);
}
