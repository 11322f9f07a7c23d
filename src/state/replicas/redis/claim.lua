-- Claims the name of a replica for a process, and tells what this Redis knows of leases.
--
-- KEYS  1: who has the name   2: the run of this Redis   3: the limits of which this Redis knows the leases, a sorted set of their
--       keys with the time after which they are forgotten; beside them 'settled', the time from which leases are given, and
--       'lost', the time at which those of one limit were missing. The latter two are negative, so that they stay
-- ARGV  1: the process   2: time for which it has the name, ms   3: the run of this Redis on a new connection, else empty
--       4: time in which no lease is given after a start, ms
-- Gives {1 if the process has the name, a word that is another one after leases were lost}
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {0, ''}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local settled = redis.call('ZSCORE', KEYS[3], 'settled')
if not settled or ARGV[3] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[3] then
  local time = redis.call('TIME')
  settled = string.format('%.0f', -(time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[4]))
  redis.call('ZADD', KEYS[3], settled, 'settled')
end
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[2], ARGV[3])
end
return {1, settled .. ' ' .. (redis.call('ZSCORE', KEYS[3], 'lost') or '')}
