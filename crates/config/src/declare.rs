//! One declaration for each key of the configuration.
//!
//! A key is a comment, a name and a reader of [`Section`](super::section::Section) with range and default:
//!
//! ```text
//! /// Time without content after which the client gets a comment.
//! pub keepalive: Duration = duration_or(MILLISECOND..=DAY, 15 * SECOND),
//! ```
//!
//! The comment is the text of `docs/CONFIG.md` and of the JSON Schema; type, range and default come from the reader. What
//! a reader does not know stands in brackets behind it ([`Words`](super::described::Words)): `[unit = "tokens"]`. A key
//! that is not called like its field is written behind the field: `pub max_bytes "max_size": u64 = …`.
//!
//! `settings!` makes a struct of a section and its function `read`; a field with `=>` is no key but any expression.
//! `keys!` reads keys into variables or a type of another crate; a comment `//!` in front is the text of the section.

/// The name of a key: its field's, unless another is written behind it.
macro_rules! key_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Reads keys of a section into variables, or with `=> Type { … }` into fields of another type.
macro_rules! keys {
    ($section:ident: $(#![doc = $purpose:literal])* $(
        $(#[doc = $about:literal])+
        $name:ident $($key:literal)? = $reader:ident ($($argument:expr),* $(,)?) $([$($word:ident = $text:expr),+ $(,)?])?
    ),* $(,)?) => {
        $section.about(concat!($($purpose),*));
        $(let $name = {
            const KEY: &str = key_name!($name $($key)?);
            let words = $crate::described::Words { $($($word: $text,)+)? ..$crate::described::Words::NONE };
            $section.describe(KEY, concat!($($about),+), words);
            $section.$reader(KEY, $($argument),*)
        };)*
    };
    ($section:ident => $type:ident { $($rest:tt)* }: $(#![doc = $purpose:literal])* $(
        $(#[doc = $about:literal])+
        $name:ident $($key:literal)? = $reader:ident ($($argument:expr),* $(,)?) $([$($word:ident = $text:expr),+ $(,)?])?
    ),+ $(,)?) => {{
        keys! { $section: $(#![doc = $purpose])* $(
            $(#[doc = $about])+
            $name $($key)? = $reader($($argument),*) $([$($word = $text),+])?
        ),+ }
        $type { $($name,)+ $($rest)* }
    }};
}

/// A struct with the keys of a section, and a function that reads it.
macro_rules! settings {
    (
        $(#[doc = $purpose:literal])+
        #[derive($($derive:ident),+)]
        $vis:vis struct $type:ident read($section:ident $(, $context:ident: $context_type:ty)*) {$(
            $(#[doc = $about:literal])+
            $field_vis:vis $field:ident $($key:literal)?: $field_type:ty
                $(= $reader:ident ($($argument:expr),* $(,)?) $([$($word:ident = $text:expr),+ $(,)?])?)?
                $(=> $value:expr)?
        ),+ $(,)?}
    ) => {
        $(#[doc = $purpose])+
        #[derive($($derive),+)]
        $vis struct $type {
            $($(#[doc = $about])+ $field_vis $field: $field_type,)+
        }

        impl $type {
            pub(super) fn read($section: &$crate::section::Section<'_>, $($context: $context_type),*) -> $type {
                $section.about(concat!($($purpose),+));
                $(let $field = {
                    #[allow(dead_code, reason = "a field with `=>` is no key")]
                    const KEY: (&str, &str) = (key_name!($field $($key)?), concat!($($about),+));
                    $(
                        let words = $crate::described::Words { $($($word: $text,)+)? ..$crate::described::Words::NONE };
                        $section.describe(KEY.0, KEY.1, words);
                        $section.$reader(KEY.0, $($argument),*)
                    )?
                    $($value)?
                };)+
                $type { $($field),+ }
            }
        }
    };
}
