//! The table of ratings. A row that makes no sense is left out, and counted.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_domain::{EndpointId, GenerationId, RatingSource, Task};
use pointsman_routing::quality::UNIT;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::{Ledger, columns::ms_of};
use crate::{
    fault::Fault,
    ratings::{ACCEPTED, RatedAnswer, Rating, Served},
};

/// Made when the database is opened to write: ledgers of earlier versions have no such table.
pub(super) const SCHEMA: &str = "
create table if not exists ratings (
    generation text not null,
    n integer not null,
    created_ms integer not null,
    model text,
    endpoint integer,
    task text,
    name text not null,
    source text not null,
    rater integer not null,
    rated_ms integer not null,
    value integer not null,
    weight integer not null,
    withdrawn integer not null,
    token blob,
    primary key (generation, n)
) strict, without rowid;
create index if not exists ratings_created on ratings (created_ms);";

const COLUMNS: &str =
    "generation, created_ms, model, endpoint, task, name, source, rater, rated_ms, value, weight, withdrawn, token";

/// Changes ratings within a transaction.
pub struct RatingWriter<'t>(&'t Transaction<'t>);

impl RatingWriter<'_> {
    /// The ratings of an answer, in the order in which they came.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn of(&self, id: GenerationId) -> Result<Vec<Rating>, Fault> {
        ratings_of(self.0, id)
    }

    /// Adds a rating behind those that the answer has.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn add(&mut self, answer: &RatedAnswer, rating: &Rating) -> Result<(), Fault> {
        let mut insert = self.0.prepare_cached(&format!(
            "insert into ratings (n, {COLUMNS}) values ((select ifnull(max(n), -1) + 1 from ratings where generation = ?1),
             ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
        ))?;
        let served = answer.served.as_ref();
        insert.execute(params![
            answer.id.as_str(),
            answer.created_ms,
            served.map(|served| &*served.model),
            served.map(|served| served.endpoint.0.cast_signed()),
            served.map(|served| served.task.as_str()),
            &*rating.name,
            rating.source.as_str(),
            rating.rater.cast_signed(),
            rating.rated_ms,
            rating.value,
            rating.weight,
            rating.is_withdrawn,
            rating.token,
        ])?;
        Ok(())
    }

    /// Withdraws all ratings of an answer that have this name and source.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn withdraw(&mut self, id: GenerationId, name: &str, source: RatingSource) -> Result<(), Fault> {
        let mut withdraw = self
            .0
            .prepare_cached("update ratings set withdrawn = 1 where generation = ?1 and name = ?2 and source = ?3")?;
        withdraw.execute(params![id.as_str(), name, source.as_str()])?;
        Ok(())
    }
}

impl Ledger {
    /// Changes ratings in one transaction.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn change_ratings<T>(
        &self,
        change: impl FnOnce(&mut RatingWriter<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.change(|transaction, _| change(&mut RatingWriter(transaction)))
    }

    /// The ratings of an answer, in the order in which they came.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn ratings_of(&self, id: GenerationId) -> Result<Vec<Rating>, Fault> {
        ratings_of(self.view()?.connection()?, id)
    }

    /// When the first of the answers was admitted whose ratings may steer, Unix milliseconds.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn first_rated_ms(&self) -> Result<Option<i64>, Fault> {
        let view = self.view()?;
        let mut first = view.connection()?.prepare_cached(
            "select created_ms from ratings where withdrawn = 0 and name = ?1 and source <> ?2 order by created_ms limit 1",
        )?;
        Ok(first.query_row([ACCEPTED, RatingSource::Judge.as_str()], |row| row.get(0)).optional()?)
    }

    /// Gives each answer with its ratings, and at last the number of ratings that cannot be read.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn each_rated_answer(&self, mut each: impl FnMut(&RatedAnswer, &[Rating])) -> Result<u64, Fault> {
        let view = self.view()?;
        let mut read = view.connection()?.prepare(&format!("select {COLUMNS} from ratings order by generation, n"))?;
        let mut rows = read.query([])?;
        let (mut models, mut unreadable) = (BTreeSet::new(), 0);
        let mut last: Option<(RatedAnswer, Vec<Rating>)> = None;
        while let Some(row) = rows.next()? {
            let (Some(answer), Some(rating)) = (read_answer(row, &mut models), read_rating(row)) else {
                unreadable += 1;
                continue;
            };
            match &mut last {
                Some((of, ratings)) if of.id == answer.id => ratings.push(rating),
                last => {
                    if let Some((answer, ratings)) = last.replace((answer, vec![rating])) {
                        each(&answer, &ratings);
                    }
                }
            }
        }
        if let Some((answer, ratings)) = last {
            each(&answer, &ratings);
        }
        Ok(unreadable)
    }
}

