//! `ferrowarp generate`: a small language model, trained here, that writes.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ferrowarp::{Backend, Gpu};

use super::error::CliError;
use super::progress::Progress;
use crate::language::{BOOK, Plan, Sampler, Text, Trainer, Weights};

/// Losses that are printed, about.
const LINES: usize = 10;
/// Batches of the held-out text that are measured for a line.
const MEASURED: usize = 2;

/// Options of `ferrowarp generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp generate
  ferrowarp generate --prompt 'A kernel ' --length 2000 --temperature 0.5
  ferrowarp generate --text novel.txt --steps 5000

The model is a transformer over single characters. It learns chapters of Ferrowarp's book, or a text of yours, from nothing, and then continues
the prompt. The loss is in nats a character: that of guessing is the logarithm of the number of characters, 4.6 for the book's. A tenth of the
text is held out: when its loss rises while the other one falls, the model learns the text by heart. On the emulator the model is much smaller, and writes no words.")]
pub(super) struct Args {
    /// What to learn, in UTF-8; characters beyond ASCII are left out [default: chapters of the book]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Steps of training [default: 500 on GPUs, 100 on the emulator]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: Option<u32>,
    /// How the text begins
    #[arg(long, value_name = "TEXT", default_value = "## ")]
    prompt: String,
    /// Characters to write [default: 1000 on GPUs, 100 on the emulator]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    length: Option<u32>,
    /// How daring the choice of characters is: 0 takes the most probable one
    #[arg(long, value_name = "T", default_value_t = 0.7, value_parser = temperature)]
    temperature: f32,
    /// Of the weights, batches and choices, which are the same for the same seed [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn temperature(text: &str) -> Result<f32, &'static str> {
    let temperature = text.parse().ok().filter(|t: &f32| (0.0..=100.0).contains(t));
    temperature.ok_or("a temperature is a number from 0 to 100")
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let text = read(args)?;
    let gpu = Gpu::new()?;
    let suited = Plan::suited_to(&gpu);
    let plan = Plan { steps: args.steps.map_or(suited.steps, |steps| steps as usize), ..suited };
    if !text.is_enough(plan.context) {
        return Err(CliError::ShortText { needed: 10 * (plan.context + 1) });
    }
    let now =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_micros() as u64);
    let seed = args.seed.unwrap_or_else(now);
    let mut trainer = Trainer::new(&gpu, &text, plan, seed)?;
    describe(&trainer, &gpu, &text, seed, out)?;
    train(&mut trainer, plan, out)?;
    let length = args.length.unwrap_or(match gpu.backend() {
        Backend::Cuda => 1000,
        Backend::Emulator => 100,
    });
    write(&gpu, trainer.weights(), &text, (args, length, seed), out)
}

fn read(args: &Args) -> Result<Text, CliError> {
    match &args.text {
        None => Ok(Text::new(BOOK)),
        Some(path) => {
            let bytes = fs::read(path).map_err(CliError::read(path))?;
            Ok(Text::new(&[&String::from_utf8_lossy(&bytes)]))
        }
    }
}

fn describe(
    trainer: &Trainer<'_>,
    gpu: &Gpu,
    text: &Text,
    seed: u64,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let (weights, shape) = (trainer.weights(), trainer.weights().shape());
    let (numbers, layers, width) = (weights.count(), shape.layers, shape.width());
    writeln!(out, "device: {}", gpu.name())?;
    writeln!(
        out,
        "a model of {numbers} weights: {layers} blocks of width {width}, {} heads",
        shape.heads
    )?;
    writeln!(
        out,
        "learns {} characters, {} at a time; seed {seed}\n",
        text.characters(),
        shape.context
    )?;
    Ok(out.flush()?)
}

fn train(trainer: &mut Trainer<'_>, plan: Plan, out: &mut impl Write) -> Result<(), CliError> {
    let start = Instant::now();
    let progress = Progress::steps("learning", plan.steps);
    let between = plan.steps.div_ceil(LINES);
    writeln!(out, "  step    loss  held out")?;
    for number in 1..=plan.steps {
        trainer.step()?;
        progress.advance();
        if number == 1 || number % between == 0 || number == plan.steps {
            let (loss, held_out) = (trainer.loss()?, trainer.held_out_loss(MEASURED)?);
            writeln!(out, "{number:6}  {loss:6.3}  {held_out:8.3}")?;
            out.flush()?;
        }
    }
    drop(progress);
    writeln!(out, "\nlearnt in {:.1} s\n", start.elapsed().as_secs_f64())?;
    Ok(out.flush()?)
}

fn write(
    gpu: &Gpu,
    weights: &Weights,
    text: &Text,
    (args, length, seed): (&Args, u32, u64),
    out: &mut impl Write,
) -> Result<(), CliError> {
    let mut sampler = Sampler::new(gpu, weights, args.temperature, seed)?;
    let prompt = text.vocabulary.encode(&args.prompt);
    let prompt = if prompt.is_empty() { text.vocabulary.encode("\n ") } else { prompt };
    for token in prompt {
        sampler.read(token)?;
    }
    write!(out, "{}", args.prompt)?;
    let start = Instant::now();
    for _ in 0..length {
        let token = sampler.choose()?;
        write!(out, "{}", text.vocabulary.letter(token))?;
        out.flush()?;
        sampler.read(token)?;
    }
    let rate = f64::from(length) / start.elapsed().as_secs_f64();
    writeln!(out, "\n\n{length} characters, {rate:.0} a second")?;
    Ok(())
}
