//! Forms of threads that work together: warps, blocks and clusters, matrices, and copies in the background.

use crate::exec::ops::{
    barrier, bulk, cluster, collective, copy, matrix, mbarrier, memory, tensor,
};
use crate::isa::{Class, Form, Lowering, Order, Properties, Rule, order, rule};

forms! {
    "warp" [Warp, Gathers, WEAK, 0] {
        /// Value of another lane.
        "shfl" "sync up|down|bfly|idx b32" "=t|p t u32 u32 u32" [rule Shuffles] => Emit collective::shfl;
        /// Whether a predicate holds in all lanes, in any, or is the same in all.
        "vote" "sync all|any|uni pred" "=pred pred u32" => Emit collective::vote;
        /// The lanes in which a predicate holds.
        "vote" "sync ballot b32" "=b32 pred u32" => Emit collective::vote;
        /// The lanes with the same value; or whether all have it.
        "match" "any|all sync b32|b64" "=b32|p t u32" => Emit collective::matches;
        /// Reduction over lanes.
        "redux" "sync add|min|max u32|s32" "=t t u32" => Emit collective::redux;
        /// Reduction over lanes.
        "redux" "sync and|or|xor b32" "=t t u32" => Emit collective::redux;
        /// The lanes that execute this together.
        "activemask" "b32" "=t" [rule Mixes] => Emit collective::activemask;
        /// Wait for the lanes of a mask.
        "bar" ".warp .sync" "u32" => Emit collective::warp_sync;
        /// One lane of a mask.
        "elect" "sync" "=b32|p u32" => Emit collective::elect;
    }
    "matrices" [Tensor, Warp, WEAK, 0] {
        /// Load of tiles of eight by eight 16-bit elements, perhaps transposed.
        "ldmatrix" "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16" "={b32} [a]" [rule Mixes] => Emit matrix::move_tile::ldmatrix;
        /// Store of such tiles.
        "stmatrix" "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16" "[a] {b32}" [rule Mixes] => Emit matrix::move_tile::stmatrix;
        /// Transpose of such a tile.
        "movmatrix" "sync aligned m8n8 trans b16" "={b32} {b32}" => Emit matrix::move_tile::movmatrix;
        /// Four products of `.f16` matrices, by quads of lanes.
        "mma" "sync aligned m8n8k4 row|col row|col f16 f16 f16 f16" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// The same with an `.f32` sum.
        "mma" "sync aligned m8n8k4 row|col row|col f32 f16 f16 f16|f32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of `.f16` matrices, plus a third.
        "mma" "sync aligned m16n8k8|m16n8k16 row col f16 f16 f16 f16" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// The same with an `.f32` sum.
        "mma" "sync aligned m16n8k8|m16n8k16 row col f32 f16 f16 f32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of `.bf16` matrices, plus a third.
        "mma" "sync aligned m16n8k8|m16n8k16 row col f32 bf16 bf16 f32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of `.tf32` matrices, plus a third.
        "mma" "sync aligned m16n8k4|m16n8k8 row col f32 tf32 tf32 f32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of matrices of 8-bit floats, plus a third.
        "mma" "sync aligned m16n8k16|m16n8k32 row col f32 e4m3|e5m2 e4m3|e5m2 f32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// The same with an `.f16` sum.
        "mma" "sync aligned m16n8k16|m16n8k32 row col f16 e4m3|e5m2 e4m3|e5m2 f16" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of `.f64` matrices, plus a third.
        "mma" "sync aligned m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col @round? f64 f64 f64 f64" "={b64} {b64} {b64} {b64}" => Emit matrix::mma::mma;
        /// Product of matrices of bytes, plus a third.
        "mma" "sync aligned m8n8k16|m16n8k16|m16n8k32 row col satfinite? s32 s8|u8 s8|u8 s32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of matrices of 4-bit integers, plus a third.
        "mma" "sync aligned m8n8k32|m16n8k32|m16n8k64 row col satfinite? s32 s4|u4 s4|u4 s32" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Numbers of bits that rows and columns share, or do not, plus a third matrix.
        "mma" "sync aligned m8n8k128|m16n8k128|m16n8k256 row col s32 b1 b1 s32 xor|and popc" "={b32} {b32} {b32} {b32}" => Emit matrix::mma::mma;
        /// Product of `.f16` matrices of which the first is half empty.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k16|m16n8k32 row col f16 f16 f16 f16" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
        /// The same with an `.f32` sum.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k16|m16n8k32 row col f32 f16 f16 f32" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
        /// The same of `.bf16`.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k16|m16n8k32 row col f32 bf16 bf16 f32" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
        /// The same of `.tf32`.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k8|m16n8k16 row col f32 tf32 tf32 f32" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
        /// The same of 8-bit floats.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k64 row col f32 e4m3|e5m2 e4m3|e5m2 f32" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
        /// The same of bytes.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k32|m16n8k64 row col satfinite? s32 s8|u8 s8|u8 s32" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
        /// The same of 4-bit integers.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k64|m16n8k128 row col satfinite? s32 s4|u4 s4|u4 s32" "={b32} {b32} {b32} {b32} b32 imm" => Emit matrix::mma::sparse;
    }
    "matrices" [Tensor, Mixes, WEAK, 0] {
        /// Load of a fragment of A or B.
        "wmma" ".load .a|b sync aligned row|col m16n16k16|m32n8k16|m8n32k16 global|shared|shared::cta? f16|bf16|s8|u8" "={b32} [a] u32?" => Emit matrix::wmma::load;
        /// The same of `.tf32`.
        "wmma" ".load .a|b sync aligned row|col m16n16k8 global|shared|shared::cta? tf32" "={b32} [a] u32?" => Emit matrix::wmma::load;
        /// The same of `.f64`.
        "wmma" ".load .a|b sync aligned row|col m8n8k4 global|shared|shared::cta? f64" "={b64} [a] u32?" => Emit matrix::wmma::load;
        /// The same of elements narrower than a byte, A by rows.
        "wmma" ".load .a sync aligned row m8n8k32|m8n8k128 global|shared|shared::cta? s4|u4|b1" "={b32} [a] u32?" => Emit matrix::wmma::load;
        /// B by columns.
        "wmma" ".load .b sync aligned col m8n8k32|m8n8k128 global|shared|shared::cta? s4|u4|b1" "={b32} [a] u32?" => Emit matrix::wmma::load;
        /// Load of a fragment of C.
        "wmma" ".load .c sync aligned row|col m16n16k16|m32n8k16|m8n32k16 global|shared|shared::cta? f16|f32|s32" "={b32} [a] u32?" => Emit matrix::wmma::load;
        /// The same of other shapes.
        "wmma" ".load .c sync aligned row|col m16n16k8|m8n8k4|m8n8k32|m8n8k128 global|shared|shared::cta? f32|f64|s32" "={b32} [a] u32?" => Emit matrix::wmma::load;
        /// Store of a fragment of D.
        "wmma" ".store .d sync aligned row|col m16n16k16|m32n8k16|m8n32k16 global|shared|shared::cta? f16|f32|s32" "[a] {b32} u32?" => Emit matrix::wmma::store;
        /// The same of other shapes.
        "wmma" ".store .d sync aligned row|col m16n16k8|m8n8k4|m8n8k32|m8n8k128 global|shared|shared::cta? f32|f64|s32" "[a] {b32} u32?" => Emit matrix::wmma::store;
        /// Product of fragments of `.f16`, plus a third.
        "wmma" ".mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 f16|f32 f16|f32" "={b32} {b32} {b32} {b32}" => Emit matrix::wmma::mma;
        /// The same of `.bf16`.
        "wmma" ".mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 f32 bf16 bf16 f32" "={b32} {b32} {b32} {b32}" => Emit matrix::wmma::mma;
        /// The same of `.tf32`.
        "wmma" ".mma sync aligned row|col row|col m16n16k8 f32 tf32 tf32 f32" "={b32} {b32} {b32} {b32}" => Emit matrix::wmma::mma;
        /// The same of `.f64`.
        "wmma" ".mma sync aligned row|col row|col m8n8k4 @round? f64 f64 f64 f64" "={b64} {b64} {b64} {b64}" => Emit matrix::wmma::mma;
        /// The same of bytes.
        "wmma" ".mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 s32 s8|u8 s8|u8 s32 satfinite?" "={b32} {b32} {b32} {b32}" => Emit matrix::wmma::mma;
        /// The same of 4-bit integers.
        "wmma" ".mma sync aligned row col m8n8k32 s32 s4|u4 s4|u4 s32 satfinite?" "={b32} {b32} {b32} {b32}" => Emit matrix::wmma::mma;
        /// Numbers of bits that rows and columns share, or do not, plus a third fragment.
        "wmma" ".mma xor|and popc sync aligned row col m8n8k128 s32 b1 b1 s32" "={b32} {b32} {b32} {b32}" => Emit matrix::wmma::mma;
        /// Registers and shared memory that a following `wgmma.mma_async` reads are ready.
        "wgmma" ".fence sync aligned" "" => Emit matrix::wgmma::order;
        /// End of a group of multiplications.
        "wgmma" ".commit_group sync aligned" "" => Emit matrix::wgmma::order;
        /// Wait until no more than some groups are under way.
        "wgmma" ".wait_group sync aligned" "imm" => Emit matrix::wgmma::wait;
        /// Product of `.f16` matrices by a warpgroup, plus D.
        "wgmma" ".mma_async sync aligned @m64k16 f16|f32 f16 f16" "={b32} {b32}/b64 b64 pred imm imm imm imm?" => Emit matrix::wgmma::mma_async;
        /// The same of `.bf16`.
        "wgmma" ".mma_async sync aligned @m64k16 f32 bf16 bf16" "={b32} {b32}/b64 b64 pred imm imm imm imm?" => Emit matrix::wgmma::mma_async;
        /// The same of `.tf32`.
        "wgmma" ".mma_async sync aligned @m64k8 f32 tf32 tf32" "={b32} {b32}/b64 b64 pred imm imm" => Emit matrix::wgmma::mma_async;
        /// The same of 8-bit floats.
        "wgmma" ".mma_async sync aligned @m64k32 f16|f32 e4m3|e5m2 e4m3|e5m2" "={b32} {b32}/b64 b64 pred imm imm" => Emit matrix::wgmma::mma_async;
        /// The same of bytes.
        "wgmma" ".mma_async sync aligned @m64k32int satfinite? s32 s8|u8 s8|u8 satfinite?" "={b32} {b32}/b64 b64 pred" => Emit matrix::wgmma::mma_async;
        /// Product of `.f16` matrices of which the first is half empty, plus D.
        "wgmma" ".mma_async .sp sync aligned @m64k32 f16|f32 f16 f16" "={b32} {b32}/b64 b64 b32 imm pred imm imm imm imm?" => Emit matrix::wgmma::mma_async;
        /// The same of `.bf16`.
        "wgmma" ".mma_async .sp sync aligned @m64k32 f32 bf16 bf16" "={b32} {b32}/b64 b64 b32 imm pred imm imm imm imm?" => Emit matrix::wgmma::mma_async;
        /// The same of `.tf32`.
        "wgmma" ".mma_async .sp sync aligned @m64k16 f32 tf32 tf32" "={b32} {b32}/b64 b64 b32 imm pred imm imm" => Emit matrix::wgmma::mma_async;
        /// The same of 8-bit floats.
        "wgmma" ".mma_async .sp sync aligned @m64k64 f16|f32 e4m3|e5m2 e4m3|e5m2" "={b32} {b32}/b64 b64 b32 imm pred imm imm" => Emit matrix::wgmma::mma_async;
        /// The same of bytes.
        "wgmma" ".mma_async .sp sync aligned @m64k64int satfinite? s32 s8|u8 s8|u8 satfinite?" "={b32} {b32}/b64 b64 b32 imm pred" => Emit matrix::wgmma::mma_async;
        /// Numbers of bits that rows and columns share, plus D.
        "wgmma" ".mma_async sync aligned @m64k256 s32 b1 b1 and popc" "={b32} {b32}/b64 b64 pred" => Emit matrix::wgmma::mma_async;
    }
    "barriers" [Barrier, Steers, WEAK, 0] {
        /// Wait until the threads of the block, or a number of them, have come.
        "bar" ".cta? .sync|arrive" "u32 u32?" => Emit barrier::bar;
        /// Wait, and learn in how many threads, in all or in any a predicate holds.
        "bar" ".cta? .red .popc u32" "=u32 u32 u32? pred" => Emit barrier::bar;
        /// Wait, and learn whether a predicate holds in all threads or in any.
        "bar" ".cta? .red .and|or pred" "=pred u32 u32? pred" => Emit barrier::bar;
        /// Wait until the threads of the block, or a number of them, have come.
        "barrier" ".cta? .sync|arrive aligned?" "u32 u32?" => Emit barrier::bar;
        /// Wait, and learn in how many threads a predicate holds.
        "barrier" ".cta? .red .popc aligned? u32" "=u32 u32 u32? pred" => Emit barrier::bar;
        /// Wait, and learn whether a predicate holds in all threads or in any.
        "barrier" ".cta? .red .and|or aligned? pred" "=pred u32 u32? pred" => Emit barrier::bar;
    }
    "clusters" [Move, Mixes, WEAK, 0] {
        /// Arrival at the barrier of the cluster.
        "barrier" ".cluster .arrive release|relaxed? aligned?" "" [class Barrier rule Steers order (order::spelled)] => Pick cluster::arrive;
        /// Wait until all threads of the cluster have arrived at its barrier.
        "barrier" ".cluster .wait acquire? aligned?" "" [class Barrier rule Steers order (order::spelled)] => Pick cluster::wait;
        /// Address of the same thing in the shared memory of another block of the cluster.
        "mapa" "shared::cluster? u32|u64" "=t t u32" => Pick cluster::mapa;
        /// Rank of the block whose shared memory an address lies in.
        "getctarank" "shared::cluster? u32|u64" "=u32 t" => Pick cluster::getctarank;
        /// Order between launches that depend on each other.
        "griddepcontrol" "launch_dependents|wait" "" [class Other] => Pick cluster::griddepcontrol;
    }
    "mbarriers" [Barrier, Mixes, (order::arrival), 0] {
        /// An mbarrier for so many arrivals a phase.
        "mbarrier" ".init shared|shared::cta? b64" "[a] u32" => Emit mbarrier::init;
        /// The end of an mbarrier.
        "mbarrier" ".inval shared|shared::cta? b64" "[a]" => Emit mbarrier::init;
        /// More bytes that the phase expects.
        "mbarrier" ".expect_tx relaxed? @scope? shared|shared::cta|shared::cluster? b64" "[a] u32" => Emit mbarrier::count_bytes;
        /// Bytes that have come, without a copy.
        "mbarrier" ".complete_tx relaxed? @scope? shared|shared::cta|shared::cluster? b64" "[a] u32" => Emit mbarrier::count_bytes;
        /// Arrivals, perhaps with more bytes that the phase expects.
        "mbarrier" ".arrive|arrive_drop .expect_tx? release|relaxed? @scope? shared|shared::cta|shared::cluster? b64" "=b64 [a] u32?" => Emit mbarrier::arrive;
        /// Arrivals that do not end the phase.
        "mbarrier" ".arrive|arrive_drop .noComplete release? cta? shared|shared::cta? b64" "=b64 [a] u32?" => Emit mbarrier::arrive;
        /// Whether the phase of a state, or the one of a parity, is over.
        "mbarrier" ".test_wait|try_wait .parity? acquire|relaxed? @scope? shared|shared::cta? b64" "=pred [a] u32/b64 u32?" [order (order::wait)] => Emit mbarrier::test;
        /// The arrivals that a phase lacked when a state was taken.
        "mbarrier" ".pending_count b64" "=u32 b64" => Pick mbarrier::pending_count;
    }
    "asynchronous copies" [Copy, Mixes, WEAK, 0] {
        /// Copy from device to shared memory; the rest of the target becomes zero.
        "cp" ".async ca|cg shared|shared::cta global L2::cache_hint? @prefetch?" "[a] [a] imm u32/pred? b64@L2::cache_hint" => Emit copy::cp_async;
        /// End of a group of copies.
        "cp" ".async .commit_group" "" => Pick copy::commit;
        /// Wait until at most so many groups are under way.
        "cp" ".async .wait_group" "imm" => Pick copy::wait_group;
        /// Wait for all copies.
        "cp" ".async .wait_all" "" => Pick copy::wait_all;
        /// Arrival at an mbarrier once the copies before are done.
        "cp" ".async .mbarrier .arrive .noinc? shared|shared::cta? b64" "[a]" [order (order::arrival)] => Emit copy::arrive_after;
        /// Bulk copy to shared memory, which an mbarrier learns of.
        "cp" ".async .bulk shared::cluster global mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?" "[a] [a] u32 [a] u16@multicast::cluster b64@L2::cache_hint" => Emit bulk::cp_bulk;
        /// Bulk copy to the block's own shared memory.
        "cp" ".async .bulk shared::cta global mbarrier::complete_tx::bytes L2::cache_hint?" "[a] [a] u32 [a] b64@L2::cache_hint" => Emit bulk::cp_bulk;
        /// Bulk copy to the shared memory of another block.
        "cp" ".async .bulk shared::cluster shared::cta mbarrier::complete_tx::bytes" "[a] [a] u32 [a]" => Emit bulk::cp_bulk;
        /// Bulk copy to device memory, in a group.
        "cp" ".async .bulk global shared::cta bulk_group L2::cache_hint?" "[a] [a] u32 b64@L2::cache_hint" => Emit bulk::cp_bulk;
        /// Hint to fetch device memory.
        "cp" ".async .bulk .prefetch L2 global L2::cache_hint?" "[a] u32 b64@L2::cache_hint" => Emit bulk::prefetch;
        /// Update of another block's shared memory with a range.
        "cp" ".reduce .async .bulk shared::cluster shared::cta mbarrier::complete_tx::bytes add|min|max|inc|dec|and|or|xor b32|u32|s32|u64" "[a] [a] u32 [a]" => Emit bulk::cp_bulk;
        /// Update of device memory with a range.
        "cp" ".reduce .async .bulk global shared::cta bulk_group L2::cache_hint? add|min|max|inc|dec|and|or|xor noftz? f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64" "[a] [a] u32 b64@L2::cache_hint" => Emit bulk::cp_bulk;
        /// Copy of a box of a tensor to shared memory, which an mbarrier learns of.
        "cp" ".async .bulk .tensor 1d|2d|3d|4d|5d shared::cluster|shared::cta global tile|im2col? mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?" "[a] [map] [a] {u16}@im2col u16@multicast::cluster b64@L2::cache_hint" => Emit tensor::cp_load;
        /// Copy of a box of a tensor from shared memory, in a group.
        "cp" ".async .bulk .tensor 1d|2d|3d|4d|5d global shared::cta tile|im2col_no_offs? bulk_group L2::cache_hint?" "[map] [a] b64@L2::cache_hint" => Emit tensor::cp_store;
        /// Update of a box of a tensor.
        "cp" ".reduce .async .bulk .tensor 1d|2d|3d|4d|5d global shared::cta add|min|max|inc|dec|and|or|xor tile|im2col_no_offs? bulk_group L2::cache_hint?" "[map] [a] b64@L2::cache_hint" => Emit tensor::cp_store;
        /// Hint to fetch a box of a tensor.
        "cp" ".async .bulk .prefetch .tensor 1d|2d|3d|4d|5d L2 global tile|im2col? L2::cache_hint?" "[map] {u16}@im2col b64@L2::cache_hint" => Emit tensor::cp_prefetch;
        /// Change of a field of a tensor map.
        "tensormap" ".replace tile global_address|global_stride global|shared::cta? b1024 b64" "[a] imm? t" [class Integer] => Emit tensor::tensormap_replace;
        /// Change of a field of a tensor map.
        "tensormap" ".replace tile rank|box_dim|global_dim|element_stride|elemtype|interleave_layout|swizzle_mode|fill_mode global|shared::cta? b1024 b32" "[a] imm? t" [class Integer] => Emit tensor::tensormap_replace;
        /// Copy of a tensor map from shared to device memory, with a fence.
        "tensormap" ".cp_fenceproxy global shared::cta tensormap::generic release @scope sync aligned" "[a] [a] imm" [class Other order (order::spelled)] => Emit tensor::cp_fenceproxy;
        /// End of a group of bulk copies.
        "cp" ".async .bulk .commit_group" "" => Pick bulk::commit;
        /// Wait until at most so many groups of bulk copies are under way, or have not read their sources.
        "cp" ".async .bulk .wait_group read?" "imm" => Pick bulk::wait_group;
        /// Store to another block's shared memory, which an mbarrier learns of.
        "st" ".async weak? shared::cluster? mbarrier::complete_tx::bytes v2|v4? b32|b64|u32|u64|s32|s64|f32|f64" "[a] {t} [a]" [class Store rule Store] => Emit bulk::store_async;
        /// Update of another block's shared memory, which an mbarrier learns of.
        "red" ".async relaxed? cluster? shared::cluster? mbarrier::complete_tx::bytes add|min|max|inc|dec|and|or|xor b32|u32|s32|u64" "[a] t [a]" [class Atomic rule (rule::atomic) order (order::atomic)] => Emit bulk::store_async;
        /// Number of registers of a warp.
        "setmaxnreg" ".inc|dec sync aligned u32" "imm" [class Integer] => Emit bulk::setmaxnreg;
        /// Fence behind the initialisation of mbarriers.
        "fence" ".mbarrier_init release cluster" "" [class Fence order (order::fence)] => Pick memory::full_fence;
    }
}
