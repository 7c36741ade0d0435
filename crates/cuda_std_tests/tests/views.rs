//! Views of device memory, and matrix products through them.

use contracts_kernels::{gemm, views};
use cuda_std::launch::{Grid2, Grid3, LaunchConfig, Linear, Spatial};
use cuda_std_tests::{done, download, poisoned, upload};
use ferrowarp::GpuError;

cuda_std_tests::device!("contracts");

#[test]
fn a_volume_is_covered_in_three_dimensions() {
    for (w, h, d) in [(1, 1, 1), (33, 5, 3), (7, 9, 11), (32, 4, 2)] {
        let place = |i: usize| [i % w, i / w % h, i / w / h].map(|x| x as u16);
        let expected: Vec<_> = (0..w * h * d).map(place).collect();
        let mut out = poisoned::<[u16; 3]>(gpu(), w * h * d);
        let mut volume = out.volume_mut(w, h, d).unwrap();
        done(views::volume::launch(gpu(), LaunchConfig::for_volume(w, h, d), &mut volume));
        assert_eq!(download(&out), expected, "{w} × {h} × {d}");
        let mut volume = out.volume_mut(w, h, d).unwrap();
        let grid = views::fixed_volume::grid_for(w, h, d);
        assert_eq!(grid.blocks.2, d.div_ceil(2) as u32);
        done(views::fixed_volume::launch(gpu(), grid, &mut volume));
        let expected: Vec<_> = expected.iter().map(|&[x, y, z]| [x + 3, y, z]).collect();
        assert_eq!(download(&out), expected, "{w} × {h} × {d}, fixed block");
    }
    let mut out = poisoned::<[u16; 3]>(gpu(), 5);
    let error = out.volume_mut(2, 2, 2).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 8, found: 5, .. }), "{error}");
    assert_eq!(views::fixed_volume::grid_for(0, 9, 9), Grid3::new(0, 3, 5));
}

#[test]
fn pitched_rows_leave_their_gaps() {
    for (width, height, pitch) in [(3, 4, 5), (33, 9, 33), (1, 1, 100), (40, 3, 64)] {
        let len = (height - 1) * pitch + width;
        let before: Vec<u32> = (0..len as u32).collect();
        let mut buffer = upload(gpu(), &before);
        let config = LaunchConfig::for_grid(width, height);
        let mut rows = buffer.pitched_mut(width, height, pitch).unwrap();
        done(views::pitched::launch(gpu(), config, 1000, &mut rows));
        let expected: Vec<u32> =
            before.iter().map(|&i| if i as usize % pitch < width { i + 1000 } else { i }).collect();
        assert_eq!(download(&buffer), expected, "{width} × {height}, pitch {pitch}");
    }
    let mut buffer = upload(gpu(), &[0u32; 10]);
    assert!(buffer.pitched_mut(4, 2, 3).is_err(), "rows overlap");
    assert!(buffer.pitched_mut(4, 3, 4).is_err(), "the last row ends behind the buffer");
    assert!(buffer.pitched_mut(2, 3, 4).is_ok() && buffer.pitched_mut(0, 9, 9).is_ok());
    let mut grid = buffer.grid_mut(5, 2).unwrap();
    done(views::pitched::launch(gpu(), LaunchConfig::for_grid(5, 2), 7, &mut grid));
    assert_eq!(download(&buffer), [7; 10]);
}

/// Every start and length near a vector's size, and a long one.
macro_rules! vectors {
    ($($test:ident: $kernel:ident, $ty:ty;)*) => {$(
        #[test]
        fn $test() {
            let values: Vec<$ty> = (0..300).map(|i| (i % 60) as $ty).collect();
            let parts = (0..5).flat_map(|start| (0..10).map(move |len| (start, len)));
            for (start, len) in parts.chain([(1, 253), (0, 300)]) {
                let mut x = upload(gpu(), &values);
                let mut part = x.slice_mut(start..start + len);
                done(views::$kernel::launch(gpu(), Linear::new(2, 32), &mut part));
                let mut expected = values.clone();
                for (at, value) in expected[start..start + len].iter_mut().enumerate() {
                    *value = *value + *value + (at % 100) as $ty;
                }
                assert_eq!(download(&x), expected, "{len} elements from {start}");
            }
        }
    )*};
}

vectors! {
    two_bytes_at_a_time: vectors_u8x2, u8;
    four_bytes_at_a_time: vectors_u16x2, u16;
    eight_bytes_at_a_time: vectors_f32x2, f32;
    sixteen_bytes_at_a_time: vectors_f32x4, f32;
    two_doubles_at_a_time: vectors_f64x2, f64;
}

#[test]
fn vectors_of_two_slices_that_are_aligned_alike() {
    let x: Vec<f32> = (0..1003).map(|i| i as f32).collect();
    let (x_gpu, mut y) = (upload(gpu(), &x), upload(gpu(), &vec![0.5f32; 1003]));
    let (from, mut to) = (x_gpu.slice(3..), y.slice_mut(3..));
    done(views::axpy_vectors::launch(gpu(), Linear::new(3, 64), 2.0, &from, &mut to));
    let expected: Vec<f32> = x.iter().map(|&x| if x < 3.0 { 0.5 } else { 2.0 * x + 0.5 }).collect();
    assert_eq!(download(&y), expected);
}

