//! The tables, and how they change.
//!
//! A step only ever adds: a table, a column with a default. So a version that knows fewer steps works beside one that knows
//! more. Steps are taken under an advisory lock, by the first replica that has them, within the time of a connection: a step
//! must not take longer on large tables, as an index of all records would.

use tokio_postgres::{Client, types::Type};

/// Number of the advisory lock for steps: "pointsma" in ASCII.
const STEPS_LOCK: i64 = 0x706f_696e_7473_6d61;
/// Number of the advisory lock under which changes get their places, so that a place is visible no later than those behind it.
pub const CHANGES_LOCK: i64 = STEPS_LOCK + 1;

/// The steps, in order. A released step is never changed.
const STEPS: [&str; 1] = ["
    create table pointsman_records (
        id bytea primary key,
        created_ms bigint not null,
        node text not null,
        account text not null,
        key text,
        model text not null,
        provider text,
        status text not null,
        cost numeric not null,
        prompt_tokens bigint not null,
        completion_tokens bigint not null,
        catalog bytea not null,
        policy bytea not null,
        team text,
        alias text,
        objective text,
        task text,
        requested_model text,
        cause text,
        variant text,
        events bigint,
        cached_tokens bigint,
        reasoning_tokens bigint,
        cache_write_tokens bigint,
        cache_write_1h_tokens bigint,
        audio_tokens bigint,
        audio_output_tokens bigint,
        images bigint,
        web_searches bigint,
        input_nanos bigint,
        cache_nanos bigint,
        output_nanos bigint,
        lost_nanos bigint,
        first_token_ms bigint,
        duration_ms bigint,
        cost_unknown bigint,
        entry bytea not null,
        stored_at timestamptz not null default now()
    );
    create index pointsman_records_created on pointsman_records (created_ms);
    create index pointsman_records_account on pointsman_records (account, created_ms);
    create table pointsman_versions (
        hash bytea primary key,
        bytes bytea not null
    );
    create table pointsman_positions (
        node text not null,
        ledger bytea not null,
        block bigint not null,
        primary key (node, ledger)
    );
    create table pointsman_changes (
        seq bigint generated always as identity primary key,
        id bytea not null unique,
        node text not null,
        change text not null
    );
    create table pointsman_sums (
        slot bigint not null,
        node text not null,
        ledger bytea not null,
        -- Empty where there is none.
        account text not null,
        key text not null,
        team text not null,
        model text not null,
        provider text not null,
        alias text not null,
        objective text not null,
        task text not null,
        requests bigint not null,
        failed bigint not null,
        unknown_costs bigint not null,
        prompt_tokens bigint not null,
        completion_tokens bigint not null,
        cached_tokens bigint not null,
        reasoning_tokens bigint not null,
        cache_write_tokens bigint not null,
        cache_write_1h_tokens bigint not null,
        audio_tokens bigint not null,
        audio_output_tokens bigint not null,
        images bigint not null,
        web_searches bigint not null,
        input_nanos bigint not null,
        cache_nanos bigint not null,
        output_nanos bigint not null,
        lost_nanos bigint not null,
        cost numeric not null,
        primary key (slot, node, ledger, account, key, team, model, provider, alias, objective, task)
    );

    -- The views of the ledger on disk, so that a query works on both. A schema that has something else of that name keeps it.
    do $$ begin
        if to_regclass('generations') is null then
            create view generations as
            select
                'gen-' || (created_ms / 1000) || '-' || encode(substring(id from 9 for 22), 'escape') as id,
                created_ms,
                to_char(to_timestamp(created_ms / 1000.0) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as created_at,
                to_char(to_timestamp(created_ms / 1000) at time zone 'UTC', 'YYYY-MM-DD') as day,
                account, key, team, model, provider,
                case when provider is not null then model || '@' || provider || coalesce('/' || variant, '') end as endpoint,
                alias, objective, task, status, requested_model, cause,
                coalesce(events, 0) & 1 as rescued,
                coalesce(events, 0) >> 1 & 1 as hedged,
                coalesce(events, 0) >> 2 & 1 as explored,
                coalesce(events, 0) >> 3 & 1 as missed_target,
                coalesce(events, 0) >> 4 & 1 as slower_than_predicted,
                prompt_tokens, completion_tokens,
                coalesce(cached_tokens, 0) as cached_tokens,
                coalesce(reasoning_tokens, 0) as reasoning_tokens,
                coalesce(cache_write_tokens, 0) as cache_write_tokens,
                coalesce(cache_write_1h_tokens, 0) as cache_write_1h_tokens,
                coalesce(audio_tokens, 0) as audio_tokens,
                coalesce(audio_output_tokens, 0) as audio_output_tokens,
                coalesce(images, 0) as images,
                coalesce(web_searches, 0) as web_searches,
                first_token_ms, duration_ms, cost,
                trunc(cost * 1000000000)::bigint as cost_nanos,
                coalesce(cost_unknown, 0) as cost_unknown
            from pointsman_records;
        end if;
        if to_regclass('activity') is null then
            create view activity as
            select
                slot * 900000 as slot_ms,
                to_char(to_timestamp(slot * 900) at time zone 'UTC', 'YYYY-MM-DD') as day,
                account, nullif(key, '') as key, nullif(team, '') as team, model, nullif(provider, '') as provider,
                nullif(alias, '') as alias, objective, nullif(task, '') as task,
                sum(requests)::bigint as requests,
                sum(failed)::bigint as failed,
                sum(prompt_tokens)::bigint as prompt_tokens,
                sum(completion_tokens)::bigint as completion_tokens,
                sum(cached_tokens)::bigint as cached_tokens,
                sum(reasoning_tokens)::bigint as reasoning_tokens,
                sum(cache_write_tokens)::bigint as cache_write_tokens,
                sum(cache_write_1h_tokens)::bigint as cache_write_1h_tokens,
                sum(audio_tokens)::bigint as audio_tokens,
                sum(audio_output_tokens)::bigint as audio_output_tokens,
                sum(images)::bigint as images,
                sum(web_searches)::bigint as web_searches,
                sum(unknown_costs)::bigint as unknown_costs,
                sum(cost) as cost,
                trunc(sum(cost) * 1000000000)::bigint as cost_nanos
            from pointsman_sums
            group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10;
        end if;
    end $$;
"];

/// Takes the steps that were not taken yet.
///
/// # Errors
/// The server refuses.
pub async fn extend(client: &mut Client) -> Result<(), tokio_postgres::Error> {
    const HIGHEST: &str = "select coalesce(max(step), 0)::bigint from pointsman_steps";
    // Without the lock first, so that an ordinary start waits for nobody.
    let exists = client.query_typed_one("select to_regclass('pointsman_steps') is not null", &[]).await?;
    if exists.get::<_, bool>(0) && client.query_typed_one(HIGHEST, &[]).await?.get::<_, i64>(0) >= STEPS.len() as i64 {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    transaction.query_typed("select pg_advisory_xact_lock($1)", &[(&STEPS_LOCK, Type::INT8)]).await?;
    let table = "create table if not exists pointsman_steps (step bigint primary key, at timestamptz default now())";
    transaction.batch_execute(table).await?;
    let taken: i64 = transaction.query_typed_one(HIGHEST, &[]).await?.get(0);
    for (number, step) in (1_i64..).zip(STEPS).filter(|(number, _)| *number > taken) {
        transaction.batch_execute(step).await?;
        let taken = "insert into pointsman_steps (step) values ($1)";
        transaction.execute_typed(taken, &[(&number, Type::INT8)]).await?;
        log::info!("PostgreSQL: step {number} of the tables was taken");
    }
    transaction.commit().await
}
