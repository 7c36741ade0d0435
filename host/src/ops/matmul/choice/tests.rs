//! What the model chooses, beside what was measured.

use super::candidates::group;
use super::*;

const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0), tuning: None };
const A100: Machine = Machine { multiprocessors: 108, compute_capability: (8, 0), tuning: None };
const WIDE: Kernel = Kernel::Hopper { tile: Tile::Wide, is_exchanged: false };
const WHOLE: Allows = Allows { splits: false, ..Allows::ALL };

fn choice(m: usize, n: usize, k: usize) -> Choice {
    Choice::new(&H200, [m, n, k], 1, Allows::ALL)
}

#[test]
fn large_products_take_wide_tiles_and_whole_sums() {
    for n in [2048, 4096, 8192, 16384] {
        let found = choice(n, n, n);
        assert_eq!((found.kernel, found.splits), (WIDE, 1), "{n}");
    }
}

#[test]
fn multiprocessors_are_left_to_others() {
    let limited = |most| H200.limited(&Options::<f32>::new().most_multiprocessors(most));
    let blocks = |most| Choice::new(&limited(most), [8192; 3], 1, Allows::ALL).blocks;
    assert_eq!([blocks(116), blocks(132), blocks(500), blocks(0)], [116, 132, 132, 1]);
    let least = Options::<f32>::new().most_multiprocessors(9).most_multiprocessors(20);
    assert_eq!(H200.limited(&least).multiprocessors, 9);
}

#[test]
fn few_tiles_are_split_along_k() {
    // One tile: enough blocks for all of the memory's bandwidth.
    let long = choice(128, 128, 1 << 20);
    assert!((96..=132).contains(&long.splits) && long.passes <= 132, "{long}");
    assert_eq!((choice(128, 128, 128).splits, choice(128, 128, 128).parts), (1, 1));
    assert_eq!(Choice::new(&H200, [128, 128, 1 << 20], 1, WHOLE).splits, 1);
    // A few more blocks: those of a cluster add their sums themselves.
    let layer = choice(128, 8192, 8192);
    assert!(layer.splits == 1 && layer.parts == 2, "{layer}");
}

#[test]
fn a_last_round_of_few_tiles_is_streamed() {
    // 16 × 11 tiles of 192 columns are a round and a third: each block has the steps of a tile and a third.
    let found = choice(2048, 2112, 7168);
    let middle = Kernel::Hopper { tile: Tile::Middle, is_exchanged: false };
    assert_eq!((found.kernel, found.streamed, found.splits, found.parts), (middle, 176, 1, 1));
    assert_eq!((found.blocks, found.passes), (132, 176));
    assert_eq!(found.partial_bytes(2048, 2112, 1), 132 * 128 * 192 * 4);
    // Rounds of whole tiles come first: of the 16 × 17 of these, two rounds less what the last 140 tiles are.
    let mut streamed = Vec::new();
    Choice::for_each(&H200, [2048, 4352, 7168], 1, Allows::ALL, |choice| {
        if choice.kernel == WIDE && choice.streamed > 0 {
            streamed.push((choice.streamed, choice.passes));
        }
    });
    assert_eq!(streamed, [(140, 272)]);
    // Elements of other sizes have no such kernels, and a full last round has no use for them.
    for (sizes, element_bytes) in [([2048, 2112, 7168], 4), ([1536, 2816, 4096], 2)] {
        let allows = Allows { element_bytes, ..Allows::ALL };
        Choice::for_each(&H200, sizes, 1, allows, |choice| {
            let is_full = choice.passes.is_multiple_of(132);
            assert!(choice.streamed == 0 || element_bytes == 2 && !is_full, "{choice}");
        });
    }
    let small = Machine { multiprocessors: 300, ..H200 };
    assert_eq!(Choice::new(&small, [2048, 2112, 7168], 1, Allows::ALL).streamed, 0);
}

#[test]
fn small_tiles_are_streamed_where_some_multiprocessors_would_have_two() {
    // 224 tiles: of the slim ones 264 run at a time, of the narrow ones 132.
    for (m, tile, blocks) in [(1, Tile::Slim, 264), (16, Tile::Slim, 264), (64, Tile::Narrow, 132)]
    {
        for [m, n] in [[m, 28_672], [28_672, m]] {
            let found = choice(m, n, 8192);
            let kernel = Kernel::Hopper { tile, is_exchanged: m < n };
            assert_eq!((found.kernel, found.streamed, found.blocks), (kernel, 224, blocks));
            assert_eq!(found.partial_bytes(m, n, 1), blocks * 128 * tile.columns() * 4);
        }
    }
    // One tile at most for each multiprocessor, and parts of clusters for all of them.
    for [n, k] in [[14_336, 4096], [8192, 8192]] {
        assert_eq!(choice(16, n, k).streamed, 0);
    }
}

