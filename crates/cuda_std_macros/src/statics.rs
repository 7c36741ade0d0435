//! Statics of a kernel's body that lie in shared memory: `static mut TILE: SharedArray<f32, 256> = SharedArray::UNINIT;`

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Block, Expr, ItemStatic, Result};

/// Whether this is `SharedArray::UNINIT`, by whatever path, or `SharedArray::<T, N>::UNINIT`.
pub fn is_uninit(value: &Expr) -> bool {
    let Expr::Path(path) = value else { return false };
    let mut words = path.path.segments.iter().rev();
    words.next().is_some_and(|last| last.ident == UNINIT)
        && words.next().is_some_and(|array| array.ident == "SharedArray")
}

const UNINIT: &str = "UNINIT";

/// Writes `#[address_space(shared)]` above each such static of a kernel's body that does not have it, in blocks, closures and
/// functions inside it too.
pub fn mark(body: &mut Block) -> Result<()> {
    let tokens = body.to_token_stream();
    if mentions(tokens.clone()) {
        *body = syn::parse2(marked(tokens))?;
    }
    Ok(())
}

/// Whether the word `UNINIT` occurs.
fn mentions(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == UNINIT,
        TokenTree::Group(group) => mentions(group.stream()),
        _ => false,
    })
}

fn marked(tokens: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut out = TokenStream::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if is_static(word, &tokens[..at], &tokens[at..]) => {
                out.extend(quote!(#[::cuda_std::address_space(shared)]));
                out.extend([token.clone()]);
            }
            TokenTree::Group(group) => {
                let mut inside = Group::new(group.delimiter(), marked(group.stream()));
                inside.set_span(group.span());
                out.extend([TokenTree::Group(inside)]);
            }
            other => out.extend([other.clone()]),
        }
    }
    out
}

/// Whether a static in shared memory begins at the first token of `rest`.
fn is_static(word: &Ident, before: &[TokenTree], rest: &[TokenTree]) -> bool {
    let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(end) if end.as_char() == ';');
    let Some(end) = rest.iter().position(is_end).filter(|_| word == "static") else { return false };
    let item: TokenStream = rest[..=end].iter().cloned().collect();
    let is_uninit = syn::parse2::<ItemStatic>(item).is_ok_and(|item| is_uninit(&item.expr));
    is_uninit && !has_space(before)
}

/// Whether an `#[address_space(…)]` is among the attributes at the end of these tokens.
fn has_space(before: &[TokenTree]) -> bool {
    let attribute = match before {
        [.., TokenTree::Punct(hash), TokenTree::Group(group)] if hash.as_char() == '#' => group,
        _ => return false,
    };
    let is_attribute = attribute.delimiter() == Delimiter::Bracket;
    let names = |token| matches!(token, TokenTree::Ident(word) if word == "address_space");
    is_attribute
        && (attribute.stream().into_iter().any(names) || has_space(&before[..before.len() - 2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    /// The body with its marks, and how many there are.
    fn count(mut body: Block) -> usize {
        mark(&mut body).unwrap();
        let text = body.to_token_stream().to_string();
        text.matches("address_space").count()
    }

    #[test]
    fn statics_are_found_wherever_they_stand() {
        assert_eq!(
            count(parse_quote!({
                static mut A: SharedArray<f32, 4> = SharedArray::UNINIT;
            })),
            1
        );
        let body = parse_quote!({
            let text: &'static str = "static";
            #[allow(dead_code)]
            static mut A: cuda_std::shared::SharedArray<f32, { 2 * N }, 128> =
                cuda_std::shared::SharedArray::UNINIT;
            loop {
                static B: SharedArray<f32, 4> = SharedArray::<f32, 4>::UNINIT;
                unsafe {
                    fn inner() {
                        static mut C: Tile = SharedArray::UNINIT;
                    }
                }
            }
        });
        assert_eq!(count(body), 3);
    }

    #[test]
    fn other_statics_stay_as_they_are() {
        let body: Block = parse_quote!({
            static UNINIT: u32 = 5;
            static mut A: Other = Other::UNINIT;
            static B: u32 = UNINIT;
            let c = SharedArray::<f32, 4>::UNINIT;
        });
        let mut marked = body.clone();
        mark(&mut marked).unwrap();
        assert_eq!(marked.to_token_stream().to_string(), body.to_token_stream().to_string());
        let named = parse_quote!({
            #[address_space(shared)]
            #[allow(dead_code)]
            static mut A: SharedArray<f32, 4> = SharedArray::UNINIT;
        });
        assert_eq!(count(named), 1);
    }
}
