//! Operations over ranks: sorts beside those of one rank, and the transpose beside the link.

use ferrowarp::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::random::{Integer, integers_into};
use ferrowarp::ops::sort::{SortOptions, sort_into, sort_pairs_into};
use ferrowarp_dist::DistResult;
use ferrowarp_dist::ops::sort::{Method, Options, RankKey, sort, sort_pairs};
use ferrowarp_dist::ops::{Shares, transpose};

use super::super::super::error::CliError;
use super::super::super::table::{Side, Table};
use super::collectives;
use super::measure::Bench;
use super::sizes::shown;
use super::{Plan, Print};

pub(super) fn run(bench: &Bench<'_>, plan: &Plan, print: Print<'_>) -> Result<(), CliError> {
    sorts(bench, plan.keys, print)?;
    transposes(bench, plan.matrix_bytes, print)
}

/// The rates of all ranks together, and of each rank that sorts its own keys alone, all at the same time.
fn sorts(bench: &Bench<'_>, keys: usize, print: Print<'_>) -> Result<(), CliError> {
    let mut table = Table::new([
        ("sort", Side::Left),
        ("keys of a rank", Side::Right),
        ("ms", Side::Right),
        ("10^6 keys/s", Side::Right),
        ("1 rank alone", Side::Right),
        ("ratio", Side::Right),
    ]);
    for (name, method) in METHODS {
        table.begin(name);
        let options = Options::ASCENDING.method(method);
        add(&mut table, bench, keys, "u32", sort_keys::<u32>(bench, keys, options)?);
        add(&mut table, bench, keys, "u64", sort_keys::<u64>(bench, keys, options)?);
        let pairs = sort_with_values(bench, keys, options)?;
        add(&mut table, bench, keys, "u32 with u32", pairs);
    }
    printed(&table, print)
}

/// One of them is what a sort takes that is not told.
const METHODS: [(&str, Method); 2] = [
    ("the sort of each share first", Method::SortFirst),
    ("the exchange first", Method::ExchangeFirst),
];

/// Adds a row: the seconds of the sort over ranks, and those of one rank alone.
fn add(
    table: &mut Table<6>,
    bench: &Bench<'_>,
    keys: usize,
    name: &str,
    (seconds, alone): (f64, f64),
) {
    let all = keys as f64 * f64::from(bench.ranks.size()) / seconds;
    let one = keys as f64 / alone;
    let numbers = [seconds * 1e3, all / 1e6, one / 1e6, all / one];
    let [ms, rate, alone, ratio] = numbers.map(|number| format!("{number:.3}"));
    table.add([name.to_owned(), keys.to_string(), ms, rate, alone, ratio]);
}

fn random<T: Integer>(bench: &Bench<'_>, len: usize) -> DistResult<DeviceBuffer<T>> {
    let mut values = DeviceBuffer::zeroed(bench.gpu(), len)?;
    let offset = u64::from(bench.ranks.rank()) * len as u64;
    integers_into(bench.gpu(), &mut values, 7, offset)?;
    Ok(values)
}

/// Seconds of the sort over ranks, and of a sort on this rank.
fn sort_keys<K: RankKey + Integer>(
    bench: &Bench<'_>,
    len: usize,
    options: Options,
) -> DistResult<(f64, f64)> {
    let (ranks, gpu) = (bench.ranks, bench.gpu());
    let keys = random::<K>(bench, len)?;
    let mut scratch = Scratch::new(gpu)?;
    let mut out = DeviceBuffer::zeroed(gpu, len)?;
    let alone = bench.seconds(1, || {
        Ok(sort_into(gpu, &keys, &mut out, SortOptions::ASCENDING, &mut scratch)?)
    })?;
    drop(out);
    let all = bench.seconds(1, || sort(ranks, gpu, &keys, options, &mut scratch).map(drop))?;
    Ok((all, alone))
}

/// As [`sort_keys`], of `u32` keys with `u32` values.
fn sort_with_values(bench: &Bench<'_>, len: usize, options: Options) -> DistResult<(f64, f64)> {
    let (ranks, gpu) = (bench.ranks, bench.gpu());
    let (keys, values) = (random::<u32>(bench, len)?, random::<u32>(bench, len)?);
    let mut scratch = Scratch::new(gpu)?;
    let mut out = (DeviceBuffer::zeroed(gpu, len)?, DeviceBuffer::zeroed(gpu, len)?);
    let alone = bench.seconds(1, || {
        let out = (&mut out.0, &mut out.1);
        Ok(sort_pairs_into(gpu, (&keys, &values), out, SortOptions::ASCENDING, &mut scratch)?)
    })?;
    drop(out);
    let all = bench
        .seconds(1, || sort_pairs(ranks, gpu, (&keys, &values), options, &mut scratch).map(drop))?;
    Ok((all, alone))
}

/// A square matrix of `f32`, beside a send and a receive of as many bytes as a rank sends to others.
fn transposes(bench: &Bench<'_>, bytes: usize, print: Print<'_>) -> Result<(), CliError> {
    let (ranks, gpu) = (bench.ranks, bench.gpu());
    let size = ranks.size() as usize;
    let rows = ((bytes / 4 / size).isqrt() / 32 * 32).max(32);
    let side = rows * size;
    let shares = Shares::even(side, ranks.size());
    let own = DeviceBuffer::<f32>::zeroed(gpu, rows * side)?;
    let seconds =
        bench.seconds(1, || transpose::transpose(ranks, gpu, &own, &shares, &shares).map(drop))?;
    let sent = rows * rows * (size - 1) * 4;
    let rate = sent as f64 / seconds;
    let (link, share) = match size {
        1 => ("-".to_owned(), "-".to_owned()),
        _ => {
            let link = collectives::link(bench, sent)?;
            (format!("{:.2}", link / 1e9), format!("{:.1} %", rate / link * 100.0))
        }
    };
    let mut table = Table::new([
        ("transpose", Side::Left),
        ("of a rank", Side::Right),
        ("ms", Side::Right),
        ("sent GB/s", Side::Right),
        ("link GB/s", Side::Right),
        ("of the link", Side::Right),
    ]);
    table.add([
        format!("{side} × {side} f32"),
        shown(rows * side * 4),
        format!("{:.3}", seconds * 1e3),
        format!("{:.2}", rate / 1e9),
        link,
        share,
    ]);
    printed(&table, print)
}

pub(super) fn printed<const N: usize>(table: &Table<N>, print: Print<'_>) -> Result<(), CliError> {
    let mut lines = Vec::new();
    table.print(&mut lines)?;
    print(format!("{}\n", String::from_utf8_lossy(&lines)))
}
