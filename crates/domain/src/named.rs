//! Enumerations whose values have names.

/// Declares an enumeration of named values: `ALL` holds them in order, `as_str` gives the name of one, and `from_name` finds a
/// value by its name.
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$of_value:meta])* $value:ident = $text:literal,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $name {
            $($(#[$of_value])* $value,)+
        }

        #[allow(dead_code, reason = "some need one of them alone")]
        impl $name {
            /// All values, in order.
            $visibility const ALL: [$name; [$(stringify!($value)),+].len()] = [$($name::$value),+];

            /// Its name.
            #[must_use]
            $visibility const fn as_str(self) -> &'static str {
                match self {
                    $($name::$value => $text,)+
                }
            }

            /// The value of that name.
            #[must_use]
            $visibility fn from_name(name: &str) -> Option<$name> {
                match name {
                    $($text => Some($name::$value),)+
                    _ => None,
                }
            }
        }
    };
}
