//! `ferrowarp dist demo`: every collective and every operation over ranks, checked.

use std::io::Write;
use std::time::Duration;

use ferrowarp_dist::{Checked, Communicator, DistError, World, ops, self_test};

use super::super::error::CliError;
use super::super::table::{Side, Table};
use super::{count, device};

/// How long ranks wait for each other's results.
const RESULTS: Duration = Duration::from_secs(600);

/// Which random data operations get.
const SEED: u64 = 1;

/// Options of `ferrowarp dist demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mpirun -n 4 ferrowarp dist demo
  ferrowarp launch -n 2 -- ferrowarp dist demo
  torchrun --nproc-per-node 2 --no-python ferrowarp dist demo
  srun -n 8 --gpus-per-task=1 ferrowarp dist demo

On real devices the data goes by NCCL, on emulated ones by MPI, with which the program must have been built (`--features mpi`).
FERROWARP_DIST_BACKEND, which is `nccl` or `mpi`, chooses one. Rank 0 prints the table; the exit status is 1 where anything is
wrong.")]
pub(super) struct Args {
    /// Run as a world of one rank, without a launcher
    #[arg(long)]
    alone: bool,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let world = if args.alone { World::alone() } else { World::from_env()? };
    let named = |source| CliError::OfRank { rank: world.to_string(), source };
    let gpu = world.gpu().map_err(named)?;
    let ranks = Communicator::new(&world, &gpu).map_err(named)?;
    if world.rank() == 0 {
        let (ranks_here, launcher) = (count(world.size()), world.launcher());
        writeln!(
            out,
            "{ranks_here} by {launcher}, over {}, on {}\n",
            ranks.backend(),
            device(&gpu)
        )?;
        out.flush()?;
    }
    let mut own = self_test(&ranks).map_err(named)?;
    // Whatever is wrong is a row of the table; the lines say more.
    let report = &mut |line| drop(writeln!(std::io::stderr(), "{line}"));
    own.extend(ops::self_test(&ranks, SEED, report).map_err(named)?);
    let all = of_all_ranks(&world, &own).map_err(named)?;
    drop(ranks);
    world.clone().finish().map_err(named)?;
    if world.rank() == 0 {
        print(&all, out)?;
    }
    let wrong: Vec<_> = all.iter().filter(|row| row.wrong > 0).map(|row| row.operation).collect();
    if !wrong.is_empty() {
        return Err(CliError::WrongCollectives { names: wrong });
    }
    if world.rank() == 0 {
        writeln!(out, "\nAll {} are right on {}.", all.len(), count(world.size()))?;
    }
    Ok(())
}

/// The sums over all ranks of what each has found.
fn of_all_ranks(world: &World, own: &[Checked]) -> Result<Vec<Checked>, DistError> {
    let counts: Vec<_> = own.iter().map(|row| (row.operation, row.elements, row.wrong)).collect();
    let text = serde_json::to_vec(&counts).expect("names and numbers are JSON");
    let all = world.exchange_bytes(text, RESULTS)?;
    let mut sums: Vec<_> =
        own.iter().map(|row| Checked { elements: 0, wrong: 0, ..row.clone() }).collect();
    for (rank, text) in all.iter().enumerate() {
        let counts: Vec<(&str, u64, u64)> = serde_json::from_slice(text).map_err(|_| {
            let reason = "it runs another version of this program".to_owned();
            DistError::Unable { rank: rank as u32, reason }
        })?;
        for (name, elements, wrong) in counts {
            if let Some(sum) = sums.iter_mut().find(|row| row.operation == name) {
                sum.elements += elements;
                sum.wrong += wrong;
            }
        }
    }
    Ok(sums)
}

fn print(rows: &[Checked], out: &mut impl Write) -> Result<(), CliError> {
    let mut table =
        Table::new([("operation", Side::Left), ("elements", Side::Right), ("result", Side::Left)]);
    for row in rows {
        let result = match row.wrong {
            0 => "right".to_owned(),
            wrong => format!("{wrong} WRONG"),
        };
        table.add([row.operation.to_owned(), row.elements.to_string(), result]);
    }
    Ok(table.print(out)?)
}
