//! What orders the uses of device memory.

use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::Arc;

/// What orders the uses of device memory, such as the stream that it was allocated on: the value of an [`Arc`] that the
/// memory's owner has, lent for `'m`.
///
/// A typed launch with three buffers needs their homes for as long as the call lasts. Lending costs nothing, where a
/// clone of the `Arc` costs two atomic operations. [`keep`](Self::keep) makes that clone where a home has to outlive
/// the borrow.
///
/// ```
/// use cuda_std::launch::Home;
/// use std::sync::Arc;
///
/// struct Stream(u32);
///
/// let stream = Arc::new(Stream(7));
/// let home = Home::from(&stream);
/// assert_eq!(home.downcast_ref::<Stream>().map(|stream| stream.0), Some(7));
/// let kept = home.keep();
/// assert_eq!(Arc::strong_count(&stream), 2);
/// # drop(kept);
/// ```
#[derive(Clone, Copy)]
pub struct Home<'m> {
    /// The value of an `Arc`, as `Arc::as_ptr` returned it.
    value: NonNull<dyn Any + Send + Sync>,
    /// The borrow of that `Arc`.
    lent: PhantomData<&'m Arc<dyn Any + Send + Sync>>,
}

// SAFETY: it is a borrow of an `Arc` of a value that is `Send` and `Sync`, and such a borrow may go to other threads.
unsafe impl Send for Home<'_> {}
// SAFETY: as above; nothing is changed through it but the count of the `Arc`, which is atomic.
unsafe impl Sync for Home<'_> {}

impl<'m, T: Any + Send + Sync> From<&'m Arc<T>> for Home<'m> {
    #[inline]
    fn from(home: &'m Arc<T>) -> Self {
        let value: *const T = Arc::as_ptr(home);
        // SAFETY: the `Arc` is borrowed for `'m`.
        unsafe { Self::of(value) }
    }
}

impl<'m> From<&'m Arc<dyn Any + Send + Sync>> for Home<'m> {
    #[inline]
    fn from(home: &'m Arc<dyn Any + Send + Sync>) -> Self {
        // SAFETY: as above.
        unsafe { Self::of(Arc::as_ptr(home)) }
    }
}

impl<'m> Home<'m> {
    /// # Safety
    /// - `Arc::as_ptr` returned `value`, which may have been unsized since.
    /// - For `'m` an `Arc` of that value exists, and nobody uses that `Arc` mutably.
    #[inline]
    unsafe fn of(value: *const (dyn Any + Send + Sync)) -> Self {
        // SAFETY: the value of an `Arc` has an address, which is not null.
        let value = unsafe { NonNull::new_unchecked(value.cast_mut()) };
        Self { value, lent: PhantomData }
    }

    /// The address of the value, which [`Arc::as_ptr`] returns too: two homes are of one `Arc` if their addresses are equal.
    #[inline]
    pub fn as_ptr(self) -> *const () {
        self.value.as_ptr().cast_const().cast()
    }

    /// Whether the value is a `T`.
    pub fn is<T: Any>(self) -> bool {
        self.value().is::<T>()
    }

    /// The value, if it is a `T`.
    pub fn downcast_ref<T: Any>(self) -> Option<&'m T> {
        self.value().downcast_ref()
    }

    /// A clone of the `Arc`, which outlives the borrow.
    pub fn keep(self) -> Arc<dyn Any + Send + Sync> {
        let value = self.value.as_ptr().cast_const();
        // SAFETY: `Arc::as_ptr` returned the pointer, which was unsized at most since. An `Arc` of the value exists, so
        // that the count is at least 1. The count that is added here belongs to the `Arc` that is returned.
        unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        }
    }

    fn value(self) -> &'m (dyn Any + Send + Sync) {
        // SAFETY: for `'m` an `Arc` of the value exists, so that the value lives as long, and nobody has the exclusive
        // borrow of the value that `Arc::get_mut` would need an `&mut Arc` for.
        unsafe { self.value.as_ref() }
    }

    /// This home, with a lifetime that the compiler does not check.
    ///
    /// # Safety
    /// What is returned, and every copy of it, is used only while an `Arc` of the value exists that nobody uses mutably.
    #[inline]
    pub(super) unsafe fn unchecked<'any>(self) -> Home<'any> {
        Home { value: self.value, lent: PhantomData }
    }
}

impl fmt::Debug for Home<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Home({:p})", self.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_lent_without_a_count_and_kept_with_one() {
        let own = Arc::new(7u32);
        let home = Home::from(&own);
        assert_eq!(Arc::strong_count(&own), 1);
        assert!(home.is::<u32>() && !home.is::<i32>());
        assert_eq!((home.downcast_ref::<u32>(), home.downcast_ref::<i32>()), (Some(&7), None));
        let kept = home.keep();
        assert_eq!(Arc::strong_count(&own), 2);
        drop(own);
        assert_eq!(kept.downcast::<u32>().ok().as_deref(), Some(&7));
    }

    #[test]
    fn homes_of_one_value_have_one_address() {
        let own = Arc::new(String::from("home"));
        let unsized_too: Arc<dyn Any + Send + Sync> = own.clone();
        let (home, other) = (Home::from(&own), Home::from(&unsized_too));
        assert_eq!(home.as_ptr(), other.as_ptr());
        assert!(std::ptr::addr_eq(home.as_ptr(), Arc::as_ptr(&own)));
        assert_ne!(home.as_ptr(), Home::from(&Arc::new(String::from("home"))).as_ptr());
    }

    #[test]
    fn a_home_goes_to_another_thread() {
        let own = Arc::new(7u32);
        let home = Home::from(&own);
        let kept = std::thread::scope(|scope| scope.spawn(move || home.keep()).join());
        assert_eq!(kept.expect("no panic").downcast_ref(), Some(&7u32));
        assert_eq!(Arc::strong_count(&own), 1);
    }
}
