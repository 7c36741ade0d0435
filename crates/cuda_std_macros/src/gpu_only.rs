//! `#[gpu_only]`: the body on the device, a panic on the host.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, Result};

/// Expands the attribute; a wrong use becomes a `compile_error!`.
pub fn expand(attributes: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(attributes, item).unwrap_or_else(Error::into_compile_error)
}

fn try_expand(attributes: TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !attributes.is_empty() {
        return Err(Error::new_spanned(attributes, "`#[gpu_only]` takes no arguments"));
    }
    let function: ItemFn = syn::parse2(item)?;
    let ItemFn { attrs, vis, sig, .. } = &function;
    let message = format!("`{}` runs only on the GPU", sig.ident);
    Ok(quote! {
        #[cfg(target_os = "cuda")]
        #function

        #[cfg(not(target_os = "cuda"))]
        #(#attrs)*
        #[allow(unused_variables, unused_mut, clippy::missing_const_for_fn)]
        #vis #sig {
            ::core::panic!(#message)
        }
    })
}
