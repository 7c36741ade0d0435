//! The comments in the PTX that say what a kernel's parameters are.

use super::canonical;
use super::instances::{Instance, name_of};
use super::param::{Param, ParamKind};
use super::parsed::Kernel;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// `// ferrowarp.signature NAME slice:4:4:HASH … | index:1 block:256:1:1 shared:1024:4:HASH … = &[f32], …`.
///
/// Before the bar: the form of each parameter that a launch passes, the size, the alignment and the name's number of
/// its element. After it: `unsafe` if the kernel is an `unsafe fn`, the dimensions of the thread index (0: there is
/// none), the extents of the block whose token the kernel takes, and its arrays in shared memory; of a dynamic one the
/// element. Then the types that a launch passes, as they are written.
///
/// A kernel with a block's token has a line `// ferrowarp.block NAME` too: all threads of its block come to each of
/// its barriers, which the emulator checks.
pub fn comments(kernel: &Kernel, name: &Ident, instance: Option<&Instance>) -> TokenStream {
    let mut comment = Comment::new(format!("// ferrowarp.signature {name}"));
    let mut written = Vec::new();
    for param in &kernel.params {
        let Some((form, element)) = param.form() else { continue };
        comment.element(form, &element.to_token_stream());
        written.push(written_type(param.ty.to_token_stream(), kernel, instance));
    }
    let safety = kernel.function.sig.unsafety.map_or("", |_| " unsafe");
    comment.text += &format!(" |{safety} index:{}", kernel.index_dims().unwrap_or(0));
    for param in &kernel.params {
        hardware(&mut comment, param);
    }
    // Braces are the assembly's own, but for these.
    let written = written.join(", ").replace('{', "{{").replace('}', "}}");
    let Comment { text, operands } = comment;
    let text = format!("{text} = {written}");
    // One item of assembly: the compiler deals kernels out to its threads, and so orders the text, by the number of
    // items.
    let has_block = kernel.params.iter().any(|param| matches!(param.kind, ParamKind::Block(_)));
    let block = if has_block { format!("\n// ferrowarp.block {name}") } else { String::new() };
    let text = text + &block;
    quote!(::core::arch::global_asm!(#text, #(const #operands),*);)
}

/// What the entry takes from the hardware, but for the index.
fn hardware(comment: &mut Comment, param: &Param) {
    match &param.kind {
        ParamKind::Block(extents) => {
            let extent = |at| extents.get(at).map_or(quote!(1usize), |extent| quote!(#extent));
            comment.numbers("block", (0..3).map(extent).collect());
        }
        ParamKind::Shared { dynamic: Some(element) } => {
            comment.element("dynamic", &element.to_token_stream());
        }
        ParamKind::Shared { dynamic: None } => {
            let ty = canonical::ty(param);
            let array = quote!(<#ty as ::cuda_std::shared::Declared>::Layout);
            comment.element("shared", &array);
        }
        _ => {}
    }
}

/// A comment with numbers that the compiler fills in.
struct Comment {
    text: String,
    operands: Vec<TokenStream>,
}

impl Comment {
    fn new(text: String) -> Self {
        Self { text, operands: Vec::new() }
    }

    /// ` FORM:SIZE:ALIGNMENT:HASH`
    fn element(&mut self, form: &str, ty: &TokenStream) {
        let numbers = vec![
            quote!(::core::mem::size_of::<#ty>()),
            quote!(::core::mem::align_of::<#ty>()),
            quote!(::cuda_std::signature::type_hash::<#ty>()),
        ];
        self.numbers(form, numbers);
    }

    fn numbers(&mut self, form: &str, numbers: Vec<TokenStream>) {
        self.text += &format!(" {form}");
        for number in numbers {
            self.text += &format!(":{{{}}}", self.operands.len());
            self.operands.push(number);
        }
    }
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
