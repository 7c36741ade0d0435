//! `shared_array!`: a named array in the block's shared memory.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use syn::{Error, Ident, TypeArray};

/// Expands `T; N` to an expression of type `SharedArray<T, N>`.
pub fn expand(input: TokenStream) -> TokenStream {
    match syn::parse2(quote!([#input])) {
        Ok(array) => array_expression(&array),
        Err(_) => Error::new_spanned(input, "write `shared_array![T; N]`, as in `[f32; 256]`")
            .into_compile_error(),
    }
}

/// The declaration is global assembly, which can only stand in a module: one inside the expression,
/// that sees the names of the module around.
fn array_expression(TypeArray { elem, len, .. }: &TypeArray) -> TokenStream {
    let name = unique_name("shared_array");
    let module = Ident::new(&name, Span::call_site());
    let declaration = format!(".shared .align {{align}} .b8 {name}[{{bytes}}];");
    let address = format!("mov.u64 {{address}}, {name}; cvta.shared.u64 {{address}}, {{address}};");
    quote! {{
        #[cfg(target_os = "cuda")]
        mod #module {
            #[allow(unused_imports)]
            use super::*;
            ::core::arch::global_asm!(
                #declaration,
                align = const ::cuda_std::shared::align_bytes::<#elem>(),
                bytes = const ::cuda_std::shared::size_bytes::<#elem>(#len),
            );
        }
        #[cfg(target_os = "cuda")]
        let array = {
            let address: *mut [#elem; #len];
            // SAFETY: the assembly names the array declared above and touches nothing.
            unsafe {
                ::core::arch::asm!(
                    #address,
                    address = out(reg64) address,
                    options(pure, nomem, nostack),
                );
                ::cuda_std::shared::SharedArray::<#elem, { #len }>::from_raw(address)
            }
        };
        #[cfg(not(target_os = "cuda"))]
        let array = ::cuda_std::shared::SharedArray::<#elem, { #len }>::numbered::<0>();
        array
    }}
}

/// A PTX name that nothing else has: `what`, crate, version and a running number.
pub fn unique_name(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let variable = |name| env::var(name).unwrap_or_default();
    let owner = format!("{}_{}", variable("CARGO_CRATE_NAME"), variable("CARGO_PKG_VERSION"));
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{what}_{}_{number}", owner.chars().map(plain).collect::<String>())
}
