//! Kernel images, and the macro that embeds them.

use std::fmt;

use super::arch::best_arch;

/// Kernels compiled for one architecture, to be loaded on a device.
///
/// A typed launcher finds its kernel by name and believes that it is the one it was written for. So a safe program
/// gets an image only from its own build: [`include_kernels!`](crate::include_kernels) makes them of what
/// `cuda_builder` compiled, and [`shipped::IMAGES`](crate::shipped::IMAGES) are this crate's. Other PTX becomes one by
/// [`from_ptx`](Self::from_ptx), whose caller vouches for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Image {
    arch: &'static str,
    ptx: &'static str,
}

impl Image {
    /// PTX for the architecture `arch`, for example `sm_90a`.
    ///
    /// Nothing is looked at here: text that is no PTX, or that is for another architecture, is an error of the first
    /// launch.
    ///
    /// # Safety
    /// For each launcher that is called on a [`Gpu`](crate::Gpu) with this image, the entry of the launcher's
    /// [`name`](cuda_std::launch::Kernel::name), if there is one:
    /// - has the parameters that the launcher gives, in their order and of their types;
    /// - accesses no other memory than these lend it, within their lengths, and writes only what they lend for writing;
    /// - needs no other blocks, clusters or dynamic shared memory than the launcher's contract promises;
    /// - does what a safe kernel of that signature may do: whatever it writes, it makes no two threads race.
    ///
    /// PTX of `#[kernel]`s is such a text for the launchers of the same crate's same sources.
    #[must_use]
    pub const unsafe fn from_ptx(arch: &'static str, ptx: &'static str) -> Self {
        Self { arch, ptx }
    }

    /// The architecture, for example `sm_90a`.
    #[must_use]
    pub const fn arch(&self) -> &'static str {
        self.arch
    }

    /// The PTX.
    #[must_use]
    pub const fn ptx(&self) -> &'static str {
        self.ptx
    }

    /// What [`include_kernels!`](crate::include_kernels) expands to.
    ///
    /// # Safety
    /// As for [`from_ptx`](Self::from_ptx), for each of the `N` texts.
    #[doc(hidden)]
    #[must_use]
    pub const unsafe fn of_build<const N: usize>(texts: &[EmbeddedPtx]) -> [Self; N] {
        let (mut images, mut at) = ([Self { arch: "", ptx: "" }; N], 0);
        while at < N {
            images[at] = Self { arch: texts[at].arch, ptx: texts[at].ptx };
            at += 1;
        }
        images
    }
}

/// Does not compile for a file of [`include_kernels!`](crate::include_kernels) outside of the build script's folder.
#[doc(hidden)]
pub const fn assert_name(file: &str) {
    let (name, mut at) = (file.as_bytes(), 0);
    while at < name.len() {
        assert!(
            name[at] != b'/' && name[at] != b'\\',
            "`include_kernels!` takes the name of a file that the build script wrote, and no path"
        );
        at += 1;
    }
}

/// What `cuda_builder` writes into the file that [`include_kernels!`](crate::include_kernels) reads: a text, which
/// cannot be loaded before something vouches for it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedPtx {
    /// The architecture.
    pub arch: &'static str,
    /// The PTX.
    pub ptx: &'static str,
}

/// The architecture, and how long the text is: it may have megabytes.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} bytes of PTX)", self.arch, self.ptx.len())
    }
}

/// The kernel images that `cuda_builder` wrote for this crate from its build script: an
/// expression of type `&'static [Image]`. A crate that forbids `unsafe` has them too:
///
/// ```
/// #![forbid(unsafe_code)]
/// use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
/// use kernels_gpu::elementwise::vecadd;
///
/// let gpu = Gpu::with_images(ferrowarp::include_kernels!())?;
/// let x = DeviceBuffer::from_slice(&gpu, &[1.0, 2.0])?;
/// let mut sum = DeviceBuffer::zeroed(&gpu, 2)?;
/// vecadd::launch(&gpu, LaunchConfig::for_num_elems(2), &x, &x, &mut sum)?;
/// assert_eq!(sum.to_vec()?, [2.0, 4.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// `include_kernels!("other.rs")` reads the file that the build script named by `CudaBuilder::embed_file`. It takes a name
/// and no path, since only what a build script wrote is trusted:
///
/// ```compile_fail,E0080
/// let elsewhere = ferrowarp::include_kernels!("./kernels.rs");
/// ```
#[macro_export]
macro_rules! include_kernels {
    () => {
        $crate::include_kernels!("kernels.rs")
    };
    ($file:expr) => {{
        const { $crate::module::assert_name($file) };
        const TEXTS: &[$crate::module::EmbeddedPtx] = include!(concat!(
            env!(
                "OUT_DIR",
                "there is no build script: a `build.rs` beside `Cargo.toml` that calls \
                 `cuda_builder::CudaBuilder::new(\"kernels\").embed()?` makes the images"
            ),
            "/",
            $file
        ));
        const IMAGES: &[$crate::module::Image] = {
            // SAFETY: the build script of this crate compiled the texts from the kernel crate whose launchers the
            // program has: cargo builds both from the same sources, and the script again when they change.
            &unsafe { $crate::module::Image::of_build::<{ TEXTS.len() }>(TEXTS) }
        };
        IMAGES
    }};
}

/// The image to load on a device: the highest architecture that runs there.
///
/// ```
/// use ferrowarp::module::best_image;
/// use ferrowarp::shipped::IMAGES; // for sm_80 and sm_90a
///
/// assert_eq!(best_image(IMAGES, (9, 0)).unwrap().arch(), "sm_90a");
/// assert_eq!(best_image(IMAGES, (12, 0)).unwrap().arch(), "sm_80");
/// assert!(best_image(IMAGES, (7, 5)).is_none());
/// ```
#[must_use]
pub fn best_image(images: &[Image], device: (u32, u32)) -> Option<Image> {
    let name = best_arch(images.iter().map(|image| image.arch), device)?;
    images.iter().find(|image| image.arch == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(archs: &[&'static str], device: (u32, u32)) -> Option<&'static str> {
        let images: Vec<_> = archs.iter().map(|arch| Image { arch, ptx: "" }).collect();
        best_image(&images, device).map(|image| image.arch)
    }

    #[test]
    fn the_highest_image_that_runs_is_taken() {
        assert_eq!(best(&["sm_80", "sm_75", "sm_90"], (8, 6)), Some("sm_80"));
        assert_eq!(best(&["sm_80", "sm_90", "sm_90a"], (9, 0)), Some("sm_90a"));
        assert_eq!(best(&["compute_70"], (9, 0)), Some("compute_70"));
    }

    #[test]
    fn exact_and_family_images_stay_where_they_belong() {
        assert_eq!(best(&["sm_90a"], (10, 0)), None);
        assert_eq!(best(&["sm_90", "sm_90a"], (10, 0)), Some("sm_90"));
        assert_eq!(best(&["sm_90", "sm_100f"], (10, 3)), Some("sm_100f"));
        assert_eq!(best(&["sm_90", "sm_100f"], (12, 0)), Some("sm_90"));
        assert_eq!(best(&["sm_100f", "sm_100a"], (10, 0)), Some("sm_100a"));
    }

    #[test]
    fn a_name_that_is_no_architecture_is_never_taken() {
        assert_eq!(best(&["sm_", "sm_x", "90", ""], (9, 0)), None);
    }
}
