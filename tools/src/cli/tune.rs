//! `ferrowarp tune`: measures which kernel is the fastest for the products that a program makes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use clap::{Subcommand, ValueEnum};

use super::error::CliError;
use super::output::Output;
use super::progress::Progress;
use super::table::{Side, Table};
use crate::bench::cases::{Elements, Tunable, tunable};
use crate::bench::machine;
use crate::bench::measure::Ours;
use crate::bench::stats::Summary;
use ferrowarp::ops::matmul::{Choice, Tuning};
use ferrowarp::{Backend, Gpu};

/// Options of `ferrowarp tune`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, Subcommand)]
enum Operation {
    /// Matrix products: writes the fastest kernel of each to a file, which FERROWARP_TUNING names to other programs
    Matmul(MatmulArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp tune matmul 4096x4096x4096,16x14336x4096
  ferrowarp tune matmul 512x2112x7168 --elements bf16,e4m3 --orders nt -o tuning.txt
  FERROWARP_TUNING=tuning.txt ferrowarp bench --filter matmul

A product is M x N x K: D has M rows and N columns, and its elements are sums of K products. Every kernel and way to divide K that the
cost model finds worth a try is measured, the choices in turn, on random data that outgrows the L2 cache, and checked. The file has the
device, the driver and the date; a program takes its choices on devices of the same name, and the cost model's for products that are
not in it. Products that the file had before are kept. On an emulated device the times are the host's, not those of any GPU.")]
struct MatmulArgs {
    /// The products, as MxNxK, with commas between them
    #[arg(required = true, value_delimiter = ',', value_parser = sizes)]
    products: Vec<[usize; 3]>,
    /// The elements of A and B
    #[arg(long, value_delimiter = ',', default_value = "bf16")]
    elements: Vec<Elements>,
    /// The orders of A and B: n is row-major, t is column-major
    #[arg(long, value_delimiter = ',', default_value = "nn")]
    orders: Vec<Orders>,
    /// Products in a batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    batches: usize,
    /// How many choices of each product are measured, the best by the cost model
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = at_least_one)]
    choices: usize,
    /// Samples of each choice
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = at_least_one)]
    rounds: usize,
    /// Print every choice that was measured, with the model's cycles
    #[arg(long)]
    all: bool,
    /// The file
    #[arg(short, long, value_name = "FILE", default_value = "tuning.txt")]
    output: PathBuf,
}

/// The orders of A and B.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Orders {
    Nn,
    Nt,
    Tn,
    Tt,
}

impl Orders {
    const fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
            Self::Tt => "tt",
        }
    }
}

