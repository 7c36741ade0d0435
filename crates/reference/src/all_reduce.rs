//! Sums over ranks.

/// The sums of the elements of all ranks, `inputs: [ranks][n]`, in the order of the ranks.
pub fn all_reduce<T: Copy>(inputs: &[Vec<T>], plus: impl Fn(T, T) -> T) -> Vec<T> {
    let mut sums = inputs[0].clone();
    for input in &inputs[1..] {
        for (sum, value) in sums.iter_mut().zip(input) {
            *sum = plus(*sum, *value);
        }
    }
    sums
}
