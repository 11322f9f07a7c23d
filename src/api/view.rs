//! Structs of answers, each declared with the values that its members have.

/// Declares a struct of an answer and, before its members, the function that makes it. Each member stands with its value; what
/// several values need is computed first, in the body of the function. After `as` is the name in the OpenAPI documents; without
/// one the struct is described where it is used.
macro_rules! view {
    (
        $(#[$about:meta])*
        $visibility:vis struct $name:ident $(<$life:lifetime>)? as $schema:tt { $($members:tt)* }
    ) => {
        view! { @(rename = $schema) $(#[$about])* $visibility struct $name $(<$life>)? { $($members)* } }
    };
    ($(#[$about:meta])* $visibility:vis struct $name:ident $(<$life:lifetime>)? { $($members:tt)* }) => {
        view! { @(inline) $(#[$about])* $visibility struct $name $(<$life>)? { $($members)* } }
    };
    (
        @($($schema:tt)*)
        $(#[$about:meta])*
        $visibility:vis struct $name:ident $(<$life:lifetime>)? {
            $(#[$about_function:meta])*
            $seen_function:vis fn $function:ident($($arguments:tt)*) { $($first:tt)* }
            $($(#[$about_member:meta])* $seen:vis $member:ident: $kind:ty = $value:expr,)*
        }
    ) => {
        #[derive(Serialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema), schemars($($schema)*))]
        $(#[$about])*
        $visibility struct $name $(<$life>)? {
            $($(#[$about_member])* $seen $member: $kind,)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            $(#[$about_function])*
            $seen_function fn $function($($arguments)*) -> Self {
                $($first)*
                $name { $($member: $value,)* }
            }
        }
    };
}
