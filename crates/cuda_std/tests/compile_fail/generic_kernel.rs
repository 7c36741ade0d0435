use cuda_std::prelude::*;

#[kernel]
fn copy<T: Copy>(index: ThreadIndex, x: &[T], mut y: DisjointSlice<T>) {
    if let Some(y) = y.get_mut(index) {
        *y = x[index.get()];
    }
}

fn main() {}