#[test]
fn what_is_fast_already_is_not_streamed() {
    // Shapes that reach 0.97 of the peer or more on an H200 without.
    let layers = [[4096, 4096], [14_336, 4096], [4096, 14_336], [8192, 8192], [28_672, 8192]];
    let rows = |[n, k]: [usize; 2]| [512, 2048, 8192].map(|m| [m, n, k]);
    let squares = [1024, 2048, 4096, 8192, 16_384].map(|n| [n; 3]);
    for [m, n, k] in layers.into_iter().flat_map(rows).chain(squares) {
        let found = choice(m, n, k);
        assert_eq!(found.streamed, 0, "{m} {n} {k}: {found}");
    }
}

#[test]
fn narrow_tiles_keep_more_multiprocessors_at_work() {
    // 132 tiles, 4 × 33, of which each multiprocessor has one; 128; 32 instead of 16, and 8, whose steps clusters divide.
    let narrow = Kernel::Hopper { tile: Tile::Narrow, is_exchanged: false };
    for ([m, n, k], parts) in [([512, 2112, 7168], 1), ([1024; 3], 1), ([512; 3], 2), ([256; 3], 4)]
    {
        let found = choice(m, n, k);
        assert_eq!((found.kernel, found.splits, found.parts), (narrow, 1, parts), "{found}");
    }
    assert_eq!(choice(512, 2112, 7168).blocks, 132);
    // A second round of them is longer than one of larger tiles.
    assert_ne!(choice(1024, 2112, 7168).kernel, narrow);
}

#[test]
fn few_rows_or_columns_are_bound_by_memory() {
    for [n, k] in [[4096, 4096], [14_336, 4096], [8192, 28_672], [128_256, 4096], [2112, 7168]] {
        for (m, tile) in [(1, Tile::Slim), (16, Tile::Slim), (17, Tile::Narrow)] {
            let [rows, columns] = [choice(m, n, k), choice(n, m, k)];
            assert_eq!(rows.kernel, Kernel::Hopper { tile, is_exchanged: true }, "{rows}");
            assert_eq!(columns.kernel, Kernel::Hopper { tile, is_exchanged: false }, "{columns}");
            assert_eq!((rows.parts, rows.cycles), (columns.parts, columns.cycles));
        }
        for m in [1, 8, 16] {
            let of = |m, n| Choice::new(&A100, [m, n, k], 1, Allows::ALL);
            let [rows, columns] = [of(m, n), of(n, m)];
            assert_eq!(rows.kernel, Kernel::Skinny { is_exchanged: false }, "{rows}");
            assert_eq!(columns.kernel, Kernel::Skinny { is_exchanged: true }, "{columns}");
            assert_eq!(rows.partial_bytes(m, n, 1), columns.partial_bytes(n, m, 1));
        }
    }
    let long = choice(16, 256, 1 << 16);
    assert!(long.splits * long.parts > 8, "{long}");
}

/// Of matrices whose rows the copy engine does not address.
fn unaligned(machine: &Machine, [m, n, k]: [usize; 3]) -> Choice {
    let allows = Allows { copy_engine: false, packed: [m * k, k * n], ..Allows::ALL };
    Choice::new(machine, [m, n, k], 1, allows)
}

#[test]
fn what_the_copy_engine_cannot_address_is_copied_where_that_pays() {
    for sizes in [[1000; 3], [4095, 4097, 4099], [130, 8000, 4000]] {
        let choice = unaligned(&H200, sizes);
        assert!(choice.packs && matches!(choice.kernel, Kernel::Hopper { .. }), "{choice}");
        assert_eq!(unaligned(&A100, sizes).kernel, Kernel::Warps);
    }
    assert_eq!(unaligned(&H200, [100, 100, 50]).kernel, Kernel::Warps);
    let own = Allows { copy_engine: false, packed: [1000 * 1000; 2], ..WHOLE };
    assert_eq!(Choice::new(&H200, [1000; 3], 1, own).kernel, Kernel::Warps);
    let few = unaligned(&A100, [16, 1000, 1000]);
    assert_eq!(few.kernel, Kernel::Skinny { is_exchanged: false }, "{few}");
    assert_eq!(Choice::new(&A100, [1000; 3], 1, Allows::ALL).kernel, Kernel::Warps);
}