fn ratings_of(connection: &Connection, id: GenerationId) -> Result<Vec<Rating>, Fault> {
    let mut read =
        connection.prepare_cached(&format!("select {COLUMNS} from ratings where generation = ?1 order by n"))?;
    let mut rows = read.query([id.as_str()])?;
    let mut ratings = Vec::new();
    while let Some(row) = rows.next()? {
        ratings.extend(read_rating(row));
    }
    Ok(ratings)
}

/// The names of `models` are shared.
fn read_answer(row: &Row<'_>, models: &mut BTreeSet<Arc<str>>) -> Option<RatedAnswer> {
    let (model, endpoint, task): (Option<String>, Option<i64>, Option<String>) =
        (row.get(2).ok()?, row.get(3).ok()?, row.get(4).ok()?);
    let served = match (model, endpoint, task) {
        (Some(model), Some(endpoint), Some(task)) => Some(Served {
            model: shared(model, models),
            endpoint: EndpointId(endpoint.cast_unsigned()),
            task: Task::named(&task)?,
        }),
        _ => None,
    };
    let id = GenerationId::parse(&row.get::<_, String>(0).ok()?)?;
    Some(RatedAnswer { id, created_ms: row.get(1).ok()?, served })
}

fn shared(name: String, names: &mut BTreeSet<Arc<str>>) -> Arc<str> {
    let known = names.get(name.as_str()).cloned();
    known.unwrap_or_else(|| {
        let name: Arc<str> = name.into();
        names.insert(Arc::clone(&name));
        name
    })
}

fn read_rating(row: &Row<'_>) -> Option<Rating> {
    let rating = Rating {
        name: row.get::<_, String>(5).ok()?.into(),
        source: RatingSource::named(&row.get::<_, String>(6).ok()?)?,
        rater: row.get::<_, i64>(7).ok()?.cast_unsigned(),
        rated_ms: row.get(8).ok()?,
        value: row.get(9).ok()?,
        weight: row.get(10).ok()?,
        is_withdrawn: row.get(11).ok()?,
        token: row.get(12).ok()?,
    };
    let is_plausible = (0..=UNIT).contains(&rating.value) && (1..=UNIT).contains(&rating.weight);
    is_plausible.then_some(rating)
}

/// Deletes the ratings of generations that were admitted at this time or before.
///
/// # Errors
/// The database refuses.
pub(super) fn drop_until(connection: &Connection, created_ms: i64) -> Result<(), Fault> {
    connection.prepare_cached("delete from ratings where created_ms <= ?1")?.execute([created_ms])?;
    Ok(())
}

/// Deletes the ratings of the generation that is stored at this place.
///
/// # Errors
/// The database refuses.
pub(super) fn drop_of(connection: &Connection, place: i64) -> Result<(), Fault> {
    let mut delete = connection.prepare_cached(
        "delete from ratings where created_ms = ?1 and generation =
             (select 'gen-' || (?1 / 1000) || '-' || tail from stored_generations where place = ?2)",
    )?;
    delete.execute([ms_of(place), place])?;
    Ok(())
}
