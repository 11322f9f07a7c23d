-- Tries the commands of claim.lua and lease.lua one by one: within a script Redis does not name the one that it refuses.
--
-- KEYS  1, 2, 3: names that nobody else uses
-- Gives {the commands that are refused, why the last of them is}
local refused, why = {}, ''
for _, command in ipairs({
  {'set', KEYS[1], 1, 'PX', 1000}, {'get', KEYS[1]}, {'del', KEYS[1]}, {'time'},
  {'hset', KEYS[2], 'a', 1}, {'hget', KEYS[2], 'a'}, {'hgetall', KEYS[2]}, {'pexpireat', KEYS[2], 1},
  {'zadd', KEYS[3], 1, 'a'}, {'zscore', KEYS[3], 'a'}, {'zremrangebyscore', KEYS[3], 1, 1},
}) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then
    refused[#refused + 1] = "'" .. command[1] .. "'"
    why = answer.err
  end
end
return {table.concat(refused, ', '), why}
