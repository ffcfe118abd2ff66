-- A bulk load: `sysbench bulk.lua … run`. Each thread creates its own tables, similar to some of the shop's, and
-- inserts rows in batches, in the order of the primary key. Every table has an index on the customer, whose entries
-- are inserted at random positions; events and orders also have one on the time, which grows at its end. One event
-- is one batch and one transaction.

local durations = require("durations")
local shop = require("tables")
local text = require("text")

sysbench.cmdline.options = {
   seed = { "Seed of the generator", 1 },
   batch = { "Rows of a transaction", 100 },
   log = durations.option,
}

-- The tables that are loaded in turn, and additions to the shop's schema.
local TURNS = { "events", "orders", "messages" }
local ADDED = { events = ", KEY at (at)", orders = ", KEY placed (placed)", messages = "" }
-- Scale of the shop whose customers the rows refer to.
local SCALE = 1

function thread_init()
   connection = sysbench.sql.driver():connect()
   random = text.generator(sysbench.opt.seed * 7919 + sysbench.tid)
   log = durations.open()
   loads, turn = {}, 0
   for _, plan in ipairs(shop.list) do
      if ADDED[plan.name] then
         local name = string.format("bulk_%s_%d", plan.name, sysbench.tid)
         connection:query(string.format("CREATE TABLE %s (%s%s) ENGINE=InnoDB", name, plan.schema, ADDED[plan.name]))
         loads[plan.name] = { name = name, row = plan.row, id = 0 }
      end
   end
end

function thread_done()
   connection:disconnect()
   if log then log:close() end
end

-- The statement is built before the clock starts, as if the client read it from a file.
local function next_batch()
   turn = turn % #TURNS + 1
   local into, rows = loads[TURNS[turn]], {}
   for i = 1, sysbench.opt.batch do
      into.id = into.id + 1
      rows[i] = into.row(random, into.id, SCALE)
   end
   return "INSERT INTO " .. into.name .. " VALUES " .. table.concat(rows, ",")
end

function event()
   local statement = next_batch()
   durations.timed(log, function() connection:query(statement) end)
end
