//! Reference of the stencils: one step, cell by cell, in the order that the operation documents.

/// What lies beyond an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Cells on an edge keep their values.
    Fixed,
    /// The opposite edge.
    Periodic,
    /// The mirror image.
    Insulated,
}

impl Edge {
    /// The neighbour of cell `i` of `n` in direction `step`, which is 1 or -1.
    fn neighbour(self, i: usize, step: isize, n: usize) -> usize {
        let there = i as isize + step;
        match self {
            _ if (0..n as isize).contains(&there) => there as usize,
            Self::Periodic if there < 0 => n - 1,
            Self::Periodic => 0,
            Self::Fixed | Self::Insulated => i,
        }
    }
}

macro_rules! steps {
    ($plane:ident, $volume:ident, $ty:ty) => {
        /// A step of the five-point stencil on `cells: [height, width]`; the weights are those of the cell, of x, and of y.
        pub fn $plane(
            cells: &[$ty],
            [height, width]: [usize; 2],
            weights: [$ty; 3],
            edge: Edge,
        ) -> Vec<$ty> {
            let [centre, x, y] = weights;
            $volume(cells, [1, height, width], [centre, x, y, 0.0], edge, [false, true, true])
        }

        /// A step of the seven-point stencil on `cells: [depth, height, width]`, along those of its axes that are to be
        /// looked at; the weights are those of the cell, of x, of y, and of z.
        pub fn $volume(
            cells: &[$ty],
            shape: [usize; 3],
            [centre, x, y, z]: [$ty; 4],
            edge: Edge,
            axes: [bool; 3],
        ) -> Vec<$ty> {
            let [depth, height, width] = shape;
            let strides = [height * width, width, 1];
            let mut out = Vec::with_capacity(cells.len());
            for i in 0..depth * height * width {
                let place = [i / strides[0], i / width % height, i % width];
                let on_edge = |k: usize| axes[k] && (place[k] == 0 || place[k] + 1 == shape[k]);
                if edge == Edge::Fixed && (0..3).any(on_edge) {
                    out.push(cells[i]);
                    continue;
                }
                let mut sum = centre * cells[i];
                for (k, weight) in [(2, x), (1, y), (0, z)] {
                    if axes[k] {
                        let at = |step| {
                            let there = edge.neighbour(place[k], step, shape[k]);
                            cells[i - place[k] * strides[k] + there * strides[k]]
                        };
                        sum = <$ty>::mul_add(at(-1) + at(1), weight, sum);
                    }
                }
                out.push(sum);
            }
            out
        }
    };
}

steps!(plane_f32, volume_f32, f32);
steps!(plane_f64, volume_f64, f64);

/// A step of the wave equation on `cells: [depth, height, width]`, along those of its axes that are to be looked at: what is a
/// step later than `cells`, of which `previous` is a step earlier. The weights are those of [`volume_f32`]; cells on fixed
/// edges stay what they are.
pub fn wave_f32(
    cells: &[f32],
    previous: &[f32],
    shape: [usize; 3],
    weights: [f32; 4],
    edge: Edge,
    axes: [bool; 3],
) -> Vec<f32> {
    let mut out = volume_f32(cells, shape, weights, edge, axes);
    for (i, cell) in out.iter_mut().enumerate() {
        let place = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
        let on_edge = |k: usize| axes[k] && (place[k] == 0 || place[k] + 1 == shape[k]);
        if edge != Edge::Fixed || !(0..3).any(on_edge) {
            *cell -= previous[i];
        }
    }
    out
}
