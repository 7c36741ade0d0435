//! The instances of a generic kernel: `#[kernel(f32, f64)]`, `#[kernel((f32, Sum), (f32, Max))]`.

use super::errors::Errors;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, GenericArgument, GenericParam, Generics, Result, Token, parenthesized};

/// One instance as the attribute lists it.
pub struct ListedInstance {
    tokens: TokenStream,
    /// The arguments between the parentheses, if it has any.
    inside: Option<Vec<GenericArgument>>,
}

impl Parse for ListedInstance {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(syn::token::Paren) {
            let tokens = input.parse::<GenericArgument>()?.into_token_stream();
            return Ok(Self { tokens, inside: None });
        }
        let content;
        let paren = parenthesized!(content in input);
        let inside = Punctuated::<GenericArgument, Token![,]>::parse_terminated(&content)?;
        let mut tokens = TokenStream::new();
        paren.surround(&mut tokens, |tokens| inside.to_tokens(tokens));
        Ok(Self { tokens, inside: Some(inside.into_iter().collect()) })
    }
}

impl ListedInstance {
    /// The arguments for `params` generic parameters.
    fn arguments(&self, params: usize) -> Result<Vec<TokenStream>> {
        let inside = self.inside.as_ref().filter(|_| params != 1);
        let arguments = match inside {
            Some(inside) => inside.iter().map(ToTokens::to_token_stream).collect(),
            None => vec![self.tokens.clone()],
        };
        if arguments.len() == params {
            return Ok(arguments);
        }
        let message = format!(
            "this instance gives {} of {params} generic arguments\n\
             help: write one instance as `(first, second)`",
            arguments.len()
        );
        Err(Error::new_spanned(&self.tokens, message))
    }
}

/// One instance of a generic kernel.
pub struct Instance {
    /// The name of its PTX entry: `axpy_f32`.
    pub name: Ident,
    /// Its generic arguments.
    pub arguments: Vec<TokenStream>,
}

impl Instance {
    /// The module that holds the instance's own items.
    pub fn module(&self) -> Ident {
        format_ident!("__{}", self.name)
    }

    /// Aliases by which the kernel's generic parameters mean this instance's arguments.
    pub fn aliases(&self, generics: &Generics) -> TokenStream {
        let alias = |(param, argument): (&GenericParam, &TokenStream)| match param {
            GenericParam::Const(param) => {
                let (name, ty) = (&param.ident, &param.ty);
                quote!(pub const #name: #ty = #argument;)
            }
            param => {
                let name = name_of(param);
                quote!(pub type #name = #argument;)
            }
        };
        generics.params.iter().zip(&self.arguments).map(alias).collect()
    }
}

/// The instances of the kernel `name`, in the order of the attribute.
pub fn instances(
    listed: &[ListedInstance],
    name: &Ident,
    generics: &Generics,
    errors: &mut Errors,
) -> Vec<Instance> {
    if let Some(lifetime) = generics.lifetimes().next() {
        errors.add(Error::new_spanned(
            lifetime,
            "a kernel has no lifetime parameters: its arguments live as long as it runs",
        ));
        return vec![];
    }
    let params = generics.params.len();
    if params == 0 {
        listed.iter().for_each(|listed| errors.add(not_generic(listed)));
        return vec![];
    }
    if listed.is_empty() {
        errors.add(Error::new_spanned(
            &generics.params,
            "a generic kernel lists its instances: the GPU looks each up by name\n\
             help: write `#[kernel(f32, f64)]`, \
             or `#[kernel((f32, Sum), (f32, Max))]` for two parameters",
        ));
    }
    let mut instances: Vec<Instance> = Vec::new();
    for listed in listed {
        let Some(arguments) = errors.take(listed.arguments(params)) else { continue };
        let name = entry_name(name, &arguments);
        if instances.iter().any(|other| other.name == name) {
            let message = format!("another instance is already named `{name}`");
            errors.add(Error::new_spanned(&listed.tokens, message));
            continue;
        }
        instances.push(Instance { name, arguments });
    }
    instances
}

fn not_generic(listed: &ListedInstance) -> Error {
    let message = format!(
        "`#[kernel]` has no option `{}`: a contract has {}\n\
         help: an instance, as in `#[kernel(f32, f64)]`, needs a generic parameter",
        listed.tokens,
        super::contract::NAMES,
    );
    Error::new_spanned(&listed.tokens, message)
}

/// `axpy` and `f32` → `axpy_f32`; of a path the last word counts.
fn entry_name(kernel: &Ident, arguments: &[TokenStream]) -> Ident {
    let mut words = vec![kernel.to_string()];
    for argument in arguments {
        collect_words(argument.clone(), &mut words);
    }
    Ident::new(&words.join("_"), kernel.span())
}

fn collect_words(tokens: TokenStream, words: &mut Vec<String>) {
    let mut after_colons = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_words(group.stream(), words),
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                after_colons = true;
                continue;
            }
            TokenTree::Punct(punct) if punct.as_char() == '-' => words.push("minus".to_owned()),
            TokenTree::Punct(_) => {}
            TokenTree::Ident(word) => {
                if after_colons {
                    words.pop();
                }
                words.push(word.to_string());
            }
            TokenTree::Literal(literal) => {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
                words.push(literal.to_string().chars().map(plain).collect());
            }
        }
        after_colons = false;
    }
}

/// The name of a type or const parameter; lifetimes were refused before.
pub fn name_of(param: &GenericParam) -> &Ident {
    match param {
        GenericParam::Type(param) => &param.ident,
        GenericParam::Const(param) => &param.ident,
        GenericParam::Lifetime(param) => &param.lifetime.ident,
    }
}
