//! Barriers in shared memory and every kind of copy that runs by itself.

use std::ops::{BitAnd, BitOr, BitXor};

use bytemuck::Pod;
use cuda_std::copy::{Extents, Swizzle, Swizzle32, Swizzle64, Swizzle128, Tile, Unswizzled};
use cuda_std::launch::{DevicePtr, Grid1};
use cuda_std::vector::Vec4;
use cuda_std::{bf16, f16};
use cuda_std_tests::{done, download, error_of, fails, on_gpu, poisoned, upload};
use ferrowarp::{GpuResult, TensorLayout, TensorView, TensorViewMut};
use hopper_kernels::{barriers, copies, tensors};

cuda_std_tests::device!("hopper");

#[test]
fn arrivals_order_what_comes_before_and_after() {
    for (blocks, rounds) in [(1, 1), (3, 7)] {
        let x: Vec<u32> = (0..blocks * 64).map(|i| 100 * i).collect();
        let mut y = poisoned(gpu(), x.len());
        let grid = Grid1::new(blocks);
        done(barriers::neighbours::launch(gpu(), grid, rounds, &upload(gpu(), &x), &mut y));
        // An odd number of steps ends at the neighbour's.
        let expected: Vec<u32> = (0..x.len()).map(|i| x[i ^ 1] + rounds).collect();
        assert_eq!(download(&y), expected, "{blocks} blocks, {rounds} rounds");
    }
}

#[test]
fn phases_follow_one_another() {
    let mut answers = poisoned(gpu(), barriers::ANSWERS);
    done(barriers::phases::launch(gpu(), Grid1::new(1), &mut answers));
    // Nothing has come; the phase before the first counts as over. Then the first is over, and so on.
    assert_eq!(download(&answers), [0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1]);
}

#[test]
fn copies_arrive_at_barriers() {
    let x: Vec<u32> = (0..128).map(|i| i * i).collect();
    let mut y = poisoned(gpu(), 128);
    done(barriers::copied_to_barrier::launch(gpu(), Grid1::new(2), &upload(gpu(), &x), &mut y));
    let expected: Vec<u32> = (0..128).map(|i| x[i / 64 * 64 + 63 - i % 64]).collect();
    assert_eq!(download(&y), expected);
}

/// The first `bytes` of each element, and zeros.
fn parts<T: Pod>(x: &[T], bytes: u32) -> Vec<T> {
    let part = |value: &T| {
        let mut own = bytemuck::bytes_of(value).to_vec();
        own[bytes as usize..].fill(0);
        bytemuck::pod_read_unaligned(&own)
    };
    x.iter().map(part).collect()
}

#[test]
fn copies_of_every_size_bring_their_bytes() {
    let words: Vec<u32> = (0..128).map(|i| (0x0101_0101 * i) | 0x1000_0080).collect();
    let wide: Vec<u64> = words.iter().map(|&w| u64::from(w) << 32 | u64::from(!w)).collect();
    let vectors: Vec<_> = words.iter().map(|&w| Vec4::new(w, !w, w + 1, w + 2)).collect();
    let (words_gpu, wide_gpu) = (upload(gpu(), &words), upload(gpu(), &wide));
    let vectors_gpu = upload(gpu(), &vectors);
    let grid = Grid1::new(2);
    for bytes in [0, 1, 3, 4] {
        let mut y = poisoned(gpu(), 128);
        done(copies::copied_4::launch(gpu(), grid, bytes, &words_gpu, &mut y));
        assert_eq!(download(&y), parts(&words, bytes), "{bytes} of 4");
    }
    for bytes in [0, 5, 8] {
        let mut y = poisoned(gpu(), 128);
        done(copies::copied_8::launch(gpu(), grid, bytes, &wide_gpu, &mut y));
        assert_eq!(download(&y), parts(&wide, bytes), "{bytes} of 8");
    }
    for bytes in [0, 4, 13, 16] {
        let mut y = poisoned(gpu(), 128);
        done(copies::copied_16::launch(gpu(), grid, bytes, &vectors_gpu, &mut y));
        assert_eq!(download(&y), parts(&vectors, bytes), "{bytes} of 16");
    }
}

