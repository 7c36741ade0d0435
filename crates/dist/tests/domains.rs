//! Operations on data that is distributed in slabs and rows, against plain loops on the CPU and against one device.
//!
//! Without a launcher it runs as one rank alone, and then starts itself as ranks, as the test `collectives` does. All ranks make
//! their data from one seed, which a failure names; `FERROWARP_SEED` sets it.

#[path = "collectives/launcher.rs"]
mod launcher;
#[path = "domains/particles.rs"]
mod particles;
#[path = "collectives/program.rs"]
mod program;
#[path = "domains/samples.rs"]
mod samples;
#[path = "domains/sparse.rs"]
mod sparse;
#[path = "domains/stencils.rs"]
mod stencils;

use std::process::ExitCode;
use std::time::Duration;

use ferrowarp_dist::{Communicator, DistResult, World};
use samples::Samples;

fn main() -> ExitCode {
    program::main("domains", check_all)
}

/// The seed that rank 0 has chosen.
fn seed_of(world: &World) -> DistResult<u64> {
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    let given = std::env::var("FERROWARP_SEED").ok().and_then(|seed| seed.parse().ok());
    let own = given.unwrap_or_else(now).to_le_bytes().to_vec();
    let all = world.exchange_bytes(own, Duration::from_secs(120))?;
    Ok(u64::from_le_bytes(all[0].clone().try_into().expect("rank 0 sends 8 bytes")))
}

fn check_all(world: &World) -> DistResult<()> {
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    let seed = seed_of(world)?;
    let mut checked = 0;
    checked += stencils::check(&ranks, &mut Samples::new(seed))?;
    checked += particles::check(&ranks, &mut Samples::new(seed))?;
    checked += sparse::check(&ranks, &mut Samples::new(seed))?;
    ranks.barrier(&gpu)?;
    if world.rank() == 0 {
        println!("{checked} distributed operations are right, ranks: {}", world.size());
    }
    Ok(())
}
