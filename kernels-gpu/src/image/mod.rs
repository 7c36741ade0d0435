//! Images: one byte a pixel, or four where they have a colour.

pub mod blur;
pub mod equalize;
pub mod gradient;
pub mod luma;
pub mod spheres;

pub use blur::{blur_columns, blur_rows};
pub use equalize::{equalize_apply, equalize_table};
pub use gradient::sobel;
pub use luma::grayscale;
pub use spheres::{spheres_colour, spheres_draw};
