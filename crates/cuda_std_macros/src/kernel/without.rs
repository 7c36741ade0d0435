//! Kernels that a partial build leaves out: `cuda_builder` compiles those that an edit can concern, and
//! takes the others from the text before.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::device;
use super::parsed::Kernel;
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// Names the file that lists the kernels to leave out, one in a line. The kernel crate itself obeys it, its
/// dependencies do not: they serve the next build too.
const VARIABLE: &str = "CUDA_BUILDER_WITHOUT";

/// What stands for a kernel in a partial build; nothing in any other build. A partial build is for the device:
/// it has no launchers.
pub fn partial(kernel: &mut Kernel) -> Option<TokenStream> {
    let list = list()?;
    let is_left_out = |name: &Ident| list.contains(&name.to_string());
    let device = match kernel.instances.is_empty() {
        true if is_left_out(&kernel.function.sig.ident) => device::left_out(kernel),
        true => device::entry(kernel),
        false => {
            kernel.instances.retain(|instance| !is_left_out(&instance.name));
            device::generic(kernel)
        }
    };
    // Lets cargo know that the crate depends on the variable.
    Some(quote! {
        #device
        const _: ::core::option::Option<&str> = ::core::option_env!(#VARIABLE);
    })
}

fn list() -> Option<&'static HashSet<String>> {
    static LIST: OnceLock<Option<HashSet<String>>> = OnceLock::new();
    LIST.get_or_init(read).as_ref()
}

fn read() -> Option<HashSet<String>> {
    std::env::var_os("CARGO_PRIMARY_PACKAGE")?;
    // Without the list everything is built, which is never wrong.
    let list = std::fs::read_to_string(std::env::var_os(VARIABLE)?).ok()?;
    Some(list.lines().map(str::to_owned).collect())
}
