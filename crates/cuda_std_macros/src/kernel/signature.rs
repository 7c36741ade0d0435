//! The comment in the PTX that says what a kernel's parameters are.

use super::Kernel;
use super::instances::{Instance, name_of};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// `// ferrowarp.signature NAME slice:4:4:HASH … = &[f32], …`: the form of each parameter, the size, the
/// alignment and the name's number of its element, and the types as they are written.
pub fn comment(kernel: &Kernel, name: &Ident, instance: Option<&Instance>) -> TokenStream {
    let mut text = format!("// ferrowarp.signature {name}");
    let (mut operands, mut written) = (Vec::new(), Vec::new());
    for param in &kernel.params {
        let Some((form, element)) = param.form() else { continue };
        let at = operands.len();
        text += &format!(" {form}:{{{at}}}:{{{}}}:{{{}}}", at + 1, at + 2);
        operands.push(quote!(::core::mem::size_of::<#element>()));
        operands.push(quote!(::core::mem::align_of::<#element>()));
        operands.push(quote!(::cuda_std::signature::type_hash::<#element>()));
        written.push(written_type(param.ty.to_token_stream(), kernel, instance));
    }
    // Braces are the assembly's own, but for these.
    let written = written.join(", ").replace('{', "{{").replace('}', "}}");
    let text = format!("{text} = {written}");
    quote!(::core::arch::global_asm!(#text, #(const #operands),*);)
}

/// A type as a programmer writes it.
fn written_type(tokens: TokenStream, kernel: &Kernel, instance: Option<&Instance>) -> String {
    let text = substituted(tokens, kernel, instance).to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let spaced = [(" <", "<"), ("< ", "<"), (" >", ">"), (" :: ", "::"), ("& ", "&"), (" ,", ",")];
    spaced.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

/// The tokens with an instance's arguments for the generic parameters.
fn substituted(tokens: TokenStream, kernel: &Kernel, instance: Option<&Instance>) -> TokenStream {
    let Some(one) = instance else { return tokens };
    let parameters = kernel.function.sig.generics.params.iter().map(name_of);
    let replace = |token: TokenTree| -> TokenStream {
        match token {
            TokenTree::Ident(word) => {
                let mut pairs = parameters.clone().zip(&one.arguments);
                let argument = pairs.find(|(name, _)| **name == word);
                argument.map_or_else(|| quote!(#word), |(_, argument)| argument.clone())
            }
            TokenTree::Group(group) => {
                let inside = substituted(group.stream(), kernel, instance);
                TokenTree::from(proc_macro2::Group::new(group.delimiter(), inside)).into()
            }
            other => other.into(),
        }
    };
    tokens.into_iter().map(replace).collect()
}
