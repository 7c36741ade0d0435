//! The device side: a PTX entry with scalar parameters that calls the user's body.

use super::Kernel;
use super::param::{Kind, Param};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// Writes the entry. The user's function becomes an inner function that is always inlined.
pub fn entry(kernel: &Kernel) -> TokenStream {
    let (name, vis) = (&kernel.function.sig.ident, &kernel.function.vis);
    let attributes = kernel.shared_attributes();
    let ptx: Vec<_> = kernel.params.iter().flat_map(Param::ptx).collect();
    let (names, types) = (ptx.iter().map(|p| &p.name), ptx.iter().map(|p| &p.ty));
    let arguments = kernel.params.iter().map(rebuild);
    let mut body = kernel.function.clone();
    body.vis = syn::Visibility::Inherited;
    body.sig.ident = format_ident!("{}_body", name);
    let body_name = &body.sig.ident;
    quote! {
        #[cfg(target_os = "cuda")]
        #(#attributes)*
        #[unsafe(no_mangle)]
        #[allow(improper_ctypes_definitions, missing_docs, clippy::missing_safety_doc)]
        #vis unsafe extern "ptx-kernel" fn #name(#(#names: #types),*) {
            #[inline(always)]
            #body

            // SAFETY: the launcher passes what the kernel's parameters describe.
            unsafe { #body_name(#(#arguments),*) }
        }
    }
}

/// The expression that makes the user's argument from the PTX parameters.
fn rebuild(param: &Param) -> TokenStream {
    let name = &param.name;
    let part = |suffix: &str| format_ident!("{}_{}", name, suffix);
    let (ptr, len) = (part("ptr"), part("len"));
    match &param.kind {
        Kind::ThreadIndex => quote!(::cuda_std::index::ThreadIndex::from_hardware()),
        Kind::ThreadIndex2 => quote!(::cuda_std::index::ThreadIndex2::from_hardware()),
        Kind::Slice(_) => quote!(::core::slice::from_raw_parts(#ptr.as_ptr(), #len)),
        Kind::Reference(_) => quote!(&*#name),
        Kind::DisjointSlice(_) => {
            quote!(::cuda_std::disjoint::DisjointSlice::from_raw_parts(#ptr.as_ptr(), #len))
        }
        Kind::AtomicSlice(_) => {
            quote!(::cuda_std::atomic::AtomicSlice::from_raw_parts(#ptr.as_ptr(), #len))
        }
        Kind::DisjointGrid(_) => {
            let (width, height) = (part("width"), part("height"));
            quote!(::cuda_std::disjoint::DisjointGrid::from_raw_parts(#ptr.as_ptr(), #width, #height))
        }
        Kind::Pointer { .. } | Kind::Value => quote!(#name),
    }
}
