//! Arrays on the device that grow: in place and by copies, with kernels in flight, until there is no more memory.

use std::fmt::Debug;

use bytemuck::Pod;
use cuda_driver::{Backend, injection};
use ferrowarp::memory::resource::{LimitAdaptor, MemoryPool};
use ferrowarp::{DeviceBuffer, DeviceVec, GpuError, GpuResult};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

/// Words from which on memory is mapped.
const MAPPED: usize = (2 << 20) / 4;
const SIZES: [usize; 14] =
    [0, 1, 31, 32, 33, 255, 256, 257, 1009, MAPPED - 1, MAPPED, MAPPED + 1, 600_011, 1 << 21];

/// Whether this device maps memory. The emulator does so on Linux alone.
fn maps_memory() -> bool {
    gpu().info().virtual_memory && (gpu().backend() == Backend::Cuda || cfg!(target_os = "linux"))
}

/// Numbers that differ from place to place.
fn numbers(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

#[test]
fn the_capacity_is_what_was_asked_for_or_more() -> GpuResult<()> {
    for n in SIZES {
        let empty = DeviceVec::<u32>::with_capacity(gpu(), n)?;
        assert!(
            empty.capacity() >= n && empty.is_empty() && empty.to_vec()?.is_empty(),
            "{empty:?}"
        );
        let full = DeviceVec::from_slice(gpu(), &numbers(n))?;
        assert_eq!((full.len(), full.to_vec()?), (n, numbers(n)));
        assert!(full.as_device_ptr().is_aligned_to(256));
    }
    Ok(())
}

#[test]
fn a_part_is_filled_and_what_does_not_fit_is_refused() -> GpuResult<()> {
    for n in [0, 1, 33, 257, MAPPED + 1] {
        let mut vec = DeviceVec::with_capacity(gpu(), n)?;
        let (capacity, source) = (vec.capacity(), DeviceBuffer::from_slice(gpu(), &[7u32, 8])?);
        for len in [0, n / 2, n, n / 3] {
            vec.copy_from_host(&numbers(len))?;
            assert_eq!((vec.len(), vec.to_vec()?), (len, numbers(len)));
        }
        let before = vec.to_vec()?;
        let error = vec.copy_from_host(&vec![1; capacity + 1]).unwrap_err();
        let GpuError::CapacityExceeded { capacity: said, found, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((said, found), (capacity, capacity + 1));
        assert!(error.to_string().contains("reserve more before"), "{error}");
        let refused = vec.copy_from_device(&source);
        assert_eq!(refused.is_err(), capacity < 2);
        let expected = if capacity < 2 { before } else { vec![7, 8] };
        assert_eq!((vec.capacity(), vec.to_vec()?), (capacity, expected));
    }
    Ok(())
}

/// The vector does what the host's `Vec` does, whatever the order of the calls.
#[test]
fn it_is_a_vec() -> GpuResult<()> {
    as_the_hosts(|i| i as u8)?;
    as_the_hosts(|i| i as u32)?;
    as_the_hosts(|i| [i as f32, 1.0, 2.0])
}

fn as_the_hosts<T: Pod + PartialEq + Debug>(value: impl Fn(usize) -> T) -> GpuResult<()> {
    let seed = rand::random();
    println!("the seed is {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut device = DeviceVec::with_capacity(gpu(), 0)?;
    let mut host = Vec::new();
    for round in 0..60 {
        let n = if rng.random_bool(0.2) {
            rng.random_range(0..1 << 20)
        } else {
            rng.random_range(0..1000)
        };
        let values: Vec<T> = (0..n).map(|i| value(i + round)).collect();
        match rng.random_range(0..8) {
            0..3 => {
                device.extend_from_slice(&values)?;
                host.extend_from_slice(&values);
            }
            3 => {
                device.extend_from_device(&DeviceBuffer::from_slice(gpu(), &values)?)?;
                host.extend_from_slice(&values);
            }
            4 => {
                device.resize_zeroed(n)?;
                host.resize(n, T::zeroed());
            }
            5 => {
                device.truncate(n);
                host.truncate(n);
            }
            6 => {
                device.reserve(n)?;
                assert!(device.capacity() >= device.len() + n);
            }
            _ if n > 500 && n < 1000 => {
                device.clear();
                host.clear();
            }
            _ => {
                host.truncate(0);
                let n = n.min(device.capacity());
                device.copy_from_host(&values[..n])?;
                host.extend_from_slice(&values[..n]);
            }
        }
        assert!(device.len() == host.len() && device.capacity() >= device.len());
        assert!(device.to_vec()? == host, "round {round}: the elements differ");
    }
    Ok(())
}

#[test]
fn a_large_one_grows_where_it_is() -> GpuResult<()> {
    let mut vec = DeviceVec::from_slice(gpu(), &numbers(MAPPED + 5))?;
    let address = vec.as_device_ptr().address();
    let mut expected = numbers(MAPPED + 5);
    for n in [MAPPED, 1, 3 * MAPPED - 7] {
        vec.extend_from_slice(&numbers(n))?;
        expected.extend(numbers(n));
        assert_eq!(vec.as_device_ptr().address() == address, maps_memory());
        assert!(vec.to_vec()? == expected);
    }
    // Kernels and copies over the borders of what was mapped at once.
    fill(gpu(), &mut vec, 3)?;
    assert!(vec.to_vec()? == vec![3; expected.len()]);
    let mut part = DeviceBuffer::zeroed(gpu(), 2 * MAPPED)?;
    part.copy_from_device(vec.slice(MAPPED / 2..5 * MAPPED / 2))?;
    assert!(part.to_vec()? == vec![3; 2 * MAPPED]);
    Ok(())
}

#[test]
fn growing_waits_for_no_kernel() -> GpuResult<()> {
    let (home, other) = (gpu().create_stream()?, gpu().create_stream()?);
    for (len, more) in [(1000, 10), (1000, 2 * MAPPED), (MAPPED + 1, 3 * MAPPED)] {
        if len < MAPPED && !gpu().info().memory_pools {
            continue; // The old memory is freed at once, and that waits.
        }
        let mut vec = DeviceVec::from_slice(&home, &numbers(len))?;
        let source = DeviceBuffer::from_slice(&home, &numbers(more))?;
        // Loads the kernel, which waits.
        churn(&other, &mut DeviceVec::from_slice(&other, &[1u32])?, 1)?;
        gpu().synchronize()?;
        let gate = Gate::on(&other);
        churn(&other, &mut vec, 3)?;
        vec.extend_from_device(&source)?;
        assert!(vec.capacity() >= len + more && !other.is_idle()?, "growing has waited");
        gate.open();
        let expected = numbers(len).into_iter().map(|word| churned(word, 3)).chain(numbers(more));
        assert!(vec.to_vec()? == expected.collect::<Vec<_>>(), "{len} and {more}");
    }
    Ok(())
}

#[test]
fn a_drop_comes_after_the_kernels_of_all_streams() -> GpuResult<()> {
    let (home, other) = (gpu().create_stream()?, gpu().create_stream()?);
    for len in [100, MAPPED + 3] {
        for _ in 0..3 {
            let mut vec = DeviceVec::from_slice(&home, &numbers(len))?;
            let mut last = DeviceBuffer::zeroed(&home, 100)?;
            churn(&other, &mut vec.slice_mut(..100), 20_000)?;
            last.copy_from_device(vec.slice(..100))?;
            drop(vec);
            let mut next = DeviceVec::<u32>::with_capacity(&home, len)?;
            next.resize_zeroed(len)?;
            assert!(next.to_vec()?.iter().all(|word| *word == 0));
            assert_eq!(last.to_vec()?[1], churned(numbers(2)[1], 20_000));
        }
    }
    Ok(())
}

#[test]
fn it_may_be_dropped_in_a_host_callback() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    for len in [10, MAPPED] {
        let vec = DeviceVec::from_slice(&stream, &numbers(len))?;
        stream.launch_host_func(move || drop(vec))?.wait()?;
        // The next call of the driver frees it.
        gpu().memory_info()?;
    }
    Ok(())
}

#[test]
fn kernels_read_and_write_the_elements_alone() -> GpuResult<()> {
    let one = ferrowarp::DeviceBox::new(gpu(), &1)?;
    for len in [1, 255, MAPPED + 7] {
        let many = DeviceVec::from_slice(gpu(), &numbers(len))?;
        let mut out = DeviceVec::from_slice(gpu(), &vec![9; len + 3])?;
        out.truncate(len);
        add(gpu(), &one, &many, &mut out)?;
        let expected: Vec<u32> = numbers(len).iter().map(|word| word.wrapping_add(1)).collect();
        assert!(out.to_vec()? == expected);
        // SAFETY: these elements were written before they were removed.
        unsafe { out.set_len(len + 3) };
        assert_eq!(out.slice(len..).to_vec()?, [9; 3]);
    }
    Ok(())
}

#[test]
fn spare_memory_is_written_before_it_becomes_elements() -> GpuResult<()> {
    let mut vec = DeviceVec::with_capacity(gpu(), 300)?;
    vec.copy_from_host(&numbers(100))?;
    fill(gpu(), &mut vec.spare_capacity_mut().slice_mut(..57), 5)?;
    // SAFETY: the kernel has written the 57 elements after the 100.
    unsafe { vec.set_len(157) };
    assert_eq!(vec.to_vec()?, [numbers(100), vec![5; 57]].concat());
    assert_eq!(vec.spare_capacity_mut().len(), vec.capacity() - 157);
    Ok(())
}

#[test]
fn a_buffer_and_a_vector_are_made_of_each_other() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    let mut vec = DeviceVec::from(DeviceBuffer::from_slice_in(&pool, gpu(), &[1, 2, 3])?);
    assert_eq!(vec.capacity(), 3);
    vec.extend_from_slice(&numbers(100_000))?;
    // It grows from the pool, and gives back there.
    assert_eq!((pool.statistics().misses, pool.statistics().returns), (2, 1));
    let mut other = DeviceVec::from_slice(gpu(), &numbers(5))?;
    std::mem::swap(&mut *vec, &mut *other);
    assert_eq!((vec.to_vec()?, other.len()), (numbers(5), 100_003));
    assert!(vec.capacity() < 100 && other.capacity() >= 100_003);
    let buffer: DeviceBuffer<u32> = other.into();
    assert_eq!(buffer.to_vec()?[..5], [1, 2, 3, 0, numbers(2)[1]]);
    drop(buffer);
    assert_eq!(pool.statistics().returns, 2);
    Ok(())
}

#[test]
fn what_a_resource_refuses_leaves_the_vector_as_it_was() -> GpuResult<()> {
    let memory = LimitAdaptor::new(MemoryPool::new(gpu()), 4096);
    let mut vec = DeviceVec::from(DeviceBuffer::from_slice_in(&memory, gpu(), &numbers(300))?);
    for _ in 0..2 {
        let error = vec.extend_from_slice(&numbers(600)).unwrap_err();
        assert!(matches!(error.root(), GpuError::OutOfMemory { .. }), "{error}");
        assert_eq!((vec.capacity(), vec.to_vec()?), (300, numbers(300)));
    }
    // Not twice as much, but what is needed.
    let mut vec = DeviceVec::from(vec.try_clone()?);
    vec.extend_from_slice(&numbers(1))?;
    assert!(vec.capacity() >= 600);
    Ok(())
}

#[test]
fn more_than_can_be_addressed_is_out_of_memory() -> GpuResult<()> {
    for len in [3, MAPPED] {
        let mut vec = DeviceVec::from_slice(gpu(), &numbers(len))?;
        let capacity = vec.capacity();
        for additional in [usize::MAX, usize::MAX / 4, isize::MAX as usize / 4 - len] {
            let error = vec.reserve(additional).unwrap_err();
            assert!(matches!(error.root(), GpuError::OutOfMemory { .. }), "{error}");
        }
        assert_eq!((vec.capacity(), vec.to_vec()?), (capacity, numbers(len)));
        assert!(DeviceVec::<u32>::with_capacity(gpu(), usize::MAX).is_err());
    }
    Ok(())
}

#[test]
fn a_type_of_no_size_needs_no_memory() -> GpuResult<()> {
    let (result, calls) = injection::watch(|| {
        let mut units = DeviceVec::from_slice(gpu(), &[(), ()])?;
        units.extend_from_slice(&[(); 3])?;
        units.resize_zeroed(9)?;
        assert_eq!((units.len(), units.capacity()), (9, usize::MAX));
        let mut none = DeviceVec::<u32>::with_capacity(gpu(), 0)?;
        none.extend_from_slice(&[])?;
        none.copy_from_host(&[])?;
        assert_eq!((none.capacity(), units.to_vec()?), (0, vec![(); 9]));
        Ok::<_, GpuError>(())
    });
    assert!(calls.is_empty(), "{calls:?}");
    result
}

#[test]
fn a_graph_grows_nothing() -> GpuResult<()> {
    let mut vec = DeviceVec::from_slice(gpu(), &numbers(4))?;
    for len in [4, MAPPED] {
        vec.resize_zeroed(len)?;
        let (capacity, mut refused) = (vec.capacity(), None);
        gpu().stream().capture(|_| {
            refused = Some(vec.reserve(capacity));
            Ok(())
        })?;
        let error = refused.expect("it was tried").unwrap_err();
        assert!(matches!(error.root(), GpuError::Graph(_)), "{error}");
        assert_eq!((vec.capacity(), vec.to_vec()?[1]), (capacity, numbers(2)[1]));
    }
    Ok(())
}

#[test]
fn a_graph_follows_a_vector_that_moves() -> GpuResult<()> {
    let (stream, mut vec) = (gpu().create_stream()?, DeviceVec::from_slice(gpu(), &[1; 100])?);
    let builder = stream.capture(|stream| fill(stream, &mut vec, 7))?;
    let mut graph = builder.build(vec)?;
    graph.launch(&stream)?;
    for more in [1000, MAPPED, 2 * MAPPED] {
        let vec = graph.buffers_mut();
        vec.reserve(more)?;
        assert_eq!(vec.to_vec()?, [7; 100]);
        vec.as_mut_slice().clear()?;
        graph.launch(&stream)?;
        assert_eq!(graph.wait()?.to_vec()?, [7; 100]);
    }
    graph.buffers_mut().truncate(99);
    let error = graph.launch(&stream).unwrap_err();
    assert!(matches!(error.root(), GpuError::Graph(_)), "{error}");
    Ok(())
}

#[test]
fn another_device_reads_all_of_it_after_it_has_grown() -> GpuResult<()> {
    let access = gpu().enable_peer_access(gpu())?;
    let mut vec = DeviceVec::from_slice(gpu(), &numbers(MAPPED))?;
    let zero = ferrowarp::DeviceBox::new(gpu(), &0)?;
    for _ in 0..2 {
        let mut out = DeviceBuffer::zeroed(gpu(), vec.len())?;
        add(gpu(), &zero, &vec.peer_slice(&access)?, &mut out)?;
        assert!(out.to_vec()? == vec.to_vec()?);
        vec.extend_from_slice(&numbers(2 * MAPPED))?;
    }
    Ok(())
}

/// Runs an ignored test of this file on an emulator of its own.
#[track_caller]
fn on_an_emulator(name: &str, variables: &[(&str, &str)]) {
    let variables = [&[("FERROWARP_DEVICE", "emulator")][..], variables].concat();
    lines(&child(&format!("device_vec::{name}"), &variables), "");
}

#[test]
fn where_nothing_can_be_mapped_it_grows_by_copies() {
    let refused = "cuMemAddressReserve:801";
    on_an_emulator("by_copies", &[("FERROWARP_EMULATOR_FAIL", refused)]);
    // No addresses are left.
    on_an_emulator("by_copies", &[("FERROWARP_EMULATOR_FAIL", "cuMemAddressReserve:2")]);
    on_an_emulator(
        "by_copies",
        &[("FERROWARP_EMULATOR_FAIL", "cuMemGetAllocationGranularity:801")],
    );
    // Nor is there memory in the order of streams.
    let neither = format!("{refused},cuMemPoolCreate:801");
    on_an_emulator("by_copies", &[("FERROWARP_EMULATOR_FAIL", neither.as_str())]);
}

#[test]
#[ignore = "run in processes of its own by the test above"]
fn by_copies() {
    it_is_a_vec().unwrap();
    let stream = gpu().create_stream().unwrap();
    let mut vec = DeviceVec::from_slice(&stream, &numbers(MAPPED)).unwrap();
    assert_eq!(vec.capacity(), MAPPED);
    gpu().synchronize().unwrap();
    let live = injection::live();
    for _ in 0..3 {
        let (address, len) = (vec.as_device_ptr().address(), vec.len());
        let before = vec.to_vec().unwrap();
        churn(gpu(), &mut vec.slice_mut(..100), 5000).unwrap();
        vec.resize_zeroed(2 * len).unwrap();
        assert_ne!(vec.as_device_ptr().address(), address);
        let after = vec.to_vec().unwrap();
        assert!(
            after[..100]
                .iter()
                .zip(&before)
                .all(|(after, before)| *after == churned(*before, 5000))
        );
        assert!(after[100..len] == before[100..] && after[len..].iter().all(|word| *word == 0));
    }
    gpu().synchronize().unwrap();
    assert_eq!(injection::live().allocations, live.allocations, "old memory stays");
}

#[test]
fn until_there_is_no_more_memory() {
    on_an_emulator("fill_the_device", &[("FERROWARP_EMULATOR_MEMORY", "64M")]);
    let copies = ("FERROWARP_EMULATOR_FAIL", "cuMemAddressReserve:801");
    on_an_emulator("fill_the_device", &[("FERROWARP_EMULATOR_MEMORY", "64M"), copies]);
}

#[test]
#[ignore = "run in processes of its own by the test above"]
fn fill_the_device() {
    const MIB: usize = 1 << 20;
    let in_place =
        cfg!(target_os = "linux") && std::env::var_os("FERROWARP_EMULATOR_FAIL").is_none();
    let bytes = vec![5u8; 20 * MIB];
    let mut vec = DeviceVec::from_slice(gpu(), &bytes).unwrap();
    let other =
        DeviceBuffer::<u8>::zeroed(gpu(), if in_place { 30 * MIB } else { 10 * MIB }).unwrap();
    let (free, _) = gpu().memory_info().unwrap();
    // More than there is memory, though not more than there are addresses; then more than that.
    for additional in [40 * MIB, 64 * MIB, 1 << 40] {
        let error = vec.reserve(additional).unwrap_err();
        assert!(matches!(error.root(), GpuError::OutOfMemory { .. }), "{error}");
        assert_eq!((vec.len(), vec.capacity()), (20 * MIB, 20 * MIB));
        assert_eq!(gpu().memory_info().unwrap().0, free, "something stays");
    }
    // Twice as much is not there; what is needed is.
    vec.reserve(9 * MIB).unwrap();
    assert!(vec.capacity() >= 29 * MIB && vec.capacity() <= 34 * MIB, "{vec:?}");
    drop(other);
    assert!(vec.to_vec().unwrap() == bytes);
    if in_place {
        // To the last byte, with its own memory alone: no copy has to fit beside it.
        vec.resize_zeroed(64 * MIB - 2 * MIB).unwrap();
        assert!(vec.slice(..20 * MIB).to_vec().unwrap() == bytes);
    }
    drop(vec);
    gpu().memory_info().unwrap();
    DeviceBuffer::<u8>::zeroed(gpu(), 60 * MIB).unwrap();
}
