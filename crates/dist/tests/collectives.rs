//! Every collective against what the CPU finds, as real processes.
//!
//! Without a launcher it runs as one rank alone, whose operations are copies. Then it starts itself as ranks: by `mpirun` with 1,
//! 2, 3, 4 and 7 on emulated devices, if it was built with MPI; by itself over NCCL, where there are several GPUs. Any launcher may
//! start it, too. It has a `main` of its own, since the test harness would start threads that each rank does not have alike.

#[path = "collectives/launcher.rs"]
mod launcher;
#[path = "collectives/peers.rs"]
mod peers;
#[path = "collectives/refusals.rs"]
mod refusals;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ferrowarp::{DeviceBuffer, Gpu};
use ferrowarp_dist::{Checked, Communicator, DistError, DistResult, Reduction, World, self_test};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    // What the harness is asked by tools that list tests.
    if arguments.iter().any(|argument| argument == "--list") {
        println!("collectives: test");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> DistResult<()> {
    let world = match World::from_env() {
        Err(DistError::NoLauncher) => {
            check_all(&World::alone())?;
            launcher::run_all(true);
            return Ok(());
        }
        world => world?,
    };
    match arguments {
        [how, rank, rounds] if ["lose", "leave", "lose-sender"].contains(&&**how) => {
            let gpu = world.gpu()?;
            let ranks = Communicator::new(&world, &gpu)?;
            let (lost, rounds) = (rank.parse().expect("a rank"), rounds.parse().expect("a number"));
            lose(&ranks, &gpu, lost, rounds, how)
        }
        [how, call, rank] if how == "refuse" => {
            refusals::check(&world, call, rank.parse().expect("a rank"))?;
            world.finish()
        }
        [how] if how == "stall" => {
            let gpu = world.gpu()?;
            stall(&Communicator::new(&world, &gpu)?, &gpu)
        }
        _ => {
            check_all(&world)?;
            world.finish()
        }
    }
}

fn check_all(world: &World) -> DistResult<()> {
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    let checked = self_test(&ranks)?;
    for row in checked.iter().filter(|row| row.wrong > 0) {
        let Checked { operation, elements, wrong } = row;
        eprintln!("{world}: {wrong} of {elements} elements of {operation} are wrong");
    }
    assert!(checked.len() >= 17, "{} operations", checked.len());
    assert!(checked.iter().all(|row| row.wrong == 0), "{world}: wrong results");
    lengths_are_checked(&ranks, &gpu)?;
    streams_are_in_order(&ranks, &gpu)?;
    peers::check_all(&ranks, &gpu)?;
    ranks.barrier(&gpu)?;
    an_abort_ends_it(&ranks, &gpu)?;
    if world.rank() == 0 {
        let (count, size) = (checked.len(), world.size());
        let how = if ranks.has_peer_memory() { ", with peer memory" } else { "" };
        println!("{count} operations are right, ranks: {size}, over {}{how}", ranks.backend());
    }
    Ok(())
}

/// All ranks reduce, or send large messages, without end, until one of them dies: the others return an error that names it, soon.
fn lose(ranks: &Communicator, gpu: &Gpu, lost: u32, after: u32, how: &str) -> DistResult<()> {
    let stream = gpu.create_stream()?;
    let (dies, sends) = (how != "leave", how == "lose-sender");
    // Sums go in lines, or in quads.
    let large = (16usize << 20).next_multiple_of(ranks.size() as usize);
    let len = if sends { large } else { [1 << 6, 1 << 16, 1 << 20][after as usize % 3] };
    let mut values = DeviceBuffer::from_slice(gpu, &vec![0f32; len])?;
    let mut others = DeviceBuffer::from_slice(gpu, &vec![0f32; if sends { len } else { 0 }])?;
    ranks.barrier(gpu)?;
    let mut rounds = |values: &mut DeviceBuffer<f32>, count: u32| {
        for _ in 0..count {
            match sends {
                true => ranks.all_to_all(&stream, values, &mut others)?,
                false => ranks.all_reduce_in_place(&stream, values, Reduction::Sum)?,
            }
        }
        ranks.synchronize(&stream)
    };
    if ranks.rank() == lost {
        rounds(&mut values, after)?;
        if dies {
            let own = std::process::id().to_string();
            let _ = std::process::Command::new("kill").args(["-KILL", &own]).status();
        }
        return Err(DistError::Aborted);
    }
    let start = Instant::now();
    let error = loop {
        if let Err(error) = rounds(&mut values, 50) {
            break error;
        }
    };
    println!("rank {}: after {} ms: {error}", ranks.rank(), start.elapsed().as_millis());
    assert!(matches!(error, DistError::RankLost { rank, .. } if rank == lost), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60));
    // Nothing hangs: neither a wait for the stream, nor further calls, nor what is dropped.
    stream.synchronize()?;
    let again = ranks.all_reduce_in_place(&stream, &mut values, Reduction::Sum).unwrap_err();
    assert!(matches!(again, DistError::RankLost { rank, .. } if rank == lost), "{again}");
    Ok(())
}

