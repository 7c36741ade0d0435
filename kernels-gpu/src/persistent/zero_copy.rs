//! Words that the host and a running kernel use at the same time.

use crate::prelude::*;
use cuda_std::panic::leave_after_panic;

/// Answers `count` numbers while it runs. The host writes each into `questions: [n]`, never 0, and
/// takes its square from `answers: [n]`; thread `i` answers element `i`, and empties the question
/// before it answers.
#[kernel]
pub fn answer_words(
    index: ThreadIndex,
    count: u32,
    questions: SystemAtomics<u32>,
    answers: SystemAtomics<u32>,
) {
    if index.get() >= questions.len() {
        return;
    }
    for _ in 0..count {
        let (question, answer) = (questions.get(index.get()), answers.get(index.get()));
        let mut rounds = 0u32;
        let asked = loop {
            match question.load(Acquire) {
                0 => rounds = rounds.wrapping_add(1),
                asked => break asked,
            }
            if rounds.is_multiple_of(256) {
                thread::nanosleep(64);
                leave_after_panic();
            }
        };
        question.store(0, Relaxed);
        answer.store(asked.wrapping_mul(asked), Release);
    }
}
