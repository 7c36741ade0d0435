//! The integral of 4 / (1 + x²) from 0 to 1, which is π, by as many ranks as a launcher starts. Each rank computes with
//! its own share on its own GPU, an all-reduce adds the shares up, and rank 0 prints the result.
//!
//! The scripts beside this file start it under mpirun, torchrun, Slurm, Kubernetes and Ray. To try it here, with no GPU:
//!
//! ```text
//! cargo build -p examples --features mpi --example dist
//! examples/dist/mpirun.sh target/debug/examples/dist
//! ```

use std::process::ExitCode;

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig, ops};
use ferrowarp_dist::{Communicator, DistError, DistResult, Reduction, World};
use kernels::strips;

/// The points of all ranks together.
const POINTS: usize = 1 << 20;

fn main() -> ExitCode {
    // Which rank this is, of how many: by the variables of the launcher. The ranks meet here.
    let world = match World::from_env() {
        Ok(world) => world,
        Err(error) => return failed("a process without a rank", &error),
    };
    // A log holds the lines of all ranks, so each line of an error begins with its rank.
    let name = world.to_string();
    match integrate(world) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&name, &error),
    }
}

fn integrate(world: World) -> DistResult<()> {
    // The device of this rank, and the communicator: over NCCL on real devices, over MPI on emulated ones.
    let gpu = Gpu::on_with_images(world.device()?, ferrowarp::include_kernels!())?;
    let ranks = Communicator::new(&world, &gpu)?;
    let (rank, size) = (ranks.rank() as usize, ranks.size() as usize);

    // The share of this rank. Shares differ by at most one point, whatever the number of ranks is.
    let (first, end) = (POINTS * rank / size, POINTS * (rank + 1) / size);
    let mut sum = area(&gpu, first, end)?;

    // One value of each rank becomes their sum on all ranks. It is enqueued, like a launch.
    ranks.all_reduce_in_place(&gpu, &mut sum, Reduction::Sum)?;
    // This wait returns an error if a rank dies. One for the stream alone would end as if all were well.
    ranks.synchronize(&gpu)?;

    if rank == 0 {
        let pi = sum.to_vec()?[0];
        println!(
            "{size} ranks by {}, over {}, on {}",
            world.launcher(),
            ranks.backend(),
            gpu.name()
        );
        println!("pi is {pi:.9}");
        assert!((pi - std::f64::consts::PI).abs() < 1e-6, "{pi} is not pi");
    }
    // No rank ends before all have come here: rank 0 keeps the connections by which they watch each other.
    drop(ranks);
    world.finish()
}

/// The area of the strips from `first` to `end`, in a buffer of one element: it stays on the GPU.
fn area(gpu: &Gpu, first: usize, end: usize) -> GpuResult<DeviceBuffer<f64>> {
    let mut areas = DeviceBuffer::<f64>::zeroed(gpu, end - first)?;
    strips::launch(gpu, LaunchConfig::for_num_elems(end - first), first, POINTS, &mut areas)?;
    // The shipped operations, on the same device and in one order with our own kernel.
    let with_ops = gpu.load_module(ferrowarp::shipped::IMAGES);
    let mut sum = DeviceBuffer::zeroed(gpu, 1)?;
    ops::reduce::sum_into(&with_ops, &areas, &mut sum, &mut ops::Scratch::new(gpu)?)?;
    Ok(sum)
}

fn failed(name: &str, error: &DistError) -> ExitCode {
    eprintln!("{name}: {error}");
    ExitCode::FAILURE
}