#[test]
fn pipelines_read_every_tile_in_order() {
    let tile = copies::TILE;
    for (n, tiles) in [(0, 1), (1, 1), (tile, 1), (tile * 5, 5), (tile * 7 - 3, 9)] {
        let x: Vec<u32> = (0..n as u32).map(|i| i % 1000).collect();
        let at = |i: usize| x.get(i).copied().unwrap_or(0);
        let expected: Vec<u32> = (0..64)
            .map(|own| {
                let places = (0..tiles).flat_map(|t| (own..tile).step_by(64).map(move |p| (t, p)));
                places.map(|(t, p)| at(t * tile + p) + 1000 * at(t * tile + tile - 1 - p)).sum()
            })
            .collect();
        let (x, grid, tiles) = (upload(gpu(), &x), Grid1::new(1), tiles as u32);
        let [mut a, mut b, mut c, mut d] = [(); 4].map(|()| poisoned(gpu(), 64));
        done(copies::pipelined_1::launch(gpu(), grid, tiles, &x, &mut a));
        done(copies::pipelined_2::launch(gpu(), grid, tiles, &x, &mut b));
        done(copies::pipelined_3::launch(gpu(), grid, tiles, &x, &mut c));
        done(copies::pipelined_4::launch(gpu(), grid, tiles, &x, &mut d));
        for (stages, y) in [a, b, c, d].iter().enumerate() {
            assert_eq!(download(y), expected, "{n} values, {} stages", stages + 1);
        }
    }
}

