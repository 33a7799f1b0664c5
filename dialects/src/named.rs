/// Declares an enum whose variants have names, and old or short names, that files and answers use.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $Type:ident {
            $($(#[doc = $doc:literal])* $Variant:ident = $name:literal $(| $alias:literal)*,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd,
            serde::Deserialize, serde::Serialize, schemars::JsonSchema,
        )]
        #[schemars(inline)]
        #[non_exhaustive]
        pub enum $Type {
            $($(#[doc = $doc])* #[serde(rename = $name $(, alias = $alias)*)] $Variant,)*
        }

        impl $Type {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// Every name by which one can be asked for, aliases included.
            pub const NAMES: &'static [&'static str] = &[$($name, $($alias,)*)*];

            /// The name in files and answers.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)*
                }
            }

            /// The one of that name or alias.
            pub fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $alias)* => Some(Self::$Variant),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use named;
