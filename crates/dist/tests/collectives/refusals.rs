//! Calls that are refused: by one rank, which ends the communicator on all, and by all ranks, which ends nothing.

use std::time::{Duration, Instant};

use ferrowarp::{DeviceBuffer, Gpu};
use ferrowarp_dist::{Communicator, DistError, DistResult, Reduction, World};

/// What those that wait for the rank are patient for, at most: less than any deadline.
const SOON: Duration = Duration::from_secs(20);

/// The rank `wrong` gives an argument that does not fit, all others make the call, and name it. A new communicator works.
pub fn check(world: &World, call: &str, wrong: u32) -> DistResult<()> {
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    ranks.set_deadline(Duration::from_secs(100));
    let start = Instant::now();
    // A rank may still be in the barrier when others have ended the communicator.
    let error = ranks.barrier(&gpu).and_then(|()| make(&ranks, &gpu, call, wrong)).unwrap_err();
    println!("rank {}: after {} ms: {error}", ranks.rank(), start.elapsed().as_millis());
    if ranks.rank() == wrong {
        let is_own = matches!(error, DistError::Length { .. } | DistError::NoSuchRank { .. });
        assert!(is_own, "{error}");
    } else {
        names(&error, wrong);
    }
    // With one rank there is none that has made the call, unless a call without a number ends it anyway.
    if ranks.size() > 1 || call == "send" {
        while ranks.check().is_ok() && start.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut values = DeviceBuffer::from_slice(&gpu, &[1u32; 10])?;
        names(&ranks.all_reduce_in_place(&gpu, &mut values, Reduction::Sum).unwrap_err(), wrong);
    } else {
        sum(&ranks, &gpu)?;
    }
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    drop(ranks);
    sum(&Communicator::new(world, &gpu)?, &gpu)
}

#[track_caller]
fn names(error: &DistError, wrong: u32) {
    let DistError::CallRefused { rank, reason } = error else { panic!("{error}") };
    assert_eq!(*rank, wrong);
    assert!(reason.contains("must have 10") || reason.contains("there is no rank"), "{reason}");
}

/// The call, and the wait for it.
fn make(ranks: &Communicator, gpu: &Gpu, call: &str, wrong: u32) -> DistResult<()> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let is_wrong = rank == wrong;
    let values = DeviceBuffer::from_slice(gpu, &[rank; 10])?;
    let mut out = DeviceBuffer::from_slice(gpu, &vec![7u32; if is_wrong { 9 } else { 10 }])?;
    match call {
        "length" => ranks.all_reduce(gpu, &values, &mut out, Reduction::Max)?,
        "root" => {
            let mut values = values.try_clone()?;
            ranks.broadcast(gpu, &mut values, if is_wrong { size } else { 0 })?;
        }
        "send" => {
            let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
            let to = if is_wrong { size } else { right };
            ranks.group().send(&values, to)?.receive(&mut out, left)?.enqueue(gpu)?;
        }
        other => panic!("there is no test of `{other}`"),
    }
    assert!(!is_wrong, "it was to be refused");
    // Over NCCL the call itself has only been enqueued.
    ranks.synchronize(gpu)?;
    // The rank's right-hand neighbours alone wait for what it was to send.
    loop {
        ranks.check()?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All ranks refuse calls between others that they make, each at its own pace: all of these are right.
pub fn by_all(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let ten = DeviceBuffer::from_slice(gpu, &[1u32; 10])?;
    let mut nine = DeviceBuffer::from_slice(gpu, &[2u32; 9])?;
    for round in 0..10 {
        if round % ranks.size() == ranks.rank() {
            std::thread::sleep(Duration::from_millis(2));
        }
        for _ in 0..3 {
            let error = ranks.all_reduce(gpu, &ten, &mut nine, Reduction::Sum).unwrap_err();
            assert!(matches!(error, DistError::Length { expected: 10, found: 9, .. }), "{error}");
        }
        sum(ranks, gpu)?;
    }
    // What only some ranks would take part in ends the communicator.
    let other = Communicator::new(ranks.world(), gpu)?;
    let error = other.send(gpu, &ten, ranks.size()).unwrap_err();
    assert!(
        matches!(error, DistError::NoSuchRank { .. } | DistError::CallRefused { .. }),
        "{error}"
    );
    assert!(matches!(other.check(), Err(DistError::CallRefused { .. })));
    Ok(())
}

fn sum(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let mut ones = DeviceBuffer::from_slice(gpu, &[1u32; 10])?;
    ranks.all_reduce_in_place(gpu, &mut ones, Reduction::Sum)?;
    ranks.synchronize(gpu)?;
    assert_eq!(ones.to_vec()?, [ranks.size(); 10]);
    Ok(())
}
