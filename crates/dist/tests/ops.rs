//! Every operation over ranks against plain loops, as real processes, started as those of `collectives`.
//!
//! The seed of the data is printed where a result is wrong; `FERROWARP_SEED` takes it again.

#[path = "collectives/launcher.rs"]
mod launcher;
#[path = "collectives/program.rs"]
mod program;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use ferrowarp::ops::Scratch;
use ferrowarp::{DeviceBuffer, Gpu};
use ferrowarp_dist::ops::{self, Shares, scan, sort, transpose};
use ferrowarp_dist::{Communicator, DistError, DistResult, World};

fn main() -> ExitCode {
    program::main("ops", check_all)
}

fn check_all(world: &World) -> DistResult<()> {
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    // Rank 0's seed is that of all.
    let seed = ranks.all_gather_host(&gpu, &[seed()])?[0];
    let checked = ops::self_test(&ranks, seed, &mut |line| eprintln!("{line}"))?;
    assert!(checked.len() >= 10, "{} operations", checked.len());
    assert!(checked.iter().all(|row| row.wrong == 0), "{world}: wrong results, seed {seed}");
    lengths_are_checked(&ranks, &gpu)?;
    ranks.barrier(&gpu)?;
    if world.rank() == 0 {
        let (count, size) = (checked.len(), world.size());
        println!("{count} operations are right, ranks: {size}, over {}", ranks.backend());
    }
    Ok(())
}

fn seed() -> u64 {
    let given = std::env::var("FERROWARP_SEED").ok();
    let now =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_micros() as u64);
    given.map_or_else(now, |seed| seed.parse().expect("FERROWARP_SEED is a number"))
}

/// A length that does not fit is an error on this rank, and nothing is enqueued.
fn lengths_are_checked(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let ten = DeviceBuffer::from_slice(gpu, &[1u32; 10])?;
    let mut scratch = Scratch::new(gpu)?;
    let each = |len| Shares::given(vec![len; ranks.size() as usize]);
    let refused = |error: Option<DistError>, says: &str| {
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(says), "{says}: {text}");
    };
    let too_few = scan::inclusive(ranks, gpu, &ten, &each(9), &mut scratch).err();
    refused(too_few, "the share of this rank has 10 elements, and must have 9");
    let shares = Shares::given(vec![10; ranks.size() as usize + 1]);
    let no_rank = scan::inclusive(ranks, gpu, &ten, &shares, &mut scratch).err();
    refused(no_rank, "the list of shares");
    let pairs = (&ten, &ten.slice(1..));
    let pairs = sort::sort_pairs(ranks, gpu, pairs, sort::Options::ASCENDING, &mut scratch).err();
    refused(pairs, "the values of this rank has 9 elements, and must have 10");
    let odd = transpose::transpose(ranks, gpu, &ten, &each(3), &each(1)).err();
    refused(odd, "the rows of this rank has 10 elements");
    Ok(())
}