#[test]
fn a_full_pipeline_panics() {
    let error = error_of("overfull_pipeline");
    assert!(on_gpu() || error.contains("overfull"), "{error}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn overfull_pipeline() {
    let launched = copies::overfull::launch(gpu(), Grid1::new(1), &upload(gpu(), &[0u32; 600]));
    fails(launched.and_then(|()| gpu().synchronize()));
}

#[test]
fn bulk_copies_bring_and_take() {
    let x: Vec<u32> = (0..3 * copies::BULK as u32).map(|i| i ^ 0x5a5a).collect();
    let (x_gpu, y) = (upload(gpu(), &x), poisoned::<u32>(gpu(), x.len()));
    let (from, to) = (x_gpu.as_device_ptr(), y.as_device_ptr());
    // SAFETY: both are as long as three blocks need.
    done(unsafe { copies::bulk_round_trip::launch(gpu(), Grid1::new(3), from, to) });
    assert_eq!(download(&y), x.iter().map(|x| x + 1).collect::<Vec<_>>());
}

/// What integers become that six operations in turn combine with `value(block, lane)` of each block.
fn combined<T: Copy + Ord + BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>>(
    start: T,
    add: impl Fn(T, T) -> T,
    value: impl Fn(u32) -> T,
) -> Vec<T> {
    let operations: [&dyn Fn(T, T) -> T; 6] =
        [&add, &T::min, &T::max, &|a, b| a & b, &|a, b| a | b, &|a, b| a ^ b];
    let all = |operation: &dyn Fn(T, T) -> T, lane: u32| {
        (0..5).fold(start, |sum, block| operation(sum, value(16 * block + lane)))
    };
    operations.iter().flat_map(|o| (0..16).map(move |lane| all(o, lane))).collect()
}

#[test]
fn bulk_reductions_combine() {
    let words = upload(gpu(), &[40u32; 96]);
    let ints = upload(gpu(), &[-3i32; 96]);
    let wide = upload(gpu(), &[7u64 << 34; 96]);
    let (singles, doubles) = (upload(gpu(), &[0.5f32; 16]), upload(gpu(), &[0.25f64; 16]));
    // SAFETY: as many values as the kernel says.
    done(unsafe {
        copies::bulk_reductions::launch(
            gpu(),
            Grid1::new(5),
            words.as_device_ptr(),
            ints.as_device_ptr(),
            wide.as_device_ptr(),
            singles.as_device_ptr(),
            doubles.as_device_ptr(),
        )
    });
    assert_eq!(download(&words), combined(40, u32::wrapping_add, |v| v));
    assert_eq!(download(&ints), combined(-3, i32::wrapping_add, |v| v as i32 - 30));
    assert_eq!(download(&wide), combined(7 << 34, u64::wrapping_add, |v| u64::from(v) << 33));
    let sum = |lane: u32| f64::from((0..5).map(|block| 16 * block + lane).sum::<u32>());
    let expected: Vec<f64> = (0..16).map(sum).collect();
    assert_eq!(download(&doubles), expected.iter().map(|s| s + 0.25).collect::<Vec<_>>());
    assert_eq!(download(&singles), expected.iter().map(|s| *s as f32 + 0.5).collect::<Vec<_>>());
}

/// Loads 16 rows of `cols` at several places of a matrix of 50 rows and `width` columns, and compares
/// with the matrix, zero outside.
fn planes<T: Pod + PartialEq + std::fmt::Debug, S: Swizzle, A: Extents<Element = T>>(
    cols: usize,
    width: usize,
    number: impl Fn(usize) -> T,
    launch: impl Fn(i32, i32, &TensorView<A, S>, DevicePtr<T>) -> GpuResult<()>,
) {
    let matrix: Vec<T> = (0..50 * width).map(number).collect();
    let memory = upload(gpu(), &matrix);
    let view = TensorView::<A, S>::new(memory.as_slice(), [50, width]).unwrap();
    for (row, col) in [(0, 0), (3, 16), (40, width as i32 - 16), (-5, -16), (-16, 0), (50, 0)] {
        let out = poisoned::<T>(gpu(), 16 * cols);
        done(launch(row, col, &view, out.as_device_ptr()));
        let at = |i: usize| {
            let (r, c) = (row + (i / cols) as i32, col + (i % cols) as i32);
            let inside = (0..50).contains(&r) && (0..width as i32).contains(&c);
            if inside { matrix[r as usize * width + c as usize] } else { T::zeroed() }
        };
        assert_eq!(download(&out), (0..16 * cols).map(at).collect::<Vec<_>>(), "({row}, {col})");
    }
}

#[test]
fn tiles_of_every_swizzle_come_whole_and_zero_outside() {
    let grid = Grid1::new(1);
    // SAFETY: there is room for 16 rows.
    unsafe {
        planes(
            24,
            64,
            |i| i as f32 + 1.0,
            |r, c, x, out| tensors::plane::launch(gpu(), grid, r, c, x, out),
        );
        planes(
            32,
            80,
            |i| (i % 251) as u8 + 1,
            |r, c, x, out| tensors::plane_32::launch(gpu(), grid, r, c, x, out),
        );
        planes(
            32,
            80,
            |i| bf16::from_f32((i % 200) as f32 + 1.0),
            |r, c, x, out| tensors::plane_64::launch(gpu(), grid, r, c, x, out),
        );
        planes(
            32,
            48,
            |i| i as u32 + 1,
            |r, c, x, out| tensors::plane_128::launch(gpu(), grid, r, c, x, out),
        );
        planes(
            16,
            32,
            |i| (i as u64 + 1) << 33,
            |r, c, x, out| tensors::plane_wide::launch(gpu(), grid, r, c, x, out),
        );
    }
}

#[test]
fn a_swizzled_tile_lies_as_its_type_says() {
    let matrix: Vec<u8> = (0..16 * 128).map(|i| (i % 253) as u8).collect();
    let (memory, out) = (upload(gpu(), &matrix), poisoned::<u8>(gpu(), 2048));
    let view = TensorView::new(memory.as_slice(), [16, 128]).unwrap();
    // SAFETY: there is room.
    done(unsafe { tensors::raw_plane::launch(gpu(), Grid1::new(1), &view, out.as_device_ptr()) });
    let bytes = download(&out);
    for (i, value) in matrix.iter().enumerate() {
        type Plane = Tile<[[u8; 128]; 16], Swizzle128>;
        assert_eq!(bytes[Plane::offset([i / 128, i % 128])], *value, "byte {i}");
    }
}

#[test]
fn tiles_know_where_their_elements_are() {
    type Narrow = Tile<[[u16; 16]; 8], Swizzle32>;
    type Middle = Tile<[[u16; 32]; 8], Swizzle64>;
    // Eight rows of 32 bytes are two lines of 128: the pieces of the second trade places.
    assert_eq!(
        (Narrow::offset([3, 0]), Narrow::offset([4, 0]), Narrow::offset([4, 8])),
        (96, 144, 128)
    );
    assert_eq!(
        (Middle::offset([1, 8]), Middle::offset([2, 0]), Middle::offset([6, 24])),
        (80, 144, 384)
    );
    type Solid = Tile<[[[f32; 4]; 3]; 2], Unswizzled>;
    assert_eq!((Solid::offset([1, 2, 3]), Solid::BYTES, align_of::<Solid>()), (92, 96, 128));
    let mut tile: Box<Middle> = bytemuck_zeroed();
    tile.set([7, 31], 9);
    assert_eq!((tile.get([7, 31]), tile.get([7, 30])), (9, 0));
}

fn bytemuck_zeroed<A: Extents, S: Swizzle>() -> Box<Tile<A, S>> {
    let layout = std::alloc::Layout::new::<Tile<A, S>>();
    // SAFETY: memory of the tile's layout, full of zeros, which are plain data.
    unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast()) }
}

