//! The operations, a file for each family as in `ferrowarp::ops`.

mod attention;
mod histogram;
mod matmul;
mod random;
mod reduce;
mod rows;
mod scan;
mod select;
mod sort;
mod spmv;
mod transpose;

pub use attention::{HeadsShape, ferrowarp_attention};
pub use histogram::{ferrowarp_histogram, ferrowarp_histogram_ranges};
pub use matmul::{MatrixOrder, MatrixShape, Precision, ferrowarp_matmul};
pub use random::{ferrowarp_random_integers, ferrowarp_random_normal, ferrowarp_random_uniform};
pub use reduce::{Operator, ferrowarp_reduce, ferrowarp_segmented_reduce};
pub use rows::{ferrowarp_layer_norm, ferrowarp_rms_norm, ferrowarp_softmax};
pub use scan::ferrowarp_scan;
pub use select::{ferrowarp_partition, ferrowarp_run_lengths, ferrowarp_select, ferrowarp_unique};
pub use sort::{
    SortOrder, ferrowarp_argsort, ferrowarp_sort, ferrowarp_sort_pairs, ferrowarp_top_k,
};
pub use spmv::{CsrMatrix, ferrowarp_csr_create, ferrowarp_csr_destroy, ferrowarp_spmv};
pub use transpose::ferrowarp_transpose;
