//! Measured choices, which stand in for the cost model's: see [`Tuning`].

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::{FromStr, SplitWhitespace};
use std::sync::OnceLock;

use cuda_std::matrix::Tf32;
use cuda_std::number::E4m3;
use cuda_std::{bf16, f16};
use kernels_gpu::matmul::Factor;

use super::choice::{Choice, Kernel, Tile, blocks_of_grid};
use super::matrix::Order;
use crate::error::{GpuError, GpuResult};

/// Names the file.
const VARIABLE: &str = "FERROWARP_TUNING";
const OPERATION: &str = "reading the measured choices of matrix products";
const COLUMNS: &str =
    "# elements orders m n k batches kernel tile exchanged splits parts copies us us_of_model";

fn wrong(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: OPERATION, reason }
}

/// A product as the kernel sees it, which computes the transpose of a column-major D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Product {
    /// The elements of A and B, one of [`ELEMENTS`].
    elements: &'static str,
    /// Whether A and B are column-major.
    is_column_major: [bool; 2],
    /// Rows of D, columns of D, and the length of the sums.
    sizes: [usize; 3],
    batches: usize,
}

/// The names of the types that can be tuned.
const ELEMENTS: [&str; 4] = ["bf16", "f16", "e4m3", "tf32"];

/// The name of the type of A and B; `None` for types that are not among those that can be tuned.
fn name_of<T: 'static>() -> Option<&'static str> {
    let types =
        [TypeId::of::<bf16>(), TypeId::of::<f16>(), TypeId::of::<E4m3>(), TypeId::of::<Tf32>()];
    let found = types.iter().position(|known| *known == TypeId::of::<T>())?;
    Some(ELEMENTS[found])
}

impl Product {
    pub(super) fn of<T: Factor>(
        orders: [Order; 2],
        sizes: [usize; 3],
        batches: usize,
    ) -> Option<Self> {
        let is_column_major = orders.map(|order| order == Order::ColumnMajor);
        Some(Self { elements: name_of::<T>()?, is_column_major, sizes, batches })
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elements, is_column_major, sizes: [m, n, k], batches } = *self;
        let [a, b] = is_column_major.map(|is_column_major| if is_column_major { 't' } else { 'n' });
        write!(f, "{elements} {a}{b} {m} {n} {k} {batches}")
    }
}

/// How a product is launched: what of a [`Choice`] is not computed from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launch {
    kernel: Kernel,
    splits: u32,
    parts: u32,
    streams: bool,
    packs: bool,
}

impl Launch {
    const fn of(choice: &Choice) -> Self {
        let Choice { kernel, splits, parts, streamed, packs, .. } = *choice;
        Self { kernel, splits, parts, streams: streamed > 0, packs }
    }
}

/// What was fastest of the choices of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    launch: Launch,
    us: f64,
    us_of_model: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { launch, us, us_of_model } = *self;
        let Launch { kernel, splits, parts, streams, packs } = launch;
        let (name, tile, is_exchanged) = match kernel {
            Kernel::None => ("none", 0, false),
            Kernel::Hopper { tile, is_exchanged } => {
                (if streams { "stream-k" } else { "hopper" }, tile.columns(), is_exchanged)
            }
            Kernel::Skinny { is_exchanged } => ("skinny", 0, is_exchanged),
            Kernel::Warps => ("warps", 0, false),
        };
        let yes_or_no = |yes| if yes { "yes" } else { "no" };
        let (exchanged, packs) = (yes_or_no(is_exchanged), yes_or_no(packs));
        write!(f, "{name} {tile} {exchanged} {splits} {parts} {packs} {us:.2} {us_of_model:.2}")
    }
}

/// Measured choices, by product, which stand in for the cost model's.
///
/// `ferrowarp tune matmul` measures products on a device and writes what was fastest to a file. A process whose environment names
/// that file in `FERROWARP_TUNING` takes those choices for the same products on devices of the same name, and the cost model's
/// for all others.
///
/// The file is text. Its head names the device, the driver and the date; then each line has a product and the choice:
///
/// ```text
/// device NVIDIA H200
/// driver 580.95
/// date 2026-11-28T08:00:00Z
/// # elements orders m n k batches kernel tile exchanged splits parts copies us us_of_model
/// bf16 nt 16 4096 14336 1 hopper 16 yes 1 4 no 28.10 29.40
/// ```
///
/// The kernel `stream-k` is `hopper` with its last tiles [streamed](Choice::streamed).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    device: String,
    driver: String,
    date: String,
    products: BTreeMap<Product, Measured>,
}

impl Tuning {
    /// No choices yet, of a device with this name.
    #[must_use]
    pub fn new(device: &str, driver: &str, date: &str) -> Self {
        let [device, driver, date] = [device, driver, date].map(str::to_owned);
        Self { device, driver, date, products: BTreeMap::new() }
    }

