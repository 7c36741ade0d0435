//! How much stack the threads of a kernel need, where the text alone says it.

use crate::machine::{FunctionInfo, Stack};

/// What a call puts on the stack beside the callee's variables: the address to return to.
const RETURN_BYTES: u64 = 8;

impl Stack {
    /// That of a program, whose first function is the kernel.
    pub(super) fn of(functions: &[FunctionInfo]) -> Self {
        let mut found = vec![Visit::New; functions.len()];
        let mut is_known = true;
        // The functions whose calls are being followed, and how many of these are done.
        let mut open = vec![(0, 0)];
        while let Some((index, done)) = open.pop() {
            let Some(function) = functions.get(index) else { continue };
            is_known &= !function.open_stack;
            match function.calls.get(done) {
                Some(callee) => {
                    found[index] = Visit::Open;
                    open.push((index, done + 1));
                    match found.get(*callee as usize) {
                        Some(Visit::New) => open.push((*callee as usize, 0)),
                        Some(Visit::Open) => is_known = false,
                        _ => {}
                    }
                }
                None => {
                    // A function that is open is on the way here already.
                    let called = function.calls.iter().map(|callee| found[*callee as usize]);
                    let most = called.filter_map(Visit::bytes).map(|bytes| bytes + RETURN_BYTES);
                    let most = most.max().unwrap_or(0);
                    found[index] = Visit::Done(function.stack_bytes().saturating_add(most));
                }
            }
        }
        Self { bytes: found.first().and_then(|kernel| kernel.bytes()).unwrap_or(0), is_known }
    }
}

/// What is known of a function's need.
#[derive(Clone, Copy)]
enum Visit {
    New,
    Open,
    Done(u64),
}

impl Visit {
    fn bytes(self) -> Option<u64> {
        match self {
            Self::Done(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl FunctionInfo {
    /// Bytes of its variables on the stack.
    fn stack_bytes(&self) -> u64 {
        self.declared_local_bytes.next_multiple_of(RETURN_BYTES)
    }

    /// Bytes that a call of it takes.
    pub fn call_bytes(&self) -> u64 {
        self.stack_bytes() + RETURN_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(declared_local_bytes: u64, calls: &[u32]) -> FunctionInfo {
        FunctionInfo { declared_local_bytes, calls: calls.to_vec(), ..FunctionInfo::default() }
    }

    fn stack(functions: &[FunctionInfo]) -> (u64, bool) {
        let Stack { bytes, is_known } = Stack::of(functions);
        (bytes, is_known)
    }

    #[test]
    fn the_longest_chain_counts() {
        let functions =
            [function(100, &[1, 2]), function(16, &[3]), function(40, &[]), function(64, &[])];
        assert_eq!(stack(&functions), (104 + 8 + 16 + 8 + 64, true));
    }

    #[test]
    fn recursion_addresses_and_alloca_are_not_known() {
        let chain = [function(0, &[1]), function(16, &[2]), function(16, &[1])];
        assert_eq!(stack(&chain), (8 + 16 + 8 + 16, false));
        assert_eq!(stack(&[function(8, &[0])]), (8, false));
        let open = FunctionInfo { open_stack: true, ..function(24, &[]) };
        assert_eq!(stack(&[function(0, &[1]), open]), (8 + 24, false));
        // Only what the kernel can reach counts.
        assert_eq!(stack(&[function(8, &[]), function(9, &[1])]), (8, true));
    }

    #[test]
    fn a_long_chain_does_not_exhaust_the_hosts_stack() {
        let mut functions: Vec<_> = (1..200_000).map(|next| function(0, &[next])).collect();
        functions.push(function(0, &[]));
        assert_eq!(stack(&functions), (8 * 199_999, true));
    }
}
