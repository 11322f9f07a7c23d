//! Pages of the records of all replicas, newest first.

use std::collections::HashSet;

use pointsman_ledger::{
    entry::{Entry, Filter, Id, Key},
    facts::label,
    other_replicas::ForeignPage,
    packed::Packed,
    page::Query,
    record::{ContentHash, versions_of},
    version_cache::VersionBytes,
};
use tokio_postgres::{Client, Row, types::Type};

use super::session::{Parameter, PostgresFault};

/// Most records that one page looks at: bounds the time of a rare filter.
const SCANNED: usize = 4_096;
/// Records of one answer of PostgreSQL, once the first had too few matches.
const BATCH: usize = 1_024;

const SELECT: &str = "
    select created_ms, id, entry from pointsman_records
    where (created_ms, id) < ($1, $2) and created_ms between $3 and $4 and ($5::text[] is null or account = any($5))
    order by created_ms desc, id desc
    limit $6";

/// Reads a page, with the versions that its records refer to, but for those that are `known`.
///
/// # Errors
/// PostgreSQL fails.
pub async fn read(client: &Client, query: &Query, known: &HashSet<ContentHash>) -> Result<ForeignPage, PostgresFault> {
    let mut page = ForeignPage::default();
    let mut after = query.after.unwrap_or(Key { created_ms: i64::MAX, id: Id([u8::MAX; Id::LENGTH]) });
    let (mut scanned, mut batch) = (0, query.limit.saturating_add(1).min(BATCH));
    loop {
        let rows = select(client, &query.filter, after, batch).await?;
        for row in &rows {
            after = key(row).unwrap_or(after);
            let Some(entry) = Packed::read(row.get(2)).map(|packed| packed.entry()) else { continue };
            if query.filter.admits(entry.created_ms, &entry.facts) {
                page.entries.push(entry);
            }
            if page.entries.len() >= query.limit {
                page.next = Some(after);
                break;
            }
        }
        scanned += rows.len();
        let is_end = rows.len() < batch;
        if page.next.is_some() || is_end {
            break;
        }
        if scanned >= SCANNED {
            page.next = Some(after);
            break;
        }
        batch = BATCH;
    }
    page.versions = versions(client, &page.entries, known).await?;
    Ok(page)
}

async fn select(client: &Client, filter: &Filter, after: Key, most: usize) -> Result<Vec<Row>, PostgresFault> {
    let (since, until) = (filter.since_ms.unwrap_or(i64::MIN), filter.until_ms.unwrap_or(i64::MAX));
    let accounts = filter.labels.iter().find(|(field, _)| *field == label::OWNER);
    let accounts: Option<Vec<&str>> = accounts.map(|(_, accounts)| accounts.iter().map(|account| &**account).collect());
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let (at, id) = (after.created_ms, after.id.0.as_slice());
    let parameters: [Parameter<'_>; 6] = [
        (&at, Type::INT8),
        (&id, Type::BYTEA),
        (&since, Type::INT8),
        (&until, Type::INT8),
        (&accounts, Type::TEXT_ARRAY),
        (&most, Type::INT8),
    ];
    Ok(client.query_typed(SELECT, &parameters).await?)
}

fn key(row: &Row) -> Option<Key> {
    Some(Key { created_ms: row.get(0), id: Id(row.get::<_, &[u8]>(1).try_into().ok()?) })
}

/// The catalogs and policies of these records, as bytes.
async fn versions(
    client: &Client,
    entries: &[Entry],
    known: &HashSet<ContentHash>,
) -> Result<VersionBytes, PostgresFault> {
    let named = entries.iter().filter_map(|entry| versions_of(&entry.bytes)).flatten();
    let wanted: HashSet<ContentHash> = named.filter(|hash| !known.contains(hash)).collect();
    if wanted.is_empty() {
        return Ok(VersionBytes::new());
    }
    let hashes: Vec<&[u8]> = wanted.iter().map(|hash| hash.0.as_slice()).collect();
    let select = "select hash, bytes from pointsman_versions where hash = any($1)";
    let rows = client.query_typed(select, &[(&hashes, Type::BYTEA_ARRAY)]).await?;
    let version = |row: &Row| Some((ContentHash(row.get::<_, &[u8]>(0).try_into().ok()?), row.get(1)));
    Ok(rows.iter().filter_map(version).collect())
}
