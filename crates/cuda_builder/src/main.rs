//! `cuda-builder CRATE [--arch sm_90a]… [--copy-to FILE] [--report] [--deny-spills] [--embed]`:
//! compiles a kernel crate as a build script would, and prints where the PTX is.

use std::process::ExitCode;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

const USAGE: &str = "usage: cuda-builder CRATE [--arch NAME]... [--copy-to FILE] \
                     [--target-dir DIR] [--report] [--deny-spills] [--embed]";

fn main() -> ExitCode {
    let Some(job) = read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match job.and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Job {
    builder: CudaBuilder,
    embed: bool,
    report: bool,
}

/// Nothing where the words are not a command.
fn read(mut words: impl Iterator<Item = String>) -> Option<Result<Job, CudaBuilderError>> {
    let builder = CudaBuilder::new(words.next().filter(|word| !word.starts_with('-'))?);
    let mut job = Job { builder, embed: false, report: false };
    let mut archs = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--arch" => match words.next()?.parse::<NvvmArch>() {
                Ok(arch) => archs.push(arch),
                Err(unknown) => return Some(Err(unknown)),
            },
            "--copy-to" => job.builder = job.builder.copy_to(words.next()?),
            "--target-dir" => job.builder = job.builder.target_dir(words.next()?),
            "--deny-spills" => job.builder = job.builder.deny_spills(true),
            "--report" => job.report = true,
            "--embed" => job.embed = true,
            _ => return None,
        }
    }
    if !archs.is_empty() {
        job.builder = job.builder.archs(archs);
    }
    job.builder = job.builder.report(job.report);
    Some(Ok(job))
}

fn run(job: Job) -> Result<(), CudaBuilderError> {
    if job.embed {
        println!("{}", job.builder.embed()?.display());
        return Ok(());
    }
    for module in job.builder.compile()?.modules {
        println!("{}", module.copy.as_ref().unwrap_or(&module.path).display());
        if let Some(report) = &module.report {
            println!("{report}");
        }
    }
    Ok(())
}
