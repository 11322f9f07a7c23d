use std::{collections::HashMap, fmt::Debug, sync::Arc};

use pointsman_domain::{Catalog, Generation, ParameterSet, RoutingPolicy, ShadowChoice};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::{
    ContentHash, FORMAT, RecordFault, RecordWriter, Source, Version, Versions, catalog, dice::Dice, generation, read,
    read_catalog, read_policy,
};

/// Versions in memory, and a writer of records that stores them.
#[derive(Default)]
struct Shelf {
    catalogs: HashMap<ContentHash, Arc<Catalog>>,
    policies: HashMap<ContentHash, Arc<RoutingPolicy>>,
    writer: RecordWriter,
}

impl Versions for Shelf {
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>> {
        self.catalogs.get(&hash).cloned()
    }

    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>> {
        self.policies.get(&hash).cloned()
    }
}

impl Shelf {
    fn write(&mut self, generation: &Generation) -> Vec<u8> {
        let mut bytes = Vec::new();
        let [catalog, policy] = self.writer.append(generation, &mut bytes);
        self.catalogs.extend(catalog.map(|version| (version.hash, Arc::clone(&generation.catalog))));
        self.policies.extend(policy.map(|version| (version.hash, Arc::clone(&generation.policy))));
        bytes
    }
}

pub(in super::super) fn any_generation(seed: u64) -> Generation {
    let dice = &mut Dice::new(seed);
    let (catalog, policy) = (Arc::new(any_catalog(dice)), Arc::new(dice.until(Source::next)));
    dice.until(|dice| generation(dice, Arc::clone(&catalog), Arc::clone(&policy)))
}

/// One that has a second spelling of each alias.
fn any_catalog(dice: &mut Dice) -> Catalog {
    let Catalog { version, providers, models, endpoints, aliases, parameters, .. } = dice.until(catalog);
    let synonyms: Vec<_> = aliases.iter().map(|alias| (format!("of {}", dice.roll()), alias.id.clone())).collect();
    Catalog::new(version, providers, models, endpoints, aliases, &synonyms, parameters).unwrap()
}

/// Everything but the names by which a catalog is searched, which stand in no order.
fn listed(catalog: &Catalog) -> impl Debug {
    let parameters: Vec<_> = catalog.parameters.names(ParameterSet::of_bits(u128::MAX)).cloned().collect();
    format!("{:?}{:?}{:?}{:?}{:?}", catalog.providers, catalog.models, catalog.endpoints, catalog.aliases, parameters)
}

proptest! {
    #[test]
    fn a_generation_is_read_as_it_was_written_bit_for_bit(seed: u64) {
        let generation = any_generation(seed);
        let mut shelf = Shelf::default();
        let bytes = shelf.write(&generation);
        let read = read(&bytes, &shelf).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{generation:?}"));
        // Says more than that: of what is no number, too, every bit is the same.
        prop_assert_eq!(shelf.write(&read), bytes);
    }

    #[test]
    fn a_catalog_is_read_as_it_was_written_and_resolves_every_name_alike(seed: u64) {
        let catalog = any_catalog(&mut Dice::new(seed));
        let version = Version::of_catalog(&catalog);
        let read = read_catalog(&version.bytes).unwrap();
        prop_assert_eq!(format!("{:?}", listed(&read)), format!("{:?}", listed(&catalog)));
        prop_assert_eq!((read.version, read.synonyms()), (catalog.version, catalog.synonyms()));
        let today = "2026-11-20".parse().unwrap();
        let synonyms = catalog.synonyms();
        let aliases = catalog.aliases.iter().map(|alias| &*alias.id).chain(synonyms.iter().map(|(name, _)| &**name));
        let models = catalog.models.iter().flat_map(|model| [model.id.as_str(), &model.canonical_slug]);
        for name in aliases.chain(models) {
            prop_assert_eq!(read.resolve(name, today), catalog.resolve(name, today));
        }
        prop_assert_eq!(Version::of_catalog(&read), version);
    }

    #[test]
    fn a_policy_is_read_as_it_was_written(seed: u64) {
        let policy = Dice::new(seed).until(Source::next::<RoutingPolicy>);
        let version = Version::of_policy(&policy);
        let read = read_policy(&version.bytes).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{policy:?}"));
        prop_assert_eq!(Version::of_policy(&read), version);
    }

    #[test]
    fn any_bytes_are_refused_or_read_and_never_a_panic(
        bytes: Vec<u8>,
        seed: u64,
        flips in prop::collection::vec(any::<(u16, u8)>(), 0..4),
        end: u16,
    ) {
        let mut shelf = Shelf::default();
        let mut record = shelf.write(&any_generation(seed));
        let catalog = Version::of_catalog(&any_catalog(&mut Dice::new(seed))).bytes;
        let head = 1 + 2 * size_of::<ContentHash>();
        for bytes in [&bytes[..], &[&record[..head], &bytes].concat(), &[&catalog[..1], &bytes].concat()] {
            _ = (read(bytes, &shelf), read_catalog(bytes), read_policy(bytes));
        }
        for (at, byte) in flips {
            let at = usize::from(at) % record.len();
            record[at] ^= byte;
        }
        _ = read(&record, &shelf);
        let cut = usize::from(end) % record.len();
        prop_assert!(read(&record[..cut], &shelf).is_err());
    }
}

