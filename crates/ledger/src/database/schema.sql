-- The tables are private: a later version may change them. The views `generations` and `activity` are for everybody; columns
-- are only ever added to them (docs/LEDGER.md).
create table names (id integer primary key, text text not null unique) strict;
-- `place` is the time in milliseconds with 21 bits of the id below: look-up, order of lists and age need no index.
create table stored_generations (
    place integer primary key,
    tail not null,
    record integer not null,
    account integer not null,
    key integer not null,
    team integer not null,
    model integer not null,
    provider integer not null,
    alias integer not null,
    objective integer not null,
    task integer not null,
    status integer not null,
    requested_model integer not null,
    cause integer not null,
    variant integer not null,
    events integer not null,
    prompt_tokens integer,
    completion_tokens integer,
    cached_tokens integer,
    reasoning_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    audio_tokens integer,
    audio_output_tokens integer,
    images integer,
    web_searches integer,
    input_nanos integer,
    cache_nanos integer,
    output_nanos integer,
    lost_nanos integer,
    first_token_ms integer,
    duration_ms integer,
    cost_nanos integer not null,
    cost_rest integer not null,
    cost_unknown integer not null
);
create table stored_records (id integer primary key, newest_ms integer not null, bytes blob not null) strict;
create index stored_records_newest on stored_records (newest_ms);
create table stored_sums (
    slot integer not null,
    account integer not null,
    key integer not null,
    team integer not null,
    model integer not null,
    provider integer not null,
    alias integer not null,
    objective integer not null,
    task integer not null,
    requests integer not null,
    failed integer not null,
    unknown_costs integer not null,
    prompt_tokens integer not null,
    completion_tokens integer not null,
    cached_tokens integer not null,
    reasoning_tokens integer not null,
    cache_write_tokens integer not null,
    cache_write_1h_tokens integer not null,
    audio_tokens integer not null,
    audio_output_tokens integer not null,
    images integer not null,
    web_searches integer not null,
    input_nanos integer not null,
    cache_nanos integer not null,
    output_nanos integer not null,
    lost_nanos integer not null,
    cost_nanos integer not null,
    cost_rest integer not null,
    primary key (slot, account, key, team, model, provider, alias, objective, task)
) strict, without rowid;
create table versions (hash blob primary key, bytes blob not null, used_ms integer) strict;
create table watermarks (segment text primary key, place integer not null) strict, without rowid;
-- 15 minutes of which records were deleted on request: their sums count more than is stored.
create table deletions (slot integer primary key) strict;
create table state (
    id integer primary key,
    identity blob not null,
    run integer not null,
    ordinal integer not null,
    next_group integer not null,
    entries integer not null,
    stored integer not null,
    aged_out_ms integer
) strict;
insert into state values (1, randomblob(16), 0, 0, 0, 0, 0, null);

create view generations as
select
    'gen-' || ((s.place >> 21) / 1000) || '-' || s.tail as id,
    s.place >> 21 as created_ms,
    strftime('%Y-%m-%dT%H:%M:%fZ', (s.place >> 21) / 1000.0, 'unixepoch') as created_at,
    date((s.place >> 21) / 1000, 'unixepoch') as day,
    account.text as account,
    key.text as key,
    team.text as team,
    model.text as model,
    provider.text as provider,
    model.text || '@' || provider.text || coalesce('/' || variant.text, '') as endpoint,
    alias.text as alias,
    objective.text as objective,
    task.text as task,
    status.text as status,
    requested_model.text as requested_model,
    cause.text as cause,
    s.events & 1 as rescued,
    s.events >> 1 & 1 as hedged,
    s.events >> 2 & 1 as explored,
    s.events >> 3 & 1 as missed_target,
    s.events >> 4 & 1 as slower_than_predicted,
    coalesce(s.prompt_tokens, 0) as prompt_tokens,
    coalesce(s.completion_tokens, 0) as completion_tokens,
    coalesce(s.cached_tokens, 0) as cached_tokens,
    coalesce(s.reasoning_tokens, 0) as reasoning_tokens,
    coalesce(s.cache_write_tokens, 0) as cache_write_tokens,
    coalesce(s.cache_write_1h_tokens, 0) as cache_write_1h_tokens,
    coalesce(s.audio_tokens, 0) as audio_tokens,
    coalesce(s.audio_output_tokens, 0) as audio_output_tokens,
    coalesce(s.images, 0) as images,
    coalesce(s.web_searches, 0) as web_searches,
    s.first_token_ms as first_token_ms,
    s.duration_ms as duration_ms,
    s.cost_nanos / 1e9 + s.cost_rest / 1e15 as cost,
    s.cost_nanos as cost_nanos,
    s.cost_unknown as cost_unknown
from stored_generations s
left join names account on account.id = s.account
left join names key on key.id = s.key
left join names team on team.id = s.team
left join names model on model.id = s.model
left join names provider on provider.id = s.provider
left join names alias on alias.id = s.alias
left join names objective on objective.id = s.objective
left join names task on task.id = s.task
left join names status on status.id = s.status
left join names requested_model on requested_model.id = s.requested_model
left join names cause on cause.id = s.cause
left join names variant on variant.id = s.variant;

-- Sums of 15 minutes. `slot_ms` is null for those of long ago.
create view activity as
select
    case when s.slot > -9000000000000000000 then s.slot * 900000 end as slot_ms,
    case when s.slot > -9000000000000000000 then date(s.slot * 900, 'unixepoch') end as day,
    account.text as account,
    key.text as key,
    team.text as team,
    model.text as model,
    provider.text as provider,
    alias.text as alias,
    objective.text as objective,
    task.text as task,
    s.requests as requests,
    s.failed as failed,
    s.prompt_tokens as prompt_tokens,
    s.completion_tokens as completion_tokens,
    s.cached_tokens as cached_tokens,
    s.reasoning_tokens as reasoning_tokens,
    s.cache_write_tokens as cache_write_tokens,
    s.cache_write_1h_tokens as cache_write_1h_tokens,
    s.audio_tokens as audio_tokens,
    s.audio_output_tokens as audio_output_tokens,
    s.images as images,
    s.web_searches as web_searches,
    s.unknown_costs as unknown_costs,
    s.cost_nanos / 1e9 + s.cost_rest / 1e15 as cost,
    s.cost_nanos as cost_nanos
from stored_sums s
left join names account on account.id = s.account
left join names key on key.id = s.key
left join names team on team.id = s.team
left join names model on model.id = s.model
left join names provider on provider.id = s.provider
left join names alias on alias.id = s.alias
left join names objective on objective.id = s.objective
left join names task on task.id = s.task;
pragma user_version = 3;