#[test]
fn tensors_of_every_rank_are_read() {
    let grid = Grid1::new(1);
    let line: Vec<i16> = (1..=100).collect();
    let (memory, out) = (upload(gpu(), &line), poisoned::<i16>(gpu(), 32));
    let view = TensorView::new(memory.as_slice(), [100]).unwrap();
    // SAFETY: there is room.
    done(unsafe { tensors::line::launch(gpu(), grid, 80, &view, out.as_device_ptr()) });
    let expected: Vec<i16> = (81..=100).chain([0; 12]).collect();
    assert_eq!(download(&out), expected);

    // 5 × 6 × 8 of a tensor whose rows are 12 apart and planes 100.
    let numbers: Vec<i32> = (0..1000).collect();
    let (memory, out) = (upload(gpu(), &numbers), poisoned::<i32>(gpu(), 48));
    let layout = TensorLayout::row_major([5, 6, 8]).with_strides([100, 12, 1]);
    let view = TensorView::new(memory.as_slice(), layout).unwrap();
    // SAFETY: there is room.
    done(unsafe { tensors::solid::launch(gpu(), grid, [3, 4, 4], &view, out.as_device_ptr()) });
    let at = |i: i32| {
        let (z, y, x) = (3 + i / 12, 4 + i / 4 % 3, i % 4 + 4);
        if z < 5 && y < 6 { 100 * z + 12 * y + x } else { 0 }
    };
    assert_eq!(download(&out), (0..48).map(at).collect::<Vec<_>>());

    let halves: Vec<f16> = (0..2 * 4 * 3 * 16).map(|i| f16::from_f32(i as f32)).collect();
    let (memory, out) = (upload(gpu(), &halves), poisoned::<f16>(gpu(), 48));
    let view = TensorView::new(memory.as_slice(), [2, 4, 3, 16]).unwrap();
    let at = [1, 2, 1, 8];
    // SAFETY: there is room.
    done(unsafe { tensors::fourth::launch(gpu(), grid, at, &view, out.as_device_ptr()) });
    let at = |i: usize| {
        let (z, y, x) = (2 + i / 16, 1 + i / 8 % 2, 8 + i % 8);
        if z < 4 { halves[((4 + z) * 3 + y) * 16 + x] } else { f16::ZERO }
    };
    assert_eq!(download(&out), (0..48).map(at).collect::<Vec<_>>());

    let doubles: Vec<f64> = (0..4 * 3 * 4 * 3 * 4).map(f64::from).collect();
    let (memory, out) = (upload(gpu(), &doubles), poisoned::<f64>(gpu(), 32));
    let view = TensorView::new(memory.as_slice(), [4, 3, 4, 3, 4]).unwrap();
    let at = [2, 1, 3, 1, 2];
    // SAFETY: there is room.
    done(unsafe { tensors::fifth::launch(gpu(), grid, at, &view, out.as_device_ptr()) });
    let at = |i: usize| {
        let [a, b, c, d, e] = [2 + i / 16, 1 + i / 8 % 2, 3 + i / 4 % 2, 1 + i / 2 % 2, 2 + i % 2];
        if c < 4 { doubles[(((a * 3 + b) * 4 + c) * 3 + d) * 4 + e] } else { 0.0 }
    };
    assert_eq!(download(&out), (0..32).map(at).collect::<Vec<_>>());
}

