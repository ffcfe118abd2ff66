-- Fills the shop with seeded, structured data: `sysbench fill.lua … prepare`, called by fill.sh.

local text = require("text")
local tables = require("tables")

sysbench.cmdline.options = {
   scale = { "Size of the data; 1 makes about 350 MB", 1.0 },
   seed = { "Seed of the generator", 1 },
}

-- The rows of a batch depend only on the seed and the batch's position, not on the thread that generates it.
local function fill_batch(connection, number, plan, first, last, scale)
   local random = text.generator(sysbench.opt.seed * 1000003 + number * 65537 + first)
   local rows = {}
   for id = first, last do rows[#rows + 1] = plan.row(random, id, scale) end
   connection:query("INSERT INTO " .. plan.name .. " VALUES " .. table.concat(rows, ","))
end

local function create()
   local connection = sysbench.sql.driver():connect()
   connection:query("SET SESSION sql_log_bin = 0")
   for _, plan in ipairs(tables.list) do
      connection:query("CREATE TABLE " .. plan.name .. " (" .. plan.schema .. ") ENGINE=InnoDB")
   end
   -- sysbench exits with status 0 even if a thread fails, so each thread inserts a row when it has finished.
   connection:query("CREATE TABLE filled (thread INT NOT NULL PRIMARY KEY) ENGINE=InnoDB")
   connection:disconnect()
end

-- Assigns whole tables, the largest first, each to the thread with the least work. One thread writes a table in the
-- order of its key: two threads would split each other's pages and leave them half empty.
local function my_tables()
   local order, load, mine = {}, {}, {}
   for number, plan in ipairs(tables.list) do order[number] = { number = number, plan = plan } end
   table.sort(order, function(a, b) return a.plan.effort > b.plan.effort end)
   for thread = 0, sysbench.opt.threads - 1 do load[thread] = 0 end
   for _, entry in ipairs(order) do
      local idlest = 0
      for thread = 1, sysbench.opt.threads - 1 do
         if load[thread] < load[idlest] then idlest = thread end
      end
      load[idlest] = load[idlest] + entry.plan.effort
      if idlest == sysbench.tid then mine[#mine + 1] = entry end
   end
   return mine
end

local function fill()
   local connection = sysbench.sql.driver():connect()
   connection:query("SET SESSION sql_log_bin = 0")
   for _, entry in ipairs(my_tables()) do
      local plan, scale = entry.plan, sysbench.opt.scale
      local rows = math.floor(plan.rows * scale)
      for first = 1, rows, plan.batch do
         fill_batch(connection, entry.number, plan, first, math.min(first + plan.batch - 1, rows), scale)
      end
   end
   connection:query("INSERT INTO filled VALUES (" .. sysbench.tid .. ")")
   connection:disconnect()
end

sysbench.cmdline.commands = {
   create = { create },
   prepare = { fill, sysbench.cmdline.PARALLEL_COMMAND },
}
