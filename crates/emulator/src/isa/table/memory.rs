//! Forms that move values, touch memory, and decide where threads go on.

use crate::exec::ops::{atomic, control, memory, moves, stack};
use crate::isa::{Class, Form, Lowering, Order, Properties, Rule, class, order, rule};

forms! {
    "moves and addresses" [Move, Copies, WEAK, 0] {
        /// Copy of a register, an immediate, an address, or a special register.
        "mov" "@int|f32|f64" "=t t" => Pick moves::mov;
        /// Copy of a predicate.
        "mov" "pred" "=pred pred" => Pick moves::mov_pred;
        /// Copy of bits; a vector is put together or taken apart.
        "mov" "@bits|b128" "={t} {t}" => Emit moves::mov_bits;
        /// Copy of a vector, 128 bits long at most.
        "mov" "v2|v4 @bits|@int|f32|f64" "={t} {t}" => Emit moves::mov_vector;
        /// Address of a space to a generic address.
        "cvta" "global|const|shared|shared::cta|shared::cluster|local|param|param::entry u64" "=t t" => Pick moves::cvta;
        /// Generic address to an address of a space.
        "cvta" ".to global|const|shared|shared::cta|shared::cluster|local|param|param::entry u64" "=t t" => Pick moves::cvta_to;
        /// Memory on the thread's stack.
        "alloca" "u32|u64" "=t t imm?" [class Integer rule Mixes] => Emit stack::alloca;
        /// The top of the thread's stack.
        "stacksave" "u32|u64" "=t" [class Integer rule Mixes] => Pick stack::save;
        /// Back to a top of the thread's stack.
        "stackrestore" "u32|u64" "t" [class Integer rule Mixes] => Pick stack::restore;
        /// Whether a generic address lies in a space.
        "isspacep" "const|global|shared|shared::cta|shared::cluster|local|param|param::entry" "=pred u64" [rule Mixes] => Pick moves::isspacep;
    }
    "memory" [(class::load), Load, (order::access), 0] {
        /// Load. Cache hints change nothing here.
        "ld" "weak? global|const|shared|shared::cta|shared::cluster|local|param|param::entry|param::func? ca|cg|cs|lu|cv? @evict? @hint? @prefetch? v2|v4? @mem" "={t}~ [a] b64@L2::cache_hint" => Emit memory::ld;
        /// Load of data that nobody writes.
        "ld" "global ca|cg|cs? nc @evict? @hint? @prefetch? v2|v4? @mem" "={t}~ [a] b64@L2::cache_hint" [read_only] => Emit memory::ld;
        /// Load that is never left out.
        "ld" "volatile global|const|local|shared|shared::cta|shared::cluster|param? @prefetch? v2|v4? @mem" "={t}~ [a]" => Emit memory::ld;
        /// Load that other threads may race with; `acquire` orders what follows.
        "ld" "relaxed|acquire @scope global|shared|shared::cta|shared::cluster? @evict? @hint? @prefetch? v2|v4? @mem" "={t}~ [a] b64@L2::cache_hint" => Emit memory::ld;
        /// Load from a device's registers.
        "ld" "mmio relaxed sys global? @mem" "={t}~ [a]" => Emit memory::ld;
        /// Load of data that is the same for the warp.
        "ldu" "global? v2|v4? @mem" "={t}~ [a]" => Emit memory::ld;
    }
    "memory" [(class::store), Store, (order::access), 0] {
        /// Store. Cache hints change nothing here.
        "st" "weak? global|shared|shared::cta|shared::cluster|local|param|param::func? wb|cg|cs|wt? @evict? @hint? v2|v4? @mem" "[a] {t}~ b64@L2::cache_hint" => Emit memory::st;
        /// Store that is never left out.
        "st" "volatile global|local|shared|shared::cta|shared::cluster? v2|v4? @mem" "[a] {t}~" => Emit memory::st;
        /// Store that other threads may race with; `release` orders what came before.
        "st" "relaxed|release @scope global|shared|shared::cta|shared::cluster? @evict? @hint? v2|v4? @mem" "[a] {t}~ b64@L2::cache_hint" => Emit memory::st;
        /// Store to a device's registers.
        "st" "mmio relaxed sys global? @mem" "[a] {t}~" => Emit memory::st;
    }
    "memory" [Copy, Mixes, WEAK, 0] {
        /// Hint to fetch a cache line.
        "prefetch" "global|local? L1|L2|L2::evict_last|L2::evict_normal" "[a]" => Emit memory::hint;
        /// Hint to fetch a tensor map.
        "prefetch" "const|param? tensormap" "[a]" => Emit memory::hint;
        /// Hint to keep a range in the cache.
        "applypriority" "global? L2::evict_normal" "[a] imm?" => Emit memory::hint;
        /// Hint that a range need not be written back. Its bytes stay as they are.
        "discard" "global? L2" "[a] imm?" => Emit memory::hint;
        /// Hint to fetch a cache line through the uniform cache.
        "prefetchu" "L1" "[a]" => Emit memory::hint;
    }
    "memory" [Integer, Mixes, WEAK, 0] {
        /// A policy of the cache, for a part of all accesses.
        "createpolicy" ".fractional @policy @policy? b64" "=b64 f32?" => Pick memory::policy;
        /// A policy of the cache, for a range.
        "createpolicy" ".range global? @policy @policy? b64" "=b64 [a] b32 b32" => Emit memory::range_policy;
        /// A policy of the cache, from a property.
        "createpolicy" ".cvt L2 b64" "=b64 b64" => Pick moves::mov;
    }
    "memory" [Fence, Mixes, (order::fence), 0] {
        /// Fence.
        "membar" "cta|gl|sys" "" [order (order::membar)] => Pick memory::full_fence;
        /// Fence between ways to the same memory.
        "membar" ".proxy alias" "" [order (order::membar)] => Pick memory::full_fence;
        /// Fence.
        "fence" "sc|acq_rel|acquire|release? @scope" "" => Pick memory::full_fence;
        /// Fence between ways to the same memory.
        "fence" ".proxy alias|async" "" => Pick memory::full_fence;
        /// Fence between ways to the same memory.
        "fence" ".proxy async global|shared::cta|shared::cluster" "" => Pick memory::full_fence;
        /// Fence for the shared memory of a cluster only.
        "fence" "acquire sync_restrict::shared::cluster cluster" "" => Pick memory::full_fence;
        /// Fence for the block's shared memory only.
        "fence" "release sync_restrict::shared::cta cluster" "" => Pick memory::full_fence;
        /// The same between ways to that memory.
        "fence" ".proxy async::generic acquire sync_restrict::shared::cluster cluster" "" => Pick memory::full_fence;
        /// The same between ways to that memory.
        "fence" ".proxy async::generic release sync_restrict::shared::cta cluster" "" => Pick memory::full_fence;
        /// Fence behind which a tensor map may be used that was written before it.
        "fence" ".proxy tensormap::generic release @scope" "" => Pick memory::full_fence;
        /// Fence behind which a tensor map may be used that was written before a release.
        "fence" ".proxy tensormap::generic acquire @scope" "[a] imm" => Emit memory::map_fence;
    }
    "control" [Control, Steers, WEAK, 0] {
        /// Jump.
        "bra" "uni?" "label" => Emit control::bra;
        /// Jump to an entry of a list.
        "brx" ".idx uni?" "u32 label" => Emit control::brx;
        /// Call.
        "call" "uni?" "(args)? label (args)? label?" [rule Calls] => Emit control::call;
        /// Return; from a kernel, the end of the thread.
        "ret" "uni?" "" => Emit control::lower_ret;
        /// End of the thread.
        "exit" "" "" => Pick control::exit;
        /// End of the kernel, as an error.
        "trap" "" "" => Pick control::trap;
        /// Breakpoint: as no debugger listens, an error.
        "brkpt" "" "" => Pick control::brkpt;
        /// Pause.
        "nanosleep" "u32" "u32" [rule Mixes] => Pick control::nanosleep;
        /// Event for a profiler.
        "pmevent" "mask?" "imm" [class Other rule Mixes] => Pick control::nothing;
    }
    "atomics" [Atomic, (rule::atomic), (order::atomic), 0] {
        /// Read-modify-write. Every one is sequentially consistent here.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? add|min|max|inc|dec @hint? u32|s32|u64|s64|f32|f64" "=t [a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Read-modify-write of bits.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? and|or|xor @hint? b32|b64" "=t [a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Exchange.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? exch @hint? b32|b64|b128" "=t [a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Exchange where what is expected is there.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? cas b16|b32|b64|b128" "=t [a] t t" => Emit atomic::atom;
        /// Sum of halves.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? add noftz @hint? f16|f16x2|bf16|bf16x2" "=t [a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Sums of floats side by side.
        "atom" "@order? @scope? global? add @hint? v2|v4 f32" "={t} [a] {t} b64@L2::cache_hint" => Emit atomic::atom;
        /// Sums and the like of halves side by side.
        "atom" "@order? @scope? global? add|min|max noftz @hint? v2|v4|v8 f16|bf16" "={t} [a] {t} b64@L2::cache_hint" => Emit atomic::atom;
        /// Sums and the like of pairs of halves side by side.
        "atom" "@order? @scope? global? add|min|max noftz @hint? v2|v4 f16x2|bf16x2" "={t} [a] {t} b64@L2::cache_hint" => Emit atomic::atom;
        /// Update without a result.
        "red" "relaxed|release? @scope? global|shared|shared::cta|shared::cluster? add|min|max|inc|dec @hint? u32|s32|u64|s64|f32|f64" "[a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Update of bits without a result.
        "red" "relaxed|release? @scope? global|shared|shared::cta|shared::cluster? and|or|xor @hint? b32|b64" "[a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Sum of halves without a result.
        "red" "relaxed|release? @scope? global|shared|shared::cta|shared::cluster? add noftz @hint? f16|f16x2|bf16|bf16x2" "[a] t b64@L2::cache_hint" => Emit atomic::atom;
        /// Sums of floats side by side.
        "red" "relaxed|release? @scope? global? add @hint? v2|v4 f32" "[a] {t} b64@L2::cache_hint" => Emit atomic::atom;
        /// Sums and the like of halves side by side.
        "red" "relaxed|release? @scope? global? add|min|max noftz @hint? v2|v4|v8 f16|bf16" "[a] {t} b64@L2::cache_hint" => Emit atomic::atom;
        /// Sums and the like of pairs of halves side by side.
        "red" "relaxed|release? @scope? global? add|min|max noftz @hint? v2|v4 f16x2|bf16x2" "[a] {t} b64@L2::cache_hint" => Emit atomic::atom;
    }
}
