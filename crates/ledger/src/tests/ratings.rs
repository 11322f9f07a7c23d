//! Ratings: what an answer counts for, and what becomes of them with its record.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{EndpointId, GenerationId, RatingSource, Task};
use pointsman_routing::quality::UNIT;
use rusqlite::Connection;

use super::memory_disk::MemoryDisk;
use crate::{
    database::Ledger,
    disk::Disk,
    entry::{Entry, Facts, Filter},
    facts::label,
    generations::{entry_id, owner_label},
    packed::Packed,
    queue::{Item, Queued},
    ratings::{ACCEPTED, RatedAnswer, Rating, Served},
    traffic::Traffic,
};

const START_MS: i64 = 1_795_413_600_000;

/// An answer that was served so many seconds after the start.
fn answer(at: i64) -> RatedAnswer {
    let created_ms = START_MS + at * 1_000;
    RatedAnswer {
        id: GenerationId::new((created_ms / 1_000) as u64, [at as u64, 7, 9]),
        created_ms,
        served: Some(Served { model: "acme/small".into(), endpoint: EndpointId(1), task: Task::Code }),
    }
}

fn rating(source: RatingSource, value: i64) -> Rating {
    Rating {
        name: ACCEPTED.into(),
        source,
        rater: u64::MAX,
        rated_ms: START_MS,
        value: value * UNIT / 100,
        weight: UNIT / 2,
        is_withdrawn: false,
        token: Some([7; 16]),
    }
}

/// A ledger with the records of these answers, whose owners are their places, and a rating of each.
fn rated(disk: &Arc<dyn Disk>, answers: &[RatedAnswer]) -> Ledger {
    let ledger = Ledger::open(disk, u64::MAX).unwrap();
    let item = |(at, answer): (usize, &RatedAnswer)| {
        let labels = vec![(label::OWNER, owner_label(at as u64))];
        let facts = Facts { labels, numbers: Vec::new() };
        let entry = Entry { id: entry_id(answer.id), created_ms: answer.created_ms, facts, bytes: vec![0] };
        Queued { item: Item::Entry(Packed::new(&entry)), position: None, ordinal: at as u64 + 1 }
    };
    ledger.commit(1, &answers.iter().enumerate().map(item).collect::<Vec<_>>(), &[]).unwrap();
    let rate = |answer| ledger.change_ratings(|writer| writer.add(answer, &rating(RatingSource::User, 100)));
    answers.iter().for_each(|answer| rate(answer).unwrap());
    ledger
}

fn all(ledger: &Ledger) -> (Vec<(RatedAnswer, Vec<Rating>)>, u64) {
    let mut all = Vec::new();
    let unreadable = ledger.each_rated_answer(|answer, ratings| all.push((answer.clone(), ratings.to_vec()))).unwrap();
    (all, unreadable)
}

#[test]
fn an_answer_counts_once_for_users_and_programs_and_once_for_judges_by_the_latest_ratings() {
    use RatingSource::{Judge, Program, User};
    let counted = |ratings: &[Rating]| {
        let answer = answer(0);
        answer.counted(ratings).map(|rated| (rated.is_judged, rated.accepted * 100 / rated.weight)).collect::<Vec<_>>()
    };
    let withdrawn = Rating { is_withdrawn: true, ..rating(User, 100) };
    assert_eq!(counted(&[rating(User, 100), rating(User, 40)]), [(false, 40)]);
    assert_eq!(counted(&[rating(User, 100), rating(Program, 40), rating(Judge, 0)]), [(false, 100), (true, 0)]);
    assert_eq!(counted(&[withdrawn, rating(Program, 40)]), [(false, 40)]);
    assert_eq!(counted(&[Rating { name: "thumbs".into(), ..rating(User, 100) }]), []);
    let unserved = RatedAnswer { served: None, ..answer(0) };
    assert_eq!(unserved.counted(&[rating(User, 100)]).count(), 0);
}

#[test]
fn a_rating_is_read_as_it_was_written_and_its_sums_stay_those_of_its_answer() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(1));
    let ledger = rated(&disk, &[answer(0)]);
    let mut expected = vec![rating(RatingSource::User, 100)];
    assert_eq!(ledger.ratings_of(answer(0).id).unwrap(), expected);
    assert_eq!(all(&ledger), (vec![(answer(0), expected.clone())], 0));
    ledger.change_ratings(|writer| writer.withdraw(answer(0).id, ACCEPTED, RatingSource::User)).unwrap();
    expected[0].is_withdrawn = true;
    assert_eq!(ledger.ratings_of(answer(0).id).unwrap(), expected);
    assert_eq!(ledger.ratings_of(answer(1).id).unwrap(), []);
}

#[test]
fn ratings_go_with_the_records_of_their_answers() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(1));
    let answers: Vec<RatedAnswer> = (0..4).map(answer).collect();
    let ledger = rated(&disk, &answers);
    let left = || answers.iter().map(|answer| ledger.ratings_of(answer.id).unwrap().len()).collect::<Vec<_>>();
    ledger.retain(answers[1].created_ms, u64::MAX).unwrap();
    assert_eq!(left(), [0, 1, 1, 1], "by age");
    let of_one = Filter { labels: vec![(label::OWNER, vec![owner_label(2)])], ..Filter::default() };
    assert_eq!(ledger.delete(&of_one).unwrap(), 1);
    assert_eq!(left(), [0, 1, 0, 1], "on request");
}

#[test]
fn a_rating_that_makes_no_sense_is_left_out_and_counted() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(1));
    let answers: Vec<RatedAnswer> = (0..6).map(answer).collect();
    let ledger = rated(&disk, &answers);
    let file = Connection::open(disk.folder().join("ledger.db")).unwrap();
    for (at, change) in
        ["task = 'prose'", "source = ''", "value = 1000001", "weight = 0", "token = x'00'"].iter().enumerate()
    {
        let update = format!("update ratings set {change} where generation = '{}'", answers[at].id.as_str());
        assert_eq!(file.execute(&update, []).unwrap(), 1);
    }
    let (read, unreadable) = all(&ledger);
    assert_eq!((read.len(), unreadable), (1, 5));
    ledger.change_ratings(|writer| writer.add(&answers[0], &rating(RatingSource::User, 0))).unwrap();
    let (read, unreadable) = all(&ledger);
    assert_eq!((read.len(), unreadable), (2, 5), "another one takes no place of a damaged one");
}

#[test]
fn a_ledger_of_a_version_without_ratings_gets_their_table() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(1));
    drop(rated(&disk, &[answer(0)]));
    Connection::open(disk.folder().join("ledger.db")).unwrap().execute_batch("drop table ratings").unwrap();
    assert_eq!(Traffic::open(disk.folder()).unwrap().ratings().unwrap(), BTreeMap::new(), "before that it has none");
    let ledger = Ledger::open(&disk, u64::MAX).unwrap();
    assert_eq!(ledger.ratings_of(answer(0).id).unwrap(), []);
}
