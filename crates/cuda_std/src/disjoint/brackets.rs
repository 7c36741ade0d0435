//! The compiler's message for `out[i]`, where each thread has an element of its own.

use core::ops::{Index, IndexMut};

use super::{DisjointGrid, DisjointSlice};

/// An index in brackets. No type implements it: the trait exists for its error message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a view that all threads share has no `[]`: a thread could reach another thread's element",
    label = "`get_mut` takes the thread's own index",
    note = "`if let Some(own) = out.get_mut(index) {{ *own = value; }}`, where `index` is a parameter of the kernel: \
            a `ThreadIndex` for a `DisjointSlice`, a `ThreadIndex2` for a `DisjointGrid`"
)]
pub trait InBrackets {
    /// Cannot be called.
    fn never(self) -> !;
}

macro_rules! without_brackets {
    ($view:ident) => {
        #[doc(hidden)]
        impl<T, I: InBrackets> Index<I> for $view<'_, T> {
            type Output = T;

            fn index(&self, index: I) -> &T {
                index.never()
            }
        }

        #[doc(hidden)]
        impl<T, I: InBrackets> IndexMut<I> for $view<'_, T> {
            fn index_mut(&mut self, index: I) -> &mut T {
                index.never()
            }
        }
    };
}

without_brackets!(DisjointSlice);
without_brackets!(DisjointGrid);
