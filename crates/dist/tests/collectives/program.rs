//! The `main` of a test that is started as several ranks.

use std::process::ExitCode;

use ferrowarp_dist::{DistError, DistResult, World};

use super::launcher;

/// Runs `check` as a rank of the world that a launcher has started. Without a launcher it runs as one rank alone, and
/// then starts this program as ranks. `name` is what tools that list tests are told.
pub fn main(name: &str, check: fn(&World) -> DistResult<()>) -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("{name}: test");
        return ExitCode::SUCCESS;
    }
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: fn(&World) -> DistResult<()>) -> DistResult<()> {
    match World::from_env() {
        Err(DistError::NoLauncher) => {
            check(&World::alone())?;
            launcher::run_all(false);
            Ok(())
        }
        world => {
            let world = world?;
            check(&world)?;
            world.finish()
        }
    }
}