fn sizes(text: &str) -> Result<[usize; 3], String> {
    let sizes = text.split('x').map(at_least_one).collect::<Result<Vec<_>, _>>()?;
    sizes.try_into().map_err(|_| "a product has three sizes, as in 4096x4096x4096".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be above 0".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let Operation::Matmul(args) = &args.operation;
    let gpu = Gpu::new()?;
    let earlier = earlier(&args.output, &gpu)?;
    let output = Output::create(&args.output)?;
    let driver = machine::driver(0).unwrap_or_else(|| "unknown".to_owned());
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut tuning = Tuning::new(gpu.name(), &driver, &date);
    let mut table = Table::new([
        ("product", Side::Left),
        ("us by the model", Side::Right),
        ("us", Side::Right),
        ("faster by", Side::Right),
        ("fastest", Side::Left),
    ]);
    let all = all_products(args);
    let progress = Progress::steps("tuning", all.len());
    for (elements, orders, sizes) in all {
        let [m, n, k] = sizes;
        let name = format!("{} {} {m}x{n}x{k}", elements.name(), orders.name());
        progress.set_message(name.as_str());
        let own = Rc::new(Tunable::default());
        let measured = measure(&gpu, (elements, orders, sizes), args, &own, &name)?;
        if args.all {
            let print =
                |(choice, us): &(Choice, f64)| writeln!(out, "{name}: {us:.2} us, {choice}");
            measured.iter().try_for_each(print)?;
        }
        let best = fastest(&measured);
        if let Some(product) = own.product.get() {
            tuning.insert(product, &best.choice, best.us, best.us_of_model);
        }
        let gain = 100.0 * (best.us_of_model / best.us - 1.0);
        let words = best.choice.to_string();
        let words = words.split(';').next().unwrap_or_default().to_owned();
        let [of_model, us] = [best.us_of_model, best.us].map(|us| format!("{us:.1}"));
        table.add([name, of_model, us, format!("{gain:.1} %"), words]);
        progress.advance();
    }
    drop(progress);
    if let Some(earlier) = earlier {
        tuning.extend(&earlier);
    }
    output.finish(|file| Ok(write!(file, "{tuning}")?))?;
    table.print(out)?;
    let file = args.output.display();
    writeln!(
        out,
        "{}: {} in {file}; FERROWARP_TUNING={file} takes them",
        gpu.name(),
        tuning.len()
    )?;
    if gpu.backend() == Backend::Emulator {
        writeln!(out, "These are times of an emulated device, which say nothing of a GPU.")?;
    }
    Ok(())
}

/// What the file has already; an error if that is of another device.
fn earlier(path: &Path, gpu: &Gpu) -> Result<Option<Tuning>, CliError> {
    if !path.exists() {
        return Ok(None);
    }
    let earlier = Tuning::read(path)?;
    if earlier.device() != gpu.name() {
        let (path, of) = (path.to_owned(), earlier.device().to_owned());
        return Err(CliError::TunedElsewhere { path, of, here: gpu.name().to_owned() });
    }
    Ok(Some(earlier))
}

type Asked = (Elements, Orders, [usize; 3]);

fn all_products(args: &MatmulArgs) -> Vec<Asked> {
    let of_elements = |elements: &Elements| {
        let elements = *elements;
        let of_orders = move |orders: &Orders| {
            let orders = *orders;
            args.products.iter().map(move |sizes| (elements, orders, *sizes))
        };
        args.orders.iter().flat_map(of_orders)
    };
    args.elements.iter().flat_map(of_elements).collect()
}

/// The fastest choice of a product.
struct Fastest {
    choice: Choice,
    us: f64,
    us_of_model: f64,
}

/// The fastest of choices that were measured, the model's first.
fn fastest(measured: &[(Choice, f64)]) -> Fastest {
    let first = measured.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let &(choice, us) = first.expect("a product has at least one choice");
    Fastest { choice, us, us_of_model: measured[0].1 }
}

/// Measures the choices of a product in turn, round after round, so that the device's clock is alike for all: their medians, in microseconds.
fn measure(
    gpu: &Gpu,
    (elements, orders, sizes): Asked,
    args: &MatmulArgs,
    own: &Rc<Tunable>,
    name: &str,
) -> Result<Vec<(Choice, f64)>, CliError> {
    let case = tunable(elements, orders.name(), sizes, args.batches, own);
    let mut ours = Ours::new(gpu, &case)?;
    let choices: Vec<Choice> = own.choices.borrow().iter().take(args.choices).copied().collect();
    let mut samples = vec![Vec::new(); choices.len()];
    for round in 0..args.rounds {
        for (choice, samples) in choices.iter().zip(&mut samples) {
            own.taken.set(Some(*choice));
            if round == 0 {
                ours.poison()?;
            }
            samples.extend(ours.sitting(1)?);
            if round == 0 {
                let wrong = |fault| CliError::WrongCases {
                    names: vec![format!("{name}, {choice}: {fault}")],
                };
                ours.check().map_err(wrong)?;
            }
        }
    }
    let median_us =
        |samples: &Vec<f64>| Summary::of(samples).map_or(f64::INFINITY, |own| 1e3 * own.median_ms);
    Ok(choices.into_iter().zip(samples.iter().map(median_us)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_three_numbers() {
        assert_eq!(sizes("16x4096x8"), Ok([16, 4096, 8]));
        assert_eq!(sizes("16x4096"), Err("a product has three sizes, as in 4096x4096x4096".into()));
        assert_eq!(sizes("16x0x8"), Err("it must be above 0".into()));
        assert_eq!(sizes("16xax8"), Err("`a` is not a number".into()));
    }
}
