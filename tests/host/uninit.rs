//! Memory that is not written yet, bytes of a pool, and boxes of arrays.

use cuda_std::Aligned;
use ferrowarp::completion::block_on;
use ferrowarp::memory::resource::{FailureAdaptor, MemoryPool, StreamRef, SynchronousMemory};
use ferrowarp::{DeviceBox, DeviceBuffer, GpuError, GpuResult, PooledBuffer, UninitBuffer};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

const SIZES: [usize; 10] = [0, 1, 31, 32, 33, 255, 256, 257, 1009, 65_537];

fn of_all_sources(len: usize) -> GpuResult<[UninitBuffer<u32>; 3]> {
    let pool = MemoryPool::new(gpu());
    Ok([
        UninitBuffer::new(gpu(), len)?,
        UninitBuffer::new_async(gpu(), len)?,
        UninitBuffer::new_in(&pool, gpu(), len)?,
    ])
}

#[test]
fn each_proof_makes_a_buffer_of_what_was_written() -> GpuResult<()> {
    for len in SIZES {
        let values: Vec<u32> = (0..len as u32).map(|i| i ^ 0x5555).collect();
        let source = DeviceBuffer::from_slice(gpu(), &values)?;
        for memory in of_all_sources(len)? {
            assert_eq!(
                (memory.len(), memory.size_bytes(), memory.is_empty()),
                (len, 4 * len, len == 0)
            );
            let address = memory.as_device_ptr().address();
            let buffer = memory.copy_from_host(&values)?;
            assert_eq!(
                (buffer.as_device_ptr().address(), buffer.to_vec()?),
                (address, values.clone())
            );
        }
        for memory in of_all_sources(len)? {
            assert_eq!(memory.copy_from_device(&source)?.to_vec()?, values);
        }
        for memory in of_all_sources(len)? {
            assert_eq!(memory.clear()?.to_vec()?, vec![0; len]);
        }
        for memory in of_all_sources(len)? {
            assert_eq!(memory.fill(9)?.to_vec()?, vec![9; len]);
        }
        for mut memory in of_all_sources(len)? {
            fill(gpu(), &mut memory, 7)?;
            // SAFETY: the kernel has written all elements.
            assert_eq!(unsafe { memory.assume_init() }.to_vec()?, vec![7; len]);
        }
    }
    Ok(())
}

#[test]
fn a_copy_of_another_length_proves_nothing() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    for len in [2, 4] {
        let error =
            UninitBuffer::new_in(&pool, gpu(), 3)?.copy_from_host(&vec![1; len]).unwrap_err();
        let GpuError::SizeMismatch { expected, found, .. } = error else { panic!("{error}") };
        assert_eq!((expected, found), (3, len));
    }
    let short = DeviceBuffer::from_slice(gpu(), &[1u32])?;
    assert!(UninitBuffer::<u32>::new_in(&pool, gpu(), 3)?.copy_from_device(&short).is_err());
    assert!(UninitBuffer::<u8>::new_in(&pool, gpu(), 3)?.into_cast::<u16>().is_err());
    let counts = pool.statistics();
    assert_eq!((counts.returns, counts.current_bytes), (4, 0));
    Ok(())
}

#[test]
fn parts_are_written_one_by_one() -> GpuResult<()> {
    let one = DeviceBox::new(gpu(), &1)?;
    let mut memory = UninitBuffer::new(gpu(), 300)?;
    let (low, mut high) = memory.as_uninit_slice().split_at_mut(100);
    let low = low.copy_from_host(&[5; 100])?;
    fill(gpu(), &mut high.slice_mut(..150), 6)?;
    high.slice_mut(150..).fill(8)?;
    assert_eq!((high.len(), low.to_vec()?), (200, vec![5; 100]));
    // SAFETY: the kernel has written 150 elements, and the fill the other 50.
    let high = unsafe { high.assume_init() };
    let mut sums = UninitBuffer::new(gpu(), 200)?;
    add(gpu(), &one, &high, &mut sums)?;
    // SAFETY: the kernel has written all elements, and the copies and kernels above those of `memory`.
    let (sums, memory) = unsafe { (sums.assume_init(), memory.assume_init()) };
    assert_eq!(sums.to_vec()?, [[7; 150].as_slice(), &[9; 50]].concat());
    assert_eq!(memory.to_vec()?, [[5; 100].as_slice(), &[6; 150], &[8; 50]].concat());
    Ok(())
}

