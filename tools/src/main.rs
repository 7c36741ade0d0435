//! The program `ferrowarp`; [`ferrowarp_tools::cli`] does it all.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrowarp_tools::cli::main()
}