    /// The choices in a file.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if it cannot be read, or names the line that is not of the format.
    pub fn read(path: &Path) -> GpuResult<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        text.parse().map_err(|reason| wrong(format!("{}, {reason}", path.display())))
    }

    /// The name of the device on which they were measured.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The number of products.
    #[must_use]
    pub fn len(&self) -> usize {
        self.products.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.products.is_empty()
    }

    /// Takes the choice for the product, with the microseconds that it took and those of the cost model's choice. It replaces an
    /// earlier one.
    pub fn insert(&mut self, product: Product, choice: &Choice, us: f64, us_of_model: f64) {
        let measured = Measured { launch: Launch::of(choice), us, us_of_model };
        self.products.insert(product, measured);
    }

    /// Takes all choices of an earlier file that this one does not have.
    pub fn extend(&mut self, earlier: &Self) {
        for (product, measured) in &earlier.products {
            self.products.entry(*product).or_insert(*measured);
        }
    }

    /// Which of `choices` was the fastest for the product, if that was measured and it is among them.
    pub(super) fn find(
        &self,
        product: &Product,
        choices: impl FnOnce() -> Vec<Choice>,
    ) -> Option<Choice> {
        let measured = self.products.get(product)?;
        let found = choices().into_iter().find(|choice| Launch::of(choice) == measured.launch)?;
        Some(Choice { is_measured: true, ..found })
    }

    /// The bytes of the partial sums of the choices for products of these sizes, on a device with this many multiprocessors: the most.
    pub(super) fn most_partial_bytes(
        &self,
        multiprocessors: u32,
        sizes: [usize; 3],
        batches: usize,
    ) -> usize {
        let [m, n, _] = sizes;
        let of_sizes = |(product, measured): (&Product, &Measured)| {
            let is_it = product.sizes == sizes && product.batches == batches;
            let Launch { kernel, splits, streams, .. } = measured.launch;
            let streamed = u32::from(streams);
            let blocks = match kernel {
                Kernel::Hopper { tile, .. } => blocks_of_grid(multiprocessors, tile),
                _ => 0,
            };
            let choice = Choice { kernel, splits, streamed, blocks, ..Choice::NONE };
            is_it.then(|| choice.partial_bytes(m, n, batches))
        };
        self.products.iter().filter_map(of_sizes).max().unwrap_or(0)
    }

    /// The file that the environment names, if it is of a device with this name. It is read once.
    pub(super) fn of_device(name: &str) -> GpuResult<Option<&'static Self>> {
        static FILE: OnceLock<Result<Option<Tuning>, GpuError>> = OnceLock::new();
        let read = |path: &OsStr| Self::read(path.as_ref());
        let path = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let file = FILE.get_or_init(|| path().map(|path| read(&path)).transpose());
        match file {
            Ok(tuning) => Ok(tuning.as_ref().filter(|tuning| tuning.device == name)),
            Err(GpuError::InvalidArgument { operation, reason }) => {
                let reason = format!("{reason} ({VARIABLE})");
                Err(GpuError::InvalidArgument { operation, reason })
            }
            Err(error) => Err(wrong(error.to_string())),
        }
    }
}

/// The file's text.
impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, driver, date, products } = self;
        writeln!(
            f,
            "# Matrix products, measured by `ferrowarp tune matmul`; {VARIABLE} names this file."
        )?;
        writeln!(f, "device {device}\ndriver {driver}\ndate {date}\n{COLUMNS}")?;
        products.iter().try_for_each(|(product, measured)| writeln!(f, "{product} {measured}"))
    }
}

/// Of a file's text; the error says which line is wrong, and why.
impl FromStr for Tuning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut tuning = Self::default();
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            match first {
                "" => {}
                _ if first.starts_with('#') => {}
                "device" => tuning.device = rest.to_owned(),
                "driver" => tuning.driver = rest.to_owned(),
                "date" => tuning.date = rest.to_owned(),
                _ => {
                    let row = row(line).map_err(|reason| format!("line {number}: {reason}"))?;
                    tuning.products.insert(row.0, row.1);
                }
            }
        }
        if tuning.device.is_empty() {
            return Err("there is no line `device NAME`: the file is not one of `ferrowarp tune`"
                .to_owned());
        }
        Ok(tuning)
    }
}

