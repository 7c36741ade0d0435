//! An image vouches for its kernels: a program makes none of a text by itself.
#![forbid(unsafe_code)]

use ferrowarp::module::Image;

fn main() {
    let _literal = Image { arch: "sm_80", ptx: ".version 8.0\n.target sm_80\n" };
}