#[test]
fn elements_of_other_sizes_take_their_tiles() {
    // As fast as 16-bit elements by their bytes, but for D.
    let tf32 = Allows { element_bytes: 4, skinny: false, ..Allows::ALL };
    let cycles = |k, allows| Choice::new(&H200, [4096, 4096, k], 1, allows).cycles;
    let ratio = cycles(4096, tf32) / cycles(8192, Allows::ALL);
    assert!((1.0..1.02).contains(&ratio), "{ratio}");
    let fp8 = Allows { element_bytes: 1, widest: 192, skinny: false, ..Allows::ALL };
    let choice = Choice::new(&H200, [8192; 3], 1, fp8);
    let middle = Kernel::Hopper { tile: Tile::Middle, is_exchanged: false };
    assert_eq!(choice.kernel, middle, "{choice}");
    let few = Choice::new(&A100, [16, 4096, 4096], 1, tf32);
    assert_eq!(few.kernel, Kernel::Warps, "{few}");
}

#[test]
fn the_model_is_near_what_was_measured() {
    // Microseconds on an H200, of 1750 cycles.
    let measured = [
        ([512; 3], 5.3),
        ([1024; 3], 9.2),
        ([2048; 3], 25.3),
        ([4096; 3], 181.0),
        ([8192; 3], 1394.0),
        ([16, 8192, 8192], 34.1),
        ([64, 4096, 14_336], 33.6),
        ([128, 14_336, 4096], 36.1),
        ([512, 4096, 14_336], 82.2),
        ([2048, 2112, 7168], 94.1),
        ([64, 28_672, 8192], 121.4),
    ];
    for ([m, n, k], time) in measured {
        let expected = choice(m, n, k).cycles / 1750.0;
        assert!((0.75..1.25).contains(&(expected / time)), "{m} {n} {k}: {expected} µs");
    }
}

#[test]
fn more_work_never_takes_less_time() {
    let sizes = [1, 64, 128, 129, 500, 1024, 2048, 4096, 10000];
    for m in sizes {
        for k in sizes {
            let at = |n: usize| choice(m, n, k).cycles;
            assert!(sizes.windows(2).all(|n| at(n[0]) <= at(n[1])), "{m} {k}");
        }
    }
}

#[test]
fn the_scratch_holds_the_parts() {
    let split = choice(128, 126, 1 << 20);
    assert_eq!(split.partial_bytes(128, 126, 1), split.splits as usize * 128 * 128 * 4);
    assert_eq!(choice(4096, 4096, 4096).partial_bytes(4096, 4096, 1), 0);
}

#[test]
fn groups_are_about_square() {
    assert_eq!(
        (group(132, Tile::Wide), group(132, Tile::Square), group(1, Tile::Square)),
        (16, 11, 1)
    );
}

#[test]
fn a_choice_explains_itself() {
    let text = choice(4096, 4096, 4096).to_string();
    assert!(text.contains("tiles of 128 × 256, 512 passes on 132 blocks"), "{text}");
    let text = choice(16, 4096, 4096).to_string();
    assert!(text.contains("tiles of 128 × 16 of the transpose, 64 passes on 64 blocks"), "{text}");
    assert!(text.contains("K in 2 parts, each of a block of a cluster"), "{text}");
    let text = Choice::new(&A100, [4096, 16, 4096], 1, Allows::ALL).to_string();
    assert!(text.contains("columns at most 16, 128 blocks of 32 rows"), "{text}");
    assert!(choice(64, 64, 0).to_string().contains("no products"));
    let text = choice(2048, 2112, 7168).to_string();
    assert!(
        text.contains("the steps of the last 176 tiles divided evenly among the blocks"),
        "{text}"
    );
    let text = unaligned(&H200, [4095; 3]).to_string();
    assert!(text.starts_with("operands are copied first, for their order"), "{text}");
    let old = Choice::new(&A100, [1000; 3], 1, Allows::ALL).to_string();
    assert!(old.contains("warp kernel (mma, cp.async)"), "{old}");
}
