//! What memory of one shape has in common, whatever kind it is.

/// The methods of an array, or a part of one, whose field `len` counts the elements.
macro_rules! lengths {
    () => {
        /// The number of elements.
        #[must_use]
        pub fn len(&self) -> usize {
            self.len
        }

        /// Whether there are no elements.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.len == 0
        }
    };
}

/// The methods of an array that kernels write in two or three dimensions; `$whole` lends all of it.
macro_rules! shapes {
    ($whole:ident) => {
        /// The array as `height` rows of `width` elements, for a kernel that writes a grid.
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if that is not its length.
        pub fn grid_mut(&mut self, width: usize, height: usize) -> GpuResult<GridMut<'_, T>> {
            self.$whole().into_grid(width, height)
        }

        /// The array as `height` rows of `width` elements, each `pitch` elements after the previous
        /// one, for a kernel that writes pitched rows.
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the rows overlap or end past the
        /// array.
        pub fn pitched_mut(
            &mut self,
            width: usize,
            height: usize,
            pitch: usize,
        ) -> GpuResult<PitchedMut<'_, T>> {
            self.$whole().into_pitched(width, height, pitch)
        }

        /// The array as `depth` planes of `height` rows of `width` elements, for a kernel that writes a
        /// volume.
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if that is not its length.
        pub fn volume_mut(
            &mut self,
            width: usize,
            height: usize,
            depth: usize,
        ) -> GpuResult<VolumeMut<'_, T>> {
            self.$whole().into_volume(width, height, depth)
        }
    };
}

/// An array with methods `as_device_slice` and `as_device_slice_mut`, as an argument of kernels. A kernel's uses are
/// ordered with all later ones, the host's and the end of the memory included, through the home.
macro_rules! argument {
    ($name:ident) => {
        // SAFETY: the array holds as many values as its slice says.
        unsafe impl<T: Pod> DeviceRead<T> for $name<T> {
            fn raw(&self) -> RawSlice<'_> {
                self.as_device_slice().raw_slice()
            }

            fn len(&self) -> usize {
                self.len()
            }
        }

        // SAFETY: as above, and the borrow is exclusive; `Pod` takes every bit pattern.
        unsafe impl<T: Pod> DeviceWrite<T> for $name<T> {
            fn raw_mut(&mut self) -> RawSlice<'_> {
                self.as_device_slice().raw_slice()
            }

            fn len(&self) -> usize {
                self.len()
            }
        }
    };
}

/// One value that a field `buffer` holds, and that host and kernels reach in turns.
macro_rules! one_value {
    ($name:ident) => {
        impl<T: Pod> $name<T> {
            /// The value on the host, after all kernels that were given it.
            ///
            /// # Errors
            /// The fault of a kernel before.
            pub fn get(&self) -> GpuResult<&T> {
                Ok(&self.buffer.as_slice()?[0])
            }

            /// The value on the host, to be written, after all kernels that were given it.
            ///
            /// # Errors
            /// The fault of a kernel before.
            pub fn get_mut(&mut self) -> GpuResult<&mut T> {
                Ok(&mut self.buffer.as_mut_slice()?[0])
            }

            /// The address on the device, for a kernel that takes a pointer.
            #[must_use]
            pub fn as_device_ptr(&self) -> DevicePtr<T> {
                self.buffer.as_device_ptr()
            }
        }

        impl<T: Pod> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.as_device_ptr().address())
            }
        }

        // SAFETY: the buffer holds one value; the rest as for the buffer.
        unsafe impl<T: Pod> DeviceReadOne<T> for $name<T> {
            fn raw_one(&self) -> RawSlice<'_> {
                self.buffer.raw()
            }
        }

        // SAFETY: as for the buffer.
        unsafe impl<T: Pod> DeviceRead<T> for $name<T> {
            fn raw(&self) -> RawSlice<'_> {
                self.buffer.raw()
            }

            fn len(&self) -> usize {
                1
            }
        }

        // SAFETY: as for the buffer.
        unsafe impl<T: Pod> DeviceWrite<T> for $name<T> {
            fn raw_mut(&mut self) -> RawSlice<'_> {
                self.buffer.raw_mut()
            }

            fn len(&self) -> usize {
                1
            }
        }
    };
}

pub(super) use {argument, lengths, one_value, shapes};
