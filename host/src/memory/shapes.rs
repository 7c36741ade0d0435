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
            fn raw_one(&self) -> RawSlice {
                self.buffer.raw()
            }
        }

        // SAFETY: as for the buffer.
        unsafe impl<T: Pod> DeviceRead<T> for $name<T> {
            fn raw(&self) -> RawSlice {
                self.buffer.raw()
            }
        }

        // SAFETY: as for the buffer.
        unsafe impl<T: Pod> DeviceWrite<T> for $name<T> {
            fn raw_mut(&mut self) -> RawSlice {
                self.buffer.raw_mut()
            }
        }
    };
}

pub(super) use {lengths, one_value};
