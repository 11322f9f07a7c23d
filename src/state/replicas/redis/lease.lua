-- Reports what a replica keeps and used of a spending limit, and gives it more of the limit if nobody else has it.
-- Amounts are millionths of a dollar.
--
-- KEYS  1: the leases of this limit and period, a hash of replicas   2: the limits of which this Redis knows leases, see claim.lua
-- ARGV  1: replica  2: number of the report  3: kept  4: used  5: spent  6: least that helps  7: wished  8: limit
--       9: expiry, ms  10: time in which no lease is given after a start, ms  11: end of the period, Unix ms, or 0
--       12: what it may use before its next report
-- Gives {stored number of the report, kept, spent by others, used by others, 1 if another replica needs what is not used}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local node, seq = ARGV[1], tonumber(ARGV[2])
local kept, used, spent = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local need, want, limit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local expiry, settle, ends = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local ceiling = tonumber(ARGV[12])

-- After a start Redis may have forgotten leases: replicas report theirs before any new one is given.
local settled = -(redis.call('ZSCORE', KEYS[2], 'settled') or 0)
if settled == 0 then
  settled = now + settle
  redis.call('ZADD', KEYS[2], string.format('%.0f', -settled), 'settled')
end
local all = redis.call('HGETALL', KEYS[1])
if #all == 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now)
  -- Those of this limit alone were deleted or evicted: the same for it.
  if redis.call('ZSCORE', KEYS[2], KEYS[1]) then
    redis.call('ZADD', KEYS[2], string.format('%.0f', -now), 'lost')
    redis.call('HSET', KEYS[1], ':settled', string.format('%.0f', now + settle))
  end
end
settled = math.max(settled, redis.call('HGET', KEYS[1], ':settled') or 0)

local others_kept, others_spent, others_used, own, hungry = 0, 0, 0, -1, false
for at = 1, #all, 2 do
  local s, k, u, p, seen, h, c = string.match(all[at + 1], '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)')
  if all[at] == node then
    own = tonumber(s)
  elseif s then
    k, u, c, seen = tonumber(k), tonumber(u), tonumber(c), tonumber(seen)
    -- A replica that is gone keeps what it may have used; the rest comes back. One that did not report since Redis started, the
    -- moment of the first report included, was without Redis and may have used all of it.
    if now - seen > expiry and seen >= settled - settle then k = math.min(k, c) end
    others_kept = others_kept + k
    others_used = others_used + u
    others_spent = others_spent + tonumber(p)
    if now - tonumber(h) < 2000 then hungry = true end
  end
end
if seq <= own then
  return {own, -1, others_spent, others_used, 0}
end

local asks = 0
if want > kept then
  local free = limit - others_kept
  if now >= settled and free >= need then
    kept = math.max(kept, math.min(want, free))
  elseif kept < need then
    asks = now
  end
end
ceiling = math.max(used, math.min(ceiling, kept))
local format = string.format
local fields = format('%.0f:%.0f:%.0f:%.0f:%.0f:%.0f:%.0f', seq, kept, used, spent, now, asks, ceiling)
redis.call('HSET', KEYS[1], node, fields)
local forgotten = 'inf'
if ends > 0 then
  forgotten = format('%.0f', ends + 86400000)
  redis.call('PEXPIREAT', KEYS[1], forgotten)
end
redis.call('ZADD', KEYS[2], forgotten, KEYS[1])
return {seq, kept, others_spent, others_used, hungry and 1 or 0}
