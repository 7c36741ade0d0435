//! Rotary embeddings and caches against f64.
//!
//! Tolerance: the cosine and the sine are rounded, and so are two products and their sum: four roundings of what is added, to 24 bits, and that of the result to the
//! type of the elements.

use std::f64::consts::SQRT_2;

use cuda_std::bf16;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::attention::{
    Cache, Heads, HeadsLayout, HeadsMut, Positions, RotaryTable, append_into, rotary_in_place,
};
use ferrowarp::{GpuError, GpuResult};

use crate::rows::{assert_near, exact, random};
use crate::support::{gpu, poisoned, rng, upload};

const BASE: f64 = 10_000.0;
const ULP: f64 = 1.0 / (1 << 24) as f64;

/// The rows of a layout, each with batch, head and row.
fn rows(layout: HeadsLayout) -> impl Iterator<Item = ([usize; 3], usize)> {
    let HeadsLayout { batches, heads, rows, batch_stride, head_stride, row_stride, .. } = layout;
    let rows_of = move |b, h| {
        (0..rows).map(move |r| ([b, h, r], b * batch_stride + h * head_stride + r * row_stride))
    };
    let heads_of = move |b| (0..heads).flat_map(move |h| rows_of(b, h));
    (0..batches).flat_map(heads_of)
}

/// A row that is turned is what the reference says.
fn assert_turned(found: &[bf16], x: &[bf16], position: usize, what: [usize; 3]) {
    let x = exact(x);
    let expected = reference::attention::rotary(&x, position, BASE);
    let half = x.len() / 2;
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let added = x[i].abs() + x[(i + half) % x.len()].abs();
        assert_near(found, expected, 4.0 * added * ULP, || format!("{what:?}, element {i}"));
    }
}

#[test]
fn rows_are_turned_by_their_positions() -> GpuResult<()> {
    let mut rng = rng();
    for (layout, first) in [
        (HeadsLayout::by_head([2, 3, 5, 64]), 0),
        (HeadsLayout::by_row([1, 4, 33, 128]), 7),
        (HeadsLayout { row_stride: 40, ..HeadsLayout::by_head([1, 1, 9, 6]) }, 100),
        (HeadsLayout::by_head([2, 2, 1, 2]), 3),
        (HeadsLayout::by_head([2, 0, 3, 16]), 0),
        (HeadsLayout::by_head([0, 2, 3, 16]), 0),
        // More units of all heads than a block has threads; and heads that begin at any element.
        (HeadsLayout::by_row([2, 70, 3, 128]), 1),
        (HeadsLayout { head_stride: 21, row_stride: 64, ..HeadsLayout::by_row([1, 3, 4, 16]) }, 0),
    ] {
        let len = rows(layout).map(|(_, at)| at + layout.depth).max().unwrap_or(0);
        let x: Vec<bf16> = random(&mut rng, len, 2.0);
        let table = RotaryTable::new(gpu(), first + layout.rows, layout.depth, BASE)?;
        let mut turned = upload(&x);
        let view = HeadsMut::new(&mut turned, layout)?;
        rotary_in_place(gpu(), view, &table, Positions::From(first as u32), false)?;
        let found = turned.to_vec()?;
        for (what, at) in rows(layout) {
            let range = at..at + layout.depth;
            assert_turned(&found[range.clone()], &x[range], first + what[2], what);
        }
        // Back again. A turned element is below 4 and is rounded by at most 2^-7; two of them come into an element, with a sine and a cosine whose sum is at most √2,
        // and the element is rounded by at most 2^-7 once more.
        let allowed = (SQRT_2 + 1.0) / 128.0 + 64.0 * ULP;
        let view = HeadsMut::new(&mut turned, layout)?;
        rotary_in_place(gpu(), view, &table, Positions::From(first as u32), true)?;
        for (i, (found, x)) in turned.to_vec()?.iter().zip(&x).enumerate() {
            let error = (found.to_f64() - x.to_f64()).abs();
            assert!(error <= allowed, "element {i}: {found} instead of {x}");
        }
    }
    Ok(())
}

#[test]
fn rows_at_the_ends_of_sequences_have_their_positions() -> GpuResult<()> {
    let layout = HeadsLayout::by_head([3, 2, 2, 16]);
    let x: Vec<bf16> = random(&mut rng(), 192, 2.0);
    let table = RotaryTable::new(gpu(), 50, 16, BASE)?;
    let lengths = [2u32, 17, 50];
    let (mut turned, of_lengths) = (upload(&x), upload(&lengths));
    let positions = Positions::EndAt(of_lengths.as_slice());
    rotary_in_place(gpu(), HeadsMut::new(&mut turned, layout)?, &table, positions, false)?;
    let found = turned.to_vec()?;
    for (what, at) in rows(layout) {
        let position = lengths[what[0]] as usize - 2 + what[2];
        assert_turned(&found[at..at + 16], &x[at..at + 16], position, what);
    }
    Ok(())
}

#[test]
fn new_rows_come_to_their_places_in_a_cache() -> GpuResult<()> {
    // Elements one by one, and vectors, where values or keys are the longer ones.
    [[16, 8], [6, 5], [32, 48], [64, 16]].into_iter().try_for_each(assert_appended)
}