#[test]
fn what_lies_outside_can_be_nan() {
    let (memory, out) = (upload(gpu(), &[1.0f32; 64]), poisoned::<f32>(gpu(), 16 * 24));
    let layout = TensorLayout::row_major([2, 32]).filled_with_nan();
    let view = TensorView::new(memory.as_slice(), layout).unwrap();
    // SAFETY: there is room.
    done(unsafe {
        tensors::plane::launch(gpu(), Grid1::new(1), 1, 16, &view, out.as_device_ptr())
    });
    for (i, value) in download(&out).into_iter().enumerate() {
        let inside = i / 24 == 0 && i % 24 < 16;
        assert!(if inside { value == 1.0 } else { value.is_nan() }, "{i}: {value}");
    }
    let words = upload(gpu(), &[1u32; 64]);
    let layout = TensorLayout::row_major([2, 32]).filled_with_nan();
    let refused = TensorView::<[[u32; 32]; 2]>::new(words.as_slice(), layout);
    assert!(refused.is_err(), "integers have no NaN");
}

#[test]
fn tiles_are_stored_and_added_inside_the_tensor() {
    for (at, times) in [([0, 0], 1), ([3, 8], 0), ([18, 4], 3), ([17, 32], 2), ([20, 0], 1)] {
        let mut memory = upload(gpu(), &[0.5f32; 20 * 36]);
        let view = TensorViewMut::new(memory.as_mut_slice(), [20, 36]).unwrap();
        // SAFETY: one block.
        done(unsafe { tensors::store_and_add::launch(gpu(), Grid1::new(1), at, times, &view) });
        drop(view);
        let expected = |i: usize| {
            let (r, c) = ((i / 36) as i32 - at[0], (i % 36) as i32 - at[1]);
            let inside = (0..8).contains(&r) && (0..16).contains(&c);
            if inside { (1 + times) as f32 * (100 * r + c) as f32 } else { 0.5 }
        };
        assert_eq!(
            download(&memory),
            (0..720).map(expected).collect::<Vec<_>>(),
            "{at:?}, {times}"
        );
    }
}

#[test]
fn the_last_unit_of_a_row_is_stored_and_added_to_whole() {
    let rows_of = |columns| TensorLayout::row_major([4, columns]).with_strides([20, 1]);
    for times in [0, 2] {
        let mut memory = upload(gpu(), &[0.5f32; 4 * 20]);
        let view = TensorViewMut::new(memory.as_mut_slice(), rows_of(13)).unwrap();
        // SAFETY: one block.
        done(unsafe { tensors::store_and_add::launch(gpu(), Grid1::new(1), [0, 0], times, &view) });
        drop(view);
        // Column 12 begins a unit of 16 bytes.
        let expected = |i: usize| match i % 20 {
            column @ 0..16 => (1 + times) as f32 * (100 * (i / 20) + column) as f32,
            _ => 0.5,
        };
        assert_eq!(download(&memory), (0..80).map(expected).collect::<Vec<_>>(), "{times}");
    }

    let mut short = upload(gpu(), &[0.5f32; 3 * 20 + 13]);
    let refused = TensorViewMut::<[[f32; 16]; 8]>::new(short.as_mut_slice(), rows_of(13));
    assert!(refused.is_err(), "the last unit lies behind the memory");
}