#[test]
fn a_record_cut_anywhere_or_with_a_byte_too_many_is_damaged() {
    let mut shelf = Shelf::default();
    let mut record = shelf.write(&any_generation(7));
    for cut in 0..record.len() {
        assert!(read(&record[..cut], &shelf).is_err(), "{cut} of {}", record.len());
    }
    record.push(0);
    assert_eq!(read(&record, &shelf), Err(RecordFault::Damaged));
}

#[test]
fn choices_of_shadows_take_at_most_40_bytes_each_and_nothing_where_there_are_none() {
    let (mut shelf, mut generation) = (Shelf::default(), any_generation(7));
    let without = shelf.write(&generation).len();
    let longest = ShadowChoice {
        shadow: "sixteen-letters-".into(),
        choice: Some(60_000),
        gap: Some(0.25),
        cost: 1.5e-3,
        first_token: 0.4,
        failure: 0.01,
    };
    let none = ShadowChoice { choice: None, gap: None, ..longest.clone() };
    generation.shadows = vec![longest, none];
    let bytes = shelf.write(&generation);
    assert!(bytes.len() <= without + 1 + 2 * 40, "{} bytes more", bytes.len() - without);
    assert_eq!(read(&bytes, &shelf).unwrap().shadows, generation.shadows);
}

#[test]
fn a_record_of_a_later_format_is_told_from_a_damaged_one() {
    let mut shelf = Shelf::default();
    let mut record = shelf.write(&any_generation(7));
    record[0] = FORMAT + 1;
    assert_eq!(read(&record, &shelf), Err(RecordFault::Newer { format: FORMAT + 1 }));
    record[0] = 0;
    assert_eq!(read(&record, &shelf), Err(RecordFault::Damaged));
    assert_eq!(read_catalog(&[FORMAT + 1]), Err(RecordFault::Newer { format: FORMAT + 1 }));
}

#[test]
fn a_record_whose_catalog_or_policy_is_not_stored_names_the_missing_one() {
    let mut shelf = Shelf::default();
    let generation = any_generation(7);
    let record = shelf.write(&generation);
    let policy = Version::of_policy(&generation.policy).hash;
    shelf.policies.clear();
    assert_eq!(read(&record, &shelf), Err(RecordFault::NoPolicy(policy)));
    let catalog = Version::of_catalog(&generation.catalog).hash;
    shelf.catalogs.clear();
    assert_eq!(read(&record, &shelf), Err(RecordFault::NoCatalog(catalog)));
}

#[test]
fn a_version_is_told_once_and_equal_ones_have_one_hash() {
    let (first, second) = (any_generation(1), any_generation(2));
    let mut writer = RecordWriter::default();
    let mut told = |generation| writer.append(generation, &mut Vec::new()).map(|version| version.is_some());
    assert_eq!(told(&first), [true; 2]);
    assert_eq!(told(&first), [false; 2]);
    assert_eq!(told(&second), [true; 2]);
    assert_eq!(told(&first), [false; 2], "a stream that began before the reload");
    assert_eq!(told(&second), [false; 2]);
    let same = Arc::new(Catalog::clone(&first.catalog));
    assert_eq!(Version::of_catalog(&same).hash, Version::of_catalog(&first.catalog).hash);
    assert_ne!(Version::of_catalog(&second.catalog).hash, Version::of_catalog(&first.catalog).hash);
}

/// What follows from the members of all types that a record holds, from their order and that of variants.
#[test]
fn nobody_changes_what_is_written_without_noticing() {
    let mut hash = Sha256::new();
    for seed in 0..200 {
        let generation = any_generation(seed * 1_000_000);
        hash.update(Shelf::default().write(&generation));
    }
    let now = hex::encode(&hash.finalize()[..8]);
    assert_eq!(
        now, "8956fabfa6dfb76f",
        "records are written in another way: FORMAT must rise, once a version of this one is released"
    );
}