#[test]
fn it_may_be_dropped_while_a_kernel_writes_it() -> GpuResult<()> {
    let (home, other) = (gpu().create_stream()?, gpu().create_stream()?);
    for _ in 0..3 {
        let mut memory = UninitBuffer::new_async(&home, 1000)?;
        let gate = Gate::on(&other);
        fill(&other, &mut memory, 1)?;
        drop(memory);
        // Most likely the same memory, in the order of the same stream.
        let next = UninitBuffer::new_async(&home, 1000)?.fill(2)?;
        gate.open();
        assert_eq!(next.to_vec()?, [2; 1000]);
    }
    Ok(())
}

#[test]
fn the_emulator_finds_a_kernel_that_reads_what_was_not_written() {
    let variables = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "init")];
    let output = child("uninit::read_before_the_write", &variables);
    let said = lines(&output, "error: ");
    assert!(said.len() == 1 && said[0].contains("uninitialised"), "{said:?}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn read_before_the_write() {
    let mut memory = UninitBuffer::new(gpu(), 100).unwrap();
    fill(gpu(), &mut memory.as_uninit_slice().slice_mut(..99), 3).unwrap();
    churn(gpu(), &mut memory.as_uninit_slice().slice_mut(..99), 3).unwrap();
    gpu().synchronize().unwrap();
    churn(gpu(), &mut memory, 3).unwrap();
    println!("error: {}", gpu().synchronize().unwrap_err());
}

#[test]
fn bytes_of_a_pool_have_views_and_go_back() -> GpuResult<()> {
    let (stream, pool) = (gpu().create_stream()?, MemoryPool::new(gpu()));
    let mut returns = 0;
    for len in SIZES {
        let mut bytes = pool.acquire(&stream, len)?;
        assert_eq!(
            (bytes.len_bytes(), bytes.stream().as_raw()),
            (len, StreamRef::of(&stream).as_raw())
        );
        assert!(bytes.as_device_ptr().is_aligned_to(256));
        assert_eq!(bytes.view::<u8>()?.fill(len as u8)?.to_vec()?, vec![len as u8; len]);
        match bytes.view::<u32>() {
            Ok(words) => assert_eq!((words.len(), len % 4), (len / 4, 0)),
            Err(error) => {
                assert!(len % 4 != 0 && matches!(error, GpuError::InvalidCast { .. }), "{error}");
            }
        }
        drop(bytes);
        returns += u64::from(len > 0);
        assert_eq!(pool.statistics().returns, returns);
    }
    let mut words = pool.acquire(&stream, 4000)?.into_uninit::<u32>()?;
    fill(gpu(), &mut words, 4)?;
    // SAFETY: the kernel has written all elements.
    let words = unsafe { words.assume_init() };
    assert_eq!((words.to_vec()?, pool.statistics().returns), (vec![4; 1000], returns));
    drop(words);
    assert_eq!(pool.statistics().returns, returns + 1);
    assert!(pool.acquire(&stream, 10)?.into_uninit::<u64>().is_err());
    assert_eq!((pool.statistics().returns, pool.statistics().current_bytes), (returns + 2, 0));
    Ok(())
}

#[test]
fn bytes_of_a_pool_may_be_dropped_while_a_kernel_uses_their_view() -> GpuResult<()> {
    let (home, other) = (gpu().create_stream()?, gpu().create_stream()?);
    let pool = MemoryPool::new(gpu());
    for round in 0..3 {
        let mut bytes = pool.acquire(&home, 4000)?;
        let gate = Gate::on(&other);
        fill(&other, &mut bytes.view::<u32>()?, 1)?;
        drop(bytes);
        let mut next = pool.acquire(&home, 4000)?;
        let next = next.view::<u32>()?.fill(round)?;
        gate.open();
        assert_eq!(next.to_vec()?, [round; 1000]);
    }
    assert_eq!(pool.statistics().misses, 1);
    Ok(())
}