/// A cache in pages, or of whole batches, gets new rows of so many elements, and nothing else.
fn assert_appended([depth, value_depth]: [usize; 2]) -> GpuResult<()> {
    const PAGE: usize = 4;
    let mut rng = rng();
    let (batches, heads, new) = (2, 3, 3);
    let of_k = HeadsLayout::by_row([batches, heads, new, depth]);
    let of_v = HeadsLayout::by_head([batches, heads, new, value_depth]);
    let k: Vec<bf16> = random(&mut rng, batches * heads * new * depth, 2.0);
    let v: Vec<bf16> = random(&mut rng, batches * heads * new * value_depth, 2.0);
    let table = RotaryTable::new(gpu(), 32, depth, BASE)?;
    // The first batch's rows are on two pages; of the second's, the last one is behind its two pages.
    let (lengths, pages) = ([6u32, 9], [4u32, 0, 2, 5]);
    for has_pages in [true, false] {
        for turns in [Some(&table), None] {
            let (cache_batches, cache_rows) = if has_pages { (6, PAGE) } else { (batches, 8) };
            let to_k = HeadsLayout::by_head([cache_batches, heads, cache_rows, depth]);
            let to_v = HeadsLayout::by_head([cache_batches, heads, cache_rows, value_depth]);
            let len = |layout: HeadsLayout| layout.sizes().iter().product::<usize>();
            let (mut k_cache, mut v_cache) =
                (poisoned::<bf16>(len(to_k)), poisoned::<bf16>(len(to_v)));
            let (before_k, before_v) = (k_cache.to_vec()?, v_cache.to_vec()?);
            let (x_k, x_v) = (upload(&k), upload(&v));
            let (of_pages, of_lengths) = (upload(&pages), upload(&lengths));
            let cache = Cache {
                k: HeadsMut::new(&mut k_cache, to_k)?,
                v: HeadsMut::new(&mut v_cache, to_v)?,
                pages: has_pages.then(|| of_pages.as_slice()),
            };
            let rows_of = [Heads::new(&x_k, of_k)?, Heads::new(&x_v, of_v)?];
            append_into(gpu(), rows_of, cache, &of_lengths, turns)?;
            let (found_k, found_v) = (k_cache.to_vec()?, v_cache.to_vec()?);
            let mut written = Vec::new();
            for ((what, k_at), (_, v_at)) in rows(of_k).zip(rows(of_v)) {
                let [batch, head, row] = what;
                let position = lengths[batch] as usize - new + row;
                if position >= 2 * PAGE {
                    continue;
                }
                let (page, slot) = match has_pages {
                    true => (pages[2 * batch + position / PAGE] as usize, position % PAGE),
                    false => (batch, position),
                };
                let place = (page * heads + head) * cache_rows + slot;
                written.push(place);
                let found = &found_k[place * depth..][..depth];
                let x = &k[k_at..k_at + depth];
                match turns {
                    Some(_) => assert_turned(found, x, position, what),
                    None => assert_eq!(found, x, "{what:?}"),
                }
                assert_eq!(
                    found_v[place * value_depth..][..value_depth],
                    v[v_at..v_at + value_depth]
                );
            }
            for place in
                (0..cache_batches * heads * cache_rows).filter(|place| !written.contains(place))
            {
                let (k, v) = (
                    place * depth..(place + 1) * depth,
                    place * value_depth..(place + 1) * value_depth,
                );
                assert_eq!(
                    (&found_k[k.clone()], &found_v[v.clone()]),
                    (&before_k[k], &before_v[v])
                );
            }
        }
    }
    Ok(())
}

#[test]
fn wrong_rotations_and_caches_are_refused() -> GpuResult<()> {
    let layout = HeadsLayout::by_head([1, 1, 4, 8]);
    let mut x = upload(&[bf16::ONE; 32]);
    let refused = |result: GpuResult<()>, says: &str| match result {
        Err(GpuError::InvalidArgument { reason, .. }) => assert!(reason.contains(says), "{reason}"),
        other => panic!("{says}: {other:?}"),
    };
    assert!(RotaryTable::new(gpu(), 4, 7, BASE).is_err());
    let table = RotaryTable::new(gpu(), 4, 16, BASE)?;
    let mut turn = |table: &RotaryTable, first, layout| {
        rotary_in_place(gpu(), HeadsMut::new(&mut x, layout)?, table, Positions::From(first), false)
    };
    refused(turn(&table, 0, layout), "rows of 16 elements, and these have 8");
    let table = RotaryTable::new(gpu(), 4, 8, BASE)?;
    refused(turn(&table, 1, layout), "positions below 5, and a table of 4");
    refused(turn(&table, 0, HeadsLayout { row_stride: 4, ..layout }), "overlap each other");
    let lengths = upload(&[4u32, 4]);
    let positions = Positions::EndAt(lengths.as_slice());
    let wrong = rotary_in_place(gpu(), HeadsMut::new(&mut x, layout)?, &table, positions, false);
    assert!(matches!(wrong, Err(GpuError::SizeMismatch { .. })), "{wrong:?}");

    let (k, lengths) = (upload(&[bf16::ONE; 32]), upload(&[4u32]));
    let append = |to_k: HeadsLayout, pages: Option<&DeviceBuffer<u32>>| {
        let (mut k_cache, mut v_cache) = (poisoned::<bf16>(256), poisoned::<bf16>(256));
        let cache = Cache {
            k: HeadsMut::new(&mut k_cache, to_k)?,
            v: HeadsMut::new(&mut v_cache, to_k)?,
            pages: pages.map(|pages| pages.as_slice()),
        };
        let new = Heads::new(&k, layout)?;
        append_into(gpu(), [new, new], cache, &lengths, None)
    };
    append(HeadsLayout::by_head([1, 1, 8, 8]), None)?;
    refused(append(HeadsLayout::by_head([1, 2, 8, 8]), None), "the cache has");
    refused(append(HeadsLayout::by_head([2, 1, 8, 8]), None), "2 batches, and the keys 1");
    append(HeadsLayout::by_head([2, 1, 8, 8]), Some(&upload(&[1u32])))
}
