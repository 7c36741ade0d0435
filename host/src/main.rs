//! The program `ferrowarp`; [`ferrowarp::cli`] does it all.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrowarp::cli::main()
}
