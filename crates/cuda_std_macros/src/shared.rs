//! `shared_array!`: a named array in the block's shared memory.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Result, Token, Type, parse_quote};

/// Expands `T; N` or `T; N, align = ALIGN` to an expression of type `SharedArray<T, N, ALIGN>`.
pub fn expand(input: TokenStream) -> TokenStream {
    match syn::parse2(input.clone()) {
        Ok(array) => array_expression(&array),
        Err(_) => Error::new_spanned(
            input,
            "write `shared_array![T; N]`, as in `[f32; 256]`, or `shared_array![T; N, align = 128]`",
        )
        .into_compile_error(),
    }
}

/// What stands between the brackets of `shared_array!`.
struct Array {
    elem: Type,
    len: Expr,
    align: Expr,
}

impl Parse for Array {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let elem = input.parse()?;
        input.parse::<Token![;]>()?;
        let len = input.parse()?;
        let align = match input.parse::<Option<Token![,]>>()? {
            None => parse_quote!(16),
            Some(_) => {
                input.parse::<kw::align>()?;
                input.parse::<Token![=]>()?;
                input.parse()?
            }
        };
        Ok(Self { elem, len, align })
    }
}

mod kw {
    syn::custom_keyword!(align);
}

/// The declaration is global assembly, which can only stand in a module: one inside the expression,
/// that sees the names of the module around. Where a name means something else in the function, the sizes
/// differ, and the assertion says so.
fn array_expression(Array { elem, len, align }: &Array) -> TokenStream {
    let name = unique_name("shared_array");
    let module = Ident::new(&name, Span::call_site());
    let declaration = format!(".shared .align {{align}} .b8 {name}[{{bytes}}];");
    let address = format!("mov.u64 {{address}}, {name}; cvta.shared.u64 {{address}}, {{address}};");
    let fits = assert_fits(&[quote!([#elem; #len])], elem.span());
    quote! {{
        #fits
        mod #module {
            #[allow(unused_imports)]
            use super::*;
            pub const BYTES: usize = ::core::mem::size_of::<[#elem; #len]>();
            pub const ALIGN_BYTES: usize = ::core::mem::align_of::<#elem>();
            #[cfg(target_os = "cuda")]
            ::core::arch::global_asm!(
                #declaration,
                align = const ::cuda_std::shared::aligned_bytes::<#elem, { #align }>(),
                bytes = const ::cuda_std::shared::size_bytes::<#elem>(#len),
            );
        }
        const _: () = assert!(
            ::core::mem::size_of::<[#elem; #len]>() == #module::BYTES
                && ::core::mem::align_of::<#elem>() == #module::ALIGN_BYTES,
            "a name in `shared_array!` means something else in this function than in the module around it: \
             give one of the two another name",
        );
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
                ::cuda_std::shared::SharedArray::<#elem, { #len }, { #align }>::from_raw(address)
            }
        };
        #[cfg(not(target_os = "cuda"))]
        let array = ::cuda_std::shared::SharedArray::<#elem, { #len }, { #align }>::numbered::<0>();
        array
    }}
}

/// The assertion that these arrays fit into what a kernel may declare. It stands at the last of them, and says nothing
/// if those before it were too much already.
pub fn assert_fits(arrays: &[TokenStream], span: Span) -> TokenStream {
    quote_spanned! {span=>
        #[allow(unused_qualifications)]
        const _: () = {
            const EXCESS: ::core::option::Option<::cuda_std::shared::Excess> =
                ::cuda_std::shared::excess(&[#(::cuda_std::shared::space::<#arrays>()),*]);
            if let ::core::option::Option::Some(excess) = &EXCESS {
                ::core::panic!("{}", excess.message());
            }
        };
    }
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
