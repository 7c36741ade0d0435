//! The kernels of a row operation, one for each [form](super) that it has.

/// Writes one kernel for each form: `row_kernels! { { operation } form name(instances); … }`.
///
/// What the kernels do, their parameters and their [`RowOp`](super::RowOp) (of one or two inputs) stand once, in the braces.
/// The forms:
///
/// | form | a row is held by |
/// |---|---|
/// | `registers` | the lanes of a warp, or a block: [`in_registers`](super::in_registers) |
/// | `clusters` | a cluster of blocks: `in_registers` with `CLUSTERED` |
/// | `streamed` | a block, which reads it twice: [`streamed`](super::streamed) |
/// | `staged`, `staged_pairs` | the shared memory of a block, or of two: [`staged`](super::staged::staged) |
/// | `pipelined[N]` | that of `N` blocks, with the next rows: [`pipelined`](super::staged::pipelined) |
macro_rules! row_kernels {
    ($operation:tt $($form:ident $([$blocks:ident])? $name:ident($($instances:tt)*);)*) => {
        $($crate::rows::forms::row_kernels!(@$form $([$blocks])? $name($($instances)*) $operation);)*
    };
    (@registers $name:ident($($instances:tt)*) {
        $(#[$doc:meta])* ($shape:ident: Shape, $($params:tt)*) inputs $inputs:literal => $op:expr
    }) => {
        $(#[$doc])*
        ///
        /// Each row is held by the registers of some lanes of a warp, or of a block.
        ///
        /// # Safety
        /// As [`in_registers`](crate::rows::in_registers); what is not empty has the stated shape.
        #[kernel($($instances)*, max_threads = $crate::rows::MAX_THREADS)]
        pub unsafe fn $name<T: Value<V>, const V: usize, const K: usize>($shape: Shape, $($params)*) {
            let op = $op;
            // SAFETY: the caller's promise.
            unsafe { $crate::rows::in_registers::<_, V, $inputs, K, false>(op, $shape, $crate::rows::group::exchange!()) };
        }
    };
    (@clusters $name:ident($($instances:tt)*) {
        $(#[$doc:meta])* ($shape:ident: Shape, $($params:tt)*) inputs $inputs:literal => $op:expr
    }) => {
        $(#[$doc])*
        ///
        /// Each row is held by the registers of a cluster.
        ///
        /// # Safety
        /// As [`in_registers`](crate::rows::in_registers); what is not empty has the stated shape.
        #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
        #[kernel($($instances)*, max_threads = $crate::rows::MAX_THREADS, cluster = $crate::rows::CLUSTER)]
        pub unsafe fn $name<T: Value<V>, const V: usize, const K: usize>($shape: Shape, $($params)*) {
            let op = $op;
            // SAFETY: the caller's promise.
            unsafe { $crate::rows::in_registers::<_, V, $inputs, K, true>(op, $shape, $crate::rows::group::exchange!()) };
        }
    };
    (@streamed $name:ident($($instances:tt)*) {
        $(#[$doc:meta])* ($shape:ident: Shape, $($params:tt)*) inputs $inputs:literal => $op:expr
    }) => {
        $(#[$doc])*
        ///
        /// Rows of any length, with a block for each.
        ///
        /// # Safety
        /// As [`streamed`](crate::rows::streamed); what is not empty has the stated shape.
        #[kernel($($instances)*, max_threads = $crate::rows::STREAM_THREADS, dynamic_shared = 0..=$crate::rows::softmax::MAX_SHARED_BYTES)]
        pub unsafe fn $name<T: Value<V>, const V: usize, const K: usize>($shape: Shape, $($params)*) {
            let op = $op;
            // SAFETY: the caller's promise.
            unsafe { $crate::rows::streamed::<_, V, $inputs, K>(op, $shape, $crate::rows::group::exchange!()) };
        }
    };
    (@staged $name:ident($($instances:tt)*) {
        $(#[$doc:meta])* ($shape:ident: Shape, $($params:tt)*) inputs 1 => $op:expr
    }) => {
        $(#[$doc])*
        ///
        /// Long rows one after the other, each held by the shared memory of a block while the next one is copied.
        ///
        /// # Safety
        /// As [`staged`](crate::rows::staged::staged); what is not empty has the stated shape.
        #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
        #[kernel($($instances)*, max_threads = $crate::rows::staged::THREADS, min_blocks = 1, dynamic_shared = 0..=$crate::rows::softmax::MAX_SHARED_BYTES)]
        pub unsafe fn $name<T: Value<V>, const V: usize>($shape: Shape, $($params)*) {
            let op = $op;
            // SAFETY: the caller's promise.
            unsafe { $crate::rows::staged::staged::<_, V, 1>(op, $shape, $crate::rows::staged::staged_memory!(1)) };
        }
    };
    (@staged_pairs $name:ident($($instances:tt)*) {
        $(#[$doc:meta])* ($shape:ident: Shape, $($params:tt)*) inputs 1 => $op:expr
    }) => {
        $(#[$doc])*
        ///
        /// Long rows one after the other, each held by the shared memory of two blocks while the next one is copied.
        ///
        /// # Safety
        /// As [`staged`](crate::rows::staged::staged); what is not empty has the stated shape.
        #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
        #[kernel($($instances)*, max_threads = $crate::rows::staged::THREADS, min_blocks = 1, cluster = 2, dynamic_shared = 0..=$crate::rows::softmax::MAX_SHARED_BYTES)]
        pub unsafe fn $name<T: Value<V>, const V: usize>($shape: Shape, $($params)*) {
            let op = $op;
            // SAFETY: the caller's promise.
            unsafe { $crate::rows::staged::staged::<_, V, 2>(op, $shape, $crate::rows::staged::staged_memory!(2)) };
        }
    };
    (@pipelined [$blocks:ident] $name:ident($($instances:tt)*) {
        $(#[$doc:meta])* ($shape:ident: Shape, $($params:tt)*) inputs 1 => $op:expr
    }) => {
        $(#[$doc])*
        ///
        /// Long rows one after the other, each held by the shared memory of a cluster while the next ones are copied and
        /// learnt.
        ///
        /// # Safety
        /// As [`pipelined`](crate::rows::staged::pipelined); what is not empty has the stated shape.
        #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
        #[kernel($($instances)*, max_threads = $crate::rows::staged::THREADS, min_blocks = 1, cluster = $blocks, dynamic_shared = 0..=$crate::rows::softmax::MAX_SHARED_BYTES)]
        pub unsafe fn $name<T: Value<V>, const V: usize, const K: usize>($shape: Shape, $($params)*) {
            let op = $op;
            // SAFETY: the caller's promise.
            unsafe { $crate::rows::staged::pipelined::<_, V, K, $blocks>(op, $shape, $crate::rows::staged::staged_memory!($blocks)) };
        }
    };
}
pub(super) use row_kernels;
