//! Attention over tensors of more than 2^31 elements: batches lie that far apart, so that offsets of elements need more than 31 bits.

use cuda_std::bf16;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Band, Heads, HeadsLayout, HeadsMut, Kernel, Options, attention_into,
};

use crate::attention::Case;
use crate::support::{gpu, rng};

/// Elements from a batch to the next.
const FAR: usize = (1 << 31) + 64;

#[test]
#[ignore = "needs 13 GB of device memory"]
fn more_than_2_31_elements() {
    let [rows, depth] = [200, 64];
    let len = rows * depth;
    let case = Case::<bf16>::new([2, 1, 1, rows, rows, depth], &mut rng());
    let layout = HeadsLayout { batch_stride: FAR, ..case.q.layout };
    // Queries, keys and values of a batch lie one after the other, and those of the next batch far behind.
    let mut inputs = DeviceBuffer::<bf16>::zeroed(gpu(), FAR + 3 * len).unwrap();
    for batch in 0..2 {
        for (at, host) in [&case.q, &case.k, &case.v].into_iter().enumerate() {
            let first = batch * FAR + at * len;
            let values = &host.values[batch * len..][..len];
            inputs.slice_mut(first..first + len).copy_from_host(values).unwrap();
        }
    }
    let view = |at: usize| Heads::new(inputs.slice(at * len..), layout).unwrap();
    let kernels = match gpu().info().compute_capability {
        (9, 0) => vec![Kernel::Hopper, Kernel::Warps],
        _ => vec![Kernel::Warps],
    };
    for kernel in kernels {
        let mut o = DeviceBuffer::<bf16>::zeroed(gpu(), FAR + len).unwrap();
        let to = HeadsMut::new(&mut o, layout).unwrap();
        let options = Options::new().score(Band::CAUSAL).kernel(kernel);
        let mut scratch = Scratch::new(gpu()).unwrap();
        attention_into(gpu(), view(0), view(1), view(2), to, options, &mut scratch).unwrap();
        let found = [0, FAR].map(|first| o.slice(first..first + len).to_vec().unwrap()).concat();
        let (expected, _) = case.clone().with(kernel).run(Band::CAUSAL).unwrap();
        assert!(found == expected, "{kernel:?}");
    }
}
