//! Copies as futures.

use std::pin::pin;
use std::task::{Context, Waker};

use ferrowarp::completion::block_on;
use ferrowarp::{DeviceBuffer, GpuError, GpuResult};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{WILD, churn, churned, fill, gpu, launch};

const LEN: usize = 10_000;

#[test]
fn vectors_go_to_the_device_and_come_back() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    for len in [0, 1, 255, LEN, 3_000_000] {
        let values: Vec<u32> = (0..len as u32).collect();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, len)?;
        let back = block_on(async {
            let back = buffer.copy_from_vec(values.clone()).await?;
            assert_eq!(buffer.to_vec_async().await?, values);
            GpuResult::Ok(back)
        })?;
        assert!(back == values && buffer.to_vec()? == values);
    }
    Ok(())
}

#[test]
fn types_of_no_size_and_of_many_bytes_are_copied() -> GpuResult<()> {
    let units = DeviceBuffer::<()>::zeroed(gpu(), 7)?;
    assert_eq!(pollster::block_on(units.to_vec_async())?.len(), 7);
    let mut wide = DeviceBuffer::<[u64; 32]>::zeroed(gpu(), 3)?;
    let values: Vec<_> = (0..3).map(|i| [i; 32]).collect();
    drop(wide.copy_from_vec(values.clone()));
    assert_eq!(wide.to_vec()?, values);
    Ok(())
}

/// Makes what copies keep, so that none allocates behind a closed gate.
fn warm(buffer: &mut DeviceBuffer<u32>) -> GpuResult<()> {
    churn(gpu(), &mut DeviceBuffer::<u32>::zeroed(gpu(), 1)?, 1)?;
    let copies: Vec<_> = (0..4).map(|_| buffer.to_vec_async()).collect();
    copies.into_iter().try_for_each(|copy| block_on(copy).map(drop))
}

/// A future says what the buffer held when it was made, whatever happens to the buffer afterwards.
#[test]
fn what_is_queued_later_does_not_change_a_copy() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut buffer = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    warm(&mut buffer)?;
    let gate = Gate::on(&stream);
    churn(&stream, &mut buffer, 1000)?;
    let copied = buffer.to_vec_async();
    fill(&stream, &mut buffer, 9)?;
    let mut copied = pin!(copied);
    let mut task = Context::from_waker(Waker::noop());
    assert!(copied.as_mut().poll(&mut task).is_pending());
    gate.open();
    drop(buffer);
    assert_eq!(block_on(copied)?, [churned(3, 1000); LEN]);
    Ok(())
}

/// Many copies are given up half way; what their memory is used for next is not disturbed.
#[test]
fn copies_may_be_dropped_at_any_time() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut buffer = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    warm(&mut buffer)?;
    for round in 0..20 {
        let gate = Gate::on(&stream);
        drop(buffer.to_vec_async());
        drop(buffer.copy_from_vec(vec![round; LEN]));
        let last = buffer.to_vec_async();
        drop(buffer.to_vec_async());
        gate.open();
        assert_eq!(block_on(last)?, [round; LEN]);
    }
    Ok(())
}

#[test]
fn a_vector_of_another_length_is_an_error() -> GpuResult<()> {
    let mut buffer = DeviceBuffer::from_slice(gpu(), &[3u32; 4])?;
    let error = block_on(buffer.copy_from_vec(vec![1; 5])).unwrap_err();
    assert!(
        matches!(error.root(), GpuError::SizeMismatch { expected: 4, found: 5, .. }),
        "{error}"
    );
    assert_eq!(buffer.to_vec()?, [3; 4]);
    Ok(())
}

#[test]
fn a_fault_is_the_error_of_the_copies_behind_it() {
    let told = lines(&child("futures::fault_before_copies", &[]), "lost: ");
    assert_eq!(told, ["700", "700", "700"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fault_before_copies() {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), 4).unwrap();
    launch(gpu(), &WILD, ferrowarp::Linear::new(3, 1), &mut words, 1).unwrap();
    let (down, up) = (words.to_vec_async(), words.copy_from_vec(vec![1; 4]));
    let code = |error: GpuError| match error.root() {
        GpuError::DeviceLost { cause } => cause.driver().expect("a driver error").code(),
        other => panic!("{other}"),
    };
    println!("lost: {}", code(block_on(down).unwrap_err()));
    println!("lost: {}", code(block_on(up).unwrap_err()));
    println!("lost: {}", code(block_on(words.to_vec_async()).unwrap_err()));
}
