//! The demos, by subject, in the order in which they teach.

use super::{Demo, Group};
use super::{
    arrays, copies, graphs, launches, memory, particles, peers, pictures, plates, products, reload,
    resources, rings, running, rust_cuda, unified,
};

/// All demos.
pub const GROUPS: &[Group] = &[
    Group {
        title: "Arrays",
        demos: &[
            Demo::new("vecadd", "one thread per element, no unsafe", arrays::vecadd),
            Demo::new("saxpy", "a fused multiply-add, in place", arrays::saxpy),
            Demo::new("copy_strided", "strided access: slow", arrays::copy_strided),
            Demo::new("copy_coalesced", "coalesced access: fast", arrays::copy_coalesced),
            Demo::new("reduce_tree", "a tree reduction in shared memory", arrays::reduce_tree),
            Demo::new("reduce_sum_f32", "a reduction by shuffles, one launch", arrays::reduce_f32),
            Demo::new("reduce_sum_i32", "a sum of integers", arrays::reduce_i32),
            Demo::new("transpose_naive", "reads along columns: slow", arrays::transpose_naive),
            Demo::new("transpose_tiled", "through shared memory: fast", arrays::transpose_tiled),
        ],
    },
    Group {
        title: "Matrix products",
        demos: &[
            Demo::new("matmul_naive", "one thread an element", products::naive),
            Demo::new("matmul_tiled", "tiles in shared memory", products::tiled),
            Demo::new("matmul_registers", "tiles in registers", products::registers),
            Demo::new("matmul_warps", "tensor cores, by warps", products::warps),
            Demo::new("matmul", "tensor cores, by the fastest kernel", products::chosen),
        ],
    },
    Group {
        title: "Attention",
        demos: &[
            Demo::new(
                "attention_textbook",
                "three passes over the keys",
                products::attention_textbook,
            ),
            Demo::new(
                "attention_online",
                "one pass, by the online softmax",
                products::attention_online,
            ),
            Demo::new("attention", "tensor cores, by the fastest kernel", products::attention),
        ],
    },
    Group {
        title: "Memory",
        demos: &[
            Demo::new("slices", "slices of an array; a DeviceBox", memory::slices),
            Demo::new("pinned", "pinned memory, up and down", copies::pinned),
            Demo::new("pageable", "pageable vectors, up and down", copies::pageable),
            Demo::new("registered", "a vector, page-locked in place", copies::registered),
            Demo::new("write_combined", "write-combined host memory", copies::write_combined),
            Demo::new("transfers", "every transfer strategy", copies::transfers),
            Demo::new(
                "stream_ordered",
                "eight sums; stream-ordered allocation",
                memory::stream_ordered,
            ),
            Demo::new("pool", "eight sums from a memory pool of two blocks", memory::pool),
            Demo::new("adaptors", "allocations counted, limited and tracked", resources::adaptors),
            Demo::new(
                "replay",
                "a failing allocation; an allocation log, replayed",
                resources::replay,
            ),
            Demo::new("unified", "unified memory", unified::unified),
            Demo::new("prefetch", "unified memory, prefetched", unified::prefetch),
            Demo::new("host_slice", "plain vectors as kernel arguments", unified::host_slice),
            Demo::new("zero_copy", "mapped host memory, used in place", rings::zero_copy),
            Demo::new("peers", "another device's memory, copied and in place", peers::peers)
                .of_devices(2),
        ],
    },
    Group {
        title: "Running work",
        demos: &[
            Demo::new("streams", "concurrent streams, forked and joined", running::streams),
            Demo::new("callbacks", "host callbacks on a high-priority stream", running::callbacks),
            Demo::new("pools", "eight threads share two streams", running::pools),
            Demo::new("pipeline", "uploads, kernels and downloads overlap", running::pipeline),
            Demo::new("futures", "one thread awaits copies and kernels", running::futures),
            Demo::new(
                "launches",
                "one launch per step; occupancy-based block size",
                launches::plain,
            ),
            Demo::new("dependent", "programmatic dependent launch", launches::dependent),
            Demo::new("batch", "the launches enqueued as a batch", launches::batch),
            Demo::new("capture", "the launches captured as a graph", launches::capture),
            Demo::new(
                "cooperative",
                "one cooperative launch, grid barriers",
                launches::cooperative,
            ),
            Demo::new(
                "clusters",
                "one cluster launch, distributed shared memory",
                launches::clusters,
            ),
            Demo::new("graph", "201 small launches as one graph", graphs::graph),
            Demo::new("ring", "messages to a persistent kernel", rings::ring),
            Demo::new("calls", "futures that call a persistent kernel", rings::calls),
            Demo::new("router", "kernels that send messages to each other", rings::router),
            Demo::new("reload", "hot reload of a kernel", reload::reload),
        ],
    },
    Group {
        title: "Pictures",
        demos: &[
            Demo::new("grayscale", "colour to grey", pictures::grayscale),
            Demo::new("histogram", "256 bins, privatised per block", pictures::histogram),
            Demo::new("equalize", "histogram equalisation", pictures::equalize),
            Demo::new("blur", "a separable Gaussian blur", pictures::blur),
            Demo::new("sobel", "edge detection", pictures::sobel),
        ],
    },
    Group {
        title: "Simulations",
        demos: &[
            Demo::new("heat", "heat equation, four fused steps", plates::heat_demo),
            Demo::new("wave", "wave equation, with reflections", plates::wave_demo),
            Demo::new(
                "particles",
                "a dam break; the error is the energy drift",
                particles::particles,
            ),
        ],
    },
    Group {
        title: "rust-cuda",
        demos: &[
            Demo::new("cust_vecadd", "plain cust: a DeviceBuffer, launch!", rust_cuda::vecadd),
            Demo::new("cust_saxpy", "plain cust: a UnifiedBuffer, in place", rust_cuda::saxpy),
            Demo::new("cust_reduce", "plain cust: sums in a DeviceBox", rust_cuda::reduce_tree),
            Demo::new("cust_operations", "operations on cust's memory", rust_cuda::operations),
        ],
    },
];