fn row(line: &str) -> Result<(Product, Measured), String> {
    let mut words = line.split_whitespace();
    let elements = word(&mut words)?;
    let elements = ELEMENTS.into_iter().find(|known| *known == elements);
    let elements =
        elements.ok_or_else(|| format!("elements are one of {}", ELEMENTS.join(", ")))?;
    let is_column_major = match word(&mut words)? {
        "nn" => [false, false],
        "nt" => [false, true],
        "tn" => [true, false],
        "tt" => [true, true],
        other => return Err(format!("orders are nn, nt, tn or tt, and not {other}")),
    };
    let sizes = [number(&mut words)?, number(&mut words)?, number(&mut words)?];
    let product = Product { elements, is_column_major, sizes, batches: number(&mut words)? };
    let (name, tile) = (word(&mut words)?, number(&mut words)?);
    let is_exchanged = is_yes(&mut words)?;
    let kernel = match name {
        "none" => Kernel::None,
        "hopper" | "stream-k" => {
            let tile =
                Tile::of_columns(tile).ok_or_else(|| format!("no tile has {tile} columns"))?;
            Kernel::Hopper { tile, is_exchanged }
        }
        "skinny" => Kernel::Skinny { is_exchanged },
        "warps" => Kernel::Warps,
        other => return Err(format!("there is no kernel {other}")),
    };
    let (splits, parts) = (number(&mut words)?, number(&mut words)?);
    let streams = name == "stream-k";
    let launch = Launch { kernel, splits, parts, streams, packs: is_yes(&mut words)? };
    let measured = Measured { launch, us: number(&mut words)?, us_of_model: number(&mut words)? };
    match words.next() {
        None => Ok((product, measured)),
        Some(more) => Err(format!("`{more}` is one word too many")),
    }
}

fn word<'a>(words: &mut SplitWhitespace<'a>) -> Result<&'a str, String> {
    words.next().ok_or_else(|| format!("a word is missing; a line has these: {}", &COLUMNS[2..]))
}

fn number<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Result<T, String> {
    let word = word(words)?;
    word.parse().map_err(|_| format!("{word} is not such a number"))
}

fn is_yes(words: &mut SplitWhitespace<'_>) -> Result<bool, String> {
    match word(words)? {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("{other} is neither yes nor no")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
device Some GPU
driver 1.2
date 2026-11-28T08:00:00Z
bf16 nt 16 4096 14336 1 hopper 16 yes 1 4 no 28.10 29.40
bf16 nt 2048 2112 7168 1 stream-k 192 no 1 1 no 80.00 110.00
e4m3 nn 300 200 100 2 hopper 192 no 3 1 yes 5.00 5.00
f16 tn 16 64 64 1 skinny 0 yes 1 1 no 2.00 2.50
tf32 tt 64 64 64 1 warps 0 no 1 1 no 2.00 2.00
";

    #[test]
    fn a_file_says_what_was_measured() {
        let tuning: Tuning = TEXT.parse().unwrap();
        assert_eq!((tuning.device(), tuning.len()), ("Some GPU", 5));
        let text = tuning.to_string();
        assert!(TEXT.lines().all(|line| text.lines().any(|own| own == line)), "{text}");
        assert_eq!(text.parse(), Ok(tuning));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let with = |line: &str| format!("device A\n\n{line}\n").parse::<Tuning>().unwrap_err();
        assert!(with("bf16 nt 16 4096").starts_with("line 3: a word is missing"));
        assert!(with("f8 nt 1 1 1 1 warps 0 no 1 1 no 1 1").contains("bf16, f16, e4m3, tf32"));
        assert!(with("bf16 nx 1 1 1 1 warps 0 no 1 1 no 1 1").contains("not nx"));
        assert!(with("bf16 nt 1 x 1 1 warps 0 no 1 1 no 1 1").contains("x is not"));
        assert!(with("bf16 nt 1 1 1 1 hopper 17 no 1 1 no 1 1").contains("17 columns"));
        assert!(with("bf16 nt 1 1 1 1 warps 0 maybe 1 1 no 1 1").contains("neither yes nor no"));
        assert!(with("bf16 nt 1 1 1 1 warp 0 no 1 1 no 1 1").contains("no kernel warp"));
        assert!(with("bf16 nt 1 1 1 1 warps 0 no 1 1 no 1 1 1").contains("too many"));
        assert!("# nothing".parse::<Tuning>().unwrap_err().contains("no line `device NAME`"));
    }

    #[test]
    fn what_is_measured_later_counts() {
        let mut tuning = Tuning::new("Some GPU", "1.3", "today");
        let earlier: Tuning = TEXT.parse().unwrap();
        let (product, measured) = earlier.products.iter().next().unwrap();
        let later = Measured { us: 1.0, ..*measured };
        tuning.products.insert(*product, later);
        tuning.extend(&earlier);
        assert_eq!((tuning.len(), tuning.products[product]), (5, later));
        let bytes = |sizes, batches| tuning.most_partial_bytes(132, sizes, batches);
        assert_eq!(bytes([300, 200, 100], 2), 2 * 3 * 300 * 200 * 4);
        assert_eq!(bytes([300, 200, 100], 1), 0);
        assert_eq!(bytes([2048, 2112, 7168], 1), 132 * 128 * 192 * 4);
    }
}