/// Rank 0 makes a call that the others do not make, and its deadline ends it.
fn stall(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let mut values = DeviceBuffer::from_slice(gpu, &[1f32; 1000])?;
    ranks.barrier(gpu)?;
    if ranks.rank() > 0 {
        std::thread::sleep(Duration::from_secs(8));
        return Ok(());
    }
    ranks.set_deadline(Duration::from_secs(1));
    let start = Instant::now();
    let called = ranks.all_reduce_in_place(gpu, &mut values, Reduction::Sum);
    let error = called.and_then(|()| ranks.synchronize(gpu)).unwrap_err();
    println!("rank 0: after {} ms: {error}", start.elapsed().as_millis());
    assert!(matches!(error, DistError::Deadline { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    gpu.synchronize()?;
    Ok(())
}

/// A length that does not fit is an error on this rank, and nothing is enqueued: the ranks go on.
fn lengths_are_checked(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let size = ranks.size() as usize;
    let ten = DeviceBuffer::from_slice(gpu, &[1u32; 10])?;
    let mut nine = DeviceBuffer::from_slice(gpu, &[2u32; 9])?;
    let refused = |done: DistResult<()>, says: &str| {
        let text = done.unwrap_err().to_string();
        assert!(text.contains(says), "{says}: {text}");
    };
    refused(
        ranks.all_reduce(gpu, &ten, &mut nine, Reduction::Sum),
        "has 9 elements, and must have 10",
    );
    refused(ranks.all_gather(gpu, &ten, &mut nine), "all-gather: what is received has 9");
    refused(ranks.broadcast(gpu, &mut nine, ranks.size()), "there is no rank");
    refused(ranks.reduce(gpu, &ten, None, Reduction::Sum, ranks.rank()), "has 0 elements");
    refused(ranks.all_gather_uneven(gpu, &ten, &mut nine, &vec![10; size + 1]), "list of shares");
    if size > 1 {
        let odd = DeviceBuffer::from_slice(gpu, &vec![0u32; size + 1])?;
        refused(ranks.reduce_scatter(gpu, &odd, &mut nine, Reduction::Sum), "not a multiple");
    }
    assert_eq!(nine.to_vec()?, [2; 9]);
    refusals::by_all(ranks, gpu)
}

/// Many operations on several streams, each with buffers of another: the last result needs all before.
fn streams_are_in_order(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    const ROUNDS: u64 = 20;
    let streams = [gpu.create_stream()?, gpu.create_stream()?];
    let mut values = DeviceBuffer::from_slice(gpu, &[1u64; 1000])?;
    let mut sums = DeviceBuffer::zeroed(&streams[0], 1000)?;
    for round in 0..ROUNDS {
        let stream = &streams[round as usize % 2];
        ranks.all_reduce(stream, &values, &mut sums, Reduction::Max)?;
        values.copy_from_device(&sums)?;
        let next = DeviceBuffer::from_slice(stream, &[round + 2; 1000])?;
        values.copy_from_device(&next)?; // and `next` is dropped
    }
    ranks.synchronize(&streams[1])?;
    assert_eq!(values.to_vec()?, [ROUNDS + 1; 1000]);
    assert_eq!(sums.to_vec()?, [ROUNDS; 1000]);
    Ok(())
}

/// A communicator that was aborted returns errors, and others of the world work.
fn an_abort_ends_it(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let other = Communicator::new(ranks.world(), gpu)?;
    other.set_deadline(Duration::from_secs(60));
    other.abort();
    let mut one = DeviceBuffer::from_slice(gpu, &[1u32])?;
    let error = other.all_reduce_in_place(gpu, &mut one, Reduction::Sum).unwrap_err();
    assert!(matches!(error, DistError::Aborted), "{error}");
    assert!(matches!(other.synchronize(gpu), Err(DistError::Aborted)));
    drop(other);
    ranks.all_reduce_in_place(gpu, &mut one, Reduction::Sum)?;
    assert_eq!(one.to_vec()?, [ranks.size()]);
    Ok(())
}