#[test]
fn vectors_know_their_places() {
    for (start, len) in [(0, 40), (1, 39), (2, 5), (3, 37), (3, 1)] {
        let mut buffer = upload(gpu(), &[u32::MAX; 40]);
        let mut part = buffer.slice_mut(start..start + len);
        done(views::vector_places::launch(gpu(), Linear::new(2, 32), &mut part));
        let (head, place) = ((4 - start % 4) % 4, |i: usize| i.wrapping_sub(start));
        let vectors = head..head + len.saturating_sub(head) / 4 * 4;
        let expected = |i| if vectors.contains(&place(i)) { place(i) as u32 } else { u32::MAX };
        assert_eq!(download(&buffer), (0..40).map(expected).collect::<Vec<_>>(), "{start}, {len}");
    }
}

#[test]
fn blocks_are_numbered_x_first() {
    let (w, h, d) = (12, 6, 4);
    let mut out = poisoned::<[u32; 2]>(gpu(), w * h * d);
    let mut volume = out.volume_mut(w, h, d).unwrap();
    let config = Spatial::new((3, 3, 2), (4, 2, 2));
    done(views::block_numbers::launch(gpu(), config, &mut volume));
    let block = |i: usize| (i / (w * h) / 2 * 3 + i / w % h / 2) * 3 + i % w / 4;
    let expected: Vec<_> = (0..w * h * d).map(|i| [block(i) as u32, 18]).collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn chunks_are_the_threads_own() {
    for n in [0usize, 1, 4, 5, 6, 64, 323] {
        let values: Vec<u32> = (0..n as u32).collect();
        let mut x = upload(gpu(), &values);
        let config = LaunchConfig::for_num_elems(n.div_ceil(5));
        done(views::chunks::launch(gpu(), config, &mut x));
        let expected: Vec<u32> = values.chunks(5).flat_map(|c| c.iter().rev().copied()).collect();
        assert_eq!(download(&x), expected, "{n} elements");
    }
}

#[test]
fn a_matrix_has_rows_and_columns() {
    for (rows, cols, pitch) in [(1, 1, 1), (7, 5, 9), (33, 40, 40)] {
        let len = (rows - 1) * pitch + cols;
        let values: Vec<u32> = (0..len as u32).map(|i| i * i % 101).collect();
        let x = upload(gpu(), &values);
        let (mut by_row, mut by_column) = (poisoned(gpu(), rows), poisoned(gpu(), cols));
        let (config, size) = (Linear::new(2, 32), [rows, cols, pitch].map(|n| n as u32));
        done(views::sums::launch(gpu(), config, &x, size, &mut by_row, &mut by_column));
        let at = |i: usize, j: usize| values[i * pitch + j];
        let expected: Vec<u32> = (0..rows).map(|i| (0..cols).map(|j| at(i, j)).sum()).collect();
        assert_eq!(download(&by_row), expected);
        let expected: Vec<u32> = (0..cols).map(|j| (0..rows).map(|i| at(i, j)).sum()).collect();
        assert_eq!(download(&by_column), expected);
    }
}

/// Small integers, so that every order of additions gives the same bits.
fn matrix(rows: usize, cols: usize, seed: usize) -> Vec<f32> {
    (0..rows * cols).map(|i| ((i * 31 + seed) % 17) as f32 - 8.0).collect()
}

#[test]
fn products_through_pointers_and_views_are_equal() {
    for (m, n, k) in [(1, 1, 1), (32, 32, 32), (33, 40, 65), (5, 70, 0), (64, 31, 7)] {
        let (a, b) = (matrix(m, k, 3), matrix(k, n, 5));
        let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f32>();
        let expected: Vec<f32> = (0..m * n).map(|at| dot(at / n, at % n)).collect();
        let (a, b) = (upload(gpu(), &a), upload(gpu(), &b));
        let check = |name: &str, run: &dyn Fn(&mut ferrowarp::DeviceBuffer<f32>)| {
            let mut c = poisoned::<f32>(gpu(), m * n);
            run(&mut c);
            assert_eq!(download(&c), expected, "{name}, {m} × {n} × {k}");
        };
        let naive = gemm::naive_views::grid_for(n, m);
        let tiled = gemm::tiled_views::grid_for(n, m);
        check("pointers", &|c| {
            let (a, b, c) = (a.as_device_ptr(), b.as_device_ptr(), c.as_device_ptr());
            // SAFETY: the buffers have these sizes.
            done(unsafe { gemm::naive_pointers::launch(gpu(), naive, a, b, c, m, n, k) });
        });
        check("views", &|c| {
            let mut c = c.grid_mut(n, m).unwrap();
            done(gemm::naive_views::launch(gpu(), naive, &a, &b, k, &mut c));
        });
        check("checked", &|c| {
            let mut c = c.grid_mut(n, m).unwrap();
            done(gemm::naive_checked::launch(gpu(), naive, &a, &b, k, &mut c));
        });
        check("tiles through pointers", &|c| {
            let (a, b, c) = (a.as_device_ptr(), b.as_device_ptr(), c.as_device_ptr());
            // SAFETY: the buffers have these sizes.
            done(unsafe { gemm::tiled_pointers::launch(gpu(), tiled, a, b, c, m, n, k) });
        });
        check("tiles through views", &|c| {
            let mut c = c.grid_mut(n, m).unwrap();
            done(gemm::tiled_views::launch(gpu(), tiled, &a, &b, k, &mut c));
        });
    }
    assert_eq!(gemm::tiled_views::grid_for(33, 1), Grid2::new(2, 1));
}