#[test]
fn a_stored_tile_begins_inside_the_tensor() {
    let error = error_of("stored_before_the_start");
    assert!(error.contains("ILLEGAL_INSTRUCTION"), "{error}");
    assert!(on_gpu() || error.contains("store_and_add"), "{error}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn stored_before_the_start() {
    let mut memory = upload(gpu(), &[0.5f32; 20 * 36]);
    let view = TensorViewMut::new(memory.as_mut_slice(), [20, 36]).unwrap();
    // SAFETY: one block; the kernel faults before it writes.
    let launched =
        unsafe { tensors::store_and_add::launch(gpu(), Grid1::new(1), [-2, 0], 0, &view) };
    fails(launched.and_then(|()| gpu().synchronize()));
}

#[test]
fn tiles_are_combined_by_every_operation() {
    let mut memory = upload(gpu(), &[20u32; 96]);
    let view = TensorViewMut::new(memory.as_mut_slice(), [6, 16]).unwrap();
    // SAFETY: one block.
    done(unsafe { tensors::combine::launch(gpu(), Grid1::new(1), &view) });
    drop(view);
    let operations: [fn(u32, u32) -> u32; 6] =
        [|a, b| a + b, u32::min, u32::max, |a, b| a & b, |a, b| a | b, |a, b| a ^ b];
    let expected = operations.iter().flat_map(|o| (0..16).map(|lane| o(20, 3 * lane)));
    assert_eq!(download(&memory), expected.collect::<Vec<_>>());
}

#[test]
fn tile_pipelines_of_every_length_work() {
    for rows in [1usize, 8, 40, 51] {
        let left: Vec<f32> = (0..rows * 32).map(|i| (i % 1000) as f32).collect();
        let right: Vec<u32> = (0..rows * 32).map(|i| i as u32 * 7).collect();
        let (left_gpu, right_gpu) = (upload(gpu(), &left), upload(gpu(), &right));
        let x = TensorView::new(left_gpu.as_slice(), [rows, 32]).unwrap();
        let y = TensorView::new(right_gpu.as_slice(), [rows, 32]).unwrap();
        let column = |c: usize| (0..rows).map(move |r| r * 32 + c);
        let sums: Vec<f32> = (0..32).map(|c| column(c).map(|i| left[i]).sum()).collect();
        let counts: Vec<u32> = (0..32).map(|c| column(c).map(|i| right[i]).sum()).collect();
        let (tiles, grid) = (rows.div_ceil(8) as u32, Grid1::new(1));
        macro_rules! check {
            ($($name:ident)*) => {$(
                let (mut a, mut b) = (poisoned(gpu(), 32), poisoned(gpu(), 32));
                done(tensors::$name::launch(gpu(), grid, tiles, &x, &y, &mut a, &mut b));
                assert_eq!(download(&a), sums, "{rows} rows, {}", stringify!($name));
                assert_eq!(download(&b), counts, "{rows} rows, {}", stringify!($name));
            )*};
        }
        check!(column_sums_2 column_sums_3 column_sums_4);
        let mut b = upload(gpu(), &[0u32; 32]);
        done(tensors::specialised::launch(gpu(), grid, tiles, &y, &mut b));
        assert_eq!(download(&b), counts, "{rows} rows, specialised");
    }
}

#[test]
fn views_that_do_not_fit_are_refused() {
    let memory = upload(gpu(), &[0u32; 64]);
    let error = |result: GpuResult<TensorView<[[u32; 32]; 8], Swizzle128>>| {
        result.expect_err("it does not fit").to_string()
    };
    let short = error(TensorView::new(memory.as_slice(), [3, 32]));
    assert!(short.contains("96 elements are needed, 64 were given"), "{short}");
    let odd = error(TensorView::new(memory.as_slice(), [2, 30]));
    assert!(odd.contains("a stride of 120 bytes"), "{odd}");
    let shifted = error(TensorView::new(memory.slice(1..), [1, 32]));
    assert!(shifted.contains("is no multiple of 16"), "{shifted}");
}