#[test]
fn any_resource_gives_bytes_and_refuses_them() -> GpuResult<()> {
    let plain = PooledBuffer::acquire(&SynchronousMemory.into(), gpu(), 100)?;
    assert!(plain.as_device_ptr().is_aligned_to(256));
    let failing = FailureAdaptor::new(SynchronousMemory.into());
    failing.fail_after(0);
    let error = PooledBuffer::acquire(&failing, gpu(), 100).unwrap_err();
    assert!(matches!(error.root(), GpuError::OutOfMemory { .. }), "{error}");
    Ok(())
}

#[test]
fn boxes_hold_arrays_of_all_sources() -> GpuResult<()> {
    let (stream, pool) = (gpu().create_stream()?, MemoryPool::new(gpu()));
    let value: [u32; 32] = std::array::from_fn(|i| i as u32 * 3);
    let boxes = [
        DeviceBox::new(&stream, &value)?,
        DeviceBox::new_async(&stream, &value)?,
        DeviceBox::new_in(&pool, &stream, &value)?,
    ];
    for mut own in boxes {
        assert_eq!(own.get()?, value);
        own.set(&[1; 32])?;
        assert_eq!(own.get()?, [1; 32]);
        assert!(own.as_device_ptr().is_aligned_to(256));
    }
    let zeros =
        [DeviceBox::<[u32; 7]>::zeroed_async(&stream)?, DeviceBox::zeroed_in(&pool, &stream)?];
    assert!(zeros.iter().all(|own| own.get().is_ok_and(|value| value == [0; 7])));
    drop(zeros);
    assert_eq!(pool.statistics().returns, 2);
    DeviceBox::new_async(&stream, &[0u32; 0])?.get()?;
    Ok(())
}

#[test]
fn a_box_is_made_and_dropped_without_a_wait() -> GpuResult<()> {
    let (stream, other) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut sums = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let many = DeviceBuffer::from_slice(&stream, &[5; 10])?;
    add(&stream, &DeviceBox::new_async(&stream, &1)?, &many, &mut sums)?;
    // Page-locked memory for the next value is there then; to get more may wait for the device.
    block_on(stream.completed())?;
    let gate = Gate::on(&stream);
    let mut one = 7;
    let own = DeviceBox::new_async(&stream, &one)?;
    one += 1; // The value was copied.
    add(&other, &own, &many, &mut sums)?;
    drop(own);
    assert!(!stream.is_idle()?, "something has waited");
    gate.open();
    assert_eq!((sums.to_vec()?, one), (vec![12; 10], 8));
    for len in SIZES {
        let values: Vec<u32> = (0..len as u32).collect();
        assert_eq!(DeviceBuffer::from_slice_async(&stream, &values)?.to_vec()?, values);
    }
    Ok(())
}

#[test]
fn aligned_elements_lie_at_multiples_of_256() -> GpuResult<()> {
    let rows: Vec<Aligned<[u32; 48], 256>> = (0..33).map(|i| Aligned::new([i; 48])).collect();
    let buffer = DeviceBuffer::from_slice(gpu(), &rows)?;
    for i in 0..33 {
        let first = buffer.slice(i..).as_device_ptr();
        assert!(first.is_aligned_to(256) && !first.is_aligned_to(1 << 40));
    }
    // A kernel sees 64 words for each: the row, and zeros.
    let mut words = DeviceBuffer::zeroed(gpu(), 33 * 64)?;
    words.copy_from_device(buffer.as_slice().cast::<u32>()?)?;
    churn(gpu(), &mut words, 1)?;
    let expected = (0..33 * 64).map(|i| churned(if i % 64 < 48 { i / 64 } else { 0 }, 1));
    assert_eq!(words.to_vec()?, expected.collect::<Vec<_>>());
    Ok(())
}
