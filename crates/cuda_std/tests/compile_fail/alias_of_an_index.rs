//! A `ThreadIndex` of a grid with three dimensions would be the same in many threads.

mod k {
    use cuda_std::disjoint::DisjointSlice;
    use cuda_std::index::ThreadIndex as ThreadIndex3;
    use cuda_std::kernel;

    #[kernel]
    pub fn count(index: ThreadIndex3, mut out: DisjointSlice<u32>) {
        if let Some(out) = out.get_mut(index) {
            *out += 1;
        }
    }
}

fn main() {}
