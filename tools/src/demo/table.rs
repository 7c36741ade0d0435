//! The demos, by subject, in the order in which they teach.

use super::{Demo, Group};
use super::{
    arrays, copies, graphs, launches, memory, particles, peers, pictures, plates, reload,
    resources, rings, running, unified,
};

/// All demos.
pub const GROUPS: &[Group] = &[
    Group {
        title: "Arrays",
        demos: &[
            Demo::new("vecadd", "one thread an element, no unsafe", arrays::vecadd),
            Demo::new("saxpy", "a fused multiply-add, in place", arrays::saxpy),
            Demo::new("copy_strided", "lanes 32 elements apart: slow", arrays::copy_strided),
            Demo::new("copy_coalesced", "lanes side by side: fast", arrays::copy_coalesced),
            Demo::new("reduce_tree", "a sum by trees in shared memory", arrays::reduce_tree),
            Demo::new("reduce_sum_f32", "a sum by shuffles, one launch", arrays::reduce_f32),
            Demo::new("reduce_sum_i32", "the same, on integers", arrays::reduce_i32),
            Demo::new("transpose_naive", "reads along columns: slow", arrays::transpose_naive),
            Demo::new("transpose_tiled", "through shared memory: fast", arrays::transpose_tiled),
        ],
    },
    Group {
        title: "Memory",
        demos: &[
            Demo::new("slices", "parts of an array, and a value in a box", memory::slices),
            Demo::new("pinned", "page-locked memory, there and back", copies::pinned),
            Demo::new("pageable", "plain vectors, there and back", copies::pageable),
            Demo::new("registered", "a vector, page-locked where it is", copies::registered),
            Demo::new(
                "write_combined",
                "memory that the host writes past its caches",
                copies::write_combined,
            ),
            Demo::new("transfers", "every way there and back, each by name", copies::transfers),
            Demo::new(
                "stream_ordered",
                "eight sums; memory comes and goes in order",
                memory::stream_ordered,
            ),
            Demo::new("pool", "the same from a pool: two blocks", memory::pool),
            Demo::new(
                "adaptors",
                "the same, counted, limited, each block with its line",
                resources::adaptors,
            ),
            Demo::new(
                "replay",
                "an allocation that fails; a log that is done again",
                resources::replay,
            ),
            Demo::new("unified", "memory that host and device share", unified::unified),
            Demo::new("prefetch", "the same, moved before it is touched", unified::prefetch),
            Demo::new("host_slice", "plain vectors as a kernel's arguments", unified::host_slice),
            Demo::new("zero_copy", "the host's memory, used in place", rings::zero_copy),
            Demo::new("peers", "another device's memory, copied and in place", peers::peers)
                .of_devices(2),
        ],
    },
    Group {
        title: "Running work",
        demos: &[
            Demo::new("streams", "branches side by side, forked and joined", running::streams),
            Demo::new(
                "callbacks",
                "an urgent stream calls the host between kernels",
                running::callbacks,
            ),
            Demo::new("pools", "eight threads take turns with two streams", running::pools),
            Demo::new(
                "pipeline",
                "frames come in and go out while one is computed",
                running::pipeline,
            ),
            Demo::new("futures", "one thread awaits copies and kernels", running::futures),
            Demo::new(
                "launches",
                "rounds, a launch each; the device's best block",
                launches::plain,
            ),
            Demo::new("dependent", "each begins before the one before ends", launches::dependent),
            Demo::new("batch", "the launches queued together", launches::batch),
            Demo::new("capture", "the launches, captured, as one graph", launches::capture),
            Demo::new("cooperative", "one launch, a barrier of the grid", launches::cooperative),
            Demo::new("clusters", "one launch, in eight blocks' shared memory", launches::clusters),
            Demo::new("graph", "201 small launches as one", graphs::graph),
            Demo::new("ring", "messages to a kernel that stays", rings::ring),
            Demo::new("reload", "a kernel exchanged while the program runs", reload::reload),
        ],
    },
    Group {
        title: "Pictures",
        demos: &[
            Demo::new("grayscale", "colour to grey", pictures::grayscale),
            Demo::new("histogram", "256 bins, private to each block", pictures::histogram),
            Demo::new("equalize", "grey levels spread evenly", pictures::equalize),
            Demo::new("blur", "a separable Gaussian with halos", pictures::blur),
            Demo::new("sobel", "edges", pictures::sobel),
        ],
    },
    Group {
        title: "Simulations",
        demos: &[
            Demo::new("heat", "spreads, four steps in registers", plates::heat_demo),
            Demo::new("wave", "spreads, and comes back", plates::wave_demo),
            Demo::new(
                "particles",
                "a dam that breaks; the error is the energy's",
                particles::particles,
            ),
        ],
    },
];
