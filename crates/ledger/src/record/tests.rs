use std::{collections::HashMap, fmt::Debug, sync::Arc};

use pointsman_domain::{Catalog, Generation, ParameterSet, RoutingPolicy};
use proptest::prelude::*;

use super::{
    ContentHash, FORMAT, RecordFault, RecordWriter, Version, Versions,
    bytes::{Reader, Stored},
    dice::{Any, Dice},
    generation, read, read_catalog, read_policy,
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
        let written = self.writer.write(generation);
        if let Some(version) = written.catalog {
            self.catalogs.insert(version.hash, Arc::clone(&generation.catalog));
        }
        if let Some(version) = written.policy {
            self.policies.insert(version.hash, Arc::clone(&generation.policy));
        }
        written.bytes
    }
}

fn any_generation(seed: u64) -> Generation {
    let dice = &mut Dice(seed);
    let (catalog, policy) = (Any::any(dice), Any::any(dice));
    generation::any(dice, &catalog, &policy)
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
        let catalog = Catalog::any(&mut Dice(seed));
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
        let policy = RoutingPolicy::any(&mut Dice(seed));
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
        let catalog = Version::of_catalog(&Catalog::any(&mut Dice(seed))).bytes;
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
    let Err(RecordFault::Damaged(fault)) = read(&record, &shelf) else { panic!("read with a byte too many") };
    assert_eq!((fault.at, fault.what), (record.len() - 1, "the record does not end here"));
}

#[test]
fn a_record_of_a_later_format_is_told_from_a_damaged_one() {
    let mut shelf = Shelf::default();
    let mut record = shelf.write(&any_generation(7));
    record[0] = FORMAT + 1;
    assert_eq!(read(&record, &shelf), Err(RecordFault::Newer { format: FORMAT + 1 }));
    record[0] = 0;
    assert!(matches!(read(&record, &shelf), Err(RecordFault::Damaged(_))));
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
    let told = |written: super::WrittenRecord| (written.catalog.is_some(), written.policy.is_some());
    assert_eq!(told(writer.write(&first)), (true, true));
    assert_eq!(told(writer.write(&first)), (false, false));
    assert_eq!(told(writer.write(&second)), (true, true));
    assert_eq!(told(writer.write(&first)), (false, false), "a stream that began before the reload");
    assert_eq!(told(writer.write(&second)), (false, false));
    let same = Arc::new(Catalog::clone(&first.catalog));
    assert_eq!(Version::of_catalog(&same).hash, Version::of_catalog(&first.catalog).hash);
    assert_ne!(Version::of_catalog(&second.catalog).hash, Version::of_catalog(&first.catalog).hash);
}

#[test]
fn a_number_with_more_bits_than_its_type_is_damaged() {
    for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x1f][..], &[0xff; 20], &[0x80]] {
        assert!(u32::take(&mut Reader::new(bytes)).is_err(), "{bytes:?}");
    }
    assert_eq!(u32::take(&mut Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f])), Ok(u32::MAX));
}
