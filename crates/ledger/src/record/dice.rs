//! Any value of a type, for tests: a format of serde that rolls dice.

use pointsman_domain::GenerationId;
use pointsman_routing::decide::splitmix64;
use serde::{
    de::{
        DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer as _, SeqAccess, VariantAccess,
        Visitor, value::Error,
    },
    forward_to_deserialize_any,
};

use super::Source;

/// Lists within lists end here.
const DEEPEST: usize = 6;

/// Chance that repeats.
pub(super) struct Dice {
    state: u64,
    depth: usize,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice { state: seed, depth: 0 }
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        splitmix64(self.state)
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.roll() % choices.len() as u64) as usize]
    }

    /// What `make` gives as soon as it gives something: not every text is an id, and not every number a date.
    pub(super) fn until<T>(&mut self, mut make: impl FnMut(&mut Dice) -> Option<T>) -> T {
        loop {
            self.depth = 0;
            if let Some(value) = make(self) {
                return value;
            }
        }
    }

    fn list<'de, V: Visitor<'de>>(&mut self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.depth += 1;
        let made = visitor.visit_seq(List { dice: self, left: length });
        self.depth -= 1;
        made
    }
}

impl Source for Dice {
    fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        T::deserialize(self).ok()
    }
}

struct List<'d> {
    dice: &'d mut Dice,
    left: usize,
}

impl<'de> SeqAccess<'de> for List<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.dice).map(Some)
    }
}

macro_rules! number {
    ($($deserialize:ident $visit:ident $number:ident,)*) => {$(
        /// Small, large or at an end.
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let (low, high) = (u128::from(self.roll()), u128::from(self.roll()));
            let whole = (high << 64 | low) as $number;
            visitor.$visit(self.of(&[0, 1, $number::MAX, $number::MIN, whole, whole, whole % 100, whole % 100]))
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Dice {
    type Error = Error;

    number! {
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64, deserialize_u128 visit_u128 u128, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.of(&[false, true]))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let bits = f64::from_bits(self.roll());
        let ends = [0.0, -0.0, 1.0, 0.5, f64::INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE, bits, bits, bits];
        visitor.visit_f64(self.of(&ends))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.roll().is_multiple_of(4) {
            return visitor.visit_str(GenerationId::new(self.roll(), [self.roll(), self.roll(), 3]).as_str());
        }
        let length = self.of(&[0, 1, 3, 8, 200]);
        visitor
            .visit_string((0..length).map(|_| self.of(&['a', 'z', '/', '"', '\\', '\0', 'ß', '\u{1f600}'])).collect())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.of(&[false, true]) { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let length = if self.depth < DEEPEST { self.of(&[0, 1, 3]) } else { 0 };
        self.list(length, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.list(length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.list(members.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = (self.roll() % variants.len() as u64) as u32;
        visitor.visit_enum(Variant { dice: self, variant })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        panic!("a type that no record has")
    }

    forward_to_deserialize_any! { i8 i16 f32 char str bytes byte_buf unit unit_struct tuple_struct map identifier ignored_any }
}

struct Variant<'d> {
    dice: &'d mut Dice,
    variant: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        Ok((seed.deserialize(self.variant.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.dice)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.dice.list(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, members: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.dice.list(members.len(), visitor)
    }
}
