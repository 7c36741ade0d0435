//! The arguments of a scan or a selection have lost their types: only this crate's operators launch them.
#![forbid(unsafe_code)]

use ferrowarp::GpuResult;
use ferrowarp::ops::scan::{self, ScanOperator, Sum};
use ferrowarp::ops::select::{self, Selector, Unique};

struct Evil;

/// A scan of bytes by the kernel of doubles: it would write eight times the output.
impl ScanOperator<u8> for Evil {
    fn states_len(n: usize) -> usize {
        <Sum as ScanOperator<f64>>::states_len(n)
    }

    fn launch(arguments: scan::Arguments<'_>) -> GpuResult<()> {
        <Sum as ScanOperator<f64>>::launch(arguments)
    }
}

impl Selector<u8> for Evil {
    fn launch(self, arguments: select::Arguments<'_>) -> GpuResult<()> {
        <Unique as Selector<f64>>::launch(Unique, arguments)
    }
}

fn main() {}
