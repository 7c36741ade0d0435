//! What can go wrong with clusters, mbarriers and asynchronous copies.

/// A cluster is misused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterFault {
    /// The grid is no whole number of clusters, or a cluster has too many blocks.
    #[error("a grid of {grid:?} blocks cannot be made of clusters of {cluster:?} blocks")]
    Shape {
        /// Blocks of the grid in each direction.
        grid: [u32; 3],
        /// Blocks of a cluster in each direction.
        cluster: [u32; 3],
    },
    /// The launch names another shape than the kernel does.
    #[error("clusters of {launch:?} blocks, where the kernel requires {kernel:?}")]
    OtherShape {
        /// What the launch says.
        launch: [u32; 3],
        /// What the kernel says.
        kernel: [u32; 3],
    },
    /// A rank past the last block.
    #[error("rank {rank} in a cluster of {blocks} blocks")]
    Rank {
        /// The rank.
        rank: u32,
        /// Blocks of the cluster.
        blocks: u32,
    },
    /// The shared memory of a block that has ended.
    #[error("shared memory of the cluster's block {rank} touched after that block has ended")]
    PeerEnded {
        /// Its rank.
        rank: u32,
    },
    /// The shared memory of a block that may not have begun.
    #[error("shared memory of the cluster's block {rank} touched before that block has begun")]
    PeerNotBegun {
        /// Its rank.
        rank: u32,
    },
    /// A thread arrives at the cluster's barrier again before it has waited.
    #[error("a thread arrives twice at the cluster's barrier without waiting in between")]
    ArrivesTwice,
    /// A thread waits at the cluster's barrier and has not arrived.
    #[error("a thread waits at the cluster's barrier without having arrived")]
    NotArrived,
    /// Threads of a warp wait at different instructions, of which one wants the warp together.
    #[error(
        "divergent wait at the cluster's barrier; others of the warp wait at PTX line {other_line}"
    )]
    Divergent {
        /// Where the others wait.
        other_line: u32,
    },
}

/// An mbarrier is misused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MbarrierFault {
    /// No mbarrier lies there.
    #[error("it was not initialised")]
    NotInitialised,
    /// It is initialised or invalidated while threads wait on it.
    #[error("threads wait on it while it is initialised or invalidated")]
    Waited,
    /// A number of arrivals out of range.
    #[error("{count} arrivals; 1 to 1048575 are possible")]
    Count {
        /// The number.
        count: u32,
    },
    /// More arrivals than the phase still expects.
    #[error("{count} arrivals, where its phase expects {pending} more")]
    TooMany {
        /// Arrivals.
        count: u32,
        /// Those that are still expected.
        pending: u32,
    },
    /// Fewer arrivals remain for later phases than a drop takes away.
    #[error("{count} arrivals are dropped of {expected} in each phase")]
    Drop {
        /// Arrivals dropped.
        count: u32,
        /// Arrivals of a phase.
        expected: u32,
    },
    /// The count of bytes leaves its range.
    #[error("a count of {bytes} bytes; -1048575 to 1048575 are possible")]
    Bytes {
        /// The count that would result.
        bytes: i64,
    },
    /// An arrival completes the phase and promised not to.
    #[error("an arrival with `.noComplete` completes its phase")]
    Completes,
}

/// An asynchronous copy breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyFault {
    /// An address is not aligned.
    #[error("address {address:#x} of an asynchronous copy is not a multiple of {align}")]
    Align {
        /// Address.
        address: u64,
        /// What it has to be a multiple of.
        align: u64,
    },
    /// A box that is written begins before its tensor.
    #[error(
        "a box that is stored begins at {at} in a dimension; only one that is loaded may hang over \
         the tensor's start"
    )]
    Before {
        /// The coordinate.
        at: i32,
    },
    /// A number of bytes.
    #[error("an asynchronous copy of {bytes} bytes; a multiple of 16 is needed")]
    Size {
        /// Bytes.
        bytes: u64,
    },
    /// More bytes are given than copied.
    #[error("{given} bytes of source for a copy of {bytes} bytes")]
    Given {
        /// Bytes of the source.
        given: u32,
        /// Bytes of the copy.
        bytes: u32,
    },
    /// There is no tensor map at an address.
    #[error("there is no tensor map at {address:#x}")]
    NoTensorMap {
        /// Address.
        address: u64,
    },
    /// The map has another number of dimensions than the instruction.
    #[error("the tensor map has {map} dimensions, the instruction {instruction}")]
    Rank {
        /// Of the map.
        map: u32,
        /// Of the instruction.
        instruction: u32,
    },
    /// The map is of the mode `im2col` and the instruction is not, or the other way round.
    #[error("the tensor map is of the mode `{map}`, which is not the instruction's")]
    Mode {
        /// Mode of the map.
        map: &'static str,
    },
    /// A rule of tensor maps, which `tensormap.replace` may break.
    #[error("the tensor map is not valid: {0}")]
    Map(crate::tensor_map::TensorMapError),
    /// Channels in slices.
    #[error("tensor maps with interleaved channels are not supported")]
    Interleaved,
    /// A field of a tensor map.
    #[error("{value:#x} is not a value of the field `{field}` of a tensor map")]
    Field {
        /// Which.
        field: &'static str,
        /// Value.
        value: u64,
    },
    /// A reduction that the element type does not have.
    #[error("elements of type {element:?} have no `.{operation}`")]
    Reduction {
        /// Type.
        element: crate::tensor_map::ElementType,
        /// Operation.
        operation: &'static str,
    },
}
